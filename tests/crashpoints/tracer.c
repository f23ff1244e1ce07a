/*
 * Runs a command and does something to chosen processes of its tree at their nth system call: kill them
 * before or after it, kill their parent, or have the call fail. A process is named by its descent, which does
 * not depend on time: 0 is the command, 0.2 its second child, 0.2.1 that one's first. Its calls are counted from
 * its birth (the command's: from its exec) to the exec of another program, or to its end. Nobody else is held
 * up: those that are no target's forebears are not traced. What happens then is the caller's to see.
 *
 *	tracer [-t ROLE:N]... [-a ACTION] [-f FILTER] [-l LIMIT:FILTER] [-g GATE] [-d MS] [-v] -o REPORT -- COMMAND...
 *
 * ACTION is count (the default), kill, kill-after, kill-parent, short, torn, or the number of an errno. FILTER: only these
 * calls count, "ppoll,read@pipe,openat@create". -l: of an unbroken row of these only the first LIMIT count. -g: none
 * counts before that file is there. An errno is given to one call, or to all that count for MS. short: half of what is to
 * be written is. torn: the same, and what counts after it for MS finds the disk full.
 * REPORT gets lines: "fired ROLE N CALL KIND", "calls ROLE N INJECTED" at the end, with -v also each call.
 */
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/crashpoints/call.h"
#include "tests/crashpoints/descent.h"

enum action { COUNT, KILL, KILL_AFTER, KILL_PARENT, SHORT, TORN, FAIL };

static enum action action;
static int error;
static long for_ms, row_limit;
static const char *filter, *limited, *gate;
static FILE *report;
static bool verbose;

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- what counts ---- */

static bool counts(struct process *p, const char *name, const char *kind)
{
	if (gate != NULL && access(gate, F_OK) == -1)
		return false;
	gate = NULL;
	p->row = limited != NULL && call_is_named(limited, name, kind) ? p->row + 1 : 0;
	return p->row <= row_limit && (filter == NULL || call_is_named(filter, name, kind));
}

/* ---- what is done ---- */

static void fire(struct process *p, const char *name, const char *kind)
{
	if (p->target->injected++ == 0)
		fprintf(report, "fired %s %ld %s %s\n", p->role, p->target->calls, name, kind);
	fflush(report);
}

static void ended(const struct process *p)
{
	if (p->target != NULL)
		fprintf(report, "calls %s %ld %ld\n", p->role, p->target->calls, p->target->injected);
	fflush(report);
}

/* Not before it is really gone may the child go on. */
static void kill_parent(struct process *p)
{
	struct process *parent = descent_find(p->parent);
	int status;

	kill(p->parent, SIGKILL);
	while (waitpid(p->parent, &status, __WALL) == p->parent && !WIFSIGNALED(status) && !WIFEXITED(status))
		;
	if (parent != NULL)
		parent->pid = 0;
}

static bool is_due(const struct target *t)
{
	if (t->when == 0 || t->calls < t->when)
		return false;
	if (for_ms > 0)
		return t->until_ms == 0 || now_ms() < t->until_ms;
	return t->calls == t->when;
}

/* It is made with less, or not at all. */
static void disturb(struct process *p, uint64_t length)
{
	struct target *t = p->target;

	t->until_ms = t->until_ms == 0 ? now_ms() + for_ms : t->until_ms;
	if (action == SHORT || (action == TORN && t->injected == 1)) {
		call_set_length(p->pid, length > 1 ? length / 2 : length);
	} else {
		p->failing = true;
		call_skip(p->pid);
	}
	descent_resume(p, 0);
}

static void entering(struct process *p, const struct __ptrace_syscall_info *info)
{
	const char *name = call_name((long)info->entry.nr), *kind = call_kind(p->pid, (long)info->entry.nr, info->entry.args);
	struct target *t = p->target;

	p->nr = (long)info->entry.nr;
	p->matched = counts(p, name, kind);
	if (p->matched) {
		t->calls++;
		if (verbose)
			fprintf(report, "call %s %ld %s %s\n", p->role, t->calls, name, kind);
	}
	t->spent = action >= SHORT && t->injected > 0 && !is_due(t);
	if (!p->matched || !is_due(t) || action == COUNT || action == KILL_AFTER) {
		descent_resume(p, 0);
		return;
	}
	fire(p, name, kind);
	if (action == KILL) {
		kill(p->pid, SIGKILL);
	} else if (action == KILL_PARENT) {
		kill_parent(p);
		ended(p);
		descent_let_go(p);
	} else {
		disturb(p, info->entry.args[2]);
	}
}

static void leaving(struct process *p)
{
	if (p->failing)
		call_set_result(p->pid, -error);
	p->failing = false;
	if (action == KILL_AFTER && p->matched && p->target->calls == p->target->when) {
		fire(p, call_name(p->nr), "-");
		kill(p->pid, SIGKILL);
		return;
	}
	descent_resume(p, 0);
}

static void at_call(struct process *p)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, p->pid, sizeof(info), &info) == -1)
		return;		/* killed meanwhile */
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
		entering(p, &info);
	else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
		leaving(p);
	else
		descent_resume(p, 0);
}

static void executed(struct process *p)
{
	if (strcmp(p->role, "0") == 0 && !p->counting) {
		descent_begin(p);
		return;
	}
	ended(p);		/* it is another program now */
	descent_let_go(p);
}

static void stopped(struct process *p, int status)
{
	int sig = WSTOPSIG(status), event = status >> 16;

	if (p->role[0] == '\0')
		p->stopped = true;
	else if (event == PTRACE_EVENT_EXEC)
		executed(p);
	else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
		descent_born(p);
		descent_resume(p, 0);
	} else if (event == PTRACE_EVENT_STOP && sig != SIGTRAP)
		ptrace(PTRACE_LISTEN, p->pid, 0, 0);
	else if (event == PTRACE_EVENT_STOP && p->target == NULL && strcmp(p->role, "0") != 0)
		descent_begin(p);
	else if (event != 0)
		descent_resume(p, 0);
	else if (sig == (SIGTRAP | 0x80))
		at_call(p);
	else
		descent_resume(p, sig);
}

static void watch(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, __WALL)) != -1 || errno == EINTR) {
		struct process *p = descent_find(pid);

		if (p == NULL)
			p = WIFSTOPPED(status) ? descent_add(pid) : NULL;
		if (p != NULL && WIFSTOPPED(status)) {
			stopped(p, status);
		} else if (p != NULL) {
			ended(p);
			p->pid = 0;
		}
	}
}

/* ---- the beginning ---- */

/* Beside the command, which stays its parent's child: exit status, pid and pipes are its own. */
static void trace(pid_t pid, int told)
{
	struct process *p = descent_add(pid);
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	setsid();
	prctl(PR_SET_PDEATHSIG, 0);
	strcpy(p->role, "0");
	if (ptrace(PTRACE_SEIZE, pid, 0, DESCENT_WATCH) == -1) {
		fprintf(report, "error %s\n", strerror(errno));
		fflush(report);
		_exit(1);
	}
	if (write(told, "", 1) != 1)
		_exit(1);
	close(told);
	watch();
	fflush(report);
	_exit(0);
}

static void start_tracer(void)
{
	pid_t self = getpid(), between;
	int told[2];
	char c;

	if (pipe2(told, O_CLOEXEC) == -1 || (between = fork()) == -1)
		err(1, "tracer");
	if (between == 0) {
		close(told[0]);
		if (fork() == 0)
			trace(self, told[1]);
		_exit(0);
	}
	close(told[1]);
	waitpid(between, NULL, 0);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (read(told[0], &c, 1) != 1)
		errx(1, "cannot be traced");
	close(told[0]);
}

static void set_action(const char *text)
{
	static const char *const words[] = { [COUNT] = "count", [KILL] = "kill", [KILL_AFTER] = "kill-after",
		[KILL_PARENT] = "kill-parent", [SHORT] = "short", [TORN] = "torn" };

	error = atoi(text);
	action = error > 0 ? FAIL : COUNT;
	if (error == 0)
		error = ENOSPC;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(text, words[i]) == 0)
			action = (enum action)i;
}

int main(int argc, char *argv[])
{
	char *limited_at = NULL;
	int c;

	while ((c = getopt(argc, argv, "+t:a:f:l:g:d:o:v")) != -1) {
		if (c == 't')
			descent_add_target(optarg);
		else if (c == 'a')
			set_action(optarg);
		else if (c == 'f')
			filter = optarg;
		else if (c == 'l')
			row_limit = strtol(optarg, &limited_at, 10);
		else if (c == 'g')
			gate = optarg;
		else if (c == 'd')
			for_ms = strtol(optarg, NULL, 10);
		else if (c == 'o')
			report = fopen(optarg, "ae");
		else if (c == 'v')
			verbose = true;
		else
			return 64;
	}
	if (report == NULL || optind == argc)
		errx(64, "usage: tracer [-t ROLE:N]... [-a ACTION] [-f FILTER] [-l LIMIT:FILTER] [-g GATE] [-d MS] [-v] -o REPORT -- COMMAND...");
	limited = limited_at == NULL ? NULL : limited_at + 1;
	start_tracer();
	execvp(argv[optind], argv + optind);
	err(127, "%s", argv[optind]);
}
