/*
 * What was done is remembered, if the queue wants it, and what was remembered until then beside a message of a shared queue
 * is forgotten: in the write that acknowledges, never instead of it. The same script acknowledges a tray from which a message was moved
 * (retry, escape, hand-back): it deletes the tray only if the lease has counted the same moves, since otherwise Redis has returned to an
 * earlier state, and the message may lie in the tray again.
 */
#include "worker/worker.h"

#include "common/queue_history.h"

static void add(struct worker *w, struct queue_history *h, struct place p)
{
	const struct item *item = tray_item(w, p);
	struct message m;

	notes_parse(w, p, &m);
	if (w->conf->done.keep > 0)
		queue_history_add(h, &m, item->done_ms, item->duration_ms, (size_t)w->conf->done.payload);
	if (item->note != NULL)
		queue_history_forget(h, &m);
}

static void acknowledge(struct worker *w, int tray, const struct queue_entry *one, struct queue_history *h)
{
	queue_history_done(&w->redis, &w->owner, tray, one, h, w->conf->done.keep, w->child->conf->supervisor.node);
	queue_history_free(h);
}

static bool has_note(const struct worker *w, const struct tray *t)
{
	for (int i = 0; w->keys.shared && i < t->n; i++)
		if (t->items[i].note != NULL)
			return true;
	return false;
}

/* The only message that is left in a tray, if it is small enough to be removed by its value; else NULL. */
static const struct item *single_small(const struct tray *t)
{
	const struct item *found = NULL;

	for (const struct item *item = t->items; item < t->items + t->n; item++) {
		if (item->state != ITEM_DONE)
			continue;
		if (found != NULL || item->len > QUEUE_BY_VALUE_MAX)
			return NULL;
		found = item;
	}
	return found;
}

/* Each message that was done, and no other, is deleted. What only needs DEL or LREM is spared the script. */
void history_done(struct worker *w, int tray)
{
	const struct tray *t = &w->trays[tray];
	bool remembered = w->conf->done.keep > 0 || has_note(w, t);
	const struct item *single;
	struct queue_history *h;

	if (!remembered && w->owner.moved[tray] == 0) {
		queue_done(&w->redis, &w->owner, tray);
		return;
	}
	if (!remembered && (single = single_small(t)) != NULL) {
		queue_done_one(&w->redis, &w->owner, tray,
		    &(struct queue_entry){ .raw = tray_raw(t, single), .len = single->len, .at = QUEUE_ANYWHERE });
		return;
	}
	h = queue_history_new(remembered ? (size_t)t->n : 0);
	for (int i = 0; i < t->n && remembered; i++)
		if (t->items[i].state == ITEM_DONE)
			add(w, h, (struct place){ tray, i });
	acknowledge(w, tray, NULL, h);
}

void history_done_one(struct worker *w, struct place p, const struct queue_entry *entry)
{
	struct queue_history *h;

	/* Only the script can name a large message by its place. */
	if (w->conf->done.keep <= 0 && tray_item(w, p)->note == NULL && entry->at == QUEUE_ANYWHERE) {
		queue_done_one(&w->redis, &w->owner, p.tray, entry);
		return;
	}
	h = queue_history_new(1);
	add(w, h, p);
	acknowledge(w, p.tray, entry, h);
}

void history_answer(struct worker *w, const struct redis_reply *reply)
{
	bool failed = reply->integer == 2;

	if (w->conf->done.keep <= 0 || reply->integer <= 0)
		return;
	if (failed && !w->history_failed)
		log_warning("history_failed", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("error", "what is done could not be added to the history: check the type of its key"));
	w->history_failed = failed;
}
