/*
 * Moves messages that producers delayed (ZADD delayed:QUEUE) to ingress when they are due. The task due looks whether
 * there are any, and wakes this one. Producers write that key, so whatever is in it stops nothing: a key of another
 * type counts as absent, and the task due shows its error. Nor do retries and pushes wait behind all of it, however
 * much of it is due: this task fills a short ingress, and while ingress is longer it moves one message for two that the
 * workers of this host have settled.
 */
#include "sweeper/age/age.h"

#include "sweeper/core/core.h"

#define PACE_MS 10		/* to the next look while ingress is full */
#define SETTLED_FOR_ONE 2
#define NEXT_MAX_MS 2000	/* the task due looks sooner than that, as long as there are any */
#define NEXT_MIN_MS 50		/* messages that are due one soon after the other move together */

extern const struct task pushed_task;

struct pushed {
	uint64_t shared_until;	/* for age_take_share() */
};

void pushed_wake(struct sweeper_queue *q)
{
	task_wake_at(q, &pushed_task, 0);
}

/* next_ms counts from the script, so this look is not before the message is due. */
int64_t age_next_look_ms(int64_t next_ms)
{
	return clock_monotonic_ms() + (next_ms > NEXT_MIN_MS ? next_ms : NEXT_MIN_MS);
}

int age_take_share(struct sweeper_queue *q, uint64_t *until, int most)
{
	uint64_t settled = q->board == NULL ? 0 : atomic_load(&q->board->workers.done);
	uint64_t share = settled < *until ? 0 : (settled - *until) / SETTLED_FOR_ONE;

	if (settled < *until || share > (uint64_t)most)
		*until = settled;
	else
		*until += share * SETTLED_FOR_ONE;
	return share > (uint64_t)most ? most : (int)share;
}

static bool ask_pushed(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct pushed *p = task_state(q, &pushed_task);

	(void)now_ms;
	queue_pushed(&s->redis, &q->keys, false, budget, age_take_share(q, &p->shared_until, budget));
	return true;
}

static enum task_end take_pushed(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct queue_due_moved due;
	struct redis_reply reply;

	if (connection_answer(s, &reply) == -1)
		return TASK_FAILED;
	if (queue_due_moved(&reply, &due) == -1) {
		connection_unexpected(s);
		return TASK_FAILED;
	}
	for (int64_t i = 0; i < due.moved; i++)
		sweeper_queue_observe_lag(q, redis_element(&reply, (size_t)i).integer);
	sweeper_queue_count(q, COUNT_DUE, (uint64_t)due.moved);
	if (due.unread)
		task_wake_at(q, &pushed_task, now_ms + PACE_MS);
	else if (due.next_ms < NEXT_MAX_MS)
		task_wake_at(q, &pushed_task, age_next_look_ms(due.next_ms));
	return due.moved == 0 || due.unread ? TASK_DONE : TASK_MORE;
}

const struct task pushed_task = { .name = "pushed", .interval_ms = TASK_WHEN_WOKEN_MS, .budget = 100,
	.configured = true, .ask = ask_pushed,
	.take = take_pushed, .state_size = sizeof(struct pushed) };
