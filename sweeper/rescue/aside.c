/*
 * Messages that Redis refused to move, and that their workers set aside. The sweeper shows how many there are, and
 * returns them to ingress once an hour, where they run again, marked as redelivered. If Redis still refuses to move
 * them, they are set aside again.
 */
#include "sweeper/rescue/aside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/core/core.h"
#include "sweeper/rescue/rescue.h"

#define LOOK_MS 10000
/* rarely, since each return costs a run of their handlers. The first return is at the start or reload */
#define RETURN_MS (60 * 60 * 1000)

/* Takes size and reason from the newest record. */
static void read_record(struct aside *a, const struct redis_reply *records)
{
	struct redis_reply entry, fields;

	a->size = -1;
	a->why[0] = '\0';
	if (records->type != REDIS_ARRAY || records->n != 1)
		return;
	entry = redis_element(records, 0);
	if (entry.type != REDIS_ARRAY || entry.n != 2 || (fields = redis_element(&entry, 1)).type != REDIS_ARRAY)
		return;
	for (size_t i = 0; i + 1 < fields.n; i += 2) {
		struct redis_reply name = redis_element(&fields, i), value = redis_element(&fields, i + 1);

		if (name.type != REDIS_STRING || value.type != REDIS_STRING)
			continue;
		if (strcmp(name.str, "size") == 0)
			a->size = strtoll(value.str, NULL, 10);
		else if (strcmp(name.str, "error_message") == 0)
			strlcpy(a->why, value.str, sizeof(a->why));
	}
}

static void publish_list(const struct sweeper_queue *q)
{
	const struct aside *a = aside_of(q);

	if (q->board == NULL)
		return;
	atomic_store(&q->board->sweeper.aside_size, a->size);
	atomic_store(&q->board->sweeper.aside_error, a->why[0] == '\0' ? QUEUE_ERROR_OTHER :
	    queue_error_word(queue_error_of(redis_error_classify(a->why)), queue_refused_command(a->why)));
	atomic_store(&q->board->sweeper.aside, (uint64_t)a->n);
}

/*
 * readable: the records could be read. They only say why the messages were set aside, so without them the sweeper still
 * counts and returns the messages. -1: nothing is known
 */
static int read_list(struct sweeper *s, struct sweeper_queue *q, bool *readable)
{
	char error[sizeof(s->connection.error)];
	struct redis_reply reply;

	queue_aside(&s->redis, &q->keys);
	if (connection_integer(s, &aside_of(q)->n) == -1)
		return -1;
	*readable = connection_answer(s, &reply) == 0;
	if (s->redis.state == REDIS_CLOSED)
		return -1;
	if (!*readable) {
		snprintf(error, sizeof(error), "%s: %.150s", q->keys.aside_log, s->connection.error);
		connection_set_error(s, s->connection.error_kind, error);
		reply = (struct redis_reply){0};
	}
	read_record(aside_of(q), &reply);
	return 0;
}

/* Renames the list to the bare rescue list, which rescue.c empties. If that is interrupted, any sweeper continues
 * it. */
static int give_back_list(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	char *rescue = queue_bare_rescue_key(&q->keys);
	int64_t fenced, forgotten;

	queue_fence(&s->redis, &q->keys, NULL, q->keys.aside, rescue);
	free(rescue);
	if (connection_integer(s, &fenced) == -1)
		return -1;
	if (fenced != 0)
		rescue_add_bare(q, "aside", BLAME_NOBODY, false, false);
	if (fenced == -1)
		return 0;		/* messages that are already in the bare rescue list go back first */
	aside_of(q)->n = 0;
	aside_of(q)->return_at_ms = now_ms + RETURN_MS;
	if (fenced == 0)
		return 0;		/* the list is empty, or another host has renamed it */
	queue_aside_forget(&s->redis, &q->keys);
	return connection_integer(s, &forgotten);
}

static enum task_end run_aside(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	bool readable = false;
	int rc = read_list(s, q, &readable);

	(void)budget;
	if (rc == 0 && now_ms >= aside_of(q)->return_at_ms && rescue_find(q, "") == NULL)
		rc = give_back_list(s, q, now_ms);
	publish_list(q);
	return rc == 0 && readable ? TASK_DONE : TASK_FAILED;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	(void)s;
	return q->recovered;
}

const struct task aside_task = { .name = "aside", .interval_ms = LOOK_MS, .budget = 1, .configured = true,
	.wanted = is_wanted, .run_queue = run_aside,
	.state_size = sizeof(struct aside) };
