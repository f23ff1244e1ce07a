#ifndef ADMIN_MOVES_RETURNS_H
#define ADMIN_MOVES_RETURNS_H

#include <stddef.h>
#include <stdint.h>

#include "admin/cli/cli.h"
#include "admin/dead_letters/dead_letters.h"

/* The messages that a command has moved back into ingress. It counts how many of them are dead letters again, by the records written since. */
struct returns {
	void *sha1s;			/* tsearch(3) tree of the sha1s of these messages */
	char next[RECORD_ID_SIZE];	/* id from which the log is read on */
	int64_t failed;			/* records since returns_begin() that belong to one of them */
	char last[RECORD_ID_SIZE];	/* id of the newest such record */
};

/* Counts records from now on. -1: error of Redis */
int returns_begin(struct admin *a, struct returns *r);
void returns_add(struct returns *r, const char *sha1);	/* sha1 of a dead letter, as it was in escape */
int returns_look(struct admin *a, struct returns *r);
void returns_free(struct returns *r);

/*
 * 1: this message waits, is delayed or in flight; 0: it is not; -1: error of Redis. A message with the same length and ends
 * counts as the same one, whatever its wrapper.
 */
struct list_entry;
int returns_is_under_way(struct admin *a, const struct list_entry *message);

#endif
