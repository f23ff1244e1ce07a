/*
 * Sends the requests for the sizes of a queue's lists and their owners, and reads the text of a pause. The callers
 * interpret the answers.
 */
#include <stdlib.h>

#include <jansson.h>

#include "common/queue/gauge.h"

#include "common/base/base.h"
#include "common/queue/admin.h"
#include "common/queue/seats.h"

void queue_gauge(struct redis *r, const struct queue_keys *k)
{
	char *rescue = queue_bare_rescue_key(k);
	const char *lists[] = { k->ingress, k->escape, k->transit, rescue };

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		redis_appendf(r, "LLEN %s", lists[i]);
	redis_appendf(r, "ZCARD %s", k->delayed);
	redis_appendf(r, "ZCARD %s", k->pushed);
	redis_appendf(r, "GET %s", k->paused);
	queue_workers(r, k);
	queue_log_page(r, k, "-", QUEUE_GAUGE_RECORDS);
	if (k->seats != NULL)
		queue_seats_read(r, k);
	free(rescue);
}

void queue_gauge_owner(struct redis *r, const struct queue_keys *k, const char *incarnation)
{
	char *lease = queue_lease_key(k, incarnation);

	redis_appendf(r, "EXISTS %s", lease);
	free(lease);
	for (int tray = 0; tray <= QUEUE_RESCUE; tray++) {
		char *key = queue_tray_key(k, incarnation, tray);

		redis_appendf(r, "LLEN %s", key);
		free(key);
	}
}

int64_t queue_paused_since(const char *why, size_t len)
{
	json_t *object = json_loadb(why, len, 0, NULL);
	const char *since = json_string_value(json_object_get(object, "since"));
	int64_t ms = since == NULL ? -1 : clock_rfc3339_parse(since);

	json_decref(object);
	return ms;
}
