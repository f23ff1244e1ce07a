/* Requests about schedules, and their answers. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/queue/schedules.h"

#include "common/base/base.h"
#include "common/conf/conf.h"
#include "common/queue/scripts.h"

#define ON_TIME_MS 60000

static struct script_arg optional_number(struct script_number *room, int64_t value)
{
	return value == -1 ? script_string("") : script_number(room, value);
}

/* [first] ingress [delayed workers list ... ingress]: a new array of views */
static const char **keys_with_places(const struct queue_keys *k, const char *first, const struct queue_places *p,
    size_t *n)
{
	const char **keys = alloc_zero(p == NULL ? 2 : p->n + 5, sizeof(*keys));

	*n = 0;
	if (first != NULL)
		keys[(*n)++] = first;
	keys[(*n)++] = k->ingress;
	if (p == NULL)
		return keys;
	keys[(*n)++] = k->delayed;
	keys[(*n)++] = k->workers;
	for (size_t i = 0; i < p->n; i++)
		keys[(*n)++] = p->keys[i];
	keys[(*n)++] = k->ingress;
	return keys;
}

void queue_tick(struct redis *r, const struct queue_keys *k, const struct queue_tick *t)
{
	struct script_number last, tick, missed, ahead;
	size_t n;
	const char **keys = keys_with_places(k, k->schedules, t->alone, &n);

	queue_script(r, QUEUE_SCRIPT_tick, n, keys, 8,
	    (struct script_arg[]){ script_string(t->name), script_string(t->definition),
		optional_number(&last, t->last_ms), optional_number(&tick, t->tick_ms),
		script_number(&missed, t->missed), { t->message == NULL ? "" : t->message, t->len },
		script_number(&ahead, QUEUE_SCHEDULE_AHEAD_MS),
		script_string(t->alone == NULL ? "" : t->alone->registered) });
	free(keys);
}

int queue_schedule_parse(const struct redis_reply *reply, struct queue_schedule *out)
{
	char text[192];
	int end = 0;

	*out = (struct queue_schedule){0};
	if (reply->type != REDIS_STRING || reply->len >= sizeof(text))
		return -1;
	memcpy(text, reply->str, reply->len);
	text[reply->len] = '\0';
	return sscanf(text, "%16[0-9a-f] %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 "%n",
	    out->definition, &out->last_ms, &out->pushed_ms, &out->missed, &out->skipped, &out->skipped_ms,
	    &end) == 6 && (size_t)end == reply->len ? 0 : -1;
}

int queue_ticked(const struct redis_reply *reply, struct queue_ticked *out)
{
	struct redis_reply end, now, record;

	if (reply->type != REDIS_ARRAY || reply->n < 3)
		return -1;
	end = redis_element(reply, 0);
	now = redis_element(reply, 1);
	record = redis_element(reply, 2);
	if (end.type != REDIS_INTEGER || now.type != REDIS_INTEGER || end.integer < 0 || end.integer >= QUEUE_TICK_ENDS)
		return -1;
	out->end = (enum queue_tick_end)end.integer;
	out->now_ms = now.integer;
	return queue_schedule_parse(&record, &out->schedule);
}

void queue_schedule_push(struct redis *r, const struct queue_keys *k, const struct queue_tick *t)
{
	size_t n;
	const char **keys = keys_with_places(k, NULL, t->alone, &n);

	queue_script(r, QUEUE_SCRIPT_schedule_push, n, keys, 3,
	    (struct script_arg[]){ script_string(t->name), { t->message == NULL ? "" : t->message, t->len },
		script_string(t->alone == NULL ? "" : t->alone->registered) });
	free(keys);
}

void queue_schedule_message(struct buffer *out, const struct queue_keys *k, const struct conf_schedule *c,
    int64_t at_ms, bool tick)
{
	struct wrapper wrapper = { .schedule.at_ms = at_ms };
	char id[MESSAGE_SCHEDULE_ID_SIZE];

	strlcpy(wrapper.schedule.name, c->name, sizeof(wrapper.schedule.name));
	message_schedule_id(&wrapper.schedule, tick, id);
	if (!k->shared)
		message_wrapper(out, &k->lines, &wrapper);
	if (!k->shared && k->lines.headers)
		message_header(out, id, NULL, -1, -1, -1, -1);
	buffer_append(out, c->message, strlen(c->message));
}

int queue_schedule_pushed(const struct redis_reply *reply, enum queue_tick_end *end)
{
	struct redis_reply first;

	if (reply->type != REDIS_ARRAY || reply->n < 1)
		return -1;
	first = redis_element(reply, 0);
	if (first.type != REDIS_INTEGER || first.integer < 0 || first.integer >= QUEUE_TICK_ENDS)
		return -1;
	*end = (enum queue_tick_end)first.integer;
	return *end == QUEUE_TICK_DONE || *end >= QUEUE_TICK_SKIPPED ? 0 : -1;
}

int64_t queue_schedule_on_time_ms(int64_t lease_ms)
{
	return 2 * lease_ms > ON_TIME_MS ? 2 * lease_ms : ON_TIME_MS;
}

void queue_schedule_read(struct redis *r, const struct queue_keys *k, const char *name)
{
	redis_appendf(r, "HGET %s %s", k->schedules, name);
}

void queue_schedule_definition(const struct conf_schedule *c, char out[QUEUE_SCHEDULE_DEFINITION_SIZE])
{
	char sha1[ENCODE_SHA1_SIZE], *text = c->cron == NULL ? alloc_format("every %" PRId64, c->times.every_ms)
	    : alloc_format("cron %s %s", c->timezone, c->cron);

	encode_sha1(text, strlen(text), sha1);
	strlcpy(out, sha1, QUEUE_SCHEDULE_DEFINITION_SIZE);
	free(text);
}

static void add_trays(struct queue_places *p, const struct queue_keys *k, const struct redis_reply *field)
{
	struct incarnation i;

	if (field->type != REDIS_STRING || incarnation_parse(&i, field->str) == -1)
		return;
	for (int tray = 0; tray <= QUEUE_RESCUE; tray++)
		p->keys[p->n++] = queue_tray_key(k, field->str, tray);
}

int queue_places_learn(struct queue_places *p, const struct queue_keys *k, const struct redis_reply *reply)
{
	struct redis_reply sum, fields, field;

	if (reply->n != 5)
		return -1;
	sum = redis_element(reply, 3);
	fields = redis_element(reply, 4);
	if (sum.type != REDIS_STRING || fields.type != REDIS_ARRAY)
		return -1;
	queue_places_free(p);
	strlcpy(p->registered, sum.str, sizeof(p->registered));
	p->keys = alloc_zero(3 + fields.n * (QUEUE_TRAYS + 1), sizeof(*p->keys));
	/* what other consumers of the queue left, and what Redis refused to move */
	p->keys[p->n++] = alloc_string(k->transit);
	p->keys[p->n++] = queue_bare_rescue_key(k);
	p->keys[p->n++] = alloc_string(k->aside);
	for (size_t i = 0; i < fields.n; i++) {
		field = redis_element(&fields, i);
		add_trays(p, k, &field);
	}
	return 0;
}

void queue_places_free(struct queue_places *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->keys[i]);
	free(p->keys);
	*p = (struct queue_places){0};
}

void queue_schedules_forget(struct redis *r, const struct queue_keys *k, int64_t between_ms, int looks,
    const char *const *names, size_t n)
{
	struct script_arg *args = alloc_zero(n + 2, sizeof(*args));
	struct script_number between, most;

	args[0] = script_number(&between, between_ms);
	args[1] = script_number(&most, looks);
	for (size_t i = 0; i < n; i++)
		args[i + 2] = script_string(names[i]);
	queue_script(r, QUEUE_SCRIPT_schedules_forget, 1, (const char *[]){ k->schedules }, n + 2, args);
	free(args);
}
