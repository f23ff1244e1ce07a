#ifndef COMMON_REDIS_OUTAGE_H
#define COMMON_REDIS_OUTAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which errors a process has logged since Redis worked last. A process with several addresses or Sentinels meets
 * another error at each of them, and tries them in turn for as long as Redis is away, so "not the same as the last one"
 * would log every attempt. Each kind of error is logged once in an outage.
 *
 * Two errors are of one kind if they have the same place and the same text, whatever numbers are in it: "MOVED 866 ..."
 * and "MOVED 7 ..." are. The text must not name the server; redis_why() gives it. outage.c owns all fields.
 */
#define REDIS_OUTAGE_KINDS 16	/* the most kinds that are logged in one outage */
/* between two kinds, if neither needs an operator: one outage often begins with several of them */
#define REDIS_OUTAGE_LEAST_MS 60000

struct redis_outage {
	uint64_t kinds[REDIS_OUTAGE_KINDS];
	size_t nkinds;		/* 0: nothing was logged, or the outage has ended */
	int64_t logged_ms;	/* CLOCK_MONOTONIC: the last kind that was new */
};

/*
 * True: this kind of error must be logged now, and counts as logged. It was not logged in this outage yet, and the one
 * before is at least least_ms old. If that is too young, the next attempt that meets this kind asks again.
 */
bool redis_outage_is_news(struct redis_outage *o, const char *at, const char *text, int64_t least_ms, int64_t now_ms);
bool redis_outage_logged(const struct redis_outage *o);		/* at least one error */
/* returns whether an error was logged, so that its end must be, too */
bool redis_outage_end(struct redis_outage *o);

#endif
