/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/supervisor/master_fixture.h"

#define DRAIN_MS 30000

static int worker, sweeper, keeper;

static enum order order_of(int slot)
{
	return (enum order)atomic_load(&m.board->master.orders[slot]);
}

static int setup(void **state)
{
	int r = master_setup(state);

	m.config.conf->supervisor.drain_timeout_ms = DRAIN_MS;
	sweeper = master_add_sweeper(0, 0);
	slot_set_state(&m.board->slots[sweeper], SLOT_RUNNING);
	worker = master_add_worker(MAIL, 0, 0);
	keeper = master_add_keeper(0);
	return r;
}

static void worker_ends(bool died, int64_t now_ms)
{
	if (died) {
		slot_next_generation(&m.board->slots[worker]);
		deaths_add(&m.deaths, worker, BLAME_NOBODY, now_ms);
	}
	master_end_worker(worker, false, now_ms);
}

static void a_drain_goes_through_all_phases_each_when_the_last_is_over(void **state)
{
	(void)state;
	stop_begin(&m, false, "SIGTERM", 1000);
	assert_int_equal(m.stop.phase, STOP_FINISHING);
	assert_int_equal(order_of(worker), ORDER_FINISH);
	assert_int_equal(order_of(sweeper), ORDER_RUN);
	stop_step(&m, 1100);
	assert_int_equal(m.stop.phase, STOP_FINISHING);
	worker_ends(false, 2000);
	stop_step(&m, 2000);
	assert_int_equal(m.stop.phase, STOP_SWEEPER);
	assert_int_equal(m.stop.since_ms, 2000);
	assert_int_equal(order_of(sweeper), ORDER_FINISH);
	assert_int_equal(order_of(keeper), ORDER_RUN);
	processes_release(&m.processes, sweeper);
	stop_step(&m, 3000);
	assert_int_equal(m.stop.phase, STOP_KEEPER);
	processes_release(&m.processes, keeper);
	assert_int_equal(stop_step(&m, 4000), INT64_MAX);
	assert_int_equal(m.stop.phase, STOP_GONE);
}

static void a_stop_without_children_is_over_at_once(void **state)
{
	(void)state;
	worker_ends(false, 0);
	processes_release(&m.processes, sweeper);
	processes_release(&m.processes, keeper);
	stop_begin(&m, false, "SIGTERM", 0);
	stop_step(&m, 0);
	assert_int_equal(m.stop.phase, STOP_GONE);
}

static void a_fast_stop_begins_with_handing_back(void **state)
{
	(void)state;
	stop_begin(&m, true, "SIGQUIT", 1000);
	assert_int_equal(m.stop.phase, STOP_HANDING_BACK);
	assert_int_equal(order_of(worker), ORDER_HAND_BACK);
	assert_int_not_equal(m.processes.items[worker].kill_at_ms, 0);
	assert_logged("stopping", "info reason=SIGQUIT how=fast workers=1");
}

static void a_fast_stop_hurries_a_drain_and_is_never_slowed_down(void **state)
{
	(void)state;
	stop_begin(&m, false, "SIGTERM", 1000);
	stop_begin(&m, false, "SIGTERM", 2000);
	assert_int_equal(m.stop.since_ms, 1000);
	assert_int_equal(master_count_events("stopping"), 1);
	stop_begin(&m, true, "control socket", 3000);
	assert_int_equal(m.stop.phase, STOP_HANDING_BACK);
	stop_begin(&m, false, "SIGTERM", 4000);
	stop_begin(&m, true, "SIGQUIT", 4000);
	assert_int_equal(m.stop.phase, STOP_HANDING_BACK);
	assert_int_equal(m.stop.since_ms, 3000);
	assert_int_equal(master_count_events("stopping"), 2);
}

static void a_second_interrupt_makes_the_stop_fast(void **state)
{
	(void)state;
	stop_interrupt(&m, 1000);
	assert_int_equal(m.stop.phase, STOP_FINISHING);
	stop_interrupt(&m, 2000);
	assert_int_equal(m.stop.phase, STOP_HANDING_BACK);
	stop_interrupt(&m, 3000);
	assert_int_equal(m.stop.phase, STOP_HANDING_BACK);
}

static void an_interrupt_after_another_stop_is_the_first_one(void **state)
{
	(void)state;
	stop_begin(&m, false, "SIGTERM", 1000);
	stop_interrupt(&m, 2000);
	assert_int_equal(m.stop.phase, STOP_FINISHING);
	stop_interrupt(&m, 3000);
	assert_int_equal(m.stop.phase, STOP_HANDING_BACK);
}

static void a_drain_that_takes_too_long_hands_back(void **state)
{
	(void)state;
	stop_begin(&m, false, "SIGTERM", 1000);
	assert_int_equal(stop_step(&m, 1000), 1000 + DRAIN_MS);
	assert_int_equal(stop_step(&m, 1000 + DRAIN_MS - 1), 1000 + DRAIN_MS);
	assert_int_equal(order_of(worker), ORDER_FINISH);
	assert_int_equal(stop_step(&m, 1000 + DRAIN_MS), INT64_MAX);
	assert_int_equal(order_of(worker), ORDER_HAND_BACK);
	assert_logged("drain_timeout", "warning workers=1");
	assert_int_equal(m.stop.since_ms, 1000 + DRAIN_MS);
}

static void workers_that_leave_are_stopped_with_the_others(void **state)
{
	(void)state;
	queues_recycle(&m.queues, MAIL, 0);
	stop_begin(&m, false, "SIGTERM", 1000);
	assert_int_equal(order_of(worker), ORDER_FINISH);
	stop_step(&m, 1000);
	assert_int_equal(m.stop.phase, STOP_FINISHING);
}

/* ---- confirming ---- */

static void open_deaths_have_five_seconds_to_be_confirmed(void **state)
{
	(void)state;
	stop_begin(&m, true, "SIGQUIT", 0);
	worker_ends(true, 1000);
	assert_int_equal(stop_step(&m, 1000), 6000);
	assert_int_equal(m.stop.phase, STOP_CONFIRMING);
	stop_step(&m, 5999);
	assert_int_equal(order_of(sweeper), ORDER_RUN);
	stop_step(&m, 6000);
	assert_int_equal(m.stop.phase, STOP_SWEEPER);
}

static void a_death_that_is_confirmed_ends_the_wait(void **state)
{
	(void)state;
	stop_begin(&m, true, "SIGQUIT", 0);
	worker_ends(true, 1000);
	stop_step(&m, 1000);
	m.deaths.n = 0;
	stop_step(&m, 1100);
	assert_int_equal(m.stop.phase, STOP_SWEEPER);
}

static void orphans_may_still_add_a_death(void **state)
{
	(void)state;
	orphans_expect(&m.orphans, 500);
	stop_begin(&m, true, "SIGQUIT", 0);
	worker_ends(false, 1000);
	stop_step(&m, 1000);
	assert_int_equal(m.stop.phase, STOP_CONFIRMING);
}

static void without_redis_or_sweeper_a_second_is_enough(void **state)
{
	(void)state;
	slot_set_state(&m.board->slots[sweeper], SLOT_CONNECTING);
	stop_begin(&m, true, "SIGQUIT", 0);
	worker_ends(true, 1000);
	assert_int_equal(stop_step(&m, 1000), 2000);
	processes_release(&m.processes, sweeper);
	assert_int_equal(stop_step(&m, 1500), 2000);
	stop_step(&m, 2000);
	assert_int_equal(m.stop.phase, STOP_KEEPER);
}

/* ---- the keeper ---- */

static void the_keeper_loses_its_pipe_and_has_75_seconds(void **state)
{
	int pipe_fd[2];

	(void)state;
	assert_int_equal(pipe(pipe_fd), 0);
	m.spawner.keeper_fd[1] = pipe_fd[1];
	stop_begin(&m, false, "SIGTERM", 0);
	worker_ends(false, 0);
	stop_step(&m, 0);
	assert_int_equal(fcntl(pipe_fd[1], F_GETFD), 0);
	processes_release(&m.processes, sweeper);
	stop_step(&m, 1000);
	assert_int_equal(m.stop.phase, STOP_KEEPER);
	assert_int_equal(m.spawner.keeper_fd[1], -1);
	assert_int_equal(fcntl(pipe_fd[1], F_GETFD), -1);
	assert_int_equal(m.processes.items[keeper].kill_at_ms, 76000);
	assert_int_equal(order_of(keeper), ORDER_RUN);
	close(pipe_fd[0]);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, master_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_drain_goes_through_all_phases_each_when_the_last_is_over),
		T(a_stop_without_children_is_over_at_once),
		T(a_fast_stop_begins_with_handing_back),
		T(a_fast_stop_hurries_a_drain_and_is_never_slowed_down),
		T(a_second_interrupt_makes_the_stop_fast),
		T(an_interrupt_after_another_stop_is_the_first_one),
		T(a_drain_that_takes_too_long_hands_back),
		T(workers_that_leave_are_stopped_with_the_others),
		T(open_deaths_have_five_seconds_to_be_confirmed),
		T(a_death_that_is_confirmed_ends_the_wait),
		T(orphans_may_still_add_a_death),
		T(without_redis_or_sweeper_a_second_is_enough),
		T(the_keeper_loses_its_pipe_and_has_75_seconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
