/*
 * Moves: chosen elsewhere, sent here, and sent again until they are answered. A tray whose messages all
 * succeeded is acknowledged by one DEL. A refused move is held: asked for again after a while, the
 * handler not run again, nothing else fetched meanwhile.
 */
#include <stdlib.h>

#include <bsd/stdlib.h>

#include "worker/worker.h"

#include "common/backoff.h"
#include "common/letter_class.h"

#define ERROR_BASE_MS 100
#define ERROR_CAP_MS 10000

void move_choose(struct worker *w, struct place p, enum move move)
{
	struct item *item = tray_item(w, p);

	tray_set(&w->trays[p.tray], item, ITEM_MOVING);
	item->move = move;
	item->sent = 0;
}

static void send_move(struct worker *w, struct place p, int64_t now_ms)
{
	struct tray *t = &w->trays[p.tray];
	struct item *item = tray_item(w, p);
	struct outcome *o = item->outcome;
	struct message raw = { .raw = tray_raw(t, item), .raw_len = item->len };
	struct queue_note note;

	switch (item->move) {
	case MOVE_DONE:
		history_done_one(w, p, &raw);
		break;
	case MOVE_RETRY:
		queue_retry(&w->redis, &w->owner, p.tray, &raw, &o->instead, o->delay_ms);
		break;
	case MOVE_ESCAPE:
		message_parse(&raw, raw.raw, raw.raw_len);
		if (item->note != NULL)
			queue_note_of(&note, &raw, NULL);
		queue_escape(&w->redis, &w->keys, w->owner.lease, w->owner.lease_ms, w->owner.trays[p.tray], -1, &raw,
		    item->note == NULL ? NULL : &note, w->conf->dead_letter.enabled ? &o->record : NULL);
		break;
	case MOVE_HAND_BACK:
		queue_hand_back(&w->redis, &w->owner, p.tray, &raw, o == NULL || !o->rewritten ? NULL : &o->instead,
		    o == NULL || o->note.text[0] == '\0' ? NULL : &o->note);
		break;
	}
	session_expect(w, ANSWER_MOVE, p.tray, p.item, now_ms + REDIS_TIMEOUT_MS);
	item->sent = ++w->moves_sent;
}

/* The newest first: what goes back to the pop end last is fetched first, so that the order stays. */
static void send_moves(struct worker *w, int tray, int64_t now_ms)
{
	struct tray *t = &w->trays[tray];

	if (t->count[ITEM_MOVING] == 0)
		return;
	for (int i = t->n - 1; i >= 0; i--)
		if (t->items[i].state == ITEM_MOVING && !t->items[i].sent)
			send_move(w, (struct place){ tray, i }, now_ms);
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

	if (w->redis.state != REDIS_READY || !w->registered || now_ms < w->move_at_ms)
		return;
	for (int i = newest_unsent(w, below); i != -1; i = newest_unsent(w, below)) {
		below = w->trays[i].serial;
		send_moves(w, i, now_ms);
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
		[MOVE_ESCAPE] = COUNT_ESCAPED, [MOVE_HAND_BACK] = COUNT_HANDED_BACK };

	count(w, counters[move], 1);
	if (move == MOVE_ESCAPE && (class = letter_class_counter(item->outcome->record.error_class)) != -1)
		count(w, (enum counter)class, 1);
	if (move != MOVE_HAND_BACK)
		atomic_fetch_add(&w->board->workers_done, 1);
}

/* One that is refused stays so until it is answered: what else succeeds meanwhile is no fair weather. */
static void mark_refused(struct worker *w, bool *mark, bool refused)
{
	w->refusals += refused - *mark;
	*mark = refused;
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
	if (w->refusals > 0)
		return;
	w->move_errors = 0;
	w->move_at_ms = 0;
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

/* It is gone, whether or not the answer to our DEL came. */
void move_deleted(struct worker *w, int tray)
{
	mark_refused(w, &w->trays[tray].refused, false);
	tray_empty(&w->trays[tray]);
}

void move_answer(struct worker *w, struct place p, const struct redis_reply *reply, int64_t now_ms)
{
	struct item *item = tray_item(w, p);

	if (reply->type != REDIS_INTEGER) {
		refused(w, &item->refused, reply, now_ms);
		item->sent = 0;
		if (w->order == ORDER_HAND_BACK && (item->move == MOVE_RETRY || item->move == MOVE_ESCAPE)) {
			w->move_at_ms = 0;
			settle_hand_back(w, p, SETTLE_REDELIVERED);	/* there is no time to wait until it is mended */
		}
		return;
	}
	answered(w, &item->refused);
	if (reply->integer == 0)
		claim_lost(w, p.tray, 1);
	else
		count_moved(w, item);
	if (item->move == MOVE_DONE)
		history_answer(w, reply);
	if (reply->integer == 2 && item->move == MOVE_ESCAPE)
		log_warning("record_failed", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("error", "the stream of records could not be written: check the type of its key"));
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
	tray_empty(t);
	if (reply->integer == 0) {
		claim_lost(w, tray, n);
		return;
	}
	history_answer(w, reply);
	count(w, COUNT_DONE, n);
	atomic_fetch_add(&w->board->workers_done, (uint64_t)n);
}

/* Once that is past, what was held is sent, and an answer ends the wait. */
int64_t move_deadline_ms(const struct worker *w, int64_t now_ms)
{
	return w->move_errors > 0 && w->registered && w->move_at_ms > now_ms ? w->move_at_ms : INT64_MAX;
}
