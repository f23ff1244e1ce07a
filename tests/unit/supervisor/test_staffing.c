/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "tests/unit/supervisor/master_fixture.h"
#include "tests/unit/unit.h"

static enum order order_of(int slot)
{
	return (enum order)atomic_load(&m.board->master.orders[slot]);
}

static const struct queue_workers *queue(int place)
{
	return &m.queues.items[place];
}

/* The worker of mail that serves and has this index, and its slot. */
static int slot_of(int index)
{
	for (const struct process *p = NULL; (p = processes_next(&m.processes, p, PROCESS_WORKER)) != NULL;)
		if (p->state == PROCESS_SERVING && p->role.queue == MAIL && p->role.index == index)
			return processes_slot(&m.processes, p);
	fail_msg("mail/%d does not serve", index);
	return -1;
}

static void all_die(int place, int64_t now_ms)
{
	for (const struct process *p = NULL; (p = processes_next(&m.processes, p, PROCESS_WORKER)) != NULL;)
		if (p->role.queue == place)
			master_end_worker(processes_slot(&m.processes, p), true, now_ms);
}

/* ---- what is missing ---- */

TEST(the_first_step_forks_a_sweeper_and_all_workers, master_setup, master_teardown)
{
	assert_false(staffing_is_complete(&m));
	assert_int_equal(staffing_step(&m, 1000), INT64_MAX);
	assert_int_equal(master_count(PROCESS_SWEEPER, PROCESS_SERVING), 1);
	assert_int_equal(queue(MAIL)->serving, 2);
	assert_int_equal(queue(LATER)->serving, 1);
	assert_int_equal(master_forks.n, 4);
	assert_true(staffing_is_complete(&m));
	staffing_step(&m, 2000);
	assert_int_equal(master_forks.n, 4);
	assert_int_equal(atomic_load(&m.board->queues[MAIL].master.wanted), 2);
	slot_of(0);
	slot_of(1);
}

TEST(an_embedded_redis_is_started_before_those_who_need_it, master_setup, master_teardown)
{
	m.config.conf->redis.embedded = true;
	staffing_step(&m, 0);
	assert_int_equal(processes_next(&m.processes, NULL, PROCESS_KEEPER)->pid, MASTER_PID);
	assert_true(staffing_is_complete(&m));
	processes_release(&m.processes, processes_slot(&m.processes, processes_next(&m.processes, NULL, PROCESS_KEEPER)));
	assert_false(staffing_is_complete(&m));
}

TEST(a_keeper_waits_until_the_redis_of_the_last_one_has_ended, master_setup, master_teardown)
{
	m.config.conf->redis.embedded = true;
	orphans_keep_redis(&m.orphans, MASTER_PID + 100);
	staffing_step(&m, 0);
	assert_false(processes_any(&m.processes, PROCESS_KEEPER));
	orphans_reaped(&m.orphans, MASTER_PID + 100);
	staffing_step(&m, 100);
	assert_true(processes_any(&m.processes, PROCESS_KEEPER));
}

TEST(a_worker_of_a_quiet_queue_begins_quiet, master_setup, master_teardown)
{
	queues_set_quiet(&m.queues, MAIL, true, 0);
	staffing_step(&m, 0);
	assert_int_equal(order_of(slot_of(0)), ORDER_QUIET);
	assert_int_equal(order_of(processes_slot(&m.processes, processes_sweeper(&m.processes))), ORDER_RUN);
}

/* ---- scale ---- */

TEST(scaling_up_forks_what_is_missing_and_down_lets_the_rest_finish, master_setup, master_teardown)
{
	int surplus;

	staffing_step(&m, 0);
	queues_scale(&m.queues, MAIL, 4);
	staffing_step(&m, 1000);
	assert_int_equal(queue(MAIL)->serving, 4);
	surplus = slot_of(3);
	queues_scale(&m.queues, MAIL, 3);
	staffing_step(&m, 2000);
	assert_int_equal(order_of(surplus), ORDER_FINISH);
	assert_int_equal(order_of(slot_of(2)), ORDER_RUN);
	queues_scale(&m.queues, MAIL, 4);		/* before the surplus one ended */
	staffing_step(&m, 3000);
	assert_int_equal(queue(MAIL)->serving, 4);
	assert_int_equal(queue(MAIL)->leaving, 1);
	assert_int_not_equal(slot_of(3), surplus);
}

TEST(workers_of_a_queue_that_left_finish, master_setup, master_teardown)
{
	int slot;

	staffing_step(&m, 0);
	slot = slot_of(0);
	queues_leave(&m.queues, MAIL, 0, 1000);
	staffing_step(&m, 1000);
	assert_int_equal(order_of(slot), ORDER_FINISH);
	assert_int_equal(master_forks.n, 4);
}

/* ---- crashes ---- */

TEST(a_dead_worker_is_replaced_after_its_delay, master_setup, master_teardown)
{
	staffing_step(&m, 0);
	master_end_worker(slot_of(1), true, 60000);
	assert_int_equal(staffing_step(&m, 60000), 60500);
	assert_int_equal(queue(MAIL)->serving, 1);
	staffing_step(&m, 60500);
	assert_int_equal(queue(MAIL)->serving, 2);
	slot_of(1);
}

TEST(a_queue_that_crashes_backs_off_and_the_others_go_on, master_setup, master_teardown)
{
	int64_t now = 0, due = 0;

	for (int i = 0; i < 5; i++, now = due) {
		staffing_step(&m, now);
		all_die(MAIL, now);
		due = staffing_step(&m, now);
		assert_true(due > now);
	}
	assert_int_equal(queue(MAIL)->policy.state, POLICY_BACKOFF);
	assert_int_equal(queue(MAIL)->serving, 0);
	master_end_worker(processes_slot(&m.processes, processes_next(&m.processes, NULL, PROCESS_WORKER)), false, now - 1);
	assert_int_equal(staffing_step(&m, now - 1), due);
	assert_int_equal(queue(LATER)->serving, 1);		/* replaced at once */
	assert_int_equal(queue(MAIL)->serving, 0);
	assert_int_equal(staffing_step(&m, due), due + 1000);	/* then one a second */
	assert_int_equal(queue(MAIL)->serving, 1);
}

TEST(a_dead_sweeper_is_replaced_after_its_delay_or_by_a_reload_at_once, master_setup, master_teardown)
{
	staffing_step(&m, 0);
	processes_release(&m.processes, processes_slot(&m.processes, processes_sweeper(&m.processes)));
	policy_death(&m.staffing.sweeper, 0, 40000, 0);
	assert_int_equal(staffing_step(&m, 40000), 40500);
	assert_null(processes_sweeper(&m.processes));
	staffing_replace_sweeper(&m, 40100);
	staffing_step(&m, 40100);
	assert_non_null(processes_sweeper(&m.processes));
}

TEST(a_dead_keeper_is_replaced_after_its_delay, master_setup, master_teardown)
{
	m.config.conf->redis.embedded = true;
	staffing_step(&m, 0);
	processes_release(&m.processes, processes_slot(&m.processes, processes_next(&m.processes, NULL, PROCESS_KEEPER)));
	policy_death(&m.staffing.keeper, 0, 40000, 0);
	assert_int_equal(staffing_step(&m, 40000), 40500);
	assert_false(processes_any(&m.processes, PROCESS_KEEPER));
	staffing_step(&m, 40500);
	assert_true(processes_any(&m.processes, PROCESS_KEEPER));
}

/* ---- fork fails ---- */

TEST(a_fork_that_fails_holds_up_all_forks, master_setup, master_teardown)
{
	master_forks.error = EAGAIN;
	assert_int_equal(staffing_step(&m, 1000), 2000);
	assert_int_equal(master_forks.failed, 1);
	assert_int_equal(staffing_step(&m, 1999), 2000);
	assert_int_equal(master_forks.failed, 1);
	assert_int_equal(staffing_step(&m, 2000), 4000);	/* doubled */
	assert_int_equal(master_forks.failed, 2);
	assert_int_equal(queue(MAIL)->serving, 0);
	master_forks.error = 0;
	staffing_step(&m, 4000);
	assert_true(staffing_is_complete(&m));
}

TEST(a_fork_that_fails_is_no_crash_of_the_queue, master_setup, master_teardown)
{
	staffing_step(&m, 0);
	master_end_worker(slot_of(0), false, 1000);
	master_forks.error = ENOMEM;
	staffing_step(&m, 1000);
	assert_int_equal(queue(MAIL)->policy.events, 0);
	assert_int_equal(queue(MAIL)->serving, 1);
	assert_int_equal(queue(MAIL)->unreplaced, 1);
}

/* ---- replacing ---- */

/* A queue of two workers is recycled while no process can be forked. Returns the slot of an old worker. */
static int recycle_without_forks(void)
{
	int old;

	staffing_step(&m, 0);
	old = slot_of(0);
	queues_recycle(&m.queues, MAIL, 1000);
	master_forks.error = EAGAIN;
	return old;
}

TEST(an_old_worker_finishes_when_the_new_ones_serve, master_setup, master_teardown)
{
	int old = recycle_without_forks();

	staffing_step(&m, 1000);
	assert_int_equal(order_of(old), ORDER_RUN);
	master_forks.error = 0;
	staffing_step(&m, 2000);
	assert_int_equal(queue(MAIL)->serving, 2);
	assert_int_equal(order_of(old), ORDER_FINISH);
}

/* Twice in a row, while all run: the second generation makes room for the third at once, and the first one finishes in its own time. */
TEST(a_worker_whose_successor_must_wait_finishes_at_once, master_setup, master_teardown)
{
	int first, second;

	staffing_step(&m, 0);
	first = slot_of(0);
	queues_recycle(&m.queues, MAIL, 1000);
	staffing_step(&m, 1000);
	second = slot_of(0);
	queues_recycle(&m.queues, MAIL, 2000);
	staffing_step(&m, 2000);
	assert_int_equal(queue(MAIL)->serving, 0);
	assert_int_equal(queue(MAIL)->leaving, 4);
	assert_int_equal(order_of(first), ORDER_FINISH);
	assert_int_equal(order_of(second), ORDER_FINISH);
	master_end_worker(second, false, 3000);
	staffing_step(&m, 3000);
	assert_int_equal(queue(MAIL)->serving, 1);
	assert_int_equal(queue(MAIL)->leaving, 3);
	slot_of(0);
}

TEST(an_old_worker_finishes_after_ten_seconds_replaced_or_not, master_setup, master_teardown)
{
	int old = recycle_without_forks();

	staffing_step(&m, 10999);
	assert_int_equal(order_of(old), ORDER_RUN);
	staffing_step(&m, 11000);
	assert_int_equal(order_of(old), ORDER_FINISH);
}

TEST(a_sweeper_finishes_when_its_successor_serves, master_setup, master_teardown)
{
	int old;

	staffing_step(&m, 0);
	old = processes_slot(&m.processes, processes_sweeper(&m.processes));
	m.config.epoch++;
	staffing_replace_sweeper(&m, 1000);
	master_forks.error = EAGAIN;
	staffing_step(&m, 1000);
	assert_int_equal(order_of(old), ORDER_RUN);
	master_forks.error = 0;
	staffing_step(&m, 2000);
	assert_int_equal(order_of(old), ORDER_FINISH);
}

TEST(a_sweeper_stays_for_workers_of_its_configuration_and_their_deaths, master_setup, master_teardown)
{
	int old, worker;

	staffing_step(&m, 0);
	old = processes_slot(&m.processes, processes_sweeper(&m.processes));
	worker = slot_of(0);
	master_end_worker(slot_of(1), false, 500);
	queues_leave(&m.queues, MAIL, m.config.epoch++, 1000);
	staffing_replace_sweeper(&m, 1000);
	staffing_step(&m, 1000);
	assert_int_equal(order_of(old), ORDER_RUN);
	slot_next_generation(&m.board->slots[worker]);
	deaths_add(&m.deaths, worker, BLAME_WORKER, 2000);
	master_end_worker(worker, false, 2000);
	staffing_step(&m, 2000);
	assert_int_equal(order_of(old), ORDER_RUN);		/* it gets the report */
	m.deaths.n = 0;
	staffing_step(&m, 3000);
	assert_int_equal(order_of(old), ORDER_FINISH);
}

TEST(the_oldest_of_five_sweepers_finishes, master_setup, master_teardown)
{
	int worker, first;

	staffing_step(&m, 0);
	worker = slot_of(0);
	first = processes_slot(&m.processes, processes_sweeper(&m.processes));
	queues_recycle(&m.queues, MAIL, 0);		/* it leaves, and keeps all sweepers */
	for (int i = 1; i <= 4; i++) {
		assert_int_equal(order_of(first), ORDER_RUN);
		m.config.epoch++;
		staffing_replace_sweeper(&m, 1000 * i);
		staffing_step(&m, 1000 * i);
	}
	assert_int_equal(order_of(worker), ORDER_FINISH);
	assert_int_equal(m.processes.items[worker].state, PROCESS_LEAVING);
	assert_int_equal(order_of(first), ORDER_FINISH);
	assert_int_equal(master_count(PROCESS_SWEEPER, PROCESS_LEAVING), 4);
	for (const struct process *p = NULL; (p = processes_next(&m.processes, p, PROCESS_SWEEPER)) != NULL;)
		assert_int_equal(order_of(processes_slot(&m.processes, p)), processes_slot(&m.processes, p) == first ? ORDER_FINISH : ORDER_RUN);
}

/* However many reloads follow: later sweepers do not know its queue, and do not stay for it. */
TEST(the_worker_of_a_queue_that_left_keeps_its_sweeper, master_setup, master_teardown)
{
	int first;

	staffing_step(&m, 0);
	first = processes_slot(&m.processes, processes_sweeper(&m.processes));
	queues_leave(&m.queues, MAIL, m.config.epoch, 0);
	for (int i = 1; i <= 6; i++) {
		m.config.epoch++;
		staffing_replace_sweeper(&m, 1000 * i);
		staffing_step(&m, 1000 * i);
		assert_int_equal(order_of(first), ORDER_RUN);
	}
	for (const struct process *p = NULL; (p = processes_next(&m.processes, p, PROCESS_SWEEPER)) != NULL;)
		assert_true(p->state == PROCESS_SERVING || processes_slot(&m.processes, p) == first ||
		    order_of(processes_slot(&m.processes, p)) == ORDER_FINISH);
}

/* ---- stopping ---- */

TEST(no_worker_is_forked_while_the_master_stops, master_setup, master_teardown)
{
	staffing_step(&m, 0);
	queues_scale(&m.queues, MAIL, 5);
	stop_begin(&m, false, "SIGTERM", 1000);
	master_end_worker(slot_of(0), true, 1000);
	staffing_step(&m, 9000);
	assert_int_equal(master_forks.n, 4);
}

TEST(a_sweeper_is_forked_until_no_death_needs_it, master_setup, master_teardown)
{
	stop_begin(&m, false, "SIGTERM", 0);
	staffing_step(&m, 0);
	assert_int_equal(master_forks.n, 1);
	assert_non_null(processes_sweeper(&m.processes));
	processes_release(&m.processes, processes_slot(&m.processes, processes_sweeper(&m.processes)));
	m.stop.phase = STOP_CONFIRMING;
	staffing_step(&m, 1000);
	assert_null(processes_sweeper(&m.processes));
	m.deaths.n = 1;
	staffing_step(&m, 2000);
	assert_non_null(processes_sweeper(&m.processes));
	processes_release(&m.processes, processes_slot(&m.processes, processes_sweeper(&m.processes)));
	m.stop.phase = STOP_SWEEPER;
	staffing_step(&m, 3000);
	assert_null(processes_sweeper(&m.processes));
}

UNIT_MAIN(NULL, NULL)
