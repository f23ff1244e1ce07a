#ifndef SWEEPER_RESCUE_RECOVER_H
#define SWEEPER_RESCUE_RECOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/queue.h"

struct sweeper;
struct sweeper_queue;

/* True: the worker belonged to a supervisor that held our lock before us, so it is dead for certain. */
bool recover_is_ours(const struct sweeper *s, const struct queue_worker *w);

/*
 * Another server answers, or the server may have returned to an earlier state. The sweeper rehearses the queue again if
 * it is configured here, which also removes scratch keys that this state contains, and returns the bare list again. The
 * queue stays open.
 */
void recover_changed(struct sweeper_queue *q);

#endif
