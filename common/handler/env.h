#ifndef COMMON_HANDLER_ENV_H
#define COMMON_HANDLER_ENV_H

#include <stdint.h>

#include "common/base/base.h"
#include "common/handler/handler.h"

/* The variables of a job, beside its facts. */
enum handler_job_variable_name {
	HANDLER_JOB_INCARNATION, HANDLER_JOB_ID, HANDLER_JOB_SIZE,
	HANDLER_JOB_ATTEMPT, HANDLER_JOB_MAX_ATTEMPTS, HANDLER_JOB_REDELIVERED,	/* or the facts */
	HANDLER_JOB_DEADLINE, HANDLER_JOB_REQUEST_ID, HANDLER_JOB_TRACEPARENT, HANDLER_JOB_SCHEDULE,
	HANDLER_JOB_SCHEDULED_AT, HANDLER_JOB_ROOT, HANDLER_JOB_DEPTH, HANDLER_JOB_VARIABLES
};

#define HANDLER_ENV_JOB (HANDLER_JOB_VARIABLES + HANDLER_FACTS)	/* more than any job has */
#define HANDLER_INCARNATION_SIZE 256	/* bytes with the NUL */

/*
 * The environment of a handler. The variables that all runs share are made once. The QUREDIS_ variables come first, and
 * then the boot token (leftovers.h), so that no other variable can hide them.
 */
struct handler_env {
	char **vars;		/* HANDLER_ENV_JOB places for the job's variables, then those of every run, then NULL */
	size_t nvars;		/* number of those of every run */
	char *text;		/* all that job points to */
	struct handler_job_variable {
		char *text;		/* "NAME=VALUE" */
		char *value;		/* "": it was never set */
		int64_t number;		/* that value says; of a text: unused */
	} job[HANDLER_JOB_VARIABLES];
};

void handler_env_init(struct handler_env *e, const struct conf_queue *conf, char *const *inherited);
void handler_env_free(struct handler_env *e);

/* The whole environment of one run, valid until the next call. deadline_ms since 1970; -1: no deadline. */
char *const *handler_env_for(struct handler_env *e, const struct handler_job *job, int64_t deadline_ms);

/* The environment of a persistent handler, which gets the facts of each job with the job. */
char *const *handler_env_of_persistent(struct handler_env *e, const char *incarnation);

#endif
