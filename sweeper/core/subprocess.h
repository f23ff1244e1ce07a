#ifndef SWEEPER_CORE_SUBPROCESS_H
#define SWEEPER_CORE_SUBPROCESS_H

#include <sys/types.h>

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "common/base/base.h"

/*
 * A subprocess is a child of the sweeper that does work which may block, such as a disk or a foreign program; one at a
 * time for each struct. It has a copy of the sweeper's memory, the descriptor of the log and no other, no_new_privs,
 * and a time limit. A zeroed struct is idle.
 *
 * The only other children of the sweeper are those it adopts: processes that a killed subprocess had started.
 * subprocess_kill_adopted() kills and reaps them, so every child of the sweeper is reaped.
 */
struct subprocess {
	pid_t pid;			/* 0: none under way */
	int fd;				/* read end of the pipe that `out` of the subprocess writes to */
	struct buffer said;
	bool killed;
	bool asked;			/* to end, by TERM: it may end by that signal, which is no failure of its own */
	bool ended;			/* it has ended and is reaped; status is in the form of waitpid(2) */
	int status;
	int64_t until_ms;		/* CLOCK_MONOTONIC: then it is killed */
	LIST_ENTRY(subprocess) entry;	/* of those under way */
};

/* Runs work in a child; it returns the exit status, and subprocess_poll() reads what it writes to `out`. -1: fork or
 * pipe failed (errno) */
int subprocess_start(struct subprocess *e, int (*work)(void *arg, int out), void *arg, int64_t timeout_ms,
    int64_t now_ms);

/* true once, when the subprocess has ended: sets *status in the form of waitpid(2); e->said has its output until the
 * next start. Never blocks. */
bool subprocess_poll(struct subprocess *e, int *status, int64_t now_ms);

bool subprocess_runs(const struct subprocess *e);
int subprocess_under_way(void);	/* how many run, of all tasks */
bool subprocess_pollfd(const struct subprocess *e, struct pollfd *p);
/* poll() has found something to read from it */
bool subprocess_is_ready(const struct subprocess *e, const struct pollfd *p, nfds_t n);
/* Sends TERM once, unless it has ended: a second one may kill a process that handles the first */
void subprocess_ask_to_end(struct subprocess *e);
void subprocess_free(struct subprocess *e);	/* kills it */

/* Kills and reaps adopted children without waiting. true: some are left; call it again. */
bool subprocess_kill_adopted(void);
void subprocess_spare(pid_t pid);	/* a child that ends by itself; 0: none */

#endif
