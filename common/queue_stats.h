#ifndef COMMON_QUEUE_STATS_H
#define COMMON_QUEUE_STATS_H

#include <stdint.h>

#include "common/queue.h"
#include "common/scoreboard.h"

/*
 * What was done with a queue by all hosts (docs/design.md): totals in <ingress>:stats, and the same of each
 * minute of the last 72 hours in <ingress>:rate:<minute>, counted since 1970 by the server's clock. Fields:
 * counter_names of the scoreboard; durations of handlers, "below_<ms>", "longer" and their sum "duration_ms"; and how late
 * the sweeper moved what was due or expired, "lag_below_<ms>", "lag_longer" and "lag_ms". A field that is not there is 0.
 */
#define QUEUE_RATE_MINUTES (72 * 60)
#define QUEUE_FIGURES SCOREBOARD_FIGURES

struct queue_figures {		/* as in the scoreboard: enum counter, enum figure */
	uint64_t n[QUEUE_FIGURES];
};

/* -> INTEGER 1. Fields that are 0 are left out; all 0: sends nothing, and there is no answer: returns false. */
bool queue_tally(struct redis *r, const struct queue_keys *k, int64_t minute, const struct queue_figures *done);

/* -> ARRAY for queue_figures_parse(). Fields it does not know, and values that are no number, are left out. */
void queue_totals(struct redis *r, const struct queue_keys *k);
void queue_rate(struct redis *r, const struct queue_keys *k, int64_t minute);
void queue_figures_parse(struct queue_figures *out, const struct redis_reply *reply);

/* So many percent of the handlers ran for less ms: the bound of a bucket; 0: longer than the last; -1: none ran */
int64_t queue_percentile(const struct queue_figures *f, int percent);
int64_t queue_lag_percentile(const struct queue_figures *f, int percent);	/* the same of the sweeper's lag */

#endif
