/*
 * A page of a dead owner's messages: each goes back to where it was fetched from, or escapes. Which owner, and what comes
 * before and after, is rescue.c's.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/rescue_page.h"

#include "common/clock.h"
#include "common/queue_admin.h"
#include "common/queue_notes.h"
#include "common/queue_watch.h"
#include "sweeper/sweeper.h"

#define LOGGED_MAX 100		/* of one owner; the rest only at level debug */
#define RECOVERY_ATTEMPTS INT_MAX	/* of a queue that is not configured here: those who serve it know when it is enough */
#define PAYLOAD_MAX 65536

static void append_escape(const struct rescue_page *p, struct message *m, const struct wrapper *w)
{
	const struct conf_queue *conf = p->q->conf;
	struct queue_note note;
	char why[96];
	const struct record record = {
		.queue = p->q->keys.name,
		.queue_from = "transit",
		.error_class = "WorkerLost",
		.error_message = why,
		.failed_at_ms = clock_realtime_ms(),
		.first_failed_ms = w->first_failed_ms,
		.attempts = w->attempts,
		.crashes = w->crashes,
		.exit_code = -1,
		.duration_ms = -1,
		.node = p->owner == NULL ? p->s->conf->supervisor.node : p->r->who.node,
		.worker = p->owner,
		.handler = conf == NULL ? NULL : conf->handler[0],
		.payload_max = conf == NULL ? PAYLOAD_MAX : (size_t)conf->dead_letter.payload_max,
	};

	snprintf(why, sizeof(why), "its worker died %d times while the message was in work", w->crashes);
	if (p->q->keys.shared)
		queue_note_of(&note, m, NULL);
	queue_escape(&p->s->redis, &p->q->keys, p->lease, 1, p->rescue, 1, m, p->q->keys.shared ? &note : NULL,
	    conf == NULL || conf->dead_letter.enabled ? &record : NULL);
}

/* What it says of itself, or what lies beside it. */
static void parse(const struct rescue_page *p, size_t i, const struct redis_reply *raw, struct message *m)
{
	message_parse(m, raw->str, raw->len);
	if (p->noted[i])
		m->wrapper = p->notes[i];
}

static void append_return(const struct rescue_page *p, const struct message *m, const struct wrapper *w)
{
	struct buffer instead = {0};
	struct queue_note note;
	const struct queue_note *noted = queue_remember(&p->q->keys, m, w, &instead, &note);

	queue_return(&p->s->redis, &p->q->keys, p->owner, p->rescue, m, &instead, noted);
	buffer_free(&instead);
}

static void append_message(struct rescue_page *p, const struct redis_reply *raw)
{
	int attempts = p->q->conf == NULL ? RECOVERY_ATTEMPTS : p->q->conf->recovery_attempts;
	struct sent *sent = &p->sent[p->n];
	struct wrapper wrapper;
	struct message m;

	parse(p, p->n++, raw, &m);
	wrapper = m.wrapper;
	sent->escapes = rescue_judge(&wrapper, p->r->charge, p->tray, attempts);
	sent->crashes = wrapper.crashes;
	strlcpy(sent->id, message_id(&m), sizeof(sent->id));
	if (sent->escapes)
		append_escape(p, &m, &wrapper);
	else
		append_return(p, &m, &wrapper);
}

static void log_message(const struct rescue_page *p, const struct sent *sent, bool record_failed)
{
	uint64_t before = p->r->returned + p->r->escaped;
	enum log_level level = before <= LOGGED_MAX ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG;

	if (sent->escapes)
		log_event(LOG_LEVEL_WARNING, "message_escaped", log_str("queue", p->q->keys.name), log_str("id", sent->id),
		    log_str("class", "WorkerLost"), log_str("incarnation", p->owner), log_int("crashes", sent->crashes));
	else
		log_event(level, "message_rescued", log_str("queue", p->q->keys.name), log_str("id", sent->id),
		    log_str("incarnation", p->owner), log_int("crashes", sent->crashes));
	if (record_failed)
		log_warning("record_failed", log_str("queue", p->q->keys.name), log_str("id", sent->id),
		    log_str("error", "the stream of records could not be written: check the type of its key"));
}

static void account(struct rescue_page *p, const struct sent *sent, int64_t answer)
{
	if (answer == 0)
		return;		/* another sweeper was there before us */
	*(sent->escapes ? &p->r->escaped : &p->r->returned) += 1;
	swept_count(p->q, sent->escapes ? COUNT_ESCAPED : COUNT_RESCUED, 1);
	if (sent->escapes)
		swept_count(p->q, COUNT_WORKER_LOST, 1);
	log_message(p, sent, answer == 2);
}

/* All answers are taken: what comes after an error may still have worked. */
static int take_answers(struct rescue_page *p)
{
	int rc = 0;

	for (size_t i = 0; i < p->n && p->s->redis.state != REDIS_CLOSED; i++) {
		int64_t answer;

		if (connection_integer(p->s, &answer) == -1)
			rc = -1;
		else
			account(p, &p->sent[i], answer);
	}
	return rc;
}

static int read_tray_size(struct sweeper *s, int64_t *out)
{
	struct redis_reply reply;

	if (connection_answer(s, &reply) == -1)
		return -1;
	*out = reply.type == REDIS_STRING ? strtoll(reply.str, NULL, 10) : -1;
	return 0;
}

/* Into p->notes. The list has to be kept meanwhile. */
static int read_notes(struct rescue_page *p, const struct redis_reply *list)
{
	size_t n = list->n < RESCUE_PAGE_MAX ? list->n : RESCUE_PAGE_MAX;
	struct queue_bytes raw[RESCUE_PAGE_MAX] = {0};
	struct redis_reply answer;

	for (size_t i = 0; i < n; i++) {
		struct redis_reply entry = redis_element(list, i);

		raw[i] = (struct queue_bytes){ entry.str, entry.len };
	}
	queue_notes(&p->s->redis, &p->q->keys, raw, n);
	if (connection_answer(p->s, &answer) == -1)
		return -1;
	for (size_t i = 0; i < n; i++)
		p->noted[i] = queue_note_read(&answer, i, &p->notes[i]);
	return 0;
}

/* The moves of all that is in the list. Returns how many bytes it is. */
static size_t append_page(struct rescue_page *p, const struct redis_reply *list)
{
	size_t bytes = 0;

	for (size_t i = 0; i < list->n && i < RESCUE_PAGE_MAX; i++) {
		struct redis_reply entry = redis_element(list, i);

		bytes += entry.len;
		append_message(p, &entry);
	}
	return bytes;
}

static int return_list(struct rescue_page *p, const struct redis_reply *list)
{
	void *kept = p->q->keys.shared ? redis_keep(&p->s->redis) : NULL;
	int rc = p->q->keys.shared ? read_notes(p, list) : 0;

	if (rc == 0)
		p->r->page = rescue_page(list->n, append_page(p, list));
	if (kept != NULL)
		redis_let_go(kept);
	return rc == -1 ? -1 : take_answers(p);
}

int rescue_page_return(struct rescue_page *p)
{
	struct sweeper *s = p->s;
	struct redis_reply list;

	queue_rescue_size(&s->redis, &p->q->keys, p->owner);
	queue_list(&s->redis, p->rescue, 0, p->r->page - 1);
	if (read_tray_size(s, &p->tray) == -1 || connection_answer(s, &list) == -1)
		return -1;
	if (!redis_is_strings(&list)) {
		trouble_say(s, TROUBLE_OTHER, "an answer of a kind that was not expected");
		return -1;
	}
	if (list.n == 0)
		return 0;
	return return_list(p, &list) == -1 ? -1 : 1;
}
