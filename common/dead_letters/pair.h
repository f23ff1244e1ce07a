#ifndef COMMON_DEAD_LETTERS_PAIR_H
#define COMMON_DEAD_LETTERS_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/dead_letters/record_line.h"
#include "common/dead_letters/removal.h"

/*
 * Decides which dead letters leave (docs/design.md). A page has the old ends of the list and of its log. Both are in
 * the same order, so a dead letter and its record are close to each other. The record identifies a dead letter: a
 * message leaves with its record, or stays.
 */
#define DEAD_LETTERS_PAGE 100	/* entries, and records, of one page: about 1.2 ms of the server */
#define DEAD_LETTERS_PAGE_BYTES (1024 * 1024)
#define DEAD_LETTERS_ENTRY_MAX (64 * 1024 * 1024)

/* The longest dead letter, in bytes, that the sweeper reads in a queue with this message_max. It reads every message
 * that a handler may get. */
static inline int64_t dead_letters_entry_max(int64_t message_max)
{
	return message_max > DEAD_LETTERS_ENTRY_MAX ? message_max : DEAD_LETTERS_ENTRY_MAX;
}

/*
 * memory: bytes that the oldest dead letter takes in Redis (struct queue_weight). An allocation is at most a third
 * larger than its contents.
 */
static inline bool dead_letters_is_too_long(int64_t memory, int64_t message_max)
{
	return memory > dead_letters_entry_max(message_max) / 3 * 4 + 65536;
}

/* NAMED: it is in the last batch of the archive already */
enum dead_letter_fate { DEAD_LETTER_STAYS, DEAD_LETTER_LEAVES, DEAD_LETTER_NAMED };

/*
 * Names a dead letter in the archive. The id alone is not enough: a Redis that returned to an earlier state may have
 * given the same id to another dead letter.
 */
struct dead_letter_name {
	char id[QUEUE_RECORD_ID_SIZE];
	bool orphan;		/* archived as a record without a message: no message must leave with it */
	/* of the record; a line written by an earlier version has the sha1 of the message instead */
	char digest[ENCODE_SHA1_SIZE];
};

struct dead_letter_record {			/* a record; views into the answer */
	char id[QUEUE_RECORD_ID_SIZE];
	int64_t ms;		/* when the message failed, by the clock of Redis */
	struct record_field *fields;	/* owned */
	size_t nfields;
	char sha1[ENCODE_SHA1_SIZE];		/* of its message; "": the record has none */
	size_t size;		/* of its message in bytes; 0: the record has none */
	int entry;		/* index of its message in entries; -1: not on this page */
	bool orphan;		/* it has no message any more */
	bool archived_orphan;	/* the archive has it as a record without a message */
	enum dead_letter_fate fate;
	const char *reason;	/* if it LEAVES: "ttl" or "max_entries" */
};

struct dead_letter_entry {
	struct queue_bytes message;
	char sha1[ENCODE_SHA1_SIZE];
	int record;		/* index of its record; -1: not on this page */
	bool unrecorded;	/* it has no record */
};

struct dead_letters {
	int64_t entries_total, records_total;
	struct dead_letter_entry entries[DEAD_LETTERS_PAGE];	/* oldest first */
	size_t nentries;
	struct dead_letter_record records[DEAD_LETTERS_PAGE];
	size_t nrecords;
};

/* The digest covers all fields of the record: two dead letters are the same if id and digest are equal. */
void dead_letter_digest(const struct dead_letter_record *l, char out[ENCODE_SHA1_SIZE]);

/* Parses a page from a reply, which must live as long. NULL: unexpected reply type */
struct dead_letters *dead_letters_new(const struct queue_dead_letters_page *page);
void dead_letters_free(struct dead_letters *l);

struct dead_letters_bounds {
	int64_t oldest_ms;		/* messages that failed then or before leave; -1: no such bound */
	int64_t max_entries;		/* -1: no such bound */
	const char *forwarded;		/* newer records stay; NULL: nothing is forwarded */
	const struct dead_letter_name *named;
	size_t nnamed;
};
/* Sets the fate of each record. Returns how many are NAMED. */
size_t dead_letters_judge(struct dead_letters *l, const struct dead_letters_bounds *b);
/*
 * The same for records without a message, by age: a record leaves if the page proves that its message is gone, at any
 * place in the log. Returns their number.
 */
size_t dead_letters_judge_orphans(struct dead_letters *l, const struct dead_letters_bounds *b);

/* Call it if no record is NAMED. True: the page has some of these records all the same, but their messages are behind
 * others. */
bool dead_letters_hides_named(const struct dead_letters *l, const struct dead_letter_name *named, size_t nnamed);

#endif
