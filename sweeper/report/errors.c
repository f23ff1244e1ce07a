/*
 * The errors of queues, for other reports: those of all workers, read once a turn; and which key of a queue has the wrong type. Redis does not name the key
 * in its error, so this task asks for the types of all keys while the queue has such an error, and shows the first wrong one on the scoreboard.
 */
#include "sweeper/report/errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"

#define EVERY_MS 2000

static void read_errors(struct sweeper *s, int64_t now_ms)
{
	(void)now_ms;
	queue_error_read_workers(s->child->board, task_own(s, &errors_task));
}

uint32_t errors_shown(const struct sweeper *s, const struct sweeper_queue *q)
{
	return q->board == NULL ? QUEUE_ERROR_NONE : queue_error_shown(s->child->board, q->board, task_own(s, &errors_task));
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	return queue_error_in(errors_shown(s, q)) == QUEUE_ERROR_WRONG_TYPE;
}

static bool ask_types(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	(void)budget;
	(void)now_ms;
	queue_survey_types(&s->redis, &q->keys);
	return true;
}

static void say_type(char why[SLOT_TEXT_MAX], const struct queue_type *wanted, const struct redis_reply *is)
{
	if (why[0] == '\0' && is->type == REDIS_STATUS && strcmp(is->str, "none") != 0 && strcmp(is->str, wanted->type) != 0)
		snprintf(why, SLOT_TEXT_MAX, "%s is a %s, but quredis needs a %s", wanted->key, is->str, wanted->type);
}

/* Also without the right to read types the error itself is shown. */
static enum task_end take_types(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct queue_type wanted[QUEUE_SURVEY_TYPES];
	char why[SLOT_TEXT_MAX] = "";
	struct redis_reply reply;

	(void)now_ms;
	queue_survey_types_wanted(&q->keys, wanted);
	for (size_t i = 0; i < QUEUE_SURVEY_TYPES && s->redis.state != REDIS_CLOSED; i++)
		if (connection_answer(s, &reply) == 0)
			say_type(why, &wanted[i], &reply);
	free((void *)(uintptr_t)wanted[QUEUE_SURVEY_OWNED_TYPE].key);
	core_publish_why(q, QUEUE_ERROR_WRONG_TYPE, why);
	return TASK_DONE;
}

/* The error is over: another one must not show this key until it is known. */
static bool forget_key(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	(void)s;
	(void)now_ms;
	core_publish_why(q, QUEUE_ERROR_WRONG_TYPE, "");
	return true;
}

const struct task errors_task = { .name = "errors", .interval_ms = EVERY_MS, .budget = 1, .unsealed = true, .wanted = is_wanted, .ask = ask_types,
    .take = take_types,
	.steady = true,
	.stop = forget_key, .each_turn = read_errors, .own_size = sizeof(struct worker_errors) };
