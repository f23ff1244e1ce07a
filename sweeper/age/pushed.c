/*
 * Moves messages that producers delayed (ZADD delayed:QUEUE) to ingress when they are due. The task due looks whether there are any, and wakes this one.
 * Producers write that key, so whatever is in it stops nothing: a key of another type counts as absent, and the task due shows its error.
 */
#include "sweeper/age/age.h"

#include "sweeper/core/core.h"

extern const struct task pushed_task;

void pushed_wake(struct sweeper_queue *q)
{
	task_wake_at(q, &pushed_task, 0);
}

static bool ask_pushed(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	(void)now_ms;
	queue_pushed(&s->redis, &q->keys, budget);
	return true;
}

static enum task_end take_pushed(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct queue_due_moved due;
	struct redis_reply reply;

	(void)now_ms;
	if (connection_answer(s, &reply) == -1)
		return TASK_FAILED;
	if (queue_due_moved(&reply, &due) == -1) {
		connection_unexpected(s);
		return TASK_FAILED;
	}
	for (size_t i = 0; i < reply.n; i++)
		sweeper_queue_observe_lag(q, redis_element(&reply, i).integer);
	sweeper_queue_count(q, COUNT_DUE, (uint64_t)due.moved);
	return due.moved == 0 ? TASK_DONE : TASK_MORE;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	(void)s;
	return q->conf != NULL;
}

const struct task pushed_task = { .name = "pushed", .interval_ms = TASK_WHEN_WOKEN_MS, .budget = 100, .wanted = is_wanted, .ask = ask_pushed,
	.take = take_pushed };
