/*
 * Decides which move a message gets: after its handler has ended, or because the message must not run. Each settle_
 * function chooses one move (retry, escape, hand back, put off, set aside) or marks the message as done, and stores
 * with the item whatever that move needs besides the message. Nothing is sent to Redis here: mover.c sends the moves,
 * and history.c the acknowledgements. verdict.c calls this file with what the end of a handler means. The functions
 * also count failures, inform the breaker, and log retries and escapes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "worker/worker.h"

#include "common/base/base.h"

/* ---- the outcome of a move ---- */

static void remember(const struct worker *w, struct outcome *o, const struct message *m, const struct wrapper *wrapper)
{
	buffer_clear(&o->line);
	queue_remember(&w->env->keys, m, wrapper, &o->line, &o->note);
	o->rewritten = true;
}

/*
 * A message that did not start goes back unchanged. In a shared queue it loses its wrapper, which was written while the
 * queue was not shared: other programs would receive it as payload.
 */
void settle_hand_back(struct worker *w, struct place p, enum settle_back how)
{
	static const char *const next_run[] = { [SETTLE_SOLO] = "alone", [SETTLE_FRESH] = "alone, in a new process",
		[SETTLE_LAST] = "behind all that wait" };
	struct wrapper wrapper;
	struct message *m = tray_message(&w->trays, p);

	wrapper = m->wrapper;
	if (how != SETTLE_AS_IT_WAS || tray_item(&w->trays, p)->again || (w->env->keys.shared && m->wrapper_len > 0)) {
		wrapper.redelivered += how != SETTLE_AS_IT_WAS;
		wrapper.solo = wrapper.solo || how >= SETTLE_SOLO;
		wrapper.fresh = wrapper.fresh || how == SETTLE_FRESH;
		remember(w, tray_outcome(&w->trays, p), m, &wrapper);
		tray_outcome(&w->trays, p)->last = how == SETTLE_LAST;
	} else if (tray_item(&w->trays, p)->outcome != NULL) {
		/* its line was for a move that Redis refused */
		tray_item(&w->trays, p)->outcome->rewritten = tray_item(&w->trays, p)->outcome->last = false;
	}
	tray_move(&w->trays, p, MOVE_HAND_BACK);
	if (how >= SETTLE_SOLO)
		log_info("message_not_charged", log_str("id", message_id(m)),
		    log_str("traceparent", message_traceparent(m)), log_str("next", next_run[how]));
}

/*
 * The payload of a long message is stored apart from its new line while the message is delayed. Otherwise Redis would
 * copy it at each move.
 */
static bool is_stored_apart(const struct message *m)
{
	return m->raw_len > QUEUE_APART_MIN;
}

void settle_put_off(struct worker *w, struct place p, int64_t delay_ms)
{
	struct outcome *o = tray_outcome(&w->trays, p);
	const struct message *m = tray_message(&w->trays, p);
	struct wrapper wrapper = m->wrapper;

	wrapper.apart = is_stored_apart(m);
	remember(w, o, m, &wrapper);
	o->delay_ms = delay_ms;
	tray_move(&w->trays, p, MOVE_PUT_OFF);
}

void settle_relieve(struct worker *w, struct place but)
{
	for (int tray = 0; tray < QUEUE_TRAYS; tray++) {
		struct tray *t = &w->trays.tray[tray];

		if (t->state != TRAY_FILLED || t->count[ITEM_DONE] + t->count[ITEM_WAITING] == 0)
			continue;
		tray_let_done_leave(&w->trays, tray);
		for (int i = 0; i < t->n; i++)
			if (t->items[i].state == ITEM_WAITING && !(tray == but.tray && i == but.item))
				settle_hand_back(w, (struct place){ tray, i }, SETTLE_AS_IT_WAS);
	}
}

static void fill_record(struct worker *w, struct outcome *t, const struct message *m, const char *class,
    const struct handler_result *result)
{
	bool ran = result != NULL && result->end != HANDLER_UNREPRESENTABLE;

	strlcpy(t->error_class, class, sizeof(t->error_class));
	buffer_clear(&t->stderr_tail);
	if (ran && result->stderr_len > 0)
		buffer_append(&t->stderr_tail, result->stderr_tail, result->stderr_len);
	t->record = env_record(w->env, w->session.incarnation, m, t->error_class, t->error_message);
	t->record.payload_max = (size_t)w->env->conf->dead_letter.payload_max;
	if (!ran)
		return;
	t->record.attempts++;
	t->record.exit_code = result->signal == 0 ? result->code : -1;
	t->record.signal = result->signal != 0 ? process_signal_name(result->signal) : NULL;
	t->record.stderr_tail = t->stderr_tail.data;
	t->record.stderr_len = t->stderr_tail.len;
	t->record.duration_ms = result->duration_ms;
}

void settle_escape(struct worker *w, struct place p, const char *class, const char *message,
    const struct handler_result *result)
{
	struct outcome *o = tray_outcome(&w->trays, p);
	struct message *m = tray_message(&w->trays, p);

	snprintf(o->error_message, sizeof(o->error_message), "%s", message);
	fill_record(w, o, m, class, result);
	tray_move(&w->trays, p, MOVE_ESCAPE);
	log_info("message_escaped", log_str("id", message_id(m)), log_str("traceparent", message_traceparent(m)),
	    log_str("class", class), log_str("error", message));
}

void settle_set_aside(struct worker *w, struct place p, const char *error)
{
	static const char *const names[MOVES] =
	    { [MOVE_RETRY] = "retry", [MOVE_ESCAPE] = "escape", [MOVE_HAND_BACK] = "hand back",
		[MOVE_PUT_OFF] = "put off", [MOVE_HOLD] = "hold" };
	const char *move = names[tray_item(&w->trays, p)->move];
	struct outcome *o = tray_outcome(&w->trays, p);
	struct message *m = tray_message(&w->trays, p);

	o->rewritten = tray_item(&w->trays, p)->move == MOVE_RETRY && !w->env->keys.shared;
	snprintf(o->error_message, sizeof(o->error_message), "%s: %s", move, error);
	o->record = env_record(w->env, w->session.incarnation, m, move, o->error_message);
	tray_move(&w->trays, p, MOVE_ASIDE);
	log_error("message_set_aside", log_str("id", message_id(m)), log_str("traceparent", message_traceparent(m)),
	    log_int("size", (int64_t)(m->raw_len - m->wrapper_len)), log_str("at", move), log_str("error", error));
}

/* notes.c has read the secrets again since the message arrived: a seal that is still unknown is not known to Redis
 * either. */
bool settle_unreadable(struct worker *w, struct place p)
{
	if (w->starter.job.message->doubtful)
		settle_escape(w, p, MESSAGE_UNKNOWN_SEAL, MESSAGE_UNKNOWN_SEAL_WHY, NULL);
	else if (w->starter.job.message->unknown_version)
		settle_escape(w, p, "UnknownVersion",
		    "the message's header is of a version this quredisd does not know", NULL);
	else
		return false;
	tray_close(&w->trays, p.tray);
	return true;
}

/* The worker fetched the message after its ttl had run out. It waited in ingress, so the record says that it left
 * ingress, not the tray. */
void settle_expired(struct worker *w, struct place p, const char *message)
{
	settle_escape(w, p, "TTLExpired", message, NULL);
	tray_outcome(&w->trays, p)->record.queue_from = "ingress";
	tray_close(&w->trays, p.tray);
}

/* Notes how the last attempt ended, which a delayed message shows. */
static void remember_failure(struct wrapper *wrapper, const struct failure *f, const char *class)
{
	const struct handler_result *r = f->result;
	const char *signal = r == NULL || r->signal == 0 ? NULL : process_signal_name(r->signal);

	message_failure_set(&wrapper->failure, clock_realtime_ms(), class,
	    r == NULL || signal != NULL ? -1 : r->code, signal, f->text);
}

static void retry(struct worker *w, struct place p, const struct message *m, const struct failure *f)
{
	const struct conf_backoff *b = &w->env->conf->backoff;
	struct outcome *o = tray_outcome(&w->trays, p);
	struct wrapper wrapper = m->wrapper;

	wrapper.attempts++;
	wrapper.own_ms = 0;	/* a retried message queues like every other one: its wait begins again */
	if (wrapper.first_failed_ms == 0)
		wrapper.first_failed_ms = clock_realtime_ms();
	remember_failure(&wrapper, f, f->class);
	wrapper.apart = is_stored_apart(m);
	remember(w, o, m, &wrapper);
	o->delay_ms = f->delay_ms >= 0 ? f->delay_ms : clock_backoff_ms(b->base_ms, b->factor, b->cap_ms, b->jitter,
	    (unsigned)wrapper.attempts, arc4random());
	tray_move(&w->trays, p, MOVE_RETRY);
}

/* ---- called when a handler has ended ---- */

int settle_max_attempts(const struct worker *w, const struct message *m)
{
	return m->max_attempts > 0 && m->max_attempts < w->env->conf->max_attempts ? m->max_attempts
	    : w->env->conf->max_attempts;
}

/* Any answer proves that the handler works, even an answer that rejects the message. */
static void answered(struct worker *w, bool success)
{
	if (!breaker_concerns(w->env->board, worker_generation(w)))
		return;
	breaker_note_answer(w->env->board, worker_generation(w));
	if (success ? breaker_succeeded(w->env->board)
	    : breaker_answered(w->env->board, w->env->conf->breaker.failures))
		log_info("breaker_closed");
}

static void note_failure(struct worker *w, struct message *m, const struct failure *f, int64_t now_ms)
{
	int mute = message_is_suspect(&m->wrapper) ? BREAKER_MUTE_AGAIN : BREAKER_MUTE;
	int threshold = w->env->conf->breaker.failures > 0 ? w->env->conf->breaker.failures : f->mute ? mute : 0;

	if (!breaker_concerns(w->env->board, worker_generation(w)) ||
	    !breaker_failed(w->env->board, breaker_message_id(m), threshold, f->result, now_ms))
		return;
	if (f->mute)
		breaker_doubt(w->env->board);
	log_error("breaker_opened", log_str("handler", conf_handler_name(w->env->conf)), log_str("error", f->text));
}

static void log_failure(struct message *m, const struct failure *f, bool escapes)
{
	const char *event = escapes ? "message_escaped" : "message_retried";
	const struct handler_result *r = f->result;
	struct log_field none = log_str("", NULL);
	struct log_field how = r == NULL ? none : r->signal != 0 ? log_str("signal", process_signal_name(r->signal))
			       : r->code >= 0 ? log_int("exit", r->code) : none;

	log_info(event, log_str("id", message_id(m)), log_str("traceparent", message_traceparent(m)),
	    log_int("attempt", m->wrapper.attempts + 1), log_str("class", f->class), how,
	    r == NULL ? none : log_int("duration_ms", r->duration_ms), log_str("error", f->text));
}

/*
 * A shared queue has no retries: the count of attempts would have to travel with the message, and other programs would
 * read it as payload.
 */
static struct failure without_retry(const struct failure *f)
{
	struct failure failed = *f;

	failed.verdict = CONF_OUTCOME_FAIL;
	if (strcmp(failed.class, FAILED_RETRY) == 0)
		failed.class = "HandlerFail";
	strlcat(failed.text, f->hold ? " (asked for a hold: there is none in a shared queue)" :
	    " (asked for a retry: there is none in a shared queue)", sizeof(failed.text));
	return failed;
}

void settle_last_words(struct worker *w, const char *stderr_tail, size_t len, int64_t now_ms)
{
	const char *words;
	size_t words_len = buffer_last_line(stderr_tail, len, &words);

	slot_note_failure(w->env->slot, words, words_len, now_ms);
}

/* Notes the attempt that every face shows beside the number of failed ones. */
static void note_attempt(struct worker *w, const struct failure *f, int64_t now_ms)
{
	failed_count(&w->env->board->workers.failed, f->class, 1);
	slot_note_attempt(w->env->slot, f->class, f->text + f->verb_len, now_ms);
}

static void settle_failure(struct worker *w, struct place p, const struct failure *f, int64_t now_ms)
{
	struct outcome *o;
	struct message *m = tray_message(&w->trays, p);
	bool escapes;

	env_count(w->env, COUNT_FAILED, 1);
	note_attempt(w, f, now_ms);
	slot_note_failure(w->env->slot, f->words, f->words_len, now_ms);
	if (f->verdict == CONF_OUTCOME_FAIL)
		note_failure(w, m, f, now_ms);
	if (!f->mute)
		answered(w, false);
	escapes = f->verdict == CONF_OUTCOME_ESCAPE ||
		  (f->verdict == CONF_OUTCOME_FAIL && m->wrapper.attempts + 1 >= settle_max_attempts(w, m));
	if (escapes) {
		o = tray_outcome(&w->trays, p);
		strlcpy(o->error_message, f->text, sizeof(o->error_message));
		fill_record(w, o, m, f->class, f->result);
		o->record.attempts = m->wrapper.attempts + 1;
		tray_move(&w->trays, p, MOVE_ESCAPE);
	} else {
		retry(w, p, m, f);
	}
	log_failure(m, f, escapes);
}

/* A persistent handler may ask for several: of these the one that ends last counts. */
static void show_unanswered_holds(struct worker *w)
{
	int64_t last_ms = 0;

	for (int t = 0; t < QUEUE_TRAYS; t++)
		for (int i = 0; i < w->trays.tray[t].n; i++) {
			const struct outcome *o = w->trays.tray[t].items[i].outcome;

			if (o != NULL && o->hold_until_ms > last_ms)
				last_ms = o->hold_until_ms;
		}
	atomic_store(&w->env->slot->unanswered_hold_ms, last_ms);
}

/*
 * Delays the message until the hold ends, and counts no attempt. Workers of this host start no other one, the move
 * tells the other hosts. While Redis has not answered the move, the scoreboard keeps the hold, although the sweeper
 * reads that there is none.
 */
static void hold(struct worker *w, struct place p, const struct failure *f, int64_t now_ms)
{
	int64_t ms = handler_hold_ms(f->delay_ms);
	struct outcome *o = tray_outcome(&w->trays, p);
	struct message *m = tray_message(&w->trays, p);
	struct wrapper wrapper = m->wrapper;
	struct slot_text shown = {0};

	slot_text_set(&shown, 0, f->words, f->words_len, SLOT_TEXT_MAX);
	answered(w, false);
	wrapper.own_ms = 0;	/* as at a retry, its wait begins again */
	remember_failure(&wrapper, f, SETTLE_HELD);
	wrapper.apart = is_stored_apart(m);
	remember(w, o, m, &wrapper);
	o->delay_ms = ms;
	strlcpy(o->error_message, slot_text_read(&shown).text, sizeof(o->error_message));
	o->hold_until_ms = now_ms + ms;
	show_unanswered_holds(w);
	board_hold(w->env->board, o->hold_until_ms);
	tray_move(&w->trays, p, MOVE_HOLD);
	log_info("message_held", log_str("id", message_id(m)), log_str("traceparent", message_traceparent(m)),
	    log_int("attempt", m->wrapper.attempts + 1), log_int("delay_ms", ms),
	    f->delay_ms >= 0 && f->delay_ms != ms ? log_int("asked_ms", f->delay_ms) : log_str("asked_ms", NULL),
	    log_str("reason", o->error_message[0] == '\0' ? NULL : o->error_message));
}

void settle_failed(struct worker *w, struct place p, const struct failure *f, int64_t now_ms)
{
	struct failure failed;

	if (w->env->keys.shared && f->verdict == CONF_OUTCOME_RETRY) {
		failed = without_retry(f);
		f = &failed;
	} else if (f->hold) {
		hold(w, p, f, now_ms);
		return;
	}
	settle_failure(w, p, f, now_ms);
}

static void succeeded(struct worker *w, struct place p, int64_t duration_ms)
{
	struct message *m;

	answered(w, true);
	if (log_enabled(LOG_LEVEL_DEBUG)) {
		m = tray_message(&w->trays, p);
		log_debug("message_done", log_str("id", message_id(m)), log_str("traceparent", message_traceparent(m)),
		    log_int("attempt", m->wrapper.attempts + 1), log_int("duration_ms", duration_ms));
	}
}

static void mark_done(struct worker *w, struct place p, int64_t duration_ms)
{
	tray_done(&w->trays, p, w->env->conf->done.keep > 0 ? clock_realtime_ms() : 0, duration_ms);
}

void settle_done(struct worker *w, struct place p, int64_t duration_ms)
{
	succeeded(w, p, duration_ms);
	mark_done(w, p, duration_ms);
}

/*
 * Other messages of the tray are acknowledged together. This one goes alone, since it takes along what it emitted. The
 * handler has answered; whether the attempt succeeded, the answer of Redis tells.
 */
void settle_emitted(struct worker *w, struct place p, const struct handler_result *r)
{
	struct outcome *o = tray_outcome(&w->trays, p);

	answered(w, false);
	mark_done(w, p, r->duration_ms);
	o->emitted = handler_emissions_take(r->emitted);
	o->code = r->code;
	if (r->stderr_len > 0)
		buffer_append(&o->stderr_tail, r->stderr_tail, r->stderr_len);
	tray_move(&w->trays, p, MOVE_DONE);
}

/* However its move ended: Redis has it, or another process has the message. */
void settle_hold_answered(struct worker *w, struct outcome *o)
{
	if (o == NULL || o->hold_until_ms == 0)
		return;
	o->hold_until_ms = 0;
	show_unanswered_holds(w);
}

void settle_pushed(struct worker *w, struct place p)
{
	env_count(w->env, COUNT_EMITTED, (int)tray_item(&w->trays, p)->outcome->emitted->n);
	succeeded(w, p, tray_item(&w->trays, p)->duration_ms);
}

static void end_unrunnable(struct worker *w, bool opened, const char *stage, const char *error)
{
	char file[HANDLER_FILE_SIZE];

	env_count(w->env, COUNT_UNRUNNABLE, 1);
	if (opened)
		log_error("breaker_opened", log_str("handler", conf_handler_name(w->env->conf)), log_str("at", stage),
		    log_str("error", error), log_str("file", handler_file_of(stage, w->env->conf->handler, file)));
	pacing_probes(&w->pacing, false);
}

void settle_mute(struct worker *w, uint64_t cause, int64_t lived_ms, int64_t now_ms)
{
	end_unrunnable(w, breaker_concerns(w->env->board, worker_generation(w)) &&
	    breaker_mute(w->env->board, cause, lived_ms, now_ms), "answer", "it ended before its first answer");
}

void settle_unready(struct worker *w, uint64_t cause, bool works_elsewhere, const char *stage, const char *error,
    int64_t now_ms)
{
	end_unrunnable(w, !works_elsewhere && breaker_concerns(w->env->board, worker_generation(w)) &&
	    breaker_unready(w->env->board, cause, now_ms), stage, error);
}

void settle_unrunnable(struct worker *w, uint64_t cause, const char *stage, const char *error, int64_t now_ms)
{
	end_unrunnable(w, breaker_concerns(w->env->board, worker_generation(w)) &&
	    breaker_open(w->env->board, cause, now_ms), stage, error);
}
