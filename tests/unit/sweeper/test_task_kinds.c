/* links: tests/unit/sweeper/task_fixture.c */

/* Tasks that ask all queues in one write, that are woken, that run in every queue, and that have no queue. test_task.c: when a task runs. */
#include <stdio.h>
#include <string.h>

#include "common/base/base.h"
#include "tests/unit/sweeper/task_fixture.h"
#include "tests/unit/unit.h"

static char sent[64];			/* of the task that asks: in which order requests and answers came */
static bool pending;
static int events;

/* ---- tasks ---- */

extern const struct task asking_task, everywhere_task, woken_task, whole_task;

static bool ask(struct sweeper *unused, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	(void)unused;
	(void)now_ms;
	assert_int_equal(budget, TASK_FIXTURE_BUDGET);
	snprintf(sent + strlen(sent), sizeof(sent) - strlen(sent), "?%d", (int)(q - queues));
	return q != &queues[2];		/* which has nothing to ask */
}

static enum task_end take(struct sweeper *unused, struct sweeper_queue *q, int64_t now_ms)
{
	(void)unused;
	(void)now_ms;
	snprintf(sent + strlen(sent), sizeof(sent) - strlen(sent), "!%d", (int)(q - queues));
	return fixture.runs[q - queues]++ == 0 ? fixture.ends : TASK_DONE;
}

const struct task asking_task = { .name = "asking", .interval_ms = 1000, .budget = TASK_FIXTURE_BUDGET,
	.wanted = task_fixture_wanted, .ask = ask, .take = take };

static const char *step(const struct sweeper_queue *q)
{
	(void)q;
	return "step";
}

const struct task woken_task = { .name = "woken", .interval_ms = TASK_WHEN_WOKEN_MS, .budget = TASK_FIXTURE_BUDGET,
	.wanted = task_fixture_wanted, .run_queue = task_fixture_run, .urgent = task_fixture_urgent, .step = step };
const struct task everywhere_task = { .name = "everywhere", .interval_ms = FAR_MS - 1, .budget = TASK_FIXTURE_BUDGET, .run_queue = task_fixture_run };

static bool run_whole(struct sweeper *unused, int budget, int64_t now_ms)
{
	(void)now_ms;
	assert_int_equal(budget, 1);
	++*(int *)task_own(unused, &whole_task);
	return false;
}

static void count_event(struct sweeper *unused)
{
	(void)unused;
	events++;
}

static void count_turn(struct sweeper *unused, int64_t now_ms)
{
	(void)unused;
	(void)now_ms;
	events++;
}

static int refuse_connection(struct sweeper *unused)
{
	(void)unused;
	events++;
	return -1;
}

static bool is_pending(struct sweeper *unused)
{
	(void)unused;
	return pending;
}

const struct task whole_task = { .name = "whole", .interval_ms = 60000, .per_lease = 4, .budget = 1, .run = run_whole,
    .finishing = true, .own_size = sizeof(int),
	.each_turn = count_turn, .connected = refuse_connection, .disconnected = count_event, .settle = count_event, .is_pending = is_pending,
	.free_own = count_event };

static void forget(void)
{
	sent[0] = '\0';
	pending = false;
	events = 0;
}

TASK_FIXTURE_STARTS(asking) TASK_FIXTURE_STARTS(woken) TASK_FIXTURE_STARTS(everywhere) TASK_FIXTURE_STARTS(whole)

/* ---- tasks that ask ---- */

TEST(requests_of_all_queues_come_before_their_answers, start_asking, task_fixture_stop)
{
	for (int i = 0; i < QUEUES; i++)
		fixture.wanted[i] = true;
	assert_false(tasks_run(&s));
	assert_string_equal(sent, "?0?1?2!0!1");
	assert_false(tasks_run(&s));
	assert_string_equal(sent, "?0?1?2!0!1");	/* not before the next interval, */
	assert_int_equal(task_fixture_in(0)->at_ms % 1000, 0);
	assert_int_equal(task_fixture_in(0)->at_ms, task_fixture_in(1)->at_ms);	/* which begins for all of them at once */
}

TEST(another_request_goes_out_in_the_same_turn, start_asking, task_fixture_stop)
{
	fixture.wanted[1] = true;
	fixture.ends = TASK_ASK;
	assert_false(tasks_run(&s));
	assert_string_equal(sent, "?0?1!0!1?0?1!0!1");
	assert_int_equal(fixture.cleared, 2);
}

TEST(no_answer_is_taken_from_a_lost_connection, start_asking, task_fixture_stop)
{
	s.redis.state = REDIS_CLOSED;
	tasks_run(&s);
	assert_string_equal(sent, "");
	s.redis.state = REDIS_READY;
	fixture.ends = TASK_FAILED;
	tasks_run(&s);
	assert_string_equal(sent, "?0!0");
	assert_int_equal(fixture.noted, 1);
	assert_int_equal(task_fixture_in(0)->at_ms, task_fixture_in(0)->error.retry_at_ms);
}

/* ---- tasks that are woken ---- */

TEST(it_runs_only_when_it_is_woken, start_woken, task_fixture_stop)
{
	int64_t now_ms = clock_monotonic_ms();

	fixture.wanted[1] = true;
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.runs[0], 0);
	assert_true(task_wake_all(&s, &woken_task, now_ms));
	assert_false(task_wake_all(&s, &woken_task, now_ms));	/* they wait for their turn */
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.runs[0] + fixture.runs[1], 2);
	assert_int_equal(fixture.runs[2], 0);
	assert_true(task_wake_all(&s, &woken_task, now_ms));
}

TEST(waking_does_not_end_a_back_off, start_woken, task_fixture_stop)
{
	int64_t now_ms = clock_monotonic_ms();

	fixture.ends = TASK_FAILED;
	assert_true(task_wake_all(&s, &woken_task, now_ms));
	tasks_run(&s);
	assert_string_equal(fixture.noted_at, "step");
	assert_true(task_wake_all(&s, &woken_task, now_ms));
	fixture.urgent = true;
	tasks_run(&s);
	assert_int_equal(fixture.runs[0], 1);
}

TEST(a_task_without_wanted_runs_in_every_queue, start_everywhere, task_fixture_stop)
{
	assert_false(tasks_run(&s));
	assert_true(fixture.runs[0] == 1 && fixture.runs[1] == 1 && fixture.runs[2] == 1);
}

TEST(what_is_urgent_runs_at_once, start_woken, task_fixture_stop)
{
	fixture.urgent = true;
	tasks_run(&s);
	assert_int_equal(fixture.runs[0], 1);
}

/* ---- tasks of the whole sweeper ---- */

TEST(it_runs_so_often_in_a_lease, start_whole, task_fixture_stop)
{
	int64_t now_ms = clock_monotonic_ms();

	assert_false(tasks_run(&s));
	assert_false(tasks_run(&s));
	assert_int_equal(*(int *)task_own(&s, &whole_task), 1);
	assert_true(tasks_wake_ms(&s, INT64_MAX) - now_ms < 7500 + 5000);
	s.loop.finish_by_ms = 1;		/* this one still runs */
	s.tasks.in[0].due_ms = 0;
	assert_false(tasks_run(&s));
	assert_int_equal(*(int *)task_own(&s, &whole_task), 2);
}

TEST(events_reach_the_tasks, start_whole, task_fixture_stop)
{
	tasks_each_turn(&s, 1);
	assert_int_equal(tasks_connected(&s), -1);
	tasks_disconnected(&s);
	tasks_settle(&s);
	assert_int_equal(events, 4);
	s.redis.state = REDIS_CLOSED;
	tasks_settle(&s);
	assert_int_equal(events, 4);
	assert_false(tasks_are_pending(&s));
	pending = true;
	assert_true(tasks_are_pending(&s));
}

UNIT_MAIN(NULL, NULL)
