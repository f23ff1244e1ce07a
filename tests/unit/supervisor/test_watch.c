/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
#include <signal.h>
#include <string.h>

#include "tests/unit/supervisor/master_fixture.h"
#include "tests/unit/unit.h"

#define LEASE_MS 16000
#define HANDLER (MASTER_PID + 1000)

static struct processes *ps = &m.processes;

static struct slot *words(int slot)
{
	return &m.board->slots[slot];
}

static pid_t pid_of(int slot)
{
	return ps->items[slot].pid;
}

/* Its loop turned last at this time. */
static void turned(int slot, int64_t now_ms)
{
	atomic_store(&words(slot)->heartbeat_ms, now_ms);
}

static int add_running(void)
{
	int slot = master_add_worker(MAIL, 0, 1);		/* a heartbeat of 0 is none */

	slot_set_state(words(slot), SLOT_RUNNING);
	return slot;
}

/* ---- a worker that stands still ---- */

TEST(a_child_that_turns_is_left_alone, master_setup, master_teardown)
{
	int slot = add_running();

	for (int64_t now = 0; now < 100000; now += 9000) {
		turned(slot, now);
		watch_children(ps, now + 9000);
	}
	assert_int_equal(master_signals(0, 0), 0);
}

TEST(a_child_that_stands_still_is_aborted_at_the_second_look, master_setup, master_teardown)
{
	int slot = add_running();

	turned(slot, 1000);
	watch_children(ps, 11000);
	assert_int_equal(ps->items[slot].stuck_heartbeat_ms, 0);	/* exactly at its limit */
	watch_children(ps, 11001);
	assert_int_equal(master_signals(0, 0), 0);
	watch_children(ps, 12000);
	assert_int_equal(master_signals(pid_of(slot), SIGABRT), 1);
	assert_int_equal(master_signals(pid_of(slot), SIGCONT), 1);
	assert_logged("worker_stuck", "queue=mail worker=mail/0");
	assert_logged("worker_stuck", "heartbeat_age_ms=11000");
}

TEST(a_child_that_turned_between_two_looks_has_another_two, master_setup, master_teardown)
{
	int slot = add_running();

	watch_children(ps, 20000);
	turned(slot, 5000);		/* also late, but it moves */
	watch_children(ps, 21000);
	assert_int_equal(master_signals(0, 0), 0);
	turned(slot, 21000);
	watch_children(ps, 22000);
	assert_int_equal(ps->items[slot].stuck_heartbeat_ms, 0);
	watch_children(ps, 40000);
	assert_int_equal(master_signals(0, 0), 0);
	watch_children(ps, 41000);
	assert_int_equal(master_signals(pid_of(slot), SIGABRT), 1);
}

TEST(a_child_that_survives_abort_is_killed_with_its_handler, master_setup, master_teardown)
{
	int slot = add_running();

	atomic_store(&words(slot)->handler_pgid, HANDLER);
	watch_children(ps, 20000);
	watch_children(ps, 21000);
	watch_children(ps, 25999);
	assert_int_equal(master_signals(pid_of(slot), SIGKILL), 0);
	watch_children(ps, 26000);
	assert_int_equal(master_signals(pid_of(slot), SIGKILL), 1);
	assert_int_equal(master_signals(-HANDLER, SIGKILL), 1);
	assert_logged("worker_overdue", "worker=mail/0");
}

TEST(abort_does_not_prolong_the_time_of_a_child_that_must_end, master_setup, master_teardown)
{
	int slot = add_running();

	processes_kill_at(ps, slot, 22000);
	watch_children(ps, 20000);
	watch_children(ps, 21000);
	assert_int_equal(master_signals(pid_of(slot), SIGABRT), 1);
	assert_int_equal(ps->items[slot].kill_at_ms, 22000);
}

TEST(a_long_handler_has_until_its_deadline, master_setup, master_teardown)
{
	int slot = add_running();

	atomic_store(&words(slot)->deadline_ms, 60000);
	watch_children(ps, 69000);
	watch_children(ps, 70000);
	assert_int_equal(master_signals(0, 0), 0);
	watch_children(ps, 70001);
	watch_children(ps, 71000);
	assert_int_equal(master_signals(pid_of(slot), SIGABRT), 1);
}

TEST(a_worker_that_connects_has_no_more_time, master_setup, master_teardown)
{
	static const enum slot_state states[] = { SLOT_STARTING, SLOT_CONNECTING };

	for (int i = 0; i < 2; i++) {
		int slot = master_add_worker(MAIL, i, 1000);

		slot_set_state(words(slot), states[i]);
		watch_children(ps, 10000);
		watch_children(ps, 11000);
		assert_int_equal(master_signals(pid_of(slot), 0), 0);
		watch_children(ps, 11001);
		watch_children(ps, 12000);
		assert_int_equal(master_signals(pid_of(slot), SIGABRT), 1);
		master_end_worker(slot, true, 12000);
		master_forget_signals();
	}
}

TEST(a_sweeper_that_connects_has_ten_seconds, master_setup, master_teardown)
{
	int slot = master_add_sweeper(0, 1);

	slot_set_state(words(slot), SLOT_CONNECTING);
	watch_children(ps, 10000);
	watch_children(ps, 11000);
	assert_int_equal(master_signals(0, 0), 0);
	watch_children(ps, 11001);
	watch_children(ps, 12000);
	assert_int_equal(master_signals(pid_of(slot), SIGABRT), 1);
	assert_null(strstr(master_logged("worker_stuck"), "queue="));
}

TEST(the_keeper_has_no_heartbeat_but_an_end, master_setup, master_teardown)
{
	int slot = master_add_keeper(0);

	watch_children(ps, 1000000);
	watch_children(ps, 1001000);
	assert_int_equal(master_signals(0, 0), 0);
	processes_kill_at(ps, slot, 1002000);
	watch_children(ps, 1002000);
	assert_int_equal(master_signals(pid_of(slot), SIGKILL), 1);
}

TEST(a_kill_is_repeated_every_five_seconds, master_setup, master_teardown)
{
	int slot = add_running();

	processes_kill_at(ps, slot, 1000);
	watch_children(ps, 999);
	assert_int_equal(master_signals(0, 0), 0);
	watch_children(ps, 1000);
	watch_children(ps, 5999);
	assert_int_equal(master_signals(pid_of(slot), SIGKILL), 1);
	watch_children(ps, 6000);
	assert_int_equal(master_signals(pid_of(slot), SIGKILL), 2);
}

/* ---- a lease that runs out ---- */

TEST(a_worker_is_killed_when_its_fence_is_reached, master_setup, master_teardown)
{
	int slot = add_running();

	atomic_store(&words(slot)->handler_pgid, HANDLER);
	atomic_store(&words(slot)->fence_ms, 50000);		/* another clock than that of now_ms */
	assert_int_equal(watch_fences(ps, LEASE_MS, 700, 49500), 700 + 500);
	assert_int_equal(master_signals(0, 0), 0);
	watch_fences(ps, LEASE_MS, 1200, 50000);
	assert_int_equal(master_signals(pid_of(slot), SIGKILL), 1);
	assert_int_equal(master_signals(-HANDLER, SIGKILL), 1);
	assert_true(ps->items[slot].fenced);
	assert_logged("worker_fenced", "worker=mail/0");
}

TEST(a_fenced_worker_is_killed_once, master_setup, master_teardown)
{
	int slot = add_running();

	atomic_store(&words(slot)->fence_ms, 50000);
	watch_fences(ps, LEASE_MS, 0, 50000);
	assert_int_equal(watch_fences(ps, LEASE_MS, 100, 50100), INT64_MAX);
	assert_int_equal(master_signals(pid_of(slot), SIGKILL), 1);
}

TEST(a_fence_that_is_far_is_looked_at_sixteen_times_a_lease, master_setup, master_teardown)
{
	int slot = add_running();

	atomic_store(&words(slot)->fence_ms, 50000);
	assert_int_equal(watch_fences(ps, LEASE_MS, 0, 1000), LEASE_MS / 16);
}

TEST(a_queue_with_fence_kill_is_looked_at_before_a_handler_runs, master_setup, master_teardown)
{
	int slot = add_running();

	assert_int_equal(watch_fences(ps, LEASE_MS, 0, 1000), INT64_MAX);
	ps->items[slot].role.fence_kills = true;
	assert_int_equal(watch_fences(ps, LEASE_MS, 0, 1000), LEASE_MS / 16);
	assert_int_equal(master_signals(0, 0), 0);
}

TEST(the_nearest_fence_decides_when_to_look, master_setup, master_teardown)
{
	int near = add_running(), far = add_running();

	atomic_store(&words(far)->fence_ms, 90000);
	atomic_store(&words(near)->fence_ms, 1010);
	assert_int_equal(watch_fences(ps, LEASE_MS, 500, 1000), 510);
	watch_fences(ps, LEASE_MS, 510, 1010);
	assert_int_equal(master_signals(pid_of(near), SIGKILL), 1);
	assert_int_equal(master_signals(pid_of(far), 0), 0);
}

UNIT_MAIN(NULL, NULL)
