/*
 * Reads the notes of messages in a shared queue. Other programs also consume such a queue, so quredis stores what it
 * remembers of a message beside it in Redis, not in a wrapper before it. The worker asks for the notes of a tray when
 * its messages have arrived, and treats each note as if the message had carried it. Until Redis answers, the worker
 * starts no message of that tray and fetches no other. In a queue that is not shared it asks nothing.
 *
 * The worker also holds each message, of any queue, that begins with a line in the form of a wrapper whose seal it
 * cannot verify, until it has read the secrets again. Redis has a secret before it has anything sealed with that secret
 * (common/queue/secret.c). A message with a line that still cannot be verified then does not run: it escapes
 * (settle_unreadable()).
 */
#include <stdlib.h>

#include <bsd/stdlib.h>

#include "worker/worker.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

static const struct retry_backoff backoff = { .base_ms = 100, .cap_ms = 10000, .jitter = 0.5 };

/* ---- requests ---- */

static void ask_secret(struct worker *w, int tray, int64_t now_ms)
{
	queue_secret(&w->session.redis, true);
	session_expect(w, ANSWER_SECRET, tray, 0, now_ms + REDIS_TIMEOUT_MS);
	tray_set_notes(&w->trays, tray, NOTES_ASKED);
}

static void ask_notes(struct worker *w, int tray, int64_t now_ms)
{
	int n = w->trays.tray[tray].n;
	struct queue_note *notes = alloc_zero((size_t)n, sizeof(*notes));
	const char **sha1s = alloc_zero((size_t)n, sizeof(*sha1s));

	for (int i = 0; i < n; i++) {
		queue_note_of(&notes[i], tray_message(&w->trays, (struct place){ tray, i }), NULL);
		sha1s[i] = notes[i].field;
	}
	queue_notes_by_sha1(&w->session.redis, &w->env->keys, sha1s, (size_t)n);
	session_expect(w, ANSWER_NOTES, tray, 0, now_ms + REDIS_TIMEOUT_MS);
	tray_set_notes(&w->trays, tray, NOTES_ASKED);
	free(sha1s);
	free(notes);
}

void notes_tick(struct worker *w, int64_t now_ms)
{
	if (!w->session.registered || w->session.redis.state != REDIS_READY || now_ms < w->notes.retry.at_ms)
		return;
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays.tray[i].notes == NOTES_WANTED && w->trays.tray[i].doubtful)
			ask_secret(w, i, now_ms);
		else if (w->trays.tray[i].notes == NOTES_WANTED)
			ask_notes(w, i, now_ms);
}

/* The connection is lost: requests without an answer are sent again on the next one. */
void notes_lost(struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays.tray[i].notes == NOTES_ASKED)
			tray_set_notes(&w->trays, i, NOTES_WANTED);
}

bool notes_wanted(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays.tray[i].notes != NOTES_KNOWN)
			return true;
	return false;
}

int64_t notes_deadline_ms(const struct worker *w, int64_t now_ms)
{
	return w->session.registered && notes_wanted(w) && w->notes.retry.at_ms > now_ms ? w->notes.retry.at_ms
	    : INT64_MAX;
}

/* ---- answers ---- */

static void note_refusal(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms)
{
	errors_report(w, "notes", reply);
	retry_failed(&w->notes.retry, &backoff, now_ms);
	tray_set_notes(&w->trays, tray, NOTES_WANTED);
}

static void succeeded(struct worker *w)
{
	if (w->notes.retry.errors > 0 && w->mover.retry.errors == 0)
		errors_clear(w);
	retry_succeeded(&w->notes.retry);
}

void notes_secret_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	int tray = of.tray;
	struct tray *t = &w->trays.tray[tray];

	if (t->notes != NOTES_ASKED)
		return;			/* all messages of the tray were handed back meanwhile */
	if (queue_secret_learn(reply) == -1) {
		note_refusal(w, tray, reply, now_ms);
		return;
	}
	succeeded(w);
	tray_secrets_learnt(&w->trays, tray);
	tray_set_notes(&w->trays, tray, w->env->keys.shared ? NOTES_WANTED : NOTES_KNOWN);
}

/*
 * Only waiting messages get their note. A message in another state was started before the connection was lost, with the
 * note that it had then.
 */
void notes_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	int tray = of.tray;
	struct tray *t = &w->trays.tray[tray];

	if (t->notes != NOTES_ASKED)
		return;			/* all messages of the tray were handed back meanwhile */
	if (reply->type != REDIS_ARRAY || reply->n != (size_t)t->n) {
		note_refusal(w, tray, reply, now_ms);
		return;
	}
	tray_set_notes(&w->trays, tray, NOTES_KNOWN);
	succeeded(w);
	for (int i = 0; i < t->n; i++) {
		struct wrapper note;

		if (t->items[i].state == ITEM_WAITING && queue_note_read(reply, (size_t)i, &note))
			tray_add_note(&w->trays, (struct place){ tray, i }, &note);
	}
}
