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
};

/* What lay in the trays and the rescue list of one owner, or in the bare list. Nobody may own them: they are taken from
 * whoever does. -1: Redis; what was moved until then is counted. */
int retry_owner(struct retry *t, const char *incarnation);
int retry_bare(struct retry *t);

/* A page of escape's oldest, with their records; records: read along. */
struct records;
struct page;
int retry_redrive(struct retry *t, struct records *records, const struct page *page);

/* Takes one answer a message: 1 moved, 0 another moved it. */
int retry_take_moved(struct retry *t, size_t n, const char *key);
/* Appends the move of one dead letter back into ingress: a new message to the queue, that waits since now. */
struct queue_bytes;
void retry_append_redrive(struct admin *a, const struct queue_bytes *entry, int64_t now_ms, const char *record_id);

#endif
