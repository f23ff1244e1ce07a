/*
 * Announces the rate of each queue to Redis, where the figures that a host loaded last count for all hosts. Workers
 * send them with each request for starts, but an idle worker sends none, and the figures of its host count all the
 * same. So the sweeper sends them after each load, also after a reload that changed no rate, and on each new
 * connection, since the server may have forgotten them. The key expires after a day without a start, so it sends them
 * again each hour.
 */
#include <bsd/string.h>

#include "sweeper/core/core.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define AGAIN_MS 3600000

extern const struct task throttles_task;

struct announced {
	int64_t loaded_ms;	/* of the figures that were announced last; 0: none were */
	int64_t connection;	/* redis.connection on which that was */
};

static int64_t loaded_ms(const struct sweeper *s, const struct sweeper_queue *q)
{
	return board_limits_loaded_ms(q->board, s->conf->loaded_ms);
}

static bool ask_throttle(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct announced *a = task_state(q, &throttles_task);
	struct queue_throttle_figures f = { .n = q->conf->rate.n, .per_ms = q->conf->rate.per_ms,
	    .burst = q->conf->burst, .loaded_ms = loaded_ms(s, q) };
	struct queue_throttle_text text;

	(void)budget;
	(void)now_ms;
	*a = (struct announced){ f.loaded_ms, s->redis.connection };
	strlcpy(f.node, s->conf->supervisor.node, sizeof(f.node));
	queue_throttle_format(&f, &text);
	queue_throttle_announce(&s->redis, &q->keys, &text);
	return true;
}

static enum task_end take_throttle(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct announced *a = task_state(q, &throttles_task);
	struct redis_reply reply;

	(void)now_ms;
	if (connection_answer(s, &reply) == 0)
		return TASK_DONE;
	a->loaded_ms = 0;	/* again after the back-off */
	return TASK_FAILED;
}

static bool has_rate(const struct sweeper *s, const struct sweeper_queue *q)
{
	return sweeper_is_active(s) && q->conf->rate.n > 0;
}

static bool is_outdated(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms)
{
	const struct announced *a = task_state(q, &throttles_task);

	(void)now_ms;
	return a->loaded_ms != loaded_ms(s, q) || a->connection != s->redis.connection;
}

const struct task throttles_task = { .name = "throttle", .interval_ms = AGAIN_MS, .budget = 1, .unsealed = true,
	.ask = ask_throttle, .take = take_throttle, .configured = true, .served = true, .wanted = has_rate,
	.urgent = is_outdated, .state_size = sizeof(struct announced) };
