#ifndef SWEEPER_ASIDE_H
#define SWEEPER_ASIDE_H

#include <stdint.h>

#include "sweeper/task.h"

/* What the sweeper knows of the messages of a queue that were set aside. */
struct aside {
	int64_t n;			/* how many there are, when last read */
	int64_t size;			/* bytes of the newest; -1: not known */
	char why[128];			/* the error with which Redis refused the newest; "": not known */
	int64_t return_at_ms;		/* CLOCK_MONOTONIC: the next return; 0: at once */
};

static inline struct aside *aside_of(const struct swept *q)
{
	return task_state(q, TASK_aside);
}

#endif
