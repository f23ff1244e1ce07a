/*
 * Moves: chosen elsewhere, sent here, and sent again until they are answered. A tray whose messages all
 * succeeded is acknowledged by one DEL. A refused move is held: asked for again after a while, the
 * handler not run again, nothing else fetched meanwhile.
 *
 * Redis may return to an earlier state without the connection being lost. Then a message that left its tray alive may lie
 * there again. So the lease in Redis counts what left each tray alive, and owner.moved counts the answers: as long as both
 * are equal no such move was undone. They are compared in the script that acknowledges a tray which something ever left
 * alive, and at each renewal of the lease. What left a tray otherwise is done, and may be deleted as often as it returns.
 */
#include <stdlib.h>

#include <bsd/stdlib.h>

#include "worker/worker.h"

#include "common/backoff.h"
#include "common/letter_class.h"

#define ERROR_BASE_MS 100
#define ERROR_CAP_MS 10000

/* Scripts move a large message by its place; its payload does not go back to Redis. */
static bool is_large(const struct item *item)
{
	return item->len > QUEUE_BY_VALUE_MAX;
}

void move_choose(struct worker *w, struct place p, enum move move)
{
	struct item *item = tray_item(w, p);

	tray_set(&w->trays[p.tray], item, ITEM_MOVING);
	item->move = move;
	item->sent = 0;
}

/* The index from the pop end, where the oldest lies. Only while no move out of this tray is unanswered. */
static int64_t place_in_list(const struct tray *t, const struct item *item)
{
	int64_t at = -1;

	for (const struct item *older = t->items; older < item; older++)
		at -= older->state != ITEM_GONE && !older->lost;
	return at;
}

static struct queue_entry entry_of(struct worker *w, struct place p)
{
	struct tray *t = &w->trays[p.tray];
	struct item *item = tray_item(w, p);

	struct queue_entry e = { .raw = tray_raw(t, item), .len = item->len, .at = QUEUE_ANYWHERE };

	if (is_large(item) && !t->mixed) {
		e.at = place_in_list(t, item);
		e.of = -1 - place_in_list(t, t->items + t->n);
		e.moved = w->owner.moved[p.tray];
	}
	return e;
}

static void send_move(struct worker *w, struct place p, int64_t now_ms)
{
	struct item *item = tray_item(w, p);
	struct outcome *o = item->outcome;
	const struct queue_entry entry = entry_of(w, p);
	struct queue_change change = {0};
	struct queue_note note;
	struct message m;

	message_parse(&m, &w->keys.lines, entry.raw, entry.len);
	m.sha1_memo = item->sha1;
	if (o != NULL)
		change = (struct queue_change){ &o->line, m.wrapper_len };

	switch (item->move) {
	case MOVE_DONE:
		history_done_one(w, p, &entry);
		break;
	case MOVE_RETRY:
	case MOVE_PUT_OFF:
		queue_retry(&w->redis, &w->owner, p.tray, &entry, &change, o->delay_ms);
		break;
	case MOVE_ESCAPE:
		if (item->note != NULL)
			queue_note_of(&note, &m, NULL);
		queue_escape(&w->redis, &w->keys, w->owner.lease, w->owner.lease_ms, w->owner.trays[p.tray], -1, &entry, &m,
		    item->note == NULL ? NULL : &note, w->conf->dead_letter.enabled ? &o->record : NULL);
		break;
	case MOVE_ASIDE:
		queue_set_aside(&w->redis, &w->owner, p.tray, &entry, o->rewritten ? &change : NULL, &m, &o->record);
		break;
	case MOVES:
		break;
	case MOVE_HAND_BACK:
		queue_hand_back(&w->redis, &w->owner, p.tray, &entry, o == NULL || !o->rewritten ? NULL : &change,
		    o == NULL || o->note.text[0] == '\0' ? NULL : &o->note);
		break;
	}
	session_expect(w, ANSWER_MOVE, p.tray, p.item, now_ms + REDIS_TIMEOUT_MS);
	item->sent = ++w->moves_sent;
}

static int unanswered(const struct tray *t)
{
	int n = 0;

	for (int i = 0; i < t->n; i++)
		n += t->items[i].state == ITEM_MOVING && t->items[i].sent;
	return n;
}

static bool holds_large(const struct tray *t)
{
	for (int i = 0; i < t->n; i++)
		if (t->items[i].state != ITEM_GONE && is_large(&t->items[i]))
			return true;
	return false;
}

/*
 * A move that Redis refuses may stay refused for long, so it must not hold up other moves. Called twice a turn for each tray, so it
 * must not read all messages of a tray in which nothing moves.
 */
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

bool move_hand_back_waits(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (hand_back_waits(&w->trays[i]))
			return true;
	return false;
}

/*
 * The newest first: what goes back to the pop end last is fetched first, so that the order stays. A large message is named
 * by its place, which is certain only when no move out of its tray is unanswered: from such a tray they leave one by one.
 * newer_waits: a message of a newer tray has yet to go back, so none of this one may.
 */
static void send_moves(struct worker *w, int tray, bool newer_waits, int64_t now_ms)
{
	struct tray *t = &w->trays[tray];
	bool one_by_one;

	if (t->count[ITEM_MOVING] == 0)
		return;
	one_by_one = holds_large(t);
	if (one_by_one && unanswered(t) > 0)
		return;
	for (int i = t->n - 1; i >= 0; i--) {
		if (t->items[i].state != ITEM_MOVING || t->items[i].sent || (newer_waits && t->items[i].move == MOVE_HAND_BACK))
			continue;
		send_move(w, (struct place){ tray, i }, now_ms);
		if (one_by_one)
			return;
	}
}

void move_close_tray(struct worker *w, int tray)
{
	struct tray *t = &w->trays[tray];

	if (t->state != TRAY_FILLED || t->count[ITEM_WAITING] + t->count[ITEM_RUNNING] + t->count[ITEM_MOVING] > 0)
		return;
	if (t->count[ITEM_DONE] == 0) {
		tray_empty(t);
	} else {
		t->state = TRAY_DELETING;
		t->sent = false;
	}
}

static int newest_unsent(const struct worker *w, uint64_t below)
{
	int newest = -1;

	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].state == TRAY_FILLED && w->trays[i].serial < below &&
		    (newest == -1 || w->trays[i].serial > w->trays[newest].serial))
			newest = i;
	return newest;
}

void move_tick(struct worker *w, int64_t now_ms)
{
	uint64_t below = UINT64_MAX;
	bool newer_waits = false;

	if (w->redis.state != REDIS_READY || !w->registered || now_ms < w->move_at_ms)
		return;
	for (int i = newest_unsent(w, below); i != -1; i = newest_unsent(w, below)) {
		below = w->trays[i].serial;
		send_moves(w, i, newer_waits, now_ms);
		newer_waits = newer_waits || hand_back_waits(&w->trays[i]);
	}
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		struct tray *t = &w->trays[i];

		if (t->state != TRAY_DELETING || t->sent)
			continue;
		history_done(w, i);
		session_expect(w, ANSWER_DELETE, i, 0, now_ms + REDIS_TIMEOUT_MS);
		t->sent = true;
	}
}

static void count(struct worker *w, enum counter c, int n)
{
	atomic_fetch_add(&w->slot->counters[c], (uint64_t)n);
}

static void count_moved(struct worker *w, const struct item *item)
{
	enum move move = item->move;
	int class;
	static const enum counter counters[] = { [MOVE_DONE] = COUNT_DONE, [MOVE_RETRY] = COUNT_RETRIED,
		[MOVE_ESCAPE] = COUNT_ESCAPED, [MOVE_HAND_BACK] = COUNT_HANDED_BACK, [MOVE_PUT_OFF] = COUNT_HANDED_BACK,
		[MOVE_ASIDE] = COUNT_HANDED_BACK };

	count(w, counters[move], 1);
	if (move == MOVE_ESCAPE && (class = letter_class_counter(item->outcome->record.error_class)) != -1)
		count(w, (enum counter)class, 1);
	if (move == MOVE_DONE || move == MOVE_RETRY || move == MOVE_ESCAPE)
		atomic_fetch_add(&w->board->workers_done, 1);
}

/*
 * A refused move stays refused until Redis answers it, or until its message is no longer there to be moved; other successes do
 * not clear the error. With the last of them the back-off ends: a worker that has nothing left to ask for again must fetch.
 */
static void mark_refused(struct worker *w, bool *mark, bool refused)
{
	w->refusals += refused - *mark;
	*mark = refused;
	if (w->refusals == 0) {
		w->move_errors = 0;
		w->move_at_ms = 0;
	}
}

static void refused(struct worker *w, bool *mark, const struct redis_reply *reply, int64_t now_ms)
{
	mark_refused(w, mark, true);
	session_trouble(w, "settle", reply);
	if (w->move_errors > 0 && now_ms < w->move_at_ms)
		return;		/* another of those that left together: one trouble, one step of the back-off */
	w->move_errors++;
	w->move_at_ms = now_ms + backoff_ms(ERROR_BASE_MS, 2, ERROR_CAP_MS, 0.5, w->move_errors, arc4random());
}

static void answered(struct worker *w, bool *mark)
{
	mark_refused(w, mark, false);
	if (w->refusals == 0)
		session_fair(w);
}

static void claim_lost(struct worker *w, int tray, int n)
{
	count(w, COUNT_CLAIM_LOST, n);
	log_warning("claim_lost", log_str("queue", w->conf->name), log_str("worker", w->name),
	    log_str("tray", w->owner.trays[tray]), log_int("messages", n));
	session_renew_incarnation(w, "a message of ours was no longer there");
}

void move_gone(struct worker *w, struct place p)
{
	mark_refused(w, &tray_item(w, p)->refused, false);
	tray_set(&w->trays[p.tray], tray_item(w, p), ITEM_GONE);
}

/* The list was read, so the tray acknowledges anew what is left in it. */
void move_reopen_tray(struct worker *w, int tray)
{
	mark_refused(w, &w->trays[tray].refused, false);
	w->trays[tray].state = TRAY_FILLED;
	w->trays[tray].sent = false;
}

/*
 * Whether to set this message aside: Redis refuses to move it, but takes other commands. A sweeper returns it later. A message that is
 * done is never set aside, since it would run again. After the first such message, those with the same move are set aside at the
 * first refusal, until such a move succeeds.
 */
static bool is_hopeless(struct worker *w, struct item *item, const struct redis_reply *reply)
{
	if (item->move == MOVE_DONE || item->move == MOVE_ASIDE || redis_refuses_all(reply))
		return false;
	if (++item->refusals < MOVE_ATTEMPTS && !w->hopeless[item->move])
		return false;
	w->hopeless[item->move] = true;
	return true;
}

static void move_refused(struct worker *w, struct place p, const struct redis_reply *reply, int64_t now_ms)
{
	struct item *item = tray_item(w, p);

	refused(w, &item->refused, reply, now_ms);
	item->sent = 0;
	if (w->order == ORDER_HAND_BACK && item->move != MOVE_DONE && item->move != MOVE_HAND_BACK) {
		w->move_at_ms = 0;
		/* A worker that was ordered to hand back has no time to wait until Redis accepts the move. */
		settle_hand_back(w, p, item->move == MOVE_PUT_OFF ? SETTLE_AS_IT_WAS : SETTLE_REDELIVERED);
	} else if (is_hopeless(w, item, reply)) {
		/* At a stop a message whose setting aside is refused, too, comes here again and again: then the back-off counts. */
		if (item->refusals <= MOVE_ATTEMPTS)
			w->move_at_ms = 0;
		settle_set_aside(w, p, reply->type == REDIS_ERROR ? reply->str : "unexpected reply type from Redis");
	}
}

void move_record_failed(const struct worker *w)
{
	log_warning("record_failed", log_str("queue", w->conf->name), log_str("worker", w->name),
	    log_str("error", "the stream of records could not be written: check the type of its key"));
}

void move_answer(struct worker *w, struct place p, const struct redis_reply *reply, int64_t now_ms)
{
	struct item *item = tray_item(w, p);

	if (reply->type != REDIS_INTEGER) {
		move_refused(w, p, reply, now_ms);
		return;
	}
	w->hopeless[item->move] = false;
	answered(w, &item->refused);
	if (reply->integer == 0)
		claim_lost(w, p.tray, 1);
	else
		count_moved(w, item);
	if (item->move == MOVE_DONE)
		history_answer(w, reply);
	else if (reply->integer > 0)
		w->owner.moved[p.tray]++;
	if (reply->integer == 2 && item->move == MOVE_ESCAPE)
		move_record_failed(w);
	move_gone(w, p);
	move_close_tray(w, p.tray);
}

void move_delete_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms)
{
	struct tray *t = &w->trays[tray];
	int n = t->count[ITEM_DONE];

	if (reply->type != REDIS_INTEGER) {
		refused(w, &t->refused, reply, now_ms);
		t->sent = false;
		return;
	}
	answered(w, &t->refused);
	if (reply->integer == -1) {
		t->sent = false;
		session_renew_incarnation(w, "Redis returned to an earlier state");
		return;
	}
	tray_empty(t);
	if (reply->integer == 0) {
		claim_lost(w, tray, n);
		return;
	}
	history_answer(w, reply);
	count(w, COUNT_DONE, n);
	atomic_fetch_add(&w->board->workers_done, (uint64_t)n);
}

/* When the back-off ends; the moves that were held are sent then. */
int64_t move_deadline_ms(const struct worker *w, int64_t now_ms)
{
	return w->move_errors > 0 && w->registered && w->move_at_ms > now_ms ? w->move_at_ms : INT64_MAX;
}
