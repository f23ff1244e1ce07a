#ifndef ADMIN_RETRY_H
#define ADMIN_RETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/admin.h"
#include "admin/progress.h"

/* Messages of the queue in a->keys on their way back into ingress. */
struct retry {
	struct admin *a;
	struct progress progress;
	int64_t moved;
	int64_t gone;		/* another moved them meanwhile */
	int64_t claimed;	/* on their way into the archive: left alone, at the old end of escape */
};

/* What lay in the trays and the rescue list of one owner, or in the bare list. Nobody may own them: they are taken from
 * whoever does. -1: Redis; what was moved until then is counted. */
int retry_owner(struct retry *t, const char *incarnation);
int retry_bare(struct retry *t);
int retry_aside(struct retry *t);		/* what was set aside */

/* Some of escape's oldest, oldest first, with their records; records: read along. */
struct records;
struct entries;
struct list_entry;
int retry_redrive(struct retry *t, struct records *records, const struct entries *oldest);

/* Takes one answer a message: 1 moved, 0 another moved it, -1 an archive has claimed it. */
int retry_take_moved(struct retry *t, size_t n, const char *key);
void retry_note_moved(struct retry *t, int64_t moved);		/* one of these answers */
void retry_note_claimed(const struct retry *t);	/* if there are any */
/*
 * Moves one dead letter, that was found where it says, back into ingress: a new message to the queue, that waits since now. A
 * large one that is not there any more is looked for again. moved: as retry_take_moved() has it. -1: Redis.
 */
int retry_redrive_one(struct admin *a, const struct list_entry *entry, const char *record_id, int64_t *moved);

#endif
