#ifndef COMMON_QUEUE_REHEARSAL_H
#define COMMON_QUEUE_REHEARSAL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/queue/moves.h"

/*
 * Performs each move of a message once, on scratch keys ("…:scratch:<name>"), so that a missing right
 * shows before a message depends on it. Appends all commands and returns the number of answers. The first command and
 * the last one delete the scratch keys. A rehearsal that is interrupted leaves some, and so does a Redis that returns
 * to a state from the middle of one; the next rehearsal with the same name removes them. So the name is that of the
 * node, whose sweeper rehearses at each start, reload and change of the server, or "doctor:" and the node. If two
 * rehearsals use one name at the same moment, each may remove the other's keys: an answer may then be "no such key",
 * and nothing else is harmed.
 */
enum queue_rehearsal {		/* beside the moves that every queue needs, as a mask */
	REHEARSE_AGES = 1,		/* those of a queue in which the age of messages is known */
	REHEARSE_NOTES = 2,		/* of a shared queue */
	REHEARSE_THROTTLE = 4,		/* of one with a rate */
	REHEARSE_SEATS = 32,		/* of one with max_in_flight */
	REHEARSE_SCHEDULES = 8,		/* of one that a schedule pushes to */
	REHEARSE_EMIT = 16,		/* of one whose handlers emit, or that they emit to */
};
size_t queue_rehearse(struct redis *r, const struct queue_keys *k, const char *name, unsigned what);

/* Returns the rehearsals that a queue needs. */
struct conf;
struct conf_queue;
unsigned queue_rehearsal_of(const struct queue_keys *k, const struct conf *conf, const struct conf_queue *q);

/* The scratch keys beside those of the queue. */
void queue_rehearsal_keys(struct queue_keys *to, const char *prefix, const struct queue_keys *k, const char *name);

/* The name of the move to which the i-th answer belongs: "retry". */
const char *queue_rehearsal_step(size_t i, unsigned what);

/* True: the i-th step writes the record of a dead letter, which a queue without dead letters does not need. */
bool queue_rehearsal_is_of_record(size_t i, unsigned what);

#endif
