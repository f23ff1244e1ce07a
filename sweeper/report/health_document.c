/*
 * The report of one queue: a field of quredis:health, which `quredis health --json` shows. Names and shape are stable.
 * Ages are in seconds. Unknown values are left out.
 *
 *	{ "queue", "status": "healthy"|"degraded"|"unhealthy", "since": RFC 3339, "at": RFC 3339, "at_ms",
 *	  "interval_ms", "node", "notified": the status that health.on_change last succeeded for,
 *	  "next_at": RFC 3339, "next_at_ms" of the next look, at the latest,
 *	  "state", "reason": why it does not fetch on that node, as in quredis status at that time, without times; while
 *	  it runs: why it has no workers, or fewer than it should,
 *	  "reasons", the worst first: [ { "code", "status", "recovering": the figure does not exceed the limit any more,
 *	  "value", "limit", "text" } ],
 *	  and the figures of FACT_OF_QUEUE in common/facts/table.h, in the objects "ingress", "transit", "escape",
 *	  "delayed", "workers", "rates" with their "minute": RFC 3339, "failures", "growth", "orphans"; and "paused".
 *	  "failures" also has "classes", "latest" and "text": common/queue/failed.h }
 */
#include "sweeper/report/health.h"

#include <stdlib.h>

#include <jansson.h>

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/report/gauge.h"
#include "sweeper/core/core.h"

#define DIGITS 15		/* digits of a fraction: more would be noise of the conversion */

static json_t *reasons(const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct health *h = health_of(q);
	enum health_code list[HEALTH_CODES];
	size_t n = health_codes_list(h, list);
	json_t *all = json_array();
	char text[HEALTH_TEXT_SIZE];

	for (size_t i = 0; i < n; i++)
		json_array_append_new(all,
		    json_pack("{s:s, s:s, s:b, s:I, s:I, s:s}", "code", holds_code_name(list[i]),
		    "status", queue_health_names[h->checks[list[i]].level],
		    "recovering", health_codes_is_recovering(h, list[i]),
		    "value", (json_int_t)h->figures[list[i]].value, "limit", (json_int_t)health_codes_limit(h, list[i]),
		    "text", health_codes_text(s, q, list[i], text)));
	return all;
}

static void set_state(json_t *o, const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct judged *worst = &health_of(q)->holds.worst;
	char text[HOLD_TEXT_SIZE];

	if (q->board == NULL)
		return;
	json_object_set_new(o, "state", json_string(holds_table[worst->hold].name));
	/* NULL, and left out: there is none, or the text of another process is torn */
	json_object_set_new(o, "reason", json_string(
	    holds_lasting_reason(s->child->board, q->board, health_slots(s), worst, q->conf, text)));
}

char *health_document(const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct gauge *g = gauge_of(q);
	int64_t next_ms = g->at_ms + health_of(q)->due_ms - g->taken_ms;
	char at[CLOCK_RFC3339_SIZE], since[CLOCK_RFC3339_SIZE], next[CLOCK_RFC3339_SIZE];
	char minute[CLOCK_RFC3339_SIZE], *dumped, *text;
	json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:s, s:I, s:s, s:I, s:I, s:s, s:s, s:o}",
	    "queue", q->keys.name,
	    "status", queue_health_names[health_of(q)->status],
	    "since", clock_rfc3339(health_of(q)->since_ms, since),
	    "since_ms", (json_int_t)health_of(q)->since_ms,
	    "at", clock_rfc3339(g->at_ms, at),
	    "at_ms", (json_int_t)g->at_ms,
	    "next_at", clock_rfc3339(next_ms, next),
	    "next_at_ms", (json_int_t)next_ms,
	    "interval_ms", (json_int_t)s->conf->health.interval_ms,
	    "node", s->conf->supervisor.node,
	    "notified", queue_health_names[health_of(q)->notified],
	    "reasons", reasons(s, q));

	facts_write(o, FACT_OF_QUEUE, 0, &g->facts);
	if (metrics_of(q)->failed != NULL)
		queue_failed_json(metrics_of(q)->failed, json_object_get(o, "failures"));
	if (g->facts.n[FACT_RATE_DONE] >= 0)
		json_object_set_new(json_object_get(o, "rates"), "minute",
		    json_string(clock_rfc3339(gauge_rated_minute(g) * MINUTE_MS, minute)));
	set_state(o, s, q);
	dumped = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
	text = alloc_string(dumped == NULL ? "{}" : dumped);
	free(dumped);
	json_decref(o);
	return text;
}
