#ifndef SWEEPER_ERRAND_H
#define SWEEPER_ERRAND_H

#include <sys/types.h>

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"

/*
 * What may block, a disk or a foreign program, in a child of the sweeper: one at a time for each struct. It
 * has a copy of our memory, no descriptor of ours but the log's, and a time. Zeroed is idle.
 */
struct errand {
	pid_t pid;			/* 0: none under way */
	int fd;				/* what it says */
	struct buffer said;
	bool killed;
	int64_t until_ms;		/* CLOCK_MONOTONIC: then it is killed */
};

/* work returns the exit status; what it writes to `out` is read by errand_look(). -1: no process was made (errno) */
int errand_start(struct errand *e, int (*work)(void *arg, int out), void *arg, int64_t timeout_ms, int64_t now_ms);

/* True once, when it has ended: *status as by waitpid, e->said what it said, valid until the next start. Never blocks. */
bool errand_look(struct errand *e, int *status, int64_t now_ms);

bool errand_under_way(const struct errand *e);
bool errand_pollfd(const struct errand *e, struct pollfd *p);
void errand_free(struct errand *e);	/* kills it */

#endif
