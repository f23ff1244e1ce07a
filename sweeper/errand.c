/*
 * A child for what may block. It is in a group of its own, which is killed when its time is over and when it
 * has ended; it dies with the sweeper. What it does is the caller's.
 */
#include <sys/prctl.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "sweeper/errand.h"

#include "common/process.h"

#define SAID_MAX (1024 * 1024)	/* more is read and dropped */

static _Noreturn void be_child(int out, int (*work)(void *arg, int out), void *arg, pid_t parent)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (dup2(out, STDERR_FILENO + 1) == -1)
		_exit(1);
	process_close_from(STDERR_FILENO + 2);
	fcntl(STDERR_FILENO + 1, F_SETFD, FD_CLOEXEC);
	process_reset_signals();
	_exit(work(arg, STDERR_FILENO + 1));
}

int errand_start(struct errand *e, int (*work)(void *arg, int out), void *arg, int64_t timeout_ms, int64_t now_ms)
{
	pid_t parent = getpid(), pid;
	int fds[2], error;

	if (pipe2(fds, O_CLOEXEC) == -1)
		return -1;
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	pid = fork();
	if (pid == 0)
		be_child(fds[1], work, arg, parent);
	error = errno;
	close(fds[1]);
	if (pid == -1) {
		close(fds[0]);
		errno = error;
		return -1;
	}
	setpgid(pid, pid);
	e->pid = pid;
	e->fd = fds[0];
	e->killed = false;
	e->until_ms = now_ms + timeout_ms;
	buffer_clear(&e->said);
	return 0;
}

bool errand_under_way(const struct errand *e)
{
	return e->pid != 0;
}

bool errand_pollfd(const struct errand *e, struct pollfd *p)
{
	if (e->pid == 0 || e->fd == -1)
		return false;
	*p = (struct pollfd){ .fd = e->fd, .events = POLLIN };
	return true;
}

static void listen_to(struct errand *e)
{
	char chunk[4096];
	ssize_t n;

	while (e->fd != -1 && ((n = read(e->fd, chunk, sizeof(chunk))) > 0 || (n == -1 && errno == EINTR)))
		if (n > 0 && e->said.len < SAID_MAX)
			buffer_append(&e->said, chunk, (size_t)n);
}

static void end(struct errand *e)
{
	listen_to(e);
	close(e->fd);
	e->fd = -1;
	e->pid = 0;
}

/* Neither waits: one that is interrupted all the same says nothing, and it is asked again at the next look. */
static bool has_ended(const struct errand *e)
{
	siginfo_t info = { .si_pid = 0 };

	if (waitid(P_PID, (id_t)e->pid, &info, WEXITED | WNOHANG | WNOWAIT) == -1)
		return errno != EINTR;
	return info.si_pid != 0;
}

static bool is_reaped(const struct errand *e, int *status)
{
	if (waitpid(e->pid, status, WNOHANG) != -1)
		return true;
	*status = SIGKILL;
	return errno != EINTR;
}

bool errand_look(struct errand *e, int *status, int64_t now_ms)
{
	if (e->pid == 0)
		return false;
	listen_to(e);
	if (!e->killed && now_ms >= e->until_ms) {
		kill(-e->pid, SIGKILL);
		e->killed = true;
	}
	if (!has_ended(e))
		return false;
	kill(-e->pid, SIGKILL);		/* what it started goes with it; the number is ours until it is reaped */
	if (!is_reaped(e, status))
		return false;
	end(e);
	return true;
}

void errand_free(struct errand *e)
{
	if (e->pid != 0) {
		kill(-e->pid, SIGKILL);
		kill(e->pid, SIGKILL);
		waitpid(e->pid, NULL, 0);
		end(e);
	}
	buffer_free(&e->said);
}
