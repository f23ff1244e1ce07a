#ifndef ADMIN_ENTRIES_H
#define ADMIN_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/admin.h"
#include "common/digest.h"
#include "common/queue_look.h"

/*
 * Messages of lists as commands read them: whatever their size, only the beginning of a large one and its last bytes leave Redis.
 * A move needs no more: it names a large message by its place, its size and its ends (struct queue_entry).
 */
#define ENTRIES_MAX 100				/* in one step */
#define ENTRIES_STEP_BYTES (1024 * 1024)	/* that Redis reads in one step, and one entry more: 3 ms */

struct list_entry {
	size_t size;
	struct queue_bytes head, tail;	/* owned. head is all of it unless it is_large() */
	char sha1[DIGEST_HEX_SIZE];			/* "": it has more than QUEUE_LOOK_SUM_MAX bytes */
	int64_t at;			/* its index when it was read, as LINDEX counts */
};

/* Zeroed is empty; entries_free() empties it. */
struct entries {
	struct list_entry *all;
	size_t n;
};

/* At most `most` entries, fewer if they are large, and at least one if there is any. */
int entries_read(struct admin *a, const char *key, int64_t first, bool backwards, int64_t most, struct entries *out);
void entries_free(struct entries *e);

bool entry_is_large(const struct list_entry *e);
/* How a script is told of it: by its value, or a large one by its place. A view. */
struct queue_entry entry_name(const struct list_entry *e);
/*
 * Where a message is now: 1 found, and out is its new owner's to entry_free(); 0 it is not in the list; -1 Redis. It is looked for from index
 * `first` on, towards the left end if that is negative, else towards the right end, and then in the whole list.
 */
int entry_find(struct admin *a, const char *key, int64_t first, size_t size, const char *sha1, struct list_entry *out);
/* The same of a message without a sha1, by its size alone. 2: several entries have that size, so none is meant. */
int entry_find_by_size(struct admin *a, const char *key, size_t size, struct list_entry *out);
void entry_free(struct list_entry *e);

#endif
