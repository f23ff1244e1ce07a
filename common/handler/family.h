#ifndef COMMON_HANDLER_FAMILY_H
#define COMMON_HANDLER_FAMILY_H

#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>

/*
 * The processes of one run: the leader, its group, and the processes that the worker, a subreaper, adopts from them. A
 * worker has no other children, so every child belongs to the run, except abandoned ones, which did not end in time
 * after SIGKILL (uninterruptible sleep). They are reaped when they end.
 */
struct handler_family {
	pid_t leader;			/* 0: none, or reaped already */
	int status;			/* of the leader, as from waitpid(2) */
	pid_t *abandoned;
	size_t nabandoned;
	bool childless;			/* the last check of this run found no child at all */
	/* the most processes that one check found after the leader of this run had ended */
	size_t left;
};

void handler_family_free(struct handler_family *f);
void handler_family_begin(struct handler_family *f, pid_t leader);
void handler_family_signal(const struct handler_family *f, int sig);	/* to the leader's group */

/* Reaps all children that have ended. If the leader has, kills its group first, while the number of the group cannot be
 * reused. */
void handler_family_reap(struct handler_family *f);

/* Call it after the leader has ended. True: no process is left. False: those that are left got SIGKILL; reap and call
 * it again. */
bool handler_family_clear(struct handler_family *f);

/* Gives up the processes that are left; a leader among them counts as killed. Returns their number. */
size_t handler_family_abandon(struct handler_family *f);

#endif
