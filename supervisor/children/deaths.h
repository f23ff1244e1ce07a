#ifndef SUPERVISOR_CHILDREN_DEATHS_H
#define SUPERVISOR_CHILDREN_DEATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/children/orphans.h"
#include "supervisor/children/processes.h"

/*
 * Deaths of workers that the sweeper has not confirmed yet. Each death has a report of its own, also if several workers
 * died in one slot. The master reports a death only when no process that a dead child left behind is alive. If the
 * sweeper that got the report dies, the master reports the death to the next one.
 *
 * Owner: deaths.c, which also writes the master's word `buried` of each slot.
 */
#define DEATHS_MAX 4096

struct deaths {
	const struct orphans *orphans;
	struct processes *processes;
	struct scoreboard *board;
	struct death {
		struct child_death report;
		int64_t died_ms;
		/* of the worker's configuration. Sweepers of this epoch or a later one know the keys of its queue */
		unsigned epoch;
		int sweeper;		/* slot of the sweeper that got the report; -1: none yet */
	} items[DEATHS_MAX];
	int n;				/* 0 <= n <= DEATHS_MAX */
	uint64_t serial;		/* of the last report; only ever rises */
	/*
	 * For each slot the highest generation that has nothing left in Redis. It becomes the word `buried` once each
	 * death in this slot is confirmed, so buried[slot] <= settled[slot], and both only grow.
	 */
	uint64_t settled[SCOREBOARD_SLOTS];
};

void deaths_init(struct deaths *d, struct processes *ps, const struct orphans *o);

/* the worker of this slot died and was reaped */
void deaths_add(struct deaths *d, int slot, enum blame blame, int64_t now_ms);
/* the worker of this slot settled everything and was reaped: its generation is settled at once */
void deaths_clean_exit(struct deaths *d, int slot);

/* Sends the reports that can be sent. Returns when to call again; INT64_MAX: after the next event. */
int64_t deaths_step(struct deaths *d, int64_t now_ms);
void deaths_answer(struct deaths *d, int slot);		/* the socket of the sweeper in this slot can be read */
void deaths_sweeper_gone(struct deaths *d, int slot);	/* its unconfirmed reports go to the next sweeper */

/* this sweeper has an unconfirmed report, or the next report goes to it */
bool deaths_need_sweeper(const struct deaths *d, int slot);
bool deaths_concern_queue(const struct deaths *d, int queue);
/* every report is confirmed, and no orphan delays another one */
bool deaths_are_settled(const struct deaths *d);

#endif
