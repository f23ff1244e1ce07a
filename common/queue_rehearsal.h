#ifndef COMMON_QUEUE_REHEARSAL_H
#define COMMON_QUEUE_REHEARSAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/queue.h"

/*
 * Each move of a message, once, on scratch keys beside the queue's own ("…:scratch:<boot>"), so that a
 * missing right shows before a message depends on it. Appends all of it and returns how many answers
 * there will be. Nothing is left behind: the last command deletes the scratch keys.
 * ages: also what a queue needs of which it is known how long its messages wait.
 */
size_t queue_rehearse(struct redis *r, const struct queue_keys *k, uint64_t boot, bool ages);

/* What the i-th answer is to: "retry". */
const char *queue_rehearsal_step(size_t i, bool ages);

/* An answer that is no error, but says that the record of a dead letter could not be written. */
bool queue_rehearsal_lacks_record(size_t i, bool ages, const struct redis_reply *reply);

#endif
