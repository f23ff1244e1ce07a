/*
 * The one connection of the sweeper. It is opened with a back-off, and used only after the server has accepted a write.
 * An error that concerns the whole server closes it; an error that concerns one queue is kept in s->connection.error,
 * for the task that works in that queue.
 */
#include <stdio.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "sweeper/core/core.h"

#include "common/base/base.h"

#define RECONNECT_BASE_MS 100
#define RECONNECT_CAP_MS 30000
#define RECONNECT_LEAST_MS 20
#define SECRET_MS 10000
#define SECRET_LOST_MS 2500

static const struct sweeper *waiting;	/* for the callback of a wait, which gets no argument */

/* Called whenever a wait wakes up. Each part of a long answer is progress, so it counts as a heartbeat. */
static bool wait_is_interrupted(void)
{
	sweeper_beat(waiting);
	return core_lost_master();
}

/* A name may take a minute to resolve, and a sweeper that finishes needs no connection any more. */
static bool opening_is_interrupted(void)
{
	return wait_is_interrupted() || (!waiting->connection.up && core_is_finishing(waiting));
}

int connection_init(struct sweeper *s)
{
	const struct conf *conf = s->conf;
	const struct redis_options options = conf_redis_options(conf);

	waiting = s;
	if (redis_target_parse(&s->target, &options, s->connection.error, sizeof(s->connection.error)) == -1)
		return -1;
	redis_target_use_prefix(&s->target, conf->redis.prefix);
	redis_target_use(&s->target, conf->redis.tls);
	snprintf(s->connection.client_name, sizeof(s->connection.client_name), "quredisd:%s:sweeper",
	    conf->supervisor.node);
	redis_init(&s->redis, &s->target, s->connection.client_name);
	queue_greets(&s->redis, false, conf);
	return 0;
}

void connection_free(struct sweeper *s)
{
	redis_close(&s->redis, NULL);
	redis_target_free(&s->target);
}

static const char *advice_of(enum redis_error_class class, const char *text, char room[QUEUE_ADVICE_SIZE])
{
	const char *advice = queue_refusal_advice(text, room);

	if (advice != NULL)
		return advice;
	if (class == REDIS_ERROR_CLUSTER)
		return "this Redis is a Cluster: set redis.prefix = \"{NAME}\", a hash tag for all keys, and use "
		    "database 0";
	if (class == REDIS_ERROR_SCHEMA)
		return "another version of quredis wrote the keys: run that one here (docs/versions.md)";
	return redis_error_needs_operator(class)
	    ? "check redis.url, redis.password_file and the rights of the Redis user" : NULL;
}

/* Logs each kind of reason once in an outage: each address and Sentinel may have another one. */
static void log_down(struct sweeper *s)
{
	int64_t least_ms = redis_error_needs_operator(s->redis.error_class) ? 0 : REDIS_OUTAGE_LEAST_MS;
	const char *advice, *reason = s->redis.error;
	char room[QUEUE_ADVICE_SIZE];

	if (!redis_outage_is_news(&s->connection.outage, "connection", redis_why(&s->redis), least_ms,
	    clock_monotonic_ms()))
		return;
	advice = advice_of(s->redis.error_class, reason, room);
	if (s->redis.error_class == REDIS_ERROR_SCHEMA)
		log_error("schema_refused", log_str("reason", reason), log_str("advice", advice));
	else
		log_warning("redis_down", log_str("reason", reason), log_str("advice", advice));
}

void connection_lost(struct sweeper *s, int64_t now_ms)
{
	bool local = !redis_error_needs_operator(s->redis.error_class) && !redis_target_is_remote(&s->target);
	int64_t wait_ms;

	redis_close(&s->redis, NULL);
	tasks_disconnected(s);
	if (s->redis.error_class == REDIS_ERROR_SCHEMA && s->connection.up)
		/* workers check the layout when they connect */
		scoreboard_announce_master(s->child->board, s->redis.route.at);
	scoreboard_doubt_master(s->child->board);
	s->connection.up = false;
	s->connection.failures++;
	wait_ms = clock_backoff_ms(RECONNECT_BASE_MS, 2, local ? REDIS_LOCAL_BACKOFF_MS : RECONNECT_CAP_MS, 1,
	    s->connection.failures, arc4random());
	s->connection.open_at_ms = now_ms + (wait_ms < RECONNECT_LEAST_MS ? RECONNECT_LEAST_MS : wait_ms);
	if (!redis_error_needs_operator(s->redis.error_class) &&
	    scoreboard_redis_starts(s->child->board, s->conf->redis.embedded))
		return;
	slot_lose_redis(s->slot, redis_why(&s->redis), s->connection.open_at_ms);
	core_publish_loss(s);
	if (!core_lost_master() && !core_is_finishing(s))
		log_down(s);
}

/* The first requests of the tasks include a write like those of the leases. The sweeper cannot work with a server that
 * refuses them. */
static int greet_server(struct sweeper *s)
{
	if (clock_recall(s) == -1)
		return -1;
	if ((connection_secret(s) == 0 || queue_secret_lost()[0] != '\0') && tasks_connected(s) == 0)
		return 0;
	if (s->redis.state != REDIS_CLOSED) {
		redis_close(&s->redis, s->connection.error);
		s->redis.error_class = redis_error_classify(s->connection.error);
	}
	return -1;
}

int connection_connect(struct redis *r)
{
	return redis_connect(r, REDIS_TIMEOUT_MS, opening_is_interrupted);
}

int connection_find_master(struct redis *r)
{
	return redis_find_master(r, REDIS_SENTINEL_TIMEOUT_MS, opening_is_interrupted);
}

int connection_identity(struct redis *r, struct redis_identity *id)
{
	struct redis_reply reply;

	redis_appendf(r, "INFO server");
	if (redis_wait(r, &reply, REDIS_TIMEOUT_MS, wait_is_interrupted) == -1)
		return -1;
	if (reply.type == REDIS_STRING)
		redis_identity_read(id, reply.str, reply.len);
	return 0;
}

/* For status. After a failover the workers may be at another server than this for some seconds. */
static void publish_peer(struct sweeper *s)
{
	struct board_sweeper *words = &s->child->board->sweeper;
	struct redis_endpoint peer = {0};

	redis_endpoint_of(&s->redis, &peer);
	atomic_store(&words->peer_high, peer.high);
	atomic_store(&words->peer_low, peer.low);
	atomic_store(&words->peer_port, (uint32_t)peer.port);
	atomic_store(&words->peer_sentinel, s->target.master == NULL ? 0 : (uint32_t)s->redis.route.at + 1);
}

bool connection_is_due(const struct sweeper *s, int64_t now_ms)
{
	return now_ms >= s->connection.open_at_ms || (now_ms - s->connection.opened_ms >= REDIS_NEWS_MS &&
	    atomic_load(&s->child->board->workers.reached) != s->connection.reached);
}

int connection_start(struct sweeper *s, int64_t now_ms)
{
	struct sweeper_queue *q;

	s->connection.reached = atomic_load(&s->child->board->workers.reached);
	s->connection.opened_ms = now_ms;
	if (connection_connect(&s->redis) == -1 || greet_server(s) == -1 || server_look(s, now_ms) == -1) {
		connection_lost(s, clock_monotonic_ms());
		return -1;
	}
	s->connection.up = true;
	s->connection.failures = 0;
	s->connection.reached = atomic_fetch_add(&s->child->board->workers.reached, 1) + 1;
	if (redis_outage_end(&s->connection.outage))
		log_info("redis_up", log_str("url", s->target.shown), log_str("version", s->server.is.version));
	publish_peer(s);
	atomic_store(&s->slot->redis_down, 0);
	TAILQ_FOREACH(q, &s->queues, entry)
		sweeper_queue_publish_error(s, q);
	return 0;
}

int64_t connection_glimpse(struct sweeper *s, const char *list, char *begin, size_t wanted)
{
	const char *arrived;
	struct redis other;
	int64_t len = -1;

	redis_init(&other, &s->target, s->connection.client_name);
	if (redis_connect_beside(&other, &s->redis, REDIS_TIMEOUT_MS, wait_is_interrupted) == 0) {
		redis_appendf(&other, "LINDEX %s 0", list);
		len = redis_wait_begin(&other, wanted, &arrived, REDIS_TIMEOUT_MS, wait_is_interrupted);
	}
	if (len != -1)
		memcpy(begin, arrived, wanted);
	redis_close(&other, NULL);
	return len;
}

int connection_answer(struct sweeper *s, struct redis_reply *reply)
{
	sweeper_beat(s);
	if (redis_wait(&s->redis, reply, REDIS_TIMEOUT_MS, wait_is_interrupted) == -1)
		return -1;
	if (reply->type != REDIS_ERROR)
		return 0;
	if (redis_error_is_of_server(reply)) {
		redis_refuse(&s->redis, reply);
		return -1;
	}
	connection_set_error(s, queue_error_of(redis_error_class(reply)), reply->str);
	return -1;
}

void connection_set_error(struct sweeper *s, enum queue_error kind, const char *error)
{
	s->connection.error_kind = kind;
	strlcpy(s->connection.error, error, sizeof(s->connection.error));
}

int connection_unexpected(struct sweeper *s)
{
	connection_set_error(s, QUEUE_ERROR_OTHER, "unexpected reply type from Redis");
	return -1;
}

int connection_integer(struct sweeper *s, int64_t *out)
{
	struct redis_reply reply;

	if (connection_answer(s, &reply) == -1)
		return -1;
	if (reply.type != REDIS_INTEGER)
		return connection_unexpected(s);
	*out = reply.integer;
	return 0;
}

int connection_secret(struct sweeper *s)
{
	struct redis_reply reply;

	queue_secret(&s->redis, true);
	do
		if (connection_answer(s, &reply) == -1) {
			if (s->redis.state != REDIS_CLOSED)
				queue_secret_learn(&reply);
			return -1;
		}
	while (queue_secret_ask_again(&s->redis, true, NULL, &reply));
	if (queue_secret_learn(&reply) == 0)
		return 0;
	connection_set_error(s, QUEUE_ERROR_OTHER,
	    "unexpected reply from Redis when reading the secrets (quredis:secret)");
	return -1;
}

/* True: this process knows secrets, and Redis has lost its key. The question does no harm if another process writes it
 * back first. */
static bool is_secret_gone(struct sweeper *s)
{
	char *key = queue_key_of(&s->redis, QUEUE_KEY_SECRET, NULL);
	int64_t there = 1;

	redis_appendf(&s->redis, "EXISTS %s", key);
	free(key);
	return connection_integer(s, &there) == 0 && there == 0 && seal_known()->n > 0;
}

/* Restores quredis:secret if it was deleted. Another host may have created a new secret since; the script keeps
 * both. */
static int restore_secret(struct sweeper *s)
{
	bool gone = is_secret_gone(s);
	int rc = s->redis.state == REDIS_CLOSED ? -1 : connection_secret(s);

	if (rc == 0 && gone)
		log_warning("secret_restored", log_str("advice", "a program deleted quredis:secret, and the sweeper "
		    "wrote it back; find that program: while no supervisor runs, a deletion loses the secret"));
	return rc;
}

static bool run_secret(struct sweeper *s, int budget, int64_t now_ms)
{
	bool was_lost = queue_secret_lost()[0] != '\0';

	(void)budget;
	if (!was_lost && now_ms < s->connection.secret_at_ms)
		return false;
	s->connection.secret_at_ms = now_ms + SECRET_MS;
	if (restore_secret(s) == 0) {
		s->connection.secret_failed = false;
	} else if (s->redis.state != REDIS_CLOSED && queue_secret_lost()[0] == '\0' && !s->connection.secret_failed) {
		log_warning("secret_error", log_str("error", s->connection.error));
		s->connection.secret_failed = true;
	}
	if (s->redis.state != REDIS_CLOSED && was_lost != (queue_secret_lost()[0] != '\0'))
		server_look(s, now_ms);
	return false;
}

/* After this process perhaps nobody knows the secret any more: it may have been deleted since the last run. */
static void settle_secret(struct sweeper *s)
{
	if (seal_known()->n > 0)
		restore_secret(s);
}

const struct task secret_task = { .name = "secret", .interval_ms = SECRET_LOST_MS, .budget = 1, .unsealed = true,
    .run = run_secret, .settle = settle_secret };

void connection_drain(struct sweeper *s)
{
	enum queue_error kind = s->connection.error_kind;
	char error[sizeof(s->connection.error)];
	struct redis_reply reply;

	if (s->redis.state != REDIS_READY || s->redis.pending == 0)
		return;
	strlcpy(error, s->connection.error, sizeof(error));
	while (s->redis.state == REDIS_READY && s->redis.pending > 0)
		connection_answer(s, &reply);
	connection_set_error(s, kind, error);	/* the first error is the one to report */
}
