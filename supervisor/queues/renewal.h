#ifndef SUPERVISOR_QUEUES_RENEWAL_H
#define SUPERVISOR_QUEUES_RENEWAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/handler/handler.h"

#define RENEWAL_WHY_SIZE (HANDLER_CAUSE_SIZE + 256)

struct process;
struct queues;

/* The master replaces the queue's workers, a step in each turn. It forks nothing here: see renewal_successor(). */
void renewal_step(struct queues *qs, int queue, int64_t now_ms);
/* The number of a worker whose successor may be forked now; -1: there is none. */
int renewal_successor(const struct queues *qs, int queue);
bool renewal_loads(const struct queues *qs, int queue);			/* a successor lives */
/* A worker ended. Call this before processes_release(). */
void renewal_ended(struct queues *qs, const struct process *p);
/* A worker serves with the newest handler, which was READY. */
bool renewal_is_loaded(const struct queues *qs, int queue);
int renewal_outdated(const struct queues *qs, int queue);		/* workers that serve with an earlier handler */
/* After so long all workers are replaced, or the handler has failed, unless a number has to wait for a worker that
 * leaves. */
int64_t renewal_limit_ms(const struct queues *qs, int queue);
bool renewal_is_under_way(const struct queues *qs, int queue);
/* The newest handler has to say READY, and has said it to no worker yet. */
bool renewal_is_awaited(const struct queues *qs, int queue);
/* A worker that serves has tried the newest handler, and it was not ready. Writes why. */
bool renewal_has_failed(const struct queues *qs, int queue, char why[RENEWAL_WHY_SIZE]);
/* The newest handler has failed in a successor, or in a worker that serves, and no worker has it ready or loads it. */
bool renewal_tries_in_vain(const struct queues *qs, int queue);
/* No worker serves yet, or one that serves loads the newest handler, or has not begun to. */
bool renewal_is_undecided(const struct queues *qs, int queue);
const char *renewal_waits_for(const struct queues *qs, int queue);	/* static; NULL: it is not under way */

#endif
