#ifndef WORKER_EXIT_H
#define WORKER_EXIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/board/board.h"
#include "common/redis/redis.h"

struct worker;

/* Owner: exit.c. The order of the master, and the steps to the end of the process. */
struct exit {
	enum order order;
	bool master_gone;
	/*
	 * CLOCK_MONOTONIC: the order is to leave, and no handler runs. The worker exits at this time even with unsettled
	 * messages. 0: not set
	 */
	int64_t give_up_at_ms;
	bool leaving;			/* the deregistration was sent */
	bool left;			/* the process may exit */
	bool clean;			/* Redis has no message and no registration of this worker */
};

void exit_look_at_order(struct worker *w, int64_t now_ms);
void exit_master_gone(struct exit *e);			/* from now on the order is ORDER_HAND_BACK */
void exit_leave(struct worker *w, int64_t now_ms);	/* sends the deregistration, if the order is to leave and nothing is left to do */
void exit_lost(struct exit *e);				/* the connection is closed: no answer comes */
void exit_answer(struct worker *w, const struct redis_reply *reply);	/* to the deregistration */
bool exit_gives_up(struct worker *w, int64_t now_ms);	/* true: the worker must exit now, even with unsettled messages */
/* may_give_up: the order is to leave, no handler runs, and a drain has no message in flight. true: that has lasted long enough. */
bool exit_is_due(struct exit *e, bool may_give_up, int64_t now_ms);

#endif
