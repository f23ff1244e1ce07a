#ifndef ADMIN_DEAD_LETTERS_RECORDS_H
#define ADMIN_DEAD_LETTERS_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "admin/cli/cli.h"
#include "common/dead_letters/dead_letters.h"

/*
 * Pairs dead letters with their records by sha1; among equal messages, the oldest message gets the oldest record. The
 * caller reads the list from the oldest entry on, and the log is read at the same pace, so that usually only a page of
 * it is in memory.
 */
#define RECORD_ID_SIZE QUEUE_RECORD_ID_SIZE

/* A move must know so much of a record. */
struct record_brief {
	char id[RECORD_ID_SIZE];	/* "": the dead letter has no record */
	struct message_lineage lineage;	/* escape holds the message without its wrapper, so only the record has it */
};

struct records {
	void *by_sha1;		/* tsearch(3) tree of the records that were read and are not matched yet */
	LIST_HEAD(, record_node) nodes;	/* the same records, for records_each() */
	size_t n;
	char next[RECORD_ID_SIZE];	/* id from which the next page is read */
	bool at_end;
};

void records_init(struct records *r);
void records_free(struct records *r);

/*
 * Finds the oldest unmatched record of a message with this sha1, and removes it from the tree. found->id is "" if there
 * is none. -1: error of Redis.
 */
int records_match(struct admin *a, struct records *r, const char *sha1, struct record_brief *found);

/* Reads up to `most` further records. Sets at_end if they were the last ones. */
int records_read_rest(struct admin *a, struct records *r, int64_t most);
/* Calls f for each record that was read and not matched, in no order. Skips entries that are not records of quredis. */
void records_each(const struct records *r, void (*f)(void *arg, const char *id), void *arg);

/*
 * Reads a page of the log from `next` on ("-": from the oldest record), calls f for each record, and moves `next`
 * behind the page ("": none can follow). 1: there may be more; 0: that was the last page; -1: error of Redis
 */
struct record_row {
	const char *id, *sha1, *size;
	struct message_lineage lineage;
};
int records_page(struct admin *a, char next[RECORD_ID_SIZE],
    void (*f)(void *arg, const struct record_row *row), void *arg);

/* Writes the lowest id above this one. 0: this is the greatest of all, so no record follows; -1: not an id */
int record_id_next(const char *id, char next[RECORD_ID_SIZE]);
void records_id_before(const char *id, char before[RECORD_ID_SIZE]);	/* the greatest id below this one */
bool record_id_valid(const char *id);

#endif
