/*
 * What starting a process for a message costs at least: a loop that spawns, feeds and waits, and nothing
 * else. `bare` does only that. `clean` does what the documentation promises of every handler: output
 * pipes that are drained, a session of its own, nothing inherited, the group killed, no child left.
 * PROGRAM is an absolute path.
 *
 *	spawn bare|clean JOBS SECONDS BYTES PROGRAM [ARGUMENT]     prints the number of runs and the time
 */
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

extern char **environ;

struct loop {
	bool clean;
	char **argv;
	char message[64 * 1024];
	size_t len;
	int out[2], err[2];
	sigset_t while_polling;
	pid_t self;
};

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	_exit(1);
}

static void on_child(int sig)
{
	(void)sig;
}

static void cleanly(const struct loop *l)
{
	sigset_t none;

	must(setsid() != -1, "setsid");
	must(dup2(l->out[1], 1) != -1 && dup2(l->err[1], 2) != -1, "dup2");
	must(syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0, "close_range");
	umask(077);
	must(chdir("/") == 0, "chdir");
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
	must(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == l->self, "pdeathsig");
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static pid_t start(const struct loop *l)
{
	sigset_t all, old;
	int in[2];
	pid_t pid;

	must(pipe2(in, O_CLOEXEC) == 0, "pipe");
	must(write(in[1], l->message, l->len) == (ssize_t)l->len, "write");
	close(in[1]);
	sigfillset(&all);
	if (l->clean)
		sigprocmask(SIG_SETMASK, &all, &old);
	pid = vfork();
	if (pid == 0) {
		dup2(in[0], 0);
		if (l->clean)
			cleanly(l);
		execve(l->argv[0], l->argv, environ);
		_exit(127);
	}
	must(pid != -1, "vfork");
	if (l->clean)
		sigprocmask(SIG_SETMASK, &old, NULL);
	close(in[0]);
	return pid;
}

/* SIGCHLD is blocked but while polling, as in a loop that serves other descriptors too. */
static void wait_cleanly(const struct loop *l, pid_t pid)
{
	struct pollfd fds[2] = { { .fd = l->out[0], .events = POLLIN }, { .fd = l->err[0], .events = POLLIN } };
	char rest[4096];
	siginfo_t info;
	int status = 0;

	do {
		ppoll(fds, 2, NULL, &l->while_polling);
		info.si_pid = 0;
		must(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0, "waitid");
	} while (info.si_pid != pid);
	kill(-pid, SIGKILL);
	waitpid(pid, &status, 0);
	must(status == 0, l->argv[0]);
	must(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == -1 && errno == ECHILD, "a child left");
	while (read(l->out[0], rest, sizeof(rest)) > 0 || read(l->err[0], rest, sizeof(rest)) > 0)
		;
}

static void wait_barely(pid_t pid)
{
	int status = 0;

	must(waitpid(pid, &status, 0) == pid && status == 0, "handler");
}

static uint64_t run(struct loop *l, double seconds)
{
	double end = now_s() + seconds;
	uint64_t n = 0;

	l->self = getpid();
	while (n % 16 != 0 || now_s() < end) {
		pid_t pid = start(l);

		if (l->clean)
			wait_cleanly(l, pid);
		else
			wait_barely(pid);
		n++;
	}
	return n;
}

static void prepare(struct loop *l)
{
	struct sigaction sa = { .sa_handler = on_child };
	sigset_t child;

	if (!l->clean)
		return;
	must(pipe2(l->out, O_CLOEXEC) == 0 && pipe2(l->err, O_CLOEXEC) == 0, "pipe");
	must(fcntl(l->out[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(l->err[0], F_SETFL, O_NONBLOCK) == 0, "fcntl");
	must(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0, "subreaper");
	sigaction(SIGCHLD, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &l->while_polling);
}

int main(int argc, char **argv)
{
	static struct loop l;
	uint64_t total = 0, n;
	double begin, seconds;
	int jobs, pipes[2];

	must(argc >= 6, "usage: spawn bare|clean JOBS SECONDS BYTES PROGRAM [ARGUMENT]");
	l.clean = strcmp(argv[1], "clean") == 0;
	jobs = atoi(argv[2]);
	seconds = atof(argv[3]);
	l.len = strtoul(argv[4], NULL, 10);
	l.argv = argv + 5;
	must(l.len <= sizeof(l.message) && jobs > 0, "arguments");
	memset(l.message, 'x', l.len);
	must(pipe(pipes) == 0, "pipe");
	begin = now_s();
	for (int i = 0; i < jobs; i++) {
		if (fork() == 0) {
			prepare(&l);
			n = run(&l, seconds);
			_exit(write(pipes[1], &n, sizeof(n)) != sizeof(n));
		}
	}
	close(pipes[1]);
	for (int i = 0; i < jobs; i++) {
		must(read(pipes[0], &n, sizeof(n)) == sizeof(n), "a loop");
		total += n;
	}
	printf("%llu %.6f\n", (unsigned long long)total, now_s() - begin);
	return 0;
}
