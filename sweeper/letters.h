#ifndef SWEEPER_LETTERS_H
#define SWEEPER_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/queue_letters.h"
#include "common/record_line.h"
#include "sweeper/errand.h"
#include "sweeper/trouble.h"

/*
 * Dead letters that leave (docs/design.md). Each page shows the old ends of the list and of its log; they are in one
 * order, so that what belongs together is near. Records are what is identified: a message goes with its record, or stays.
 */
#define LETTERS_PAGE 100	/* entries, and records, of a look: some 1.2 ms of the server */
#define LETTERS_BATCH 50	/* at most so many go into the archive at once */

enum letter_fate { LETTER_STAYS, LETTER_LEAVES, LETTER_NAMED };	/* NAMED: the archive has it already */

/* What the archive has. */
struct letter_name {
	char id[QUEUE_RECORD_ID_SIZE];
	bool orphan;		/* as a record without a message: none must go with it */
};

struct letter {			/* a record; views into the answer */
	char id[QUEUE_RECORD_ID_SIZE];
	int64_t ms;		/* when it failed, by the server's clock */
	struct record_field *fields;	/* owned */
	size_t nfields;
	char sha1[41];		/* of its message; "": it does not say */
	int entry;		/* its message is entries[entry]; -1: not on this page */
	bool orphan;		/* there is none to it any more */
	bool archived_orphan;	/* the archive says so */
	enum letter_fate fate;
	const char *reason;	/* of LEAVES: "ttl" or "max_entries" */
};

struct letter_entry {
	struct queue_bytes message;
	char sha1[41];
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

/* letters_pair.c, pure. A new page of an answer; it lives as long as that. NULL: it is none */
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

/* Where the sweeper is with the dead letters of a queue; zeroed: nowhere. */
struct bounds {
	int64_t at_ms;			/* CLOCK_MONOTONIC: the next look */
	int64_t odd_at_ms;		/* the same for a page because there are not as many records as dead letters */
	struct errand errand;		/* at the archive */
	bool settling;			/* that is what it does: finding what the last batch names */
	bool settled;			/* since we hold the archive */
	bool holds;			/* the archive of this queue and node is ours */
	struct letter_name *named;	/* in the archive; being written there while an errand does so */
	size_t nnamed;
	bool over;			/* more than bounds allow, and nothing that lets them be removed */
	int64_t over_logged_ms;		/* CLOCK_MONOTONIC */
	bool unwritten;			/* archive_trouble is that a batch could not be written: that the file can be read ends it not */
	struct trouble trouble, archive_trouble;
};

struct sweeper;
struct swept;

int letters_forwarded(struct sweeper *s, const struct swept *q, char forwarded[QUEUE_RECORD_ID_SIZE]);	/* letters.c. -1: error */

/* letters_archive.c. Errands say what they did to bounds; errors are told as troubles. */
bool letters_hold(struct sweeper *s, struct swept *q);		/* the archive is ours; false: another sweeper of this master is at it */
void letters_let_go(struct swept *q);
void letters_settle(struct sweeper *s, struct swept *q, int64_t now_ms);
/* Writes those that LEAVE, at most LETTERS_BATCH */
void letters_archive(struct sweeper *s, struct swept *q, const struct letters *l, int64_t server_ms, int64_t now_ms);
void letters_writable(struct sweeper *s, struct swept *q);	/* or nothing is to be written: its trouble is over */
bool letters_are_unarchived(const struct swept *q);		/* some are to leave, and the archive takes none */
void letters_look_at_errand(struct sweeper *s, struct swept *q, int64_t now_ms);
void letters_forget_batch(struct bounds *b);
void bounds_free(struct swept *q);

#endif
