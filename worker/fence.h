#ifndef WORKER_FENCE_H
#define WORKER_FENCE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct worker;

/* Owner: fence.c. Ends running handlers before the lease expires. */
struct fence {
	int fd;				/* timer on CLOCK_BOOTTIME; -1: fence is not "kill" */
	int64_t at_ms;			/* the time to which the timer is set; 0: not set */
	bool fenced;			/* running handlers were ended because of the lease */
	bool claim_gone;		/* another worker may run a message that runs here */
};

void fence_init(struct worker *w);
void fence_free(struct worker *w);
void fence_claim_lost(struct fence *f);			/* another worker owns a message that runs here */
void fence_claims_ended(struct fence *f);		/* no handler runs any more */
void fence_show_abandoned(struct worker *w);	/* on the scoreboard: nothing of an older name runs any more */
/* a handler started now has time to run before the fence would end it */
bool fence_may_start(const struct worker *w);
/* before a start: tells the master by when this worker must be dead */
void fence_announce(struct worker *w);
void fence_tick(struct worker *w, int64_t now_ms);
bool fence_pollfd(const struct worker *w, struct pollfd *p);	/* false: nothing to poll for */

#endif
