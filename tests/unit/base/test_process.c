/* Killing what is below us: orphans of a setsid, spared ones, stopped ones. */
#include <sys/syscall.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/process.h"

/* A process that waits for its death; stopped, deaf to TERM. */
static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGTERM, SIG_IGN);
		for (;;)
			pause();
	}
	return pid;
}

/* Makes a daemon that loses its parent and its group. Returns its pid once we are its parent. */
static pid_t orphan(void)
{
	pid_t pid, child;
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		pid = sleeper();
		if (write(p[1], &pid, sizeof(pid)) != sizeof(pid))
			abort();
		_exit(0);
	}
	assert_int_equal(read(p[0], &pid, sizeof(pid)), sizeof(pid));
	close(p[0]);
	close(p[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	return pid;
}

static bool is_arg(pid_t pid, void *arg)
{
	return pid == *(pid_t *)arg;
}

static void kills_all(void **unused)
{
	(void)unused;
	sleeper();
	kill(sleeper(), SIGSTOP);
	orphan();
	assert_int_equal(process_kill_children_wait(NULL, NULL, 10000), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(process_kill_children_wait(NULL, NULL, 0), 0);
	assert_int_equal(process_kill_children(NULL, NULL), 0);
}

static void spares(void **unused)
{
	pid_t spared = sleeper();
	int status;

	(void)unused;
	orphan();
	sleeper();
	assert_int_equal(process_kill_children(is_arg, &spared), 2);
	assert_int_equal(process_kill_children_wait(is_arg, &spared, 10000), 0);
	assert_int_equal(waitpid(-1, &status, WNOHANG), 0);	/* it alone is left, and lives */
	kill(spared, SIGTERM);
	assert_int_equal(waitpid(-1, &status, WNOHANG), 0);
	kill(spared, SIGKILL);
	assert_int_equal(waitpid(-1, &status, 0), spared);	/* and its status was not taken */
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

/* The status of a spared one that is dead already stays, and does not hide the others. */
static void spared_zombie(void **unused)
{
	pid_t spared = fork();
	siginfo_t info;
	int status;

	(void)unused;
	if (spared == 0)
		_exit(7);
	assert_int_equal(waitid(P_PID, (id_t)spared, &info, WEXITED | WNOWAIT), 0);
	sleeper();
	assert_int_equal(process_kill_children_wait(is_arg, &spared, 10000), 0);
	assert_int_equal(waitpid(-1, &status, 0), spared);
	assert_int_equal(WEXITSTATUS(status), 7);
}

static void many(void **unused)
{
	(void)unused;
	for (int i = 0; i < 300; i++)
		sleeper();
	assert_int_equal(process_kill_children_wait(NULL, NULL, 30000), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void resets_signals(void **unused)
{
	pid_t pid;
	int status;

	(void)unused;
	pid = fork();
	if (pid == 0) {
		/* the kernel's struct, whose first word is the handler; glibc refuses 32, which make leaves ignored */
		unsigned long action[8] = { (unsigned long)SIG_IGN };
		sigset_t mask;
		int wrong = 0;

		sigfillset(&mask);
		sigprocmask(SIG_SETMASK, &mask, NULL);
		signal(SIGPIPE, SIG_IGN);
		signal(SIGRTMIN + 3, SIG_IGN);
		syscall(SYS_rt_sigaction, 32, action, NULL, (size_t)(NSIG / 8));
		process_reset_signals();
		sigprocmask(SIG_SETMASK, NULL, &mask);
		for (int sig = 1; sig < NSIG; sig++) {
			if (syscall(SYS_rt_sigaction, sig, NULL, action, (size_t)(NSIG / 8)) == 0 && action[0] != 0)
				wrong++;
			wrong += sigismember(&mask, sig) == 1;
		}
		_exit(wrong);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void counts_no_flags_of_a_default_action(void **unused)
{
	struct sigaction action = { .sa_handler = SIG_DFL, .sa_flags = SA_RESTART };

	(void)unused;
	assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
	assert_int_equal(process_changed_signals() & UINT64_C(1) << (SIGUSR2 - 1), 0);
	signal(SIGUSR2, SIG_IGN);
	assert_int_not_equal(process_changed_signals() & UINT64_C(1) << (SIGUSR2 - 1), 0);
	signal(SIGUSR2, SIG_DFL);
}

static void closes_from(void **unused)
{
	pid_t pid;
	int status;

	(void)unused;
	pid = fork();
	if (pid == 0) {
		dup2(0, 700);
		process_close_from(3);
		_exit(fcntl(700, F_GETFD) != -1 || fcntl(3, F_GETFD) != -1 || fcntl(2, F_GETFD) == -1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void signal_names(void **unused)
{
	(void)unused;
	assert_string_equal(process_signal_name(SIGKILL), "SIGKILL");
	assert_string_equal(process_signal_name(SIGSYS), "SIGSYS");
	assert_string_equal(process_signal_name(35), "SIG35");
	assert_string_equal(process_signal_name(64), "SIG64");
	assert_string_equal(process_signal_name(0), "SIG?");
	assert_string_equal(process_signal_name(1000), "SIG?");
}

static int leaves_nothing(void **unused)
{
	(void)unused;
	return process_kill_children_wait(NULL, NULL, 10000);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(kills_all, leaves_nothing),
		cmocka_unit_test_teardown(spares, leaves_nothing),
		cmocka_unit_test_teardown(spared_zombie, leaves_nothing),
		cmocka_unit_test_teardown(many, leaves_nothing),
		cmocka_unit_test_teardown(resets_signals, leaves_nothing),
		cmocka_unit_test(counts_no_flags_of_a_default_action),
		cmocka_unit_test_teardown(closes_from, leaves_nothing),
		cmocka_unit_test(signal_names),
	};

	if (process_become_subreaper() == -1)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
