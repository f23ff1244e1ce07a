/* links: tests/unit/worker/worker_fixture.c tests/unit/worker/fake_persistent.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* When the process of a handler that says READY starts, and what follows if it does not say it. */
#include "common/handler/cause.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/fake_persistent.h"
#include "tests/unit/worker/worker_fixture.h"

#define SIBLING 7		/* the slot of another worker of the queue */

static int setup(void **state)
{
	fixture_setup(state);
	fixture.queue.ready = true;
	w->starter.runner = &runner_persistent;
	runner_persistent.init(w);
	process.ready = false;
	process.loads = true;
	atomic_store(&fixture.board.master.queue_of[SIBLING], fixture.child.queue_index + 1);
	return 0;
}

static int teardown(void **state)
{
	runner_persistent.free(w);
	return fixture_teardown(state);
}

static void turn(void)
{
	runner_persistent.end(w, fixture_now_ms());
}

static void say_ready(void)
{
	process.ready = true;
	process.loads = false;
	turn();
}

static void end_before_ready(void)
{
	process.has_ended = true;
	process.end = (struct persistent_end){ .how = PERSISTENT_EXITED, .code = 1, .unread_from = UINT64_MAX, .stderr_tail = "" };
	turn();
}

static void sibling(enum slot_load load, bool loading)
{
	atomic_store(&fixture.board.slots[SIBLING].load, load);
	atomic_store(&fixture.board.slots[SIBLING].ready, load == SLOT_LOADED);
	atomic_store(&fixture.board.slots[SIBLING].loading, loading);
}

static int64_t pause_until_start(void)
{
	int starts = process.starts;
	int64_t begin = fixture_now_ms();

	while (process.starts == starts && fixture_now_ms() - begin < 200000) {
		int64_t due = loader_deadline_ms(w);

		assert_true(due > fixture_now_ms());
		fixture_pass_ms((due == INT64_MAX ? begin + 200000 : due) - fixture_now_ms());
		turn();
	}
	return fixture_now_ms() - begin;
}

static bool breaker_is_open(void)
{
	return breaker_until_ms(w->env->board) != 0;
}

TEST(the_first_start_needs_no_message, setup, teardown)
{
	assert_int_equal(atomic_load(&w->env->slot->load), SLOT_UNLOADED);
	turn();
	assert_int_equal(process.starts, 1);
	assert_int_equal(atomic_load(&w->env->slot->loading), 1);
	assert_int_equal(loader_deadline_ms(w), INT64_MAX);
	say_ready();
	assert_int_equal(atomic_load(&w->env->slot->load), SLOT_LOADED);
	assert_int_equal(atomic_load(&w->env->slot->loading), 0);
}

static uint32_t handler_of_worker(void)
{
	return atomic_load(&w->env->slot->handler_generation);
}

static uint32_t ready_at_start;

static void look_at_ready(void)
{
	ready_at_start = atomic_load(&w->env->slot->ready);
}

TEST(a_later_start_is_the_newest_handler, setup, teardown)
{
	struct queue_master *words = &w->env->board->master;

	turn();
	say_ready();
	assert_int_equal(atomic_load(&w->env->slot->ready), 1);
	atomic_store(&words->newest_generation, 1);
	process.ready = false;
	process.has_ended = true;
	process.end = (struct persistent_end){ .how = PERSISTENT_EXITED, .loaded = true, .asked = true, .unread_from = UINT64_MAX,
	    .stderr_tail = "" };
	process.fork_fails = true;
	process.at_start = look_at_ready;
	turn();
	assert_int_equal(process.starts, 2);
	assert_int_equal(ready_at_start, 0);		/* of the process that has ended */
	assert_int_equal(handler_of_worker(), 0);		/* no process has started */
	assert_int_equal(atomic_load(&w->env->slot->ready), 0);
	assert_int_equal(atomic_load(&w->env->slot->load), SLOT_LOADED);	/* for the other workers */
	process.fork_fails = false;
	process.loads = true;
	pause_until_start();
	assert_int_equal(handler_of_worker(), 1);
	assert_int_equal(atomic_load(&w->env->slot->handler_started_ms), fixture_now_ms());
	atomic_store(&words->conf_generation, 2);
	atomic_store(&words->newest_generation, 2);
	end_before_ready();
	pause_until_start();
	assert_int_equal(handler_of_worker(), 1);		/* it starts the one of its configuration */
}

TEST(a_worker_keeps_its_process_while_the_newest_handler_is_not_known_to_work, setup, teardown)
{
	struct queue_master *words = &w->env->board->master;

	turn();
	say_ready();
	assert_false(process.kept);
	atomic_store(&words->newest_generation, 1);		/* its successor loads */
	turn();
	assert_true(process.kept);
	atomic_store(&w->env->slot->handler_generation, 1);
	turn();
	assert_false(process.kept);
	atomic_store(&words->not_ready, NOT_READY_NEW);			/* it could load, and another worker could not */
	turn();
	assert_true(process.kept);
	atomic_store(&words->conf_generation, 2);		/* its next process would be of its old configuration */
	atomic_store(&words->newest_generation, 2);
	turn();
	assert_false(process.kept);
	atomic_store(&words->conf_generation, 0);
	atomic_store(&words->newest_generation, 1);
	atomic_store(&words->not_ready, NOT_READY_NONE);
	turn();
	assert_false(process.kept);
}

TEST(a_worker_without_a_name_starts_nothing, setup, teardown)
{
	w->session.incarnation[0] = '\0';
	turn();
	assert_int_equal(process.starts, 0);
}

TEST(a_failed_start_opens_the_breaker_which_ready_closes, setup, teardown)
{
	turn();
	end_before_ready();
	assert_true(breaker_is_open());
	assert_int_equal(atomic_load(&w->env->slot->load), SLOT_NOT_LOADED);
	assert_int_equal(fixture_logged("breaker_opened"), 1);
	pause_until_start();
	say_ready();
	assert_false(breaker_is_open());
	assert_int_equal(fixture_logged("breaker_closed"), 1);
}

TEST(a_handler_that_cannot_be_executed_is_a_failed_start, setup, teardown)
{
	turn();
	process.has_ended = true;
	process.end = (struct persistent_end){ .how = PERSISTENT_UNRUNNABLE, .error = 2, .stage = "execve", .code = -1,
		.unread_from = UINT64_MAX, .stderr_tail = "" };
	turn();
	assert_true(breaker_is_open());
	assert_int_equal(atomic_load(&w->env->board->workers.breaker.cause), handler_cause_unrunnable("execve", 2));
	assert_int_equal(atomic_load(&w->env->slot->load), SLOT_NOT_LOADED);
}

TEST(the_pauses_of_a_worker_grow, setup, teardown)
{
	int64_t first = 0, last = 0;

	turn();
	sibling(SLOT_LOADED, false);	/* so that only the back-off of this worker counts */
	for (int i = 0; i < 10; i++) {
		end_before_ready();
		last = pause_until_start();
		assert_in_range(last, 250, 30000);
		first = first == 0 ? last : first;
	}
	assert_true(first <= 500 && last >= 15000);
}

TEST(the_breaker_stays_closed_while_another_worker_is_ready, setup, teardown)
{
	turn();
	sibling(SLOT_LOADED, false);
	end_before_ready();
	assert_false(breaker_is_open());
	assert_int_equal(fixture_logged("breaker_opened"), 0);
	assert_int_equal(fixture_counted(COUNT_UNRUNNABLE), 1);
}

static void end_idle(void)
{
	process.has_ended = true;
	process.ready = false;
	process.end = (struct persistent_end){ .how = PERSISTENT_SIGNALED, .signal = 9, .code = -1, .loaded = true, .unread_from = UINT64_MAX,
		.stderr_tail = "" };
	turn();
}

TEST(a_ready_handler_that_ends_idle_stops_no_other_worker, setup, teardown)
{
	turn();
	say_ready();
	sibling(SLOT_LOADED, false);
	end_idle();
	assert_false(breaker_is_open());
	assert_int_equal(atomic_load(&w->env->slot->load), SLOT_LOADED);	/* its last start succeeded */
}

/* It was READY, and reads nothing: the next one, or that of another worker, need not be better. */
TEST(a_ready_handler_that_leaves_its_message_unread_opens_the_breaker, setup, teardown)
{
	turn();
	say_ready();
	sibling(SLOT_LOADED, false);
	process.has_ended = true;
	process.ready = false;
	process.end = (struct persistent_end){ .how = PERSISTENT_TIMED_OUT, .signal = 9, .code = -1, .loaded = true, .unanswered = 1, .oldest = 1,
		.unread_from = 1, .stderr_tail = "" };
	turn();
	assert_true(breaker_is_open());
	process.loads = true;
	pause_until_start();
	say_ready();
	assert_true(breaker_is_open());
}

TEST(the_next_ready_handler_ends_the_breaker_of_one_that_ended_idle, setup, teardown)
{
	turn();
	say_ready();
	end_idle();
	assert_true(breaker_is_open());
	assert_int_equal(atomic_load(&w->env->board->workers.breaker.cause), handler_cause_idle(-1, 9));
	process.loads = true;
	pause_until_start();
	say_ready();
	assert_false(breaker_is_open());
}

TEST(a_ready_worker_that_finishes_keeps_no_breaker_closed, setup, teardown)
{
	turn();
	sibling(SLOT_LOADED, false);
	atomic_store(&fixture.board.master.orders[SIBLING], ORDER_FINISH);
	end_before_ready();
	assert_true(breaker_is_open());
}

TEST(a_ready_worker_of_another_queue_keeps_no_breaker_closed, setup, teardown)
{
	turn();
	sibling(SLOT_LOADED, false);
	atomic_store(&fixture.board.master.queue_of[SIBLING], fixture.child.queue_index + 2);
	end_before_ready();
	assert_true(breaker_is_open());
}

TEST(after_a_failed_start_one_worker_loads_at_a_time, setup, teardown)
{
	turn();
	end_before_ready();
	sibling(SLOT_NOT_LOADED, true);
	assert_int_equal(pause_until_start(), 200000);		/* however long it takes */
	assert_int_equal(process.starts, 1);
	sibling(SLOT_NOT_LOADED, false);
	assert_in_range(pause_until_start(), 0, 250);
	assert_int_equal(process.starts, 2);
}

TEST(workers_whose_starts_did_not_fail_load_together, setup, teardown)
{
	sibling(SLOT_UNLOADED, true);
	turn();
	assert_int_equal(process.starts, 1);
}

TEST(the_pause_begins_when_a_long_load_has_failed, setup, teardown)
{
	turn();
	end_before_ready();
	pause_until_start();
	fixture_pass_ms(60000);		/* longer than the pause */
	end_before_ready();
	assert_true(breaker_until_ms(w->env->board) > fixture_now_ms());
}

UNIT_MAIN(NULL, NULL)
