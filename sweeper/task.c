/*
 * Runs the tasks: which of them, in which queues, and when again. Only this file knows what an error of a task in a queue leads to: a line of the
 * log, a word in status and health, a back-off.
 */
#include <stdlib.h>

#include "sweeper/task.h"

#include "common/alloc.h"
#include "common/clock.h"
#include "sweeper/errand.h"
#include "sweeper/sweeper.h"

static const struct task *const tasks[] = {
#define TASK_ROW(name) [TASK_##name] = &name##_task,
	SWEEPER_TASKS(TASK_ROW)
#undef TASK_ROW
};

/* ---- a queue ---- */

void tasks_enter(struct swept *q)
{
	for (int i = 0; i < TASKS; i++) {
		if (tasks[i]->run_queue == NULL && !tasks[i]->in_queues)
			continue;
		q->tasks[i] = alloc_zero(1, sizeof(*q->tasks[i]));
		q->tasks[i]->trouble.leads = tasks[i]->leads;
		if (tasks[i]->state_size > 0)
			q->tasks[i]->state = alloc_zero(1, tasks[i]->state_size);
	}
}

void tasks_leave(struct swept *q)
{
	for (int i = 0; i < TASKS; i++) {
		if (q->tasks[i] == NULL)
			continue;
		if (tasks[i]->free != NULL)
			tasks[i]->free(q);
		free(q->tasks[i]->state);
		free(q->tasks[i]);
	}
}

static bool is_wanted(const struct sweeper *s, const struct swept *q, const struct task *t)
{
	return (!t->leads || lead_is_ours(q)) && t->wanted(s, q);
}

static void stop_in_queue(struct sweeper *s, struct swept *q, enum task_id id, int64_t now_ms)
{
	struct task_in_queue *in = q->tasks[id];

	if (in->runs && (tasks[id]->stop == NULL || tasks[id]->stop(s, q, now_ms)))
		in->runs = false;
}

static void end_run(struct sweeper *s, struct swept *q, enum task_id id, enum task_end end, int64_t now_ms)
{
	struct task_in_queue *in = q->tasks[id];

	if (s->redis.state == REDIS_CLOSED)
		return;			/* the connection's error, not the queue's */
	if (end != TASK_FAILED) {
		trouble_over(s, q, &in->trouble);
		if (end == TASK_MORE)
			in->at_ms = now_ms;
		return;
	}
	trouble_note(s, q, &in->trouble, tasks[id]->name, now_ms);
	if (!tasks[id]->steady && in->trouble.retry_at_ms > in->at_ms)
		in->at_ms = in->trouble.retry_at_ms;
}

/* True: there is more to do at once. */
static bool run_in_queue(struct sweeper *s, struct swept *q, enum task_id id, int64_t now_ms)
{
	const struct task *t = tasks[id];
	struct task_in_queue *in = q->tasks[id];

	in->runs = true;
	in->at_ms = now_ms + t->interval_ms;
	end_run(s, q, id, t->run_queue(s, q, t->budget, now_ms), now_ms);
	connection_drain(s);
	return in->at_ms <= now_ms;
}

static bool run_in_queues(struct sweeper *s, enum task_id id, int64_t now_ms)
{
	const struct task *t = tasks[id];
	bool more = false;
	struct swept *q;
	int ran = 0;

	TAILQ_FOREACH(q, &s->queues, entry) {
		if (!is_wanted(s, q, t)) {
			stop_in_queue(s, q, id, now_ms);
			continue;
		}
		if ((now_ms < q->tasks[id]->at_ms && (t->urgent == NULL || !t->urgent(s, q, now_ms))) || !sweeper_goes_on(s))
			continue;
		if (t->queues > 0 && ran++ == t->queues)
			return true;
		more = run_in_queue(s, q, id, now_ms) || more;
	}
	return more;
}

/* ---- all ---- */

/* 0: it runs in each turn, and looks itself whether its time has come. */
static int64_t interval_of(const struct sweeper *s, const struct task *t)
{
	int64_t part = t->per_lease > 0 ? s->conf->supervisor.lease_ms / t->per_lease : INT64_MAX;

	if (t->run_queue != NULL)
		return 0;
	return t->per_lease == 0 || (t->interval_ms > 0 && t->interval_ms < part) ? t->interval_ms : part;
}

/* After the order to finish only some do. */
static bool may_run(const struct sweeper *s, const struct task *t)
{
	return s->finish_by_ms == 0 || t->finishing;
}

static bool run_task(struct sweeper *s, enum task_id id, int64_t now_ms)
{
	const struct task *t = tasks[id];
	bool more;

	if (now_ms < s->task_due_ms[id] || !may_run(s, t))
		return false;
	if (t->run_queue != NULL)
		return run_in_queues(s, id, now_ms);
	more = t->run(s, t->budget, now_ms);
	connection_drain(s);
	s->task_due_ms[id] = now_ms + interval_of(s, t);
	return more;
}

bool tasks_run(struct sweeper *s)
{
	bool more = false;

	for (int i = 0; i < TASKS && sweeper_goes_on(s); i++)
		more = run_task(s, (enum task_id)i, clock_monotonic_ms()) || more;
	return more;
}

static int64_t earliest(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t tasks_wake_ms(const struct sweeper *s, int64_t latest_ms)
{
	int64_t at_ms = latest_ms;
	const struct swept *q;

	for (int i = 0; i < TASKS; i++) {
		if (may_run(s, tasks[i]) && interval_of(s, tasks[i]) > 0)
			at_ms = earliest(at_ms, s->task_due_ms[i]);
		if (!may_run(s, tasks[i]) || tasks[i]->run_queue == NULL)
			continue;
		TAILQ_FOREACH(q, &s->queues, entry)
			if (is_wanted(s, q, tasks[i]))
				at_ms = earliest(at_ms, q->tasks[i]->at_ms);
	}
	return at_ms;
}

/* ---- errands ---- */

nfds_t tasks_pollfds(const struct sweeper *s, struct pollfd *p, nfds_t most)
{
	const struct swept *q;
	nfds_t n = 0;

	for (int i = 0; i < TASKS; i++) {
		if (tasks[i]->errand == NULL)
			continue;
		TAILQ_FOREACH(q, &s->queues, entry)
			if (n < most && errand_pollfd(tasks[i]->errand(q), &p[n]))
				n++;
	}
	return n;
}

static bool is_ready(const struct errand *e, const struct pollfd *p, nfds_t n)
{
	struct pollfd own;

	if (!errand_pollfd(e, &own))
		return false;
	for (nfds_t i = 0; i < n; i++)
		if (p[i].fd == own.fd && p[i].revents != 0)
			return true;
	return false;
}

void tasks_polled(struct sweeper *s, const struct pollfd *p, nfds_t n)
{
	struct swept *q;

	for (int i = 0; i < TASKS; i++) {
		if (tasks[i]->errand == NULL)
			continue;
		TAILQ_FOREACH(q, &s->queues, entry)
			if (is_ready(tasks[i]->errand(q), p, n))
				q->tasks[i]->at_ms = 0;
	}
}
