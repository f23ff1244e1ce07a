/* quredis ls: lists every queue of the configuration and the registry, with the lengths of its lists. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/commands/commands.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"

struct listed_queue {
	const struct registry_queue *queue;
	struct lists lists;
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

static void show_queue(struct admin *a, const struct listed_queue *e)
{
	const struct queue_keys *k = &e->queue->keys;
	const struct lists *l = &e->lists;
	char *ingress = key_and_size(k->ingress, l->ingress), *transit = key_and_size(k->transit, l->transit);
	char *escape = key_and_size(k->escape, l->escape);

	output_row(&a->output, (struct cell[]){ cell_str(k->name), cell_str(ingress), cell_str(transit), cell_str(escape),
	    cell_str(k->ingress), cell_str(k->transit), cell_str(k->escape), size_cell(l->ingress), size_cell(l->transit),
	    size_cell(l->escape), size_cell(l->delayed), cell_bool(l->paused), cell_bool(e->queue->configured) });
	if (l->ingress == LISTS_WRONG_TYPE || l->transit == LISTS_WRONG_TYPE || l->escape == LISTS_WRONG_TYPE ||
	    l->delayed == LISTS_WRONG_TYPE)
		a->status = EX_CONFIG;
	free(ingress);
	free(transit);
	free(escape);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct listed_queue *)a)->queue->keys.name, ((const struct listed_queue *)b)->queue->keys.name);
}

static int measure(struct admin *a, struct listed_queue *entries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		lists_ask(a, &entries[i].queue->keys);
	for (size_t i = 0; i < n; i++)
		if (lists_take(a, &entries[i].lists) == -1)
			return -1;
	for (size_t i = 0; i < n; i++)
		lists_ask_trays(a, &entries[i].queue->keys, &entries[i].lists);
	for (size_t i = 0; i < n; i++)
		if (lists_take_trays(a, &entries[i].lists) == -1)
			return -1;
	return 0;
}

int cmd_ls(struct admin *a)
{
	struct registry_queue *queues;
	struct listed_queue *entries;
	size_t n;
	int rc;

	if (registry_read(a, &queues, &n) == -1)
		return -1;
	entries = alloc_zero(n, sizeof(*entries));
	for (size_t i = 0; i < n; i++)
		entries[i].queue = &queues[i];
	qsort(entries, n, sizeof(*entries), by_name);
	rc = measure(a, entries, n);
	if (rc == 0) {
		a->output.keep_tail = true;
		output_begin(&a->output, columns, nitems(columns));
		for (size_t i = 0; i < n; i++)
			show_queue(a, &entries[i]);
		output_end(&a->output, true);
	}
	for (size_t i = 0; i < n; i++)
		lists_free(&entries[i].lists);
	free(entries);
	registry_free(queues, n);
	return rc;
}
