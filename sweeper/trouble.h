#ifndef SWEEPER_TROUBLE_H
#define SWEEPER_TROUBLE_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/scoreboard.h"

#define TROUBLE_GOES_ON 4	/* times in a row, within some three seconds */

/*
 * The error of one task, rescue or death in one queue; zeroed: none. The list of the queue holds it from the first failure until a success, and
 * status and health show what is in that list. Its owner calls trouble_forget() before freeing it.
 */
struct trouble {
	TAILQ_ENTRY(trouble) entry;	/* of the queue's list, while kind is not NONE */
	bool leads;		/* of periodic work: shown only while this host leads the queue */
	enum queue_trouble kind;	/* NONE also where only the connection was lost over it */
	char text[256];		/* as logged last; "": nothing was */
	unsigned times;		/* in a row */
	int64_t retry_at_ms;	/* CLOCK_MONOTONIC */
};

TAILQ_HEAD(trouble_list, trouble);

static inline bool trouble_waits(const struct trouble *t, int64_t now_ms)
{
	return now_ms < t->retry_at_ms;
}

#endif
