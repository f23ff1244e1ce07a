#ifndef SUPERVISOR_CHILDREN_ORPHANS_H
#define SUPERVISOR_CHILDREN_ORPHANS_H

#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/children/processes.h"

/*
 * Processes that the kernel gave to the master when their parent died. The master kills those that a dead worker or
 * sweeper left behind: until all of them are reaped, the sweeper must not return a message, since one of them may still
 * run it. The master spares processes that were its children before it started (`stunnel & exec quredisd`), and the
 * Redis of a dead keeper, which saves and ends by itself.
 */
#define ORPHANS_SPARED 64

struct orphans {
	const struct processes *processes;
	pid_t spared[ORPHANS_SPARED];	/* children from before the exec that started the master */
	int n;				/* 0 <= n <= ORPHANS_SPARED */
	pid_t redis;			/* of a dead keeper; 0: none */
	bool pending;			/* orphans may be alive */
	int64_t pending_ms;		/* since when */
};

void orphans_init(struct orphans *o, const struct processes *ps);	/* before the first fork: spares all children */

void orphans_expect(struct orphans *o, int64_t now_ms);	/* a child died and may have left processes */

/* Kills the orphans that live. Returns when to call again, until none is left or a kill has had enough time; then
 * INT64_MAX. */
int64_t orphans_kill(struct orphans *o, int64_t now_ms);

/* At the end of the master: kills and reaps all children that are not spared, for at most timeout_ms. */
void orphans_kill_last(struct orphans *o, int timeout_ms);

void orphans_keep_redis(struct orphans *o, pid_t redis);
void orphans_reaped(struct orphans *o, pid_t pid);	/* the number may be given to another process now */

#endif
