/*
 * Runs work that may block in a child of the sweeper. The child leads a process group, which is killed when its time is
 * over and when the child has ended; the child dies with the sweeper. This file also reaps all children of the sweeper:
 * subprocesses, whose status it keeps for subprocess_poll(), and processes that the sweeper adopted as their subreaper.
 */
#include <assert.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "sweeper/core/subprocess.h"

#include "common/base/base.h"
#include "common/log/log.h"

#define SAID_MAX (1024 * 1024)	/* more is read and dropped */
/* how long subprocess_free() waits for a killed subprocess, which may hang in the kernel */
#define FREE_MS 1000

enum { OUT_FD = STDERR_FILENO + 1, LOG_FD, BEHIND_LOG_FD };

static LIST_HEAD(, subprocess) under_way = LIST_HEAD_INITIALIZER(under_way);

static struct {
	bool possible;		/* a subprocess has ended since the last check that found no adopted child */
	size_t most;		/* adopted children that one check found, at most; 0: none so far */
} adopted;

static pid_t spared;		/* 0: none */

static _Noreturn void be_child(int out, int (*work)(void *arg, int out), void *arg, pid_t parent)
{
	int first_closed;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	out = fcntl(out, F_DUPFD_CLOEXEC, BEHIND_LOG_FD);
	if (out == -1)
		_exit(1);
	first_closed = log_move(LOG_FD) ? BEHIND_LOG_FD : LOG_FD;
	if (dup3(out, OUT_FD, O_CLOEXEC) == -1 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		_exit(1);
	process_close_from(first_closed);
	process_reset_signals();
	_exit(work(arg, OUT_FD));
}

int subprocess_start(struct subprocess *e, int (*work)(void *arg, int out), void *arg, int64_t timeout_ms,
    int64_t now_ms)
{
	pid_t parent = getpid(), pid;
	int fds[2], error;

	assert(e->pid == 0);		/* the process before has ended, and its answer was read */
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
	e->killed = e->asked = e->ended = false;
	e->until_ms = now_ms + timeout_ms;
	LIST_INSERT_HEAD(&under_way, e, entry);
	buffer_clear(&e->said);
	return 0;
}

void subprocess_spare(pid_t pid)
{
	spared = pid;
}

bool subprocess_runs(const struct subprocess *e)
{
	return e->pid != 0;
}

int subprocess_under_way(void)
{
	const struct subprocess *e;
	int n = 0;

	LIST_FOREACH(e, &under_way, entry)
		n++;
	return n;
}

bool subprocess_pollfd(const struct subprocess *e, struct pollfd *p)
{
	if (e->pid == 0 || e->fd == -1)
		return false;
	*p = (struct pollfd){ .fd = e->fd, .events = POLLIN };
	return true;
}

bool subprocess_is_ready(const struct subprocess *e, const struct pollfd *p, nfds_t n)
{
	struct pollfd own;

	if (!subprocess_pollfd(e, &own))
		return false;
	for (nfds_t i = 0; i < n; i++)
		if (p[i].fd == own.fd && p[i].revents != 0)
			return true;
	return false;
}

static void listen_to(struct subprocess *e)
{
	char chunk[4096];
	ssize_t n;

	while (e->fd != -1 && ((n = read(e->fd, chunk, sizeof(chunk))) > 0 || (n == -1 && errno == EINTR)))
		if (n > 0 && e->said.len < SAID_MAX)
			buffer_append(&e->said, chunk, (size_t)n);
}

static void close_ended(struct subprocess *e)
{
	listen_to(e);
	close(e->fd);
	e->fd = -1;
	e->pid = 0;
	LIST_REMOVE(e, entry);
}

/* ---- reaping ---- */

static void set_ended(struct subprocess *e, int status)
{
	e->status = status;
	e->ended = adopted.possible = true;
}

/* The status in the form of waitpid(2), made from what waitid(2) saw before the child is reaped: if reaping fails, a
 * failure must not look like a success. */
static int status_of(const siginfo_t *info)
{
	return info->si_code == CLD_EXITED ? (info->si_status & 0xff) << 8 : info->si_status & 0x7f;
}

/* Kills the group of a subprocess that has ended, then reaps it: until then no other process can get its number. */
static void reap_child(const siginfo_t *info)
{
	struct subprocess *e;

	LIST_FOREACH(e, &under_way, entry)
		if (e->pid == info->si_pid && !e->ended) {
			kill(-e->pid, SIGKILL);
			set_ended(e, status_of(info));
		}
	waitpid(info->si_pid, NULL, WNOHANG);
}

/* An interrupted call is repeated at the next check. If there is no child at all (ECHILD), subprocesses that are still
 * listed have failed. */
static void reap_all(void)
{
	struct subprocess *e;
	siginfo_t info;

	for (;;) {
		info = (siginfo_t){ .si_pid = 0 };
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == -1)
			break;
		if (info.si_pid == 0)
			return;
		reap_child(&info);
	}
	if (errno != ECHILD)
		return;
	LIST_FOREACH(e, &under_way, entry)
		if (!e->ended)
			set_ended(e, SIGKILL);
}

static bool is_subprocess(pid_t pid, void *unused)
{
	const struct subprocess *e;

	(void)unused;
	if (pid == spared)
		return true;
	LIST_FOREACH(e, &under_way, entry)
		if (e->pid == pid && !e->ended)
			return true;
	return false;
}

bool subprocess_kill_adopted(void)
{
	size_t n;

	if (LIST_EMPTY(&under_way) && !adopted.possible)
		return false;
	reap_all();
	if (!adopted.possible)
		return false;
	n = process_kill_children(is_subprocess, NULL);
	if (n > adopted.most)
		adopted.most = n;
	if (n > 0)
		return true;
	if (adopted.most > 0)
		log_info("handler_left_processes", log_str("worker", "sweeper"),
		    log_int("processes", (int64_t)adopted.most));
	adopted.possible = false;
	adopted.most = 0;
	return false;
}

bool subprocess_poll(struct subprocess *e, int *status, int64_t now_ms)
{
	if (e->pid == 0)
		return false;
	listen_to(e);
	if (!e->killed && !e->ended && now_ms >= e->until_ms) {
		kill(-e->pid, SIGKILL);
		e->killed = true;
	}
	reap_all();
	if (!e->ended)
		return false;
	*status = e->status;
	close_ended(e);
	return true;
}

/* Until reap_child() has set `ended`, no other process can have its number. */
void subprocess_ask_to_end(struct subprocess *e)
{
	if (e->pid != 0 && !e->ended && !e->asked)
		e->asked = kill(e->pid, SIGTERM) == 0;
}

/* A subprocess that does not end in time is treated as an adopted child from then on. */
void subprocess_free(struct subprocess *e)
{
	int64_t give_up_ms = clock_monotonic_ms() + FREE_MS;

	if (e->pid != 0) {
		while (!e->ended && clock_monotonic_ms() < give_up_ms) {
			kill(-e->pid, SIGKILL);
			kill(e->pid, SIGKILL);
			reap_all();
			if (!e->ended)
				poll(NULL, 0, 1);
		}
		adopted.possible = true;
		close_ended(e);
	}
	buffer_free(&e->said);
}
