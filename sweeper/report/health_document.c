/*
 * The report of one queue: a field of quredis:health, which `quredis health --json` shows. Names and shape are stable. Ages are
 * in seconds. Unknown values are left out.
 *
 *	{ "queue", "status": "healthy"|"degraded"|"unhealthy", "since": RFC 3339, "at": RFC 3339, "at_ms", "interval_ms", "node",
 *	  "reasons": [ { "code", "status", "value", "limit", "text" } ],
 *	  "ingress", "transit", "escape": { "size", "oldest_age", "avg_age", "stuck_count" }, "delayed": { "size" },
 *	  "workers": { "alive", "active", "waiting" }, "rates": { "done", "failed", … } a minute,
 *	  "orphans": { "registrations", "messages" }, "paused" }
 */
#include "sweeper/report/health.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <bsd/string.h>
#include <jansson.h>

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/rescue/rescue.h"
#include "sweeper/report/gauge.h"
#include "sweeper/dead_letters/dead_letters.h"
#include "sweeper/core/core.h"

#define DIGITS 15		/* digits of an age: more would be noise of the conversion */

struct health_limit health_limit(const struct sweeper *s, const struct sweeper_queue *q, enum health_code code)
{
	const struct conf_thresholds *t = gauge_thresholds(s, q);

	switch (code) {
	case HEALTH_INGRESS:
		return (struct health_limit){ t->ingress_max, HEALTH_NO_LIMIT };
	case HEALTH_TRANSIT:
		return (struct health_limit){ t->transit_max, HEALTH_NO_LIMIT };
	case HEALTH_DEAD_LETTERS:
		return (struct health_limit){ t->dlq_max_warning, t->dlq_max_critical };
	case HEALTH_STUCK:
		return (struct health_limit){ t->stuck_max_warning, t->stuck_max_critical };
	case HEALTH_PAUSED:
		return (struct health_limit){ t->stuck_age_ms, HEALTH_NO_LIMIT };
	case HEALTH_ERROR:
		return (struct health_limit){ HEALTH_NO_LIMIT, 0 };
	case HEALTH_ORPHANS:
	case HEALTH_BREAKER:
	case HEALTH_ARCHIVE:
	case HEALTH_BOUNDS:
	case HEALTH_LEFTOVERS:
	case HEALTH_ASIDE:
	case HEALTH_CODES:
		break;
	}
	return (struct health_limit){ 0, HEALTH_NO_LIMIT };
}

/* The limit that the figure exceeds, or exceeded before. */
static int64_t limit_of(const struct sweeper *s, const struct sweeper_queue *q, enum health_code code)
{
	struct health_limit limit = health_limit(s, q, code);

	return health_of(q)->checks[code].level == HEALTH_UNHEALTHY ? limit.unhealthy : limit.degraded;
}

static void aside_text(const struct sweeper_queue *q, int64_t n, char out[HEALTH_TEXT_SIZE])
{
	snprintf(out, HEALTH_TEXT_SIZE, "%" PRId64 " set aside, since Redis refuses to move them; the newest has %" PRId64 " bytes; %s", n,
	    aside_of(q)->size, aside_of(q)->why);
}

static const char *error_text(const struct health *h, char out[HEALTH_TEXT_SIZE])
{
	static const char *const texts[] = {
		[QUEUE_ERROR_WRONG_TYPE] = "one of its keys has the wrong type",
		[QUEUE_ERROR_NO_REDIS] = "a worker has no connection to Redis",
		[QUEUE_ERROR_TRANSIENT] = "Redis refuses commands for now: it loads, is a replica, or has no memory",
	};

	if (h->refused != COMMAND_UNNAMED) {
		snprintf(out, HEALTH_TEXT_SIZE, "Redis refuses %s, which the queue needs", command_name_text(h->refused));
		return out;
	}
	return h->error < nitems(texts) && texts[h->error] != NULL ? texts[h->error] : "Redis refuses something of this queue";
}

const char *health_text(const struct sweeper *s, const struct sweeper_queue *q, enum health_code code, char out[HEALTH_TEXT_SIZE])
{
	int64_t value = health_of(q)->value[code], limit = limit_of(s, q, code);
	static const char *const counted[] = {
		[HEALTH_INGRESS] = "messages wait",
		[HEALTH_TRANSIT] = "messages are in work",
		[HEALTH_DEAD_LETTERS] = "dead letters",
		[HEALTH_STUCK] = "messages are stuck",
		[HEALTH_ORPHANS] = "registrations and messages without an owner that lives",
	};
	static const char *const said[HEALTH_CODES] = {
		[HEALTH_BREAKER] = "the breaker is open",
		[HEALTH_LEFTOVERS] = "processes of a dead supervisor may still run: its messages may run twice",
		[HEALTH_BOUNDS] = "more or older dead letters than dead_letter allows, and neither archive nor discard is set",
	};
	const char *archive = archiver_error(q);
	char text[UNITS_SIZE];
	uint32_t undecided;

	if (code == HEALTH_BOUNDS && bounds_are_stuck(q))
		strlcpy(out, "dead letters stay, since the oldest is too long to be read: retry or delete it, or raise message_max", HEALTH_TEXT_SIZE);
	else if (code == HEALTH_ERROR)
		return error_text(health_of(q), out);
	else if (said[code] != NULL)
		strlcpy(out, said[code], HEALTH_TEXT_SIZE);
	else if (code == HEALTH_ARCHIVE)
		snprintf(out, HEALTH_TEXT_SIZE, "dead letters stay, since the archive takes none%s%s", archive[0] == '\0' ? "" : ": ", archive);
	else if (code == HEALTH_PAUSED)
		snprintf(out, HEALTH_TEXT_SIZE, "paused for %s", value <= 0 ? "long" : units_format_duration(value / 1000 * 1000, text));
	else if (code == HEALTH_ASIDE)
		aside_text(q, value, out);
	else if (value < 0)
		snprintf(out, HEALTH_TEXT_SIZE, "more than %" PRId64 " %s", limit, counted[code]);
	else
		snprintf(out, HEALTH_TEXT_SIZE, "%" PRId64 " %s, the limit is %" PRId64, value, counted[code], limit);
	if (code == HEALTH_ORPHANS && q->board != NULL && (undecided = atomic_load(&q->board->sweeper.undecided)) > 0) {
		strlcat(out, "; ", HEALTH_TEXT_SIZE);
		strlcat(out, doubt_text((enum doubt)(undecided - 1)), HEALTH_TEXT_SIZE);
	}
	return out;
}

static json_t *reasons(const struct sweeper *s, const struct sweeper_queue *q)
{
	json_t *all = json_array();
	char text[HEALTH_TEXT_SIZE];

	for (int i = 0; i < HEALTH_CODES; i++) {
		enum health_code code = (enum health_code)i;
		enum health_status level = health_of(q)->checks[i].level;

		if (level != HEALTH_HEALTHY)
			json_array_append_new(all, json_pack("{s:s, s:s, s:I, s:I, s:s}", "code", health_code_names[i],
			    "status", queue_health_names[level], "value", (json_int_t)health_of(q)->value[i],
			    "limit", (json_int_t)limit_of(s, q, code), "text", health_text(s, q, code, text)));
	}
	return all;
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
	json_t *object = json_object();

	for (size_t i = 0; g->rated && i < nitems(shown); i++)
		set_count(object, counter_names[shown[i]], (int64_t)g->rate.n[shown[i]]);
	set_count(object, "enqueued", g->enqueued);
	return object;
}

char *health_document(const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct gauge *g = gauge_of(q);
	char at[CLOCK_RFC3339_SIZE], since[CLOCK_RFC3339_SIZE], *dumped, *text;
	json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:s, s:I, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:{s:I, s:I, s:I}, s:o, s:{s:I, s:I}, s:b}",
	    "queue", q->keys.name,
	    "status", queue_health_names[health_of(q)->status],
	    "since", clock_rfc3339(health_of(q)->since_ms, since),
	    "since_ms", (json_int_t)health_of(q)->since_ms,
	    "at", clock_rfc3339(g->at_ms, at),
	    "at_ms", (json_int_t)g->at_ms,
	    "interval_ms", (json_int_t)s->conf->health.interval_ms,
	    "node", s->conf->supervisor.node,
	    "reasons", reasons(s, q),
	    "ingress", list(&g->ingress), "transit", list(&g->transit), "escape", list(&g->escape),
	    "delayed", delayed(g),
	    "workers", "alive", (json_int_t)g->workers, "active", (json_int_t)g->active,
		"waiting", (json_int_t)(g->workers - g->active),
	    "rates", rates(g),
	    "orphans", "registrations", (json_int_t)g->orphan_owners, "messages", (json_int_t)g->orphans,
	    "paused", g->paused_ms > 0);

	dumped = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
	text = alloc_string(dumped == NULL ? "{}" : dumped);
	free(dumped);
	json_decref(o);
	return text;
}
