#ifndef ADMIN_OPERATIONS_REDRIVEN_H
#define ADMIN_OPERATIONS_REDRIVEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/cli/cli.h"
#include "admin/dead_letters/dead_letters.h"

/* A set of fingerprints. A fingerprint is the first 16 hexadecimal digits of a SHA-1, held as a number of 8 bytes. */
struct fingerprints {
	uint64_t *slots;	/* 0: free */
	uint32_t *cause_hashes;	/* of the message in the same slot; 0: not known */
	size_t n, room;
};
#define FINGERPRINT_SIZE (QUEUE_FINGERPRINT_DIGITS + 1)

/* Identifies the message of a record: by the SHA-1 of the message, or of its size if no process has read it. */
struct record_sum {
	const char *sha1, *size;	/* texts of the record */
};

/*
 * The messages that an operation has moved back to ingress. It counts how many of them are dead letters again, by the
 * records behind its bound. Redis notes their fingerprints, too (`redriven`), so that a repeated command knows those of
 * the one before.
 */
struct redriven {
	struct fingerprints fingerprints;	/* of record_sum */
	char next[RECORD_ID_SIZE];	/* id from which the log is read on; as for records_page() */
	/* messages that are dead letters again: redriven_look(), redriven_find_in_escape() */
	int64_t failed;
	char first[RECORD_ID_SIZE], last[RECORD_ID_SIZE];	/* ids of the oldest and the newest such record */
	/* all had this one, or one of this shape, before they moved back; NULL: `fingerprints` has the hash of each */
	const char *cause;
};

/* Reads which messages Redis has noted for the operation; redriven_look() counts records behind its bound. cause: of
 * all, or NULL. -1: error of Redis */
struct operation;
int redriven_begin(struct admin *a, struct redriven *r, const struct operation *o, const char *cause);
/* A message moves back. cause_hash: redriven_cause_hash(), or 0 */
void redriven_add(struct redriven *r, struct record_sum sum, uint32_t cause_hash);
bool redriven_has(const struct redriven *r, struct record_sum sum);
const char *redriven_fingerprint(struct record_sum sum, char out[FINGERPRINT_SIZE]);	/* returns out */
uint32_t redriven_cause_hash(const char *cause);	/* never 0 */
/* The hash of the cause that one of these messages had before it moved back. 0: an earlier command moved it, and
 * nothing noted its cause. */
uint32_t redriven_hash_before(const struct redriven *r, struct record_sum sum);
int redriven_look(struct admin *a, struct redriven *r);	/* counts the new failures. -1: error of Redis */
void redriven_free(struct redriven *r);

/*
 * 1: one of these messages waits, is delayed or in flight; 0: none is; -1: error of Redis. fingerprints: those of
 * redriven_fingerprint_of(), one after the other. They are of whole messages, and of a large one of its length and
 * ends, so a message with the same ones counts as the same.
 */
int redriven_are_under_way(struct admin *a, const char *fingerprints);
/*
 * 1: one of these messages is among the dead letters that are newer than `newest`, counted in r->failed: it failed
 * again, and Redis has refused its record; 0: none is; -1: error of Redis
 */
int redriven_find_in_escape(struct admin *a, struct redriven *r, const char *fingerprints, const char *newest);
/* the fingerprint of the newest dead letter; "": none */
int redriven_newest(struct admin *a, char out[FINGERPRINT_SIZE]);
struct list_entry;
void redriven_fingerprint_of(const struct list_entry *message, char out[FINGERPRINT_SIZE]);

#endif
