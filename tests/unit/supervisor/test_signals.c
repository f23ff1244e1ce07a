#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/base.h"
#include "supervisor/host/signals.h"

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

static void every_order_is_read_from_the_descriptor(void **state)
{
	(void)state;
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

static void a_signal_that_was_inherited_as_ignored_arrives(void **state)
{
	(void)state;
	raise(SIGHUP);
	assert_int_equal(signals_next(fd), SIGHUP);
}

static void an_order_before_the_descriptor_is_open_waits(void **state)
{
	sigset_t now;

	(void)state;
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

static void a_terminal_and_a_broken_pipe_do_not_end_the_master(void **state)
{
	(void)state;
	raise(SIGPIPE);
	raise(SIGXFSZ);
	raise(SIGTTIN);
	raise(SIGTTOU);
	raise(SIGWINCH);
	assert_int_equal(signals_next(fd), 0);
}

static void a_handler_does_not_inherit_the_descriptor(void **state)
{
	(void)state;
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
}

static void a_child_blocks_all_but_faults_and_ignores_none(void **state)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
	struct sigaction action;
	sigset_t set;

	(void)state;
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

static void a_start_is_ended_by_the_signals_that_stop(void **state)
{
	static const int stops[] = { SIGTERM, SIGINT, SIGQUIT };

	(void)state;
	raise(SIGUSR1);
	assert_int_equal(signals_wait_stop(0), 0);
	for (size_t i = 0; i < nitems(stops); i++) {
		raise(stops[i]);
		assert_int_equal(signals_wait_stop(60000), stops[i]);
	}
	assert_int_equal(signals_next(fd), SIGUSR1);		/* it still waits for the loop */
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_order_is_read_from_the_descriptor),
		T(a_signal_that_was_inherited_as_ignored_arrives),
		T(an_order_before_the_descriptor_is_open_waits),
		T(a_terminal_and_a_broken_pipe_do_not_end_the_master),
		T(a_handler_does_not_inherit_the_descriptor),
		T(a_child_blocks_all_but_faults_and_ignores_none),
		T(a_start_is_ended_by_the_signals_that_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
