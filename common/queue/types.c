/* The table of keys and their types. */
#include <stdlib.h>
#include <string.h>

#include "common/queue/types.h"

#include "common/base/base.h"

#define MINUTE_MS 60000
#define HOUR_MS (60 * INT64_C(60000))

static char *this_minute(const struct queue_keys *k, int64_t now_ms)
{
	return queue_rate_key(k, now_ms / MINUTE_MS);
}

static char *last_minute(const struct queue_keys *k, int64_t now_ms)
{
	return queue_rate_key(k, now_ms / MINUTE_MS - 1);
}

static char *this_hour(const struct queue_keys *k, int64_t now_ms)
{
	return queue_backlog_key(k, now_ms / HOUR_MS);
}

static char *bare_rescue(const struct queue_keys *k, int64_t now_ms)
{
	(void)now_ms;
	return queue_bare_rescue_key(k);
}

/* Whether a key of another type shuts the gate. */
enum gate { GATE_STAYS_OPEN, GATE_SHUTS, GATE_SHUTS_IF_SHARED };
/*
 * TRACE: only processes that know a secret write this key. Where one is, a secret was. NO_TRACE: others may write it
 * first, a sweeper reports with it that it knows no secret, or its name tells a time.
 */
enum trace { NO_TRACE, TRACE };

#define FIELD(name) offsetof(struct queue_keys, name), NULL
#define MADE(function) 0, function
static const struct {
	size_t field;			/* of struct queue_keys */
	char *(*make)(const struct queue_keys *k, int64_t now_ms);	/* instead of a field: a new string */
	const char *type;
	enum gate gate;
	enum trace trace;
} of_queue[] = {
	{ FIELD(ingress), "list", GATE_SHUTS, NO_TRACE },
	{ FIELD(transit), "list", GATE_SHUTS, NO_TRACE },
	{ FIELD(escape), "list", GATE_SHUTS, NO_TRACE },
	{ FIELD(workers), "hash", GATE_SHUTS, TRACE },			/* a worker that is not in it must not fetch */
	{ FIELD(notes), "hash", GATE_SHUTS_IF_SHARED, TRACE },		/* without them poison runs again */
	{ FIELD(log), "stream", GATE_STAYS_OPEN, TRACE },
	{ FIELD(delayed), "zset", GATE_STAYS_OPEN, TRACE },
	{ FIELD(pushed), "zset", GATE_STAYS_OPEN, NO_TRACE },
	{ FIELD(registered), "string", GATE_STAYS_OPEN, NO_TRACE },
	{ FIELD(paused), "string", GATE_STAYS_OPEN, NO_TRACE },
	{ FIELD(cancels), "hash", GATE_STAYS_OPEN, NO_TRACE },
	{ FIELD(throttle), "string", GATE_STAYS_OPEN, NO_TRACE },
	{ FIELD(seats), "hash", GATE_STAYS_OPEN, NO_TRACE },
	{ FIELD(seats_free), "list", GATE_STAYS_OPEN, NO_TRACE },
	{ FIELD(sweeper), "string", GATE_STAYS_OPEN, NO_TRACE },
	{ FIELD(schedules), "hash", GATE_STAYS_OPEN, TRACE },
	{ FIELD(delayed_apart), "hash", GATE_STAYS_OPEN, TRACE },
	{ FIELD(done), "stream", GATE_STAYS_OPEN, TRACE },
	{ FIELD(stats), "hash", GATE_STAYS_OPEN, TRACE },
	{ MADE(this_minute), "hash", GATE_STAYS_OPEN, NO_TRACE },
	{ MADE(last_minute), "hash", GATE_STAYS_OPEN, NO_TRACE },
	{ MADE(this_hour), "hash", GATE_STAYS_OPEN, NO_TRACE },
	{ FIELD(aside), "list", GATE_STAYS_OPEN, TRACE },
	{ FIELD(aside_log), "stream", GATE_STAYS_OPEN, TRACE },
	{ FIELD(forwarded), "string", GATE_STAYS_OPEN, TRACE },
	{ FIELD(claimed), "hash", GATE_STAYS_OPEN, TRACE },
	{ FIELD(operations), "hash", GATE_STAYS_OPEN, NO_TRACE },
	{ MADE(bare_rescue), "list", GATE_STAYS_OPEN, TRACE },
};

static const struct {
	enum queue_key key;
	const char *type;
	bool of_node;
	enum trace trace;
} common[] = {
	{ QUEUE_KEY_REGISTRY, "zset", false, NO_TRACE },
	{ QUEUE_KEY_SCHEMA, "string", false, NO_TRACE },	/* secret.lua looks at it in any case */
	{ QUEUE_KEY_SECRET_ASIDE, NULL, false, TRACE },
	{ QUEUE_KEY_HEALTH, "hash", false, NO_TRACE },
	{ QUEUE_KEY_NODE, "string", true, NO_TRACE },
	{ QUEUE_KEY_CLOCK, "string", true, NO_TRACE },
};

/* key NULL: the queue does not use it. */
static void add_type(struct queue_types *t, char *key, const char *type)
{
	if (key == NULL)
		return;
	if (t->n == t->room) {
		t->room = t->room == 0 ? 32 : 2 * t->room;
		t->of = alloc_resize(t->of, t->room, sizeof(*t->of));
	}
	t->of[t->n++] = (struct queue_type){ key, type };
}

static char *key_of_row(size_t i, const struct queue_keys *k, int64_t now_ms)
{
	char *const *field = (char *const *)((const char *)k + of_queue[i].field);

	return of_queue[i].make != NULL ? of_queue[i].make(k, now_ms) : *field == NULL ? NULL
	    : alloc_string(*field);
}

void queue_types_add_gates(struct queue_types *t, const struct queue_keys *k)
{
	for (size_t i = 0; i < nitems(of_queue); i++)
		if (of_queue[i].gate == GATE_SHUTS || (of_queue[i].gate == GATE_SHUTS_IF_SHARED && k->shared))
			add_type(t, key_of_row(i, k, 0), of_queue[i].type);
}

void queue_types_add_queue(struct queue_types *t, const struct queue_keys *k, int64_t now_ms)
{
	for (size_t i = 0; i < nitems(of_queue); i++)
		add_type(t, key_of_row(i, k, now_ms), of_queue[i].type);
}

void queue_types_add_common(struct queue_types *t, const char *prefix, const char *node)
{
	for (size_t i = 0; i < nitems(common); i++)
		add_type(t, queue_key(prefix, common[i].key, common[i].of_node ? node : NULL), common[i].type);
}

void queue_types_add_traces(struct queue_types *t, const struct queue_keys *k)
{
	for (size_t i = 0; i < nitems(of_queue); i++)
		if (of_queue[i].trace == TRACE)
			add_type(t, key_of_row(i, k, 0), of_queue[i].type);
}

void queue_types_add_traces_common(struct queue_types *t, const char *prefix)
{
	for (size_t i = 0; i < nitems(common); i++)
		if (common[i].trace == TRACE)
			add_type(t, queue_key(prefix, common[i].key, NULL), common[i].type);
}

void queue_types_ask(struct redis *r, const struct queue_types *t)
{
	for (size_t i = 0; i < t->n; i++)
		redis_appendf(r, "TYPE %s", t->of[i].key);
}

bool queue_type_is_wrong(const struct queue_type *t, const struct redis_reply *is)
{
	return t->type != NULL && is->type == REDIS_STATUS && strcmp(is->str, "none") != 0 &&
	    strcmp(is->str, t->type) != 0;
}

void queue_types_free(struct queue_types *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->of[i].key);
	free(t->of);
	*t = (struct queue_types){0};
}
