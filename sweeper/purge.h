#ifndef SWEEPER_PURGE_H
#define SWEEPER_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/purge_rule.h"
#include "sweeper/errand.h"
#include "sweeper/task.h"
#include "sweeper/ttl.h"

struct sweeper;
struct swept;

/*
 * The state of a round of purge in one queue. A round goes through ingress from the pop end, then through delayed:
 *	IDLE -interval-> LOOK -end-> DELAYED -end-> IDLE
 * It remembers only a cursor, however long the list is; scripts check each message again before they move it.
 */
enum purge_phase { PURGE_IDLE, PURGE_LOOK, PURGE_DELAYED };

struct purge {
	enum purge_phase phase;
	bool asked_orphans;	/* the purge of records was started; it precedes the round (orphans.h) */
	int64_t begun_ms;	/* CLOCK_MONOTONIC: begin of this round */
	int64_t stay;		/* the cursor: entries before it are decided and stay in the list */
	int64_t kept;		/* of those, the entries that a live run keeps, too; <= stay */
	int misses;		/* in a row: entries that were gone or had moved */
	bool doubtful;		/* a line has a seal of an unknown secret: the secrets are read before the next step */
	bool asking;		/* purge.check runs, or is to run, for the message `asked` */
	struct buffer asked;
	struct verdict asked_verdict;
	bool check_failed;	/* in this round: logged */
	uint64_t purged, spared;	/* in this round; spared: purge.check objected */
	int64_t oldest_ms;	/* of those purged */
	int logged;		/* in this turn */
};

static inline struct purge *purge_of(const struct swept *q)
{
	return task_state(q, TASK_purge);
}

/* The purge.check that runs: one at a time, for all queues. Zeroed: none. */
struct purge_check {
	struct errand errand;
	struct swept *q;	/* the queue of its message; NULL: none runs */
};

/* A turn of one queue. */
struct purging {
	struct sweeper *s;
	struct swept *q;
	struct age_clock clock;
};

/* purge_look.c: 1: the round goes on; 0: it is over; -1: error */
int purge_step(struct purging *t);

/*
 * purge_exit.c: decides the next n entries after the cursor, and moves the cursor over those that stay. 1: go on; 0: some had
 * moved, read the page again; -1: error. A message for which purge.check is to run is left in purge.asked.
 */
int purge_entries(struct purging *t, int n);
int purge_asked(struct purging *t, bool agreed);	/* the same for purge.asked, after purge.check ended */

/* purge_check.c */
int purge_check_start(struct sweeper *s, struct swept *q, int64_t now_ms);	/* -1: it cannot run: the message stays */
bool purge_check_ended(struct sweeper *s, bool *agreed, int64_t now_ms);	/* true once */
void purge_check_stop(struct sweeper *s);

#endif
