#include <sys/socket.h>

#include <string.h>
#include <unistd.h>

#include "common/log/log.h"
#include "supervisor/children/children.h"
#include "tests/unit/unit.h"

#define SWEEPER 0
#define SLOT 1

static struct processes ps;
static struct orphans orphans;
static struct deaths d;
static struct scoreboard *board;
static int sweeper_fd;		/* the sweeper's end of its socket */

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	(void)level;
	(void)event;
	(void)fields;
	(void)n;
}

static int setup(void **state)
{
	struct process_role role = { .kind = PROCESS_SWEEPER, .queue = -1 };
	int pair[2];

	(void)state;
	memset(&ps, 0, sizeof(ps));
	memset(&d, 0, sizeof(d));
	memset(&orphans, 0, sizeof(orphans));
	board = scoreboard_new();
	processes_init(&ps, board);
	deaths_init(&d, &ps, &orphans);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	role.socket = pair[0];
	sweeper_fd = pair[1];
	assert_int_equal(processes_start(&ps, &role, ORDER_RUN, 0), SWEEPER);
	processes_forked(&ps, SWEEPER, getpid());
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(ps.items[SWEEPER].role.socket);
	close(sweeper_fd);
	scoreboard_free(board);
	return 0;
}

/* A worker starts in the slot, and registers so many times. */
static void start(int registrations)
{
	struct process_role role = { .kind = PROCESS_WORKER, .queue = 0, .queue_name = "mail", .socket = -1 };

	assert_int_equal(processes_start(&ps, &role, ORDER_RUN, 0), SLOT);
	processes_forked(&ps, SLOT, getpid());
	for (int i = 0; i < registrations; i++)
		slot_next_generation(&board->slots[SLOT]);
}

static void live_and_die(int registrations, enum blame blame, int64_t now_ms)
{
	start(registrations);
	deaths_add(&d, SLOT, blame, now_ms);
	processes_release(&ps, SLOT);
}

static void live_and_end(int registrations)
{
	start(registrations);
	deaths_clean_exit(&d, SLOT);
	processes_release(&ps, SLOT);
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
	deaths_sweeper_gone(&d, SWEEPER);
	deaths_step(&d, now_ms);
}

static void confirm(uint64_t serial)
{
	struct child_death_answer a = { .serial = serial };

	assert_int_equal(send(sweeper_fd, &a, sizeof(a), 0), sizeof(a));
	deaths_answer(&d, SWEEPER);
}

TEST(a_second_death_in_a_slot_hides_nothing_of_the_first, setup, teardown)
{
	live_and_die(2, BLAME_WORKER, 1000);
	live_and_die(1, BLAME_NOBODY, 2000);
	live_and_die(1, BLAME_WORKER, 3000);
	deaths_step(&d, 9000);
	assert_int_equal(report(1).blame, BLAME_WORKER);
	tell_again(9000);
	assert_int_equal(report(2).blame, BLAME_WORKER);
	tell_again(9000);
	assert_int_equal(report(3).blame, BLAME_NOBODY);
	tell_again(9000);
	assert_int_equal(report(4).blame, BLAME_WORKER);
}

/* While Redis does not answer, new workers cannot register. What they die of says nothing about the message of the first one. */
TEST(a_worker_that_never_registered_reports_nothing, setup, teardown)
{
	live_and_die(1, BLAME_WORKER, 1000);
	live_and_die(0, BLAME_NOBODY, 2000);
	deaths_step(&d, 9000);
	assert_int_equal(report(1).blame, BLAME_WORKER);
	assert_int_equal(d.n, 1);
}

TEST(a_worker_that_never_registered_shares_the_blame, setup, teardown)
{
	live_and_die(0, BLAME_WORKER, 1000);
	live_and_die(1, BLAME_WORKER, 1200);
	deaths_step(&d, 9000);
	assert_int_equal(report(1).blame, BLAME_OUTAGE);
	assert_int_equal(d.n, 1);
}

TEST(a_slot_is_buried_when_each_of_its_deaths_is_confirmed, setup, teardown)
{
	uint64_t first, second;

	live_and_die(1, BLAME_WORKER, 1000);
	live_and_die(1, BLAME_WORKER, 2000);
	deaths_step(&d, 9000);
	first = report(1).serial;
	tell_again(9000);
	second = report(2).serial;
	confirm(second);
	assert_int_equal(atomic_load(&board->master.buried[SLOT]), 0);
	confirm(first);
	assert_int_equal(atomic_load(&board->master.buried[SLOT]), 2);
}

TEST(a_clean_exit_is_buried_at_once_unless_an_orphan_may_live, setup, teardown)
{
	live_and_end(1);
	assert_int_equal(atomic_load(&board->master.buried[SLOT]), 1);
	orphans.pending = true;
	live_and_end(1);
	assert_int_equal(atomic_load(&board->master.buried[SLOT]), 1);
}

TEST(a_clean_exit_waits_for_an_open_death_in_its_slot, setup, teardown)
{
	live_and_die(1, BLAME_WORKER, 1000);
	live_and_end(1);
	assert_int_equal(atomic_load(&board->master.buried[SLOT]), 0);
	deaths_step(&d, 9000);
	confirm(report(1).serial);
	assert_int_equal(atomic_load(&board->master.buried[SLOT]), 2);
}

TEST(nothing_is_reported_while_an_orphan_may_live, setup, teardown)
{
	live_and_die(1, BLAME_WORKER, 1000);
	orphans.pending = true;
	assert_int_equal(deaths_step(&d, 9000), INT64_MAX);
	assert_int_equal(report(1).serial, 0);
	assert_false(deaths_are_settled(&d));
	orphans.pending = false;
	deaths_step(&d, 9000);
	assert_int_not_equal(report(1).serial, 0);
}

TEST(a_report_waits_for_workers_that_die_of_the_same_cause, setup, teardown)
{
	live_and_die(1, BLAME_WORKER, 1000);
	assert_int_equal(deaths_step(&d, 1100), 1300);
	assert_int_equal(report(1).serial, 0);
	assert_int_equal(deaths_step(&d, 1300), INT64_MAX);
	assert_int_not_equal(report(1).serial, 0);
}

TEST(a_sweeper_that_finishes_gets_no_report, setup, teardown)
{
	live_and_die(1, BLAME_WORKER, 1000);
	assert_true(deaths_need_sweeper(&d, SWEEPER));
	atomic_store(&board->master.orders[SWEEPER], ORDER_FINISH);
	assert_false(deaths_need_sweeper(&d, SWEEPER));
	assert_int_equal(deaths_step(&d, 9000), INT64_MAX);
	assert_int_equal(report(1).serial, 0);
	assert_true(deaths_concern_queue(&d, 0));
}

TEST(the_death_of_the_sweeper_opens_its_reports_again, setup, teardown)
{
	live_and_die(1, BLAME_WORKER, 1000);
	deaths_step(&d, 9000);
	report(1);
	close(sweeper_fd);
	sweeper_fd = -1;
	deaths_answer(&d, SWEEPER);
	assert_int_equal(ps.items[SWEEPER].role.socket, -1);
	assert_int_equal(d.items[0].sweeper, -1);
}

UNIT_MAIN(NULL, NULL)
