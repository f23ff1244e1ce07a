/*
 * Makes, searches, compares and frees a struct conf. load.c fills it.
 *
 * Two configurations are compared by the schema, so a new key counts without an edit here. A reload uses the
 * comparison: it replaces the workers of the queues that differ, and the sweeper if anything else differs.
 */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"
#include "common/conf/schema.h"
#include "common/conf/types.h"
#include "common/redis/redis.h"

static void unset_values(const struct conf_schema *schema, void *base)
{
	for (size_t i = 0; i < schema->n; i++)
		conf_value_unset(&schema->keys[i], base);
}

static void free_values(const struct conf_schema *schema, void *base)
{
	for (size_t i = 0; i < schema->n; i++)
		conf_value_free(&schema->keys[i], base);
}

struct conf *conf_new(void)
{
	struct conf *conf = alloc_zero(1, sizeof(*conf));

	unset_values(&conf_schema_global, conf);
	conf->origins = alloc_zero(conf_schema_global.n, sizeof(*conf->origins));
	conf->loaded_ms = clock_realtime_ms();
	conf->files = alloc_zero(1, sizeof(*conf->files));
	return conf;
}

void conf_queue_init(struct conf_queue *q)
{
	unset_values(&conf_schema_queue, q);
	q->origins = alloc_zero(conf_schema_queue.n + 1, sizeof(*q->origins));
}

struct conf_queue *conf_queue_add(struct conf *conf)
{
	struct conf_queue *q = alloc_zero(1, sizeof(*q));

	conf_queue_init(q);
	conf->queues = alloc_resize(conf->queues, conf->nqueues + 1, sizeof(*conf->queues));
	conf->queues[conf->nqueues++] = q;
	return q;
}

struct conf_schedule *conf_schedule_add(struct conf *conf)
{
	struct conf_schedule *s = alloc_zero(1, sizeof(*s));

	unset_values(&conf_schema_schedule, s);
	s->origins = alloc_zero(conf_schema_schedule.n + 1, sizeof(*s->origins));
	conf->schedules = alloc_resize(conf->schedules, conf->nschedules + 1, sizeof(*conf->schedules));
	conf->schedules[conf->nschedules++] = s;
	return s;
}

struct conf_throttle *conf_throttle_add(struct conf *conf)
{
	struct conf_throttle *t = alloc_zero(1, sizeof(*t));

	unset_values(&conf_schema_throttle, t);
	t->origins = alloc_zero(conf_schema_throttle.n + 1, sizeof(*t->origins));
	conf->throttles = alloc_resize(conf->throttles, conf->nthrottles + 1, sizeof(*conf->throttles));
	conf->throttles[conf->nthrottles++] = t;
	return t;
}

static void free_throttles(struct conf *conf)
{
	for (size_t i = 0; i < conf->nthrottles; i++) {
		free_values(&conf_schema_throttle, conf->throttles[i]);
		free(conf->throttles[i]->origins);
		free(conf->throttles[i]);
	}
	free(conf->throttles);
}

static void free_schedules(struct conf *conf)
{
	for (size_t i = 0; i < conf->nschedules; i++) {
		free_values(&conf_schema_schedule, conf->schedules[i]);
		free(conf->schedules[i]->origins);
		free(conf->schedules[i]);
	}
	free(conf->schedules);
}

static void release_resolved(struct conf_run_as *r)
{
	free(r->groups);
	free(r->home);
	free(r->login);
}

void conf_queue_release(struct conf_queue *q)
{
	free_values(&conf_schema_queue, q);
	release_resolved(&q->run_as);
	free(q->emit.targets);
	free(q->origins);
}

static void free_secret(char *text)
{
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(text);
}

void conf_free(struct conf *conf)
{
	if (conf == NULL)
		return;
	for (size_t i = 0; i < conf->nqueues; i++) {
		conf_queue_release(conf->queues[i]);
		free(conf->queues[i]);
	}
	free(conf->queues);
	free_schedules(conf);
	free_throttles(conf);
	free_values(&conf_schema_global, conf);
	release_resolved(&conf->supervisor.as);
	free(conf->redis.user);
	free_secret(conf->redis.password);
	free_secret(conf->redis.sentinel_password);
	tls_context_free(conf->redis.tls);
	for (char **f = conf->files; *f != NULL; f++)
		free(*f);
	free(conf->files);
	free(conf->origins);
	free(conf);
}

int64_t conf_timeout_ms(const struct conf_queue *q)
{
	return q->max_duration_ms > 0 && (q->timeout_ms < 0 || q->max_duration_ms < q->timeout_ms) ? q->max_duration_ms
	    : q->timeout_ms;
}

int64_t conf_longest_run_ms(const struct conf_queue *q)
{
	return q->max_duration_ms > 0 ? q->max_duration_ms : q->timeout_ms;
}

struct conf_queue *conf_queue_find(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->nqueues; i++)
		if (conf->queues[i]->name != NULL && strcmp(conf->queues[i]->name, name) == 0)
			return conf->queues[i];
	return NULL;
}

char *conf_list_name(const char *prefix, const char *which, const char *queue)
{
	return alloc_format("%s%s:%s", prefix == NULL ? "" : prefix, which, queue);
}

const char *const conf_private_suffixes[CONF_PRIVATE_KEYS] = {
	[CONF_PRIVATE_DELAYED] = ":delayed",
	[CONF_PRIVATE_APART] = ":delayed:apart",
	[CONF_PRIVATE_APART_LIST] = ":delayed:apart:*",
	[CONF_PRIVATE_DONE] = ":done",
	[CONF_PRIVATE_STATS] = ":stats",
	[CONF_PRIVATE_PAUSED] = ":paused",
	[CONF_PRIVATE_CANCELS] = ":cancels",
	[CONF_PRIVATE_THROTTLE] = ":throttle",
	[CONF_PRIVATE_SEATS] = ":seats",
	[CONF_PRIVATE_SEATS_FREE] = ":seats:free",
	[CONF_PRIVATE_SWEEPER] = ":sweeper",
	[CONF_PRIVATE_NOTES] = ":notes",
	[CONF_PRIVATE_RATE] = ":rate:*",
	[CONF_PRIVATE_BACKLOG] = ":backlog:*",
	[CONF_PRIVATE_SCRATCH] = ":scratch:*",
	[CONF_PRIVATE_SCHEDULES] = ":schedules",
};

char *conf_private_base(const char *prefix, const char *ingress)
{
	size_t len = prefix == NULL ? 0 : strlen(prefix);

	return alloc_format("%squredis:of:%s", len == 0 ? "" : prefix,
	    len > 0 && strncmp(ingress, prefix, len) == 0 ? ingress + len : ingress);
}

struct conf_origin *conf_origin(const struct conf *conf, const char *path)
{
	return &conf->origins[conf_key_index(&conf_schema_global, path)];
}

struct conf_origin *conf_queue_origin(const struct conf_queue *q, const char *path)
{
	return &q->origins[conf_key_index(&conf_schema_queue, path)];
}

struct conf_origin *conf_queue_place(const struct conf_queue *q)
{
	return &q->origins[conf_schema_queue.n];
}

struct conf_origin *conf_schedule_origin(const struct conf_schedule *s, const char *path)
{
	return &s->origins[conf_key_index(&conf_schema_schedule, path)];
}

struct conf_origin *conf_schedule_place(const struct conf_schedule *s)
{
	return &s->origins[conf_schema_schedule.n];
}

struct conf_origin *conf_throttle_origin(const struct conf_throttle *t, const char *path)
{
	return &t->origins[conf_key_index(&conf_schema_throttle, path)];
}

struct conf_origin *conf_throttle_place(const struct conf_throttle *t)
{
	return &t->origins[conf_schema_throttle.n];
}

/* ---- what a reload compares ---- */

static bool equal_values(const struct conf_schema *schema, const void *a, const void *b, const char *but)
{
	for (size_t i = 0; i < schema->n; i++)
		if (strcmp(schema->keys[i].path, but) != 0 && !conf_value_equal(&schema->keys[i], a, b))
			return false;
	return true;
}

static bool equal_strings(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool conf_run_as_same_ids(const struct conf_run_as *a, const struct conf_run_as *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->ngroups == b->ngroups &&
	    (a->ngroups == 0 || memcmp(a->groups, b->groups, (size_t)a->ngroups * sizeof(*a->groups)) == 0);
}

/* The user's id or groups may have changed on the host since the last load. */
static bool equal_resolved(const struct conf_run_as *a, const struct conf_run_as *b)
{
	return a->switch_user == b->switch_user && conf_run_as_same_ids(a, b) && equal_strings(a->home, b->home) &&
	    equal_strings(a->login, b->login);
}

bool conf_queue_equal(const struct conf_queue *a, const struct conf_queue *b)
{
	return equal_values(&conf_schema_queue, a, b, "workers") && equal_resolved(&a->run_as, &b->run_as) &&
	    conf_emit_equal(&a->emit, &b->emit);
}

bool conf_globals_equal(const struct conf *a, const struct conf *b)
{
	return equal_values(&conf_schema_global, a, b, "") && equal_resolved(&a->supervisor.as, &b->supervisor.as) &&
	    equal_strings(a->redis.user, b->redis.user) &&
	    equal_strings(a->redis.password, b->redis.password) &&
	    equal_strings(a->redis.sentinel_password, b->redis.sentinel_password) &&
	    tls_context_equal(a->redis.tls, b->redis.tls);
}

bool conf_schedules_equal(const struct conf *a, const struct conf *b)
{
	if (a->nschedules != b->nschedules)
		return false;
	for (size_t i = 0; i < a->nschedules; i++)
		if (!equal_values(&conf_schema_schedule, a->schedules[i], b->schedules[i], ""))
			return false;
	return true;
}

struct redis_options conf_redis_options(const struct conf *conf)
{
	return (struct redis_options){ .url = conf->redis.url, .user = conf->redis.user,
		.password = conf->redis.password,
		.sentinels = (const char *const *)conf->redis.sentinels, .master = conf->redis.master,
		.sentinel_user = conf->redis.sentinel_user, .sentinel_password = conf->redis.sentinel_password,
		.sentinel_tls = conf->redis.sentinel_tls };
}

static bool any_from(const struct conf_origin *origins, size_t n, const char *file)
{
	for (size_t i = 0; i < n; i++)
		if (conf_given(&origins[i]) && strcmp(origins[i].from, file) == 0)
			return true;
	return false;
}

bool conf_file_is_empty(const struct conf *conf, const char *file)
{
	bool is_read = false;

	for (size_t i = 0; conf->files[i] != NULL; i++)
		is_read = is_read || strcmp(conf->files[i], file) == 0;
	if (!is_read || any_from(conf->origins, conf_schema_global.n, file))
		return false;
	for (size_t i = 0; i < conf->nqueues; i++)
		if (any_from(conf->queues[i]->origins, conf_schema_queue.n + 1, file))
			return false;
	for (size_t i = 0; i < conf->nschedules; i++)
		if (any_from(conf->schedules[i]->origins, conf_schema_schedule.n + 1, file))
			return false;
	for (size_t i = 0; i < conf->nthrottles; i++)
		if (any_from(conf->throttles[i]->origins, conf_schema_throttle.n + 1, file))
			return false;
	return true;
}
