/* Passes events on to the tasks that wait for them: turns, connections, and the output of subprocesses. */
#include "sweeper/core/task.h"

#include "common/base/base.h"
#include "sweeper/core/core.h"
#include "sweeper/core/subprocess.h"

/* ---- events ---- */

void tasks_each_turn(struct sweeper *s, int64_t now_ms)
{
	for (size_t i = 0; i < s->tasks.n; i++)
		if (s->tasks.in[i].task->each_turn != NULL)
			s->tasks.in[i].task->each_turn(s, now_ms);
}

bool tasks_are_pending(struct sweeper *s)
{
	for (size_t i = 0; i < s->tasks.n; i++)
		if (s->tasks.in[i].task->is_pending != NULL && s->tasks.in[i].task->is_pending(s))
			return true;
	return false;
}

int tasks_connected(struct sweeper *s)
{
	task_end_backoffs(s, clock_monotonic_ms());
	for (size_t i = 0; i < s->tasks.n; i++)
		if (s->tasks.in[i].task->connected != NULL && s->tasks.in[i].task->connected(s) == -1)
			return -1;
	return 0;
}

void tasks_disconnected(struct sweeper *s)
{
	for (size_t i = 0; i < s->tasks.n; i++)
		if (s->tasks.in[i].task->disconnected != NULL)
			s->tasks.in[i].task->disconnected(s);
}

void tasks_settle(struct sweeper *s)
{
	for (size_t i = 0; i < s->tasks.n && s->redis.state == REDIS_READY; i++)
		if (s->tasks.in[i].task->settle != NULL)
			s->tasks.in[i].task->settle(s);
}

/* ---- subprocesses ---- */

nfds_t tasks_pollfds(const struct sweeper *s, struct pollfd *p, nfds_t most)
{
	const struct sweeper_queue *q;
	nfds_t n = 0;

	for (size_t i = 0; i < s->tasks.n; i++) {
		if (s->tasks.in[i].task->subprocess == NULL)
			continue;
		TAILQ_FOREACH(q, &s->queues, entry)
			if (n < most && subprocess_pollfd(s->tasks.in[i].task->subprocess(q), &p[n]))
				n++;
	}
	return n;
}

void tasks_polled(struct sweeper *s, const struct pollfd *p, nfds_t n)
{
	struct sweeper_queue *q;

	for (size_t i = 0; i < s->tasks.n; i++) {
		if (s->tasks.in[i].task->subprocess == NULL)
			continue;
		TAILQ_FOREACH(q, &s->queues, entry)
			if (subprocess_is_ready(s->tasks.in[i].task->subprocess(q), p, n))
				task_wake_at(q, s->tasks.in[i].task, 0);
	}
}
