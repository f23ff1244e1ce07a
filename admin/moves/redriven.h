#ifndef ADMIN_MOVES_REDRIVEN_H
#define ADMIN_MOVES_REDRIVEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/cli/cli.h"
#include "admin/dead_letters/dead_letters.h"

/* A set of names of messages. A name is the first 16 hexadecimal digits of the sha1 of a message, held as a number of 8 bytes. */
struct name_set {
	uint64_t *slots;	/* 0: free */
	uint32_t *cause_hashes;	/* of the message in the same slot; 0: not known */
	size_t n, room;
};
#define NAME_DIGITS QUEUE_REDRIVEN_DIGITS

/*
 * The messages that an operation has put back into ingress. It counts how many of them are dead letters again, by the records behind its bound. Redis notes
 * the messages, too (`redriven`), so that a repeated command knows those of the one before.
 */
struct redriven {
	struct name_set names;
	char next[RECORD_ID_SIZE];	/* id from which the log is read on; as for records_page() */
	int64_t failed;			/* records behind the bound that belong to one of them */
	char first[RECORD_ID_SIZE], last[RECORD_ID_SIZE];	/* ids of the oldest and the newest such record */
	const char *cause;		/* all had this one before they were put back; NULL: `names` has the hash of each */
};

/* Reads which messages Redis has noted; redriven_look() counts records behind `bound`. cause: of all messages, or NULL. -1: error of Redis */
int redriven_begin(struct admin *a, struct redriven *r, const char *bound, const char *cause);
/* A message is put back. sha1: of the dead letter in escape. cause_hash: redriven_cause_hash(), or 0 */
void redriven_add(struct redriven *r, const char *sha1, uint32_t cause_hash);
bool redriven_has(const struct redriven *r, const char *sha1);
uint32_t redriven_cause_hash(const char *cause);	/* never 0 */
/* The hash of the cause that one of these messages had before it was put back. 0: an earlier command put it back, and nothing noted its cause. */
uint32_t redriven_hash_before(const struct redriven *r, const char *sha1);
int redriven_look(struct admin *a, struct redriven *r);	/* counts the new failures. -1: error of Redis */
void redriven_free(struct redriven *r);

/*
 * 1: one of these messages waits, is delayed or in flight; 0: none is; -1: error of Redis. A large message with the same length and ends counts as the same
 * one, whatever its wrapper. names: those of redriven_name_of(), one after the other
 */
int redriven_are_under_way(struct admin *a, const char *names);
struct list_entry;
void redriven_name_of(const struct list_entry *message, char name[NAME_DIGITS + 1]);

#endif
