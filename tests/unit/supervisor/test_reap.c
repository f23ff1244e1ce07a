/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write,--wrap=waitid,--wrap=waitpid */
#include <sys/socket.h>
#include <sys/wait.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/supervisor/master_fixture.h"

#include "supervisor/reap.h"
#include "tests/unit/unit.h"

#define HANDLER (MASTER_PID + 1000)
#define STRANGER (MASTER_PID + 2000)

/* Children that ended. waitid() tells of each until waitpid() has reaped it. */
static struct ended {
	pid_t pid;
	int code, status;
	bool reaped;
	size_t kills_before;	/* of the handler's group, when it was reaped */
} ended[8];
static size_t nended;
static int interruptions[2];	/* so many calls of waitid() and of waitpid() fail with EINTR first */

int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);

static bool is_interrupted(int call)
{
	errno = EINTR;
	return interruptions[call] > 0 && interruptions[call]-- > 0;
}

int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	assert_true((options & (WNOHANG | WNOWAIT)) == (WNOHANG | WNOWAIT));
	if (is_interrupted(0))
		return -1;
	for (size_t i = 0; i < nended; i++)
		if (!ended[i].reaped && (type == P_ALL || ended[i].pid == (pid_t)id)) {
			info->si_pid = ended[i].pid;
			info->si_code = ended[i].code;
			info->si_status = ended[i].status;
			return 0;
		}
	return 0;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
	(void)status;
	assert_int_equal(options, WNOHANG);
	if (is_interrupted(1))
		return -1;
	for (size_t i = 0; i < nended; i++)
		if (!ended[i].reaped && ended[i].pid == pid) {
			ended[i].reaped = true;
			ended[i].kills_before = master_signals(-HANDLER, SIGKILL);
			return pid;
		}
	fail_msg("pid %d cannot be reaped", (int)pid);
	return -1;
}

static int setup(void **state)
{
	nended = 0;
	interruptions[0] = interruptions[1] = 0;
	return master_setup(state);
}

static struct ended *end_pid(pid_t pid, int code, int status)
{
	ended[nended] = (struct ended){ .pid = pid, .code = code, .status = status };
	return &ended[nended++];
}

static struct ended *end(int slot, int code, int status)
{
	return end_pid(m.processes.items[slot].pid, code, status);
}

static struct slot *words(int slot)
{
	return &m.board->slots[slot];
}

/* One that registered. */
static int add_worker(void)
{
	int slot = master_add_worker(MAIL, 0, 0);

	slot_next_generation(words(slot));
	return slot;
}

static const struct policy *policy(void)
{
	return &m.queues.items[MAIL].policy;
}

/* ---- workers ---- */

TEST(the_handlers_group_is_killed_before_its_worker_is_reaped, setup, master_teardown)
{
	int slot = add_worker();
	struct ended *e = end(slot, CLD_KILLED, SIGSEGV);

	atomic_store(&words(slot)->handler_pgid, HANDLER);
	reap_children(&m, 1000);
	assert_true(e->reaped);
	assert_int_equal(e->kills_before, 1);
	assert_int_equal(atomic_load(&words(slot)->handler_pgid), 0);
	assert_false(processes_any(&m.processes, PROCESS_ANY));
}

TEST(a_worker_that_died_is_reported_and_may_have_left_orphans, setup, master_teardown)
{
	int slot = add_worker();

	end(slot, CLD_KILLED, SIGKILL);
	reap_children(&m, 1500);
	assert_logged("worker_died", "warning queue=mail worker=mail/0 child=5000000 signal=SIGKILL lived_ms=1500");
	assert_true(m.orphans.pending);
	assert_int_equal(m.deaths.n, 1);
	assert_int_equal(m.deaths.items[0].report.blame, BLAME_WORKER);
	assert_int_equal(policy()->events, 1);
	assert_int_equal(m.queues.items[MAIL].serving, 0);
}

TEST(a_worker_that_finished_as_ordered_is_no_death, setup, master_teardown)
{
	int slot = add_worker();

	processes_order(&m.processes, slot, ORDER_FINISH, 0);
	end(slot, CLD_EXITED, CHILD_EXIT_DONE);
	reap_children(&m, 1000);
	assert_logged("worker_exited", "info queue=mail worker=mail/0 child=5000000 exit=0");
	assert_int_equal(m.deaths.n, 0);
	assert_false(m.orphans.pending);
	assert_int_equal(policy()->events, 0);
	assert_int_equal(atomic_load(&m.board->master.buried[slot]), 1);
}

TEST(a_worker_that_ends_well_by_itself_counts_as_a_crash_if_it_lived_shortly, setup, master_teardown)
{
	end(add_worker(), CLD_EXITED, CHILD_EXIT_DONE);
	reap_children(&m, POLICY_ALIVE_MS);
	assert_int_equal(policy()->events, 0);
	end(add_worker(), CLD_EXITED, CHILD_EXIT_DONE);		/* of pid 5000001 */
	reap_children(&m, POLICY_ALIVE_MS - 1);
	assert_int_equal(policy()->events, 1);
	assert_int_equal(m.deaths.n, 0);
}

static enum blame blame_after(int slot, int code, int status)
{
	end(slot, code, status);
	reap_children(&m, 1000000);
	assert_int_equal(m.deaths.n, 1);
	m.deaths.n = 0;
	return (enum blame)m.deaths.items[0].report.blame;
}

TEST(the_message_is_charged_unless_the_death_was_ordered_fenced_or_announced, setup, master_teardown)
{
	int slot = add_worker();

	assert_int_equal(blame_after(slot, CLD_EXITED, 1), BLAME_WORKER);
	assert_int_equal(blame_after(add_worker(), CLD_EXITED, CHILD_EXIT_UNSETTLED), BLAME_NOBODY);
	assert_int_equal(blame_after(add_worker(), CLD_KILLED, CHILD_EXIT_UNSETTLED), BLAME_WORKER);	/* a signal with this number */
	slot = add_worker();
	processes_order(&m.processes, slot, ORDER_QUIET, 0);
	assert_int_equal(blame_after(slot, CLD_KILLED, SIGKILL), BLAME_WORKER);
	slot = add_worker();
	processes_order(&m.processes, slot, ORDER_FINISH, 0);
	assert_int_equal(blame_after(slot, CLD_KILLED, SIGKILL), BLAME_NOBODY);
	slot = add_worker();
	processes_fence(&m.processes, slot);
	assert_int_equal(blame_after(slot, CLD_KILLED, SIGKILL), BLAME_NOBODY);
	slot = add_worker();
	queues_recycle(&m.queues, MAIL, 0);		/* it leaves, but has no order yet */
	assert_int_equal(blame_after(slot, CLD_KILLED, SIGKILL), BLAME_WORKER);
}

TEST(a_death_while_leaving_or_stopping_is_no_crash_of_the_queue, setup, master_teardown)
{
	int slot = add_worker();

	queues_recycle(&m.queues, MAIL, 0);
	end(slot, CLD_KILLED, SIGKILL);
	reap_children(&m, 1000);
	assert_int_equal(policy()->events, 0);
	m.stop.phase = STOP_FINISHING;
	end(add_worker(), CLD_KILLED, SIGKILL);
	reap_children(&m, 2000);
	assert_int_equal(policy()->events, 0);
	assert_int_equal(m.deaths.n, 2);
}

TEST(the_trial_of_a_dead_worker_ends_and_that_of_another_does_not, setup, master_teardown)
{
	int slot = add_worker(), other = add_worker();

	atomic_store(&m.board->workers.trial, other + 1);
	end(slot, CLD_KILLED, SIGKILL);
	reap_children(&m, 1000);
	assert_int_equal(atomic_load(&m.board->workers.trial), other + 1);
	end(other, CLD_KILLED, SIGKILL);
	reap_children(&m, 1000);
	assert_int_equal(atomic_load(&m.board->workers.trial), 0);
}

TEST(an_interrupted_wait_is_repeated, setup, master_teardown)
{
	struct ended *e = end(add_worker(), CLD_KILLED, SIGKILL);

	interruptions[0] = interruptions[1] = 3;
	reap_children(&m, 1000);
	assert_true(e->reaped);
	assert_int_equal(m.deaths.n, 1);
}

/* ---- the sweeper ---- */

TEST(a_sweeper_that_died_opens_its_reports_again, setup, master_teardown)
{
	int worker = add_worker(), sweeper = master_add_sweeper(0, 0);

	end(worker, CLD_KILLED, SIGKILL);
	reap_children(&m, 0);
	m.orphans.pending = false;
	m.deaths.items[0].sweeper = sweeper;
	end(sweeper, CLD_EXITED, CHILD_EXIT_DONE);		/* well, but it had no order */
	reap_children(&m, 1000);
	assert_logged("sweeper_died", "warning child=5000001 exit=0 lived_ms=1000");
	assert_int_equal(m.deaths.items[0].sweeper, -1);
	assert_true(m.orphans.pending);
	assert_int_equal(m.staffing.sweeper.events, 1);
}

TEST(the_last_answers_of_a_sweeper_count, setup, master_teardown)
{
	int worker = add_worker(), sweeper = master_add_sweeper(0, 0), pair[2];
	struct child_death_answer answer = { .serial = 1 };

	end(worker, CLD_KILLED, SIGKILL);
	reap_children(&m, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	m.processes.items[sweeper].role.socket = pair[0];
	m.deaths.items[0].sweeper = sweeper;
	assert_int_equal(send(pair[1], &answer, sizeof(answer), 0), sizeof(answer));
	close(pair[1]);
	end(sweeper, CLD_KILLED, SIGKILL);
	reap_children(&m, 1000);
	assert_int_equal(m.deaths.n, 0);
	assert_int_equal(atomic_load(&m.board->master.buried[worker]), 1);
}

TEST(a_sweeper_that_finished_is_not_replaced_for_dying, setup, master_teardown)
{
	int sweeper = master_add_sweeper(0, 0), leaving = master_add_sweeper(0, 0);

	processes_order(&m.processes, sweeper, ORDER_FINISH, 0);
	end(sweeper, CLD_EXITED, CHILD_EXIT_DONE);
	reap_children(&m, 1000);
	assert_logged("sweeper_exited", "info");
	assert_false(m.orphans.pending);
	processes_leave(&m.processes, leaving, 0);
	end(leaving, CLD_KILLED, SIGSEGV);
	reap_children(&m, 1000);
	assert_logged("sweeper_died", "signal=SIGSEGV");
	assert_int_equal(m.staffing.sweeper.events, 0);
	assert_true(m.orphans.pending);
}

/* ---- the keeper ---- */

TEST(the_redis_of_a_dead_keeper_gets_time_to_save, setup, master_teardown)
{
	int keeper = master_add_keeper(0);

	atomic_store(&words(keeper)->handler_pgid, STRANGER);
	end(keeper, CLD_KILLED, SIGKILL);
	reap_children(&m, 1000);
	assert_int_equal(m.orphans.redis, STRANGER);
	assert_int_equal(master_signals(STRANGER, SIGTERM), 1);
	assert_int_equal(master_signals(0, SIGKILL), 0);
	assert_int_equal(m.staffing.keeper.events, 1);
	assert_logged("keeper_died", "warning child=5000000 signal=SIGKILL");
}

TEST(the_end_of_the_keeper_is_a_death_until_it_is_its_turn, setup, master_teardown)
{
	m.stop.phase = STOP_SWEEPER;
	end(master_add_keeper(0), CLD_EXITED, CHILD_EXIT_DONE);
	reap_children(&m, 1000);
	assert_logged("keeper_died", "exit=0");
	assert_int_equal(m.orphans.redis, 0);		/* none ran */
	m.stop.phase = STOP_KEEPER;
	end(master_add_keeper(0), CLD_EXITED, CHILD_EXIT_DONE);
	reap_children(&m, 2000);
	assert_logged("keeper_exited", "info");
	assert_int_equal(m.staffing.keeper.events, 1);
}

/* ---- orphans ---- */

TEST(a_process_that_is_none_of_ours_is_only_reaped, setup, master_teardown)
{
	struct ended *e = end_pid(STRANGER, CLD_EXITED, 1);

	orphans_keep_redis(&m.orphans, STRANGER);
	reap_children(&m, 0);
	assert_true(e->reaped);
	assert_int_equal(m.orphans.redis, 0);
	assert_int_equal(m.deaths.n, 0);
	assert_int_equal(master_signals(0, 0), 0);
}

TEST(orphans_are_reaped_until_none_is_left, setup, master_teardown)
{
	struct ended *stranger, *child;

	assert_int_equal(reap_orphans(&m, 0), INT64_MAX);
	stranger = end_pid(STRANGER, CLD_KILLED, SIGKILL);
	assert_int_equal(reap_orphans(&m, 0), INT64_MAX);
	assert_false(stranger->reaped);
	orphans_expect(&m.orphans, 0);
	child = end(add_worker(), CLD_KILLED, SIGKILL);		/* ended a moment ago: buried as any other */
	assert_int_equal(reap_orphans(&m, 0), INT64_MAX);
	assert_true(stranger->reaped && child->reaped);
	assert_int_equal(m.deaths.n, 1);
	assert_false(m.orphans.pending);
}

UNIT_MAIN(NULL, NULL)
