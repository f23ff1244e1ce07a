/*
 * Finds which key of a queue has the wrong type. Redis does not name the key in its error, so this task asks for the
 * types of all keys while the queue has such an error, and shows the first wrong one on the scoreboard. It also asks at
 * the start and every five minutes, because commands use some keys seldom: a wrong type is an error of this task, until
 * the key is repaired.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"
#include "sweeper/report/health.h"

#define EVERY_MS 2000
#define TYPES_MS (5 * 60000)

extern const struct task types_task;

/* In one queue. */
struct types_look {
	int64_t next_ms;		/* CLOCK_MONOTONIC: the next look, also if no error is shown */
	struct queue_types wanted;	/* only between request and answers */
};

static bool is_shown(const struct sweeper *s, const struct sweeper_queue *q)
{
	return queue_error_in(queue_error_shown(s->child->board, q->board, &health_slots(s)->errors)) ==
	    QUEUE_ERROR_WRONG_TYPE;
}

static int64_t redis_now_ms(const struct sweeper *s)
{
	struct age_clock clock;

	return server_clock_age(&s->clock, clock_boottime_ms(), &clock) ? clock.now_ms : clock_realtime_ms();
}

static bool ask_types(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct types_look *look = task_state(q, &types_task);

	(void)budget;
	if (now_ms < look->next_ms && !is_shown(s, q))
		return false;
	queue_types_free(&look->wanted);	/* of a request whose connection was lost */
	queue_types_add_queue(&look->wanted, &q->keys, redis_now_ms(s));
	queue_types_add_common(&look->wanted, s->conf->redis.prefix, s->conf->supervisor.node);
	queue_types_ask(&s->redis, &look->wanted);
	return true;
}

/* Also without the right to read types the error itself is shown. */
static enum task_end take_types(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct types_look *look = task_state(q, &types_task);
	char why[SLOT_TEXT_MAX] = "";
	struct redis_reply reply;

	for (size_t i = 0; i < look->wanted.n && s->redis.state != REDIS_CLOSED; i++)
		if (connection_answer(s, &reply) == 0 && why[0] == '\0' &&
		    queue_type_is_wrong(&look->wanted.of[i], &reply))
			snprintf(why, sizeof(why), "%s is a %s, but quredis needs a %s", look->wanted.of[i].key,
			    reply.str, look->wanted.of[i].type);
	queue_types_free(&look->wanted);
	if (s->redis.state == REDIS_CLOSED)
		return TASK_FAILED;	/* without the answers that are lost no key is known to be right */
	core_publish_why(q, QUEUE_ERROR_WRONG_TYPE, why);
	/* look again in EVERY_MS, until the key is repaired */
	look->next_ms = why[0] == '\0' ? now_ms + TYPES_MS : now_ms;
	if (why[0] == '\0')
		return TASK_DONE;
	if (is_shown(s, q) && !task_fails(q, &types_task))
		return TASK_DONE;	/* the error of a command has its line in the log */
	connection_set_error(s, QUEUE_ERROR_WRONG_TYPE, why);
	return TASK_FAILED;
}

static void free_look(struct sweeper_queue *q)
{
	struct types_look *look = task_state(q, &types_task);

	queue_types_free(&look->wanted);
}

const struct task types_task = { .name = "types", .interval_ms = EVERY_MS, .budget = 1, .unsealed = true,
    .served = true, .ask = ask_types, .take = take_types, .steady = true,
    .state_size = sizeof(struct types_look), .free = free_look };
