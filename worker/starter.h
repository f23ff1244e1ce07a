#ifndef WORKER_STARTER_H
#define WORKER_STARTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/handler/handler.h"

#include "worker/retry.h"
#include "worker/runner.h"
#include "worker/tray.h"

struct worker;

/* Owner: starter.c. The choice of the next message, and the time of its start. */
struct starter {
	const struct runner *runner;
	struct handler_job job;		/* the job that started last */
	bool solo_running;
	/* now_us of the last turn in which a message started: that turn has checked the lease */
	int64_t may_start_us;
	struct retry retry;		/* back-off after a failed start */
	unsigned relieved;		/* messages handed back from behind a slow one since a message ended last */
};

void starter_tick(struct worker *w, int64_t now_ms);
/* the worker owns its trays, and the lease lasts long enough for a start */
bool starter_may_start(const struct worker *w);
struct place starter_next(struct worker *w);		/* the next message that may start now; tray -1: none */
void starter_describe(struct worker *w, struct place p);	/* fills job from the message */
void starter_started(struct worker *w, struct place p);	/* the message of job has started */
void starter_succeeded(struct worker *w);		/* a start succeeded, or the process was running already */
void starter_solo_ended(struct starter *s);
void starter_progressed(struct worker *w, int n);		/* n messages have ended since the last call */
/* a start failed for want of processes, descriptors or memory: errno */
void starter_put_off(struct worker *w, int64_t now_ms);
int64_t starter_deadline_ms(const struct worker *w, int64_t now_ms);

#endif
