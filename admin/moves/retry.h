#ifndef ADMIN_MOVES_RETRY_H
#define ADMIN_MOVES_RETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/cli/cli.h"

/* The state of a command that moves messages of the queue in a->keys back into ingress. */
struct retry {
	struct admin *a;
	struct progress progress;
	int64_t moved;
	int64_t gone;		/* another process moved them first */
	/* an archive has claimed them, and will remove them: they are left alone, at the old end of escape */
	int64_t claimed;
};

/* Asks the operator, moves all messages of the list of the queue in a->keys, and prints their number. action: the
 * command, "dlq retry" or "retry" */
int retry_whole(struct admin *a, enum admin_list list, const char *action);
/* Makes the outcome of the command before it has moved a message. */
struct outcome retry_outcome(const char *action, const char *list);

/*
 * Moves the messages of one owner's trays and rescue list, or of the bare list. The owner must be dead: the function
 * takes them away from a live one, too. -1: error of Redis; messages moved until then are counted.
 */
int retry_owner(struct retry *t, const char *incarnation);
int retry_bare(struct retry *t);
int retry_aside(struct retry *t);		/* moves messages that were set aside */

/* Moves these dead letters, the oldest first, and deletes their records, which `records` finds in the log. */
struct records;
struct entries;
struct list_entry;
int retry_redrive(struct retry *t, struct records *records, const struct entries *oldest);

/* Takes one answer for each of n messages: 1 moved, 0 another process moved it, -1 an archive has claimed it. */
int retry_take_moved(struct retry *t, size_t n, const char *key);
void retry_note_moved(struct retry *t, int64_t moved);		/* counts one of these answers */

#endif
