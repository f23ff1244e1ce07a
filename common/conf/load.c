/*
 * Loads a configuration: files, environment, defaults, checks, in this order. Each step reports what is wrong and goes
 * on, so that the operator sees all errors of all files at once, sorted by file and line. Only a file that cannot be
 * parsed ends it early: what is missing then proves nothing.
 *
 * A value comes from the environment, the queue in a file, the group `defaults`, the global group of the same name, or
 * the schema: the first that has one. A value that was refused has its default while the checks run.
 *
 * Loading changes nothing in the process, since a running master reloads with it.
 */
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

/* ---- values that no file gives ---- */

static const struct {
	const char *variable, *path;
} variables[] = {
	{ "QUREDIS_REDIS_URL", "redis.url" },
	{ "QUREDIS_REDIS_PREFIX", "redis.prefix" },
	{ "QUREDIS_LOG_LEVEL", "log.level" },
};

static void merge_environment(struct conf_loading *l)
{
	for (size_t i = 0; i < nitems(variables); i++) {
		const struct conf_key *key = conf_key_find(&conf_schema_global, variables[i].path);
		struct conf_origin where = { CONF_ORIGIN_ENVIRONMENT, 0, variables[i].variable };
		struct conf_raw raw = { .kind = CONF_RAW_STRING, .string = getenv(variables[i].variable) };
		char *expected;

		if (raw.string == NULL)
			continue;
		if (conf_value_read(key, &raw, l->conf) == 0) {
			*conf_origin(l->conf, key->path) = where;
			continue;
		}
		expected = conf_value_expected(key);
		conf_error(l, &where, "expected %s", expected);
		free(expected);
	}
}

static bool has_value(const struct conf_origin *o)
{
	return o->kind != CONF_ORIGIN_NONE && o->kind != CONF_ORIGIN_BAD;
}

static void fall_back(const struct conf_key *key, void *base, struct conf_origin *o)
{
	if (has_value(o) || key->fallback == NULL)
		return;
	conf_value_default(key, base);
	if (o->kind == CONF_ORIGIN_NONE)
		o->kind = CONF_ORIGIN_DEFAULT;
}

static void inherit(const struct conf *conf, const struct conf_key *key, struct conf_queue *q, struct conf_origin *o)
{
	size_t i = conf_key_index(&conf_schema_global, key->inherits);

	if (conf->origins[i].kind == CONF_ORIGIN_NONE)
		return;
	conf_value_copy(key, q, &conf_schema_global.keys[i], conf);
	if (o->kind == CONF_ORIGIN_NONE)
		*o = (struct conf_origin){ CONF_ORIGIN_INHERITED, 0, conf_schema_global.keys[i].path };
}

static void merge_queue(struct conf_loading *l, struct conf_queue *q)
{
	for (size_t i = 0; i < conf_schema_queue.n; i++) {
		const struct conf_key *key = &conf_schema_queue.keys[i];

		if (has_value(&q->origins[i]))
			continue;
		if (q->origins[i].kind == CONF_ORIGIN_NONE && has_value(&l->defaults.origins[i])) {
			conf_value_copy(key, q, key, &l->defaults);
			q->origins[i] = l->defaults.origins[i];
		} else if (key->inherits != NULL) {
			inherit(l->conf, key, q, &q->origins[i]);
		} else {
			fall_back(key, q, &q->origins[i]);
		}
	}
	q->purge.enabled = l->conf->purge.enabled;	/* global keys only */
	q->purge.dry_run = l->conf->purge.dry_run;
	q->purge.interval_ms = l->conf->purge.interval_ms;
}

/* A default forward_to does not apply to its own target. own: the queue itself sets it. */
static void forward_to_others(struct conf_queue *q, bool own)
{
	struct conf_origin *o = conf_queue_origin(q, "dead_letter.forward_to");

	if (own || q->dead_letter.forward_to == NULL || q->name == NULL ||
	    strcmp(q->dead_letter.forward_to, q->name) != 0)
		return;
	free(q->dead_letter.forward_to);
	q->dead_letter.forward_to = NULL;
	o->kind = CONF_ORIGIN_NONE;
}

static void name_list(const struct conf *conf, struct conf_queue *q, char **field, const char *path)
{
	struct conf_origin *o = conf_queue_origin(q, path);

	if (*field != NULL || q->name == NULL)
		return;
	*field = conf_list_name(conf->redis.prefix, path, q->name);
	if (o->kind == CONF_ORIGIN_NONE)
		o->kind = CONF_ORIGIN_DEFAULT;
}

/* Default node: the host name, with bytes that key names cannot have replaced. */
static void name_node(struct conf *conf)
{
	struct conf_origin *o = conf_origin(conf, "supervisor.node");
	char host[QUEUE_NAME_MAX + 1] = "";

	if (conf->supervisor.node != NULL)
		return;
	if (gethostname(host, sizeof(host) - 1) == -1 || host[0] == '\0')
		strcpy(host, "localhost");
	for (char *p = host; *p != '\0'; p++)
		if (!identifier_is(IDENTIFIER_NAME, p, 1) && (p == host || strchr("._-", *p) == NULL))
			*p = p == host ? 'x' : '-';
	conf->supervisor.node = alloc_string(host);
	if (o->kind == CONF_ORIGIN_NONE)
		o->kind = CONF_ORIGIN_DEFAULT;
}

static void set_derived_url(struct conf *conf, const char *from, char *url)
{
	free(conf->redis.url);
	conf->redis.url = url;
	*conf_origin(conf, "redis.url") = (struct conf_origin){ CONF_ORIGIN_DERIVED, 0, from };
}

/* An embedded server has its socket in redis.dir; Sentinels name the host. */
static void derive_url(struct conf *conf)
{
	if (conf_given(conf_origin(conf, "redis.url")))
		return;
	if (conf->redis.embedded && conf->redis.dir != NULL)
		set_derived_url(conf, "redis.dir", alloc_format("unix://%s/redis.sock", conf->redis.dir));
	else if (conf->redis.sentinels != NULL)
		set_derived_url(conf, "redis.sentinels", alloc_string("redis:///0"));
}

/* A Sentinel in plain text could name any server with a certificate of the same CA, which would then get the
 * password. */
static void derive_sentinel_tls(struct conf *conf)
{
	struct conf_origin *where = conf_origin(conf, "redis.sentinel_tls");

	if (conf_given(where) || conf->redis.sentinels == NULL || strncmp(conf->redis.url, "rediss://", 9) != 0)
		return;
	conf->redis.sentinel_tls = true;
	*where = (struct conf_origin){ CONF_ORIGIN_DERIVED, 0, "redis.url" };
}

static void merge_defaults(struct conf_loading *l)
{
	struct conf *conf = l->conf;

	for (size_t i = 0; i < conf_schema_global.n; i++)
		fall_back(&conf_schema_global.keys[i], conf, &conf->origins[i]);
	name_node(conf);
	derive_url(conf);
	derive_sentinel_tls(conf);
	for (size_t i = 0; i < conf->nschedules; i++)
		for (size_t k = 0; k < conf_schema_schedule.n; k++)
			fall_back(&conf_schema_schedule.keys[k], conf->schedules[i], &conf->schedules[i]->origins[k]);
	for (size_t i = 0; i < conf->nthrottles; i++)
		for (size_t k = 0; k < conf_schema_throttle.n; k++)
			fall_back(&conf_schema_throttle.keys[k], conf->throttles[i], &conf->throttles[i]->origins[k]);
	for (size_t i = 0; i < conf->nqueues; i++) {
		struct conf_queue *q = conf->queues[i];
		bool own = conf_given(conf_queue_origin(q, "dead_letter.forward_to"));
		bool function = conf_given(conf_queue_origin(q, "function"));
		bool handler = conf_given(conf_queue_origin(q, "handler"));
		bool throttle = conf_given(conf_queue_origin(q, "throttle"));
		bool limit = conf_sets_limit(q);

		merge_queue(l, q);
		forward_to_others(q, own);
		conf_derive_handler(l, q, function, handler);
		conf_derive_limits(conf, q, throttle, limit);
		name_list(conf, q, &q->ingress, "ingress");
		name_list(conf, q, &q->transit, "transit");
		name_list(conf, q, &q->escape, "escape");
	}
}

/* ---- the order of loading ---- */

static void load_file(struct conf_loading *l, const char *path)
{
	struct conf_source source;

	if (conf_source_read(l, path, &source) == 0 && conf_scan(l, &source) == 0)
		conf_parse(l, &source);
	else
		l->broken = true;
	conf_source_free(&source);
}

static void load_all(struct conf_loading *l, const char *path)
{
	char **fragments = path == NULL ? NULL : conf_fragments(l, path);

	if (path != NULL)
		load_file(l, path);
	for (size_t i = 0; path != NULL && fragments[i] != NULL; i++) {
		load_file(l, fragments[i]);
		free(fragments[i]);
	}
	free(fragments);
	if (l->broken && (l->flags & CONF_DESPITE_ERRORS) == 0)
		return;
	merge_environment(l);
	merge_defaults(l);
	if (!l->broken)
		conf_check(l);
}

static struct conf *load_for(const char *path, unsigned flags, const char *only, const char *planned,
    struct conf_report *report)
{
	struct conf_loading l = { .conf = conf_new(), .flags = flags, .only = only, .planned = planned };
	locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0), before = (locale_t)0;

	if (c != (locale_t)0)	/* libconfig and strtod take the decimal point of the locale */
		before = uselocale(c);
	conf_queue_init(&l.defaults);
	load_all(&l, path);
	conf_queue_release(&l.defaults);
	free(l.modes);
	conf_report_fill(&l, report);
	if (c != (locale_t)0) {
		uselocale(before);
		freelocale(c);
	}
	if (report->errors == 0 || (flags & CONF_DESPITE_ERRORS) != 0)
		return l.conf;
	conf_free(l.conf);
	return NULL;
}

struct conf *conf_load(const char *path, unsigned flags, struct conf_report *report)
{
	return load_for(path, flags, NULL, NULL, report);
}

struct conf *conf_load_to_run(const char *path, const char *queue, struct conf_report *report)
{
	return load_for(path, 0, queue, NULL, report);
}

struct conf *conf_load_planned(const char *path, const char *dir, struct conf_report *report)
{
	return load_for(path, CONF_LOOK, NULL, dir, report);
}
