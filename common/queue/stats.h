#ifndef COMMON_QUEUE_STATS_H
#define COMMON_QUEUE_STATS_H

#include <stdint.h>

#include "common/board/board.h"
#include "common/queue/moves.h"

/*
 * The figures of a queue for all hosts (docs/design.md): totals in quredis:of:<ingress>:stats, and the same for each
 * minute of the last 72 hours in quredis:of:<ingress>:rate:<minute>, counted since 1970 by the clock of Redis. Fields:
 * the names of the counters; durations of handlers, "below_<ms>", "longer" and their sum "duration_ms"; and how late
 * the sweeper moved messages that were due or had expired, "lag_below_<ms>", "lag_longer" and "lag_ms"; and
 * "class:<name>", dead letters by the class that their handler named. A missing field counts as 0.
 */
#define QUEUE_RATE_MINUTES (72 * 60)
#define QUEUE_RATE_KEPT_MS (INT64_C(60000) * QUEUE_RATE_MINUTES)
#define QUEUE_FIGURES SCOREBOARD_FIGURES

/*
 * -> INTEGER 1. Fields that are 0 are left out. If all are 0, sends nothing, gets no answer, and returns false.
 * classes: CLASS_FIGURES of them; those that are 0 are left out. Redis counts at most CLASS_NAMES names, too, over all
 * hosts and for ever.
 */
bool queue_tally(struct redis *r, const struct queue_keys *k, int64_t minute, const struct queue_figures *done,
    const struct class_figure *classes);

/* -> ARRAY for queue_figures_parse(), which ignores unknown fields and values that are no number. */
void queue_totals(struct redis *r, const struct queue_keys *k);
void queue_rate(struct redis *r, const struct queue_keys *k, int64_t minute);
/* A greater count is not ours: another program wrote it. The bound keeps sums and percentages in range. */
#define QUEUE_STATS_COUNT_MOST INT64_C(1000000000000000)
int64_t queue_stats_count(const struct redis_reply *value);	/* 0: no number above 0 */
void queue_figures_parse(struct queue_figures *out, const struct redis_reply *reply);
/* Calls `each` for every class that a handler named, with its count. */
void queue_classes_parse(const struct redis_reply *reply, void (*each)(void *arg, const char *class, uint64_t n),
    void *arg);

/*
 * The backlog, how many messages wait in ingress, for each minute of the last 72 hours:
 * quredis:of:<ingress>:backlog:<hour> has a field for each minute of that hour, 0 to 59, with the most that any host
 * saw. Every host that serves the queue looks at the same list several times a minute, so the values of several hosts
 * need no sum. No field: no supervisor looked, so the backlog is not known. Hours count since 1970, by the clock of
 * Redis.
 */
#define QUEUE_HOUR_MINUTES 60
#define QUEUE_BACKLOG_HOURS (QUEUE_RATE_MINUTES / QUEUE_HOUR_MINUTES)
#define QUEUE_BACKLOG_UNKNOWN (-1)
/* minute: since 1970. -> INTEGER: the backlog now */
void queue_backlog_note(struct redis *r, const struct queue_keys *k, int64_t minute);
/* -> ARRAY for queue_backlog_parse() */
void queue_backlog(struct redis *r, const struct queue_keys *k, int64_t hour);
void queue_backlog_parse(int64_t out[QUEUE_HOUR_MINUTES], const struct redis_reply *reply);

/* Messages that left ingress, less those that were put back to its pop end. Not counted: what other programs fetch, and
 * what operators delete */
int64_t queue_left_ingress(const struct queue_figures *f);

/* How attempts ended, in total or in one minute. */
struct queue_outcomes {
	int64_t done, failed;	/* failed: also the attempts after which the message was retried; failed.h says why */
};
#define QUEUE_TOTALS (-1)	/* in place of a minute */
/* -> ARRAY for queue_outcomes_parse() */
void queue_outcomes(struct redis *r, const struct queue_keys *k, int64_t minute);
/* false: unexpected. What is no number counts as 0 */
bool queue_outcomes_parse(struct queue_outcomes *out, const struct redis_reply *reply);

/* the same in an answer of queue_rate() or queue_totals() */
bool queue_outcomes_in(struct queue_outcomes *out, const struct redis_reply *reply);

/* The time in ms below which so many percent of the handlers ran: the bound of a bucket; 0: above the last bound; -1:
 * none ran */
int64_t queue_percentile(const struct queue_figures *f, int percent);
int64_t queue_lag_percentile(const struct queue_figures *f, int percent);	/* the same of the sweeper's lag */

#endif
