#ifndef SUPERVISOR_TOTALS_H
#define SUPERVISOR_TOTALS_H

#include <stdint.h>

#include "common/scoreboard.h"

struct master;

/* What a queue's workers and the sweeper did since the master's start: never falls. */
struct totals {
	uint64_t counters[COUNTERS];
	uint64_t durations[SCOREBOARD_BUCKETS];
	uint64_t restarts;
	int draining;		/* workers alive that are leaving */
};

/* Of the crew and of those whose heir it is: the same queue under another configuration. */
struct totals totals_of(const struct master *m, int crew);

#endif
