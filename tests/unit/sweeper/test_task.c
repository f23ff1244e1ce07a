/* links: tests/unit/sweeper/task_fixture.c */

/*
 * The core that runs the tasks of the sweeper: when, in which queues, after which error, and with the lead. test_task_kinds.c: tasks that
 * ask, that are woken, or that have no queue.
 */
#include <string.h>

#include "tests/unit/sweeper/task_fixture.h"
#include "tests/unit/unit.h"

static bool may_stop;
static int stops[QUEUES], freed;
static int64_t wake_ms;			/* what the task asks for; 0: nothing */

/* ---- tasks ---- */

extern const struct task led_task, steady_task;

static enum task_end run_led(struct sweeper *unused, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	++*(int *)task_state(q, &led_task);
	if (wake_ms != 0)
		task_wake_at(q, &led_task, wake_ms);
	return task_fixture_run(unused, q, budget, now_ms);
}

static bool stop_led(struct sweeper *unused, struct sweeper_queue *q, int64_t now_ms)
{
	(void)unused;
	(void)now_ms;
	stops[q - queues]++;
	return may_stop;
}

static void free_led(struct sweeper_queue *q)
{
	(void)q;
	freed++;
}

const struct task led_task = { .name = "led", .interval_ms = FAR_MS - 1, .budget = TASK_FIXTURE_BUDGET, .leads = true,
	.wanted = task_fixture_wanted, .run_queue = run_led, .stop = stop_led, .free = free_led, .state_size = sizeof(int) };
const struct task steady_task = { .name = "steady", .interval_ms = FAR_MS - 1, .budget = TASK_FIXTURE_BUDGET, .steady = true, .queues = 2,
	.wanted = task_fixture_wanted, .run_queue = task_fixture_run, .urgent = task_fixture_urgent };

static void forget(void)
{
	memset(stops, 0, sizeof(stops));
	may_stop = true;
	freed = 0;
	wake_ms = 0;
}

TASK_FIXTURE_STARTS(led) TASK_FIXTURE_STARTS(steady)

/* ---- tests ---- */

TEST(a_queue_that_wants_it_runs_once_an_interval, start_led, task_fixture_stop)
{
	assert_false(tasks_run(&s));
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.runs[0], 1);
	assert_int_equal(fixture.runs[1], 0);
	assert_int_equal(fixture.cleared, 1);
	assert_true(tasks_wake_ms(&s, INT64_MAX) >= FAR_MS - 1);
	assert_int_equal(tasks_wake_ms(&s, 5), 5);
}

TEST(more_runs_in_the_next_turn, start_led, task_fixture_stop)
{
	fixture.ends = TASK_MORE;
	assert_true(tasks_run(&s));
	assert_true(tasks_run(&s));
	assert_int_equal(fixture.runs[0], 2);
	assert_int_equal(*(int *)task_state(&queues[0], &led_task), 2);
}

TEST(it_runs_at_the_time_that_it_asks_for, start_led, task_fixture_stop)
{
	wake_ms = 1;			/* long ago */
	assert_true(tasks_run(&s));
	wake_ms = INT64_MAX;
	assert_false(tasks_run(&s));
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.runs[0], 2);
}

TEST(after_an_error_it_waits_for_the_back_off, start_led, task_fixture_stop)
{
	fixture.ends = TASK_FAILED;
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.noted, 1);
	assert_string_equal(fixture.noted_at, "led");
	assert_int_equal(task_fixture_in(0)->at_ms, task_fixture_in(0)->error.retry_at_ms);
	assert_true(task_fixture_in(0)->error.leads && task_fails(&queues[0], &led_task));
	fixture.ends = TASK_DONE;
	task_wake_at(&queues[0], &led_task, 0);
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.cleared, 1);
}

/* What failed on the connection before is tried again at once; what did not fail keeps its time. */
TEST(a_new_connection_ends_the_back_off, start_led, task_fixture_stop)
{
	fixture.ends = TASK_FAILED;
	assert_false(tasks_run(&s));
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.runs[0], 1);
	assert_int_equal(tasks_connected(&s), 0);
	fixture.ends = TASK_DONE;
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.runs[0], 2);
	assert_int_equal(tasks_connected(&s), 0);
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.runs[0], 2);
}

TEST(a_steady_task_runs_as_often_after_an_error, start_steady, task_fixture_stop)
{
	fixture.ends = TASK_FAILED;
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.noted, 1);
	assert_true(task_fixture_in(0)->at_ms < task_fixture_in(0)->error.retry_at_ms);
	fixture.urgent = true;
	tasks_run(&s);
	assert_int_equal(fixture.runs[0], 2);	/* and at once if it is urgent */
}

TEST(an_error_of_the_connection_is_not_the_queues, start_led, task_fixture_stop)
{
	struct task_in_queue *t = task_fixture_in(0);

	assert_true(task_run_now(&s, &queues[0], &led_task, 1));
	assert_int_equal(fixture.cleared, 1);
	s.redis.state = REDIS_CLOSED;
	fixture.ends = TASK_FAILED;
	assert_true(task_run_now(&s, &queues[0], &led_task, 1));
	assert_int_equal(fixture.noted, 0);
	assert_int_equal(fixture.cleared, 1);
	assert_true(t->runs);
}

TEST(one_that_lost_the_lead_is_stopped_once, start_led, task_fixture_stop)
{
	tasks_run(&s);
	fixture.ours = may_stop = false;
	tasks_run(&s);
	tasks_run(&s);
	assert_int_equal(stops[0], 2);	/* asked until it can be stopped */
	may_stop = true;
	tasks_run(&s);
	tasks_run(&s);
	assert_int_equal(stops[0], 3);
	assert_int_equal(stops[1], 0);	/* it never ran there */
	assert_int_equal(fixture.runs[0], 1);
}

/* A queue has a leader only if a task wants one. */
TEST(a_task_that_leads_needs_a_leader, start_led, task_fixture_stop)
{
	assert_true(tasks_need_lead(&s, &queues[0]));
	assert_false(tasks_need_lead(&s, &queues[1]));
}

TEST(other_tasks_need_no_leader, start_steady, task_fixture_stop)
{
	assert_false(tasks_need_lead(&s, &queues[0]));
}

/* Nor does it keep the loop from sleeping. */
TEST(it_does_not_run_after_the_order_to_finish, start_led, task_fixture_stop)
{
	s.loop.finish_by_ms = 1;
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.runs[0], 0);
	assert_int_equal(tasks_wake_ms(&s, 5), 5);
}

TEST(so_many_queues_run_a_turn, start_steady, task_fixture_stop)
{
	for (int i = 0; i < QUEUES; i++)
		fixture.wanted[i] = true;
	assert_true(tasks_run(&s));
	assert_int_equal(fixture.runs[0] + fixture.runs[1] + fixture.runs[2], 2);
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.runs[2], 1);
}

TEST(a_queue_that_nobody_needs_is_removed, start_led, task_fixture_stop)
{
	fixture.wanted[1] = true;
	fixture.ends = TASK_REMOVE;
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.removed, 2);
	assert_int_equal(freed, 2);	/* with its state */
	assert_ptr_equal(TAILQ_FIRST(&s.queues), &queues[2]);
}

TEST(one_that_seals_waits_for_a_secret, start_led, task_fixture_stop)
{
	fixture.no_secret = true;
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.runs[0], 0);
	fixture.no_secret = false;
	assert_false(tasks_run(&s));
	assert_int_equal(fixture.runs[0], 1);
}

UNIT_MAIN(NULL, NULL)
