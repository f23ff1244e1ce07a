/*
 * Checks the server with INFO. While it is too old, may evict queues, or has lost the secret, the sweeper shuts every
 * gate. It does not use CONFIG, which hosted servers hide.
 */
#include <stdlib.h>

#include "sweeper/core/core.h"

#include "common/redis/redis.h"

#define LOOK_REFUSED_MS 2500
#define LOOK_MS 30000

void server_parse(struct server *server, const char *info, size_t len)
{
	if (redis_info_value(info, len, "redis_version", server->version, sizeof(server->version)))
		server->major = (int)strtol(server->version, NULL, 10);
	redis_info_value(info, len, "run_id", server->run_id, sizeof(server->run_id));
	redis_info_value(info, len, "maxmemory_policy", server->maxmemory_policy, sizeof(server->maxmemory_policy));
}

bool server_evicts(const struct server *server)
{
	return redis_policy_evicts(server->maxmemory_policy);
}

static int take_info(struct sweeper *s, struct server *server)
{
	struct redis_reply reply;

	if (connection_answer(s, &reply) == 0 && reply.type == REDIS_STRING)
		server_parse(server, reply.str, reply.len);
	return s->redis.state == REDIS_CLOSED ? -1 : 0;
}

static enum queue_error judge_server(const struct sweeper *s, const struct server *server)
{
	if (queue_secret_lost()[0] != '\0')
		return QUEUE_ERROR_SECRET;
	if (server->major > 0 && server->major < REDIS_OLDEST_MAJOR)
		return QUEUE_ERROR_OTHER;
	return server_evicts(server) && !s->conf->redis.allow_eviction ? QUEUE_ERROR_EVICTION : QUEUE_ERROR_NONE;
}

static void log_refusal(const struct sweeper *s, const struct server *server)
{
	if (s->server.refusal == QUEUE_ERROR_EVICTION)
		log_error("redis_evicts", log_str("policy", server->maxmemory_policy),
		    log_str("error", "this server may evict messages and leases, so no worker fetches"),
		    log_str("advice", "set maxmemory-policy noeviction in Redis, or redis.allow_eviction = true here"));
	else if (s->server.refusal == QUEUE_ERROR_SECRET)
		log_error("secret_lost", log_str("error", queue_secret_lost()),
		    log_str("advice", "no worker fetches, so that no message loses its wrapper"));
	else if (s->server.refusal != QUEUE_ERROR_NONE)
		log_error("redis_too_old", log_str("version", server->version),
		    log_str("advice", "quredis needs Redis 5 or later"));
	else
		log_info("redis_accepted", log_str("policy", server->maxmemory_policy),
		    log_str("version", server->version));
}

/* A hosted server may hide its policy. The sweeper then assumes that the server evicts nothing, and logs that once. */
static void warn_unknown(const struct sweeper *s, const struct server *server)
{
	if (server->maxmemory_policy[0] == '\0' &&
	    (s->server.looked_ms == 0 || s->server.is.maxmemory_policy[0] != '\0'))
		log_warning("redis_policy_unknown",
		    log_str("advice", "INFO does not show maxmemory_policy: make sure yourself that it is noeviction"));
	if (server->run_id[0] == '\0' && (s->server.looked_ms == 0 || s->server.is.run_id[0] != '\0'))
		log_warning("redis_run_id_unknown",
		    log_str("advice", "INFO does not show run_id: messages of hosts that vanish are returned only if "
		    "one connection lasts for a lease"));
}

int server_look(struct sweeper *s, int64_t now_ms)
{
	struct server server = {0};
	enum queue_error refusal;
	struct sweeper_queue *q;

	redis_appendf(&s->redis, "INFO server");
	redis_appendf(&s->redis, "INFO memory");
	if (take_info(s, &server) == -1 || take_info(s, &server) == -1)
		return -1;
	warn_unknown(s, &server);
	refusal = judge_server(s, &server);
	if (refusal != s->server.refusal) {
		s->server.refusal = refusal;
		log_refusal(s, &server);
	}
	s->server.is = server;
	s->server.looked_ms = now_ms;
	TAILQ_FOREACH(q, &s->queues, entry) {
		/* the error before the gate: a reader of a shut gate finds the reason */
		sweeper_queue_publish_error(s, q);
		sweeper_queue_update_gate(s, q);
	}
	return 0;
}

static bool run_server(struct sweeper *s, int budget, int64_t now_ms)
{
	(void)budget;
	if (now_ms - s->server.looked_ms >= (s->server.refusal == QUEUE_ERROR_NONE ? LOOK_MS : LOOK_REFUSED_MS))
		server_look(s, now_ms);
	return false;
}

const struct task server_task = { .name = "server", .interval_ms = 2500, .budget = 1, .unsealed = true,
    .run = run_server };
