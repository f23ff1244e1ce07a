#ifndef ADMIN_TREND_WAITS_H
#define ADMIN_TREND_WAITS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Estimates how long messages waited in ingress before they were fetched. Most messages say nothing about their age, so the estimate comes from the
 * queue as a whole: the message that is the n-th to leave is the n-th that came. The number of those that had come at some time is the number of those that had
 * left plus the backlog. It assumes that within a minute messages come and leave evenly, so it has whole minutes. Messages that leave another way
 * (deleted, or fetched by another program) are seen only when the backlog falls. Pure: no clock, no Redis.
 */
struct waits_minute {
	int64_t backlog;	/* the most messages that waited; QUEUE_BACKLOG_UNKNOWN */
	int64_t left;		/* messages that were fetched, or left ingress another way that is counted; below 0: more came back */
};

struct waits;

/* n consecutive minutes, which it copies. The caller frees the result with waits_free(). */
struct waits *waits_new(const struct waits_minute *minutes, size_t n);
void waits_free(struct waits *w);

/*
 * The minute in which the oldest message came of those that left from index first on; n: none left. 0: it may have come earlier, so the minutes before
 * are needed, too. Without them it counts as if it came in the first minute with a known backlog.
 */
size_t waits_oldest(const struct waits *w, size_t first);

#define WAITS_NONE (-1)		/* nothing left */
#define WAITS_UNKNOWN (-2)	/* too many left before the first minute with a known backlog */
/*
 * The number of minutes, at least 1, below which so many percent of those waited that left in n minutes from index first on; WAITS_NONE,
 * WAITS_UNKNOWN.
 */
int64_t waits_below_minutes(const struct waits *w, size_t first, size_t n, int percent);

#endif
