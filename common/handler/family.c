/*
 * Kills and reaps the processes of a handler. handler/process.c decides when, and how long to wait. In the usual case,
 * a leader that left no other process, this costs waitid, kill, waitpid, waitid.
 */
#include <sys/wait.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "common/handler/family.h"

void handler_family_free(struct handler_family *f)
{
	free(f->abandoned);
}

void handler_family_begin(struct handler_family *f, pid_t leader)
{
	f->leader = leader;
	f->status = 0;
	f->left = 0;
	f->childless = false;
}

/* A child that has not called setsid yet has no group of its own (only where vfork is a fork). */
void handler_family_signal(const struct handler_family *f, int sig)
{
	if (f->leader != 0 && kill(-f->leader, sig) == -1 && errno == ESRCH)
		kill(f->leader, sig);
}

static void forget_abandoned(struct handler_family *f, pid_t pid)
{
	for (size_t i = 0; i < f->nabandoned; i++)
		if (f->abandoned[i] == pid)
			f->abandoned[i--] = f->abandoned[--f->nabandoned];
}

/* Returns the next child that has ended, without reaping it. */
static int peek_ended(siginfo_t *info)
{
	int r;

	do {
		*info = (siginfo_t){ .si_pid = 0 };
		r = waitid(P_ALL, 0, info, WEXITED | WNOHANG | WNOWAIT);
	} while (r == -1 && errno == EINTR);
	return r;
}

/* The status as waitpid(2) returns it, read before the child is reaped. If reaping fails, a failure still never looks
 * like a success. */
static int status_of(const siginfo_t *info)
{
	return info->si_code == CLD_EXITED ? (info->si_status & 0xff) << 8 : info->si_status & 0x7f;
}

void handler_family_reap(struct handler_family *f)
{
	siginfo_t info;

	for (;;) {
		if (peek_ended(&info) == -1) {
			f->childless = errno == ECHILD;
			return;
		}
		if (info.si_pid == 0)
			return;
		if (info.si_pid == f->leader) {
			kill(-f->leader, SIGKILL);
			f->status = status_of(&info);
			waitpid(f->leader, NULL, WNOHANG);
			f->leader = 0;
		} else {
			waitpid(info.si_pid, NULL, WNOHANG);
			forget_abandoned(f, info.si_pid);
		}
	}
}

static bool is_abandoned(pid_t pid, void *arg)
{
	const struct handler_family *f = arg;

	for (size_t i = 0; i < f->nabandoned; i++)
		if (f->abandoned[i] == pid)
			return true;
	return false;
}

static bool no_children(void)
{
	siginfo_t info;

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == -1 && errno == ECHILD;
}

/* If no process got a signal and none is known to be abandoned, /proc may just not show them: that does not prove that
 * there are none. */
bool handler_family_clear(struct handler_family *f)
{
	size_t n;

	if (f->childless || no_children())
		return true;
	n = process_kill_children(is_abandoned, f);
	if (n == 0 && f->nabandoned > 0)
		return true;
	f->left = n > f->left ? n : f->left;
	return false;
}

static bool abandon(pid_t pid, void *arg)
{
	struct handler_family *f = arg;

	if (!is_abandoned(pid, f)) {
		f->abandoned = alloc_resize(f->abandoned, f->nabandoned + 1, sizeof(*f->abandoned));
		f->abandoned[f->nabandoned++] = pid;
	}
	return true;
}

size_t handler_family_abandon(struct handler_family *f)
{
	size_t before = f->nabandoned;

	process_kill_children(abandon, f);
	if (f->leader != 0)
		f->status = SIGKILL;
	f->leader = 0;
	return f->nabandoned - before;
}
