/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write,--wrap=process_kill_children,--wrap=process_kill_children_wait */
#include <string.h>

#include "tests/unit/supervisor/master_fixture.h"
#include "tests/unit/unit.h"

#define OLD (MASTER_PID + 500)		/* a child from before the exec that started the master */
#define LEFT (MASTER_PID + 600)		/* what a dead child left */
#define REDIS (MASTER_PID + 700)

static pid_t children[128];		/* what the kernel says the master has; 0: none */
static size_t nchildren;
static pid_t killed[128];
static size_t nkilled;
static int64_t waited_ms;

size_t __wrap_process_kill_children(bool (*spare)(pid_t pid, void *arg), void *arg);
int __wrap_process_kill_children_wait(bool (*spare)(pid_t pid, void *arg), void *arg, int64_t timeout_ms);

size_t __wrap_process_kill_children(bool (*spare)(pid_t pid, void *arg), void *arg)
{
	nkilled = 0;
	for (size_t i = 0; i < nchildren; i++)
		if (!spare(children[i], arg))
			killed[nkilled++] = children[i];
	return nkilled;
}

int __wrap_process_kill_children_wait(bool (*spare)(pid_t pid, void *arg), void *arg, int64_t timeout_ms)
{
	waited_ms = timeout_ms;
	return __wrap_process_kill_children(spare, arg) == 0 ? 0 : -1;
}

static int setup(void **state)
{
	nchildren = nkilled = 0;
	waited_ms = -1;
	return master_setup(state);
}

static void has_child(pid_t pid)
{
	children[nchildren++] = pid;
}

TEST(processes_from_before_the_master_are_spared, setup, master_teardown)
{
	has_child(OLD);
	orphans_init(&m.orphans, &m.processes);
	has_child(LEFT);
	orphans_expect(&m.orphans, 0);
	orphans_kill(&m.orphans, 0);
	assert_int_equal(nkilled, 1);
	assert_int_equal(killed[0], LEFT);
}

TEST(children_of_the_table_are_spared_while_they_live, setup, master_teardown)
{
	int slot = master_add_worker(MAIL, 0, 0);
	pid_t pid = m.processes.items[slot].pid;

	has_child(pid);
	orphans_expect(&m.orphans, 0);
	assert_int_equal(orphans_kill(&m.orphans, 0), INT64_MAX);
	assert_int_equal(nkilled, 0);
	master_end_worker(slot, true, 0);
	orphans_expect(&m.orphans, 0);
	orphans_kill(&m.orphans, 0);
	assert_int_equal(killed[0], pid);
}

TEST(the_redis_of_a_dead_keeper_is_spared_until_it_is_reaped, setup, master_teardown)
{
	has_child(REDIS);
	orphans_keep_redis(&m.orphans, REDIS);
	orphans_expect(&m.orphans, 0);
	orphans_kill(&m.orphans, 0);
	assert_int_equal(nkilled, 0);
	orphans_reaped(&m.orphans, REDIS);
	assert_int_equal(m.orphans.redis, 0);
	orphans_expect(&m.orphans, 0);		/* the number belongs to another process now */
	orphans_kill(&m.orphans, 0);
	assert_int_equal(nkilled, 1);
}

TEST(a_number_that_was_reaped_is_spared_no_more, setup, master_teardown)
{
	for (pid_t i = 0; i < 3; i++)
		has_child(OLD + i);
	orphans_init(&m.orphans, &m.processes);
	orphans_reaped(&m.orphans, OLD);
	assert_int_equal(m.orphans.n, 2);
	orphans_expect(&m.orphans, 0);
	orphans_kill(&m.orphans, 0);
	assert_int_equal(nkilled, 1);
	assert_int_equal(killed[0], OLD);
	orphans_reaped(&m.orphans, LEFT);
	assert_int_equal(m.orphans.n, 2);
}

TEST(no_more_are_spared_than_there_is_room_for, setup, master_teardown)
{
	for (pid_t i = 0; i < ORPHANS_SPARED + 2; i++)
		has_child(OLD + i);
	orphans_init(&m.orphans, &m.processes);
	assert_int_equal(m.orphans.n, ORPHANS_SPARED);
	orphans_expect(&m.orphans, 0);
	orphans_kill(&m.orphans, 0);
	assert_int_equal(nkilled, 2);
}

TEST(it_kills_until_none_is_left, setup, master_teardown)
{
	has_child(LEFT);
	orphans_expect(&m.orphans, 1000);
	assert_true(m.orphans.pending);
	assert_int_equal(orphans_kill(&m.orphans, 1000), 1020);
	assert_int_equal(orphans_kill(&m.orphans, 1020), 1040);
	assert_true(m.orphans.pending);
	nchildren = 0;
	assert_int_equal(orphans_kill(&m.orphans, 1040), INT64_MAX);
	assert_false(m.orphans.pending);
	assert_null(master_logged("processes_unkillable"));
}

TEST(what_survives_the_kill_for_five_seconds_is_reported_and_given_up, setup, master_teardown)
{
	has_child(LEFT);
	has_child(LEFT + 1);
	orphans_expect(&m.orphans, 1000);
	assert_int_equal(orphans_kill(&m.orphans, 5999), 6019);
	assert_int_equal(orphans_kill(&m.orphans, 6000), INT64_MAX);
	assert_false(m.orphans.pending);
	assert_logged("processes_unkillable", "warning count=2");
}

TEST(another_death_gives_another_five_seconds, setup, master_teardown)
{
	has_child(LEFT);
	orphans_expect(&m.orphans, 1000);
	orphans_expect(&m.orphans, 4000);
	assert_int_equal(orphans_kill(&m.orphans, 6000), 6020);
	assert_true(m.orphans.pending);
}

TEST(the_last_kill_spares_the_same, setup, master_teardown)
{
	has_child(OLD);
	orphans_init(&m.orphans, &m.processes);
	has_child(LEFT);
	orphans_kill_last(&m.orphans, 2000);
	assert_int_equal(waited_ms, 2000);
	assert_int_equal(nkilled, 1);
	assert_int_equal(killed[0], LEFT);
}

static void keep_everybody(void)
{
	orphans_keep_redis(&m.orphans, 1);
}

static void kill_none(void)
{
	orphans_kill(&m.orphans, 0);
}

TEST(illegal_calls_abort, setup, master_teardown)
{
	assert_true(master_aborts(keep_everybody));
	assert_true(master_aborts(kill_none));
}

UNIT_MAIN(NULL, NULL)
