#ifndef ADMIN_MOVES_BULK_H
#define ADMIN_MOVES_BULK_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/cli/cli.h"
#include "admin/queues/queues.h"

/*
 * Work on a whole list of the queue in a->keys. Each function asks the operator, does the work and prints the number of
 * messages. Commands that do the same to a list share it: dlq rm --all and purge escape; dlq retry --all and retry escape.
 */
int bulk_purge(struct admin *a, enum admin_list list, const char *action);
int bulk_retry(struct admin *a, enum admin_list list, const char *action);
/*
 * Deletes a dead letter and its record. entry: where it was found; a large one is searched again if it has left that place. NULL: it has no message.
 * 1: deleted; 0: it was not in escape any more, only its record was deleted; -1: error, or it has no record any more (EX_NOINPUT)
 */
struct dead_letter;
struct list_entry;
int purge_dead_letter(struct admin *a, const struct dead_letter *d, const struct list_entry *entry);
/* Escape, with a filter or --canary, --rate and --max-failures. retry false: deletes. outcome: of the command, before it has moved a message */
int by_filter_run(struct admin *a, bool retry, const struct outcome *outcome);

/* True: the command may take messages of the bare transit list, which belongs to other consumers. In a shared queue such a consumer may be alive. */
static inline bool bulk_takes_bare(const struct admin *a)
{
	return a->options.force || !a->keys.shared;
}

/* Returns how many messages of the list the command takes. Of transit it takes those that no live worker holds; with --force all of them. */
static inline int64_t bulk_total(const struct admin *a, const struct lists *l, enum admin_list list)
{
	int64_t n = a->options.force ? l->transit : l->transit - l->held;

	switch (list) {
	case LIST_INGRESS:
		return l->ingress;
	case LIST_ESCAPE:
		return l->escape;
	case LIST_DELAYED:
		return l->delayed;
	case LIST_TRANSIT:
		break;
	}
	return bulk_takes_bare(a) ? n : n - l->bare - l->bare_rescue;
}

#endif
