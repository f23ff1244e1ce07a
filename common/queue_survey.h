#ifndef COMMON_QUEUE_SURVEY_H
#define COMMON_QUEUE_SURVEY_H

#include <stddef.h>
#include <stdint.h>

#include "common/queue.h"
#include "common/queue_watch.h"

/*
 * All that is there of queues, also what no registration leads to: for quredis doctor, who alone may SCAN. As in
 * common/queue.h, every function that takes a struct redis appends commands and returns at once.
 */

/* -> ARRAY of two: STRING the next cursor ("0": that was the last), ARRAY of STRING keys that begin with prefix.
 * cursor "0" begins. */
void queue_scan(struct redis *r, const char *cursor, const char *prefix, int64_t count);

/* What a key of the queue's transit is. */
struct queue_place {
	enum queue_place_kind {
		QUEUE_PLACE_WORKERS,	/* the hash */
		QUEUE_PLACE_LEASE,	/* of incarnation */
		QUEUE_PLACE_TRAY,	/* tray 0..QUEUE_TRAYS-1 or QUEUE_RESCUE of incarnation */
		QUEUE_PLACE_BARE_RESCUE,
		QUEUE_PLACE_ASIDE,	/* or its records */
		QUEUE_PLACE_SCRATCH,	/* of a rehearsal */
		QUEUE_PLACE_UNKNOWN
	} kind;
	char incarnation[INCARNATION_SIZE];
	int tray;
};
/* -1: it is no key of this queue's transit. The bare list itself is none either. */
int queue_place_parse(struct queue_place *p, const struct queue_keys *k, const void *key, size_t len);

/* -> INTEGER: 1 if the hash of workers knows it */
void queue_knows_worker(struct redis *r, const struct queue_keys *k, const char *incarnation);
/* -> INTEGER: ms to the end of its lease; -1: it never ends, -2: there is none */
void queue_lease_left(struct redis *r, const struct queue_keys *k, const char *incarnation);
/* -> INTEGER: 1. Deletes the record of a dead letter, whatever lies in escape */
void queue_record_forget(struct redis *r, const struct queue_keys *k, const char *record_id);
/* Whether a field of the hash of workers that is no incarnation is one of those that a rescue keeps there */
bool queue_is_rescue_field(const char *field, size_t len);

/* The types of everything a queue may have with a fixed name: QUEUE_SURVEY_TYPES answers STATUS, in this order. The
 * keys are k's, but for the last, which is for the caller to free. */
#define QUEUE_SURVEY_TYPES (QUEUE_TYPES + 8)
void queue_survey_types_wanted(const struct queue_keys *k, struct queue_type out[QUEUE_SURVEY_TYPES]);
#define QUEUE_SURVEY_OWNED_TYPE (QUEUE_SURVEY_TYPES - 1)

#endif
