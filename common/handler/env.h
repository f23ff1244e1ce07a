#ifndef COMMON_HANDLER_ENV_H
#define COMMON_HANDLER_ENV_H

#include <stdint.h>

#include "common/base/base.h"
#include "common/handler/handler.h"

/*
 * The environment of a handler. The variables that all runs share are made once. The QUREDIS_ variables come first, and
 * then the boot token (leftovers.h), so that no other variable can hide them.
 */
struct handler_env {
	char **vars;		/* HANDLER_ENV_JOB places for the job's variables, then those of every run, then NULL */
	size_t nvars;		/* number of those of every run */
	struct buffer text;	/* the job's variables, each with its NUL */
};

/* The most variables of a job: INCARNATION ID SIZE DEADLINE REQUEST_ID SCHEDULE SCHEDULED_AT TRACEPARENT ROOT DEPTH,
 * and the facts or ATTEMPT MAX_ATTEMPTS REDELIVERED */
#define HANDLER_ENV_JOB (10 + HANDLER_FACTS)

void handler_env_init(struct handler_env *e, const struct conf_queue *conf, char *const *inherited);
void handler_env_free(struct handler_env *e);

/* The whole environment of one run, valid until the next call. deadline_ms since 1970; -1: no deadline. */
char *const *handler_env_for(struct handler_env *e, const struct handler_job *job, int64_t deadline_ms);

/* The environment of a persistent handler, which gets the facts of each job with the job. */
char *const *handler_env_of_persistent(struct handler_env *e, const char *incarnation);

#endif
