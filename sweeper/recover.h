#ifndef SWEEPER_RECOVER_H
#define SWEEPER_RECOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue.h"

struct sweeper;
struct swept;

/* Whether it belonged to a supervisor that held our lock before: dead for certain. */
bool recover_is_ours(const struct sweeper *s, const struct queue_worker *w);

/* Kills and awaits what is left of the handlers of that supervisor. -1: not yet, s->error says why. */
int recover_end_handlers(struct sweeper *s, const char *incarnation);
void recover_free(struct sweeper *s);

#endif
