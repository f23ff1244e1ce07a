#ifndef COMMON_QUEUE_TYPES_H
#define COMMON_QUEUE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/queue/moves.h"

/*
 * The keys with names that are known beforehand, and the type of each. The one table of them (types.c) serves recovery, the sweeper's look at all types, and
 * doctor. A function that takes a struct redis appends commands and returns at once.
 */
struct queue_type {
	char *key;		/* owned */
	const char *type;	/* the type it must have, if it exists; NULL: any */
};
#define QUEUE_TYPES_MAX 32
struct queue_types {
	size_t n;
	struct queue_type of[QUEUE_TYPES_MAX];
};

/* Each adds to a list that is zeroed at first. Those without which no message may be fetched; a key of another type shuts the gate of the queue */
void queue_types_add_gates(struct queue_types *t, const struct queue_keys *k);
/* All keys of the queue, and of the statistics those of now_ms, by the clock of Redis: all but the gates count as absent if their type is another */
void queue_types_add_queue(struct queue_types *t, const struct queue_keys *k, int64_t now_ms);
/* Those that all queues share, and those of this node; quredis:secret has a judge of its own (secret.c) */
void queue_types_add_common(struct queue_types *t, const char *prefix, const char *node);

/* Those that only processes with a secret write: where one of them is, a secret was. node NULL: of no node */
void queue_types_add_traces(struct queue_types *t, const struct queue_keys *k);
void queue_types_add_traces_common(struct queue_types *t, const char *prefix, const char *node);

void queue_types_ask(struct redis *r, const struct queue_types *t);	/* -> STATUS for each, in their order */
bool queue_type_is_wrong(const struct queue_type *t, const struct redis_reply *is);	/* false also if Redis does not tell */
void queue_types_free(struct queue_types *t);

#endif
