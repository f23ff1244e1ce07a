#ifndef SWEEPER_REGISTRY_REGISTRY_H
#define SWEEPER_REGISTRY_REGISTRY_H

#include <stdbool.h>

#include "sweeper/registry/page.h"

struct sweeper;
struct sweeper_queue;

/*
 * Enters a queue of this supervisor into the registry; with `again` it writes only what is missing there. -1: the
 * connection is lost. A refusal is logged, but is no error, since only other hosts need the registry.
 */
int registry_enter(struct sweeper *s, struct sweeper_queue *q, bool again);

/*
 * Notes that an entry of the registry, or the queue that it names, could not be read (s->connection.error). It is
 * logged once, until a whole turn through the registry had no error.
 */
void registry_note_error(struct sweeper *s, const char *queue);
void registry_end_turn(struct sweeper *s);

#endif
