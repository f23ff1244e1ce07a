/*
 * The errors of Redis that a worker meets. The scoreboard shows the last one; the log has each kind once, until the
 * worker's work succeeds again. A worker with several addresses of Redis meets the reason of another address at each
 * attempt, so it does not compare an error with the last one alone.
 */
#include <string.h>

#include "worker/worker.h"

#include "common/base/base.h"

static const char *advice_of(enum queue_error error, const char *text, char room[QUEUE_ADVICE_SIZE])
{
	const char *advice = queue_refusal_advice(text, room);

	if (advice != NULL)
		return advice;
	switch (error) {
	case QUEUE_ERROR_WRONG_TYPE:
		return "a key of this queue has another type: rename or remove it";
	case QUEUE_ERROR_NO_PERMISSION:
		return "check redis.password_file and the user's access list";
	case QUEUE_ERROR_CLUSTER:
		return "this Redis is a Cluster: set redis.prefix = \"{NAME}\", a hash tag for all keys, and use "
		    "database 0";
	default:
		return NULL;
	}
}

/* text: as it is logged. why: the part of it that names no server. */
static void show_error(struct worker *w, const char *what, const char *text, const char *why, enum queue_error error,
    int64_t least_ms, int64_t now_ms)
{
	char room[QUEUE_ADVICE_SIZE];

	atomic_store(&w->env->slot->error, queue_error_word(error, queue_refused_command(text)));
	if (redis_outage_is_news(&w->errors.outage, what, why, least_ms, now_ms))
		log_warning("redis_error", log_str("at", what), log_str("error", text),
		    log_str("advice", advice_of(error, text, room)));
}

void errors_report(struct worker *w, const char *what, const struct redis_reply *error)
{
	const char *text = error->type == REDIS_ERROR ? error->str : "unexpected reply type from Redis";

	slot_text_set(&w->env->slot->redis_why, 0, text, strlen(text), SLOT_TEXT_MAX);
	show_error(w, what, text, text, error->type == REDIS_ERROR ? queue_error_of(redis_error_class(error))
	    : QUEUE_ERROR_OTHER, 0, w->now_us / 1000);
}

void errors_of_connection(struct errors *e, const char *what)
{
	e->of_connection = what;
}

void errors_report_connection(struct worker *w, int64_t now_ms)
{
	const struct redis *r = &w->session.redis;
	const char *undelivered = w->errors.of_connection;
	bool lasts = redis_error_needs_operator(r->error_class);

	if (!lasts && scoreboard_redis_starts(w->env->child->board, w->env->child->conf->redis.embedded))
		return;
	slot_lose_redis(w->env->slot, undelivered == NULL ? redis_why(r) : undelivered, w->session.retry.at_ms);
	show_error(w, "connection", undelivered == NULL ? r->error : undelivered,
	    undelivered == NULL ? redis_why(r) : undelivered,
	    queue_error_of(r->error_class), lasts ? 0 : REDIS_OUTAGE_LEAST_MS, now_ms);
}

void errors_clear(struct worker *w)
{
	if (!redis_outage_end(&w->errors.outage))
		return;
	atomic_store(&w->env->slot->error, QUEUE_ERROR_NONE);
	log_info("redis_error_cleared");
}
