/*
 * Sends the moves that settle.c has chosen, and sends them again until Redis has answered. One DEL acknowledges a tray
 * whose messages all succeeded. If Redis refuses a move, the worker holds it: it sends the move again after a back-off,
 * does not run the handler again, and fetches nothing meanwhile.
 *
 * Redis may return to an earlier state without the connection being lost. Then a message that left its tray alive may
 * lie there again. So the lease in Redis counts the messages that left each tray alive, and owner.moved counts the
 * answers: as long as both counts are equal, Redis undid no such move. The script that acknowledges such a tray
 * compares them, and so does the worker at each renewal of the lease. Every other message that left a tray is done and
 * emitted nothing, and may be deleted as often as it returns.
 */
#include <stdlib.h>

#include <bsd/stdlib.h>

#include "worker/equal.h"
#include "worker/worker.h"

#include "common/base/base.h"
#include "common/dead_letters/dead_letters.h"

static const struct retry_backoff backoff = { .base_ms = 100, .cap_ms = 10000, .jitter = 0.5 };

/* Scripts move a large message by its place; its payload does not go back to Redis. */
static bool is_large(const struct item *item)
{
	return item->len > QUEUE_BY_VALUE_MAX;
}

/* How many messages of the list came before the one with this serial: certain only while no move out of this tray is
 * unanswered. */
static int64_t older_in_list(const struct tray *t, uint64_t serial)
{
	int64_t n = 0;

	for (const struct item *item = t->items; item < t->items + t->n; item++)
		n += item->state != ITEM_GONE && !item->lost && item->serial < serial;
	return n;
}

static struct queue_entry entry_of(struct worker *w, struct place p)
{
	struct tray *t = &w->trays.tray[p.tray];
	struct item *item = tray_item(&w->trays, p);

	struct queue_entry e = { .raw = tray_raw(t, item), .len = item->len, .at = QUEUE_ANYWHERE };

	if (is_large(item) && !t->mixed) {
		e.at = -1 - older_in_list(t, item->serial);	/* the oldest lies at the pop end */
		e.of = older_in_list(t, UINT64_MAX);
		e.moved = w->session.owner.moved[p.tray];
	}
	return e;
}

static void send_hold(struct worker *w, const struct queue_move *m, const struct outcome *o)
{
	char *text = queue_hold_format(w->session.id.node, o->error_message, o->delay_ms);

	queue_hold(&w->session.redis, m, o->delay_ms, text);
	free(text);
}

static void send_move(struct worker *w, struct place p, int64_t now_ms)
{
	struct item *item = tray_item(&w->trays, p);
	struct outcome *o = item->outcome;
	const struct queue_entry entry = entry_of(w, p);
	struct message *message = o == NULL ? NULL : tray_message(&w->trays, p);
	const struct queue_change change = { o == NULL ? NULL : &o->line, message == NULL ? 0 : message->wrapper_len };
	const bool rewritten = o != NULL && o->rewritten;
	struct queue_move m = { QUEUE_FROM_TRAY(&w->session.owner, p.tray), .entry = &entry,
	    .change = rewritten ? &change : NULL, .message = message };
	struct cancel_end cancelled;
	struct queue_note note;

	switch (item->move) {
	case MOVE_DONE:
		if (emit_any(item))
			emit_send(w, p, &entry);
		else
			history_done_one(w, p, &entry);
		break;
	case MOVE_RETRY:
	case MOVE_PUT_OFF:
		queue_retry(&w->session.redis, &m, o->delay_ms);
		break;
	case MOVE_HOLD:
		send_hold(w, &m, o);
		break;
	case MOVE_ESCAPE:
		if (item->note != NULL)
			queue_note_of(&note, message, NULL);
		m.note = item->note == NULL ? NULL : &note;
		m.record = w->env->conf->dead_letter.enabled ? &o->record : NULL;
		m.cancel = cancel_end_of(w, p, &cancelled);
		queue_escape(&w->session.redis, &m);
		break;
	case MOVE_ASIDE:
		m.record = &o->record;
		queue_set_aside(&w->session.redis, &m);
		break;
	case MOVES:
		break;
	case MOVE_HAND_BACK:
		m.note = o == NULL || o->note.text[0] == '\0' ? NULL : &o->note;
		m.cancel = cancel_end_of(w, p, &cancelled);
		queue_hand_back(&w->session.redis, &m, o != NULL && o->last);
		break;
	}
	session_expect(w, ANSWER_MOVE, p.tray, p.item, now_ms + REDIS_TIMEOUT_MS);
	tray_move_sent(&w->trays, p, true);
}

static int unanswered(const struct tray *t)
{
	int n = 0;

	for (int i = 0; i < t->n; i++)
		n += t->items[i].state == ITEM_MOVING && t->items[i].sent;
	return n;
}

static bool moves_large(const struct tray *t)
{
	for (int i = 0; i < t->n; i++)
		if (t->items[i].state == ITEM_MOVING && is_large(&t->items[i]))
			return true;
	return false;
}

/* A move that Redis refuses may stay refused for long, so it must not hold up other moves. */
static bool hand_back_waits(const struct tray *t)
{
	if (t->count[ITEM_MOVING] == 0)
		return false;
	for (int i = 0; i < t->n; i++) {
		const struct item *item = &t->items[i];

		if (item->state == ITEM_MOVING && item->move == MOVE_HAND_BACK && !item->sent && !item->refused)
			return true;
	}
	return false;
}

bool mover_hand_back_waits(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (hand_back_waits(&w->trays.tray[i]))
			return true;
	return false;
}

/* A script finds a large message by its place, which is certain only while no move out of its tray is unanswered. So
 * while one leaves its tray, all leave it one by one. */
static bool may_leave(const struct tray *t, const struct item *item)
{
	return !(moves_large(t) && unanswered(t) > 0) && equal_may_leave(t, item);
}

static void send_moves(struct worker *w, int64_t now_ms)
{
	struct leaving *l = &w->mover.leaving;
	/* A newer message must go back first, so no other may go back yet. A fetch may bring one. */
	bool newer_waits = tray_fetching(&w->trays);

	leaving_list(l, &w->trays);
	for (const struct leaving_move *m = l->moves; m < l->moves + l->n; m++) {
		const struct item *item = tray_item(&w->trays, m->place);
		bool goes_back = item->move == MOVE_HAND_BACK;

		if (goes_back && newer_waits)
			continue;
		if (may_leave(&w->trays.tray[m->place.tray], item))
			send_move(w, m->place, now_ms);
		else if (goes_back && !item->refused)
			newer_waits = true;
	}
}

void mover_tick(struct worker *w, int64_t now_ms)
{
	if (w->session.redis.state != REDIS_READY || !w->session.registered || now_ms < w->mover.retry.at_ms)
		return;
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays.tray[i].state == TRAY_FILLED && w->trays.tray[i].refilled)
			tray_let_done_leave(&w->trays, i);	/* its DEL may be far away */
	send_moves(w, now_ms);
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		struct tray *t = &w->trays.tray[i];

		if (t->state != TRAY_DELETING || t->sent)
			continue;
		history_done(w, i);
		session_expect(w, ANSWER_DELETE, i, 0, now_ms + REDIS_TIMEOUT_MS);
		tray_delete_sent(&w->trays, i, true);
	}
}

static void count_moved(struct worker *w, const struct item *item)
{
	enum move move = item->move;
	const char *name;
	int class;
	static const enum counter counters[] = { [MOVE_DONE] = COUNT_DONE, [MOVE_RETRY] = COUNT_RETRIED,
		[MOVE_ESCAPE] = COUNT_ESCAPED, [MOVE_HAND_BACK] = COUNT_HANDED_BACK, [MOVE_PUT_OFF] = COUNT_HANDED_BACK,
		[MOVE_HOLD] = COUNT_HELD,
		[MOVE_ASIDE] = COUNT_HANDED_BACK };

	env_count(w->env, counters[move], 1);
	if (move == MOVE_ESCAPE) {
		name = item->outcome->record.error_class;
		if ((class = dead_letter_class_counter(name)) != -1)
			env_count(w->env, (enum counter)class, 1);
		else
			classes_count(&w->env->board->workers.classes, name, 1);
	}
	if (move == MOVE_DONE || move == MOVE_RETRY || move == MOVE_HOLD || move == MOVE_ESCAPE)
		atomic_fetch_add(&w->env->board->workers.done, 1);
}

/*
 * A refused move stays refused until Redis answers it, or until its message is no longer there to be moved; other
 * successes do not clear the error. When no refused move is left, the back-off ends: a worker without a move to send
 * again must fetch.
 */
static void refusals_changed(struct worker *w)
{
	if (w->trays.refusals > 0)
		return;
	retry_succeeded(&w->mover.retry);
	retry_not_before(&w->mover.retry, 0);
}

/* Of several moves of one write that Redis refuses only the first counts: one error is one step of the back-off. */
static void note_refusal(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	errors_report(w, "settle", reply);
	if (w->mover.retry.errors == 0 || now_ms >= w->mover.retry.at_ms)
		retry_failed(&w->mover.retry, &backoff, now_ms);
}

static void answered(struct worker *w)
{
	refusals_changed(w);
	if (w->trays.refusals == 0)
		errors_clear(w);
}

static void claim_lost(struct worker *w, int tray, int n)
{
	env_count(w->env, COUNT_CLAIM_LOST, n);
	log_warning("claim_lost", log_str("tray", w->session.owner.trays[tray]), log_int("messages", n));
	session_renew_incarnation(w, "a message of ours was no longer there");
}

void mover_gone(struct worker *w, struct place p)
{
	settle_hold_answered(w, tray_item(&w->trays, p)->outcome);
	tray_gone(&w->trays, p);
	emit_forget(w, p);
	refusals_changed(w);
}

void mover_free(struct worker *w)
{
	leaving_free(&w->mover.leaving);
}

void mover_reopen_tray(struct worker *w, int tray)
{
	tray_reopen(&w->trays, tray);
	refusals_changed(w);
}

void mover_retry_now(struct worker *w)
{
	retry_not_before(&w->mover.retry, 0);
}

/*
 * True: set this message aside, because Redis refuses to move it, but executes other commands. A sweeper returns it
 * later. A message that is done is never set aside, since it would run again. After the first such message, those with
 * the same move are set aside at the first refusal, until such a move succeeds.
 */
static bool is_hopeless(struct worker *w, struct place p, const struct redis_reply *reply)
{
	const struct item *item = tray_item(&w->trays, p);

	if (item->move == MOVE_DONE || item->move == MOVE_ASIDE || redis_error_is_transient(reply))
		return false;
	if (tray_count_refusal(&w->trays, p) < MOVE_ATTEMPTS && !w->mover.hopeless[item->move])
		return false;
	w->mover.hopeless[item->move] = true;
	return true;
}

static void move_refused(struct worker *w, struct place p, const struct redis_reply *reply, int64_t now_ms)
{
	const struct item *item = tray_item(&w->trays, p);
	enum emit_next next = emit_after(item, reply);

	if (next == EMIT_ASKS) {
		tray_move_sent(&w->trays, p, false);
		return;
	}
	if (next == EMIT_FAILS) {
		tray_move_refused(&w->trays, p, false);
		refusals_changed(w);
		emit_fail(w, p, reply->str, now_ms);
		return;
	}
	tray_move_refused(&w->trays, p, true);
	note_refusal(w, reply, now_ms);
	tray_move_sent(&w->trays, p, false);
	if (w->exit.order == ORDER_HAND_BACK && item->move != MOVE_DONE && item->move != MOVE_HAND_BACK) {
		retry_not_before(&w->mover.retry, 0);
		/* A worker that was ordered to hand back has no time to wait until Redis accepts the move. */
		cancel_undone(w, p);
		settle_hand_back(w, p, item->move == MOVE_PUT_OFF ? SETTLE_AS_IT_WAS : SETTLE_REDELIVERED);
	} else if (is_hopeless(w, p, reply)) {
		/* At a stop, Redis may refuse this, too, again and again: then the back-off counts. */
		if (item->refusals <= MOVE_ATTEMPTS)
			retry_not_before(&w->mover.retry, 0);
		cancel_undone(w, p);
		settle_set_aside(w, p, reply->type == REDIS_ERROR ? reply->str : "unexpected reply type from Redis");
	}
}

/*
 * Redis has begun the hold a moment later than the handler asked for it. A worker must not start anything before Redis
 * says that the hold is over: it would read that the queue is still paused.
 */
static void hold_began(struct worker *w, const struct item *item, const struct redis_reply *reply)
{
	if (reply->integer == QUEUE_MOVED_WITHOUT_HOLD)
		log_warning("hold_failed", log_str("error",
		    "Redis refused to set the key of the pause, so other hosts go on: check the rights of the user"));
	else
		board_hold(w->env->board, clock_monotonic_ms() + item->outcome->delay_ms + QUEUE_HOLD_MARGIN_MS);
}

void mover_record_failed(void)
{
	log_warning("record_failed", log_str("error",
	    "the stream of records could not be written: check the type of its key"));
}

/*
 * The lease has run out, or Redis has returned to an earlier state: nothing has moved, and the message may still be
 * ours. The move is sent again under the next name if adopt.c finds the message in its tray; then by its value, since
 * the order of the tray is in doubt, too.
 */
static void place_in_doubt(struct worker *w, struct place p)
{
	tray_move_sent(&w->trays, p, false);
	tray_mix(&w->trays, p.tray);
	session_renew_incarnation(w, "Redis could not tell whether a message of ours is still there");
}

void mover_answer(struct worker *w, struct place p, const struct redis_reply *reply, int64_t now_ms)
{
	struct item *item = tray_item(&w->trays, p);

	if (reply->type != REDIS_INTEGER) {
		move_refused(w, p, reply, now_ms);
		return;
	}
	if (emit_was_asked(item)) {
		tray_move_sent(&w->trays, p, false);
		return;
	}
	w->mover.hopeless[item->move] = false;
	tray_move_refused(&w->trays, p, false);
	answered(w);
	if (reply->integer == QUEUE_CANNOT_TELL) {
		place_in_doubt(w, p);
		return;
	}
	if (reply->integer == 0) {
		claim_lost(w, p.tray, 1);
	} else {
		count_moved(w, item);
		cancel_moved(w, p);
		if (item->move == MOVE_DONE && emit_any(item))
			settle_pushed(w, p);
		else if (item->move == MOVE_HOLD)
			hold_began(w, item, reply);
	}
	if (item->move == MOVE_DONE)
		history_answer(w, reply);
	/* if Redis undoes the push of what it emitted, a message that is done must run again, too */
	if (reply->integer > 0 && (item->move != MOVE_DONE || emit_any(item)))
		queue_owner_count_moved(&w->session.owner, p.tray);
	if (reply->integer == QUEUE_MOVED_WITHOUT_RECORD && item->move == MOVE_ESCAPE)
		mover_record_failed();
	mover_gone(w, p);
	tray_close(&w->trays, p.tray);
}

void mover_delete_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	int tray = of.tray, n = w->trays.tray[tray].count[ITEM_DONE];

	if (reply->type != REDIS_INTEGER) {
		tray_delete_refused(&w->trays, tray, true);
		note_refusal(w, reply, now_ms);
		tray_delete_sent(&w->trays, tray, false);
		return;
	}
	tray_delete_refused(&w->trays, tray, false);
	answered(w);
	if (reply->integer == QUEUE_CANNOT_TELL) {
		tray_delete_sent(&w->trays, tray, false);
		session_renew_incarnation(w, "Redis counted other moves out of a tray");
		return;
	}
	tray_empty(&w->trays, tray);
	if (reply->integer == 0) {
		claim_lost(w, tray, n);
		return;
	}
	history_answer(w, reply);
	env_count(w->env, COUNT_DONE, n);
	atomic_fetch_add(&w->env->board->workers.done, (uint64_t)n);
}

/* When the back-off ends; the moves that were held are sent then. */
int64_t mover_deadline_ms(const struct worker *w, int64_t now_ms)
{
	return w->mover.retry.errors > 0 && w->session.registered && w->mover.retry.at_ms > now_ms
	    ? w->mover.retry.at_ms : INT64_MAX;
}
