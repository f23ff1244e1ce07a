#ifndef WORKER_PACING_H
#define WORKER_PACING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf/conf.h"

/* Owner: pacing.c. The number of messages that the next fetch requests. All functions are pure. */
struct pacing {
	const struct conf_queue *conf;
	double message_us;		/* average time of recent messages, each capped at batch.time; < 0: no message yet */
	double message_bytes;		/* average size of recent messages, in bytes */
	/* upper limit for the next fetch. It doubles while fetches return as many messages as they asked for; 1 <= batch <= batch.max */
	int batch;
};

void pacing_init(struct pacing *p, const struct conf_queue *conf);	/* keeps conf */
int pacing_size(const struct pacing *p);		/* how many the next fetch asks for; 1: the next fetch follows when this message is done */
void pacing_learn(struct pacing *p, int64_t us, int n);	/* n messages took us microseconds together */
void pacing_learn_size(struct pacing *p, size_t len);
void pacing_full(struct pacing *p, bool full);		/* full: the fetch returned as many messages as it asked for */
int64_t pacing_limit_us(const struct pacing *p);	/* batch.time */

#endif
