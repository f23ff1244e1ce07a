#ifndef ADMIN_BULK_H
#define ADMIN_BULK_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/admin.h"
#include "admin/lists.h"

/*
 * Work on a whole list of the queue in a->keys: asked for on a terminal, counted, told at the end.
 * Commands that come to the same thing (dlq rm --all, purge escape) share it.
 */
int bulk_purge(struct admin *a, enum admin_list list, const char *action);
int bulk_retry(struct admin *a, enum admin_list list, const char *action);
int bulk_retry_paced(struct admin *a);		/* escape, by --canary, --rate and --max-failures */

/*
 * Whether the bare transit list may be touched: it is a foreign consumer's. Where the queue is
 * shared that consumer may be alive.
 */
static inline bool bulk_takes_bare(const struct admin *a)
{
	return a->options.force || !a->keys.shared;
}

/* Messages of transit that are not with live owners; all with --force. */
static inline int64_t bulk_transit_total(const struct admin *a, const struct lists *l)
{
	int64_t n = a->options.force ? l->transit : l->transit - l->held;

	return bulk_takes_bare(a) ? n : n - l->bare - l->bare_rescue;
}

#endif
