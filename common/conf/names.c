/*
 * Advice for an unknown key, in this order: the key that replaces a name of the systems before quredis, the place where
 * a key of that name is allowed, and the key with the most similar name.
 */
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

#define RATE "rate (of a queue, or of a group in throttles)"
#define ATTEMPTS "max_attempts (of a queue; the first attempt counts)"
#define QUEUE_TTL "ttl (of a queue; a duration such as \"5m\")"
#define TIMEOUT "timeout (of a queue; a duration such as \"5m\")"
#define SOFT_TIMEOUT \
	"timeout (of a queue): a function gets an exception then, a program SIGTERM, and SIGKILL after kill_grace"
#define BASE "backoff.base (of a queue)"
#define UNIQUE "quredis push --unique KEY --for DURATION (docs/producers.md)"
#define LATER "quredis push --delay, or RETRY and job.retry() of a handler"
#define URGENT "a queue of its own for what is urgent (docs/operating.md, Recipes)"
#define SCHEDULES "a group in schedules = ( ... ) beside the queues"
#define CRON "cron (\"minute hour day month weekday\")"

/*
 * Names of other systems. One without a group is known in any: some were global, others in groups of other names. One
 * with its group is known there.
 */
static const struct {
	const char *old, *now;
} renamed[] = {
	{ "dlq_enabled", "dead_letter.enabled" },
	{ "dlq_ttl", "dead_letter.ttl" },
	{ "dlq_max_entries", "dead_letter.max_entries" },
	{ "ttl_ms", "dead_letter.ttl" },
	{ "exchange", "escape (of a queue)" },
	{ "purge_enabled", "purge.enabled" },
	{ "purge_interval", "purge.interval" },
	{ "purge_dry_run", "purge.dry_run" },
	{ "max_pending_age", "purge.max_transit_age" },
	{ "max_ready_age", "purge.max_ingress_age" },
	{ "max_completed_age", "purge.max_done_age" },
	{ "max_request_age", "purge.max_message_age" },
	{ "ondemand_request_ttl", "purge.max_message_age" },
	{ "health_check_enabled", "health.enabled" },
	{ "health_check_interval", "health.interval" },
	{ "health_thresholds", "health.thresholds" },
	{ "pending_queue_max", "health.thresholds.transit_max" },
	{ "ready_queue_max", "health.thresholds.ingress_max" },
	{ "stuck_vm_age_threshold", "health.thresholds.stuck_age" },
	{ "stuck_vm_max_warning", "health.thresholds.stuck_max_warning" },
	{ "stuck_vm_max_critical", "health.thresholds.stuck_max_critical" },
	{ "worker_queue_ttl_ms", QUEUE_TTL },
	{ "worker_queue_ttl", QUEUE_TTL },
	{ "max_retries", ATTEMPTS },
	{ "max_vm_retries", ATTEMPTS },
	{ "retries", ATTEMPTS },
	{ "attempts", ATTEMPTS },
	{ "tries", ATTEMPTS },
	{ "autoretry_for", ATTEMPTS "; job.reject() ends those that no attempt mends" },
	{ "retry_backoff", "backoff (of a queue)" },
	{ "retry_backoff_max", "backoff.cap (of a queue)" },
	{ "retry_delay", BASE },
	{ "default_retry_delay", BASE },
	{ "retry_in", BASE },
	{ "time_limit", TIMEOUT },
	{ "timeout_ms", TIMEOUT },
	{ "soft_time_limit", SOFT_TIMEOUT },
	{ "soft_timeout", SOFT_TIMEOUT },
	{ "expires", QUEUE_TTL },
	{ "expires_in", QUEUE_TTL },
	{ "visibility_timeout", "supervisor.lease (so long after a host vanished, others take its messages)" },
	{ "acks_late", "no key for it: a message is acknowledged after its handler has succeeded" },
	{ "unique", UNIQUE },
	{ "unique_for", UNIQUE },
	{ "unique_until", UNIQUE },
	{ "lock_ttl", UNIQUE },
	{ "eta", LATER },
	{ "countdown", LATER },
	{ "delay", LATER },
	{ "dead", "dead_letter.enabled (of a queue)" },
	{ "prefetch", "batch.max (of a queue)" },
	{ "prefetch_count", "batch.max (of a queue)" },
	{ "prefetch_multiplier", "batch.max (of a queue)" },
	{ "max_tasks_per_child", "recycle.jobs (of a queue)" },
	{ "max_memory_per_child", "recycle.rss (of a queue)" },
	{ "threads", "workers (of a queue); window, for a handler that runs several messages at once" },
	{ "weight", URGENT },
	{ "ignore_result", "no key for it: results are not kept" },
	{ "lock", UNIQUE },
	{ "serializer", "message (of a queue, with function: \"bytes\", \"json\" or \"text\")" },
	{ "backoff.type", "backoff.factor (2 doubles the delay with each attempt)" },
	{ "retry_jitter", "backoff.jitter (of a queue)" },
	{ "concurrency", "workers (of a queue)" },
	{ "command", "handler (of a queue)" },
	{ "host", "redis.url (\"redis://HOST:PORT/DB\")" },
	{ "port", "redis.url (\"redis://HOST:PORT/DB\")" },
	{ "password", "redis.password_file" },
	{ "retry", "max_attempts and backoff (of a queue)" },
	{ "cron", SCHEDULES },
	{ "schedule", SCHEDULES },
	{ "rate", RATE },
	{ "limit", RATE "; limits bound the resources of handlers" },
	{ "limiter", RATE },
	{ "rate_limiter", RATE },
	{ "ratelimit", RATE },
	{ "rate_limit", RATE "; max_in_flight bounds how many run at a time" },
	{ "priority", URGENT },
	{ "backoff.max", "backoff.cap" },
	{ "backoff.max_delay", "backoff.cap" },
	{ "backoff.min", "backoff.base" },
	{ "backoff.initial", "backoff.base" },
	{ "backoff.multiplier", "backoff.factor" },
};

/* Names of other systems in the groups of a list, where the above would not help. */
static const struct {
	const struct conf_schema *schema;
	const char *old, *now;
} renamed_in_list[] = {
	{ &conf_schema_schedule, "tz", "timezone" },
	{ &conf_schema_schedule, "zone", "timezone" },
	{ &conf_schema_schedule, "crontab", CRON },
	{ &conf_schema_schedule, "at", CRON },
	{ &conf_schema_schedule, "time", CRON },
	{ &conf_schema_schedule, "times", CRON },
	{ &conf_schema_schedule, "schedule", CRON " or every" },
	{ &conf_schema_schedule, "interval", "every" },
	{ &conf_schema_schedule, "period", "every" },
	{ &conf_schema_schedule, "payload", "message" },
	{ &conf_schema_throttle, "limit", "rate" },
	{ &conf_schema_throttle, "limiter", "rate" },
	{ &conf_schema_throttle, "rate_limit", "rate" },
};

/* Values of other systems. */
static const struct {
	const char *key, *old, *now;
} other_values[] = {
	{ "mode", "isolated", "write isolate = true beside function" },
	{ "mode", "isolate", "write isolate = true beside function" },
	{ "mode", "fork", "write isolate = true beside function" },
	{ "mode", "prefork", "write workers = N, and isolate = true beside function for a process for each message" },
	{ "mode", "shared", "write function without mode" },
	{ "mode", "async", "write function without mode, and window = N" },
};

const char *conf_value_advice(const char *key, const char *value)
{
	for (size_t i = 0; i < nitems(other_values); i++)
		if (strcmp(other_values[i].key, key) == 0 && strcmp(other_values[i].old, value) == 0)
			return other_values[i].now;
	return NULL;
}

static const char *last_part(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot == NULL ? path : dot + 1;
}

static const char *renamed_to(const char *name)
{
	for (size_t i = 0; i < nitems(renamed); i++)
		if (strcmp(renamed[i].old, name) == 0)
			return renamed[i].now;
	return NULL;
}

static const char *renamed_here(const struct conf_schema *schema, const char *name)
{
	for (size_t i = 0; i < nitems(renamed_in_list); i++)
		if (renamed_in_list[i].schema == schema && strcmp(renamed_in_list[i].old, name) == 0)
			return renamed_in_list[i].now;
	return NULL;
}

const char *conf_renamed_group(const char *path)
{
	const char *now = renamed_to(path);

	return now != NULL && conf_key_is_group(&conf_schema_global, now) ? now : NULL;
}

/* The names that may stand in a group: keys and groups, each once. */
struct names {
	char **list;
	size_t n;
};

static void add_name(struct names *names, const char *start, size_t len)
{
	for (size_t i = 0; i < names->n; i++)
		if (strlen(names->list[i]) == len && strncmp(names->list[i], start, len) == 0)
			return;
	names->list = alloc_resize(names->list, names->n + 1, sizeof(*names->list));
	names->list[names->n++] = alloc_copy(start, len);
}

static void free_names(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
}

static struct names members(const struct conf_schema *schema, const char *prefix)
{
	struct names names = {0};
	size_t len = strlen(prefix);

	for (size_t i = 0; i < schema->n; i++)
		if (strncmp(schema->keys[i].path, prefix, len) == 0)
			add_name(&names, schema->keys[i].path + len, strcspn(schema->keys[i].path + len, "."));
	if (schema == &conf_schema_global && len == 0) {
		add_name(&names, "defaults", 8);
		add_name(&names, "queues", 6);
		add_name(&names, "schedules", 9);
		add_name(&names, "throttles", 9);
	}
	return names;
}

#define SHOWN_MOST 8

char *conf_group_members(const struct conf_schema *schema, const char *prefix)
{
	struct names names = members(schema, prefix);
	struct buffer b = {0};

	for (size_t i = 0; i < names.n && i < SHOWN_MOST; i++)
		buffer_format(&b, "%s%s", i == 0 ? "" : ", ", names.list[i]);
	if (names.n > SHOWN_MOST)
		buffer_format(&b, " ...");
	free_names(&names);
	return b.data;
}

char *conf_dotted_advice(const char *text, int line)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
	size_t group, key;

	for (int i = 1; i < line && text != NULL; i++)
		text = strchr(text, '\n') == NULL ? NULL : strchr(text, '\n') + 1;
	if (text == NULL)
		return NULL;
	text += strspn(text, " \t{");
	group = strspn(text, letters);
	if (group == 0 || text[group] != '.')
		return NULL;
	key = strspn(text + group + 1, letters);
	return key == 0 ? NULL : alloc_format("; write %.*s = { %.*s = ... }; for %.*s", (int)group, text, (int)key,
	    text + group + 1, (int)(group + 1 + key), text);
}

static bool has_word(const char *name, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = name; (at = strstr(at, word)) != NULL; at++)
		if ((at == name || at[-1] == '_') && (at[len] == '\0' || at[len] == '_'))
			return true;
	return false;
}

/* The only member of a group that has the name as one of its words: lock_file for lock. A new string; NULL: none. */
static char *member_with_word(const struct conf_schema *schema, const char *prefix, const char *word)
{
	struct names names = members(schema, prefix);
	const char *found = NULL;
	size_t n = 0;
	char *text;

	for (size_t i = 0; i < names.n; i++)
		if (has_word(names.list[i], word)) {
			found = names.list[i];
			n++;
		}
	text = n == 1 ? alloc_format("did you mean '%s%s'?", prefix, found) : NULL;
	free_names(&names);
	return text;
}

/* A key whose last part is exactly this name, wherever it stands. */
static char *in_schema(const struct conf_schema *schema, const char *name)
{
	const char *of = schema == &conf_schema_queue ? " of a queue" : "";

	for (size_t i = 0; i < schema->n; i++)
		if (strcmp(last_part(schema->keys[i].path), name) == 0)
			return alloc_format("did you mean '%s'%s?", schema->keys[i].path, of);
	return NULL;
}

static char *elsewhere(const struct conf_schema *schema, const char *name)
{
	const struct conf_schema *other = schema == &conf_schema_queue ? &conf_schema_global : &conf_schema_queue;
	char *text = in_schema(schema, name);

	return text != NULL ? text : in_schema(other, name);
}

/* Shorter names are similar to too many others. */
#define NEAR_MIN 6

static char *near_elsewhere(const struct conf_schema *schema, const char *name)
{
	const struct conf_schema *schemas[] = { &conf_schema_global, &conf_schema_queue };
	struct names names = {0};
	const char *near;
	char *text;

	if (strlen(name) < NEAR_MIN)
		return NULL;
	for (size_t s = 0; s < nitems(schemas); s++)
		for (size_t i = 0; i < schemas[s]->n; i++)
			add_name(&names, last_part(schemas[s]->keys[i].path),
			    strlen(last_part(schemas[s]->keys[i].path)));
	near = nearest(name, (const char *const *)names.list, names.n);
	text = near == NULL ? NULL : elsewhere(schema, near);
	free_names(&names);
	return text;
}

/* For a path that exists in the other schema: a key of a queue among the global ones, or the reverse. */
static char *in_other_schema(const struct conf_schema *schema, const char *prefix, const char *name)
{
	bool of_queue = schema == &conf_schema_queue;
	const struct conf_schema *other = of_queue ? &conf_schema_global : &conf_schema_queue;
	char *path = alloc_format("%s%s", prefix, name), *text = NULL;

	if (conf_key_find(other, path) != NULL || conf_key_is_group(other, path))
		text = alloc_string(of_queue ? "it is a global key, not one of a queue" : "it is a key of a queue");
	free(path);
	return text;
}

/* A few keys of their own, to which advice on others would not apply. */
static bool is_of_list(const struct conf_schema *schema)
{
	return schema == &conf_schema_schedule || schema == &conf_schema_throttle;
}

/* For a key in a wrong place, a typing error, or both. NULL: no advice. */
static char *advice_for(const struct conf_schema *schema, const char *prefix, const char *name)
{
	struct names names = members(schema, prefix);
	bool listed = is_of_list(schema);
	char *text = listed ? NULL : in_other_schema(schema, prefix, name);
	const char *near = nearest(name, (const char *const *)names.list, names.n);

	if (text == NULL && !listed)
		text = elsewhere(schema, name);
	if (text == NULL && near != NULL)
		text = alloc_format("did you mean '%s%s'?", prefix, near);
	if (text == NULL && !listed)
		text = near_elsewhere(schema, name);
	free_names(&names);
	return text;
}

char *conf_unknown(const struct conf_schema *schema, const char *prefix, const char *name)
{
	char *path = alloc_format("%s%s", prefix, name), *hint = NULL, *text;
	const char *now = is_of_list(schema) ? renamed_here(schema, name) : renamed_to(path);

	free(path);
	if (now == NULL && prefix[0] != '\0' && name[0] != '\0')
		hint = member_with_word(schema, prefix, name);
	if (now == NULL && hint == NULL && !is_of_list(schema))
		now = renamed_to(name);
	if (now != NULL)
		return alloc_format("unknown key '%s%s': use %s", prefix, name, now);
	if (hint == NULL)
		hint = advice_for(schema, prefix, name);
	if (hint == NULL && prefix[0] != '\0') {
		char *has = conf_group_members(schema, prefix);

		text = alloc_format("unknown key '%s%s': '%.*s' has %s", prefix, name, (int)strlen(prefix) - 1,
		    prefix, has);
		free(has);
		return text;
	}
	if (hint == NULL)
		return alloc_format("unknown key '%s%s'", prefix, name);
	text = alloc_format("unknown key '%s%s': %s", prefix, name, hint);
	free(hint);
	return text;
}
