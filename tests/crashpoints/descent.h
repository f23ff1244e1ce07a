#ifndef TESTS_CRASHPOINTS_DESCENT_H
#define TESTS_CRASHPOINTS_DESCENT_H

#include <sys/ptrace.h>
#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

/* 0 is the command, 0.2 its second child, 0.2.1 that one's first: what names a process, and does not depend on time. */
#define DESCENT_SIZE 32
#define DESCENT_WATCH (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC)

struct target {
	char role[DESCENT_SIZE];
	long when;		/* 0: never */
	long calls;		/* that the filter let through */
	long injected;
	int64_t until_ms;	/* FAIL for a while; 0: not begun */
	bool spent;		/* nothing more is done to it */
};

struct process {
	pid_t pid, parent;	/* pid 0: a free place */
	char role[DESCENT_SIZE];	/* "": its birth was not told yet */
	int children;
	struct target *target;	/* NULL: none */
	bool stopped;		/* waits for its birth to be told */
	bool counting;
	bool matched;		/* of the call it is in: it was counted as the target's calls-th */
	long row;		/* calls of the limited ones in a row */
	bool failing;		/* its result is still to be set */
	long nr;
};

void descent_add_target(const char *text);	/* "ROLE:N" */

struct process *descent_find(pid_t pid);	/* NULL: not known */
struct process *descent_add(pid_t pid);

/* Its descent is known: a target is watched, its forebears' children are, all others go free. */
void descent_begin(struct process *p);
void descent_born(struct process *parent);	/* its newest child */
void descent_resume(const struct process *p, int sig);
void descent_let_go(struct process *p);

#endif
