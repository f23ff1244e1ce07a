/*
 * The report of one queue: a field of quredis:health, which `quredis health --json` shows. Names and shape are stable. Ages are
 * in seconds. Unknown values are left out.
 *
 *	{ "queue", "status": "healthy"|"degraded"|"unhealthy", "since": RFC 3339, "at": RFC 3339, "at_ms", "interval_ms", "node",
 *	  "next_at": RFC 3339, "next_at_ms" of the next look, at the latest,
 *	  "state", "reason": why it does not fetch on that node, as in quredis status at that time, without times; no reason
 *	  while it runs,
 *	  "reasons", the worst first: [ { "code", "status", "recovering": the figure does not exceed the limit any more, "value",
 *	  "limit", "text" } ],
 *	  "ingress", "transit", "escape": { "size", "oldest_age", "avg_age", "stuck_count" }, "delayed": { "size" },
 *	  "workers": { "alive", "active", "waiting" }, "rates": { "minute": RFC 3339, "done", "failed", … } in it,
 *	  "failures": { "attempts", "failed", "window" in seconds },
 *	  "growth": { "arrivals", "completions" a minute, "window", "growing" in seconds },
 *	  "orphans": { "registrations", "messages" }, "paused" }
 */
#include "sweeper/report/health.h"

#include <stdlib.h>

#include <jansson.h>

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/report/errors.h"
#include "sweeper/report/gauge.h"
#include "sweeper/core/core.h"

#define DIGITS 15		/* digits of an age: more would be noise of the conversion */

static json_t *reasons(const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct health *h = health_of(q);
	enum health_code list[HEALTH_CODES];
	size_t n = health_codes_list(h, list);
	json_t *all = json_array();
	char text[HEALTH_TEXT_SIZE];

	for (size_t i = 0; i < n; i++)
		json_array_append_new(all, json_pack("{s:s, s:s, s:b, s:I, s:I, s:s}", "code", health_codes_name(list[i]),
		    "status", queue_health_names[h->checks[list[i]].level], "recovering", health_codes_is_recovering(h, list[i]),
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
	if (worst->hold != HOLD_NONE)		/* NULL, and left out: the text of another process is torn */
		json_object_set_new(o, "reason", json_string(holds_explain(s->child->board, q->board, errors_slots(s), worst,
		    q->conf, 0, text)));
}

static void set_count(json_t *object, const char *key, int64_t n)
{
	if (n >= 0)
		json_object_set_new(object, key, json_integer(n));
}

static void set_age(json_t *object, const char *key, int64_t ms)
{
	if (ms >= 0)
		json_object_set_new(object, key, json_real((double)ms / 1000));
}

static json_t *list(const struct gauge_list *l)
{
	json_t *object = json_object();

	set_count(object, "size", l->size);
	set_age(object, "oldest_age", l->oldest_ms);
	set_age(object, "avg_age", l->average_ms);
	set_count(object, "stuck_count", l->stuck);
	return object;
}

static json_t *delayed(const struct gauge *g)
{
	json_t *object = json_object();

	set_count(object, "size", g->delayed);
	return object;
}

static json_t *rates(const struct gauge *g)
{
	static const enum counter shown[] = { COUNT_DONE, COUNT_FAILED, COUNT_RETRIED, COUNT_ESCAPED, COUNT_EXPIRED, COUNT_RESCUED };
	char minute[CLOCK_RFC3339_SIZE];
	json_t *object = json_object();

	if (g->rated)
		json_object_set_new(object, "minute", json_string(clock_rfc3339(gauge_rated_minute(g) * MINUTE_MS, minute)));
	for (size_t i = 0; g->rated && i < nitems(shown); i++)
		set_count(object, counters_table[shown[i]].name, (int64_t)g->rate.n[shown[i]]);
	set_count(object, "enqueued", g->enqueued);
	return object;
}

static json_t *failures(const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct gauge *g = gauge_of(q);
	json_t *object = json_object();

	set_count(object, "attempts", g->attempts);
	set_count(object, "failed", g->failures);
	set_age(object, "window", gauge_thresholds(s, q)->failure_window_ms);
	return object;
}

static json_t *growth(const struct sweeper_queue *q)
{
	const struct growth *g = &metrics_of(q)->growth;
	json_t *object = json_object();

	if (g->span_ms == 0)
		return object;
	json_object_set_new(object, "arrivals", json_real(growth_a_minute(g, g->came)));
	json_object_set_new(object, "completions", json_real(growth_a_minute(g, g->left)));
	set_age(object, "window", g->span_ms);
	set_age(object, "growing", g->since_ms == 0 ? 0 : g->last.at_ms - g->since_ms);
	return object;
}

char *health_document(const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct gauge *g = gauge_of(q);
	int64_t next_ms = g->at_ms + health_of(q)->due_ms - g->taken_ms;
	char at[CLOCK_RFC3339_SIZE], since[CLOCK_RFC3339_SIZE], next[CLOCK_RFC3339_SIZE], *dumped, *text;
	json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:s, s:I, s:s, s:I, s:I, s:s, "
	    "s:o, s:o, s:o, s:o, s:o, s:{s:I, s:I, s:I}, s:o, s:o, s:o, s:{s:I, s:I}, s:b}",
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
	    "reasons", reasons(s, q),
	    "ingress", list(&g->ingress), "transit", list(&g->transit), "escape", list(&g->escape),
	    "delayed", delayed(g),
	    "workers", "alive", (json_int_t)g->workers, "active", (json_int_t)g->active,
		"waiting", (json_int_t)(g->workers - g->active),
	    "rates", rates(g), "failures", failures(s, q), "growth", growth(q),
	    "orphans", "registrations", (json_int_t)g->orphan_owners, "messages", (json_int_t)g->orphans,
	    "paused", g->paused_ms > 0);

	set_state(o, s, q);
	dumped = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
	text = alloc_string(dumped == NULL ? "{}" : dumped);
	free(dumped);
	json_decref(o);
	return text;
}
