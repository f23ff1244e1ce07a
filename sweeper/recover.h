#ifndef SWEEPER_RECOVER_H
#define SWEEPER_RECOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue.h"

struct sweeper;
struct swept;

/* Whether it belonged to a supervisor that held our lock before: dead for certain. */
bool recover_is_ours(const struct sweeper *s, const struct queue_worker *w);

void recover_bare(struct swept *q);	/* the bare list is returned again, as at the start; the queue stays open */

#endif
