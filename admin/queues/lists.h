#ifndef ADMIN_QUEUES_LISTS_H
#define ADMIN_QUEUES_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/cli/cli.h"

/*
 * The number of messages in each list of a queue, and the owners of its trays. Reading takes two round trips, because
 * only the hash of workers names the trays; each round trip serves many queues at once.
 */
#define LISTS_WRONG_TYPE (-1)

struct owner {
	bool alive;				/* its lease is there */
	int64_t trays[QUEUE_TRAYS + 1];		/* messages; the last: its rescue list */
	int64_t total;
};

struct lists {
	int64_t ingress, escape, delayed;	/* messages, or LISTS_WRONG_TYPE. delayed: also those of producers */
	/* of delayed: pushes of producers; 0 also for a key of the wrong type */
	int64_t pushed;
	/* sum over the bare list, all trays, rescue lists and messages set aside */
	int64_t transit;
	int64_t bare, bare_rescue, aside;
	int64_t held;				/* of transit: in trays of owners that are alive */
	bool paused;
	struct queue_worker *workers;		/* owned */
	struct owner *owners;			/* one for each worker; owned */
	size_t nworkers;
};

void lists_ask(struct admin *a, const struct queue_keys *k);
int lists_take(struct admin *a, struct lists *l);
void lists_ask_trays(struct admin *a, const struct queue_keys *k, const struct lists *l);
int lists_take_trays(struct admin *a, struct lists *l);
void lists_free(struct lists *l);

/* Reads everything of one queue. A list of the wrong type is an error if it is wanted (LIST_BITs). */
int lists_read(struct admin *a, const struct queue_keys *k, unsigned wanted, struct lists *l);

/* True: a command may take messages of the bare list, which belongs to other consumers. In a shared queue such a
 * consumer may be alive. */
bool lists_bare_is_free(const struct admin *a);
/* The number of messages that a command on the whole list takes: of transit only those that no live worker holds, with
 * --force all. */
int64_t lists_free_messages(const struct admin *a, const struct lists *l, enum admin_list list);

#endif
