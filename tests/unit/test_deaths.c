/* links: supervisor/deaths.c common/process.c common/buffer.c common/alloc.c common/scoreboard.c common/clock.c */
#include <sys/socket.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "supervisor/master.h"
#include "supervisor/reap.h"

#define SWEEPER 0
#define SLOT 5

static struct master m;
static int sweeper_fd;		/* the sweeper's end of its socket */

void reap_adopted(struct master *master, int64_t now_ms)
{
	(void)master;
	(void)now_ms;
}

bool reap_is_spared(pid_t pid, void *master)
{
	(void)pid;
	(void)master;
	return true;
}

void master_wake_at(struct master *master, int64_t at_ms)
{
	(void)master;
	(void)at_ms;
}

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	(void)level;
	(void)event;
	(void)fields;
	(void)n;
}

static int setup(void **state)
{
	int pair[2];

	(void)state;
	memset(&m, 0, sizeof(m));
	m.board = scoreboard_new();
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	m.procs[SWEEPER] = (struct proc){ .pid = getpid(), .kind = PROC_SWEEPER, .fd = pair[0] };
	sweeper_fd = pair[1];
	m.top = SLOT + 1;
	strcpy(m.crews[0].name, "mail");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(m.procs[SWEEPER].fd);
	close(sweeper_fd);
	scoreboard_free(m.board);
	return 0;
}

/* A worker starts in the slot, registers so many times, and dies. */
static void live_and_die(int registrations, enum blame blame, int64_t now_ms)
{
	struct slot *slot = &m.board->slots[SLOT];

	m.procs[SLOT] = (struct proc){ .kind = PROC_WORKER, .fd = -1, .first_generation = slot_generation(slot) + 1 };
	for (int i = 0; i < registrations; i++)
		slot_next_generation(slot);
	deaths_add(&m, SLOT, blame, now_ms);
	m.procs[SLOT] = (struct proc){ .fd = -1 };
}

/* The report that the sweeper has of the worker with this generation; all others are dropped. Serial 0: there is none. */
static struct child_death report(uint64_t generation)
{
	struct child_death told, found = { .serial = 0 };

	while (recv(sweeper_fd, &told, sizeof(told), MSG_DONTWAIT) == (ssize_t)sizeof(told))
		if (told.first_generation <= generation && generation <= told.generation) {
			assert_int_equal(found.serial, 0);
			found = told;
		}
	return found;
}

static void tell_again(int64_t now_ms)
{
	deaths_sweeper_gone(&m, SWEEPER);
	deaths_step(&m, now_ms);
}

static void confirm(uint64_t serial)
{
	struct child_death_answer a = { .serial = serial };

	assert_int_equal(send(sweeper_fd, &a, sizeof(a), 0), sizeof(a));
	deaths_answer(&m, SWEEPER);
}

static void a_second_death_in_a_slot_hides_nothing_of_the_first(void **state)
{
	(void)state;
	live_and_die(2, BLAME_WORKER, 1000);
	live_and_die(1, BLAME_NOBODY, 2000);
	live_and_die(1, BLAME_WORKER, 3000);
	deaths_step(&m, 9000);
	assert_int_equal(report(1).blame, BLAME_WORKER);
	tell_again(9000);
	assert_int_equal(report(2).blame, BLAME_WORKER);
	tell_again(9000);
	assert_int_equal(report(3).blame, BLAME_NOBODY);
	tell_again(9000);
	assert_int_equal(report(4).blame, BLAME_WORKER);
}

/* While Redis does not answer, new workers cannot register. What they die of says nothing about the message of the first one. */
static void a_worker_that_never_registered_reports_nothing(void **state)
{
	(void)state;
	live_and_die(1, BLAME_WORKER, 1000);
	live_and_die(0, BLAME_NOBODY, 2000);
	deaths_step(&m, 9000);
	assert_int_equal(report(1).blame, BLAME_WORKER);
	assert_int_equal(m.deaths.n, 1);
}

static void a_worker_that_never_registered_shares_the_blame(void **state)
{
	(void)state;
	live_and_die(0, BLAME_WORKER, 1000);
	live_and_die(1, BLAME_WORKER, 1200);
	deaths_step(&m, 9000);
	assert_int_equal(report(1).blame, BLAME_OUTAGE);
	assert_int_equal(m.deaths.n, 1);
}

static void a_slot_is_buried_when_each_of_its_deaths_is_confirmed(void **state)
{
	uint64_t first, second;

	(void)state;
	live_and_die(1, BLAME_WORKER, 1000);
	live_and_die(1, BLAME_WORKER, 2000);
	deaths_step(&m, 9000);
	first = report(1).serial;
	tell_again(9000);
	second = report(2).serial;
	confirm(second);
	assert_int_equal(atomic_load(&m.board->buried[SLOT]), 0);
	confirm(first);
	assert_int_equal(atomic_load(&m.board->buried[SLOT]), 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_second_death_in_a_slot_hides_nothing_of_the_first),
		T(a_worker_that_never_registered_reports_nothing),
		T(a_worker_that_never_registered_shares_the_blame),
		T(a_slot_is_buried_when_each_of_its_deaths_is_confirmed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
