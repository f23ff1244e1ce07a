#ifndef ADMIN_RETURNS_H
#define ADMIN_RETURNS_H

#include <stddef.h>
#include <stdint.h>

#include "admin/admin.h"
#include "admin/records.h"

/* Messages that were put back into ingress, and which of them are dead letters again: by the records written since. */
struct returns {
	void *sha1s;			/* tsearch(3) of those put back */
	char next[RECORD_ID_SIZE];	/* where to read on */
	int64_t failed;			/* so many records since are of one of them */
	char last[RECORD_ID_SIZE];	/* the newest of those */
};

/* From here on. -1: Redis */
int returns_begin(struct admin *a, struct returns *r);
void returns_add(struct returns *r, const char *sha1);	/* of a dead letter as it was in the list */
int returns_look(struct admin *a, struct returns *r);
void returns_free(struct returns *r);

/* Whether this message, or one of the same length and ends, whatever is wrapped around it, is waiting, delayed or in work. -1: Redis */
struct list_entry;
int returns_is_under_way(struct admin *a, const struct list_entry *message);

#endif
