/* Compares reports of health with the reports of the nodes that wrote them (reports.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/queues/reports.h"

#include "common/base/base.h"
#include "common/facts/facts.h"
#include "common/holds/holds.h"

#define SILENT "the supervisor that judged it does not report any more: it has ended, or cannot write to Redis (quredis nodes)"

/* ---- what becomes of a report ---- */

#define UNREPORTED "unreported"		/* a code of health, by the reader; the first reason of its report */

static json_t *unreported(const char *why)
{
	return json_pack("{s:s, s:s, s:s}", "code", UNREPORTED, "status", "unknown", "text", why);
}

static void set_status(struct queue_health *h, int level, const char *status)
{
	json_object_set_new(h->document, "status", json_string(status));
	h->status = json_string_value(json_object_get(h->document, "status"));
	h->level = level;
}

struct queue_health reports_missing(const char *queue, const char *why)
{
	struct queue_health h = { .document = json_pack("{s:s, s:[o]}", "queue", queue, "reasons", unreported(why)) };

	h.queue = json_string_value(json_object_get(h.document, "queue"));
	set_status(&h, REPORTS_UNKNOWN, "unknown");
	return h;
}

/* An unhealthy queue stays so: no news does not make it better. What processes did is not known any more; messages stay in Redis. */
static void doubt(struct queue_health *h)
{
	static const char *const of_processes[] = { "workers", "rates", "state", "reason" };
	json_t *reasons = json_object_get(h->document, "reasons");

	if (!json_is_array(reasons)) {
		reasons = json_array();
		json_object_set_new(h->document, "reasons", reasons);
	}
	json_array_insert_new(reasons, 0, unreported(SILENT));
	for (size_t i = 0; i < nitems(of_processes); i++)
		json_object_del(h->document, of_processes[i]);
	if (h->level != QUEUE_UNHEALTHY)
		set_status(h, REPORTS_UNKNOWN, "unknown");
}

bool reports_doubt(const struct queue_health *h)
{
	const char *code = json_string_value(json_object_get(json_array_get(json_object_get(h->document, "reasons"), 0), "code"));

	return code != NULL && strcmp(code, UNREPORTED) == 0;
}

bool reports_say_paused(const struct queue_health *h)
{
	const char *state = json_string_value(json_object_get(h->document, "state"));

	return state != NULL && holds_by_name(state) == HOLD_PAUSED;
}

void reports_end_pause(struct queue_health *h)
{
	if (!reports_say_paused(h))
		return;
	json_object_del(h->document, "state");
	json_object_del(h->document, "reason");
}

int reports_badness(int level)
{
	static const int of[] = { [QUEUE_HEALTHY] = 0, [QUEUE_DEGRADED] = 1, [REPORTS_UNKNOWN] = 2, [QUEUE_UNHEALTHY] = 3 };

	return of[level];
}

void reports_free(struct queue_health *reports, size_t n)
{
	for (size_t i = 0; i < n; i++)
		queue_health_free(&reports[i]);
	free(reports);
}

/* ---- what the node says ---- */

static void set_from_row(struct queue_health *h, const char *key, const json_t *row)
{
	json_t *value = json_object_get(row, key);

	if (json_is_string(value))
		json_object_set(h->document, key, value);
	else
		json_object_del(h->document, key);
}

static void add_attempt(struct queue_health *h, const json_t *row, int64_t age_ms)
{
	struct facts f = facts_unknown();
	json_t *reason;
	size_t i;

	facts_read(&f, FACT_OF_HOST, row, age_ms);
	json_array_foreach(json_object_get(h->document, "reasons"), i, reason) {
		const char *code = json_string_value(json_object_get(reason, "code"));

		if (code != NULL && strcmp(code, holds_table[HOLD_BREAKER].code) == 0 && f.n[FACT_NEXT_ATTEMPT] >= 0)
			json_object_set_new(reason, facts_table[FACT_NEXT_ATTEMPT].key, json_integer(f.n[FACT_NEXT_ATTEMPT]));
	}
}

/* NULL: the node does not have the queue. */
static const json_t *row_of(const json_t *node, const char *queue)
{
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(node, "queues"), i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));

		if (name != NULL && strcmp(name, queue) == 0)
			return row;
	}
	return NULL;
}

/* False: the queue left the node after the report. node: its report; NULL: there is none that counts. */
static bool compare(struct queue_health *h, const json_t *node, int64_t server_ms)
{
	int64_t age_ms = queue_node_age(node, server_ms), at_ms = clock_ms_of(json_number_value(json_object_get(node, "at_ms")));
	const json_t *row = row_of(node, h->queue);

	if (node == NULL) {
		/* The first report of a node may come later than that of a queue. */
		if (server_ms - h->at_ms >= QUEUE_NODE_EVERY_MS)
			doubt(h);
		return true;
	}
	if (row != NULL)
		add_attempt(h, row, age_ms);
	if (at_ms <= h->at_ms)
		return true;
	if (row != NULL) {
		set_from_row(h, "state", row);
		set_from_row(h, "reason", row);
	}
	return row != NULL;
}

/* NULL: no report, none that can be read, or one of a time that Redis' clock has not had: its key may never expire. */
static json_t *node_report(const struct redis_reply *reply, int64_t server_ms)
{
	json_t *node = reply->type == REDIS_STRING ? json_loadb(reply->str, reply->len, 0, NULL) : NULL;
	int64_t away_ms = server_ms - clock_ms_of(json_number_value(json_object_get(node, "at_ms")));

	if (json_is_object(node) && away_ms <= QUEUE_NODE_KEPT_MS && away_ms >= -QUEUE_NODE_KEPT_MS)
		return node;
	json_decref(node);
	return NULL;
}

/* ---- all reports ---- */

static const char *node_of(const struct queue_health *h)
{
	const char *node = json_string_value(json_object_get(h->document, "node"));

	return node == NULL ? "" : node;
}

/* The place of the first report of the same node. */
static size_t first_of_node(const struct queue_health *reports, size_t index)
{
	size_t i = 0;

	while (strcmp(node_of(&reports[i]), node_of(&reports[index])) != 0)
		i++;
	return i;
}

/* nodes[i]: the report of the node of reports[i], if that is the first one of its node. */
static int read_nodes(struct admin *a, const struct queue_health *reports, json_t **nodes, size_t n, int64_t server_ms)
{
	struct redis_reply reply;

	for (size_t i = 0; i < n; i++)
		if (first_of_node(reports, i) == i)
			queue_node_read(&a->redis, node_of(&reports[i]));
	for (size_t i = 0; i < n; i++) {
		if (first_of_node(reports, i) != i)
			continue;
		if (admin_wait(a, &reply) == -1)
			return -1;
		nodes[i] = node_report(&reply, server_ms);
	}
	return 0;
}

int reports_confirm(struct admin *a, struct queue_health *reports, size_t *n, int64_t server_ms)
{
	json_t **nodes = alloc_zero(*n + 1, sizeof(*nodes));
	size_t *first = alloc_zero(*n + 1, sizeof(*first)), kept = 0;
	int rc = read_nodes(a, reports, nodes, *n, server_ms);

	for (size_t i = 0; i < *n; i++)
		first[i] = first_of_node(reports, i);
	for (size_t i = 0; i < *n; i++) {
		if (rc == -1 || compare(&reports[i], nodes[first[i]], server_ms))
			reports[kept++] = reports[i];
		else
			queue_health_free(&reports[i]);
	}
	for (size_t i = 0; i < *n; i++)
		json_decref(nodes[i]);
	*n = kept;
	free(nodes);
	free(first);
	return rc;
}
