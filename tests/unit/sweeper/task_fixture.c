/* The sweeper around the core that runs tasks, for the tests of that core. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/sweeper/task_fixture.h"

#include "sweeper/core/subprocess.h"

struct sweeper s;
struct sweeper_queue queues[QUEUES];
struct task_fixture fixture;

/* ---- callbacks of tasks ---- */

bool task_fixture_wanted(const struct sweeper *unused, const struct sweeper_queue *q)
{
	(void)unused;
	return fixture.wanted[q - queues];
}

bool task_fixture_urgent(const struct sweeper *unused, const struct sweeper_queue *q, int64_t now_ms)
{
	(void)unused;
	(void)q;
	(void)now_ms;
	return fixture.urgent;
}

enum task_end task_fixture_run(struct sweeper *unused, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	(void)unused;
	(void)now_ms;
	assert_int_equal(budget, TASK_FIXTURE_BUDGET);
	fixture.runs[q - queues]++;
	return fixture.ends;
}

/* ---- the rest of the core ---- */

const struct seal_secrets *seal_known(void)
{
	static const struct seal_secrets one = { .n = 1 }, none;

	return fixture.no_secret ? &none : &one;
}

bool lead_is_ours(const struct sweeper_queue *q)
{
	(void)q;
	return fixture.ours;
}

bool sweeper_goes_on(struct sweeper *unused)
{
	return unused->redis.state == REDIS_READY;
}

void connection_drain(struct sweeper *unused)
{
	(void)unused;
}

void sweeper_queue_remove(struct sweeper *unused, struct sweeper_queue *q)
{
	TAILQ_REMOVE(&unused->queues, q, entry);
	tasks_leave(q);
	*q = (struct sweeper_queue){0};
	fixture.removed++;
}

void task_error_init(struct task_error *t, bool leads)
{
	t->leads = leads;
}

int task_error_note(struct sweeper *unused, struct sweeper_queue *q, struct task_error *t, const char *at, int64_t now_ms)
{
	(void)unused;
	(void)q;
	fixture.noted_at = at;
	t->kind = QUEUE_ERROR_OTHER;
	t->times++;
	t->retry_at_ms = now_ms + FAR_MS + 1;
	fixture.noted++;
	return -1;
}

void task_error_clear(struct sweeper *unused, struct sweeper_queue *q, struct task_error *t)
{
	(void)unused;
	(void)q;
	*t = (struct task_error){ .leads = t->leads };
	fixture.cleared++;
}

void task_error_list_retry_at(struct task_errors *all, int64_t at_ms)
{
	(void)all;
	(void)at_ms;
}

bool subprocess_pollfd(const struct subprocess *e, struct pollfd *p)
{
	(void)e;
	(void)p;
	return false;
}

bool subprocess_is_ready(const struct subprocess *e, const struct pollfd *p, nfds_t n)
{
	(void)e;
	(void)p;
	(void)n;
	return false;
}

/* ---- */

void task_fixture_start(const struct task *task)
{
	static const struct task *table[1];
	static struct conf conf;

	fixture = (struct task_fixture){ .wanted = { true }, .ours = true, .ends = TASK_DONE };
	table[0] = task;
	conf.supervisor.lease_ms = 30000;
	s = (struct sweeper){ .conf = &conf };
	s.redis.state = REDIS_READY;
	TAILQ_INIT(&s.queues);
	tasks_init(&s, table, 1);
	for (int i = 0; i < QUEUES; i++) {
		queues[i] = (struct sweeper_queue){0};
		tasks_enter(&s, &queues[i]);
		TAILQ_INSERT_TAIL(&s.queues, &queues[i], entry);
	}
}

int task_fixture_stop(void **state)
{
	struct sweeper_queue *q;

	(void)state;
	TAILQ_FOREACH(q, &s.queues, entry)
		tasks_leave(q);
	tasks_free(&s);
	return 0;
}

struct task_in_queue *task_fixture_in(int queue)
{
	return &queues[queue].tasks.in[0];
}
