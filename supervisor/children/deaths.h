#ifndef SUPERVISOR_CHILDREN_DEATHS_H
#define SUPERVISOR_CHILDREN_DEATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/children/orphans.h"
#include "supervisor/children/processes.h"

/*
 * Deaths of workers that the sweeper has not confirmed yet. Each is reported by itself, also if several workers died in one slot.
 * A death is reported only when nothing that a dead child left behind is alive, and reported again to the next sweeper if the
 * one that got the report dies.
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
		unsigned epoch;		/* configuration of the worker: a sweeper of this one or a later one knows its keys */
		int sweeper;		/* slot of the one that got the report; -1: none yet */
	} items[DEATHS_MAX];
	int n;				/* 0 <= n <= DEATHS_MAX */
	uint64_t serial;		/* of the last report; only ever rises */
	/*
	 * For each slot the highest generation of which nothing is left in Redis. It becomes the word `buried` once each death in
	 * this slot is confirmed, so buried[slot] <= settled[slot], and both only rise.
	 */
	uint64_t settled[SCOREBOARD_SLOTS];
};

void deaths_init(struct deaths *d, struct processes *ps, const struct orphans *o);

void deaths_add(struct deaths *d, int slot, enum blame blame, int64_t now_ms);	/* the worker of this slot died and was reaped */
void deaths_clean_exit(struct deaths *d, int slot);	/* the worker of this slot settled everything, ended, and was reaped: it is buried at once */

/* Reports what can be reported. Returns when to call again; INT64_MAX: when something happens. */
int64_t deaths_step(struct deaths *d, int64_t now_ms);
void deaths_answer(struct deaths *d, int slot);		/* the socket of the sweeper in this slot can be read */
void deaths_sweeper_gone(struct deaths *d, int slot);	/* the next one gets its reports */

bool deaths_need_sweeper(const struct deaths *d, int slot);	/* this sweeper has a report that it has not confirmed, or would get one */
bool deaths_concern_queue(const struct deaths *d, int queue);
bool deaths_are_settled(const struct deaths *d);	/* no report is open, and no orphan can add one */

#endif
