#ifndef SWEEPER_RESCUE_DEAD_SUPERVISORS_H
#define SWEEPER_RESCUE_DEAD_SUPERVISORS_H

#include <stddef.h>

struct queue_worker;
struct sweeper;

/* Notes which supervisors of this host are dead. Call it before dead_supervisors_end() of one of them, so that one
 * search serves all. */
void dead_supervisors_note(struct sweeper *s, const struct queue_worker *workers, size_t n);
/*
 * Kills the processes that the handlers of this owner's supervisor left running, and waits for their end. -1: some are
 * alive (s->connection.error): call again later. 0: none is left; or several rounds failed, and an alarm was raised.
 */
int dead_supervisors_end(struct sweeper *s, const char *incarnation);

#endif
