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
 * The result of measuring a queue: the figures of FACT_OF_QUEUE. Ages are proven (common/message/age.h), so never too
 * high. The age of a message in flight is the time of its run; if its owner is dead, the time since the death.
 * FACT_PAUSED is in ms.
 */
struct gauge {
	int64_t at_ms;			/* ms since 1970 by the clock of Redis; 0: never measured */
	int64_t taken_ms;		/* CLOCK_MONOTONIC */
	struct facts facts;
	/* health was due when it was taken, and judges it. Otherwise it has no FACT_ATTEMPTS and no FACT_FAILURES */
	bool judged;
};

/* The state of the task metrics in a queue. */
struct metrics_state {
	struct gauge gauge;		/* result of the last look */
	struct growth growth;
	/* why attempts failed in failure_window, by the last look that health judged; NULL: none did */
	struct queue_failed *failed;
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
 * Measures the queue. 0; -1: an answer could not be used (s->connection.error). The rest of g is valid, unless the
 * connection is closed. at_ms stays 0 if too little is known of the server's clock.
 */
int gauge_take(struct sweeper *s, struct sweeper_queue *q, struct gauge *g);

/* Reads only the sizes, and no age. Returns as gauge_take(). */
int gauge_sizes(struct sweeper *s, struct sweeper_queue *q, struct gauge *g);

/* gauge_waiting.c: sets the ages in ingress, whose size is known. *wrong becomes true if an answer could not be used */
#define GAUGE_FIRST 16		/* entries at the pop end that are read with the sizes */
void gauge_waiting(struct sweeper *s, struct sweeper_queue *q, struct facts *f, const struct age_clock *clock,
    const struct redis_reply *first, bool *wrong);

#endif
