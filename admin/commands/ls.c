/*
 * quredis ls: lists every queue of the configuration and the registry, with the lengths of its lists and, if a supervisor reports health, what is wrong.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/commands/commands.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

struct listed_queue {
	const struct registry_queue *queue;
	struct lists lists;
	char *health, *reasons;		/* of its last report, unless that is stale; NULL: none */
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
	/* these two only if there is a report */
	{ "health", "Health", false },
	{ "reasons", "Reason", false },
};
#define HEALTH_COLUMNS 2

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
	    size_cell(l->escape), size_cell(l->delayed), cell_bool(l->paused), cell_bool(e->queue->configured), cell_str(e->health),
	    cell_str(e->reasons == NULL || e->reasons[0] == '\0' ? NULL : e->reasons) });
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

static void take_report(struct listed_queue *entries, size_t n, const struct redis_reply *text, int64_t server_ms)
{
	struct queue_health h;

	if (queue_health_parse(&h, text->str, text->len) == -1)
		return;
	for (size_t i = 0; i < n && !queue_health_is_stale(&h, server_ms); i++)
		if (strcmp(entries[i].queue->keys.name, h.queue) == 0 && entries[i].health == NULL) {
			entries[i].health = alloc_string(h.status);
			entries[i].reasons = health_reasons(h.document);
		}
	queue_health_free(&h);
}

/* The lists are shown also if the reports cannot be read. *any: there is a report. */
static int read_health(struct admin *a, struct listed_queue *entries, size_t n, bool *any)
{
	struct redis_reply reply;
	int64_t server_ms;
	void *kept;
	int rc;

	queue_health_read(&a->redis);
	if (redis_wait(&a->redis, &reply, ADMIN_TIMEOUT_MS, NULL) == -1)
		return admin_fail(a, EX_UNAVAILABLE, "Redis: %s", a->redis.error);
	if (!redis_is_strings(&reply) || reply.n == 0)
		return 0;
	kept = redis_keep(&a->redis);
	rc = admin_server_time(a, &server_ms);
	for (size_t i = 0; rc == 0 && i + 1 < reply.n; i += 2) {
		struct redis_reply text = redis_element(&reply, i + 1);

		take_report(entries, n, &text, server_ms);
	}
	redis_let_go(kept);
	for (size_t i = 0; i < n; i++)
		*any = *any || entries[i].health != NULL;
	return rc;
}

static void free_entries(struct listed_queue *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		lists_free(&entries[i].lists);
		free(entries[i].health);
		free(entries[i].reasons);
	}
	free(entries);
}

int cmd_ls(struct admin *a)
{
	struct registry_queue *queues;
	struct listed_queue *entries;
	bool any = false;
	size_t n;
	int rc;

	if (registry_read(a, &queues, &n) == -1)
		return -1;
	entries = alloc_zero(n, sizeof(*entries));
	for (size_t i = 0; i < n; i++)
		entries[i].queue = &queues[i];
	qsort(entries, n, sizeof(*entries), by_name);
	rc = measure(a, entries, n) == -1 || read_health(a, entries, n, &any) == -1 ? -1 : 0;
	if (rc == 0) {
		a->output.keep_tail = true;
		output_begin(&a->output, columns, nitems(columns) - (any ? 0 : HEALTH_COLUMNS));
		for (size_t i = 0; i < n; i++)
			show_queue(a, &entries[i]);
		output_end(&a->output, true);
	}
	free_entries(entries, n);
	registry_free(queues, n);
	return rc;
}
