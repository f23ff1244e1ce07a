#ifndef SWEEPER_REPORT_TALLY_H
#define SWEEPER_REPORT_TALLY_H

#include <stdint.h>

#include "common/queue/queue.h"

struct sweeper;

/* Returns the figures of each queue on the scoreboard since the master's start: a new array of SCOREBOARD_QUEUES. */
struct queue_figures *tally_add_up(struct sweeper *s);

/*
 * Claims the growth of a counter for the caller: returns total less *claimed, and sets *claimed to total. 0 if total is
 * not above *claimed: it may seem to fall while the master reaps a worker.
 */
uint64_t tally_claim(_Atomic uint64_t *claimed, uint64_t total);

#endif
