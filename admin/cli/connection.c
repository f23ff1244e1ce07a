/*
 * Finds and opens the connection of a command: redis.url of the configuration, or the options -u, -H and -P that
 * replace it or a part of it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/cli/connection.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define SLOT_MOVES_MS 2000

/* A part of an address can only be replaced where there is one address, and it is of Redis, not of a Sentinel. A unix
 * socket stands for this host. */
static int replace_address(struct admin *a, struct redis_target *t)
{
	const struct options *o = &a->options;
	const char *named = t->master != NULL ? "Sentinels" : t->naddresses > 1 ? "several servers" : NULL;

	if (o->host != NULL && o->host[0] == '\0')
		return admin_fail(a, EX_USAGE, "-H requires a host");
	if (named != NULL && o->host == NULL)
		return admin_fail(a, EX_USAGE, "-P replaces the port of a server, but the configuration names %s: give "
		    "the host, too: -H HOST -P %d", named, (int)o->port);
	if (t->naddresses > 1 && t->master == NULL && o->port == 0)
		return admin_fail(a, EX_USAGE, "-H replaces the host of a server, but the configuration names %s: give "
		    "the port, too: -H %s -P PORT", named, o->host);
	redis_target_set_address(t, o->host, o->port == 0 && named != NULL ? REDIS_PORT : (int)o->port);
	return 0;
}

/* -u replaces the whole address of the configuration; -H and -P replace their part of it. */
static int find_target(struct admin *a)
{
	const struct options *o = &a->options;
	struct redis_target *t = &a->target;
	bool other = o->url != NULL;
	struct redis_options options = { .url = o->url };
	char why[256];

	if (other && (o->host != NULL || o->port != 0))
		return admin_fail(a, EX_USAGE, "-u cannot be combined with -H or -P");
	if (!other)
		options = conf_redis_options(a->conf);
	if (redis_target_parse(t, &options, why, sizeof(why)) == -1)
		return admin_fail(a, other ? EX_USAGE : EX_CONFIG, "%s", why);
	redis_target_use(t, a->conf->redis.tls);
	if (other && t->login.password != NULL && !a->served)
		admin_note("quredis: other users of this host can see a password on the command line; "
			   "use QUREDIS_REDIS_URL or redis.password_file");
	redis_target_use_prefix(t, a->conf->redis.prefix);
	return o->host != NULL || o->port != 0 ? replace_address(a, t) : 0;
}

/* redis://user:password@host -> redis://user@host */
static char *url_without_password(const char *url)
{
	const char *at = strrchr(url, '@'), *user = strstr(url, "://"), *colon = NULL;

	if (user != NULL && at != NULL && at >= user + 3)
		colon = memchr(user + 3, ':', (size_t)(at - user - 3));
	return colon == NULL ? alloc_string(url) : alloc_format("%.*s%s", (int)(colon - url), url, at);
}

char *connection_words(const struct admin *a)
{
	const struct options *o = &a->options;
	char port[24], *url = o->url == NULL ? NULL : url_without_password(o->url);
	const struct { const char *option, *value; } given[] =
	    { { "-c", o->conf_path }, { "-s", o->socket }, { "-u", url }, { "-H", o->host },
		{ "-P", o->port == 0 ? NULL : port } };
	struct buffer words = {0};

	snprintf(port, sizeof(port), "%" PRId64, o->port);
	for (size_t i = 0; i < nitems(given); i++) {
		if (given[i].value == NULL)
			continue;
		buffer_format(&words, " %s ", given[i].option);
		options_append_quoted(&words, given[i].value);
	}
	buffer_append(&words, "", 1);
	free(url);
	return words.data;
}

/* A slot of a Cluster that moves stops all that quredis does there, mostly for less than a second. */
static int connect_when_moved(struct admin *a)
{
	int64_t until_ms = clock_monotonic_ms() + SLOT_MOVES_MS;

	while (redis_connect(&a->redis, a->wait_ms == 0 ? REDIS_TIMEOUT_MS : a->wait_ms, NULL) == -1) {
		if (!redis_error_slot_moves(a->redis.error) || clock_monotonic_ms() >= until_ms)
			return -1;
		clock_pause_ms(50);
	}
	return 0;
}

/*
 * The opening loads scripts and reads secrets, which the Redis user of a producer may not. What it may do is LPUSH, for
 * which quredis needs neither.
 */
static int connect_as_producer(struct admin *a)
{
	if (!a->lpush_only || a->redis.error_class != REDIS_ERROR_PERMISSION)
		return -1;
	queue_greets_nothing(&a->redis);
	return connect_when_moved(a);
}

int connection_open(struct admin *a)
{
	char room[QUEUE_ADVICE_SIZE];

	if (find_target(a) == -1)
		return -1;
	redis_init(&a->redis, &a->target, "quredis");
	queue_greets(&a->redis, false, a->conf);
	if (connect_when_moved(a) == 0 || connect_as_producer(a) == 0)
		return 0;
	if (redis_error_slot_moves(a->redis.error))
		return admin_fail(a, EX_TEMPFAIL, "Redis: a slot of this Redis Cluster moves to another node: try "
		    "again when it has arrived (%s)", a->redis.error);
	if (a->redis.error_class == REDIS_ERROR_CLUSTER && a->target.db != 0)
		return admin_fail(a, EX_CONFIG,
		    "Redis: %s: a Cluster has only database 0: remove the database from redis.url", a->redis.error);
	if (a->redis.error_class == REDIS_ERROR_CLUSTER)
		return admin_fail(a, EX_CONFIG, "Redis: %s: it is a Cluster, so all keys must be in one slot of "
		    "database 0: set redis.prefix or $QUREDIS_REDIS_PREFIX to a hash tag such as {a}", a->redis.error);
	if (a->redis.error_class == REDIS_ERROR_SCHEMA)
		return admin_fail(a, EX_CONFIG,
		    "Redis: %s: another version of quredis wrote these keys: use that one (docs/versions.md)",
		    a->redis.error);
	if (queue_refusal_advice(a->redis.error, room) != NULL)
		return admin_fail(a, EX_NOPERM,
		    "Redis: %s: %s, or use the Redis user of an operator (docs/operating.md)", a->redis.error, room);
	admin_fail(a, redis_error_needs_operator(a->redis.error_class) ? EX_NOPERM : EX_UNAVAILABLE, "Redis: %s",
	    a->redis.error);
	if (a->status == EX_NOPERM && !a->served && a->target.login.password == NULL &&
	    a->conf->redis.password_file != NULL && a->options.url == NULL)
		admin_note("quredis: this user cannot read redis.password_file (%s)", a->conf->redis.password_file);
	if (a->status == EX_UNAVAILABLE && a->options.url == NULL && a->options.host == NULL)
		admin_note_conf(a);
	return -1;
}
