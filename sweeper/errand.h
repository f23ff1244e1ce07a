#ifndef SWEEPER_ERRAND_H
#define SWEEPER_ERRAND_H

#include <sys/types.h>

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "common/buffer.h"

/*
 * An errand is a child of the sweeper that does work which may block, such as a disk or a foreign program; one at a time for each
 * struct. It has a copy of the sweeper's memory, only the log's descriptor, no_new_privs, and a time limit. A zeroed struct is idle.
 *
 * The only other children of the sweeper are those it adopts: processes that a killed errand had started. errand_clear() kills and reaps
 * them, so every child of the sweeper is reaped.
 */
struct errand {
	pid_t pid;			/* 0: none under way */
	int fd;				/* read end of the pipe that `out` of the errand writes to */
	struct buffer said;
	bool killed;
	bool ended;			/* it has ended and is reaped; status is in the form of waitpid(2) */
	int status;
	int64_t until_ms;		/* CLOCK_MONOTONIC: then it is killed */
	LIST_ENTRY(errand) entry;	/* of those under way */
};

/* Runs work in a child; it returns the exit status, and errand_look() reads what it writes to `out`. -1: fork or pipe failed (errno) */
int errand_start(struct errand *e, int (*work)(void *arg, int out), void *arg, int64_t timeout_ms, int64_t now_ms);

/* true once, when the errand has ended: sets *status in the form of waitpid(2); e->said has its output until the next start. Never blocks. */
bool errand_look(struct errand *e, int *status, int64_t now_ms);

bool errand_under_way(const struct errand *e);
bool errand_pollfd(const struct errand *e, struct pollfd *p);
void errand_free(struct errand *e);	/* kills it */

/* Kills and reaps adopted children without waiting. true: some are left; call it again. */
bool errand_clear(void);

#endif
