#ifndef COMMON_HANDLER_FAMILY_H
#define COMMON_HANDLER_FAMILY_H

#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>

/*
 * The processes of one run: the leader, its group, and what the worker, a subreaper, adopts from
 * them. A worker has no other children, so every child is one of them, but for the abandoned: those that
 * did not die of SIGKILL in time (uninterruptible sleep) and are reaped whenever they do.
 */
struct handler_family {
	pid_t leader;			/* 0: none, or reaped */
	int status;			/* of the leader, as waitpid(2) gives it */
	pid_t *abandoned;
	size_t nabandoned;
	bool childless;			/* the last look of this run found no child at all */
	size_t left;			/* most of them that one look found after the leader of this run */
};

void handler_family_free(struct handler_family *f);
void handler_family_begin(struct handler_family *f, pid_t leader);
void handler_family_signal(const struct handler_family *f, int sig);	/* to the leader's group */

/* Reaps all that ended. When the leader did, its group is killed first, as long as its number is still its own. */
void handler_family_reap(struct handler_family *f);

/* After the leader. True: nothing is left. False: what is was sent SIGKILL; reap and ask again. */
bool handler_family_clear(struct handler_family *f);

/* Gives up those that are left. Returns how many. */
size_t handler_family_abandon(struct handler_family *f);

#endif
