/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
#include <string.h>
#include <unistd.h>

#include "tests/unit/supervisor/master_fixture.h"
#include "tests/unit/unit.h"

static struct processes ps;

static int setup(void **state)
{
	(void)state;
	memset(&ps, 0, sizeof(ps));
	master_forget_signals();
	processes_init(&ps, scoreboard_new());
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	scoreboard_free(ps.board);
	return 0;
}

static int start(enum process_kind kind, int64_t now_ms)
{
	struct process_role role = { .kind = kind, .queue = kind == PROCESS_WORKER ? 3 : -1, .queue_name = "mail",
	    .index = 2, .kill_grace_ms = 500, .socket = -1 };
	int slot = processes_start(&ps, &role, ORDER_RUN, now_ms);

	processes_forked(&ps, slot, MASTER_PID + slot);
	return slot;
}

TEST(only_the_sweeper_takes_slot_0, setup, teardown)
{
	assert_int_equal(start(PROCESS_WORKER, 0), 1);
	assert_int_equal(start(PROCESS_SWEEPER, 0), 0);
	assert_int_equal(atomic_load(&ps.board->master.active_sweeper), 0);
	assert_int_equal(start(PROCESS_SWEEPER, 0), 2);
	assert_int_equal(atomic_load(&ps.board->master.active_sweeper), 2);
}

TEST(a_slot_knows_its_queue_and_order_before_its_child_lives, setup, teardown)
{
	struct process_role role = { .kind = PROCESS_WORKER, .queue = 7, .socket = -1 };
	int slot = processes_start(&ps, &role, ORDER_QUIET, 41);

	assert_int_equal(atomic_load(&ps.board->master.queue_of[slot]), 8);
	assert_int_equal(atomic_load(&ps.board->master.orders[slot]), ORDER_QUIET);
	assert_int_equal(slot_state(&ps.board->slots[slot]), SLOT_STARTING);
	assert_int_equal(atomic_load(&ps.board->slots[slot].heartbeat_ms), 41);
	assert_null(processes_next(&ps, NULL, PROCESS_ANY));
	processes_not_forked(&ps, slot);
	assert_int_equal(atomic_load(&ps.board->master.queue_of[slot]), 0);
	assert_int_equal(slot_state(&ps.board->slots[slot]), SLOT_FREE);
}

TEST(a_slot_is_used_again_with_the_next_generation, setup, teardown)
{
	int slot = start(PROCESS_WORKER, 0);

	slot_next_generation(&ps.board->slots[slot]);
	slot_next_generation(&ps.board->slots[slot]);
	assert_int_equal(ps.items[slot].first_generation, 1);
	processes_release(&ps, slot);
	assert_int_equal(atomic_load(&ps.board->master.queue_of[slot]), 0);
	assert_int_equal(start(PROCESS_WORKER, 0), slot);
	assert_int_equal(ps.items[slot].first_generation, 3);
}

TEST(the_iterator_gives_the_living_of_one_kind, setup, teardown)
{
	int first = start(PROCESS_WORKER, 0), sweeper = start(PROCESS_SWEEPER, 0), second = start(PROCESS_WORKER, 0), third = start(PROCESS_WORKER, 0);
	const struct process *p = NULL;

	processes_release(&ps, second);
	processes_leave(&ps, third, 0);
	p = processes_next(&ps, p, PROCESS_WORKER);
	assert_int_equal(processes_slot(&ps, p), first);
	p = processes_next(&ps, p, PROCESS_WORKER);
	assert_int_equal(processes_slot(&ps, p), third);
	assert_null(processes_next(&ps, p, PROCESS_WORKER));
	assert_int_equal(processes_slot(&ps, processes_sweeper(&ps)), sweeper);
	assert_int_equal(processes_slot(&ps, processes_by_pid(&ps, MASTER_PID + third)), third);
	assert_null(processes_by_pid(&ps, MASTER_PID + second));
	processes_leave(&ps, sweeper, 0);
	assert_null(processes_sweeper(&ps));
	assert_true(processes_any(&ps, PROCESS_SWEEPER));
}

TEST(an_order_is_only_raised_but_for_quiet, setup, teardown)
{
	int slot = start(PROCESS_WORKER, 0);
	static const struct { enum order to, is; } steps[] = {
		{ ORDER_QUIET, ORDER_QUIET }, { ORDER_RUN, ORDER_RUN }, { ORDER_FINISH, ORDER_FINISH }, { ORDER_RUN, ORDER_FINISH },
		{ ORDER_QUIET, ORDER_FINISH }, { ORDER_HAND_BACK, ORDER_HAND_BACK }, { ORDER_FINISH, ORDER_HAND_BACK },
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		processes_order(&ps, slot, steps[i].to, 1000);
		assert_int_equal(atomic_load(&ps.board->master.orders[slot]), steps[i].is);
	}
	assert_int_equal(master_signals(0, 0), 4);	/* one TERM for each that changed */
	assert_int_equal(ps.items[slot].kill_at_ms, 1000 + 500 + 10000);
	assert_true(processes_is_finishing(&ps, slot));
}

TEST(a_worker_that_finishes_has_the_time_that_it_needs, setup, teardown)
{
	int worker = start(PROCESS_WORKER, 0), sweeper = start(PROCESS_SWEEPER, 0);

	processes_order(&ps, worker, ORDER_FINISH, 1000);
	processes_order(&ps, sweeper, ORDER_FINISH, 1000);
	assert_int_equal(ps.items[worker].kill_at_ms, 0);
	assert_int_equal(ps.items[sweeper].kill_at_ms, 11000);
}

TEST(a_kill_reaches_the_handlers_group_and_no_stranger, setup, teardown)
{
	int slot = start(PROCESS_WORKER, 0);

	atomic_store(&ps.board->slots[slot].handler_pgid, MASTER_PID + 100);
	processes_kill(&ps, slot);
	assert_int_equal(master_signals(0, 0), 2);
	assert_int_equal(master_signalled(0), MASTER_PID + slot);
	assert_int_equal(master_signalled(1), -(MASTER_PID + 100));
	assert_int_equal(atomic_load(&ps.board->slots[slot].handler_pgid), 0);
	for (int bad = -1; bad <= 1; bad++) {
		atomic_store(&ps.board->slots[slot].handler_pgid, bad);
		processes_kill_handler(&ps, slot);
	}
	atomic_store(&ps.board->slots[slot].handler_pgid, getpgrp());
	processes_kill_handler(&ps, slot);
	assert_int_equal(master_signals(0, 0), 2);
}

static void leave_twice(void)
{
	int slot = start(PROCESS_WORKER, 0);

	processes_leave(&ps, slot, 0);
	processes_leave(&ps, slot, 0);
}

static void release_what_was_not_forked(void)
{
	struct process_role role = { .kind = PROCESS_WORKER, .socket = -1 };

	processes_release(&ps, processes_start(&ps, &role, ORDER_RUN, 0));
}

static void order_the_dead(void)
{
	int slot = start(PROCESS_WORKER, 0);

	processes_release(&ps, slot);
	processes_order(&ps, slot, ORDER_FINISH, 0);
}

static void fence_twice(void)
{
	int slot = start(PROCESS_WORKER, 0);

	processes_fence(&ps, slot);
	processes_fence(&ps, slot);
}

TEST(illegal_transitions_abort, setup, teardown)
{
	assert_true(master_aborts(leave_twice));
	assert_true(master_aborts(release_what_was_not_forked));
	assert_true(master_aborts(order_the_dead));
	assert_true(master_aborts(fence_twice));
}

TEST(names_are_those_of_the_log, setup, teardown)
{
	char name[PROCESS_NAME_SIZE];

	assert_string_equal(process_name(&ps.items[start(PROCESS_WORKER, 0)].role, name), "mail/2");
	assert_string_equal(process_name(&ps.items[start(PROCESS_SWEEPER, 0)].role, name), "sweeper");
	assert_string_equal(process_name(&ps.items[start(PROCESS_KEEPER, 0)].role, name), "keeper");
}

UNIT_MAIN(NULL, NULL)
