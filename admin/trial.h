#ifndef ADMIN_TRIAL_H
#define ADMIN_TRIAL_H

#include <poll.h>
#include <signal.h>
#include <stdint.h>

#include "admin/admin.h"

#include "common/buffer.h"
#include "common/handler.h"

/* One run of a queue's handler outside of a worker: same user, environment, limits and end. Nothing is settled. */
#define TRIAL_WORKER "run"		/* what stands for a worker's name in the log */
#define TRIAL_FAILED 1			/* exit status of a failed attempt */

struct trial {
	const char *outcome;		/* what a worker would make of it: "done", "retry", "escape", "failed attempt", "breaker", "not run" */
	int status;			/* sysexits(3), or TRIAL_FAILED */
	char *reason;			/* owned */
	int code;			/* exit status; -1: none */
	int signal;			/* 0: none */
	int64_t duration_ms;
	struct buffer stderr_tail;
};

/* For a->queue, which has a handler. Fills in *t, whose fields were zero but for code. -1: no process could be started; said so. */
int trial_run(struct admin *a, const struct handler_job *job, struct trial *t);
void trial_free(struct trial *t);

/* Each mode's own. open: signals while it polls. -1: errno */
int trial_exec(const struct conf_queue *q, const struct handler_job *job, const sigset_t *open, struct trial *t);
int trial_persistent(const struct conf_queue *q, const struct handler_job *job, const sigset_t *open, struct trial *t);

/* One poll, until at_ms at the latest (CLOCK_MONOTONIC; INT64_MAX: never). Returns how many are ready. */
int trial_poll(struct pollfd *fds, size_t n, int64_t at_ms, const sigset_t *open);

/* The executable did not run: outcome, status and reason. */
void trial_not_run(struct trial *t, const char *stage, int error);

#endif
