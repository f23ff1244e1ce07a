/* quredis ls: every queue of the configuration and the registry, with how much is where. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/command.h"
#include "admin/lists.h"

#include "admin/visible.h"
#include "common/alloc.h"
#include "common/nitems.h"

struct entry {
	struct queue_keys keys;
	struct lists lists;
	bool configured;
};

static const struct column columns[] = {
	{ "name", "Name", false },
	{ NULL, "Ingress", false },
	{ NULL, "Transit", false },
	{ NULL, "Escape", false },
	{ "ingress", NULL, false },
	{ "transit", NULL, false },
	{ "escape", NULL, false },
	{ "ingress_size", NULL, false },
	{ "transit_size", NULL, false },
	{ "escape_size", NULL, false },
	{ "delayed_size", "Delayed", true },
	{ "paused", "Paused", false },
	{ "configured", NULL, false },
};

static char *key_and_size(const char *key, int64_t size)
{
	return size == LISTS_WRONG_TYPE ? alloc_format("%s (wrong type)", key) : alloc_format("%s (%" PRId64 ")", key, size);
}

static struct cell size_cell(int64_t size)
{
	return size == LISTS_WRONG_TYPE ? cell_none() : cell_int(size);
}

static void show(struct admin *a, const struct entry *e)
{
	const struct queue_keys *k = &e->keys;
	const struct lists *l = &e->lists;
	char *ingress = key_and_size(k->ingress, l->ingress), *transit = key_and_size(k->transit, l->transit);
	char *escape = key_and_size(k->escape, l->escape);

	output_row(&a->output, (struct cell[]){ cell_str(k->name), cell_str(ingress), cell_str(transit), cell_str(escape),
	    cell_str(k->ingress), cell_str(k->transit), cell_str(k->escape), size_cell(l->ingress), size_cell(l->transit),
	    size_cell(l->escape), size_cell(l->delayed), cell_bool(l->paused), cell_bool(e->configured) });
	if (l->ingress == LISTS_WRONG_TYPE || l->transit == LISTS_WRONG_TYPE || l->escape == LISTS_WRONG_TYPE ||
	    l->delayed == LISTS_WRONG_TYPE)
		a->status = EX_CONFIG;
	free(ingress);
	free(transit);
	free(escape);
}

/* Those of the registry that the configuration does not have. An entry nobody can read is said, and the rest is shown. */
static int take_registered(struct admin *a, char **names, size_t n, struct entry *entries, size_t *nentries)
{
	struct redis_reply reply;

	for (size_t i = 0; i < n; i++) {
		char *key = queue_registered_key(names[i]);

		redis_appendf(&a->redis, "GET %s", key);
		free(key);
	}
	for (size_t i = 0; i < n; i++) {
		struct entry *e = &entries[*nentries];
		char *shown;

		if (admin_reply(a, &reply, names[i]) == -1)
			return -1;
		if (conf_queue_find(a->conf, names[i]) != NULL)
			continue;
		if (reply.type == REDIS_STRING && queue_registered_parse(&e->keys, names[i], reply.str, reply.len) == 0) {
			(*nentries)++;
			continue;
		}
		shown = visible(names[i], strlen(names[i]), 200);
		admin_fail(a, EX_CONFIG, "the registry's entry of %s cannot be read", shown);
		free(shown);
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->keys.name, ((const struct entry *)b)->keys.name);
}

static int measure(struct admin *a, struct entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		lists_ask(a, &entries[i].keys);
	for (size_t i = 0; i < n; i++)
		if (lists_take(a, &entries[i].lists) == -1)
			return -1;
	for (size_t i = 0; i < n; i++)
		lists_ask_trays(a, &entries[i].keys, &entries[i].lists);
	for (size_t i = 0; i < n; i++)
		if (lists_take_trays(a, &entries[i].lists) == -1)
			return -1;
	return 0;
}

int cmd_ls(struct admin *a)
{
	struct entry *entries;
	char **names;
	size_t nnames, n = 0;
	int rc;

	if (admin_registered(a, &names, &nnames) == -1)
		return -1;
	entries = alloc_zero(a->conf->nqueues + nnames, sizeof(*entries));
	for (size_t i = 0; i < a->conf->nqueues; i++) {
		queue_keys_from_conf(&entries[n].keys, a->conf->queues[i]);
		entries[n++].configured = true;
	}
	rc = take_registered(a, names, nnames, entries, &n);
	qsort(entries, n, sizeof(*entries), by_name);
	if (rc == 0 && (rc = measure(a, entries, n)) == 0) {
		a->output.keep_tail = true;
		output_begin(&a->output, columns, nitems(columns));
		for (size_t i = 0; i < n; i++)
			show(a, &entries[i]);
		output_end(&a->output, true);
	}
	for (size_t i = 0; i < n; i++) {
		queue_keys_free(&entries[i].keys);
		lists_free(&entries[i].lists);
	}
	free(entries);
	admin_names_free(names, nnames);
	return rc;
}
