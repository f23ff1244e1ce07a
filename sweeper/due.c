/* Retries whose time has come go back to ingress; pause flags shut and open gates. */
#include "sweeper/sweeper.h"

#include "common/queue_waiting.h"
#include "common/queue_watch.h"

#define QUIET_LOOK_MS 4000	/* how late a pause, or what others delayed, may be seen on an idle queue */

struct due {
	bool delayed;			/* something may be due */
	bool asked;			/* an answer is under way */
	bool quiet;			/* nothing was delayed or paused at the last look */
	int64_t look_at_ms;		/* CLOCK_MONOTONIC: the next look at a quiet queue */
	uint64_t settled_seen;		/* board->workers_done at the last look */
};

static struct due *due_of(const struct swept *q)
{
	return task_state(q, TASK_due);
}

void due_set_delayed(struct swept *q, bool delayed)
{
	due_of(q)->delayed = delayed;
}

static void note(struct sweeper *s, struct swept *q, int64_t now_ms)
{
	trouble_note(s, q, task_trouble(q, TASK_due), "due", now_ms);
}

/* Where nothing is delayed or paused, and no worker has settled anything since, a look now and then will do. */
static bool wants_look(struct swept *q, int64_t now_ms)
{
	uint64_t settled = q->board == NULL ? 0 : atomic_load(&q->board->workers_done);

	if (due_of(q)->quiet && settled == due_of(q)->settled_seen && now_ms < due_of(q)->look_at_ms)
		return false;
	due_of(q)->settled_seen = settled;
	due_of(q)->look_at_ms = now_ms + QUIET_LOOK_MS;
	return true;
}

/* Whether anything is delayed or paused at all: one command a queue is what an idle one costs. */
static void ask_quiet(struct sweeper *s, int64_t now_ms)
{
	struct swept *q;
	int64_t n;

	TAILQ_FOREACH(q, &s->queues, entry) {
		due_of(q)->asked = q->conf != NULL && !trouble_waits(task_trouble(q, TASK_due), now_ms) && wants_look(q, now_ms);
		if (due_of(q)->asked)
			queue_quiet(&s->redis, &q->keys);
	}
	TAILQ_FOREACH(q, &s->queues, entry) {
		if (!due_of(q)->asked || s->redis.state == REDIS_CLOSED)
			continue;
		due_of(q)->quiet = false;
		if (connection_integer(s, &n) == -1) {
			note(s, q, now_ms);
			due_of(q)->asked = false;
		} else if (n == 0) {
			due_of(q)->quiet = true;
			due_of(q)->delayed = due_of(q)->asked = false;
			trouble_over(s, q, task_trouble(q, TASK_due));
			swept_set_paused(s, q, false);
		}
	}
}

static void ask_which(struct sweeper *s, int64_t now_ms)
{
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (due_of(q)->asked)
			queue_poll(&s->redis, &q->keys);
	TAILQ_FOREACH(q, &s->queues, entry) {
		int64_t delayed = 0, paused = 0;
		int wrong;

		if (!due_of(q)->asked || s->redis.state == REDIS_CLOSED)
			continue;
		wrong = connection_integer(s, &delayed);
		if (s->redis.state != REDIS_CLOSED && connection_integer(s, &paused) == 0)
			swept_set_paused(s, q, paused != 0);
		due_of(q)->delayed = wrong == 0 && delayed > 0;
		if (wrong == -1)
			note(s, q, now_ms);
	}
}

static bool run_poll(struct sweeper *s, int budget, int64_t now_ms)
{
	(void)budget;
	ask_quiet(s, now_ms);
	if (s->redis.state != REDIS_CLOSED)
		ask_which(s, now_ms);
	return false;
}

const struct task poll_task = { .name = "poll", .interval_ms = 1000, .budget = 1, .run = run_poll };

static void observe_lags(struct swept *q, const struct redis_reply *reply)
{
	for (size_t i = 0; i < reply->n; i++) {
		int64_t late = redis_element(reply, i).integer;

		if (late != QUEUE_DUE_LOST)
			swept_lag(q, late);
	}
}

/* How many left delayed; -1: error */
static int64_t take_due(struct sweeper *s, struct swept *q)
{
	struct queue_due_moved due;
	struct redis_reply reply;

	if (connection_answer(s, &reply) == -1)
		return -1;
	if (queue_due_moved(&reply, &due) == -1)
		return connection_unexpected(s);
	observe_lags(q, &reply);
	if (due.lost > 0)
		log_error("delayed_payload_lost", log_str("queue", q->keys.name), log_int("messages", due.lost), log_str("error",
		    "somebody deleted a list that holds the payload of a large delayed message, so the rest of that message was deleted, too"));
	swept_count(q, COUNT_DUE, (uint64_t)due.moved);
	return due.moved + due.lost;
}

/* n: how many left delayed. True: there may be more. */
static bool settle(struct sweeper *s, struct swept *q, int64_t n, int64_t now_ms)
{
	if (n == -1) {
		note(s, q, now_ms);
		return false;
	}
	trouble_over(s, q, task_trouble(q, TASK_due));
	due_of(q)->delayed = n > 0;	/* fewer than the budget may be all that one step carries; else not before the next poll */
	return due_of(q)->delayed;
}

/* How many of a shared queue: only what was looked at before goes, since only we can tell whose a line is. As take_due(). */
static int64_t move_shared(struct sweeper *s, struct swept *q, int budget)
{
	struct redis_reply first;
	void *kept;

	queue_glance_delayed(&s->redis, &q->keys, 0, budget - 1);
	if (connection_answer(s, &first) == -1)
		return -1;
	kept = redis_keep(&s->redis);
	queue_due(&s->redis, &q->keys, false, budget, &first);
	redis_let_go(kept);
	return take_due(s, q);
}

/* One round over all queues in one write: none waits for another's thousands. */
static bool run_due(struct sweeper *s, int budget, int64_t now_ms)
{
	bool more = false;
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry) {
		due_of(q)->asked = due_of(q)->delayed && !trouble_waits(task_trouble(q, TASK_due), now_ms);
		if (due_of(q)->asked && !q->keys.shared)
			queue_due(&s->redis, &q->keys, false, budget, NULL);
	}
	TAILQ_FOREACH(q, &s->queues, entry) {
		if (!due_of(q)->asked || s->redis.state == REDIS_CLOSED)
			continue;
		if (!q->keys.shared)
			more = settle(s, q, take_due(s, q), now_ms) || more;
	}
	TAILQ_FOREACH(q, &s->queues, entry)
		if (due_of(q)->asked && q->keys.shared && s->redis.state != REDIS_CLOSED)
			more = settle(s, q, move_shared(s, q, budget), now_ms) || more;
	return more;
}

const struct task due_task = { .name = "due", .budget = 100, .run = run_due, .in_queues = true, .state_size = sizeof(struct due) };
