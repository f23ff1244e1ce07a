#ifndef SWEEPER_PURGE_H
#define SWEEPER_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/purge_rule.h"
#include "sweeper/errand.h"
#include "sweeper/trouble.h"
#include "sweeper/ttl.h"

struct sweeper;
struct swept;

/*
 * Where a round of purge is with a queue. It goes from the pop end of ingress, then through what is delayed:
 *	IDLE -interval-> SEEK -a mark that is old enough-> CONDEMN -all up to it are decided-> SEEK
 *	                   └-none-> LOOK for those that tell their own time -end-> DELAYED -end-> IDLE
 * A cursor is all that is remembered, however long the list is; scripts look again before anything is moved.
 */
enum purge_phase { PURGE_IDLE, PURGE_SEEK, PURGE_CONDEMN, PURGE_LOOK, PURGE_DELAYED };

struct purge {
	enum purge_phase phase;
	int64_t at_ms;		/* CLOCK_MONOTONIC: the next step */
	bool asked_orphans;	/* to go first: orphans.h */
	int64_t begun_ms;	/* the same: this round */
	int64_t stay;		/* the cursor: entries before it are decided, and lie where they were */
	int64_t kept;		/* of those, what a live run leaves, too; <= stay */
	int64_t ahead;		/* SEEK: entries behind the cursor that have no mark */
	struct mark old;	/* CONDEMN: it and all between it and the cursor are too old */
	int page;		/* entries looked at at once: fewer when they are big */
	int misses;		/* in a row: entries that were gone or had moved */
	bool asking;		/* check is asked, or is to be, about `asked` */
	struct buffer asked;
	struct verdict asked_verdict;
	bool check_failed;	/* in this round: logged */
	uint64_t purged, spared;	/* in this round; spared: check would not have it */
	int64_t oldest_ms;	/* of those purged */
	int logged;		/* in this turn */
	struct trouble trouble;
};

/* What `check` is asked, of all queues one at a time. Zeroed: nothing. */
struct purge_check {
	struct errand errand;
	struct swept *q;	/* whose; NULL: nobody's */
};

/* A turn of one queue. */
struct purging {
	struct sweeper *s;
	struct swept *q;
	struct age_clock clock;
};

/* purge_look.c: 1: the round goes on; 0: it is over; -1: error */
int purge_step(struct purging *t);
void purge_missed(struct purge *p);	/* what was condemned is gone, or its mark: they are sought anew */

/*
 * purge_exit.c: decides the next n entries behind the cursor and moves it over those that stay. 1: go on; 0: some had
 * moved, look again; -1: error. What check is to be asked about is left in purge.asked.
 */
int purge_entries(struct purging *t, int n);
int purge_asked(struct purging *t, bool agreed);	/* the same for the one that check was asked about */

/* purge_check.c */
int purge_check_start(struct sweeper *s, struct swept *q, int64_t now_ms);	/* -1: it cannot be asked: no */
bool purge_check_ended(struct sweeper *s, bool *agreed, int64_t now_ms);	/* true once */
void purge_check_stop(struct sweeper *s);

#endif
