/*
 * Acknowledges the messages of a tray that are done. If the queue keeps a history, the write that acknowledges also
 * adds the entries, and in a shared queue it deletes the notes of these messages. One script does all of that, so
 * history and acknowledgement cannot disagree. The same script acknowledges a tray from which messages were moved
 * (retry, escape, hand-back). It deletes the tray only if the lease has counted as many moves as the worker has. If the
 * counts differ, Redis has returned to an earlier state, and a message that was moved may lie in the tray again.
 */
#include "worker/worker.h"

#include "common/queue/queue.h"

static void add_done(struct worker *w, struct queue_history *h, struct place p)
{
	const struct item *item = tray_item(&w->trays, p);
	struct message *m = tray_message(&w->trays, p);

	if (w->env->conf->done.keep > 0)
		queue_history_add(h, m, item->done_ms, item->duration_ms, (size_t)w->env->conf->done.payload);
	if (item->note != NULL)
		queue_history_forget(h, m);
}

static void send_acknowledgement(struct worker *w, int tray, const struct queue_entry *one, struct queue_history *h)
{
	queue_history_done(&w->session.redis, &w->session.owner, tray, one, h, w->env->conf->done.keep,
	    w->env->child->conf->supervisor.node);
	queue_history_free(h);
}

static bool has_note(const struct worker *w, const struct tray *t)
{
	for (int i = 0; w->env->keys.shared && i < t->n; i++)
		if (t->items[i].note != NULL)
			return true;
	return false;
}

/* Returns the only message that is left in a tray, if it is small enough to be removed by its value; else NULL. */
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

/*
 * Deletes exactly the messages that are done. Without history, notes and earlier moves a plain DEL or LREM does that,
 * and the script is not needed.
 */
void history_done(struct worker *w, int tray)
{
	const struct tray *t = &w->trays.tray[tray];
	bool remembered = w->env->conf->done.keep > 0 || has_note(w, t);
	const struct item *single;
	struct queue_history *h;

	if (!remembered && w->session.owner.moved[tray] == 0) {
		queue_done(&w->session.redis, &w->session.owner, tray);
		return;
	}
	if (!remembered && (single = single_small(t)) != NULL) {
		queue_done_one(&w->session.redis, &w->session.owner, tray,
		    &(struct queue_entry){ .raw = tray_raw(t, single), .len = single->len, .at = QUEUE_ANYWHERE });
		return;
	}
	h = queue_history_new(remembered ? (size_t)t->n : 0);
	for (int i = 0; i < t->n && remembered; i++)
		if (t->items[i].state == ITEM_DONE)
			add_done(w, h, (struct place){ tray, i });
	send_acknowledgement(w, tray, NULL, h);
}

void history_done_one(struct worker *w, struct place p, const struct queue_entry *entry)
{
	struct queue_history *h;

	/*
	 * Only the script finds a large message by its place, and looks at the lease: in a refilled tray an equal
	 * message may lie, which is not done.
	 */
	if (w->env->conf->done.keep <= 0 && tray_item(&w->trays, p)->note == NULL && entry->at == QUEUE_ANYWHERE &&
	    !w->trays.tray[p.tray].refilled) {
		queue_done_one(&w->session.redis, &w->session.owner, p.tray, entry);
		return;
	}
	h = queue_history_new(1);
	add_done(w, h, p);
	send_acknowledgement(w, p.tray, entry, h);
}

void history_emitted(struct worker *w, struct place p, const struct queue_entry *entry, const struct queue_emitted *e)
{
	struct queue_history *h = queue_history_new(1);

	add_done(w, h, p);
	queue_history_emit(&w->session.redis, &w->session.owner, p.tray, entry, e, h, w->env->conf->done.keep,
	    w->env->child->conf->supervisor.node);
	queue_history_free(h);
}

void history_answer(struct worker *w, const struct redis_reply *reply)
{
	bool failed = reply->integer == 2;

	if (w->env->conf->done.keep <= 0 || reply->integer <= 0)
		return;
	if (failed && !w->history.failed)
		log_warning("history_failed",
		    log_str("error", "what is done could not be added to the history: check the type of its key"));
	w->history.failed = failed;
}
