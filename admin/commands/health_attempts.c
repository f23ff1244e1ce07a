/*
 * Adds to reports of health when workers try the handler of an open breaker again. A report of health is too old to contain this time.
 * The leader of the queue, which writes it, also writes the report of its node, every 10 s: that one has the time.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/commands/commands.h"

#include "common/base/base.h"
#include "common/holds/holds.h"
#include "common/queue/queue.h"

/* The reason "breaker" of a report; NULL: the breaker is not open. */
static json_t *breaker_reason(const struct queue_health *h)
{
	json_t *reason;
	size_t i;

	json_array_foreach(json_object_get(h->document, "reasons"), i, reason) {
		const char *code = json_string_value(json_object_get(reason, "code"));

		if (code != NULL && strcmp(code, holds_table[HOLD_BREAKER].code) == 0)
			return reason;
	}
	return NULL;
}

static void add_attempt(const struct queue_health *h, const json_t *node, int64_t server_ms)
{
	json_t *reason = breaker_reason(h), *row;
	size_t i;

	json_array_foreach(json_object_get(node, "queues"), i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));
		struct facts f = facts_unknown();

		if (name == NULL || strcmp(name, h->queue) != 0)
			continue;
		facts_read(&f, FACT_OF_HOST, row, queue_node_age(node, server_ms));
		if (f.n[FACT_NEXT_ATTEMPT] >= 0)
			json_object_set_new(reason, facts_table[FACT_NEXT_ATTEMPT].key,
			    json_integer(f.n[FACT_NEXT_ATTEMPT]));
	}
}

static const char *node_of(const struct queue_health *h)
{
	return json_string_value(json_object_get(h->document, "node"));
}

static void add_attempts_of_node(struct queue_health *const *open, size_t n, const char *name, const json_t *node, int64_t server_ms)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(node_of(open[i]), name) == 0)
			add_attempt(open[i], node, server_ms);
}

static bool is_first_of_its_node(struct queue_health *const *open, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (strcmp(node_of(open[i]), node_of(open[index])) == 0)
			return false;
	return true;
}

int health_attempts_add(struct admin *a, struct queue_health *reports, size_t n, int64_t server_ms)
{
	struct queue_health **open = alloc_zero(n + 1, sizeof(struct queue_health *));
	size_t nopen = 0;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		if (breaker_reason(&reports[i]) != NULL && node_of(&reports[i]) != NULL)
			open[nopen++] = &reports[i];
	for (size_t i = 0; i < nopen && rc == 0; i++) {
		struct redis_reply reply;
		json_t *node;

		if (!is_first_of_its_node(open, i))
			continue;
		queue_node_read(&a->redis, node_of(open[i]));
		rc = admin_wait(a, &reply);
		if (rc == -1)
			break;
		node = reply.type == REDIS_STRING ? json_loadb(reply.str, reply.len, 0, NULL) : NULL;
		add_attempts_of_node(open, nopen, node_of(open[i]), node, server_ms);
		json_decref(node);
	}
	free(open);
	return rc;
}
