/*
 * The errors of tasks in queues. An error is logged once, until its text changes; the scoreboard shows the most
 * important error in the list of the queue; each failure in a row lengthens the back-off of its owner. A success of the
 * owner ends all three; successes of other tasks do not.
 */
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "sweeper/core/core.h"

#include "common/base/base.h"

#define RETRY_BASE_MS 200
#define RETRY_CAP_MS 15000

static const char *const mends[] = {
	[QUEUE_ERROR_WRONG_TYPE] = "a key of this queue has a type quredis does not give it: rename or delete that key",
	[QUEUE_ERROR_NO_PERMISSION] = "grant the Redis user the queue's keys and this command",
	[QUEUE_ERROR_SCHEMA] = "another version of quredis wrote the keys: run that one here (docs/versions.md)",
	[QUEUE_ERROR_NO_COMMAND] = "quredis needs a command that this server refuses: quredis doctor",
	[QUEUE_ERROR_CLUSTER] = "this Redis is a Cluster, and keys of this command are in several slots: set "
	    "redis.prefix = \"{NAME}\"",
	[QUEUE_ERROR_TRANSIENT] = NULL,
	[QUEUE_ERROR_ARCHIVE] =
	    "see that the directory of dead_letter.archive exists, has free space, and that this user may write there",
	[QUEUE_ERROR_OTHER] = NULL,
	[QUEUE_ERROR_LEFTOVERS] = NULL,
};

static void try_later(struct task_error *t, int64_t now_ms)
{
	t->times++;
	t->retry_at_ms = now_ms + clock_backoff_ms(RETRY_BASE_MS, 2, RETRY_CAP_MS, 0.5, t->times, arc4random());
}

static void log_error_of(const struct sweeper_queue *q, struct task_error *t, const char *at, const char *error)
{
	char room[QUEUE_ADVICE_SIZE];
	const char *advice;

	strlcpy(t->text, error, sizeof(t->text));
	advice = queue_refusal_advice(t->text, room);
	log_error("queue_error", log_str("queue", q->keys.name), log_str("at", at), log_str("error", t->text),
	    log_str("advice", advice != NULL ? advice : mends[t->kind]));
}

void task_error_list_init(struct task_errors *all)
{
	for (int kind = 0; kind < QUEUE_ERRORS; kind++)
		TAILQ_INIT(&all->of[kind]);
}

void task_error_init(struct task_error *t, bool leads)
{
	t->leads = leads;
}

void task_error_retry_at(struct task_error *t, int64_t at_ms)
{
	t->retry_at_ms = at_ms;
}

void task_error_list_retry_at(struct task_errors *all, int64_t at_ms)
{
	struct task_error *t;

	for (int kind = 0; kind < QUEUE_ERRORS; kind++)
		TAILQ_FOREACH(t, &all->of[kind], entry)
			task_error_retry_at(t, at_ms);
}

/* The errors that may not count are few: one of each task with `leads`. */
static const struct task_error *oldest(const struct task_error_list *list, bool leads)
{
	const struct task_error *t;

	TAILQ_FOREACH(t, list, entry)
		if (leads || !t->leads)
			return t;
	return NULL;
}

const struct task_error *task_error_list_worst(const struct task_errors *all, bool leads)
{
	const struct task_error *worst = NULL, *t;

	for (int kind = 0; kind < QUEUE_ERRORS; kind++) {
		t = oldest(&all->of[kind], leads);
		if (t != NULL && (worst == NULL || queue_error_worse(worst->kind, t->kind) != worst->kind))
			worst = t;
	}
	return worst;
}

static void set_kind(struct sweeper_queue *q, struct task_error *t, enum queue_error kind)
{
	if (t->kind == kind)
		return;
	if (t->kind != QUEUE_ERROR_NONE)
		TAILQ_REMOVE(&q->errors.of[t->kind], t, entry);
	t->kind = kind;
	if (kind != QUEUE_ERROR_NONE)
		TAILQ_INSERT_TAIL(&q->errors.of[kind], t, entry);
}

int task_error_note(struct sweeper *s, struct sweeper_queue *q, struct task_error *t, const char *at, int64_t now_ms)
{
	enum queue_error kind = s->connection.error_kind == QUEUE_ERROR_NONE ? QUEUE_ERROR_OTHER
	    : s->connection.error_kind;
	bool news;

	if (s->redis.state == REDIS_CLOSED)
		return -1;		/* the connection's error, not the queue's */
	news = t->kind != kind || strcmp(t->text, s->connection.error) != 0;
	set_kind(q, t, kind);
	try_later(t, now_ms);
	if (news)
		log_error_of(q, t, at, s->connection.error);
	sweeper_queue_publish_error(s, q);
	return -1;
}

void task_error_note_cut(struct sweeper_queue *q, struct task_error *t, const char *at, int64_t now_ms)
{
	try_later(t, now_ms);
	if (t->times >= TASK_ERROR_PERSISTS && t->text[0] == '\0')
		log_error_of(q, t, at, "the connection to Redis is lost each time");
}

void task_error_clear(struct sweeper *s, struct sweeper_queue *q, struct task_error *t)
{
	if (t->times == 0)
		return;
	if (t->text[0] != '\0')
		log_info("queue_error_cleared", log_str("queue", q->keys.name), log_str("error", t->text));
	task_error_forget(q, t);
	sweeper_queue_publish_error(s, q);
}

void task_error_forget(struct sweeper_queue *q, struct task_error *t)
{
	set_kind(q, t, QUEUE_ERROR_NONE);
	*t = (struct task_error){ .leads = t->leads };
}

void task_error_list_forget(struct task_errors *all)
{
	struct task_error *t;

	for (int kind = 0; kind < QUEUE_ERRORS; kind++)
		while ((t = TAILQ_FIRST(&all->of[kind])) != NULL) {
			TAILQ_REMOVE(&all->of[kind], t, entry);
			*t = (struct task_error){ .leads = t->leads };
		}
}
