/*
 * What becomes of a message once its handler ended, or because it may not run. The move that makes it so
 * is sent by move.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "worker/worker.h"

#include "common/alloc.h"
#include "common/backoff.h"
#include "common/clock.h"
#include "common/process.h"

static void count(struct worker *w, enum counter c)
{
	atomic_fetch_add(&w->slot->counters[c], 1);
}

/* ---- which move ---- */

static struct outcome *outcome(struct worker *w, struct place p)
{
	struct item *item = tray_item(w, p);

	if (item->outcome == NULL)
		item->outcome = alloc_zero(1, sizeof(*item->outcome));
	return item->outcome;
}

static void remember(const struct worker *w, struct outcome *o, const struct message *m, const struct wrapper *wrapper)
{
	buffer_clear(&o->line);
	queue_remember(&w->keys, m, wrapper, &o->line, &o->note);
	o->rewritten = true;
}

/* One that was not started goes back as it was; in a shared queue also without what was put before it when it was none. */
void settle_hand_back(struct worker *w, struct place p, enum settle_back how)
{
	struct wrapper wrapper;
	struct message m;

	notes_parse(w, p, &m);
	wrapper = m.wrapper;
	if (how != SETTLE_AS_IT_WAS || tray_item(w, p)->again || (w->keys.shared && m.wrapper_len > 0)) {
		wrapper.redelivered += how != SETTLE_AS_IT_WAS;
		wrapper.solo = wrapper.solo || how == SETTLE_SOLO;
		remember(w, outcome(w, p), &m, &wrapper);
	}
	move_choose(w, p, MOVE_HAND_BACK);
}

/* While a long message is delayed, its payload is stored apart from its new line: else Redis would copy it. */
static bool is_stored_apart(const struct message *m)
{
	return m->raw_len > QUEUE_APART_MIN;
}

void settle_put_off(struct worker *w, struct place p, int64_t delay_ms)
{
	struct outcome *o = outcome(w, p);
	struct message m;

	notes_parse(w, p, &m);
	m.wrapper.apart = is_stored_apart(&m);
	remember(w, o, &m, &m.wrapper);
	o->delay_ms = delay_ms;
	move_choose(w, p, MOVE_PUT_OFF);
}

void settle_relieve(struct worker *w, struct place but)
{
	for (int tray = 0; tray < QUEUE_TRAYS; tray++) {
		struct tray *t = &w->trays[tray];

		if (t->state != TRAY_FILLED || t->count[ITEM_DONE] + t->count[ITEM_WAITING] == 0)
			continue;
		for (int i = 0; i < t->n; i++) {
			struct place p = { tray, i };

			if (t->items[i].state == ITEM_DONE)
				move_choose(w, p, MOVE_DONE);
			else if (t->items[i].state == ITEM_WAITING && !(tray == but.tray && i == but.item))
				settle_hand_back(w, p, SETTLE_AS_IT_WAS);
		}
	}
}

static void fill_record(struct worker *w, struct outcome *t, const struct message *m, const char *class,
    const struct handler_result *result)
{
	const struct wrapper *wrapper = &m->wrapper;
	bool ran = result != NULL && result->end != HANDLER_UNREPRESENTABLE;

	buffer_clear(&t->stderr_tail);
	if (ran && result->stderr_len > 0)
		buffer_append(&t->stderr_tail, result->stderr_tail, result->stderr_len);
	t->record = (struct record){
		.queue = w->conf->name,
		.queue_from = "transit",
		.error_class = class,
		.error_message = t->error_message,
		.failed_at_ms = clock_realtime_ms(),
		.first_failed_ms = wrapper->first_failed_ms,
		.attempts = wrapper->attempts + (ran ? 1 : 0),
		.crashes = wrapper->crashes,
		.exit_code = ran && result->signal == 0 ? result->code : -1,
		.signal = ran && result->signal != 0 ? process_signal_name(result->signal) : NULL,
		.stderr_tail = t->stderr_tail.data,
		.stderr_len = t->stderr_tail.len,
		.duration_ms = ran ? result->duration_ms : -1,
		.node = w->child->conf->supervisor.node,
		.worker = w->incarnation,
		.handler = w->conf->handler[0],
		.payload_max = (size_t)w->conf->dead_letter.payload_max,
	};
}

void settle_escape(struct worker *w, struct place p, const char *class, const char *message)
{
	struct outcome *o = outcome(w, p);
	struct message m;

	notes_parse(w, p, &m);
	snprintf(o->error_message, sizeof(o->error_message), "%s", message);
	fill_record(w, o, &m, class, NULL);
	move_choose(w, p, MOVE_ESCAPE);
	log_info("message_escaped", log_str("queue", w->conf->name), log_str("worker", w->name), log_str("id", message_id(&m)),
	    log_str("class", class), log_str("error", message));
}

void settle_set_aside(struct worker *w, struct place p, const char *error)
{
	static const char *const names[MOVES] = { [MOVE_RETRY] = "retry", [MOVE_ESCAPE] = "escape", [MOVE_HAND_BACK] = "hand back",
		[MOVE_PUT_OFF] = "put off" };
	const char *move = names[tray_item(w, p)->move];
	struct outcome *o = outcome(w, p);
	struct message m;

	o->rewritten = tray_item(w, p)->move == MOVE_RETRY && !w->keys.shared;
	notes_parse(w, p, &m);
	snprintf(o->error_message, sizeof(o->error_message), "%s: %s", move, error);
	o->record = (struct record){
		.queue = w->conf->name,
		.queue_from = "transit",
		.error_class = move,
		.error_message = o->error_message,
		.failed_at_ms = clock_realtime_ms(),
		.attempts = m.wrapper.attempts,
		.crashes = m.wrapper.crashes,
		.exit_code = -1,
		.duration_ms = -1,
		.node = w->child->conf->supervisor.node,
		.worker = w->incarnation,
		.handler = w->conf->handler[0],
	};
	move_choose(w, p, MOVE_ASIDE);
	log_error("message_set_aside", log_str("queue", w->conf->name), log_str("worker", w->name), log_str("id", message_id(&m)),
	    log_int("size", (int64_t)(m.raw_len - m.wrapper_len)), log_str("at", move), log_str("error", error));
}

void settle_unknown_version(struct worker *w, struct place p)
{
	settle_escape(w, p, "UnknownVersion", "the message's header is of a version this quredisd does not know");
	move_close_tray(w, p.tray);
}

/* It was taken from ingress too late: where it waited is where it comes from. */
void settle_expired(struct worker *w, struct place p, const char *message)
{
	settle_escape(w, p, "TTLExpired", message);
	outcome(w, p)->record.queue_from = "ingress";
	move_close_tray(w, p.tray);
}

static void retry(struct worker *w, struct place p, const struct message *m, int64_t delay_ms)
{
	const struct conf_backoff *b = &w->conf->backoff;
	struct outcome *o = outcome(w, p);
	struct wrapper wrapper = m->wrapper;

	wrapper.attempts++;
	wrapper.own_ms = 0;	/* it queues like everyone: its wait begins anew */
	if (wrapper.first_failed_ms == 0)
		wrapper.first_failed_ms = clock_realtime_ms();
	wrapper.apart = is_stored_apart(m);
	remember(w, o, m, &wrapper);
	o->delay_ms = delay_ms >= 0 ? delay_ms : backoff_ms(b->base_ms, b->factor, b->cap_ms, b->jitter,
	    (unsigned)wrapper.attempts, arc4random());
	move_choose(w, p, MOVE_RETRY);
}

/* ---- for those who know how it ended ---- */

int settle_max_attempts(const struct worker *w, const struct message *m)
{
	return m->max_attempts > 0 && m->max_attempts < w->conf->max_attempts ? m->max_attempts : w->conf->max_attempts;
}

/* Whatever it answered, the handler is there. */
static void answered(struct worker *w, bool success)
{
	if (!breaker_concerns(w->board, w->child->handler_generation))
		return;
	breaker_note_answer(w->board, w->child->handler_generation);
	if (success ? breaker_succeeded(w->board) : breaker_answered(w->board, w->conf->breaker.failures))
		log_info("breaker_closed", log_str("queue", w->conf->name), log_str("worker", w->name));
}

static void note_failure(struct worker *w, struct message *m, const struct failure *f, int64_t now_ms)
{
	int threshold = w->conf->breaker.failures > 0 ? w->conf->breaker.failures : f->mute ? BREAKER_MUTE : 0;

	if (breaker_concerns(w->board, w->child->handler_generation) &&
	    breaker_failed(w->board, breaker_message_id(m), threshold, now_ms))
		log_error("breaker_opened", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("handler", w->conf->handler[0]), log_str("error", f->text));
}

static void log_failure(struct worker *w, struct message *m, const struct failure *f, bool escapes)
{
	const char *event = escapes ? "message_escaped" : "message_retried";
	const struct handler_result *r = f->result;
	struct log_field none = log_str("", NULL);
	struct log_field how = r == NULL ? none : r->signal != 0 ? log_str("signal", process_signal_name(r->signal))
			       : r->code >= 0 ? log_int("exit", r->code) : none;

	log_info(event, log_str("queue", w->conf->name), log_str("worker", w->name), log_str("id", message_id(m)),
	    log_int("attempt", m->wrapper.attempts + 1), log_str("class", f->class), how,
	    r == NULL ? none : log_int("duration_ms", r->duration_ms), log_str("error", f->text));
}

/* There is no second attempt in a shared queue: what counts them would have to go along with the message. */
static struct failure without_retry(const struct failure *f)
{
	struct failure failed = *f;

	failed.verdict = CONF_OUTCOME_FAIL;
	if (failed.class == NULL)
		failed.class = "Rejected";
	strlcat(failed.text, " (asked for a retry: there is none in a shared queue)", sizeof(failed.text));
	return failed;
}

static void fail(struct worker *w, struct place p, const struct failure *f, int64_t now_ms)
{
	struct outcome *o;
	struct message m;
	bool escapes;

	notes_parse(w, p, &m);
	count(w, COUNT_FAILED);
	if (f->verdict == CONF_OUTCOME_FAIL)
		note_failure(w, &m, f, now_ms);
	if (!f->mute)
		answered(w, false);
	escapes = f->verdict == CONF_OUTCOME_ESCAPE ||
		  (f->verdict == CONF_OUTCOME_FAIL && m.wrapper.attempts + 1 >= settle_max_attempts(w, &m));
	if (escapes) {
		o = outcome(w, p);
		strlcpy(o->error_message, f->text, sizeof(o->error_message));
		fill_record(w, o, &m, f->class, f->result);
		o->record.attempts = m.wrapper.attempts + 1;
		move_choose(w, p, MOVE_ESCAPE);
	} else {
		retry(w, p, &m, f->delay_ms);
	}
	log_failure(w, &m, f, escapes);
}

void settle_failed(struct worker *w, struct place p, const struct failure *f, int64_t now_ms)
{
	struct failure failed;

	if (w->keys.shared && f->verdict == CONF_OUTCOME_RETRY) {
		failed = without_retry(f);
		f = &failed;
	}
	fail(w, p, f, now_ms);
}

void settle_done(struct worker *w, struct place p, int64_t duration_ms)
{
	struct message m;

	answered(w, true);
	tray_set(&w->trays[p.tray], tray_item(w, p), ITEM_DONE);
	if (w->conf->done.keep > 0) {
		tray_item(w, p)->done_ms = clock_realtime_ms();
		tray_item(w, p)->duration_ms = duration_ms;
	}
	if (!log_enabled(LOG_LEVEL_DEBUG))
		return;
	notes_parse(w, p, &m);
	log_debug("message_done", log_str("queue", w->conf->name), log_str("worker", w->name), log_str("id", message_id(&m)),
	    log_int("attempt", m.wrapper.attempts + 1), log_int("duration_ms", duration_ms));
}

void settle_unrunnable(struct worker *w, const char *stage, const char *error, int64_t now_ms)
{
	count(w, COUNT_UNRUNNABLE);
	if (breaker_concerns(w->board, w->child->handler_generation) && breaker_open(w->board, now_ms))
		log_error("breaker_opened", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("handler", w->conf->handler[0]), log_str("at", stage), log_str("error", error));
	w->probing = false;
}
