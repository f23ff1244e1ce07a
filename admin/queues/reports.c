/* Compares reports of health with the reports of the nodes that wrote them (reports.h). */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/queues/reports.h"

#include "common/base/base.h"
#include "common/facts/facts.h"
#include "common/holds/holds.h"

#define SILENT "the supervisor that judged it does not report any more: it has ended, or cannot write to Redis " \
    "(quredis nodes)"

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

/* An unhealthy queue stays so: no news does not make it better. What processes did is not known any more; messages stay
 * in Redis. */
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
	const char *code = json_string_value(json_object_get(json_array_get(json_object_get(h->document, "reasons"), 0),
	    "code"));

	return code != NULL && strcmp(code, UNREPORTED) == 0;
}

bool reports_say_paused(const struct queue_health *h)
{
	const char *state = json_string_value(json_object_get(h->document, "state"));

	return state != NULL && (holds_by_name(state) == HOLD_PAUSED || holds_by_name(state) == HOLD_HELD);
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
	static const int of[] = { [QUEUE_HEALTHY] = 0, [QUEUE_DEGRADED] = 1, [REPORTS_UNKNOWN] = 2,
	    [QUEUE_UNHEALTHY] = 3 };

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
			json_object_set_new(reason, facts_table[FACT_NEXT_ATTEMPT].key,
			    json_integer(f.n[FACT_NEXT_ATTEMPT]));
	}
}

static void set_from_node(struct queue_health *h, const json_t *node, int64_t server_ms)
{
	const json_t *row = queue_node_row(node, h->queue);

	if (row == NULL)
		return;
	add_attempt(h, row, queue_node_age(node, server_ms));
	if (queue_node_at(node) <= h->at_ms)
		return;
	set_from_row(h, "state", row);
	set_from_row(h, "reason", row);
}

int reports_confirm(struct admin *a, struct queue_health *reports, size_t *n, int64_t server_ms)
{
	json_t *nodes = queue_health_ask_nodes(&a->redis, reports, *n), *report;
	struct redis_reply reply;
	size_t kept = 0;
	const char *name;
	int rc = 0;

	json_object_foreach(nodes, name, report)
		if (rc == 0 && (rc = admin_wait(a, &reply)) == 0 &&
		    (report = queue_node_parse(&reply, server_ms)) != NULL)
			json_object_set_new(nodes, name, report);
	for (size_t i = 0; i < *n && rc == 0; i++) {
		const json_t *node = queue_health_node(&reports[i], nodes);
		enum queue_health_worth worth = queue_health_worth(&reports[i], node, server_ms);

		if (worth == QUEUE_HEALTH_LEFT) {
			queue_health_free(&reports[i]);
			continue;
		}
		if (worth == QUEUE_HEALTH_DOUBTFUL)
			doubt(&reports[i]);
		set_from_node(&reports[i], node, server_ms);
		reports[kept++] = reports[i];
	}
	*n = rc == 0 ? kept : *n;
	json_decref(nodes);
	return rc;
}
