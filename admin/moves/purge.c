/*
 * quredis purge: deletes all messages of a list in one step. Messages that live workers hold stay, unless --force is given; the script
 * that deletes them decides that, so no worker can take a lease in between.
 */
#include <sysexits.h>

#include "admin/dead_letters/dead_letters.h"
#include "admin/moves/moves.h"
#include "admin/moves/purge.h"
#include "admin/queues/queues.h"

#define LOOKS 3			/* searches for a dead letter that changes its place meanwhile */

/* A purge leaves messages that were set aside; only a retry moves them. */
static int64_t count_purged(const struct admin *a, const struct lists *l, enum admin_list list)
{
	return lists_free_messages(a, l, list) - (list == LIST_TRANSIT ? l->aside : 0);
}

static int purge_transit(struct admin *a, const struct lists *l, struct outcome *o)
{
	int64_t n;

	for (size_t i = 0; i < l->nworkers; i++)
		if (l->owners[i].total > 0)
			queue_purge_owner(&a->redis, &a->keys, l->workers[i].incarnation, a->options.force);
	for (size_t i = 0; i < l->nworkers; i++) {
		if (l->owners[i].total <= 0)
			continue;
		if (admin_integer(a, &n, l->workers[i].incarnation) == -1)
			return -1;
		if (n == -1)
			o->held += l->owners[i].total;
		else
			o->count += n;
	}
	o->held += l->aside;
	if (!lists_bare_is_free(a)) {
		o->held += l->bare + l->bare_rescue;
		return 0;
	}
	queue_purge_bare(&a->redis, &a->keys);
	if (admin_integer(a, &n, a->keys.transit) == -1)
		return -1;
	o->count += n;
	return 0;
}

/* Also what producers delayed. If their key has another type, it has no message. */
static int purge_delayed(struct admin *a, const struct lists *l, struct outcome *o)
{
	int64_t n;

	queue_purge_delayed(&a->redis, &a->keys);
	if (admin_integer(a, &o->count, a->keys.delayed) == -1)
		return -1;
	if (l->pushed == 0)
		return 0;
	queue_purge_pushed(&a->redis, &a->keys);
	if (admin_integer(a, &n, a->keys.pushed) == -1)
		return -1;
	o->count += n;
	return 0;
}

static int purge_list(struct admin *a, enum admin_list list, const struct lists *l, struct outcome *o)
{
	switch (list) {
	case LIST_TRANSIT:
		return purge_transit(a, l, o);
	case LIST_INGRESS:
		queue_purge_ingress(&a->redis, &a->keys);
		return admin_integer(a, &o->count, a->keys.ingress);
	case LIST_ESCAPE:
		queue_purge_escape(&a->redis, &a->keys);
		return admin_integer(a, &o->count, a->keys.escape);
	case LIST_DELAYED:
		return purge_delayed(a, l, o);
	}
	return -1;
}

int purge_whole(struct admin *a, enum admin_list list, const char *action)
{
	struct outcome o = { .action = action, .did = "purged", .would = "would purge", .list = admin_list_name(list) };
	struct lists l;
	int rc = lists_read(a, &a->keys, LIST_BIT(list), &l);

	if (rc == 0) {
		o.count = count_purged(a, &l, list);
		o.held = list == LIST_TRANSIT ? l.transit - o.count : 0;
	}
	if (rc == 0 && !a->options.dry_run) {
		rc = confirm_messages(a, "Delete", o.count, o.list, "");
		o.count = o.held = 0;
		if (rc == 0)
			rc = purge_list(a, list, &l, &o);
	}
	lists_free(&l);
	if (rc == 0)
		outcome_say(a, &o);
	return rc;
}

int cmd_purge(struct admin *a)
{
	enum admin_list list;

	if (admin_list_parse(a, a->operands[1], LIST_BIT(LIST_INGRESS) | LIST_BIT(LIST_TRANSIT) | LIST_BIT(LIST_ESCAPE) |
		LIST_BIT(LIST_DELAYED), &list) == -1)
		return -1;
	return purge_whole(a, list, "purge");
}

/* ---- one dead letter ---- */

/* removed: 1; 0: it is not in escape, and its record stays; -1: it had no record */
static int purge_with_message(struct admin *a, const struct dead_letter *d, const struct list_entry *entry, int64_t *removed)
{
	struct list_entry again = {0};
	int found = 1;

	for (int i = 0; i < LOOKS && found == 1; i++) {
		struct queue_entry named = entry_name(i == 0 ? entry : &again);
		int rc;

		named.sha1 = named.at == QUEUE_ANYWHERE ? NULL : entry->sha1;
		queue_discard(&a->redis, &a->keys, &named, d->record_id);
		entry_free(&again);
		rc = admin_integer(a, removed, a->keys.escape);
		if (rc == -1 || *removed != QUEUE_CANNOT_TELL)
			return rc;
		found = dead_letter_entry(a, d, entry->at, &again);
		*removed = 0;
	}
	entry_free(&again);
	if (found == 1)
		return admin_fail(a, EX_TEMPFAIL, "the message of %s keeps changing its place in %s; try again", d->record_id, a->keys.escape);
	return found == -1 ? -1 : 0;
}

int purge_dead_letter(struct admin *a, const struct dead_letter *d, const struct list_entry *entry)
{
	int64_t removed = 0, records = 0;

	if (entry != NULL && purge_with_message(a, d, entry, &removed) == -1)
		return -1;
	if (removed == 0) {
		redis_appendf(&a->redis, "XDEL %s %s", a->keys.log, d->record_id);
		if (admin_integer(a, &records, a->keys.log) == -1)
			return -1;
	}
	return removed == 1 ? 1 : records == 1 ? 0 : admin_fail(a, EX_NOINPUT, "%s has no record %s", a->keys.name, d->record_id);
}
