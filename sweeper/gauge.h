#ifndef SWEEPER_GAUGE_H
#define SWEEPER_GAUGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue_stats.h"
#include "sweeper/task.h"

struct age_clock;
struct redis_reply;

/*
 * What a look found in one queue. -1: not known. Ages are proven (common/age.h), so never too high. Of what is in
 * work here the running handler's time counts, of what a dead owner held the time since its death.
 */
struct gauge_list {
	int64_t size, oldest_ms, average_ms, stuck;	/* stuck: so old as health.thresholds.stuck_age, as far as ages are known */
};

struct gauge {
	int64_t at_ms;			/* the server's ms since 1970; 0: none was taken yet */
	int64_t taken_ms;		/* CLOCK_MONOTONIC */
	struct gauge_list ingress, transit, escape;
	int64_t delayed;
	int64_t paused_ms;		/* for how long; 0: it is not */
	int64_t workers, active;	/* owners with a lease; those of them that hold something */
	int64_t orphan_owners;		/* registered as alive, without a lease */
	int64_t orphans;		/* messages of owners without a lease, on their way back, in the bare list */
	bool rated;			/* rate is known */
	struct queue_figures rate;	/* of the last whole minute, all hosts */
	int64_t enqueued;		/* a minute, about: over the last minute or so */
};

/* What is remembered of ingress for that, from one look to another that is a minute later. Zeroed: nothing. */
struct arrivals {
	int64_t at_ms;			/* the server's */
	int64_t size;
	int64_t taken;			/* out of it since ever, less what went back into it; all hosts */
	int64_t a_minute;
};

/* The state of the task metrics in a queue. */
struct metrics_state {
	struct gauge gauge;		/* the last look */
	struct arrivals arrivals;
	int64_t pause_seen_ms;		/* CLOCK_MONOTONIC: since when a look finds it paused; 0: it is not */
};

static inline struct metrics_state *metrics_of(const struct swept *q)
{
	return task_state(q, TASK_metrics);
}

static inline struct gauge *gauge_of(const struct swept *q)
{
	return &metrics_of(q)->gauge;
}

/* Looks. 0; -1: something could not be read (s->error), the rest of g is good, unless the connection is closed. at_ms
 * stays 0 if too little is known of the server's clock. */
int gauge_take(struct sweeper *s, struct swept *q, struct gauge *g);

/* Only how many messages are where, and no age. The same */
int gauge_sizes(struct sweeper *s, struct swept *q, struct gauge *g);

/* gauge_waiting.c: ages in ingress; g->ingress.size is known. 0, -1 as above */
#define GAUGE_FIRST 16		/* entries at the pop end that are read with the sizes */
int gauge_waiting(struct sweeper *s, struct swept *q, struct gauge *g, const struct age_clock *clock, const struct redis_reply *first);

#endif
