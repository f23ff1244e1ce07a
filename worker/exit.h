#ifndef WORKER_EXIT_H
#define WORKER_EXIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/board/board.h"
#include "common/redis/redis.h"

#include "worker/tray.h"

struct worker;

/* Owner: exit.c. The order of the master, and the steps to the end of the process. */
struct exit {
	enum order order;
	bool master_gone;
	/*
	 * CLOCK_MONOTONIC: the order is to leave, and no handler runs. The worker exits at this time even with
	 * unsettled messages. 0: not set
	 */
	int64_t give_up_at_ms;
	int64_t undecided_until_ms;	/* CLOCK_MONOTONIC: see exit_judge_end(); 0: no end is undecided */
	bool leaving;			/* the deregistration was sent */
	bool left;			/* the process may exit */
	bool clean;			/* Redis has no message and no registration of this worker */
};

void exit_look_at_order(struct worker *w, int64_t now_ms);
void exit_master_gone(struct exit *e);			/* from now on the order is ORDER_HAND_BACK */
/* sends the deregistration, if the order is to leave and nothing is left to do */
void exit_leave(struct worker *w, int64_t now_ms);
void exit_lost(struct worker *w);
void exit_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);
/* true: the worker must exit now, even with unsettled messages */
bool exit_gives_up(struct worker *w, int64_t now_ms);
/* may_give_up: the order is to leave, no handler runs, and a drain has no message in flight. true: that has lasted long
 * enough. */
bool exit_is_due(struct exit *e, bool may_give_up, int64_t now_ms);

enum exit_cause {
	EXIT_ITS_OWN,		/* the handler or its message */
	EXIT_OF_STOP,		/* charges nothing */
	EXIT_UNDECIDED		/* call again in the next turn */
};
/*
 * Judges the end of a handler that this worker did not stop. A stop may send its SIGTERM to every process (systemctl
 * kill, a container), in any order, so such a death is the stop's once this worker has an order to leave. Without one,
 * the worker waits a moment for it before it charges a message. signal: of its end; 0: none. code: its exit status, as
 * far as it is a failure; a shell reports a signal as 128 + n; -1: none.
 */
enum exit_cause exit_judge_end(struct exit *e, int signal, int code, int64_t now_ms);
/* When an undecided end is decided, or the worker gives up; INT64_MAX: neither */
int64_t exit_deadline_ms(const struct worker *w, int64_t now_ms);

#endif
