/* Sends the sweeper's requests about a queue. Most are cheap reads that change nothing; the sweeper interprets the
 * answers. */
#include <stdlib.h>

#include "common/queue/watch.h"

#include "common/base/base.h"
#include "common/queue/scripts.h"

#define PULSE_MS 30000

void queue_quiet(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "EXISTS %s %s %s %s %s", k->delayed, k->paused, k->pushed, k->cancels, k->operations);
}

void queue_length(struct redis *r, const char *list)
{
	redis_appendf(r, "LLEN %s", list);
}

/* Appends one command with all these keys, and frees them. */
static void append_over(struct redis *r, const char *command, char **keys, size_t n)
{
	const char **argv = alloc_zero(n + 1, sizeof(*argv));

	argv[0] = command;
	for (size_t i = 0; i < n; i++)
		argv[i + 1] = keys[i];
	redis_append(r, n + 1, argv, NULL);
	for (size_t i = 0; i < n; i++)
		free(keys[i]);
	free(argv);
}

void queue_leases(struct redis *r, const struct queue_keys *k, const char *const *incarnations, size_t n)
{
	char *keys[QUEUE_OWNERS_MAX];

	for (size_t i = 0; i < n; i++)
		keys[i] = queue_lease_key(k, incarnations[i]);
	append_over(r, "EXISTS", keys, n);
}

void queue_holdings(struct redis *r, const struct queue_keys *k, const char *const *incarnations, size_t n)
{
	char *keys[QUEUE_OWNERS_MAX * (QUEUE_TRAYS + 1)];
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		for (int tray = 0; tray <= QUEUE_RESCUE; tray++)
			keys[count++] = queue_tray_key(k, incarnations[i], tray);
	append_over(r, "EXISTS", keys, count);
}

void queue_rescue_over(struct redis *r, const struct queue_keys *k, const char *incarnation)
{
	char *field = queue_rescue_field(incarnation);

	redis_appendf(r, "HDEL %s %s", k->workers, field);
	free(field);
}

void queue_is_registered(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "EXISTS %s", k->registered);
}

void queue_registry_page(struct redis *r, int64_t first, int64_t n)
{
	char *registry = queue_key_of(r, QUEUE_KEY_REGISTRY, NULL);

	redis_appendf(r, "ZRANGE %s %d %d WITHSCORES", registry, first, first + n - 1);
	free(registry);
}

void queue_registry_score(struct redis *r, const char *name)
{
	char *registry = queue_key_of(r, QUEUE_KEY_REGISTRY, NULL);

	redis_appendf(r, "ZSCORE %s %s", registry, name);
	free(registry);
}

void queue_registry_is_there(struct redis *r)
{
	char *registry = queue_key_of(r, QUEUE_KEY_REGISTRY, NULL);

	redis_appendf(r, "EXISTS %s", registry);
	free(registry);
}

void queue_registry_show(struct redis *r, const char *const *names, size_t n)
{
	char *registry = queue_key_of(r, QUEUE_KEY_REGISTRY, NULL);
	const char *argv[2 + 2 * QUEUE_REGISTRY_GROUP] = { "ZADD", registry };
	struct script_number now;

	script_number(&now, clock_realtime_ms() / 1000);
	for (size_t i = 0; i < n; i++) {
		argv[2 + 2 * i] = now.text;
		argv[3 + 2 * i] = names[i];
	}
	redis_append(r, 2 + 2 * n, argv, NULL);
	free(registry);
}

void queue_is_used(struct redis *r, const struct queue_keys *k)
{
	char *rescue = queue_bare_rescue_key(k);

	redis_appendf(r, "EXISTS %s %s %s %s %s %s %s %s %s %s %s %s %s", k->ingress, k->delayed, k->pushed, k->done,
	    k->paused, k->sweeper, k->transit, rescue, k->workers, k->aside, k->escape, k->log, k->forwarded);
	free(rescue);
}

void queue_unregister(struct redis *r, const char *name, const char *score, const char *entry)
{
	char *registry = queue_key_of(r, QUEUE_KEY_REGISTRY, NULL), *key = queue_key_of(r, QUEUE_KEY_REGISTERED, name);

	queue_script(r, QUEUE_SCRIPT_unregister, 2, (const char *[]){ registry, key }, 3,
	    (struct script_arg[]){ script_string(name), script_string(score), script_string(entry) });
	free(registry);
	free(key);
}

void queue_forget_totals(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "UNLINK %s", k->stats);
}

void queue_registered(struct redis *r, const char *name)
{
	char *key = queue_key_of(r, QUEUE_KEY_REGISTERED, name);

	redis_appendf(r, "GET %s", key);
	free(key);
}

void queue_registered_all(struct redis *r, char *const *names, size_t n)
{
	char **keys = alloc_zero(n, sizeof(*keys));

	for (size_t i = 0; i < n; i++)
		keys[i] = queue_key_of(r, QUEUE_KEY_REGISTERED, names[i]);
	append_over(r, "MGET", keys, n);
	free(keys);
}

void queue_time(struct redis *r)
{
	redis_appendf(r, "TIME");
}

void queue_pulse(struct redis *r, const char *node)
{
	char *key = queue_key_of(r, QUEUE_KEY_PULSE, node);

	redis_appendf(r, "PEXPIRE %s %d", key, (int64_t)PULSE_MS);
	queue_time(r);
	queue_identity(r);
	free(key);
}

void queue_identity(struct redis *r)
{
	redis_appendf(r, "INFO server");
	redis_appendf(r, "INFO replication");
}

int64_t queue_time_parse(const struct redis_reply *reply)
{
	struct redis_reply seconds, micros;

	if (!redis_is_strings(reply) || reply->n != 2)
		return -1;
	seconds = redis_element(reply, 0);
	micros = redis_element(reply, 1);
	return clock_ms_of(strtod(seconds.str, NULL) * 1000 + strtod(micros.str, NULL) / 1000);
}

void queue_lead(struct redis *r, const struct queue_keys *k, const char *sweeper, int64_t lease_ms)
{
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->sweeper };
	struct script_number lease;

	queue_script(r, QUEUE_SCRIPT_lead, 2, keys, 2,
	    (struct script_arg[]){ script_string(sweeper), script_number(&lease, lease_ms) });
	free(none);
}
