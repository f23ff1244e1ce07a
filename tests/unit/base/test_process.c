/* Killing what is below us: orphans of a setsid, spared ones, stopped ones. */
#include <sys/syscall.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/process.h"
#include "tests/unit/unit.h"

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

static int leaves_nothing(void **unused)
{
	(void)unused;
	return process_kill_children_wait(NULL, NULL, 10000);
}

TEST(kills_all, NULL, leaves_nothing)
{
	sleeper();
	kill(sleeper(), SIGSTOP);
	orphan();
	assert_int_equal(process_kill_children_wait(NULL, NULL, 10000), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(process_kill_children_wait(NULL, NULL, 0), 0);
	assert_int_equal(process_kill_children(NULL, NULL), 0);
}

TEST(spares, NULL, leaves_nothing)
{
	pid_t spared = sleeper();
	int status;

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
TEST(spared_zombie, NULL, leaves_nothing)
{
	pid_t spared = fork();
	siginfo_t info;
	int status;

	if (spared == 0)
		_exit(7);
	assert_int_equal(waitid(P_PID, (id_t)spared, &info, WEXITED | WNOWAIT), 0);
	sleeper();
	assert_int_equal(process_kill_children_wait(is_arg, &spared, 10000), 0);
	assert_int_equal(waitpid(-1, &status, 0), spared);
	assert_int_equal(WEXITSTATUS(status), 7);
}

TEST(many, NULL, leaves_nothing)
{
	for (int i = 0; i < 300; i++)
		sleeper();
	assert_int_equal(process_kill_children_wait(NULL, NULL, 30000), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(resets_signals, NULL, leaves_nothing)
{
	pid_t pid;
	int status;

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

TEST(counts_no_flags_of_a_default_action)
{
	struct sigaction action = { .sa_handler = SIG_DFL, .sa_flags = SA_RESTART };

	assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
	assert_int_equal(process_changed_signals() & UINT64_C(1) << (SIGUSR2 - 1), 0);
	signal(SIGUSR2, SIG_IGN);
	assert_int_not_equal(process_changed_signals() & UINT64_C(1) << (SIGUSR2 - 1), 0);
	signal(SIGUSR2, SIG_DFL);
}

TEST(closes_from, NULL, leaves_nothing)
{
	pid_t pid;
	int status;

	pid = fork();
	if (pid == 0) {
		dup2(0, 700);
		process_close_from(3);
		_exit(fcntl(700, F_GETFD) != -1 || fcntl(3, F_GETFD) != -1 || fcntl(2, F_GETFD) == -1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

TEST(signal_names)
{
	assert_string_equal(process_signal_name(SIGKILL), "SIGKILL");
	assert_string_equal(process_signal_name(SIGSYS), "SIGSYS");
	assert_string_equal(process_signal_name(35), "SIG35");
	assert_string_equal(process_signal_name(64), "SIG64");
	assert_string_equal(process_signal_name(0), "SIG?");
	assert_string_equal(process_signal_name(1000), "SIG?");
}

int main(void)
{
	if (process_become_subreaper() == -1)
		return 1;
	return unit_run(NULL, NULL);
}
