/*
 * Writes into Redis what a sweeper needs to judge a later death of this worker (docs/design.md, "What a death
 * charges"). Two keys go into the registration of the current name:
 *	stopping	the master ordered the worker to stop. A SIGKILL that follows charges no message.
 *	trial		the message that this worker runs alone. Several outages interrupted it, so it may be their
 *			cause.
 * A supervisor has one message on trial at a time, over all its queues, so that the next outage is evidence against
 * this message only. If Redis refuses to move a message whose handler has ended, its trial ends: other messages that
 * need a trial must not wait until Redis is repaired.
 *
 * A registration is lost with its name and when Redis loses data. So the worker writes both keys again under each new
 * name.
 */
#include <assert.h>
#include <string.h>

#include "worker/worker.h"

#define REFUSED_MS 1000

void evidence_init(struct worker *w)
{
	w->evidence.trial.tray = -1;
}

void evidence_lost(struct worker *w)
{
	w->evidence.stop_noted = false;
	w->evidence.trial_noted = TRIAL_UNTOLD;
	w->evidence.at_ms = 0;
}

enum evidence_kind { EVIDENCE_STOPPING, EVIDENCE_TRIAL, EVIDENCE_TRIAL_OVER };

static void annotate(struct worker *w, enum evidence_kind what, const char *key, const char *value, int64_t now_ms)
{
	queue_annotate(&w->session.redis, &w->session.owner, key, value);
	session_expect(w, ANSWER_EVIDENCE, -1, (int)what, now_ms + REDIS_TIMEOUT_MS);
}

/* ---- trials ---- */

bool evidence_is_on_trial(const struct worker *w, struct place p)
{
	return w->evidence.trial.tray == p.tray && w->evidence.trial.item == p.item;
}

/* The trial lasts as long as the message lies in its tray: until then an outage charges this message, and must charge
 * no other. */
static bool trial_goes_on(const struct worker *w)
{
	const struct tray *t = &w->trays.tray[w->evidence.trial.tray];

	return w->evidence.trial.item < t->n && t->items[w->evidence.trial.item].state != ITEM_GONE;
}

/* Its handler has ended, and Redis refuses its move or its acknowledgement. */
static bool is_refused(const struct worker *w)
{
	const struct tray *t = &w->trays.tray[w->evidence.trial.tray];

	return trial_goes_on(w) && (t->refused || t->items[w->evidence.trial.item].refused);
}

static void end_trial(struct worker *w)
{
	bool held = scoreboard_end_trial(w->env->child->board, w->env->child->slot);

	assert(held);		/* only the master ends it for us, when we are dead */
	w->evidence.trial.tray = -1;
}

static void begin_trial(struct worker *w, struct place p, const struct message *m)
{
	if (!scoreboard_begin_trial(w->env->child->board, w->env->child->slot))
		return;
	w->evidence.trial = p;
	queue_trial_name(m, w->evidence.trial_name);
	w->evidence.trial_noted = TRIAL_UNTOLD;
}

bool evidence_may_start(struct worker *w, struct place p)
{
	const struct message *m;

	if (evidence_is_on_trial(w, p))
		return w->evidence.trial_noted == TRIAL_TOLD;
	m = tray_message(&w->trays, p);
	if (!message_needs_trial(&m->wrapper))
		return true;
	begin_trial(w, p, m);
	return false;
}

/* ---- writes ---- */

/* A new name gets both keys in the same write as its first renewal, right behind it. */
static bool may_write(const struct worker *w, int64_t now_ms)
{
	return w->session.redis.state == REDIS_READY && (w->session.registered || w->session.renewing) &&
	    !w->exit.leaving && !w->exit.left &&
	       now_ms >= w->evidence.at_ms;
}

/*
 * When the trial of a refused message ends, the message still lies in its tray. So the registration must stop naming it
 * before the next trial begins.
 */
static void write_trial(struct worker *w, int64_t now_ms)
{
	bool refused = is_refused(w);

	if (refused && w->evidence.trial_noted == TRIAL_UNTOLD) {
		end_trial(w);
	} else if (refused && w->evidence.trial_noted == TRIAL_TOLD) {
		annotate(w, EVIDENCE_TRIAL_OVER, QUEUE_TRIAL, "", now_ms);
		w->evidence.trial_noted = TRIAL_ENDING;
	} else if (w->evidence.trial_noted == TRIAL_UNTOLD) {
		annotate(w, EVIDENCE_TRIAL, QUEUE_TRIAL, w->evidence.trial_name, now_ms);
		w->evidence.trial_noted = TRIAL_ASKED;
	}
}

void evidence_tick(struct worker *w, int64_t now_ms)
{
	if (w->evidence.trial.tray != -1 && !trial_goes_on(w))
		end_trial(w);
	if (!may_write(w, now_ms))
		return;
	if (w->exit.order >= ORDER_FINISH && !w->evidence.stop_noted) {
		annotate(w, EVIDENCE_STOPPING, QUEUE_STOPPING, "1", now_ms);
		w->evidence.stop_noted = true;
	}
	if (w->evidence.trial.tray != -1)
		write_trial(w, now_ms);
}

static void trial_withdrawn(struct worker *w, bool written)
{
	w->evidence.trial_noted = TRIAL_TOLD;
	if (written && w->evidence.trial.tray != -1)
		end_trial(w);
}

void evidence_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	bool written = reply->type == REDIS_INTEGER;
	int what = of.item;

	if (what == EVIDENCE_STOPPING)
		w->evidence.stop_noted = written;
	else if (what == EVIDENCE_TRIAL && w->evidence.trial_noted == TRIAL_ASKED)
		w->evidence.trial_noted = written ? TRIAL_TOLD : TRIAL_UNTOLD;
	else if (what == EVIDENCE_TRIAL_OVER && w->evidence.trial_noted == TRIAL_ENDING)
		trial_withdrawn(w, written);
	if (!written)
		errors_report(w, "evidence", reply);
	else if (w->evidence.at_ms != 0 && w->mover.retry.errors == 0)
		errors_clear(w);
	w->evidence.at_ms = written ? 0 : now_ms + REFUSED_MS;
}

int64_t evidence_deadline_ms(const struct worker *w, int64_t now_ms)
{
	bool trial = w->evidence.trial.tray != -1 &&
	    (w->evidence.trial_noted == TRIAL_UNTOLD || (w->evidence.trial_noted == TRIAL_TOLD && is_refused(w)));
	bool wanted = (w->exit.order >= ORDER_FINISH && !w->evidence.stop_noted) || trial;

	if (!wanted || !may_write(w, INT64_MAX))
		return INT64_MAX;
	return w->evidence.at_ms > now_ms ? w->evidence.at_ms : now_ms;	/* now: a trial that has begun in this turn */
}
