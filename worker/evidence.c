/*
 * What Redis must know of this worker before the worker dies, because a sweeper judges the death by it
 * (docs/design.md, "Who is blamed"). Two things are written into the registration of the current name:
 *	stopping	the master ordered the worker to stop. The SIGKILL that may follow charges nobody.
 *	trial		the message that runs here alone. Several outages had it in hand, so it is a suspect. One
 *			supervisor tries one suspect at a time, in all its queues together: the next outage is
 *			evidence against this message and against no other. A message that Redis refuses to move when its
 *			handler has ended is no longer on trial: other suspects must not wait for what mends Redis.
 * A registration dies with its name and with what Redis forgets, so both are written again under each new name.
 */
#include <string.h>

#include "worker/worker.h"

#define REFUSED_MS 1000
#define OCCUPIED_MS 1000	/* how often a suspect looks whether the trial before it is over */

void evidence_lost(struct worker *w)
{
	w->stop_noted = false;
	w->trial_noted = TRIAL_UNTOLD;
	w->evidence_at_ms = 0;
}

enum evidence { EVIDENCE_STOPPING, EVIDENCE_TRIAL, EVIDENCE_TRIAL_OVER };

static void annotate(struct worker *w, enum evidence what, const char *key, const char *value, int64_t now_ms)
{
	queue_annotate(&w->redis, &w->owner, key, value);
	session_expect(w, ANSWER_EVIDENCE, -1, (int)what, now_ms + REDIS_TIMEOUT_MS);
}

/* ---- trials ---- */

static bool is_on_trial(const struct worker *w, struct place p)
{
	return w->trial.tray == p.tray && w->trial.item == p.item;
}

/* As long as it lies in its tray: until then an outage charges it, and must charge no other. */
static bool trial_goes_on(const struct worker *w)
{
	const struct tray *t = &w->trays[w->trial.tray];

	return w->trial.item < t->n && t->items[w->trial.item].state != ITEM_GONE;
}

/* Its handler has ended, and Redis refuses its move or its acknowledgement. */
static bool is_refused(const struct worker *w)
{
	const struct tray *t = &w->trays[w->trial.tray];

	return trial_goes_on(w) && (t->refused || t->items[w->trial.item].refused);
}

static void end_trial(struct worker *w)
{
	w->trial.tray = -1;
	atomic_store(&w->child->board->trial, 0);
}

static bool begin_trial(struct worker *w, struct place p, const struct message *m)
{
	int32_t nobody = 0;

	if (!atomic_compare_exchange_strong(&w->child->board->trial, &nobody, w->child->slot + 1))
		return false;
	w->trial = p;
	queue_trial_name(m, w->trial_name);
	w->trial_noted = TRIAL_UNTOLD;
	return true;
}

bool evidence_may_start(struct worker *w, struct place p)
{
	struct message m;

	if (is_on_trial(w, p))
		return w->trial_noted == TRIAL_TOLD;
	notes_parse(w, p, &m);
	if (!message_needs_trial(&m.wrapper))
		return true;
	if (begin_trial(w, p, &m))
		return false;
	/* Until then it must hold up nothing behind it. A shared queue has no place for it but its tray. */
	if (w->keys.shared)
		w->start_at_ms = w->now_us / 1000 + OCCUPIED_MS;
	else
		settle_put_off(w, p, OCCUPIED_MS);
	return false;
}

/* ---- what is written ---- */

/* A name that is not registered yet gets both right behind its renewal, in the same write. */
static bool may_write(const struct worker *w, int64_t now_ms)
{
	return w->redis.state == REDIS_READY && (w->registered || w->renewing) && !w->leaving && !w->left &&
	       now_ms >= w->evidence_at_ms;
}

/* The message still lies in its tray when a refused one's trial ends, so its registration must stop naming it first. */
static void write_trial(struct worker *w, int64_t now_ms)
{
	bool refused = is_refused(w);

	if (refused && w->trial_noted == TRIAL_UNTOLD) {
		end_trial(w);
	} else if (refused && w->trial_noted == TRIAL_TOLD) {
		annotate(w, EVIDENCE_TRIAL_OVER, QUEUE_TRIAL, "", now_ms);
		w->trial_noted = TRIAL_ENDING;
	} else if (w->trial_noted == TRIAL_UNTOLD) {
		annotate(w, EVIDENCE_TRIAL, QUEUE_TRIAL, w->trial_name, now_ms);
		w->trial_noted = TRIAL_ASKED;
	}
}

void evidence_tick(struct worker *w, int64_t now_ms)
{
	if (w->trial.tray != -1 && !trial_goes_on(w))
		end_trial(w);
	if (!may_write(w, now_ms))
		return;
	if (w->order >= ORDER_FINISH && !w->stop_noted) {
		annotate(w, EVIDENCE_STOPPING, QUEUE_STOPPING, "1", now_ms);
		w->stop_noted = true;
	}
	if (w->trial.tray != -1)
		write_trial(w, now_ms);
}

static void trial_withdrawn(struct worker *w, bool written)
{
	w->trial_noted = TRIAL_TOLD;
	if (written && w->trial.tray != -1)
		end_trial(w);
}

void evidence_answer(struct worker *w, int what, const struct redis_reply *reply, int64_t now_ms)
{
	bool written = reply->type == REDIS_INTEGER;

	if (what == EVIDENCE_STOPPING)
		w->stop_noted = written;
	else if (what == EVIDENCE_TRIAL && w->trial_noted == TRIAL_ASKED)
		w->trial_noted = written ? TRIAL_TOLD : TRIAL_UNTOLD;
	else if (what == EVIDENCE_TRIAL_OVER && w->trial_noted == TRIAL_ENDING)
		trial_withdrawn(w, written);
	if (!written)
		session_trouble(w, "evidence", reply);
	else if (w->evidence_at_ms != 0 && w->move_errors == 0)
		session_fair(w);
	w->evidence_at_ms = written ? 0 : now_ms + REFUSED_MS;
}

int64_t evidence_deadline_ms(const struct worker *w, int64_t now_ms)
{
	bool trial = w->trial.tray != -1 && (w->trial_noted == TRIAL_UNTOLD || (w->trial_noted == TRIAL_TOLD && is_refused(w)));
	bool wanted = (w->order >= ORDER_FINISH && !w->stop_noted) || trial;

	return wanted && w->registered && w->evidence_at_ms > now_ms ? w->evidence_at_ms : INT64_MAX;
}
