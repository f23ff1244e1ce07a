#ifndef SWEEPER_TROUBLE_H
#define SWEEPER_TROUBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/scoreboard.h"

#define TROUBLE_GOES_ON 4	/* times in a row, within some three seconds */

/* What is wrong with one thing of one queue; zeroed: nothing. */
struct trouble {
	enum queue_trouble kind;	/* NONE also where only the connection was lost over it */
	char text[256];		/* as logged last; "": nothing was */
	unsigned times;		/* in a row */
	int64_t retry_at_ms;	/* CLOCK_MONOTONIC */
};

static inline bool trouble_waits(const struct trouble *t, int64_t now_ms)
{
	return now_ms < t->retry_at_ms;
}

#endif
