/*
 * After a doubt (a lost connection, a late lease) each tray is read again under its new name: what we
 * believe to be in it is held against what is. A message that is still there is still ours; one whose
 * move was under way and is not there was moved; anything else that is not there was lost to another
 * owner; what is there and not known came with an answer that never arrived.
 */
#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

#include "common/alloc.h"

/* The list as read, newest first; taken: it is one of our items. */
struct there {
	const struct redis_reply *reply;
	bool *taken;
};

static bool take(const struct there *there, const struct tray *t, const struct item *item)
{
	for (size_t i = there->reply->n; i-- > 0;) {
		struct redis_reply entry = redis_element(there->reply, i);

		if (!there->taken[i] && entry.len == item->len && memcmp(entry.str, tray_raw(t, item), item->len) == 0) {
			there->taken[i] = true;
			return true;
		}
	}
	return false;
}

static void claim_lost(struct worker *w, struct place p)
{
	struct item *item = tray_item(w, p);

	atomic_fetch_add(&w->slot->counters[COUNT_CLAIM_LOST], 1);
	log_warning("claim_lost", log_str("queue", w->conf->name), log_str("worker", w->name),
	    log_str("tray", w->owner.trays[p.tray]), log_int("messages", 1));
	if (item->state == ITEM_RUNNING)
		item->lost = w->claim_gone = true;
	else
		move_gone(w, p);
}

static bool in_doubt(const struct item *item)
{
	return item->state == ITEM_MOVING && item->sent;
}

/*
 * Of equal messages those come first that are certainly not moved, and of those in doubt the ones whose
 * move was sent last, since moves are made in the order they were sent: a move that is asked for again
 * must find its own message, not its twin's.
 */
static void match_certain(struct worker *w, int tray, const struct there *there)
{
	struct tray *t = &w->trays[tray];

	for (int i = 0; i < t->n; i++) {
		struct item *item = &t->items[i];

		if (item->state != ITEM_GONE && !item->lost && !in_doubt(item) && !take(there, t, item))
			claim_lost(w, (struct place){ tray, i });
	}
}

static int last_in_doubt(const struct tray *t)
{
	int last = -1;

	for (int i = 0; i < t->n; i++)
		if (in_doubt(&t->items[i]) && (last == -1 || t->items[i].sent > t->items[last].sent))
			last = i;
	return last;
}

static void match_doubtful(struct worker *w, int tray, const struct there *there)
{
	struct tray *t = &w->trays[tray];

	for (int i = last_in_doubt(t); i != -1; i = last_in_doubt(t)) {
		if (take(there, t, &t->items[i]))
			t->items[i].sent = 0;		/* it is sent again */
		else
			move_gone(w, (struct place){ tray, i });
	}
}

static _Noreturn void unexpected(const struct worker *w, int tray)
{
	/* Not ours to guess. After a death all of it is given back unblamed. */
	log_error("tray_unexpected", log_str("queue", w->conf->name), log_str("worker", w->name),
	    log_str("tray", w->owner.trays[tray]));
	exit(CHILD_EXIT_UNSETTLED);
}

/* False: somebody else writes there. */
static bool add_unknown(struct worker *w, int tray, const struct there *there)
{
	const struct tray *t = &w->trays[tray];
	enum tray_state state = t->state;

	for (size_t i = there->reply->n; i-- > 0;) {
		struct redis_reply entry = redis_element(there->reply, i);

		if (there->taken[i])
			continue;
		if ((state != TRAY_FETCHING && state != TRAY_EMPTY) || t->n == BATCH_MAX)
			return false;
		tray_add(w, tray, entry.str, entry.len);
	}
	return true;
}

/* One DEL took or will take all of it. */
static void adopt_deleting(struct worker *w, int tray, const struct redis_reply *reply)
{
	struct tray *t = &w->trays[tray];

	if (reply->n > 0)
		t->sent = false;
	else
		move_deleted(w, tray);
}

void adopt_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms)
{
	struct there there = { .reply = reply };
	struct tray *t = &w->trays[tray];
	bool ours;

	if (!redis_is_strings(reply)) {
		session_drop(w, reply, now_ms);
		return;
	}
	if (t->state == TRAY_DELETING) {
		adopt_deleting(w, tray, reply);
	} else {
		there.taken = alloc_zero(reply->n, sizeof(*there.taken));
		match_certain(w, tray, &there);
		match_doubtful(w, tray, &there);
		ours = add_unknown(w, tray, &there);
		free(there.taken);
		if (!ours)
			unexpected(w, tray);
		if (t->state == TRAY_FETCHING || (t->state == TRAY_EMPTY && t->n > 0))
			tray_filled(w, tray);
		move_close_tray(w, tray);
	}
	if (tray == QUEUE_TRAYS - 1)
		session_adopted(w);
}
