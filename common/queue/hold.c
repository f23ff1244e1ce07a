/* The text of a hold: JSON with the words of the handler, its host, its begin and its end. */
#include <string.h>

#include <bsd/string.h>
#include <jansson.h>

#include "common/queue/hold.h"

char *queue_hold_format(const char *node, const char *reason, int64_t hold_ms)
{
	char since[CLOCK_RFC3339_SIZE], until[CLOCK_RFC3339_SIZE], *text;
	int64_t now = clock_realtime_ms();
	json_t *object = json_pack("{s:s, s:s, s:s, s:s}", "hold", reason, "node", node, "since",
	    clock_rfc3339(now, since), "until", clock_rfc3339(now + hold_ms, until));

	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

bool queue_hold_parse(struct queue_hold *out, const char *text, size_t len)
{
	json_t *object = json_loadb(text, len, 0, NULL);
	const char *reason, *node, *until;
	bool is = json_unpack(object, "{s:s, s:s, s:s}", "hold", &reason, "node", &node, "until", &until) == 0;

	if (is) {
		strlcpy(out->reason, reason, sizeof(out->reason));
		strlcpy(out->node, node, sizeof(out->node));
		strlcpy(out->until, until, sizeof(out->until));
	}
	json_decref(object);
	return is;
}

void queue_hold_look(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "GET %s", k->paused);
	redis_appendf(r, "PTTL %s", k->paused);
}
