/*
 * quredis purge: deletes all messages of a list in one step. Messages that live workers hold stay, unless --force is
 * given; the script that deletes them decides that, so no worker can take a lease in between.
 */
#include <sysexits.h>

#include "admin/moves/moves.h"
#include "admin/queues/queues.h"

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

	if (admin_list_parse(a, a->operands[1],
	    LIST_BIT(LIST_INGRESS) | LIST_BIT(LIST_TRANSIT) | LIST_BIT(LIST_ESCAPE) |
		LIST_BIT(LIST_DELAYED), &list) == -1)
		return -1;
	return purge_whole(a, list, "purge");
}
