/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
#include <string.h>

#include "tests/unit/supervisor/master_fixture.h"
#include "tests/unit/unit.h"

static struct queues *qs = &m.queues;

/* The worker in this slot is done with so many messages, of 1 ms each. */
static void work(int slot, int n)
{
	struct slot *s = &m.board->slots[slot];

	for (int i = 0; i < n; i++) {
		atomic_fetch_add(&s->counters[COUNT_DONE], 1);
		slot_observe(s, 1);
	}
}

static void assert_done(int place, uint64_t n)
{
	struct totals t = totals_of(qs, place);

	assert_int_equal(t.counters[COUNT_DONE], n);
	assert_int_equal(t.durations[1], n);
}

TEST(a_queue_without_workers_has_done_nothing, master_setup, master_teardown)
{
	static const struct totals none;
	struct totals t = totals_of(qs, MAIL);

	assert_memory_equal(t.counters, none.counters, sizeof(none.counters));
	assert_memory_equal(t.durations, none.durations, sizeof(none.durations));
	assert_int_equal(t.restarts, 0);
	assert_int_equal(t.draining, 0);
}

TEST(totals_are_those_of_the_queues_own_workers, master_setup, master_teardown)
{
	work(master_add_worker(MAIL, 0, 0), 2);
	work(master_add_worker(MAIL, 1, 0), 3);
	work(master_add_worker(LATER, 0, 0), 70);
	assert_done(MAIL, 5);
	assert_done(LATER, 70);
}

TEST(a_figure_stays_when_its_worker_ends_and_the_slot_is_used_again, master_setup, master_teardown)
{
	int slot = master_add_worker(MAIL, 0, 0);

	work(slot, 4);
	master_end_worker(slot, true, 0);
	assert_done(MAIL, 4);
	assert_int_equal(master_add_worker(LATER, 0, 1000), slot);
	assert_done(MAIL, 4);
	assert_done(LATER, 0);
	master_add_worker(MAIL, 0, 1000);
	assert_int_equal(totals_of(qs, MAIL).restarts, 1);
}

TEST(what_the_sweeper_moved_counts_too, master_setup, master_teardown)
{
	work(master_add_worker(MAIL, 0, 0), 1);
	atomic_store(&m.board->queues[MAIL].sweeper.swept[COUNT_DONE], 10);
	atomic_store(&m.board->queues[MAIL].sweeper.swept[COUNT_EXPIRED], 3);
	assert_int_equal(totals_of(qs, MAIL).counters[COUNT_DONE], 11);
	assert_int_equal(totals_of(qs, MAIL).counters[COUNT_EXPIRED], 3);
}

TEST(a_worker_that_leaves_is_draining, master_setup, master_teardown)
{
	work(master_add_worker(MAIL, 0, 0), 6);
	assert_int_equal(totals_of(qs, MAIL).draining, 0);
	queues_recycle(qs, MAIL, 0);
	master_add_worker(MAIL, 0, 0);
	assert_int_equal(totals_of(qs, MAIL).draining, 1);
	assert_done(MAIL, 6);
}

/* A place, its heir and the heir's heir: all of one queue, whose totals must not fall at a reload. */
TEST(a_queue_that_returns_goes_on_with_its_totals, master_setup, master_teardown)
{
	int second, third, place = MAIL;

	work(master_add_worker(MAIL, 0, 0), 1);
	queues_leave(qs, MAIL, 0, 0);
	second = queues_enter(qs, m.config.conf->queues[MAIL]);
	work(master_add_worker(second, 0, 0), 2);
	assert_done(second, 3);
	queues_leave(qs, second, 1, 0);
	third = queues_enter(qs, m.config.conf->queues[MAIL]);
	work(master_add_worker(third, 0, 0), 4);
	assert_done(third, 7);
	assert_int_equal(totals_of(qs, third).draining, 2);
	assert_done(place, 0);		/* shown once, in its newest place */
	assert_done(second, 0);
}

TEST(totals_survive_the_place_of_their_queue, master_setup, master_teardown)
{
	struct conf_queue other = { .name = (char *)"other" };
	int old = master_add_worker(MAIL, 0, 0), second;

	work(old, 9);
	queues_leave(qs, MAIL, 0, 0);
	second = queues_enter(qs, m.config.conf->queues[MAIL]);
	master_end_worker(old, false, 0);
	assert_int_equal(queues_enter(qs, &other), MAIL);
	assert_done(second, 9);
	assert_done(MAIL, 0);
}

UNIT_MAIN(NULL, NULL)
