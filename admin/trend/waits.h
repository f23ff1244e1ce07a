#ifndef ADMIN_TREND_WAITS_H
#define ADMIN_TREND_WAITS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Estimates how long messages waited in ingress before they were fetched. Most messages say nothing about their age, so
 * the estimate comes from the queue as a whole: the n-th message that leaves is the n-th that came, and at any time as
 * many messages had come as had left plus the backlog. It assumes that messages come and leave evenly within a minute,
 * so its results are whole minutes. Messages that leave in another way (deleted, or fetched by another program) are
 * seen only when the backlog falls. Pure: no clock, no Redis.
 */
struct waits_minute {
	int64_t backlog;	/* the most messages that waited; QUEUE_BACKLOG_UNKNOWN */
	int64_t left;		/* queue_left_ingress(): below 0 if more messages came back than left */
};

struct waits;

/* n consecutive minutes, which it copies. The caller frees the result with waits_free(). */
struct waits *waits_new(const struct waits_minute *minutes, size_t n);
void waits_free(struct waits *w);

/*
 * Looks at the messages that left in minute `first` or later. Returns the minute in which the oldest of them came; n:
 * no message left. 0: it may have come before all these minutes, so earlier ones are needed. Without those it counts as
 * if it came in the first minute with a known backlog.
 */
size_t waits_oldest(const struct waits *w, size_t first);

#define WAITS_NONE (-1)		/* no message left */
#define WAITS_UNKNOWN (-2)	/* too many left before the first minute with a known backlog */
/*
 * Looks at the messages that left in the n minutes from `first` on. Returns the least number of minutes, at least 1,
 * such that `percent` of these messages waited less; or WAITS_NONE, WAITS_UNKNOWN.
 */
int64_t waits_below_minutes(const struct waits *w, size_t first, size_t n, int percent);

#endif
