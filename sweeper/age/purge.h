#ifndef SWEEPER_AGE_PURGE_H
#define SWEEPER_AGE_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"
#include "sweeper/age/ttl.h"

struct sweeper;
struct sweeper_queue;

/*
 * The state of a round of purge in one queue. A round goes through ingress from the pop end, then through delayed:
 *	IDLE -interval-> LOOK -end-> DELAYED -end-> IDLE
 * It remembers only a cursor, however long the list is; scripts check each message again before they move it.
 */
enum purge_phase { PURGE_IDLE, PURGE_LOOK, PURGE_DELAYED };

/* A message for which purge.check must decide (purge_check.c). */
struct purge_question {
	bool open;		/* the command runs, or must run */
	struct buffer message;
	struct verdict verdict;
	int64_t failed_ms;	/* begin of the last round in which the sweeper logged a failure of the command */
};

struct purge {
	enum purge_phase phase;
	/* the purge of records was started; it precedes the round (sweeper/dead_letters/orphans.c) */
	bool asked_orphans;
	int64_t begun_ms;	/* CLOCK_MONOTONIC: begin of this round */
	int64_t stay;		/* the cursor: entries before it were judged and stay in the list */
	int64_t kept;		/* those of them that a live run would keep, too; <= stay */
	int misses;		/* consecutive entries that had left or moved */
	/* a line has a seal with an unknown secret: the secrets are read before the next step */
	bool doubtful;
	struct purge_question question;
	uint64_t purged, spared;	/* in this round; spared: purge.check objected */
	int64_t oldest_ms;	/* age of the oldest message purged */
};

extern const struct task purge_task;

static inline struct purge *purge_of(const struct sweeper_queue *q)
{
	return task_state(q, &purge_task);
}

/* The task's own state: the purge.check that runs. Zeroed: none runs. */
struct purge_check {
	struct subprocess subprocess;
	struct sweeper_queue *q;	/* the queue of its message; NULL: none runs */
};

/* A turn of one queue. */
struct purging {
	struct sweeper *s;
	struct sweeper_queue *q;
	struct age_clock clock;
	int logged;		/* lines logged for messages that moved */
};

/*
 * purge.c: messages after the cursor were judged. A message leaves if it was moved, or if a dry run logged it. It is
 * spared if purge.check objected.
 */
void purge_stays(struct purge *p, int64_t n, bool kept);	/* kept: a live run would keep them, too */
void purge_leaves(struct purge *p, int64_t age_ms);
void purge_spares(struct purge *p);

/*
 * purge_move.c: decides the next n entries after the cursor, and moves the cursor over those that stay. 1: go on; 0:
 * some had moved, read the page again; -1: error. A message for which purge.check is to run is left in purge.question.
 */
int purge_entries(struct purging *t, int n);
/* the same for the message of purge.question, after purge.check ended */
int purge_asked(struct purging *t, bool agreed);

/* purge_check.c */
void purge_check_ask(struct purge_question *k, const char *message, size_t len, const struct verdict *v);
/* the message was decided, or is judged again by another round */
void purge_check_drop(struct purge_question *k);
/* -1: it cannot run: the message stays */
int purge_check_start(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms);
bool purge_check_ended(struct sweeper *s, bool *agreed, int64_t now_ms);	/* true once */
/* the queue whose check runs: one at a time for all queues. NULL: none */
const struct sweeper_queue *purge_check_queue(const struct sweeper *s);
void purge_check_stop(struct sweeper *s);

#endif
