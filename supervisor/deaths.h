#ifndef SUPERVISOR_DEATHS_H
#define SUPERVISOR_DEATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/child.h"

struct master;

/*
 * Deaths of workers the sweeper has not confirmed yet, each by itself, also if several workers died in one slot. Told only when nothing a dead worker left behind
 * is alive; told again to the next sweeper.
 */
#define DEATHS_MAX 4096

struct deaths {
	struct death {
		struct child_death told;
		int64_t died_ms;
		unsigned epoch;		/* configuration of the worker: who knows its keys */
		int sweeper;		/* slot of the one that was told; -1: nobody yet */
	} items[DEATHS_MAX];
	int n;
	uint64_t settled[SCOREBOARD_SLOTS];	/* the highest generation of which nothing is left in Redis; board->buried once each death in its slot is confirmed */
	uint64_t serial;		/* of the last one */
	bool cleaning;			/* adopted processes may be alive: nothing is told */
	int64_t cleaning_ms;		/* since when */
};

void deaths_add(struct master *m, int slot, enum blame blame, int64_t now_ms);	/* the worker of this slot died and was reaped */
void deaths_clean_exit(struct master *m, int slot);	/* the worker of this slot settled everything, ended, and was reaped: it is buried at once */
void deaths_left_behind(struct master *m, int64_t now_ms);	/* something died that may leave orphans */

/* Kills what was adopted, reaps it, and tells sweepers. */
void deaths_step(struct master *m, int64_t now_ms);
void deaths_answer(struct master *m, int slot);			/* that sweeper's socket can be read */
void deaths_sweeper_gone(struct master *m, int slot);		/* tell the next one */
bool deaths_waiting_for(const struct master *m, int slot);	/* that sweeper owes an answer */

#endif
