/*
 * The order of the master, and the end of the process. A worker with the order to finish leaves when its trays are
 * empty: it deregisters its name, and Redis answers whether the name owned anything else. A worker with the order to
 * hand back also stops its handler. If Redis does not answer for longer than the master waits, the worker gives up:
 * unsettled messages stay in its trays, and a sweeper returns them. It also decides whether the end of a handler
 * belongs to a stop that reaches every process.
 */
#include <signal.h>

#include "worker/worker.h"

#include "common/base/base.h"

#define GIVE_UP_MS 1500			/* at a fast stop, once nothing runs: how long the worker waits for Redis */
/* the same at a drain, if the worker knows of no message in flight; longer than a fetch blocks */
#define OWNS_NOTHING_MS 3000
#define STOP_ARRIVES_MS 500		/* the master may hear of a stop so much later than a handler */

void exit_look_at_order(struct worker *w, int64_t now_ms)
{
	const struct child *child = w->env->child;
	enum order order = w->exit.master_gone ? ORDER_HAND_BACK
	    : (enum order)atomic_load(&child->board->master.orders[child->slot]);

	if (order == ORDER_HAND_BACK && w->exit.order != ORDER_HAND_BACK)
		mover_retry_now(w);
	w->exit.order = order;
	if (order == ORDER_HAND_BACK)
		w->starter.runner->stop(w, now_ms);
}

void exit_master_gone(struct exit *e)
{
	e->master_gone = true;
}

bool exit_is_due(struct exit *e, bool may_give_up, int64_t now_ms)
{
	int64_t at = now_ms + (e->order == ORDER_HAND_BACK ? GIVE_UP_MS : OWNS_NOTHING_MS);

	if (!may_give_up) {
		e->give_up_at_ms = 0;
		return false;
	}
	if (e->give_up_at_ms == 0 || at < e->give_up_at_ms)
		e->give_up_at_ms = at;
	return now_ms >= e->give_up_at_ms;
}

bool exit_gives_up(struct worker *w, int64_t now_ms)
{
	bool ordered = w->exit.order == ORDER_HAND_BACK ||
	    (w->exit.order == ORDER_FINISH && tray_hold_nothing(&w->trays));

	return exit_is_due(&w->exit, ordered && w->starter.runner->dismiss(w, now_ms), now_ms);
}

/* Its first registration was refused, and there is no name before it: nothing in Redis is under a name of this
 * worker. */
static bool owned_nothing(const struct session *s)
{
	return s->owner.keys == NULL || (s->refused && !s->confirmed && s->previous.keys == NULL);
}

void exit_leave(struct worker *w, int64_t now_ms)
{
	if (w->exit.order < ORDER_FINISH || !tray_all_empty(&w->trays) || w->exit.leaving || w->exit.left ||
	    !w->starter.runner->dismiss(w, now_ms))
		return;
	if (owned_nothing(&w->session)) {
		w->exit.left = w->exit.clean = true;
	} else if (w->session.redis.state == REDIS_READY && w->session.registered) {
		queue_deregister(&w->session.redis, &w->session.owner);
		session_expect(w, ANSWER_DEREGISTER, -1, 0, now_ms + REDIS_TIMEOUT_MS);
		w->exit.leaving = true;
	}
}

void exit_lost(struct worker *w)
{
	w->exit.leaving = false;
}

void exit_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	(void)of, (void)now_ms;
	w->exit.leaving = false;
	w->exit.left = reply->type == REDIS_INTEGER;
	/* 0: a tray holds a message that this worker does not know. It exits like a dead worker, so that a sweeper
	 * returns the message. */
	w->exit.clean = w->exit.left && reply->integer == 1;
	if (!w->exit.left)
		errors_report(w, "deregister", reply);
}

/* ---- a stop that reaches every process ---- */

/* No stop begins with SIGKILL, but one may end with it. The other signals of a stop can arrive at a handler first. */
static const struct {
	int signal;
	bool may_come_first;
} of_stops[] = {
	{ SIGTERM, true }, { SIGINT, true }, { SIGHUP, true }, { SIGQUIT, true }, { SIGKILL, false },
};

enum exit_cause exit_judge_end(struct exit *e, int signal, int code, int64_t now_ms)
{
	int by = signal != 0 ? signal : code - 128;
	bool stopping = e->order >= ORDER_FINISH;
	enum exit_cause cause = EXIT_ITS_OWN;

	for (size_t i = 0; i < nitems(of_stops); i++)
		if (of_stops[i].signal == by && (stopping || of_stops[i].may_come_first))
			cause = stopping ? EXIT_OF_STOP : EXIT_UNDECIDED;
	if (cause == EXIT_UNDECIDED && e->undecided_until_ms == 0)
		e->undecided_until_ms = now_ms + STOP_ARRIVES_MS;
	if (cause == EXIT_UNDECIDED && now_ms >= e->undecided_until_ms)
		cause = EXIT_ITS_OWN;
	if (cause != EXIT_UNDECIDED)
		e->undecided_until_ms = 0;
	return cause;
}

int64_t exit_deadline_ms(const struct worker *w, int64_t now_ms)
{
	const struct exit *e = &w->exit;
	int64_t undecided = e->undecided_until_ms == 0 ? INT64_MAX : e->undecided_until_ms;

	(void)now_ms;
	return e->give_up_at_ms == 0 || e->give_up_at_ms > undecided ? undecided : e->give_up_at_ms;
}
