#ifndef COMMON_QUEUE_SURVEY_H
#define COMMON_QUEUE_SURVEY_H

#include <stddef.h>
#include <stdint.h>

#include "common/queue/moves.h"

/*
 * Finds all keys of queues, also those that no registration leads to. Only quredis doctor uses it, since only doctor
 * may SCAN. As in common/queue/moves.h, every function that takes a struct redis appends commands and returns at once.
 */

/* -> ARRAY of two: STRING the next cursor ("0": the scan is complete), ARRAY of STRING keys that begin with prefix.
 * cursor "0" begins. */
void queue_scan(struct redis *r, const char *cursor, const char *prefix, int64_t count);

/* The meaning of a key of the queue's transit. */
struct queue_place {
	enum queue_place_kind {
		QUEUE_PLACE_WORKERS,	/* the hash */
		QUEUE_PLACE_LEASE,	/* of incarnation */
		QUEUE_PLACE_TRAY,	/* tray 0..QUEUE_TRAYS-1 or QUEUE_RESCUE of incarnation */
		QUEUE_PLACE_BARE_RESCUE,
		QUEUE_PLACE_ASIDE,	/* the list of messages set aside, or its records */
		QUEUE_PLACE_SCRATCH,	/* of a rehearsal */
		QUEUE_PLACE_UNKNOWN
	} kind;
	char incarnation[INCARNATION_SIZE];
	int tray;
};
/* -1: the key does not belong to this queue's transit. The bare list itself does not count, either. */
int queue_place_parse(struct queue_place *p, const struct queue_keys *k, const void *key, size_t len);

/* -> INTEGER: 1 if the workers hash has the incarnation */
void queue_knows_worker(struct redis *r, const struct queue_keys *k, const char *incarnation);
/* -> INTEGER: ms until its lease expires; -1: it never expires, -2: there is no lease */
void queue_lease_left(struct redis *r, const struct queue_keys *k, const char *incarnation);
/* Deletes the record of a dead letter, whatever escape contains. -> INTEGER 1 */
void queue_record_forget(struct redis *r, const struct queue_keys *k, const char *record_id);

#endif
