/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/supervisor/master_fixture.h"
#include "tests/unit/unit.h"

static struct queues *qs = &m.queues;

static const struct queue_workers *queue(int place)
{
	return &m.queues.items[place];
}

static enum order order_of(int slot)
{
	return (enum order)atomic_load(&m.board->master.orders[slot]);
}

static enum process_state state_of(int slot)
{
	return m.processes.items[slot].state;
}

/* ---- membership ---- */

TEST(a_queue_wants_what_its_configuration_says_until_it_leaves, master_setup, master_teardown)
{
	assert_int_equal(queues_wanted(queue(MAIL)), 2);
	assert_int_equal(queues_wanted_by_others(qs, MAIL), 1);
	assert_int_equal(queues_find(qs, "later"), LATER);
	queues_leave(qs, LATER, 0, 0);
	assert_int_equal(queues_wanted(queue(LATER)), 0);
	assert_int_equal(queues_wanted_by_others(qs, MAIL), 0);
	assert_int_equal(queues_find(qs, "later"), -1);
	assert_null(queue(LATER)->conf);
	assert_int_equal(atomic_load(&m.board->queues[LATER].master.left), 1);
}

TEST(the_workers_of_a_queue_that_leaves_finish_as_older_leavers_do, master_setup, master_teardown)
{
	int stays = master_add_worker(LATER, 0, 0), first = master_add_worker(MAIL, 0, 0), second;

	queues_recycle(qs, MAIL, 100);
	assert_int_equal(state_of(first), PROCESS_LEAVING);
	assert_int_equal(order_of(first), ORDER_RUN);		/* until a new one serves: staffing.c */
	second = master_add_worker(MAIL, 0, 200);
	queues_leave(qs, MAIL, 0, 300);
	assert_int_equal(order_of(first), ORDER_RUN);
	assert_int_equal(state_of(second), PROCESS_LEAVING);
	assert_int_equal(order_of(second), ORDER_RUN);
	assert_int_equal(state_of(stays), PROCESS_SERVING);
	assert_int_equal(queue(MAIL)->serving, 0);
	assert_int_equal(queue(MAIL)->leaving, 2);
	assert_int_equal(queues_count_workers(qs), 3);
}

TEST(a_queue_that_returns_takes_a_new_place_and_is_heir_of_the_old_one, master_setup, master_teardown)
{
	int again, third;

	master_add_worker(MAIL, 0, 0);
	queues_leave(qs, MAIL, 0, 0);
	again = queues_enter(qs, m.config.conf->queues[MAIL]);
	assert_int_not_equal(again, MAIL);
	assert_int_equal(queues_find(qs, "mail"), again);
	assert_int_equal(queues_root(qs, MAIL), again);
	assert_int_equal(queue(again)->heir, -1);
	assert_int_equal(queue(LATER)->heir, -1);
	queues_leave(qs, again, 1, 0);
	third = queues_enter(qs, m.config.conf->queues[MAIL]);
	assert_int_equal(queues_root(qs, MAIL), third);
	assert_int_equal(queues_root(qs, again), third);
}

/* Two workers of one number live: one leaves, the other leaves or serves. Workers of earlier keys count by the name of their queue. */
TEST(a_number_has_at_most_two_workers, master_setup, master_teardown)
{
	int first = master_add_worker(MAIL, 0, 0), again, second;

	queues_leave(qs, MAIL, 0, 0);
	again = queues_enter(qs, m.config.conf->queues[MAIL]);
	assert_int_equal(queues_free_index(qs, again), 0);
	second = master_add_worker(again, 0, 100);
	assert_int_equal(queues_free_index(qs, again), 1);
	queues_recycle(qs, again, 200);
	assert_int_equal(queues_free_index(qs, again), 1);	/* both workers of number 0 leave */
	assert_int_equal(order_of(first), ORDER_RUN);
	master_add_worker(again, 1, 300);
	assert_int_equal(queues_free_index(qs, again), -1);
	master_end_worker(second, false, 400);
	assert_int_equal(queues_free_index(qs, again), 0);
	queues_scale(qs, again, 0);
	assert_int_equal(queues_free_index(qs, again), -1);
}

static int leave_and_return(int place)
{
	queues_leave(qs, place, m.config.epoch, 0);
	return queues_enter(qs, m.config.conf->queues[MAIL]);
}

static int enter(const char *name)
{
	static struct conf_queue new;

	new = (struct conf_queue){ .name = (char *)name };
	return queues_enter(qs, &new);
}

TEST(a_place_is_taken_only_when_nothing_uses_it, master_setup, master_teardown)
{
	int worker = master_add_worker(MAIL, 0, 0), sweeper;

	leave_and_return(MAIL);
	assert_int_equal(enter("while a worker lives"), 3);
	deaths_add(&m.deaths, worker, BLAME_WORKER, 0);
	master_end_worker(worker, true, 0);
	assert_int_equal(enter("while a death is open"), 4);
	m.deaths.n = 0;
	sweeper = master_add_sweeper(m.config.epoch, 0);
	assert_int_equal(enter("while a sweeper knows it"), 5);
	processes_release(&m.processes, sweeper);
	master_add_sweeper(m.config.epoch + 1, 0);
	assert_int_equal(enter("then"), MAIL);
	assert_string_equal(queue(MAIL)->name, "then");
	assert_int_equal(atomic_load(&m.board->queues[MAIL].master.left), 0);
}

TEST(a_place_whose_heir_is_given_up_gets_the_heir_of_its_heir, master_setup, master_teardown)
{
	int second, third;

	master_add_worker(MAIL, 0, 0);		/* the oldest place stays in use */
	second = leave_and_return(MAIL);
	third = leave_and_return(second);
	assert_int_equal(enter("other"), second);
	assert_int_equal(queues_root(qs, MAIL), third);
}

TEST(a_place_that_is_given_up_leaves_its_totals_to_its_heir, master_setup, master_teardown)
{
	int worker = master_add_worker(MAIL, 0, 0), second, third;

	atomic_store(&m.board->slots[worker].counters[COUNT_DONE], 7);
	master_end_worker(worker, true, 0);
	worker = master_add_worker(MAIL, 0, 1000);		/* a restart */
	master_end_worker(worker, false, 1000);
	second = leave_and_return(MAIL);
	third = leave_and_return(second);		/* takes MAIL's place, the first that is unused and has an heir */
	assert_int_equal(third, MAIL);
	assert_int_equal(atomic_load(&m.board->queues[second].master.past[COUNT_DONE]), 7);
	assert_int_equal(totals_of(qs, second).restarts, 1);
	assert_int_equal(atomic_load(&m.board->queues[second].master.restarts), 1);
	assert_int_equal(queues_root(qs, second), third);
	assert_int_equal(enter("other"), second);
	assert_int_equal(atomic_load(&m.board->queues[third].master.past[COUNT_DONE]), 7);
	assert_int_equal(totals_of(qs, third).restarts, 1);
	assert_int_equal(atomic_load(&m.board->queues[third].master.restarts), 1);
	assert_int_equal(atomic_load(&m.board->queues[second].master.past[COUNT_DONE]), 0);
}

TEST(totals_are_forgotten_only_when_no_other_place_is_left, master_setup, master_teardown)
{
	static char names[SCOREBOARD_QUEUES][16];

	queues_leave(qs, LATER, 0, 0);		/* it has no heir */
	for (int i = 2; i < SCOREBOARD_QUEUES; i++) {
		snprintf(names[i], sizeof(names[i]), "q%d", i);
		assert_int_equal(enter(names[i]), i);
	}
	assert_int_equal(enter("last"), LATER);
	assert_int_equal(enter("too many"), -1);
	queues_leave(qs, 2, 0, 0);
	assert_int_equal(enter("too many"), 2);
}

static void leave_twice(void)
{
	queues_leave(qs, MAIL, 0, 0);
	queues_leave(qs, MAIL, 0, 0);
}

static void keep_what_left(void)
{
	queues_leave(qs, MAIL, 0, 0);
	queues_keep(qs, MAIL, m.config.conf->queues[MAIL]);
}

TEST(illegal_transitions_abort, master_setup, master_teardown)
{
	assert_true(master_aborts(leave_twice));
	assert_true(master_aborts(keep_what_left));
}

/* ---- how many ---- */

TEST(scaling_down_dismisses_the_highest_indexes, master_setup, master_teardown)
{
	int first, second, other = master_add_worker(LATER, 0, 0);

	first = master_add_worker(MAIL, 0, 0);
	second = master_add_worker(MAIL, 1, 0);
	queues_scale(qs, MAIL, 1);
	queues_dismiss_surplus(qs, MAIL, 500);
	assert_int_equal(state_of(first), PROCESS_SERVING);
	assert_int_equal(state_of(second), PROCESS_LEAVING);
	assert_int_equal(m.processes.items[second].leaving_ms, 500);
	assert_int_equal(state_of(other), PROCESS_SERVING);
	queues_scale(qs, MAIL, 0);
	queues_dismiss_surplus(qs, MAIL, 600);
	assert_int_equal(queue(MAIL)->serving, 0);
	assert_int_equal(queue(MAIL)->leaving, 2);
	assert_true(queues_are_complete(qs));
}

TEST(scaling_up_gives_the_lowest_free_indexes, master_setup, master_teardown)
{
	assert_int_equal(queues_free_index(qs, MAIL), 0);
	master_add_worker(MAIL, 1, 0);
	assert_int_equal(queues_free_index(qs, MAIL), 0);
	assert_false(queues_are_complete(qs));
	master_add_worker(MAIL, 0, 0);
	assert_int_equal(queues_free_index(qs, MAIL), -1);
	queues_scale(qs, MAIL, 4);
	assert_int_equal(queues_free_index(qs, MAIL), 2);
	assert_int_equal(queues_wanted(queue(MAIL)), 4);
}

TEST(a_worker_that_leaves_does_not_keep_its_index, master_setup, master_teardown)
{
	master_add_worker(MAIL, 0, 0);
	queues_scale(qs, MAIL, 0);
	queues_dismiss_surplus(qs, MAIL, 0);
	queues_scale(qs, MAIL, 1);
	assert_int_equal(queues_free_index(qs, MAIL), 0);
}

TEST(a_reload_ends_what_the_operator_scaled_and_keeps_what_was_made_quiet, master_setup, master_teardown)
{
	queues_scale(qs, MAIL, 9);
	queues_set_quiet(qs, MAIL, true, 0);
	queues_keep(qs, MAIL, m.config.conf->queues[MAIL]);
	assert_int_equal(queues_wanted(queue(MAIL)), 2);
	assert_int_equal(queues_first_order(qs, MAIL), ORDER_QUIET);
}

TEST(the_sweeper_reads_how_many_are_wanted, master_setup, master_teardown)
{
	queues_scale(qs, MAIL, 3);
	queues_leave(qs, LATER, 0, 0);
	queues_publish(qs);
	assert_int_equal(atomic_load(&m.board->queues[MAIL].master.wanted), 3);
	assert_int_equal(atomic_load(&m.board->queues[LATER].master.wanted), 0);
}

/* ---- the operator ---- */

TEST(a_queue_that_is_quiet_stays_so_when_all_resume, master_setup, master_teardown)
{
	int mail = master_add_worker(MAIL, 0, 0), later = master_add_worker(LATER, 0, 0);

	queues_set_quiet(qs, MAIL, true, 0);
	assert_int_equal(order_of(mail), ORDER_QUIET);
	assert_int_equal(order_of(later), ORDER_RUN);
	queues_set_all_quiet(qs, true, 0);
	assert_int_equal(order_of(later), ORDER_QUIET);
	queues_set_all_quiet(qs, false, 0);
	assert_int_equal(order_of(mail), ORDER_QUIET);
	assert_int_equal(order_of(later), ORDER_RUN);
	assert_int_equal(queues_first_order(qs, MAIL), ORDER_QUIET);
	queues_set_quiet(qs, MAIL, false, 0);
	assert_int_equal(order_of(mail), ORDER_RUN);
}

TEST(a_worker_that_leaves_is_told_nothing_of_quiet, master_setup, master_teardown)
{
	int slot = master_add_worker(MAIL, 0, 0);

	queues_recycle(qs, MAIL, 0);
	queues_set_quiet(qs, MAIL, true, 0);
	assert_int_equal(order_of(slot), ORDER_RUN);
}

TEST(a_restart_begins_a_new_handler_and_forgets_its_crashes, master_setup, master_teardown)
{
	struct board_queue *b = &m.board->queues[MAIL];

	for (int i = 0; i < 5; i++)
		master_end_worker(master_add_worker(MAIL, 0, 2000 * i), true, 2000 * i);
	assert_int_equal(queue(MAIL)->policy.state, POLICY_BACKOFF);
	atomic_store(&b->workers.breaker.step, 3);
	queues_recycle(qs, MAIL, 20000);
	assert_int_equal(queue(MAIL)->policy.state, POLICY_NORMAL);
	assert_int_equal(queue(MAIL)->policy.next_spawn_ms, 0);
	assert_int_equal(queue(MAIL)->handler_generation, 1);
	assert_int_equal(atomic_load(&b->master.handler_generation), 1);
	assert_int_equal(atomic_load(&b->workers.breaker.step), 0);
}

/* ---- workers come and go ---- */

TEST(a_restart_is_counted_when_the_replacement_is_forked, master_setup, master_teardown)
{
	struct board_queue *b = &m.board->queues[MAIL];

	master_end_worker(master_add_worker(MAIL, 0, 0), true, 0);
	assert_int_equal(totals_of(qs, MAIL).restarts, 0);
	master_add_worker(MAIL, 0, 1000);
	assert_int_equal(totals_of(qs, MAIL).restarts, 1);
	assert_int_equal(atomic_load(&b->master.restarts), 1);
	master_add_worker(MAIL, 1, 1000);
	assert_int_equal(totals_of(qs, MAIL).restarts, 1);
}

TEST(the_end_of_a_worker_that_leaves_is_no_restart, master_setup, master_teardown)
{
	int slot = master_add_worker(MAIL, 0, 0);

	queues_recycle(qs, MAIL, 0);
	master_end_worker(slot, false, 100);
	assert_int_equal(queue(MAIL)->leaving, 0);
	master_add_worker(MAIL, 0, 200);
	assert_int_equal(totals_of(qs, MAIL).restarts, 0);
}

TEST(a_message_done_before_a_death_ends_the_row_of_deaths, master_setup, master_teardown)
{
	struct board_queue *b = &m.board->queues[MAIL];

	for (int i = 0; i < 3; i++)
		master_end_worker(master_add_worker(MAIL, 0, 20000 * i), true, 20000 * i);
	assert_int_equal(queue(MAIL)->policy.streak, 3);
	atomic_fetch_add(&b->workers.done, 1);
	master_end_worker(master_add_worker(MAIL, 0, 60000), true, 60000);
	assert_int_equal(queue(MAIL)->policy.streak, 1);
	master_end_worker(master_add_worker(MAIL, 0, 80000), true, 80000);	/* the same message is no second success */
	assert_int_equal(queue(MAIL)->policy.streak, 2);
}

TEST(an_end_that_is_no_death_does_not_delay_the_next_fork, master_setup, master_teardown)
{
	master_end_worker(master_add_worker(MAIL, 0, 0), false, 0);
	assert_int_equal(queue(MAIL)->policy.events, 0);
	assert_int_equal(queue(MAIL)->policy.next_spawn_ms, 0);
}

/* ---- once a second ---- */

TEST(a_state_is_logged_when_it_changes_and_as_a_warning_if_it_is_one, master_setup, master_teardown)
{
	master_add_worker(MAIL, 0, 0);
	master_add_worker(LATER, 0, 0);
	queues_look(qs, 0);
	assert_int_equal(master_count_events("queue_state"), 2);	/* gates are shut at first: recovering */
	assert_logged("queue_state", "info");
	queues_look(qs, 1000);
	assert_int_equal(master_count_events("queue_state"), 2);
	atomic_store(&m.board->queues[MAIL].sweeper.gate, QUEUE_REFUSED);
	queues_look(qs, 2000);
	assert_int_equal(master_count_events("queue_state"), 3);
	assert_logged("queue_state", "warning queue=mail state=refused");
	atomic_store(&m.board->queues[MAIL].sweeper.gate, QUEUE_OPEN);
	queues_leave(qs, MAIL, 0, 0);
	queues_look(qs, 3000);
	assert_int_equal(master_count_events("queue_state"), 3);
}

static void look_at_an_uncounted_worker(void)
{
	struct process_role role = { .kind = PROCESS_WORKER, .queue = MAIL, .socket = -1 };

	processes_forked(&m.processes, processes_start(&m.processes, &role, ORDER_RUN, 0), MASTER_PID);
	queues_look(qs, 0);
}

TEST(a_worker_that_was_not_counted_aborts_the_master, master_setup, master_teardown)
{
	assert_true(master_aborts(look_at_an_uncounted_worker));
}

UNIT_MAIN(NULL, NULL)
