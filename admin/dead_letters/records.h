#ifndef ADMIN_DEAD_LETTERS_RECORDS_H
#define ADMIN_DEAD_LETTERS_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/cli/cli.h"
#include "common/dead_letters/dead_letters.h"

/*
 * Which record belongs to which dead letter: by value (sha1), the oldest to the oldest. The log is
 * read along with the list, so that in the usual order only a page of it is in memory.
 */
#define RECORD_ID_SIZE QUEUE_RECORD_ID_SIZE

struct records {
	void *by_sha1;		/* tsearch(3) tree of those read and not yet asked for */
	size_t n;
	char next[RECORD_ID_SIZE];	/* where to read on */
	bool at_end;
};

void records_init(struct records *r);
void records_free(struct records *r);

/* The oldest record of a message with this sha1, taken out: id is filled in, or "" if there is none. -1: Redis. */
int records_match(struct admin *a, struct records *r, const char *sha1, char id[RECORD_ID_SIZE]);

/* Reads up to `most` further records. at_end: whether these were the last ones. */
int records_read_rest(struct admin *a, struct records *r, int64_t most);
/* Each that was read and not taken out, in no order; only what is a record. */
void records_each(const struct records *r, void (*f)(void *arg, const char *id), void *arg);

/*
 * The next page of the log from `next` on ("-": the oldest), which then is behind it: f is told each record. 1: there may be
 * more; 0: that was all; -1: Redis
 */
int records_page(struct admin *a, char next[RECORD_ID_SIZE], void (*f)(void *arg, const char *id, const char *sha1), void *arg);

/* The id behind this one, for reading on. -1: not an id. */
int record_id_next(const char *id, char next[RECORD_ID_SIZE]);
bool record_id_valid(const char *id);

#endif
