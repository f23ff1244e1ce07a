#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/base.h"
#include "supervisor/host/signals.h"
#include "tests/unit/unit.h"

static const int orders[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD };
static sigset_t old;
static int fd;

static int setup(void **state)
{
	(void)state;
	sigprocmask(SIG_SETMASK, NULL, &old);
	signal(SIGHUP, SIG_IGN);		/* as nohup(1) does */
	fd = signals_open();
	return fd == -1 ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	while (signals_next(fd) != 0)
		;
	close(fd);
	process_reset_signals();
	return sigprocmask(SIG_SETMASK, &old, NULL);
}

TEST(every_order_is_read_from_the_descriptor, setup, teardown)
{
	for (size_t i = 0; i < nitems(orders); i++) {
		if (orders[i] == SIGCONT || orders[i] == SIGTSTP)
			continue;		/* each of these two discards the other one */
		raise(orders[i]);
		assert_int_equal(signals_next(fd), orders[i]);
	}
	raise(SIGTSTP);
	assert_int_equal(signals_next(fd), SIGTSTP);
	raise(SIGCONT);
	assert_int_equal(signals_next(fd), SIGCONT);
	assert_int_equal(signals_next(fd), 0);
}

TEST(a_signal_that_was_inherited_as_ignored_arrives, setup, teardown)
{
	raise(SIGHUP);
	assert_int_equal(signals_next(fd), SIGHUP);
}

TEST(an_order_before_the_descriptor_is_open_waits, setup, teardown)
{
	sigset_t now;

	close(fd);
	sigprocmask(SIG_SETMASK, &old, NULL);
	signals_hold();
	raise(SIGTERM);
	raise(SIGHUP);
	fd = signals_open();
	assert_int_equal(signals_next(fd), SIGHUP);
	assert_int_equal(signals_next(fd), SIGTERM);
	signals_release();
	sigprocmask(SIG_SETMASK, NULL, &now);
	assert_int_equal(sigismember(&now, SIGTERM), 0);
}

TEST(a_terminal_and_a_broken_pipe_do_not_end_the_master, setup, teardown)
{
	raise(SIGPIPE);
	raise(SIGXFSZ);
	raise(SIGTTIN);
	raise(SIGTTOU);
	raise(SIGWINCH);
	assert_int_equal(signals_next(fd), 0);
}

TEST(a_handler_does_not_inherit_the_descriptor, setup, teardown)
{
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
}

TEST(a_child_blocks_all_but_faults_and_ignores_none, setup, teardown)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
	struct sigaction action;
	sigset_t set;

	signals_child();
	sigprocmask(SIG_BLOCK, NULL, &set);
	for (size_t i = 0; i < nitems(orders); i++)
		assert_int_equal(sigismember(&set, orders[i]), 1);
	assert_int_equal(sigismember(&set, SIGPIPE), 1);
	assert_int_equal(sigismember(&set, SIGXFSZ), 1);
	for (size_t i = 0; i < nitems(faults); i++)
		assert_int_equal(sigismember(&set, faults[i]), 0);
	for (int sig = 1; sig < 32; sig++)
		if (sigaction(sig, NULL, &action) == 0)
			assert_true(action.sa_handler != SIG_IGN);
}

TEST(a_start_is_ended_by_the_signals_that_stop, setup, teardown)
{
	static const int stops[] = { SIGTERM, SIGINT, SIGQUIT };

	raise(SIGUSR1);
	assert_int_equal(signals_wait_stop(0), 0);
	for (size_t i = 0; i < nitems(stops); i++) {
		raise(stops[i]);
		assert_int_equal(signals_wait_stop(60000), stops[i]);
	}
	assert_int_equal(signals_next(fd), SIGUSR1);		/* it still waits for the loop */
}

UNIT_MAIN(NULL, NULL)
