#ifndef SWEEPER_RESCUE_ASIDE_H
#define SWEEPER_RESCUE_ASIDE_H

#include <stdint.h>

#include "sweeper/core/core.h"

/* The messages of a queue that were set aside, as the sweeper read them last. */
struct aside {
	int64_t n;			/* how many there are, when last read */
	int64_t size;			/* bytes of the newest; -1: not known */
	char why[128];			/* the error with which Redis refused the newest; "": not known */
	int64_t return_at_ms;		/* CLOCK_MONOTONIC: the next return; 0: at once */
};

extern const struct task aside_task;

static inline struct aside *aside_of(const struct sweeper_queue *q)
{
	return task_state(q, &aside_task);
}

#endif
