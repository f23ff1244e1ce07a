#ifndef SUPERVISOR_QUEUES_TOTALS_H
#define SUPERVISOR_QUEUES_TOTALS_H

#include "supervisor/queues/queues.h"

/* The figures of a queue, by its workers and the sweeper, since the master's start. No figure ever falls. */
struct totals {
	uint64_t counters[COUNTERS];
	uint64_t durations[SCOREBOARD_BUCKETS];
	uint64_t restarts;
	int draining;		/* living workers that leave */
};

/* Adds the figures of this place and of the places whose heir it is: the same queue under earlier configurations. */
struct totals totals_of(const struct queues *qs, int queue);

#endif
