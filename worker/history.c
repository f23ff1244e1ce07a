/* What was done is remembered, if the queue wants it: in the write that acknowledges, never instead of it. */
#include "worker/worker.h"

#include "common/queue_history.h"

static void add(const struct worker *w, struct queue_history *h, const struct tray *t, const struct item *item)
{
	struct message m;

	message_parse(&m, tray_raw(t, item), item->len);
	queue_history_add(h, &m, item->done_ms, item->duration_ms, (size_t)w->conf->done.payload);
}

static void acknowledge(struct worker *w, int tray, const struct message *one, struct queue_history *h)
{
	queue_history_done(&w->redis, &w->owner, tray, one, h, w->conf->done.keep, w->child->conf->supervisor.node);
	queue_history_free(h);
}

void history_done(struct worker *w, int tray)
{
	const struct tray *t = &w->trays[tray];
	struct queue_history *h;

	if (w->conf->done.keep <= 0) {
		queue_done(&w->redis, &w->owner, tray);
		return;
	}
	h = queue_history_new((size_t)t->n);
	for (int i = 0; i < t->n; i++)
		if (t->items[i].state == ITEM_DONE)
			add(w, h, t, &t->items[i]);
	acknowledge(w, tray, NULL, h);
}

void history_done_one(struct worker *w, struct place p, const struct message *raw)
{
	struct queue_history *h;

	if (w->conf->done.keep <= 0) {
		queue_done_one(&w->redis, &w->owner, p.tray, raw);
		return;
	}
	h = queue_history_new(1);
	add(w, h, &w->trays[p.tray], tray_item(w, p));
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
