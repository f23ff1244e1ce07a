#ifndef COMMON_QUEUE_TYPES_H
#define COMMON_QUEUE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/queue/moves.h"

/*
 * The keys with names that are known beforehand, and the type of each. The one table of them (types.c) serves recovery,
 * the sweeper's look at all types, and doctor. A function that takes a struct redis appends commands and returns at
 * once.
 */
struct queue_type {
	char *key;		/* owned */
	const char *type;	/* the type it must have, if it exists; NULL: any */
};
struct queue_types {		/* zeroed at first; queue_types_free() frees it */
	size_t n, room;
	struct queue_type *of;
};

/* Appends the keys without which no message may be fetched. A key of another type shuts the gate of the queue. */
void queue_types_add_gates(struct queue_types *t, const struct queue_keys *k);
/* Appends all keys of the queue; now_ms, by the clock of Redis, names those of the statistics. A key that is no gate
 * counts as absent if its type is wrong. */
void queue_types_add_queue(struct queue_types *t, const struct queue_keys *k, int64_t now_ms);
/* Appends the keys that all queues share, and those of this node. secret.c judges quredis:secret. */
void queue_types_add_common(struct queue_types *t, const char *prefix, const char *node);

/* Appends the traces: keys that only a process with a secret writes. If one exists, a secret existed. */
void queue_types_add_traces(struct queue_types *t, const struct queue_keys *k);
void queue_types_add_traces_common(struct queue_types *t, const char *prefix);

void queue_types_ask(struct redis *r, const struct queue_types *t);	/* -> STATUS for each, in their order */
/* false also if the reply is an error */
bool queue_type_is_wrong(const struct queue_type *t, const struct redis_reply *is);
void queue_types_free(struct queue_types *t);

#endif
