#ifndef SWEEPER_REPORT_GAUGE_H
#define SWEEPER_REPORT_GAUGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/queue.h"
#include "sweeper/core/core.h"
#include "sweeper/report/growth.h"

struct age_clock;
struct redis_reply;

/*
 * The result of measuring a queue. -1: not known. Ages are proven (common/message/age.h), so never too high. The age of a
 * message in flight is the time of its run; if its owner is dead, the time since the death.
 */
struct gauge_list {
	int64_t size, oldest_ms, average_ms, stuck;	/* stuck: messages at least as old as health.thresholds.stuck_age, as far as ages are known */
};

struct gauge {
	int64_t at_ms;			/* ms since 1970 by the clock of Redis; 0: never measured */
	int64_t taken_ms;		/* CLOCK_MONOTONIC */
	struct gauge_list ingress, transit, escape;
	int64_t delayed;
	int64_t paused_ms;		/* for how long it has been paused; 0: not paused */
	int64_t workers, active;	/* owners with a lease; those of them with messages in flight */
	int64_t orphan_owners;		/* registered as alive, without a lease */
	int64_t orphans;		/* messages of owners without a lease, in rescue lists, and in the bare list */
	bool rated;			/* rate is known */
	struct queue_figures rate;	/* of the last whole minute, all hosts; gauge_rated_minute() */
	bool judged;			/* health was due when it was taken, and judges it. Otherwise it has no attempts and failures */
	int64_t attempts, failures;	/* attempts that ended in failure_window, all hosts; those of them that failed; -1: not known */
	int64_t enqueued;		/* messages pushed in a minute, estimated over the last minute or a little more */
};

/* The state of the task metrics in a queue. */
struct metrics_state {
	struct gauge gauge;		/* result of the last look */
	struct growth growth;
	int64_t pause_seen_ms;		/* CLOCK_MONOTONIC: since when looks find it paused; 0: not paused */
};

#define MINUTE_MS 60000
static inline int64_t gauge_rated_minute(const struct gauge *g)	/* minutes since 1970 */
{
	return g->at_ms / MINUTE_MS - 1;
}

extern const struct task metrics_task;

static inline struct metrics_state *metrics_of(const struct sweeper_queue *q)
{
	return task_state(q, &metrics_task);
}

static inline struct gauge *gauge_of(const struct sweeper_queue *q)
{
	return &metrics_of(q)->gauge;
}

/* The limits of the queue: its own, or the global ones if it is not configured here. */
static inline const struct conf_thresholds *gauge_thresholds(const struct sweeper *s, const struct sweeper_queue *q)
{
	return q->conf != NULL ? &q->conf->health.thresholds : &s->conf->health.thresholds;
}

/*
 * Measures the queue. 0; -1: an answer could not be used (s->connection.error). The rest of g is valid, unless the connection is closed.
 * at_ms stays 0 if too little is known of the server's clock.
 */
int gauge_take(struct sweeper *s, struct sweeper_queue *q, struct gauge *g);

/* Reads only the sizes, and no age. Returns as gauge_take(). */
int gauge_sizes(struct sweeper *s, struct sweeper_queue *q, struct gauge *g);

/* gauge_waiting.c: ingress, whose size is given, with its ages. *wrong becomes true if an answer could not be used */
#define GAUGE_FIRST 16		/* entries at the pop end that are read with the sizes */
struct gauge_list gauge_waiting(struct sweeper *s, struct sweeper_queue *q, int64_t size, const struct age_clock *clock,
    const struct redis_reply *first, bool *wrong);

#endif
