/* The hash of health reports in Redis, and the part of a report that every reader needs. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/queue/health.h"

#include "common/base/base.h"
#include "common/queue/moves.h"
#include "common/queue/nodes.h"

const char *const queue_health_names[QUEUE_HEALTH_LEVELS] = {
	[QUEUE_HEALTHY] = "healthy", [QUEUE_DEGRADED] = "degraded", [QUEUE_UNHEALTHY] = "unhealthy",
};

void queue_health_write(struct redis *r, const char *queue, const char *document, int64_t interval_ms)
{
	char *key = queue_key_of(r, QUEUE_KEY_HEALTH, NULL);

	redis_appendf(r, "HSET %s %s %s", key, queue, document);
	redis_appendf(r, "PEXPIRE %s %d", key, QUEUE_HEALTH_KEPT * interval_ms);
	free(key);
}

void queue_health_read(struct redis *r)
{
	char *key = queue_key_of(r, QUEUE_KEY_HEALTH, NULL);

	redis_appendf(r, "HGETALL %s", key);
	free(key);
}

void queue_health_read_one(struct redis *r, const char *queue)
{
	char *key = queue_key_of(r, QUEUE_KEY_HEALTH, NULL);

	redis_appendf(r, "HGET %s %s", key, queue);
	free(key);
}

void queue_health_drop(struct redis *r, const char *queue)
{
	char *key = queue_key_of(r, QUEUE_KEY_HEALTH, NULL);

	redis_appendf(r, "HDEL %s %s", key, queue);
	free(key);
}

void queue_health_note_told(struct redis *r, const struct queue_keys *k, enum queue_health_level status)
{
	redis_appendf(r, "HSET %s notified %s", k->stats, queue_health_names[status]);
}

void queue_health_told(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "HGET %s notified", k->stats);
}

int queue_health_level_of(const char *status)
{
	for (int i = 0; status != NULL && i < QUEUE_HEALTH_LEVELS; i++)
		if (strcmp(status, queue_health_names[i]) == 0)
			return i;
	return -1;
}

int queue_health_parse(struct queue_health *h, const char *text, size_t len)
{
	json_int_t at, interval, next = 0;

	*h = (struct queue_health){ .document = json_loadb(text, len, 0, NULL) };
	if (json_unpack(h->document, "{s:s, s:s, s:I, s:I, s?I}", "queue", &h->queue, "status", &h->status, "at_ms",
	    &at,
		"interval_ms", &interval, "next_at_ms", &next) == -1 ||
		    (h->level = queue_health_level_of(h->status)) == -1 || at < 0 || interval <= 0) {
		queue_health_free(h);
		return -1;
	}
	h->at_ms = at;
	h->next_ms = next >= at ? next : at;
	h->interval_ms = interval;
	return 0;
}

void queue_health_free(struct queue_health *h)
{
	json_decref(h->document);
	*h = (struct queue_health){0};
}

struct queue_health *queue_health_parse_all(const struct redis_reply *reply, const char *queue, size_t more,
    int64_t server_ms, size_t *n, size_t *stale)
{
	struct queue_health *all = alloc_zero(reply->n / 2 + more + 1, sizeof(*all));

	*n = *stale = 0;
	for (size_t i = 0; i + 1 < reply->n; i += 2) {
		struct redis_reply name = redis_element(reply, i), text = redis_element(reply, i + 1);
		struct queue_health *h = &all[*n];
		bool is_meant;

		if (queue_health_parse(h, text.str, text.len) == -1)
			continue;
		is_meant = (queue == NULL || strcmp(queue, h->queue) == 0) && strlen(h->queue) == name.len &&
		    memcmp(h->queue, name.str, name.len) == 0;
		if (is_meant && !queue_health_is_stale(h, server_ms)) {
			++*n;
			continue;
		}
		*stale += is_meant;
		queue_health_free(h);
	}
	return all;
}

bool queue_health_is_stale(const struct queue_health *h, int64_t server_ms)
{
	int64_t away_ms = server_ms > h->at_ms ? server_ms - h->at_ms : h->at_ms - server_ms;

	return away_ms / QUEUE_HEALTH_KEPT >= h->interval_ms;
}

static const char *node_of(const struct queue_health *h)
{
	const char *node = json_string_value(json_object_get(h->document, "node"));

	return node == NULL ? "" : node;
}

json_t *queue_health_ask_nodes(struct redis *r, const struct queue_health *reports, size_t n)
{
	json_t *nodes = json_object();

	for (size_t i = 0; i < n; i++) {
		if (json_object_get(nodes, node_of(&reports[i])) != NULL)
			continue;
		json_object_set_new(nodes, node_of(&reports[i]), json_null());
		queue_node_read(r, node_of(&reports[i]));
	}
	return nodes;
}

const json_t *queue_health_node(const struct queue_health *h, const json_t *nodes)
{
	const json_t *node = json_object_get(nodes, node_of(h));

	return json_is_object(node) ? node : NULL;
}

enum queue_health_worth queue_health_worth(const struct queue_health *h, const json_t *node, int64_t server_ms)
{
	if (node == NULL)		/* the first report of a node may come later than that of a queue */
		return server_ms - h->at_ms >= QUEUE_NODE_EVERY_MS ? QUEUE_HEALTH_DOUBTFUL : QUEUE_HEALTH_CONFIRMED;
	return queue_node_row(node, h->queue) != NULL || queue_node_at(node) <= h->at_ms ? QUEUE_HEALTH_CONFIRMED
	    : QUEUE_HEALTH_LEFT;
}
