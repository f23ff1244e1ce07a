#ifndef ADMIN_QUEUES_ENTRIES_H
#define ADMIN_QUEUES_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/cli/cli.h"
#include "common/base/base.h"
#include "common/queue/queue.h"

/*
 * Reads messages of lists for commands. Of a large message only the first and the last bytes leave Redis. That is
 * enough for a move, which names a large message by its place, its size and its ends (struct queue_entry).
 */
#define ENTRIES_MAX 100				/* in one step */
/* messages that a command looks through without --search: half a second if they are small */
#define SEARCH_DEFAULT 100000
#define ENTRIES_STEP_BYTES (1024 * 1024)	/* bytes that Redis reads in one step, plus one entry: about 3 ms */

struct list_entry {
	size_t size;
	struct queue_bytes head, tail;	/* owned. head is the whole message unless it is_large() */
	char sha1[ENCODE_SHA1_SIZE];	/* "": the message is longer than QUEUE_LOOK_SUM_MAX, see entries_sum() */
	int64_t at;			/* its index when it was read, as LINDEX counts */
};

/* Zeroed is empty; entries_free() frees the contents and empties it. */
struct entries {
	struct list_entry *all;
	size_t n;
};

/* Reads at most `most` entries, fewer if they are large, but at least one if the list has any. */
int entries_read(struct admin *a, const char *key, int64_t first, bool backwards, int64_t most, struct entries *out);
void entries_free(struct entries *e);

bool entry_is_large(const struct list_entry *e);
/* Returns the name of an entry for a script: its value, or the place of a large one. A view. */
struct queue_entry entry_name(const struct list_entry *e);
/* Writes the sha1 of a message that is longer than QUEUE_LOOK_SUM_MAX; "": it has left its place. Redis takes a moment
 * for it. -1: error of Redis */
int entries_sum(struct admin *a, const char *key, struct list_entry *e);
/*
 * Finds the present place of a message. 1: found; the caller frees out by entry_free(); 0: not in the list; -1: error
 * of Redis. Searches from index `first` on, towards the left end if it is negative, else towards the right end, and
 * then the whole list.
 */
int entry_find(struct admin *a, const char *key, int64_t first, size_t size, const char *sha1, struct list_entry *out);
/* The same for a message without a sha1, by its size alone. 2: several entries have this size, so none is certain. */
int entry_find_by_size(struct admin *a, const char *key, size_t size, struct list_entry *out);
void entry_free(struct list_entry *e);

#endif
