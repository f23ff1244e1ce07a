/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/supervisor/master_fixture.h"
#include "tests/unit/unit.h"

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

TEST(a_drain_goes_through_all_phases_each_when_the_last_is_over, setup, master_teardown)
{
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

TEST(a_stop_without_children_is_over_at_once, setup, master_teardown)
{
	worker_ends(false, 0);
	processes_release(&m.processes, sweeper);
	processes_release(&m.processes, keeper);
	stop_begin(&m, false, "SIGTERM", 0);
	stop_step(&m, 0);
	assert_int_equal(m.stop.phase, STOP_GONE);
}

TEST(a_fast_stop_begins_with_handing_back, setup, master_teardown)
{
	stop_begin(&m, true, "SIGQUIT", 1000);
	assert_int_equal(m.stop.phase, STOP_HANDING_BACK);
	assert_int_equal(order_of(worker), ORDER_HAND_BACK);
	assert_int_not_equal(m.processes.items[worker].kill_at_ms, 0);
	assert_logged("stopping", "info reason=SIGQUIT how=fast workers=1");
}

TEST(a_fast_stop_hurries_a_drain_and_is_never_slowed_down, setup, master_teardown)
{
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

TEST(a_second_interrupt_makes_the_stop_fast, setup, master_teardown)
{
	stop_interrupt(&m, 1000);
	assert_int_equal(m.stop.phase, STOP_FINISHING);
	stop_interrupt(&m, 2000);
	assert_int_equal(m.stop.phase, STOP_HANDING_BACK);
	stop_interrupt(&m, 3000);
	assert_int_equal(m.stop.phase, STOP_HANDING_BACK);
}

TEST(an_interrupt_after_another_stop_is_the_first_one, setup, master_teardown)
{
	stop_begin(&m, false, "SIGTERM", 1000);
	stop_interrupt(&m, 2000);
	assert_int_equal(m.stop.phase, STOP_FINISHING);
	stop_interrupt(&m, 3000);
	assert_int_equal(m.stop.phase, STOP_HANDING_BACK);
}

TEST(a_drain_that_takes_too_long_hands_back, setup, master_teardown)
{
	stop_begin(&m, false, "SIGTERM", 1000);
	assert_int_equal(stop_step(&m, 1000), 1000 + DRAIN_MS);
	assert_int_equal(stop_step(&m, 1000 + DRAIN_MS - 1), 1000 + DRAIN_MS);
	assert_int_equal(order_of(worker), ORDER_FINISH);
	assert_int_equal(stop_step(&m, 1000 + DRAIN_MS), INT64_MAX);
	assert_int_equal(order_of(worker), ORDER_HAND_BACK);
	assert_logged("drain_timeout", "warning workers=1");
	assert_int_equal(m.stop.since_ms, 1000 + DRAIN_MS);
}

TEST(workers_that_leave_are_stopped_with_the_others, setup, master_teardown)
{
	queues_recycle(&m.queues, MAIL, 0);
	stop_begin(&m, false, "SIGTERM", 1000);
	assert_int_equal(order_of(worker), ORDER_FINISH);
	stop_step(&m, 1000);
	assert_int_equal(m.stop.phase, STOP_FINISHING);
}

/* ---- confirming ---- */

TEST(open_deaths_have_five_seconds_to_be_confirmed, setup, master_teardown)
{
	stop_begin(&m, true, "SIGQUIT", 0);
	worker_ends(true, 1000);
	assert_int_equal(stop_step(&m, 1000), 6000);
	assert_int_equal(m.stop.phase, STOP_CONFIRMING);
	stop_step(&m, 5999);
	assert_int_equal(order_of(sweeper), ORDER_RUN);
	stop_step(&m, 6000);
	assert_int_equal(m.stop.phase, STOP_SWEEPER);
}

TEST(a_death_that_is_confirmed_ends_the_wait, setup, master_teardown)
{
	stop_begin(&m, true, "SIGQUIT", 0);
	worker_ends(true, 1000);
	stop_step(&m, 1000);
	m.deaths.n = 0;
	stop_step(&m, 1100);
	assert_int_equal(m.stop.phase, STOP_SWEEPER);
}

TEST(orphans_may_still_add_a_death, setup, master_teardown)
{
	orphans_expect(&m.orphans, 500);
	stop_begin(&m, true, "SIGQUIT", 0);
	worker_ends(false, 1000);
	stop_step(&m, 1000);
	assert_int_equal(m.stop.phase, STOP_CONFIRMING);
}

TEST(without_redis_or_sweeper_a_second_is_enough, setup, master_teardown)
{
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

TEST(the_keeper_loses_its_pipe_and_has_75_seconds, setup, master_teardown)
{
	int pipe_fd[2];

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

UNIT_MAIN(NULL, NULL)
