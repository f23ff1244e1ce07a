/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */

/* The master wakes the workers of a queue whose gate the sweeper has opened. */
#include <signal.h>

#include "tests/unit/supervisor/master_fixture.h"
#include "tests/unit/unit.h"

static struct queues *qs = &m.queues;

static void opens(int place)
{
	atomic_fetch_add(&m.board->queues[place].sweeper.openings, 1);
}

/* How many of the processes of these slots were woken since the last call. */
static size_t woken(const int *slots, size_t n)
{
	size_t signals = 0;

	master_forget_signals();
	queues_wake_opened(qs);
	for (size_t i = 0; i < n; i++)
		signals += master_signals(m.processes.items[slots[i]].pid, SIGTERM);
	assert_int_equal(master_signals(0, 0), signals);
	return signals;
}

TEST(a_gate_that_opens_wakes_the_workers_of_its_queue_once, master_setup, master_teardown)
{
	int of_mail[] = { master_add_worker(MAIL, 0, 0), master_add_worker(MAIL, 1, 0) }, of_later[] = { master_add_worker(LATER, 0, 0) };

	assert_int_equal(woken(of_mail, 2), 0);
	opens(MAIL);
	assert_int_equal(woken(of_mail, 2), 2);
	assert_int_equal(woken(of_mail, 2), 0);
	opens(LATER);
	assert_int_equal(woken(of_later, 1), 1);
}

/* It is open at both looks, or shut at both: a worker may have seen it shut in between. */
TEST(a_gate_that_opens_between_two_looks_wakes_them_whatever_it_is_now, master_setup, master_teardown)
{
	int of_mail[] = { master_add_worker(MAIL, 0, 0) };

	for (enum queue_gate now = QUEUE_OPEN; now <= QUEUE_PAUSED; now++) {
		atomic_store(&m.board->queues[MAIL].sweeper.gate, now);
		assert_int_equal(woken(of_mail, 1), 0);
		opens(MAIL);
		opens(MAIL);
		assert_int_equal(woken(of_mail, 1), 1);
	}
}

UNIT_MAIN(NULL, NULL)
