/*
 * What was done is remembered, if the queue wants it, and what was remembered until then beside a message of a shared queue
 * is forgotten: in the write that acknowledges, never instead of it.
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

static void acknowledge(struct worker *w, int tray, const struct message *one, struct queue_history *h)
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

void history_done(struct worker *w, int tray)
{
	const struct tray *t = &w->trays[tray];
	struct queue_history *h;

	if (w->conf->done.keep <= 0 && !has_note(w, t)) {
		queue_done(&w->redis, &w->owner, tray);
		return;
	}
	h = queue_history_new((size_t)t->n);
	for (int i = 0; i < t->n; i++)
		if (t->items[i].state == ITEM_DONE)
			add(w, h, (struct place){ tray, i });
	acknowledge(w, tray, NULL, h);
}

void history_done_one(struct worker *w, struct place p, const struct message *raw)
{
	struct queue_history *h;

	if (w->conf->done.keep <= 0 && tray_item(w, p)->note == NULL) {
		queue_done_one(&w->redis, &w->owner, p.tray, raw);
		return;
	}
	h = queue_history_new(1);
	add(w, h, p);
	acknowledge(w, p.tray, raw, h);
}

void history_answer(struct worker *w, const struct redis_reply *reply)
{
	bool failed = reply->integer == 2;

	if (w->conf->done.keep <= 0 || reply->integer == 0)
		return;
	if (failed && !w->history_failed)
		log_warning("history_failed", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("error", "what is done could not be added to the history: check the type of its key"));
	w->history_failed = failed;
}
