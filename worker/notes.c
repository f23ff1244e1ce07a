/*
 * A queue that other programs consume, too: what is remembered of a message lies beside it in Redis, not before it. It is
 * asked for when messages came, and counts as if they had brought it along; nothing of that tray is started, and nothing else
 * fetched, before the answer. Of other queues nothing is asked.
 *
 * The worker also holds a message, of any queue, that begins with a line in the form of a wrapper whose seal it cannot verify, until
 * it has read the secrets again. Redis has a secret before it has anything sealed with that secret (common/queue_secret.c),
 * so a line that still cannot be verified then was written by a producer.
 */
#include <stdlib.h>

#include <bsd/stdlib.h>

#include "worker/worker.h"

#include "common/alloc.h"
#include "common/backoff.h"
#include "common/queue_admin.h"

#define ERROR_BASE_MS 100
#define ERROR_CAP_MS 10000

void notes_parse(struct worker *w, struct place p, struct message *m)
{
	struct item *item = tray_item(w, p);

	message_parse(m, &w->keys.lines, tray_raw(&w->trays[p.tray], item), item->len);
	m->sha1_memo = item->sha1;
	if (item->note != NULL)
		m->wrapper = *item->note;
	m->wrapper.redelivered += item->again;
}

/* ---- asking ---- */

static void ask_secret(struct worker *w, int tray, int64_t now_ms)
{
	queue_secret(&w->redis, true);
	session_expect(w, ANSWER_SECRET, tray, 0, now_ms + REDIS_TIMEOUT_MS);
	w->trays[tray].notes = NOTES_ASKED;
}

static void ask(struct worker *w, int tray, int64_t now_ms)
{
	struct tray *t = &w->trays[tray];
	struct queue_bytes *raw = alloc_zero((size_t)t->n, sizeof(*raw));

	for (int i = 0; i < t->n; i++)
		raw[i] = (struct queue_bytes){ tray_raw(t, &t->items[i]), t->items[i].len };
	queue_notes(&w->redis, &w->keys, raw, (size_t)t->n);
	session_expect(w, ANSWER_NOTES, tray, 0, now_ms + REDIS_TIMEOUT_MS);
	t->notes = NOTES_ASKED;
	free(raw);
}

void notes_tick(struct worker *w, int64_t now_ms)
{
	if (!w->registered || w->redis.state != REDIS_READY || now_ms < w->notes_at_ms)
		return;
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].notes == NOTES_WANTED && w->trays[i].doubtful)
			ask_secret(w, i, now_ms);
		else if (w->trays[i].notes == NOTES_WANTED)
			ask(w, i, now_ms);
}

/* The answers will not come. */
void notes_lost(struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].notes == NOTES_ASKED)
			w->trays[i].notes = NOTES_WANTED;
}

bool notes_wanted(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].notes != NOTES_KNOWN)
			return true;
	return false;
}

int64_t notes_deadline_ms(const struct worker *w, int64_t now_ms)
{
	return w->registered && notes_wanted(w) && w->notes_at_ms > now_ms ? w->notes_at_ms : INT64_MAX;
}

/* ---- answers ---- */

static void take(struct tray *t, struct item *item, const struct wrapper *note)
{
	free(item->note);
	item->note = alloc_zero(1, sizeof(*item->note));
	*item->note = *note;
	if (item->solo || !message_is_suspect(note))
		return;
	item->solo = true;
	t->solos++;
}

static void refused(struct worker *w, struct tray *t, const struct redis_reply *reply, int64_t now_ms)
{
	session_trouble(w, "notes", reply);
	w->notes_errors++;
	w->notes_at_ms = now_ms + backoff_ms(ERROR_BASE_MS, 2, ERROR_CAP_MS, 0.5, w->notes_errors, arc4random());
	t->notes = NOTES_WANTED;
}

static void succeeded(struct worker *w)
{
	if (w->notes_errors > 0 && w->move_errors == 0)
		session_fair(w);
	w->notes_errors = 0;
}

void notes_secret_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms)
{
	struct tray *t = &w->trays[tray];

	if (t->notes != NOTES_ASKED)
		return;			/* all of it was handed back meanwhile */
	if (queue_secret_learn(reply) == -1) {
		refused(w, t, reply, now_ms);
		return;
	}
	succeeded(w);
	tray_secrets_learnt(w, tray);
	t->notes = w->keys.shared ? NOTES_WANTED : NOTES_KNOWN;
}

/* What does not wait any more was started before the connection was lost: it goes on as it began. */
void notes_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms)
{
	struct tray *t = &w->trays[tray];

	if (t->notes != NOTES_ASKED)
		return;			/* all of it was handed back meanwhile */
	if (reply->type != REDIS_ARRAY || reply->n != (size_t)t->n) {
		refused(w, t, reply, now_ms);
		return;
	}
	t->notes = NOTES_KNOWN;
	succeeded(w);
	for (int i = 0; i < t->n; i++) {
		struct wrapper note;

		if (t->items[i].state == ITEM_WAITING && queue_note_read(reply, (size_t)i, &note))
			take(t, &t->items[i], &note);
	}
}
