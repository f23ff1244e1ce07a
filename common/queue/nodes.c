/* The keys of the nodes' reports. The writer of a report defines its contents. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/queue/nodes.h"

#include "common/base/base.h"
#include "common/message/message.h"

void queue_node_write(struct redis *r, const char *node, const char *document)
{
	char *key = queue_key_of(r, QUEUE_KEY_NODE, node);

	redis_appendf(r, "SET %s %s PX %d", key, document, (int64_t)QUEUE_NODE_KEPT_MS);
	free(key);
}

void queue_node_drop(struct redis *r, const char *node)
{
	char *key = queue_key_of(r, QUEUE_KEY_NODE, node);

	redis_appendf(r, "DEL %s", key);
	free(key);
}

void queue_node_read(struct redis *r, const char *node)
{
	char *key = queue_key_of(r, QUEUE_KEY_NODE, node);

	redis_appendf(r, "GET %s", key);
	free(key);
}

void queue_node_clock_write(struct redis *r, const char *node, const char *text)
{
	char *key = queue_key_of(r, QUEUE_KEY_CLOCK, node);

	redis_appendf(r, "SET %s %s PX %d", key, text, QUEUE_NODE_CLOCK_KEPT_MS);
	free(key);
}

void queue_node_clock_read(struct redis *r, const char *node)
{
	char *key = queue_key_of(r, QUEUE_KEY_CLOCK, node);

	redis_appendf(r, "GET %s", key);
	free(key);
}

void queue_leader(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "GET %s", k->sweeper);
}

void queue_leader_left(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "PTTL %s", k->sweeper);
}

int64_t queue_node_at(const json_t *report)
{
	return clock_ms_of(json_number_value(json_object_get(report, "at_ms")));
}

json_t *queue_node_parse(const struct redis_reply *reply, int64_t server_ms)
{
	json_t *report = reply->type == REDIS_STRING ? json_loadb(reply->str, reply->len, 0, NULL) : NULL;
	int64_t away_ms = server_ms - queue_node_at(report);

	if (json_is_object(report) && away_ms <= QUEUE_NODE_KEPT_MS && away_ms >= -QUEUE_NODE_KEPT_MS)
		return report;
	json_decref(report);
	return NULL;
}

const json_t *queue_node_row(const json_t *report, const char *queue)
{
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(report, "queues"), i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));

		if (name != NULL && strcmp(name, queue) == 0)
			return row;
	}
	return NULL;
}

int64_t queue_node_running(const struct json_t *report, const char *incarnation, int64_t server_ms)
{
	int64_t at = queue_node_at(report);
	const json_t *r;
	size_t i;

	json_array_foreach(json_object_get(report, "running"), i, r) {
		const char *name = json_string_value(json_object_get(r, "incarnation"));
		json_int_t ms = json_integer_value(json_object_get(r, "running_ms"));

		if (name == NULL || strcmp(name, incarnation) != 0 || ms < 0 || ms > QUEUE_NODE_RUNNING_MAX_MS)
			continue;
		return server_ms > at && server_ms - at <= QUEUE_NODE_KEPT_MS ? ms + (server_ms - at) : ms;
	}
	return -1;
}

int64_t queue_node_age(const struct json_t *report, int64_t server_ms)
{
	int64_t at = queue_node_at(report);

	return server_ms > at ? server_ms - at : 0;
}

void queue_node_reported_clock(const struct json_t *report, struct age_clock *c)
{
	const json_t *clock = json_object_get(report, "clock");

	c->since_ms = clock_ms_of(json_number_value(json_object_get(clock, "since_ms")));
	c->stepped_ms = clock_ms_of(json_number_value(json_object_get(clock, "stepped_ms")));
}

/* "<node>.<boot> <lock>"; a node may have dots itself, the others have none. */
char *queue_leader_node(const struct redis_reply *reply)
{
	char *name, *dot;

	if (reply->type != REDIS_STRING || strlen(reply->str) != reply->len)
		return NULL;
	name = alloc_copy(reply->str, reply->len);
	dot = strrchr(name, '.');
	if (dot == NULL || dot == name) {
		free(name);
		return NULL;
	}
	*dot = '\0';
	return name;
}
