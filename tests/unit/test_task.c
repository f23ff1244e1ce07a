/* links: sweeper/task.c common/alloc.c common/clock.c */

/* The core of the sweeper with tasks of this file: when a task runs in a queue, and what its end leads to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/clock.h"
#include "sweeper/errand.h"
#include "sweeper/sweeper.h"

#define FAR_MS (INT64_MAX / 2)
#define QUEUES 3

static struct sweeper s;
static struct swept queues[QUEUES];
static bool wanted[QUEUES], ours, may_stop;
static int runs[QUEUES], stops[QUEUES], noted, over, freed;
static enum task_end ends;
static int64_t wake_ms;			/* what the task asks for; 0: nothing */

/* ---- the task ---- */

static bool is_wanted(const struct sweeper *unused, const struct swept *q)
{
	(void)unused;
	return wanted[q - queues];
}

static enum task_end run_stamps(struct sweeper *unused, struct swept *q, int budget, int64_t now_ms)
{
	(void)unused;
	(void)now_ms;
	assert_int_equal(budget, 7);
	runs[q - queues]++;
	++*(int *)task_state(q, TASK_stamps);
	if (wake_ms != 0)
		task_wake_at(q, TASK_stamps, wake_ms);
	return ends;
}

static bool stop_stamps(struct sweeper *unused, struct swept *q, int64_t now_ms)
{
	(void)unused;
	(void)now_ms;
	stops[q - queues]++;
	return may_stop;
}

static void free_stamps(struct swept *q)
{
	(void)q;
	freed++;
}

const struct task stamps_task = { .name = "stamps", .interval_ms = FAR_MS, .budget = 7, .leads = true, .wanted = is_wanted, .run_queue = run_stamps,
	.stop = stop_stamps, .free = free_stamps, .state_size = sizeof(int) };
const struct task ttl_task = { .name = "ttl", .interval_ms = FAR_MS, .budget = 7, .steady = true, .queues = 2, .wanted = is_wanted,
	.run_queue = run_stamps };

/* All others do nothing, and not before the end of time. */
static bool rest(struct sweeper *unused, int budget, int64_t now_ms)
{
	(void)unused;
	(void)budget;
	(void)now_ms;
	return false;
}

#define RESTS(id) const struct task id##_task = { .name = #id, .interval_ms = FAR_MS, .run = rest };
RESTS(deaths) RESTS(rescue) RESTS(departures) RESTS(recover) RESTS(poll) RESTS(due) RESTS(pulse) RESTS(dead_boots) RESTS(look) RESTS(lead)
RESTS(registry) RESTS(secret) RESTS(tally) RESTS(purge) RESTS(transit) RESTS(vacancies) RESTS(aside) RESTS(orphans) RESTS(history) RESTS(metrics)
RESTS(health) RESTS(health_sum) RESTS(forward) RESTS(letters) RESTS(node) RESTS(clock) RESTS(server)

/* ---- the rest of the sweeper ---- */

void *task_state(const struct swept *q, enum task_id id)
{
	static int of_ttl;

	return id == TASK_stamps && q->tasks[id]->state != NULL ? q->tasks[id]->state : &of_ttl;
}

void task_wake_at(struct swept *q, enum task_id id, int64_t at_ms)
{
	q->tasks[id]->at_ms = at_ms;
}

bool lead_is_ours(const struct swept *q)
{
	(void)q;
	return ours;
}

bool sweeper_goes_on(struct sweeper *unused)
{
	(void)unused;
	return true;
}

void connection_drain(struct sweeper *unused)
{
	(void)unused;
}

int trouble_note(struct sweeper *unused, struct swept *q, struct trouble *t, const char *at, int64_t now_ms)
{
	(void)unused;
	(void)q;
	assert_true(at[0] == 's' || at[0] == 't');
	t->kind = TROUBLE_OTHER;
	t->retry_at_ms = now_ms + FAR_MS + 1;
	noted++;
	return -1;
}

void trouble_over(struct sweeper *unused, struct swept *q, struct trouble *t)
{
	(void)unused;
	(void)q;
	*t = (struct trouble){ .leads = t->leads };
	over++;
}

bool errand_pollfd(const struct errand *e, struct pollfd *p)
{
	(void)e;
	(void)p;
	return false;
}

/* ---- tests ---- */

static int start(void **state)
{
	static struct conf conf;

	(void)state;
	s = (struct sweeper){ .conf = &conf };
	s.task_due_ms = calloc(TASKS, sizeof(*s.task_due_ms));
	s.redis.state = REDIS_READY;
	TAILQ_INIT(&s.queues);
	for (int i = 0; i < QUEUES; i++) {
		queues[i] = (struct swept){0};
		tasks_enter(&queues[i]);
		TAILQ_INSERT_TAIL(&s.queues, &queues[i], entry);
		/* Of the two tasks here only stamps runs, unless a test wants ttl. */
		task_wake_at(&queues[i], TASK_ttl, INT64_MAX);
		wanted[i] = i == 0;
		runs[i] = stops[i] = 0;
	}
	ours = may_stop = true;
	noted = over = freed = 0;
	ends = TASK_DONE;
	wake_ms = 0;
	return 0;
}

static int stop(void **state)
{
	(void)state;
	for (int i = 0; i < QUEUES; i++)
		tasks_leave(&queues[i]);
	assert_int_equal(freed, QUEUES);
	free(s.task_due_ms);
	return 0;
}

static void a_queue_that_wants_it_once_an_interval(void **state)
{
	(void)state;
	assert_false(tasks_run(&s));
	assert_false(tasks_run(&s));
	assert_int_equal(runs[0], 1);
	assert_int_equal(runs[1], 0);
	assert_int_equal(over, 1);
	assert_true(tasks_wake_ms(&s, INT64_MAX) >= FAR_MS);
	assert_int_equal(tasks_wake_ms(&s, 5), 5);
}

static void more_in_the_next_turn(void **state)
{
	(void)state;
	ends = TASK_MORE;
	assert_true(tasks_run(&s));
	assert_true(tasks_run(&s));
	assert_int_equal(runs[0], 2);
	assert_int_equal(*(int *)task_state(&queues[0], TASK_stamps), 2);
}

static void at_the_time_that_it_asks_for(void **state)
{
	(void)state;
	wake_ms = 1;			/* long ago */
	assert_true(tasks_run(&s));
	wake_ms = INT64_MAX;
	assert_false(tasks_run(&s));
	assert_false(tasks_run(&s));
	assert_int_equal(runs[0], 2);
}

static void after_an_error_not_before_the_back_off(void **state)
{
	(void)state;
	ends = TASK_FAILED;
	assert_false(tasks_run(&s));
	assert_int_equal(noted, 1);
	assert_int_equal(queues[0].tasks[TASK_stamps]->at_ms, queues[0].tasks[TASK_stamps]->trouble.retry_at_ms);
	assert_true(queues[0].tasks[TASK_stamps]->trouble.leads);
	ends = TASK_DONE;
	task_wake_at(&queues[0], TASK_stamps, 0);
	assert_false(tasks_run(&s));
	assert_int_equal(over, 1);
}

static void a_steady_task_runs_as_often_after_an_error(void **state)
{
	(void)state;
	ours = false;			/* stamps does not run */
	task_wake_at(&queues[0], TASK_ttl, 0);
	ends = TASK_FAILED;
	assert_false(tasks_run(&s));
	assert_int_equal(noted, 1);
	assert_true(queues[0].tasks[TASK_ttl]->at_ms < queues[0].tasks[TASK_ttl]->trouble.retry_at_ms);
}

static void an_error_of_the_connection_is_not_the_queues(void **state)
{
	(void)state;
	s.redis.state = REDIS_CLOSED;
	ends = TASK_FAILED;
	tasks_run(&s);
	assert_int_equal(noted + over, 0);
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

/* Nor does it keep the loop from sleeping. */
static void none_after_the_order_to_finish(void **state)
{
	(void)state;
	s.finish_by_ms = 1;
	assert_false(tasks_run(&s));
	assert_int_equal(runs[0], 0);
	assert_int_equal(tasks_wake_ms(&s, 5), 5);
}

static void so_many_queues_a_turn(void **state)
{
	(void)state;
	ours = false;
	for (int i = 0; i < QUEUES; i++) {
		wanted[i] = true;
		task_wake_at(&queues[i], TASK_ttl, 0);
	}
	assert_true(tasks_run(&s));
	assert_int_equal(runs[0] + runs[1] + runs[2], 2);
	assert_false(tasks_run(&s));
	assert_int_equal(runs[2], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_queue_that_wants_it_once_an_interval, start, stop),
		cmocka_unit_test_setup_teardown(more_in_the_next_turn, start, stop),
		cmocka_unit_test_setup_teardown(at_the_time_that_it_asks_for, start, stop),
		cmocka_unit_test_setup_teardown(after_an_error_not_before_the_back_off, start, stop),
		cmocka_unit_test_setup_teardown(a_steady_task_runs_as_often_after_an_error, start, stop),
		cmocka_unit_test_setup_teardown(an_error_of_the_connection_is_not_the_queues, start, stop),
		cmocka_unit_test_setup_teardown(one_that_lost_the_lead_is_stopped_once, start, stop),
		cmocka_unit_test_setup_teardown(none_after_the_order_to_finish, start, stop),
		cmocka_unit_test_setup_teardown(so_many_queues_a_turn, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
