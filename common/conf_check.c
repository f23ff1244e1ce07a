/*
 * Checks that need more than one value. Those of one queue are in conf_check_queue.c; key names in
 * conf_collide.c; users in conf_users.c, executables in conf_handler.c, what is only needed later in conf_places.c,
 * secrets in conf_secrets.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf.h"

#include "common/address.h"
#include "common/conf_load.h"
#include "common/queue.h"
#include "common/redis.h"
#include "common/scoreboard.h"

#define SOCKET_PATH_MAX 107

/* Half of what the scoreboard holds: a reload runs old and new ones side by side. */
#define QUEUES_MAX (SCOREBOARD_QUEUES / 2)

static void check_embedded(struct conf_loading *l)
{
	const struct conf *conf = l->conf;
	const struct conf_origin *url = conf_origin(conf, "redis.url"), *dir = conf_origin(conf, "redis.dir");

	if (!conf->redis.embedded) {
		if (conf_given(dir))
			conf_warning(l, dir, "redis.dir has no effect without redis.embedded = true");
		return;
	}
	if (conf->redis.dir == NULL && !conf_given(dir))
		conf_error(l, conf_origin(conf, "redis.embedded"), "redis.embedded = true needs redis.dir");
	if (conf_given(url))
		conf_error(l, url, "redis.url cannot be set together with redis.embedded = true (the socket is in redis.dir)");
	else if (conf->redis.url != NULL && url->kind == CONF_ORIGIN_DERIVED &&
	    strlen(conf->redis.url) - strlen("unix://") > SOCKET_PATH_MAX)
		conf_error(l, dir, "redis.dir is too long: a socket's path has at most %d bytes", SOCKET_PATH_MAX);
}

static void check_url(struct conf_loading *l)
{
	const struct conf_origin *where = conf_origin(l->conf, "redis.url");
	struct redis_target target;
	char why[512];

	if (!conf_given(where) || where->kind == CONF_ORIGIN_BAD)
		return;
	if (redis_target_parse(&target, l->conf->redis.url, NULL, NULL, why, sizeof(why)) == -1)
		conf_error(l, where, "redis.url: %s", why);
	else
		redis_target_free(&target);
}

static void check_supervisor(struct conf_loading *l)
{
	const struct conf *conf = l->conf;

	if (strlen(conf->supervisor.node) > QUEUE_NAME_MAX || conf->supervisor.node[strspn(conf->supervisor.node,
	    QUEUE_NAME_BYTES)] != '\0')
		conf_error(l, conf_origin(conf, "supervisor.node"),
		    "supervisor.node: expected 1 to %d letters, digits, dots, dashes and underscores", QUEUE_NAME_MAX);
	if (strlen(conf->supervisor.control_socket) > SOCKET_PATH_MAX)
		conf_error(l, conf_origin(conf, "supervisor.control_socket"),
		    "supervisor.control_socket: a socket's path has at most %d bytes", SOCKET_PATH_MAX);
	if (strcmp(conf->supervisor.control_socket, conf->supervisor.lock_file) == 0)
		conf_error(l, conf_origin(conf, "supervisor.control_socket"),
		    "supervisor.control_socket and supervisor.lock_file are the same file");
}

static void check_log(struct conf_loading *l)
{
	const char *target = l->conf->log.target;

	if (target[0] != '/' && strcmp(target, "stderr") != 0 && strcmp(target, "syslog") != 0)
		conf_error(l, conf_origin(l->conf, "log.target"),
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
		conf_error(l, where, "web.listen: expected \"address:port\", \"[address]:port\" or \"unix:/path\", not \"%s\"", listen);
	else if (path == NULL && address_reach(address.host) == ADDRESS_OTHER && !l->conf->web.behind_proxy)
		conf_warning(l, where, "web.listen: other machines reach %s and the console has no TLS: quredis web refuses to start unless "
		    "web.behind_proxy = true", address.host);
}

/* More than the critical number warns of nothing any more. */
static void check_order(struct conf_loading *l, const char *kind, int64_t warning, int64_t critical)
{
	char key[64];
	const struct conf_origin *where;

	if (warning <= critical)
		return;
	snprintf(key, sizeof(key), "health.thresholds.%s_warning", kind);
	where = conf_origin(l->conf, key);
	if (!conf_given(where)) {
		snprintf(key, sizeof(key), "health.thresholds.%s_critical", kind);
		where = conf_origin(l->conf, key);
	}
	conf_warning(l, where, "health.thresholds.%s_warning = %lld is above %s_critical = %lld: it never warns", kind, (long long)warning, kind,
	    (long long)critical);
}

static void check_health(struct conf_loading *l)
{
	check_order(l, "dlq_max", l->conf->health.dlq_max_warning, l->conf->health.dlq_max_critical);
	check_order(l, "stuck_max", l->conf->health.stuck_max_warning, l->conf->health.stuck_max_critical);
}

/* As statsd is told: a dot would be a level there. */
static bool is_same_there(const char *a, const char *b)
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

			if (other != NULL && strcmp(other, name) != 0 && is_same_there(other, name))
				conf_warning(l, conf_queue_origin(conf->queues[i], "name"),
				    "queues %s and %s have one name for metrics.statsd, where a dot becomes an underscore", other, name);
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
		    "no queue is defined: nothing will run");
}

void conf_check(struct conf_loading *l)
{
	check_embedded(l);
	check_url(l);
	check_supervisor(l);
	check_log(l);
	conf_check_purge(l, conf_origin(l->conf, "purge.check"), &l->conf->purge);
	check_health(l);
	check_metrics(l);
	check_web(l);
	for (size_t i = 0; i < l->conf->nqueues; i++) {
		check_twice(l, i);
		conf_check_queue(l, l->conf->queues[i]);
	}
	check_totals(l);
	conf_check_root(l);
	if ((l->flags & CONF_LENIENT_HANDLERS) == 0)
		conf_check_places(l);
	conf_check_keys(l);
	conf_secrets(l);
}
