#ifndef WORKER_LOADER_H
#define WORKER_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/retry.h"

struct persistent_end;
struct worker;

/* Owner: loader.c. The start of the process of a persistent handler. With `ready` in its configuration that is started
 * before there is a message, and gets one only after it has said READY. */
struct loader {
	bool was_ready;		/* in the last turn */
	int64_t look_at_ms;	/* no start before: another worker of the queue tries */
	struct retry retry;	/* back-off after processes that ended without having read a message */
};

void loader_init(struct worker *w);
/* False: the start was put off, for want of processes, descriptors or memory. */
bool loader_start(struct worker *w, int64_t now_ms);
void loader_tick(struct worker *w, int64_t now_ms);
void loader_ended(struct worker *w, const struct persistent_end *e, int64_t now_ms);	/* whatever its end */
/* The process ended, or was ended, before it was ready. */
void loader_failed(struct worker *w, const struct persistent_end *e, int64_t now_ms);
/* The process ended after READY, and before any message reached it. */
void loader_lost(struct worker *w, const struct persistent_end *e, int64_t now_ms);
void loader_dismiss(struct worker *w, int64_t now_ms);		/* asks the process to exit */
int64_t loader_deadline_ms(const struct worker *w);

#endif
