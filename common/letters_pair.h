#ifndef COMMON_LETTERS_PAIR_H
#define COMMON_LETTERS_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/queue_letters.h"
#include "common/record_line.h"

/*
 * Dead letters that leave (docs/design.md). Each page shows the old ends of the list and of its log; they are in one
 * order, so that what belongs together is near. Records are what is identified: a message goes with its record, or stays.
 */
#define LETTERS_PAGE 100	/* entries, and records, of a look: some 1.2 ms of the server */
#define LETTERS_PAGE_BYTES (1024 * 1024)
#define LETTERS_ENTRY_MAX (64 * 1024 * 1024)

/* The longest dead letter that is read, in bytes, of a queue with this message_max: what a handler may get is read, too. */
static inline int64_t letters_entry_max(int64_t message_max)
{
	return message_max > LETTERS_ENTRY_MAX ? message_max : LETTERS_ENTRY_MAX;
}

/* memory: bytes that the oldest dead letter takes in Redis (struct queue_weight). An allocation is at most a third larger than what is in it. */
static inline bool letters_is_too_long(int64_t memory, int64_t message_max)
{
	return memory > letters_entry_max(message_max) / 3 * 4 + 65536;
}


enum letter_fate { LETTER_STAYS, LETTER_LEAVES, LETTER_NAMED };	/* NAMED: the archive has it already */

/*
 * Names a dead letter in the archive. The id alone is not enough: a Redis that returned to an earlier state may have given the same id to
 * another dead letter.
 */
struct letter_name {
	char id[QUEUE_RECORD_ID_SIZE];
	bool orphan;		/* as a record without a message: none must go with it */
	char digest[DIGEST_HEX_SIZE];	/* of the record; a line written by an earlier version has the sha1 of the message instead */
};

struct letter {			/* a record; views into the answer */
	char id[QUEUE_RECORD_ID_SIZE];
	int64_t ms;		/* when it failed, by the server's clock */
	struct record_field *fields;	/* owned */
	size_t nfields;
	char sha1[DIGEST_HEX_SIZE];		/* of its message; "": it does not say */
	size_t size;		/* of its message in bytes; 0: it does not say */
	int entry;		/* its message is entries[entry]; -1: not on this page */
	bool orphan;		/* there is none to it any more */
	bool archived_orphan;	/* the archive says so */
	enum letter_fate fate;
	const char *reason;	/* of LEAVES: "ttl" or "max_entries" */
};

struct letter_entry {
	struct queue_bytes message;
	char sha1[DIGEST_HEX_SIZE];
	int record;		/* records[record] is its own; -1: not on this page */
	bool unrecorded;	/* there is none to it */
};

struct letters {
	int64_t entries_total, records_total;
	struct letter_entry entries[LETTERS_PAGE];	/* oldest first */
	size_t nentries;
	struct letter records[LETTERS_PAGE];
	size_t nrecords;
};

/* The digest covers all fields of the record: two dead letters are the same if id and digest are equal. */
void letter_digest(const struct letter *l, char out[DIGEST_HEX_SIZE]);

/* A new page of an answer; it lives as long as that. NULL: it is none */
struct letters *letters_new(const struct queue_letters_page *page);
void letters_free(struct letters *l);

struct letters_bounds {
	int64_t oldest_ms;		/* what failed then or before leaves; -1: no such bound */
	int64_t max_entries;		/* -1: none */
	const char *forwarded;		/* records behind this one stay; NULL: none has to */
	const struct letter_name *named;
	size_t nnamed;
};
/* Says of each record what becomes of it. Returns how many are NAMED. */
size_t letters_judge(struct letters *l, const struct letters_bounds *b);
/* The same for records alone, by age: those whose message is proven to be gone leave, wherever they lie. Returns how many. */
size_t letters_judge_orphans(struct letters *l, const struct letters_bounds *b);

/* Where none is NAMED: some are there all the same, their messages behind what others put before them. */
bool letters_hides_named(const struct letters *l, const struct letter_name *named, size_t nnamed);

#endif
