#ifndef SUPERVISOR_QUEUES_TOTALS_H
#define SUPERVISOR_QUEUES_TOTALS_H

#include "supervisor/queues/queues.h"

/* What a queue's workers and the sweeper did since the master's start. No figure ever falls. */
struct totals {
	uint64_t counters[COUNTERS];
	uint64_t durations[SCOREBOARD_BUCKETS];
	uint64_t restarts;
	int draining;		/* workers that live and leave */
};

/* Of this place and of those whose heir it is: the same queue under earlier configurations. */
struct totals totals_of(const struct queues *qs, int queue);

#endif
