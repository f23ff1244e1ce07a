/*
 * quredis purge: everything in a list, in one step a list. What live workers hold is left alone
 * unless --force; that is decided in the same script that removes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sysexits.h>

#include "admin/bulk.h"
#include "admin/command.h"
#include "admin/confirm.h"
#include "admin/lists.h"
#include "admin/outcome.h"

#include "common/alloc.h"

static const char *const list_names[] = {
	[LIST_INGRESS] = "ingress", [LIST_TRANSIT] = "transit", [LIST_ESCAPE] = "escape", [LIST_DELAYED] = "delayed",
};

static int64_t length_of(const struct admin *a, const struct lists *l, enum admin_list list)
{
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
	return bulk_transit_total(a, l) - l->aside;	/* that stays */
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
	if (!bulk_takes_bare(a)) {
		o->held += l->bare + l->bare_rescue;
		return 0;
	}
	queue_purge_bare(&a->redis, &a->keys);
	if (admin_integer(a, &n, a->keys.transit) == -1)
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
		queue_purge_delayed(&a->redis, &a->keys);
		return admin_integer(a, &o->count, a->keys.delayed);
	}
	return -1;
}

static int ask(struct admin *a, const char *list, int64_t n)
{
	char *count = outcome_count(n), *question = alloc_format("Delete %s of %s %s?", count, a->keys.name, list);
	int rc = n == 0 ? 0 : confirm(a, question);

	free(question);
	free(count);
	return rc;
}

int bulk_purge(struct admin *a, enum admin_list list, const char *action)
{
	struct outcome o = { .action = action, .did = "purged", .would = "would purge", .list = list_names[list] };
	struct lists l;
	int rc = lists_read(a, &a->keys, LIST_BIT(list), &l);

	if (rc == 0) {
		o.count = length_of(a, &l, list);
		o.held = list == LIST_TRANSIT ? l.transit - o.count : 0;
	}
	if (rc == 0 && !a->options.dry_run) {
		rc = ask(a, list_names[list], o.count);
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
	return bulk_purge(a, list, "purge");
}
