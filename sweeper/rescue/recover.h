#ifndef SWEEPER_RESCUE_RECOVER_H
#define SWEEPER_RESCUE_RECOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/queue.h"

struct sweeper;
struct sweeper_queue;

/* Whether it belonged to a supervisor that held our lock before: dead for certain. */
bool recover_is_ours(const struct sweeper *s, const struct queue_worker *w);

/*
 * The server is another, or may be in an earlier state: what is configured here is rehearsed again, which also removes scratch keys
 * of a rehearsal that this state cut off, and the bare list is returned again, as at the start. The queue stays open.
 */
void recover_changed(struct sweeper_queue *q);

#endif
