#ifndef SWEEPER_TALLY_H
#define SWEEPER_TALLY_H

#include <stdint.h>

#include "common/queue_stats.h"

struct sweeper;

/* What the scoreboard counts of each of its queues, since the master's start: SCOREBOARD_QUEUES of them, new. */
struct queue_figures *tally_add_up(const struct sweeper *s);

/* What came since anybody looked is ours: total less *told, which becomes total. A total may seem to fall while the
 * master buries a worker. */
uint64_t tally_claim(_Atomic uint64_t *told, uint64_t total);

/* Of those purged, who waited. */
uint64_t tally_purged_waiting(const struct queue_figures *f);

#endif
