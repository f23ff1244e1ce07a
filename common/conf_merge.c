/*
 * From what was written to what holds: environment over file, defaults for the rest, queue from `defaults`
 * or from the global group of the same name, and the few values that are worked out from others.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf.h"

#include "common/alloc.h"
#include "common/conf_load.h"
#include "common/nitems.h"
#include "common/queue.h"

static const struct {
	const char *variable, *path;
} environment[] = {
	{ "QUREDIS_REDIS_URL", "redis.url" },
	{ "QUREDIS_LOG_LEVEL", "log.level" },
};

void conf_merge_environment(struct conf_loading *l)
{
	for (size_t i = 0; i < nitems(environment); i++) {
		const struct conf_key *key = conf_key_find(&conf_schema_global, environment[i].path);
		struct conf_origin where = { CONF_ORIGIN_ENVIRONMENT, 0, environment[i].variable };
		struct conf_raw raw = { .kind = CONF_RAW_STRING, .string = getenv(environment[i].variable) };
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

/* A value that was written but refused stands at its default, so that later checks find something sane. */
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
	q->purge.enabled = l->conf->purge.enabled;	/* no keys of a queue */
	q->purge.dry_run = l->conf->purge.dry_run;
	q->purge.interval_ms = l->conf->purge.interval_ms;
}

/* What is said for all queues does not hold for the one that it names. */
static void forward_to_others(struct conf_queue *q, bool own)
{
	struct conf_origin *o = conf_queue_origin(q, "dead_letter.forward_to");

	if (own || q->dead_letter.forward_to == NULL || q->name == NULL || strcmp(q->dead_letter.forward_to, q->name) != 0)
		return;
	free(q->dead_letter.forward_to);
	q->dead_letter.forward_to = NULL;
	o->kind = CONF_ORIGIN_NONE;
}

static void name_key(struct conf_queue *q, char **field, const char *path)
{
	struct conf_origin *o = conf_queue_origin(q, path);

	if (*field != NULL || q->name == NULL)
		return;
	*field = alloc_format("%s:%s", path, q->name);
	if (o->kind == CONF_ORIGIN_NONE)
		o->kind = CONF_ORIGIN_DEFAULT;
}

/* The host name as a part of key names. */
static void name_node(struct conf *conf)
{
	struct conf_origin *o = conf_origin(conf, "supervisor.node");
	char host[QUEUE_NAME_MAX + 1] = "";

	if (conf->supervisor.node != NULL)
		return;
	if (gethostname(host, sizeof(host) - 1) == -1 || host[0] == '\0')
		strcpy(host, "localhost");
	for (char *p = host; *p != '\0'; p++)
		if (!isalnum((unsigned char)*p) && strchr("._-", *p) == NULL)
			*p = '-';
	conf->supervisor.node = alloc_string(host);
	if (o->kind == CONF_ORIGIN_NONE)
		o->kind = CONF_ORIGIN_DEFAULT;
}

static void derive_embedded_url(struct conf *conf)
{
	struct conf_origin *o = conf_origin(conf, "redis.url");

	if (!conf->redis.embedded || conf->redis.dir == NULL || conf_given(o))
		return;
	free(conf->redis.url);
	conf->redis.url = alloc_format("unix://%s/redis.sock", conf->redis.dir);
	*o = (struct conf_origin){ CONF_ORIGIN_DERIVED, 0, "redis.dir" };
}

void conf_merge_defaults(struct conf_loading *l)
{
	struct conf *conf = l->conf;

	for (size_t i = 0; i < conf_schema_global.n; i++)
		fall_back(&conf_schema_global.keys[i], conf, &conf->origins[i]);
	name_node(conf);
	derive_embedded_url(conf);
	for (size_t i = 0; i < conf->nqueues; i++) {
		struct conf_queue *q = conf->queues[i];
		bool own = conf_given(conf_queue_origin(q, "dead_letter.forward_to"));

		merge_queue(l, q);
		forward_to_others(q, own);
		name_key(q, &q->ingress, "ingress");
		name_key(q, &q->transit, "transit");
		name_key(q, &q->escape, "escape");
	}
}
