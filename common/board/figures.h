#ifndef COMMON_BOARD_FIGURES_H
#define COMMON_BOARD_FIGURES_H

#include <stdint.h>

/* The counters of each queue. The order matters only for the words on the scoreboard: Redis and metrics use the names. */
enum counter {
	COUNT_FETCHED, COUNT_DONE, COUNT_FAILED, COUNT_RETRIED, COUNT_ESCAPED, COUNT_TIMED_OUT, COUNT_HANDED_BACK,
	COUNT_REDELIVERED, COUNT_CLAIM_LOST, COUNT_UNRUNNABLE, COUNT_RECONNECTED,
	COUNT_STRAY_ANSWERS,	/* lines of handlers with the form of an answer, to no unanswered job */
	COUNT_EXPIRED,		/* of those escaped: they waited longer than their TTL */
	COUNT_EXPIRED_WAITING,	/* of those expired: no worker had fetched them */
	COUNT_PURGED,		/* of those escaped: by the sweeper's purge */
	COUNT_PURGED_DELAYED,	/* of those purged: while they were delayed */
	COUNT_DEADLINE_EXCEEDED,	/* of those purged: by max_message_age */
	COUNT_HANDLER_EXIT, COUNT_HANDLER_FAIL, COUNT_HANDLER_SIGNAL, COUNT_HANDLER_TIMEOUT, COUNT_REJECTED,
	COUNT_UNREPRESENTABLE, COUNT_UNKNOWN_VERSION, COUNT_UNKNOWN_SEAL, COUNT_TOO_LARGE,
	COUNT_WORKER_LOST,	/* of those escaped: by class (dead_letters/class.h) */
	COUNT_PURGED_DONE,	/* purge: entries of the history */
	COUNT_TRANSIT_OLD,	/* purge: in flight for too long; logged, but not moved */
	COUNT_WOULD_PURGE,	/* named by a dry run: never written to Redis */
	COUNT_RESCUED, COUNT_DUE,	/* only the sweeper counts these */
	COUNT_ARCHIVED, COUNT_DISCARDED, COUNT_ORPHANED, COUNT_FORWARDED,	/* the same: dead letters that left, and orphaned records */
	COUNTERS
};
extern const char *const counter_names[COUNTERS];	/* "fetched", … as in status, stats and metrics */

/* A histogram: bucket i counts durations < 2^i ms, the last bucket all longer ones. */
#define SCOREBOARD_BUCKETS 24
int figures_bucket(int64_t ms);		/* the bucket of a duration: 0..SCOREBOARD_BUCKETS - 1; a negative one counts as 0 */

struct board_queue;
void board_observe_lag(struct board_queue *q, int64_t lag_ms);	/* the sweeper moved a message so long after its time; negative: counts as 0 */

/* Counters, then these. */
enum figure {
	FIGURE_DURATIONS = COUNTERS,				/* of handlers: a histogram */
	FIGURE_DURATION_MS = FIGURE_DURATIONS + SCOREBOARD_BUCKETS,	/* and their sum */
	FIGURE_LAGS,						/* how late the sweeper moved what was due or expired: a histogram */
	FIGURE_LAG_MS = FIGURE_LAGS + SCOREBOARD_BUCKETS,	/* and their sum */
	SCOREBOARD_FIGURES
};

#endif
