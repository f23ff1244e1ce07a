#ifndef ADMIN_TRIAL_TRIAL_H
#define ADMIN_TRIAL_TRIAL_H

#include <poll.h>
#include <signal.h>
#include <stdint.h>

#include "admin/cli/cli.h"

#include "common/base/base.h"
#include "common/handler/handler.h"

/* Runs a queue's handler once without a worker: with the same user, environment, limits and end. It settles no
 * message. */
#define TRIAL_WORKER "run"		/* the name of the worker in the log */
#define TRIAL_FAILED 1			/* exit status of a failed attempt */

struct trial {
	/* the decision of a worker: "done", "retry", "hold", "escape", "failed attempt", "breaker", "not run" */
	const char *outcome;
	int status;			/* sysexits(3), or TRIAL_FAILED */
	char *reason;			/* owned */
	char *class;			/* that the handler named; NULL: none. Owned */
	bool has_delay;			/* the handler said when its message is to run again */
	int64_t delay_ms;		/* has_delay: as a worker would take it */
	struct handler_emissions *emitted;	/* "done": what a worker would push; NULL: nothing. Owned */
	int code;			/* exit status; -1: no exit status */
	int signal;			/* 0: no signal */
	int64_t duration_ms;
	struct buffer stderr_tail;
};

/* For a->queue, which has a handler. Fills in *t, whose fields are zero except code. -1: fork failed; an error was
 * printed. */
int trial_run(struct admin *a, const struct handler_job *job, struct trial *t);
void trial_free(struct trial *t);

/*
 * Loads the function of q as the start of its handler does, with --check: it runs no message. q is of
 * conf_load_to_run(). The outcome is "done", or the reason says why it cannot be loaded. -1: fork failed (errno). Like
 * trial_run(), it ends with trial_free().
 */
int trial_load(const struct conf_queue *q, struct trial *t);

/* A new name of a worker (INCARNATION_SIZE bytes), which no supervisor has: no sweeper takes the run for one of its
 * workers. */
void trial_incarnation(char *out);

/* One for each mode. open: the signal mask during a poll. -1: errno */
int trial_exec(const struct conf_queue *q, const struct handler_job *job, const sigset_t *open, struct trial *t);
int trial_persistent(const struct conf_queue *q, const struct handler_job *job, const sigset_t *open, struct trial *t);
int trial_persistent_load(const struct conf_queue *q, const sigset_t *open, struct trial *t);

/* One poll, until at_ms at the latest (CLOCK_MONOTONIC; INT64_MAX: no limit). Returns the number of ready
 * descriptors. */
int trial_poll(struct pollfd *fds, size_t n, int64_t at_ms, const sigset_t *open);

/* The executable did not run: sets outcome, status and reason. argv: of the handler; stage: of handler_stage_names */
void trial_not_run(struct trial *t, char *const *argv, const char *stage, int error);

/* Sets outcome, status and reason by the reply of the handler, and the class that it names. */
void trial_replied(struct trial *t, const struct handler_reply *r);

/* Takes what a handler emitted whose message is done; e may be NULL. False: it may not emit that, and the attempt has
 * failed. */
bool trial_emitted(struct trial *t, struct handler_emissions *e);

int cmd_run(struct admin *a);

#endif
