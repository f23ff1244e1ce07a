/* Bounded reads of lists, sorted sets and streams: common/queue/scripts/look.lua, look_records.lua, weigh.lua. */
#include <stdlib.h>

#include "common/queue/look.h"

#include "common/queue/moves.h"
#include "common/queue/scripts.h"

#define WIDTH 5			/* strings in the answer for each entry */

void queue_look(struct redis *r, const struct queue_look *l)
{
	struct script_number numbers[6];
	const struct script_arg args[] = { script_number(&numbers[0], l->first),
	    script_number(&numbers[1], l->backwards ? -1 : 1),
		script_number(&numbers[2], l->most), script_number(&numbers[3], l->bytes),
		    script_number(&numbers[4], l->shown),
		script_number(&numbers[5], l->ends), script_string(l->sums ? "1" : "0"), script_string("scores") };

	queue_script(r, QUEUE_SCRIPT_look, l->apart == NULL ? 1 : 2, (const char *[]){ l->key, l->apart },
	    l->apart != NULL || l->sorted ? 8 : 7, args);
}

size_t queue_look_count(const struct redis_reply *reply)
{
	return redis_is_strings(reply) && reply->n % WIDTH == 0 ? reply->n / WIDTH : SIZE_MAX;
}

void queue_looked(const struct redis_reply *reply, size_t i, struct queue_looked *out)
{
	struct redis_reply size = redis_element(reply, WIDTH * i);

	*out = (struct queue_looked){ strtoul(size.str, NULL, 10), redis_element(reply, WIDTH * i + 1),
		redis_element(reply, WIDTH * i + 2), redis_element(reply, WIDTH * i + 3),
		    redis_element(reply, WIDTH * i + 4) };
	if (out->size < out->head.len)
		out->size = out->head.len;
}

bool queue_looked_is_named(const struct queue_looked *l, size_t shown)
{
	return l->size <= shown ? l->head.len == l->size : l->head.len == shown && l->tail.len == QUEUE_ENTRY_ENDS;
}

void queue_look_records(struct redis *r, const struct queue_records_look *l)
{
	struct script_arg args[6 + QUEUE_LOOK_FIELDS];
	struct script_number numbers[3];

	args[0] = script_string(l->from);
	args[1] = script_string(l->to);
	args[2] = script_string(l->up ? "up" : "down");
	args[3] = script_number(&numbers[0], l->most);
	args[4] = script_number(&numbers[1], l->bytes);
	args[5] = script_number(&numbers[2], l->shown);
	for (size_t i = 0; i < l->nfields; i++)
		args[6 + i] = script_string(l->fields[i]);
	queue_script(r, QUEUE_SCRIPT_look_records, 1, &l->key, 6 + l->nfields, args);
}

void queue_weigh(struct redis *r, const char *no_lease, const char *list, enum queue_end end, int64_t most,
    int64_t bytes)
{
	const char *keys[] = { no_lease, list };
	struct script_number numbers[2];

	queue_script(r, QUEUE_SCRIPT_weigh, 2, keys, end == QUEUE_END_LEFT ? 2 : 3,
	    (struct script_arg[]){ script_number(&numbers[0], most), script_number(&numbers[1], bytes),
	    script_string("right") });
}

int queue_weighed(const struct redis_reply *reply, struct queue_weight *out)
{
	*out = (struct queue_weight){0};
	if (reply->type != REDIS_ARRAY || reply->n != 3)
		return -1;
	for (size_t i = 0; i < 3; i++)
		if (redis_element(reply, i).type != REDIS_INTEGER || redis_element(reply, i).integer < 0)
			return -1;
	*out = (struct queue_weight){ redis_element(reply, 0).integer, redis_element(reply, 1).integer,
	    redis_element(reply, 2).integer };
	return 0;
}
