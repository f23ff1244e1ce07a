#ifndef SWEEPER_REGISTRY_UNUSED_ENTRIES_H
#define SWEEPER_REGISTRY_UNUSED_ENTRIES_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sweeper/registry/page.h"

/* An entry of the registry whose queue was unused at every look so far. All times: CLOCK_MONOTONIC. */
struct unused_entry {
	RB_ENTRY(unused_entry) entry;
	char *name, *score, *json;	/* json NULL: the queue has only a name in the registry */
	int64_t since_ms, looked_ms;
	int64_t logged_ms;		/* when a dry run named it; 0: never */
	uint64_t turn;			/* the turn in which it was seen last */
};
RB_HEAD(unused_entry_tree, unused_entry);

#define UNUSED_ENTRIES_MAX 10000	/* further ones must wait until some of these are removed */

/* Zeroed: no entry is remembered. */
struct unused_entries {
	struct unused_entry_tree tree;
	size_t n;
	uint64_t turn;
};

/*
 * Notes that e is unused now. Returns what the sweeper remembers of the entry: since when it is unused. That time
 * begins anew if the entry has changed, or if two looks were more than gap_ms apart. NULL: there are too many.
 */
struct unused_entry *unused_entries_note(struct unused_entries *v, const struct registered *e, int64_t gap_ms,
    int64_t now_ms);
void unused_entries_forget(struct unused_entries *v, const char *name);	/* its queue is used, or it was removed */
/* forgets the entries that this turn has not seen, since the registry does not have them any more */
void unused_entries_end_turn(struct unused_entries *v);
void unused_entries_free(struct unused_entries *v);

#endif
