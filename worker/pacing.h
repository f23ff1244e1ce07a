#ifndef WORKER_PACING_H
#define WORKER_PACING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf/conf.h"

#include "worker/retry.h"

/* Owner: pacing.c. How many messages the next fetch requests, and until when the worker fetches nothing. No function
 * reads a clock, or sends anything. */
struct pacing {
	const struct conf_queue *conf;
	/* average time of recent messages, each capped at batch.time; < 0: no message yet */
	double message_us;
	double message_bytes;		/* average size of recent messages, in bytes */
	/* upper limit for the next fetch. It doubles while fetches return as many messages as they asked for; 1 <=
	 * batch <= batch.max */
	int batch;
	int64_t progress_us;		/* the last progress: a message ended, or one started while no other ran */
	/* after an error; while Redis is at maxmemory, also between checks of ingress */
	struct retry retry;
	/* with messages in flight, no fetch before: the last one found too few to fill the window */
	int64_t ahead_at_ms;
	bool probing;			/* the breaker is open, and the message in flight is its probe */
};

void pacing_init(struct pacing *p, const struct conf_queue *conf);	/* keeps conf */
/* how many the next fetch asks for; 1: the next fetch follows when this message is done */
int pacing_size(const struct pacing *p);
void pacing_learn(struct pacing *p, int64_t us, int n);	/* n messages took us microseconds together */
void pacing_learn_size(struct pacing *p, size_t len);
void pacing_full(struct pacing *p, bool full);		/* full: the fetch returned as many messages as it asked for */
int64_t pacing_limit_us(const struct pacing *p);	/* batch.time */
/* n messages have ended; 0: the first one started */
void pacing_progressed(struct pacing *p, int n, int64_t now_us);
/* a message runs, and takes longer than batch.time */
bool pacing_is_slow(const struct pacing *p, bool runs, int64_t now_us);
/* with messages in flight, no fetch before until_ms; 0: at once */
void pacing_pause_ahead(struct pacing *p, int64_t until_ms);
/* no fetch before until_ms (CLOCK_MONOTONIC); a longer wait stays */
void pacing_not_before(struct pacing *p, int64_t until_ms);
void pacing_retry_now(struct pacing *p);		/* no back-off before the next fetch */
void pacing_retry_failed(struct pacing *p, int64_t now_ms);
void pacing_retry_succeeded(struct pacing *p);		/* a fetch was answered without an error */
/* the fetch that is sent is for a probe; false, later: the probe has failed, so the next one waits */
void pacing_probes(struct pacing *p, bool probing);

#endif
