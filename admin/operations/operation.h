#ifndef ADMIN_OPERATIONS_OPERATION_H
#define ADMIN_OPERATIONS_OPERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/cli/cli.h"
#include "admin/dead_letters/dead_letters.h"

#define OPERATION_FIGURE_MAX INT64_C(1000000000000000)		/* Lua counts exactly up to here */
#define OPERATION_TIME_MAX_MS INT64_C(253402300799999)		/* the end of the year 9999 */

/*
 * A retry or a deletion of the dead letters that a filter means, as Redis remembers it until it is complete. Its bound
 * is the newest record at its start: a message that fails again later has a newer one, so a repeated command does not
 * take it. Its id is made of action and filter as they were given. Only operation.c writes the fields.
 */
struct operation {
	struct admin *a;
	const char *verb;		/* "retry" or "deletion" */
	char id[QUEUE_OPERATION_ID_SIZE], holder[128];
	char *what;			/* action and filter; owned */
	char *options;			/* filter and pace of this command, as JSON; owned. NULL: they are not UTF-8 */
	int64_t begun_ms, held_ms;	/* when it began, and until when a process held it at last; 0: not known */
	char since[RECORD_ID_SIZE], bound[RECORD_ID_SIZE];	/* the records that it means */
	char next[RECORD_ID_SIZE];	/* where it goes on */
	int64_t total, done;		/* total -1: not counted */
	char *canary_fingerprints;	/* of the messages that were moved back first (redriven.h); owned */
	/* fingerprint of the newest dead letter before the canary; "": not known */
	char canary_newest[QUEUE_FINGERPRINT_DIGITS + 1];
	int64_t canary_from;		/* how many were done before the canary; -1: it has not begun */
	bool canary_done;
	/* at a rate below one a second: the server's time of the last message; 0: none yet */
	int64_t last_at_ms;
	bool swept;			/* this process is a sweeper's: it works only while `wanted` is "run" */
	char wanted[8];			/* OPERATION_WANTED, as it was read last */
	char *result;			/* of a sweeper's run, which no command has read yet; owned */
	bool is_stopped;		/* an operator wants it to stop: interrupt_asked() is true then */
	bool is_lost;			/* operation_lost() said so */
	bool is_damaged;		/* Redis holds something else than quredis writes */
	bool forgets_earlier;		/* operation_begin_anew(); Redis still has the earlier one */
	int64_t renewed_ms;		/* CLOCK_MONOTONIC */
};

/* A number that quredis may have written, up to `most`; `otherwise`: it is another text */
int64_t operation_figure(const char *text, int64_t most, int64_t otherwise);

/*
 * Reads whether there is such an operation. options: filter and pace of this command, as JSON; operation_find() takes
 * the string; NULL: they are not UTF-8. 1: fills o; 0: there is none, o has only id and what; -1: error of Redis,
 * or it is damaged (EX_DATAERR; not with --anew). operation_free() in each case.
 */
int operation_find(struct admin *a, const char *action, const struct filter *f, char *options,
    struct operation *o);
/* The operation means the records from since to bound, and begins at the first one. */
void operation_set_range(struct operation *o, const char *since, const char *bound);
void operation_set_total(struct operation *o, int64_t total);
/* The operation begins again, as if none had been found. Redis forgets the earlier one in operation_hold(): the
 * operator may still say no. */
void operation_begin_anew(struct operation *o);
/* Forgets the earlier one of operation_begin_anew(), if any, for a command that has nothing to do. -1: another process
 * holds it, or an error of Redis */
int operation_forget_earlier(struct operation *o);
int operation_look_again(struct operation *o);	/* reads the fields again: 1, 0 and -1 as of operation_find() */
int operation_forget_result(struct operation *o);	/* a command has read the result. -1: error of Redis */
/* ms: the time since a process worked on it. -1: error of Redis */
int operation_idle(struct operation *o, int64_t *ms);
/* Takes it, or begins it with range and total of o. -1: another process holds it (EX_TEMPFAIL), or an error of Redis */
int operation_hold(struct operation *o);
/* Holds it further, if that is due. -1: another process holds it now */
int operation_renew(struct operation *o);
/* Gives up the hold, so that the leading sweeper executes it. by: the operator and host that ordered it */
int operation_give(struct operation *o, const char *by);

/* ---- where it goes on ---- */

void operation_rewind(struct operation *o);		/* at its first record */
void operation_step_to(struct operation *o, const char *record_id);
/* false: no record can follow this one */
bool operation_step_behind(struct operation *o, const char *record_id);
int operation_note_next(struct operation *o, const char *record_id);		/* for a command that continues it */

/* ---- what is done ---- */

/* Redis counted n more and has `done` now. false: Redis went back since the last count */
bool operation_took(struct operation *o, int64_t n, int64_t done);
int operation_note_last(struct operation *o);		/* the time of the last message */
int operation_begin_canary(struct operation *o, const char *newest);	/* newest: canary_newest */
int operation_add_canary(struct operation *o, const char *fingerprint);
/* These three do nothing if Redis went back since the last message: then what this process knows is wrong. */
int operation_count(struct operation *o);		/* one more is done */
int operation_end_canary(struct operation *o);		/* it is done */
/* The operation is complete, or stopped by itself. result: what a sweeper notes for the command that waits; NULL:
 * nothing */
int operation_end(struct operation *o, const char *result);
int operation_release(struct operation *o, const char *result);		/* another process will continue it */
/* prints that another process holds it, or that Redis went back; returns -1 */
int operation_lost(struct operation *o);
void operation_free(struct operation *o);

#endif
