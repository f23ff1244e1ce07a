/* Requests about schedules, and their answers. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/schedules.h"

#include "common/base/base.h"
#include "common/queue/scripts.h"

static struct script_arg optional_number(struct script_number *room, int64_t value)
{
	return value == -1 ? script_string("") : script_number(room, value);
}

void queue_tick(struct redis *r, const struct queue_keys *k, const struct queue_tick *t)
{
	struct script_number last, tick, missed, ahead;

	queue_script(r, QUEUE_SCRIPT_tick, 2, (const char *[]){ k->schedules, k->ingress }, 7,
	    (struct script_arg[]){ script_string(t->name), script_string(t->definition),
		optional_number(&last, t->last_ms), optional_number(&tick, t->tick_ms),
		script_number(&missed, t->missed), { t->message == NULL ? "" : t->message, t->len },
		script_number(&ahead, QUEUE_SCHEDULE_AHEAD_MS) });
}

static int parse_record(const struct redis_reply *reply, struct queue_schedule *out)
{
	char text[128];
	int end = 0;

	*out = (struct queue_schedule){0};
	if (reply->type != REDIS_STRING || reply->len >= sizeof(text))
		return -1;
	memcpy(text, reply->str, reply->len);
	text[reply->len] = '\0';
	return sscanf(text, "%16[0-9a-f] %" SCNd64 " %" SCNd64 " %" SCNd64 "%n", out->definition, &out->last_ms,
	    &out->pushed_ms, &out->missed, &end) == 4 && (size_t)end == reply->len ? 0 : -1;
}

int queue_ticked(const struct redis_reply *reply, struct queue_ticked *out)
{
	struct redis_reply end, now, record;

	if (reply->type != REDIS_ARRAY || reply->n != 3)
		return -1;
	end = redis_element(reply, 0);
	now = redis_element(reply, 1);
	record = redis_element(reply, 2);
	if (end.type != REDIS_INTEGER || now.type != REDIS_INTEGER || end.integer < 0 || end.integer >= QUEUE_TICK_ENDS)
		return -1;
	out->end = (enum queue_tick_end)end.integer;
	out->now_ms = now.integer;
	return parse_record(&record, &out->schedule);
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
