/*
 * Runs the tasks: decides which of them run, in which queues, and when next (tasks.c: other events). Only this file
 * decides the consequences of an error of a task in a queue: a line in the log, a word in status and health, a
 * back-off. The state of a task in a queue, or in the sweeper, belongs to this file and lives as long as the queue, or
 * the sweeper.
 */
#include <stdlib.h>

#include "sweeper/core/task.h"

#include "common/base/base.h"
#include "sweeper/core/core.h"

/* ---- states ---- */

static bool works_in_queues(const struct task *t)
{
	return t->run_queue != NULL || t->ask != NULL;
}

static struct task_in_queue *in_queue(const struct sweeper *s, const struct sweeper_queue *q, size_t id)
{
	return &q->tasks.in[s->tasks.in[id].in_queue];
}

void tasks_init(struct sweeper *s, const struct task *const *table, size_t n)
{
	s->tasks.in = alloc_zero(n, sizeof(*s->tasks.in));
	s->tasks.n = n;
	for (size_t i = 0; i < n; i++) {
		s->tasks.in[i].task = table[i];
		s->tasks.in[i].in_queue = s->tasks.in_queues;
		s->tasks.in_queues += works_in_queues(table[i]);
		if (table[i]->own_size > 0)
			s->tasks.in[i].own = alloc_zero(1, table[i]->own_size);
	}
}

void tasks_free(struct sweeper *s)
{
	for (size_t i = 0; i < s->tasks.n; i++) {
		if (s->tasks.in[i].task->free_own != NULL)
			s->tasks.in[i].task->free_own(s);
		free(s->tasks.in[i].own);
	}
	free(s->tasks.in);
}

void tasks_enter(struct sweeper *s, struct sweeper_queue *q)
{
	q->tasks.n = s->tasks.in_queues;
	q->tasks.in = alloc_zero(q->tasks.n + 1, sizeof(*q->tasks.in));
	for (size_t i = 0; i < s->tasks.n; i++) {
		struct task_in_queue *in = in_queue(s, q, i);

		if (!works_in_queues(s->tasks.in[i].task))
			continue;
		in->task = s->tasks.in[i].task;
		in->at_ms = in->task->interval_ms == TASK_WHEN_WOKEN_MS ? TASK_WHEN_WOKEN_MS : 0;
		task_error_init(&in->error, in->task->leads);
		if (in->task->state_size > 0)
			in->state = alloc_zero(1, in->task->state_size);
	}
}

void tasks_leave(struct sweeper_queue *q)
{
	for (size_t i = 0; i < q->tasks.n; i++) {
		if (q->tasks.in[i].task->free != NULL)
			q->tasks.in[i].task->free(q);
		free(q->tasks.in[i].state);
	}
	free(q->tasks.in);
}

/* ---- one run in one queue ---- */

static int64_t interval_of(const struct sweeper *s, const struct task *t)
{
	int64_t part = t->per_lease > 0 ? s->conf->supervisor.lease_ms / t->per_lease : INT64_MAX;

	return t->per_lease == 0 || (t->interval_ms > 0 && t->interval_ms < part) ? t->interval_ms : part;
}

static bool has_use_for(const struct sweeper *s, const struct sweeper_queue *q, const struct task *t)
{
	return (!t->configured || q->conf != NULL) && (!t->served || q->board != NULL) &&
	    (t->wanted == NULL || t->wanted(s, q));
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q, const struct task *t)
{
	return (!t->leads || lead_is_ours(q)) && has_use_for(s, q, t);
}

static bool is_due(const struct sweeper *s, const struct sweeper_queue *q, const struct task_in_queue *in,
    int64_t now_ms)
{
	if (now_ms >= in->at_ms)
		return true;
	return in->task->urgent != NULL && (in->task->steady || !task_error_waits(&in->error, now_ms)) &&
	    in->task->urgent(s, q, now_ms);
}

/* A task with ask() runs in all its queues at multiples of its interval: the core sends their requests in one write,
 * and the loop wakes once for all. */
static void begin_run(const struct sweeper *s, struct task_in_queue *in, int64_t now_ms)
{
	int64_t interval_ms = interval_of(s, in->task);

	in->runs = true;
	in->at_ms = in->task->ask != NULL && interval_ms > 0 ? (now_ms / interval_ms + 1) * interval_ms
	    : now_ms + interval_ms;
}

static void stop_in_queue(struct sweeper *s, struct sweeper_queue *q, struct task_in_queue *in, int64_t now_ms)
{
	if (in->runs && (in->task->stop == NULL || in->task->stop(s, q, now_ms)))
		in->runs = false;
}

static void end_run(struct sweeper *s, struct sweeper_queue *q, struct task_in_queue *in, enum task_end end,
    int64_t now_ms)
{
	const struct task *t = in->task;

	if (s->redis.state == REDIS_CLOSED)
		return;			/* the connection's error, not the queue's */
	if (end != TASK_FAILED) {
		task_error_clear(s, q, &in->error);
		if (end == TASK_MORE)
			in->at_ms = now_ms;
		return;
	}
	task_error_note(s, q, &in->error, t->step == NULL ? t->name : t->step(q), now_ms);
	if (!t->steady && in->error.retry_at_ms > in->at_ms)
		in->at_ms = in->error.retry_at_ms;
}

enum ran { RAN, RAN_MORE, RAN_REMOVED };

static enum ran run_in_queue(struct sweeper *s, struct sweeper_queue *q, struct task_in_queue *in, int64_t now_ms)
{
	enum task_end end;

	begin_run(s, in, now_ms);
	end = in->task->run_queue(s, q, in->task->budget, now_ms);
	end_run(s, q, in, end, now_ms);
	connection_drain(s);
	if (end == TASK_REMOVE) {
		sweeper_queue_remove(s, q);
		return RAN_REMOVED;
	}
	return in->at_ms <= now_ms ? RAN_MORE : RAN;
}

/* True: there is more to do at once. */
static bool run_in_queues(struct sweeper *s, size_t id, int64_t now_ms)
{
	const struct task *t = s->tasks.in[id].task;
	struct sweeper_queue *q, *next;
	bool more = false;
	int ran = 0;

	TAILQ_FOREACH_SAFE(q, &s->queues, entry, next) {
		struct task_in_queue *in = in_queue(s, q, id);

		if (!is_wanted(s, q, t)) {
			stop_in_queue(s, q, in, now_ms);
			continue;
		}
		if (!is_due(s, q, in, now_ms) || !sweeper_goes_on(s))
			continue;
		if (t->queues > 0 && ran++ == t->queues)
			return true;
		more = run_in_queue(s, q, in, now_ms) == RAN_MORE || more;
	}
	return more;
}

/* ---- a round of requests: those of all queues in one write ---- */

static bool ask_all(struct sweeper *s, size_t id, int64_t now_ms)
{
	const struct task *t = s->tasks.in[id].task;
	struct sweeper_queue *q;
	bool any = false;

	TAILQ_FOREACH(q, &s->queues, entry) {
		struct task_in_queue *in = in_queue(s, q, id);

		in->asked = in->takes_part && t->ask(s, q, t->budget, now_ms);
		in->takes_part = false;
		any = any || in->asked;
	}
	return any;
}

static bool take_all_answers(struct sweeper *s, size_t id, int64_t now_ms)
{
	const struct task *t = s->tasks.in[id].task;
	struct sweeper_queue *q;
	bool more = false;

	TAILQ_FOREACH(q, &s->queues, entry) {
		struct task_in_queue *in = in_queue(s, q, id);
		enum task_end end;

		if (!in->asked || s->redis.state == REDIS_CLOSED)
			continue;
		end = t->take(s, q, now_ms);
		in->takes_part = end == TASK_ASK;
		if (end != TASK_ASK)
			end_run(s, q, in, end, now_ms);
		more = more || (end == TASK_MORE && s->redis.state != REDIS_CLOSED);
	}
	return more;
}

static bool ask_in_queues(struct sweeper *s, size_t id, int64_t now_ms)
{
	const struct task *t = s->tasks.in[id].task;
	struct sweeper_queue *q;
	bool more = false;

	TAILQ_FOREACH(q, &s->queues, entry) {
		struct task_in_queue *in = in_queue(s, q, id);

		in->takes_part = is_wanted(s, q, t) && is_due(s, q, in, now_ms);
		if (in->takes_part)
			begin_run(s, in, now_ms);
		else if (!is_wanted(s, q, t))
			stop_in_queue(s, q, in, now_ms);
	}
	while (sweeper_goes_on(s) && ask_all(s, id, now_ms)) {
		more = take_all_answers(s, id, now_ms) || more;
		connection_drain(s);
	}
	return more;
}

/* ---- all ---- */

/* After the order to finish, only tasks with `finishing` run; while no secret is known, only those that are
 * `unsealed`. */
static bool may_run(const struct sweeper *s, const struct task *t)
{
	return (s->loop.finish_by_ms == 0 || t->finishing) && (seal_known()->n > 0 || t->unsealed);
}

static bool run_task(struct sweeper *s, size_t id, int64_t now_ms)
{
	struct task_in_sweeper *in = &s->tasks.in[id];
	bool more;

	if (!may_run(s, in->task))
		return false;
	if (in->task->run_queue != NULL)
		return run_in_queues(s, id, now_ms);
	if (in->task->ask != NULL)
		return ask_in_queues(s, id, now_ms);
	if (in->task->run == NULL || now_ms < in->due_ms)
		return false;
	in->due_ms = now_ms + interval_of(s, in->task);
	more = in->task->run(s, in->task->budget, now_ms);
	connection_drain(s);
	return more;
}

bool tasks_run(struct sweeper *s)
{
	bool more = false;

	for (size_t i = 0; i < s->tasks.n && sweeper_goes_on(s); i++) {
		s->tasks.running = s->tasks.in[i].task;
		more = run_task(s, i, clock_monotonic_ms()) || more;
	}
	s->tasks.running = NULL;
	return more;
}

int64_t tasks_wake_ms(const struct sweeper *s, int64_t latest_ms)
{
	int64_t at_ms = latest_ms;
	const struct sweeper_queue *q;

	for (size_t i = 0; i < s->tasks.n; i++) {
		const struct task *t = s->tasks.in[i].task;

		if (!may_run(s, t))
			continue;
		if (t->run != NULL && interval_of(s, t) > 0)
			at_ms = clock_earlier(at_ms, s->tasks.in[i].due_ms);
		if (!works_in_queues(t))
			continue;
		TAILQ_FOREACH(q, &s->queues, entry)
			if (is_wanted(s, q, t))
				at_ms = clock_earlier(at_ms, in_queue(s, q, i)->at_ms);
	}
	return at_ms;
}

/* A request that a server refused on an older connection, another server may accept now: a node of a Cluster that gave
 * a slot away refuses as long as it has the slot. */
void task_end_backoffs(struct sweeper *s, int64_t now_ms)
{
	struct sweeper_queue *q;

	TAILQ_FOREACH(q, &s->queues, entry) {
		task_error_list_retry_at(&q->errors, now_ms);
		for (size_t i = 0; i < q->tasks.n; i++)
			if (q->tasks.in[i].error.times > 0 && q->tasks.in[i].at_ms > now_ms)
				q->tasks.in[i].at_ms = now_ms;
	}
}

bool tasks_need_lead(const struct sweeper *s, const struct sweeper_queue *q)
{
	for (size_t i = 0; i < s->tasks.n; i++)
		if (s->tasks.in[i].task->leads && has_use_for(s, q, s->tasks.in[i].task))
			return true;
	return false;
}

/* ---- for tasks ---- */

static struct task_in_queue *find_task(const struct sweeper_queue *q, const struct task *t)
{
	size_t i = 0;

	while (q->tasks.in[i].task != t)	/* each task that runs is in the table */
		i++;
	return &q->tasks.in[i];
}

void *task_own(const struct sweeper *s, const struct task *t)
{
	size_t i = 0;

	while (s->tasks.in[i].task != t)
		i++;
	return s->tasks.in[i].own;
}

void *task_state(const struct sweeper_queue *q, const struct task *t)
{
	return find_task(q, t)->state;
}

int64_t task_at_ms(const struct sweeper_queue *q, const struct task *t)
{
	return find_task(q, t)->at_ms;
}

void task_wake_at(struct sweeper_queue *q, const struct task *t, int64_t at_ms)
{
	find_task(q, t)->at_ms = at_ms;
}

bool task_fails(const struct sweeper_queue *q, const struct task *t)
{
	return find_task(q, t)->error.kind != QUEUE_ERROR_NONE;
}

bool task_wake_all(struct sweeper *s, const struct task *t, int64_t now_ms)
{
	struct sweeper_queue *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (find_task(q, t)->at_ms <= now_ms && is_wanted(s, q, t))
			return false;
	TAILQ_FOREACH(q, &s->queues, entry) {
		struct task_in_queue *in = find_task(q, t);

		in->at_ms = task_error_waits(&in->error, now_ms) ? in->error.retry_at_ms : now_ms;
	}
	return true;
}

bool task_run_now(struct sweeper *s, struct sweeper_queue *q, const struct task *t, int64_t now_ms)
{
	return run_in_queue(s, q, find_task(q, t), now_ms) != RAN_REMOVED;
}
