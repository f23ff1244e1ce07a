/*
 * Checks that look at more than one value, outside of a queue or across queues. Checks of one queue are in
 * check_queue.c, those of users, programs and directories of this host in check_host.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"
#include "common/redis/redis.h"

struct claim {
	char *name;
	bool prefix;		/* claims every key that begins with name */
	bool private;		/* a private key, which may begin with quredis: */
	int queue;		/* index; -1: quredis itself */
	const char *key;	/* "ingress", "transit" or "escape" */
};

struct claims {
	struct conf_loading *l;
	struct claim *list;
	size_t n;
	bool *reported;		/* by queue: an error was reported; a queue gets only one */
};

/* Suffixes of all keys that quredis makes of a list (docs/design.md, "What is in Redis"). A '*' at the end stands for
 * any text. */
static const char *const transit_keys[] = { "", ":*" };
static const char *const escape_keys[] = { "", ":log", ":forwarded", ":claimed", ":operations", ":redriven:*" };

static void add_claim(struct claims *c, const char *base, const char *suffix, int queue, const char *key)
{
	char *name = alloc_format("%s%s", base, suffix);
	size_t len = strlen(suffix);
	bool prefix = len > 0 && suffix[len - 1] == '*';

	if (prefix)
		name[strlen(name) - 1] = '\0';
	c->list = alloc_resize(c->list, c->n + 1, sizeof(*c->list));
	c->list[c->n++] = (struct claim){ .name = name, .prefix = prefix, .queue = queue, .key = key };
}

static void claim_keys(struct claims *c, int queue)
{
	const struct conf_queue *q = c->l->conf->queues[queue];
	char *base, *pushed, *unique;

	if (q->name == NULL || q->ingress == NULL || q->transit == NULL || q->escape == NULL)
		return;
	add_claim(c, q->ingress, "", queue, "ingress");
	pushed = conf_list_name(c->l->conf->redis.prefix, "delayed", q->name);
	add_claim(c, pushed, "", queue, "name");
	free(pushed);
	unique = conf_list_name(c->l->conf->redis.prefix, "unique", q->name);
	add_claim(c, unique, ":*", queue, "name");
	free(unique);
	base = conf_private_base(c->l->conf->redis.prefix, q->ingress);
	for (size_t i = 0; i < CONF_PRIVATE_KEYS; i++) {
		add_claim(c, base, conf_private_suffixes[i], queue, "ingress");
		c->list[c->n - 1].private = true;
	}
	free(base);
	for (size_t i = 0; i < nitems(transit_keys); i++)
		add_claim(c, q->transit, transit_keys[i], queue, "transit");
	for (size_t i = 0; i < nitems(escape_keys); i++)
		add_claim(c, q->escape, escape_keys[i], queue, "escape");
}

/* Sorts a prefix before all keys that begin with it, so that collisions stand together. */
static int compare_claims(const void *a, const void *b)
{
	return strcmp(((const struct claim *)a)->name, ((const struct claim *)b)->name);
}

/* Requires that a does not sort after b. */
static bool claims_collide(const struct claim *a, const struct claim *b)
{
	return a->prefix ? strncmp(a->name, b->name, strlen(a->name)) == 0 : strcmp(a->name, b->name) == 0;
}

/* True: both keys are made of one list, so they cannot collide, or one is a private key in the names reserved for
 * quredis. */
static bool may_meet(const struct claim *a, const struct claim *b)
{
	return (a->queue == b->queue && strcmp(a->key, b->key) == 0) || (a->queue == -1 && b->private) ||
	    (b->queue == -1 && a->private);
}

static const struct conf_origin *place_of(const struct claims *c, const struct claim *claim)
{
	const struct conf_queue *q = c->l->conf->queues[claim->queue];
	const struct conf_origin *o = conf_queue_origin(q, claim->key);

	return conf_given(o) ? o : conf_queue_origin(q, "name");
}

/* Reports a collision at the queue that comes later in the files. */
static void report_collision(struct claims *c, const struct claim *a, const struct claim *b)
{
	const struct claim *later = a->queue > b->queue ? a : b, *other = later == a ? b : a;
	struct conf_queue **queues = c->l->conf->queues;
	char *where;

	if (c->reported[later->queue])
		return;
	c->reported[later->queue] = true;
	if (other->queue == -1) {
		conf_error(c->l, place_of(c, later), "queue %s: keys that begin with %s are reserved for quredis",
		    queues[later->queue]->name, other->name);
		return;
	}
	where = conf_place(place_of(c, other));
	conf_error(c->l, place_of(c, later), "queue %s: its %s and the %s of queue %s (%s) use the same key %s",
	    queues[later->queue]->name, later->key, other->key, queues[other->queue]->name, where,
	    strlen(a->name) > strlen(b->name) ? a->name : b->name);
	free(where);
}

/* True: an earlier queue has the same name. The name has an error of its own, so the keys of this queue are not
 * compared. */
static bool named_before(const struct conf *conf, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (conf->queues[i]->name != NULL && conf->queues[k]->name != NULL &&
		    strcmp(conf->queues[i]->name, conf->queues[k]->name) == 0)
			return true;
	return false;
}

static void check_keys(struct conf_loading *l)
{
	struct claims c = { .l = l, .reported = alloc_zero(l->conf->nqueues, sizeof(bool)) };

	/* also with a prefix: another supervisor on this server may have none */
	add_claim(&c, "quredis:", "*", -1, "");
	if (l->conf->redis.prefix != NULL)
		add_claim(&c, l->conf->redis.prefix, "quredis:*", -1, "");
	for (size_t i = 0; i < l->conf->nqueues; i++)
		if (!named_before(l->conf, i))
			claim_keys(&c, (int)i);
	qsort(c.list, c.n, sizeof(*c.list), compare_claims);
	for (size_t i = 0; i < c.n; i++)
		for (size_t k = i + 1; k < c.n && claims_collide(&c.list[i], &c.list[k]); k++)
			if (!may_meet(&c.list[i], &c.list[k]))
				report_collision(&c, &c.list[i], &c.list[k]);
	for (size_t i = 0; i < c.n; i++)
		free(c.list[i].name);
	free(c.list);
	free(c.reported);
}

/* A list that quredis trusts should not begin with the name of one that producers write: access lists with a pattern
 * would cover both. */
static void check_trusted(struct conf_loading *l, const struct conf_queue *q, const char *key, const char *list)
{
	const struct conf_origin *given = conf_queue_origin(q, key);

	for (size_t i = 0; list != NULL && conf_given(given) && i < l->conf->nqueues; i++) {
		const char *ingress = l->conf->queues[i]->ingress;

		if (ingress != NULL && strlen(list) > strlen(ingress) && strncmp(list, ingress, strlen(ingress)) == 0) {
			conf_warning(l, given, "queue %s: %s = \"%s\" begins with the name of an ingress list, %s: an "
			    "access list that lets producers write %s* lets them write it, too", q->name, key, list,
			    ingress, ingress);
			return;
		}
	}
}

/* ---- redis.prefix ---- */

#define PREFIX_MAX 64
#define PREFIX_BYTES QUEUE_NAME_BYTES ":{}"

/* Braces only as one hash tag. Any other brace would have a meaning only behind other names, or none. */
static bool has_stray_brace(const char *prefix)
{
	size_t len = 0, braces = 0;

	for (const char *p = prefix; *p != '\0'; p++)
		braces += *p == '{' || *p == '}';
	return braces != (redis_hash_tag(prefix, &len) == NULL ? 0 : 2);
}

static void check_prefix(struct conf_loading *l)
{
	const struct conf_origin *where = conf_origin(l->conf, "redis.prefix");
	const char *prefix = l->conf->redis.prefix;

	if (prefix == NULL)
		return;
	if (strlen(prefix) > PREFIX_MAX || prefix[strspn(prefix, PREFIX_BYTES)] != '\0')
		conf_error(l, where, "redis.prefix: expected 1 to %d letters, digits, dots, dashes, underscores and "
		    "colons, and at most one hash tag in braces, such as \"{a}\" or \"a:\"", PREFIX_MAX);
	else if (has_stray_brace(prefix))
		conf_error(l, where, "redis.prefix: braces stand only around one hash tag that is not empty, such as "
		    "\"{a}\"; not \"%s\"", prefix);
	else if (strncmp(prefix, "quredis:", strlen("quredis:")) == 0)
		conf_error(l, where, "redis.prefix: names that begin with quredis: are reserved");
}

/* Commands and scripts of a Redis Cluster work on the keys of one slot. key: "ingress", "transit" or "escape". */
static void check_slot(struct conf_loading *l, const struct conf_queue *q, const char *key, const char *list)
{
	const struct conf_origin *given = conf_queue_origin(q, key);
	const char *prefix = l->conf->redis.prefix, *tag;
	size_t len = 0, other;

	if (list == NULL || redis_same_slot(prefix, list))
		return;
	tag = redis_hash_tag(prefix, &len);
	conf_error(l, conf_given(given) ? given : conf_queue_origin(q, "name"),
	    "queue %s: %s = \"%s\" is in slot %d of a Redis Cluster%s, and redis.prefix = \"%s\" in slot %d: all keys "
	    "must be in one slot. Put {%.*s} into the name, or leave %s out", q->name, key, list, redis_slot(list),
	    redis_hash_tag(list, &other) == NULL ? " (it has no hash tag, so its keys are in several)" : "", prefix,
	    redis_slot(prefix), (int)len, tag, key);
}

static void check_slots(struct conf_loading *l)
{
	size_t len;

	if (l->conf->redis.prefix == NULL || redis_hash_tag(l->conf->redis.prefix, &len) == NULL)
		return;
	for (size_t i = 0; i < l->conf->nqueues; i++) {
		const struct conf_queue *q = l->conf->queues[i];

		if (q->name == NULL)
			continue;
		check_slot(l, q, "ingress", q->ingress);
		check_slot(l, q, "transit", q->transit);
		check_slot(l, q, "escape", q->escape);
	}
}

#define SOCKET_PATH_MAX 107

/* Half of the scoreboard's rows: during a reload a queue has a row for its old and one for its new configuration. */
#define QUEUES_MAX (SCOREBOARD_QUEUES / 2)

static void check_embedded(struct conf_loading *l)
{
	const struct conf *conf = l->conf;
	const struct conf_origin *url = conf_origin(conf, "redis.url"), *dir = conf_origin(conf, "redis.dir");
	const struct conf_origin *sentinels = conf_origin(conf, "redis.sentinels");

	if (!conf->redis.embedded) {
		if (conf_given(dir))
			conf_warning(l, dir, "redis.dir has no effect without redis.embedded = true");
		return;
	}
	if (conf->redis.dir == NULL && !conf_given(dir))
		conf_error(l, conf_origin(conf, "redis.embedded"), "redis.embedded = true requires redis.dir");
	if (conf_given(url))
		conf_error(l, url,
		    "redis.url cannot be set together with redis.embedded = true (the socket is in redis.dir)");
	else if (conf_given(sentinels))
		conf_error(l, sentinels, "redis.sentinels cannot be set together with redis.embedded = true");
	else if (conf->redis.url != NULL && url->kind == CONF_ORIGIN_DERIVED &&
	    strlen(conf->redis.url) - strlen("unix://") > SOCKET_PATH_MAX)
		conf_error(l, dir, "redis.dir is too long: a socket's path has at most %d bytes", SOCKET_PATH_MAX);
}

static void parse_target(struct conf_loading *l, const struct conf_origin *url, const struct conf_origin *sentinels)
{
	const struct redis_options options = conf_redis_options(l->conf);
	struct redis_target target;
	char why[512];

	if (redis_target_parse(&target, &options, why, sizeof(why)) == 0)
		redis_target_free(&target);
	else if (!conf_given(sentinels))
		conf_error(l, url, "redis.url: %s", why);
	else
		conf_error(l, conf_given(url) && strncmp(why, "redis.url", strlen("redis.url")) == 0 ? url : sentinels,
		    "%s", why);
}

static void check_server(struct conf_loading *l)
{
	const struct conf *conf = l->conf;
	const struct conf_origin *sentinels = conf_origin(conf, "redis.sentinels"),
	    *master = conf_origin(conf, "redis.master");
	const struct conf_origin *url = conf_origin(conf, "redis.url");
	static const char *const logins[] =
	    { "redis.sentinel_user", "redis.sentinel_password_file", "redis.sentinel_tls" };

	for (size_t i = 0; i < nitems(logins) && !conf_given(sentinels); i++)
		if (conf_given(conf_origin(conf, logins[i])))
			conf_warning(l, conf_origin(conf, logins[i]), "%s has no effect without redis.sentinels",
			    logins[i]);
	if (url->kind == CONF_ORIGIN_BAD || sentinels->kind == CONF_ORIGIN_BAD || master->kind == CONF_ORIGIN_BAD)
		return;
	if (conf_given(sentinels) && !conf_given(master))
		conf_error(l, sentinels,
		    "redis.sentinels requires redis.master, the name under which the Sentinels know the master");
	else if (conf_given(master) && !conf_given(sentinels))
		conf_error(l, master, "redis.master has no meaning without redis.sentinels");
	else if (!conf->redis.embedded)
		parse_target(l, url, sentinels);
}

static void check_supervisor_and_log(struct conf_loading *l)
{
	const struct conf *conf = l->conf;
	const char *target = conf->log.target;

	if (!identifier_is(IDENTIFIER_NAME, conf->supervisor.node, strlen(conf->supervisor.node)))
		conf_error(l, conf_origin(conf, "supervisor.node"), "supervisor.node: expected %s",
		    identifier_form(IDENTIFIER_NAME));
	if (strlen(conf->supervisor.control_socket) > SOCKET_PATH_MAX)
		conf_error(l, conf_origin(conf, "supervisor.control_socket"),
		    "supervisor.control_socket: a socket's path has at most %d bytes", SOCKET_PATH_MAX);
	if (strcmp(conf->supervisor.control_socket, conf->supervisor.lock_file) == 0)
		conf_error(l, conf_origin(conf, "supervisor.control_socket"),
		    "supervisor.control_socket and supervisor.lock_file are the same file");
	if (target[0] != '/' && strcmp(target, "stderr") != 0 && strcmp(target, "syslog") != 0)
		conf_error(l, conf_origin(conf, "log.target"),
		    "log.target: expected \"stderr\", \"syslog\" or an absolute path, not \"%s\"", target);
}

static void check_web(struct conf_loading *l)
{
	const struct conf_origin *where = conf_origin(l->conf, "web.listen");
	const char *listen = l->conf->web.listen, *path = address_unix_path(listen);
	struct address address;

	if (path != NULL && strlen(path) > SOCKET_PATH_MAX)
		conf_error(l, where, "web.listen: a socket's path has at most %d bytes", SOCKET_PATH_MAX);
	else if (path == NULL && address_parse(&address, listen) == -1)
		conf_error(l, where,
		    "web.listen: expected \"address:port\", \"[address]:port\" or \"unix:/path\", not \"%s\"", listen);
	else if (path == NULL && address_reach(address.host) == ADDRESS_OTHER && !l->conf->web.behind_proxy)
		conf_warning(l, where, "web.listen: other hosts can reach %s and the console has no TLS: quredis web "
		    "refuses to start unless web.behind_proxy = true", address.host);
}

/* Compares names as statsd gets them: sweeper/report/statsd.c replaces a dot, which separates levels there, by an
 * underscore. */
static bool is_same_in_statsd(const char *a, const char *b)
{
	for (; *a != '\0' && (*a == *b || ((*a == '.' || *a == '_') && (*b == '.' || *b == '_'))); a++)
		b++;
	return *a == *b;
}

static void check_level_names(struct conf_loading *l)
{
	const struct conf *conf = l->conf;

	for (size_t i = 0; i < conf->nqueues; i++)
		for (size_t k = 0; k < i && conf->queues[i]->name != NULL; k++) {
			const char *name = conf->queues[i]->name, *other = conf->queues[k]->name;

			if (other != NULL && strcmp(other, name) != 0 && is_same_in_statsd(other, name))
				conf_warning(l, conf_queue_origin(conf->queues[i], "name"),
				    "queues %s and %s have the same name in metrics.statsd, which replaces a dot by an "
				    "underscore", other, name);
		}
}

static void check_metrics(struct conf_loading *l)
{
	const char *statsd = l->conf->metrics.statsd;
	struct address address;

	if (statsd != NULL)
		check_level_names(l);

	if (statsd != NULL && address_parse(&address, statsd) == -1)
		conf_error(l, conf_origin(l->conf, "metrics.statsd"),
		    "metrics.statsd: expected \"host:port\" or \"[address]:port\", not \"%s\"", statsd);
}

static void check_twice(struct conf_loading *l, size_t i)
{
	const struct conf_queue *q = l->conf->queues[i];
	char *before;

	for (size_t k = 0; q->name != NULL && k < i; k++) {
		const struct conf_queue *other = l->conf->queues[k];

		if (other->name == NULL || strcmp(other->name, q->name) != 0)
			continue;
		before = conf_place(conf_queue_origin(other, "name"));
		conf_error(l, conf_queue_origin(q, "name"), "queue %s is already defined at %s", q->name, before);
		free(before);
		return;
	}
}

static void check_totals(struct conf_loading *l)
{
	const struct conf *conf = l->conf;
	int64_t workers = 0;

	for (size_t i = 0; i < conf->nqueues; i++)
		workers += conf->queues[i]->workers;
	if (workers > SCOREBOARD_WORKERS)
		conf_error(l, NULL, "%lld workers in all: expected at most %d", (long long)workers, SCOREBOARD_WORKERS);
	if (conf->nqueues > QUEUES_MAX)
		conf_error(l, NULL, "%zu queues: expected at most %d", conf->nqueues, QUEUES_MAX);
	if (conf->nqueues == 0 && conf->files[0] != NULL)
		conf_warning(l, &(struct conf_origin){ CONF_ORIGIN_FILE, 0, conf->files[0] },
		    "no queue is defined: nothing will run. Write one into conf.d/NAME.conf beside this file "
		    "(quredis.conf(5), EXAMPLES), and reload");
}

void conf_check(struct conf_loading *l)
{
	check_embedded(l);
	check_server(l);
	check_prefix(l);
	check_supervisor_and_log(l);
	if ((l->flags & CONF_LENIENT_HANDLERS) == 0) {
		conf_check_own_user(l);
		conf_check_control_group(l);
	}
	conf_check_commands(l, NULL);
	conf_check_thresholds(l, NULL, &l->conf->health.thresholds);
	check_metrics(l);
	check_web(l);
	for (size_t i = 0; i < l->conf->nqueues; i++) {
		check_twice(l, i);
		conf_check_queue(l, l->conf->queues[i]);
	}
	check_totals(l);
	conf_check_schedules(l);
	conf_check_throttles(l);
	conf_check_emit(l);
	conf_check_root(l);
	if ((l->flags & CONF_LENIENT_HANDLERS) == 0)
		conf_check_places(l);
	check_keys(l);
	for (size_t i = 0; i < l->conf->nqueues; i++) {
		check_trusted(l, l->conf->queues[i], "transit", l->conf->queues[i]->transit);
		check_trusted(l, l->conf->queues[i], "escape", l->conf->queues[i]->escape);
	}
	check_slots(l);
	conf_secrets(l);
	conf_tls(l);
}
