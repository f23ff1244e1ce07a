
/* The core that runs the tasks of the sweeper: when, in which queues, and after what. The tasks here are its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/base.h"
#include "sweeper/core/core.h"
#include "sweeper/core/subprocess.h"

#define FAR_MS (INT64_MAX / 2)
#define QUEUES 3

static struct sweeper s;
static struct sweeper_queue queues[QUEUES];
static bool wanted[QUEUES], ours, may_stop, urgent, pending;
static int runs[QUEUES], stops[QUEUES], noted, cleared, freed, removed, events;
static char sent[64];			/* of the task that asks: in which order requests and answers came */
static enum task_end ends;
static int64_t wake_ms;			/* what the task asks for; 0: nothing */
static const char *noted_at;

/* ---- tasks ---- */

extern const struct task everywhere_task, led_task, steady_task, asking_task, woken_task, whole_task;

static bool is_wanted(const struct sweeper *unused, const struct sweeper_queue *q)
{
	(void)unused;
	return wanted[q - queues];
}

static enum task_end run_in_queue(struct sweeper *unused, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	(void)unused;
	(void)now_ms;
	assert_int_equal(budget, 7);
	runs[q - queues]++;
	return ends;
}

static enum task_end run_led(struct sweeper *unused, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	++*(int *)task_state(q, &led_task);
	if (wake_ms != 0)
		task_wake_at(q, &led_task, wake_ms);
	return run_in_queue(unused, q, budget, now_ms);
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

static bool is_urgent(const struct sweeper *unused, const struct sweeper_queue *q, int64_t now_ms)
{
	(void)unused;
	(void)q;
	(void)now_ms;
	return urgent;
}

static const char *step(const struct sweeper_queue *q)
{
	(void)q;
	return "step";
}

const struct task led_task = { .name = "led", .interval_ms = FAR_MS - 1, .budget = 7, .leads = true, .wanted = is_wanted, .run_queue = run_led,
	.stop = stop_led, .free = free_led, .state_size = sizeof(int) };
const struct task steady_task = { .name = "steady", .interval_ms = FAR_MS - 1, .budget = 7, .steady = true, .queues = 2, .wanted = is_wanted,
	.run_queue = run_in_queue, .urgent = is_urgent };
const struct task everywhere_task = { .name = "everywhere", .interval_ms = FAR_MS - 1, .budget = 7, .run_queue = run_in_queue };
const struct task woken_task = { .name = "woken", .interval_ms = TASK_WHEN_WOKEN_MS, .budget = 7, .wanted = is_wanted, .run_queue = run_in_queue,
	.urgent = is_urgent, .step = step };

static bool ask(struct sweeper *unused, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	(void)unused;
	(void)now_ms;
	assert_int_equal(budget, 7);
	snprintf(sent + strlen(sent), sizeof(sent) - strlen(sent), "?%d", (int)(q - queues));
	return q != &queues[2];		/* which has nothing to ask */
}

static enum task_end take(struct sweeper *unused, struct sweeper_queue *q, int64_t now_ms)
{
	(void)unused;
	(void)now_ms;
	snprintf(sent + strlen(sent), sizeof(sent) - strlen(sent), "!%d", (int)(q - queues));
	return runs[q - queues]++ == 0 ? ends : TASK_DONE;
}

const struct task asking_task = { .name = "asking", .interval_ms = 1000, .budget = 7, .wanted = is_wanted, .ask = ask, .take = take };

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

static bool is_pending(const struct sweeper *unused)
{
	(void)unused;
	return pending;
}

const struct task whole_task = { .name = "whole", .interval_ms = 60000, .per_lease = 4, .budget = 1, .run = run_whole, .finishing = true, .own_size = sizeof(int),
	.each_turn = count_turn, .connected = refuse_connection, .disconnected = count_event, .settle = count_event, .is_pending = is_pending,
	.free_own = count_event };

/* ---- the rest of the core ---- */

bool lead_is_ours(const struct sweeper_queue *q)
{
	(void)q;
	return ours;
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
	removed++;
}

void task_error_init(struct task_error *t, bool leads)
{
	t->leads = leads;
}

int task_error_note(struct sweeper *unused, struct sweeper_queue *q, struct task_error *t, const char *at, int64_t now_ms)
{
	(void)unused;
	(void)q;
	noted_at = at;
	t->kind = QUEUE_ERROR_OTHER;
	t->retry_at_ms = now_ms + FAR_MS + 1;
	noted++;
	return -1;
}

void task_error_clear(struct sweeper *unused, struct sweeper_queue *q, struct task_error *t)
{
	(void)unused;
	(void)q;
	*t = (struct task_error){ .leads = t->leads };
	cleared++;
}

bool subprocess_pollfd(const struct subprocess *e, struct pollfd *p)
{
	(void)e;
	(void)p;
	return false;
}

/* ---- tests ---- */

static int start_with(const struct task *const *table, size_t n)
{
	static struct conf conf;

	conf.supervisor.lease_ms = 30000;
	s = (struct sweeper){ .conf = &conf };
	s.redis.state = REDIS_READY;
	TAILQ_INIT(&s.queues);
	tasks_init(&s, table, n);
	for (int i = 0; i < QUEUES; i++) {
		queues[i] = (struct sweeper_queue){0};
		tasks_enter(&s, &queues[i]);
		TAILQ_INSERT_TAIL(&s.queues, &queues[i], entry);
		wanted[i] = i == 0;
		runs[i] = stops[i] = 0;
	}
	ours = may_stop = true;
	urgent = pending = false;
	noted = cleared = freed = removed = events = 0;
	ends = TASK_DONE;
	wake_ms = 0;
	sent[0] = '\0';
	return 0;
}

#define STARTS(name) \
	static int start_##name(void **state) \
	{ \
		static const struct task *const table[] = { &name##_task }; \
		(void)state; \
		return start_with(table, 1); \
	}
STARTS(everywhere) STARTS(led) STARTS(steady) STARTS(asking) STARTS(woken) STARTS(whole)

static int stop(void **state)
{
	struct sweeper_queue *q;

	(void)state;
	TAILQ_FOREACH(q, &s.queues, entry)
		tasks_leave(q);
	tasks_free(&s);
	return 0;
}

static struct task_in_queue *in(int queue)
{
	return &queues[queue].tasks.in[0];
}

static void a_queue_that_wants_it_runs_once_an_interval(void **state)
{
	(void)state;
	assert_false(tasks_run(&s));
	assert_false(tasks_run(&s));
	assert_int_equal(runs[0], 1);
	assert_int_equal(runs[1], 0);
	assert_int_equal(cleared, 1);
	assert_true(tasks_wake_ms(&s, INT64_MAX) >= FAR_MS - 1);
	assert_int_equal(tasks_wake_ms(&s, 5), 5);
}

static void more_runs_in_the_next_turn(void **state)
{
	(void)state;
	ends = TASK_MORE;
	assert_true(tasks_run(&s));
	assert_true(tasks_run(&s));
	assert_int_equal(runs[0], 2);
	assert_int_equal(*(int *)task_state(&queues[0], &led_task), 2);
}

static void it_runs_at_the_time_that_it_asks_for(void **state)
{
	(void)state;
	wake_ms = 1;			/* long ago */
	assert_true(tasks_run(&s));
	wake_ms = INT64_MAX;
	assert_false(tasks_run(&s));
	assert_false(tasks_run(&s));
	assert_int_equal(runs[0], 2);
}

static void after_an_error_it_waits_for_the_back_off(void **state)
{
	(void)state;
	ends = TASK_FAILED;
	assert_false(tasks_run(&s));
	assert_int_equal(noted, 1);
	assert_string_equal(noted_at, "led");
	assert_int_equal(in(0)->at_ms, in(0)->error.retry_at_ms);
	assert_true(in(0)->error.leads && task_fails(&queues[0], &led_task));
	ends = TASK_DONE;
	task_wake_at(&queues[0], &led_task, 0);
	assert_false(tasks_run(&s));
	assert_int_equal(cleared, 1);
}

static void a_steady_task_runs_as_often_after_an_error(void **state)
{
	(void)state;
	ends = TASK_FAILED;
	assert_false(tasks_run(&s));
	assert_int_equal(noted, 1);
	assert_true(in(0)->at_ms < in(0)->error.retry_at_ms);
	urgent = true;
	tasks_run(&s);
	assert_int_equal(runs[0], 2);	/* and at once if it is urgent */
}

static void an_error_of_the_connection_is_not_the_queues(void **state)
{
	struct task_in_queue *t = in(0);

	(void)state;
	assert_true(task_run_now(&s, &queues[0], &led_task, 1));
	assert_int_equal(cleared, 1);
	s.redis.state = REDIS_CLOSED;
	ends = TASK_FAILED;
	assert_true(task_run_now(&s, &queues[0], &led_task, 1));
	assert_int_equal(noted, 0);
	assert_int_equal(cleared, 1);
	assert_true(t->runs);
}

static void one_that_lost_the_lead_is_stopped_once(void **state)
{
	(void)state;
	tasks_run(&s);
	ours = may_stop = false;
	tasks_run(&s);
	tasks_run(&s);
	assert_int_equal(stops[0], 2);	/* asked until it can be stopped */
	may_stop = true;
	tasks_run(&s);
	tasks_run(&s);
	assert_int_equal(stops[0], 3);
	assert_int_equal(stops[1], 0);	/* it never ran there */
	assert_int_equal(runs[0], 1);
}

/* A queue has a leader only if a task wants one. */
static void a_task_that_leads_needs_a_leader(void **state)
{
	(void)state;
	assert_true(tasks_need_lead(&s, &queues[0]));
	assert_false(tasks_need_lead(&s, &queues[1]));
}

static void other_tasks_need_no_leader(void **state)
{
	(void)state;
	assert_false(tasks_need_lead(&s, &queues[0]));
}

/* Nor does it keep the loop from sleeping. */
static void it_does_not_run_after_the_order_to_finish(void **state)
{
	(void)state;
	s.loop.finish_by_ms = 1;
	assert_false(tasks_run(&s));
	assert_int_equal(runs[0], 0);
	assert_int_equal(tasks_wake_ms(&s, 5), 5);
}

static void so_many_queues_run_a_turn(void **state)
{
	(void)state;
	for (int i = 0; i < QUEUES; i++)
		wanted[i] = true;
	assert_true(tasks_run(&s));
	assert_int_equal(runs[0] + runs[1] + runs[2], 2);
	assert_false(tasks_run(&s));
	assert_int_equal(runs[2], 1);
}

static void a_queue_that_nobody_needs_is_removed(void **state)
{
	(void)state;
	wanted[1] = true;
	ends = TASK_REMOVE;
	assert_false(tasks_run(&s));
	assert_int_equal(removed, 2);
	assert_int_equal(freed, 2);	/* with its state */
	assert_ptr_equal(TAILQ_FIRST(&s.queues), &queues[2]);
}

/* ---- tasks that ask ---- */

static void requests_of_all_queues_come_before_their_answers(void **state)
{
	(void)state;
	for (int i = 0; i < QUEUES; i++)
		wanted[i] = true;
	assert_false(tasks_run(&s));
	assert_string_equal(sent, "?0?1?2!0!1");
	assert_false(tasks_run(&s));
	assert_string_equal(sent, "?0?1?2!0!1");	/* not before the next interval, */
	assert_int_equal(in(0)->at_ms % 1000, 0);
	assert_int_equal(in(0)->at_ms, in(1)->at_ms);	/* which begins for all of them at once */
}

static void another_request_goes_out_in_the_same_turn(void **state)
{
	(void)state;
	wanted[1] = true;
	ends = TASK_ASK;
	assert_false(tasks_run(&s));
	assert_string_equal(sent, "?0?1!0!1?0?1!0!1");
	assert_int_equal(cleared, 2);
}

static void no_answer_is_taken_from_a_lost_connection(void **state)
{
	(void)state;
	s.redis.state = REDIS_CLOSED;
	tasks_run(&s);
	assert_string_equal(sent, "");
	s.redis.state = REDIS_READY;
	ends = TASK_FAILED;
	tasks_run(&s);
	assert_string_equal(sent, "?0!0");
	assert_int_equal(noted, 1);
	assert_int_equal(in(0)->at_ms, in(0)->error.retry_at_ms);
}

/* ---- tasks that are woken ---- */

static void it_runs_only_when_it_is_woken(void **state)
{
	int64_t now_ms = clock_monotonic_ms();

	(void)state;
	wanted[1] = true;
	assert_false(tasks_run(&s));
	assert_int_equal(runs[0], 0);
	assert_true(task_wake_all(&s, &woken_task, now_ms));
	assert_false(task_wake_all(&s, &woken_task, now_ms));	/* they wait for their turn */
	assert_false(tasks_run(&s));
	assert_int_equal(runs[0] + runs[1], 2);
	assert_int_equal(runs[2], 0);
	assert_true(task_wake_all(&s, &woken_task, now_ms));
}

static void waking_does_not_end_a_back_off(void **state)
{
	int64_t now_ms = clock_monotonic_ms();

	(void)state;
	ends = TASK_FAILED;
	assert_true(task_wake_all(&s, &woken_task, now_ms));
	tasks_run(&s);
	assert_string_equal(noted_at, "step");
	assert_true(task_wake_all(&s, &woken_task, now_ms));
	urgent = true;
	tasks_run(&s);
	assert_int_equal(runs[0], 1);
}

static void a_task_without_wanted_runs_in_every_queue(void **state)
{
	(void)state;
	assert_false(tasks_run(&s));
	assert_true(runs[0] == 1 && runs[1] == 1 && runs[2] == 1);
}

static void what_is_urgent_runs_at_once(void **state)
{
	(void)state;
	urgent = true;
	tasks_run(&s);
	assert_int_equal(runs[0], 1);
}

/* ---- tasks of the whole sweeper ---- */

static void it_runs_so_often_in_a_lease(void **state)
{
	int64_t now_ms = clock_monotonic_ms();

	(void)state;
	assert_false(tasks_run(&s));
	assert_false(tasks_run(&s));
	assert_int_equal(*(int *)task_own(&s, &whole_task), 1);
	assert_true(tasks_wake_ms(&s, INT64_MAX) - now_ms < 7500 + 5000);
	s.loop.finish_by_ms = 1;		/* this one still runs */
	s.tasks.in[0].due_ms = 0;
	assert_false(tasks_run(&s));
	assert_int_equal(*(int *)task_own(&s, &whole_task), 2);
}

static void events_reach_the_tasks(void **state)
{
	(void)state;
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

#define T(test, with) cmocka_unit_test_setup_teardown(test, start_##with, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_queue_that_wants_it_runs_once_an_interval, led),
		T(more_runs_in_the_next_turn, led),
		T(it_runs_at_the_time_that_it_asks_for, led),
		T(after_an_error_it_waits_for_the_back_off, led),
		T(a_steady_task_runs_as_often_after_an_error, steady),
		T(an_error_of_the_connection_is_not_the_queues, led),
		T(one_that_lost_the_lead_is_stopped_once, led),
		T(a_task_that_leads_needs_a_leader, led),
		T(other_tasks_need_no_leader, steady),
		T(it_does_not_run_after_the_order_to_finish, led),
		T(so_many_queues_run_a_turn, steady),
		T(a_queue_that_nobody_needs_is_removed, led),
		T(requests_of_all_queues_come_before_their_answers, asking),
		T(another_request_goes_out_in_the_same_turn, asking),
		T(no_answer_is_taken_from_a_lost_connection, asking),
		T(it_runs_only_when_it_is_woken, woken),
		T(waking_does_not_end_a_back_off, woken),
		T(a_task_without_wanted_runs_in_every_queue, everywhere),
		T(what_is_urgent_runs_at_once, woken),
		T(it_runs_so_often_in_a_lease, whole),
		T(events_reach_the_tasks, whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
