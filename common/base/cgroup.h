#ifndef COMMON_BASE_CGROUP_H
#define COMMON_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A control group (version 2) for each boot of a supervisor, below the group that the supervisor runs in. Workers and
 * the sweeper enter it, so that all processes that they start are in it, also those that clear their environment or
 * change their user. No controller is enabled in it, so the limits of the group above stay as they are. If the
 * hierarchy is missing or cannot be written, the boot has no group.
 */
#define CGROUP_NAME_SIZE 32

/*
 * Writes "quredis-" and a hash of the boot's token (common/base/leftovers.h). Redis holds only the boot, and any
 * program that can write there may register one; it does not hold the token. So no registration can name the cgroup of
 * a supervisor with another lock file.
 */
void cgroup_name(const char *token, char out[CGROUP_NAME_SIZE]);

/*
 * Makes the group, and removes empty groups of dead supervisors beside it. Returns a descriptor of its directory, with
 * an flock: while it is open, here or in a child, no supervisor removes the group or kills what is in it. -1: errno.
 */
int cgroup_make(const char *name);
/* moves the caller, and what it forks from then on, into the group. -1: errno */
int cgroup_enter(int dir);
void cgroup_remove(int dir, const char *name);	/* removes the group if it is empty; closes dir */

/* A group whose processes are to be killed, and the result. */
struct cgroup_dead {
	char name[CGROUP_NAME_SIZE];
	size_t killed;		/* processes that were in it and have ended */
	/* processes that are still in it; at least 1 if that could not be learned; 0: none, or there is no such
	 * group */
	size_t left;
	/* another process holds its lock, so its supervisor may be alive: nothing in it was killed */
	bool held;
	int dir;		/* private to common/base/cgroup.c */
};

/*
 * Searches the hierarchy once for all groups of these names, kills the processes in them, waits up to timeout_ms for
 * their end, and removes the groups. Ignores groups that belong to another user.
 */
void cgroup_kill(struct cgroup_dead *of, size_t n, int64_t timeout_ms);

#endif
