/*
 * A dead owner's messages go back to where they were fetched from, or escape if their worker died of
 * them too often. Every step is one that anybody may repeat or continue. Who is dead is not decided here.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/sweeper.h"

#include "common/alloc.h"
#include "common/clock.h"
#include "common/queue_watch.h"

#define PAGE_FIRST 8
#define PAGE_MAX 100
#define PAGE_BYTES (1u << 20)	/* about so much of a rescue list is in memory at a time */
#define LOGGED_MAX 100		/* of one owner; the rest only at level debug */
#define RECOVERY_ATTEMPTS INT_MAX	/* of a queue that is not configured here: those who serve it know when it is enough */
#define PAYLOAD_MAX 65536

int rescue_page(size_t n, size_t bytes)
{
	size_t fit = PAGE_BYTES / (bytes / (n == 0 ? 1 : n) + 1);

	return fit < 1 ? 1 : fit > PAGE_MAX ? PAGE_MAX : (int)fit;
}

bool rescue_judge(struct wrapper *w, bool charge, int64_t tray, int recovery_attempts)
{
	if (w->own_ms == 0)
		w->own_ms = w->mark_ms;
	w->mark_ms = 0;
	w->redelivered++;
	if (charge && tray == 1)
		w->crashes++;
	else if (tray != 1)
		w->solo = true;		/* the next time it will be known whether it was this one */
	return charge && tray == 1 && w->crashes > recovery_attempts;
}

/* ---- the list of owners ---- */

static struct rescue *find(struct swept *q, const char *incarnation)
{
	struct rescue *r;

	TAILQ_FOREACH(r, &q->rescues, entry)
		if (strcmp(r->incarnation, incarnation) == 0)
			return r;
	return NULL;
}

static void insert(struct swept *q, struct rescue *r)
{
	if (strcmp(r->why, "reported") == 0)
		TAILQ_INSERT_HEAD(&q->rescues, r, entry);
	else
		TAILQ_INSERT_TAIL(&q->rescues, r, entry);
}

struct rescue *rescue_add(struct swept *q, const char *incarnation, const char *why, bool charge, bool gate)
{
	const char *name = incarnation == NULL ? "" : incarnation;
	struct rescue *r = find(q, name);

	if (r == NULL) {
		r = alloc_zero(1, sizeof(*r));
		strlcpy(r->incarnation, name, sizeof(r->incarnation));
		incarnation_parse(&r->who, name);
		r->why = why;
		r->charge = charge;
		r->fence = true;
		r->page = PAGE_FIRST;
		insert(q, r);
	} else if (strcmp(why, "reported") == 0) {
		r->why = why;
		TAILQ_REMOVE(&q->rescues, r, entry);
		insert(q, r);
	}
	r->gate = r->gate || gate;
	return r;
}

static void drop(struct swept *q, struct rescue *r)
{
	TAILQ_REMOVE(&q->rescues, r, entry);
	free(r);
}

void rescue_free_all(struct swept *q)
{
	while (!TAILQ_EMPTY(&q->rescues))
		drop(q, TAILQ_FIRST(&q->rescues));
}

/* ---- a page of the rescue list ---- */

/* What is under way while a page is returned. */
struct page {
	struct sweeper *s;
	struct swept *q;
	struct rescue *r;
	const char *owner;	/* NULL: the bare list */
	char *rescue, *lease;	/* keys */
	int64_t tray;		/* how many lay in the tray; -1: not known */
	size_t n;
	struct sent {
		char id[MESSAGE_ID_MAX + 1];
		int crashes;
		bool escapes;
	} sent[PAGE_MAX];
};

static void append_escape(const struct page *p, struct message *m, const struct wrapper *w)
{
	const struct conf_queue *conf = p->q->conf;
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
	queue_escape(&p->s->redis, &p->q->keys, p->lease, 1, p->rescue, 1, m,
	    conf == NULL || conf->dead_letter.enabled ? &record : NULL);
}

static void append_message(struct page *p, const struct redis_reply *raw)
{
	int attempts = p->q->conf == NULL ? RECOVERY_ATTEMPTS : p->q->conf->recovery_attempts;
	struct sent *sent = &p->sent[p->n++];
	struct buffer instead = {0};
	struct wrapper wrapper;
	struct message m;

	message_parse(&m, raw->str, raw->len);
	wrapper = m.wrapper;
	sent->escapes = rescue_judge(&wrapper, p->r->charge, p->tray, attempts);
	sent->crashes = wrapper.crashes;
	strlcpy(sent->id, message_id(&m), sizeof(sent->id));
	if (sent->escapes) {
		append_escape(p, &m, &wrapper);
	} else {
		message_wrap(&instead, &m, &wrapper);
		queue_return(&p->s->redis, &p->q->keys, p->owner, p->rescue, &m, &instead);
	}
	buffer_free(&instead);
}

static void log_message(const struct page *p, const struct sent *sent, bool record_failed)
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

static void account(struct page *p, const struct sent *sent, int64_t answer)
{
	if (answer == 0)
		return;		/* another sweeper was there before us */
	*(sent->escapes ? &p->r->escaped : &p->r->returned) += 1;
	swept_count(p->q, sent->escapes ? COUNT_ESCAPED : COUNT_RESCUED, 1);
	log_message(p, sent, answer == 2);
}

/* All answers are taken: what comes after an error may still have worked. */
static int take_answers(struct page *p)
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

/* 1: there was something, and it is returned; 0: the list is empty; -1: error. */
static int return_page(struct page *p)
{
	struct sweeper *s = p->s;
	struct redis_reply list;
	size_t bytes = 0;

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
	for (size_t i = 0; i < list.n && i < PAGE_MAX; i++) {
		struct redis_reply entry = redis_element(&list, i);

		bytes += entry.len;
		append_message(p, &entry);
	}
	p->r->page = rescue_page(list.n, bytes);
	return take_answers(p) == -1 ? -1 : 1;
}

/* ---- the trays ---- */

/* 1: something was fenced, or lay in rescue; 0: all are empty; -1: error. */
static int fence(struct page *p)
{
	struct sweeper *s = p->s;
	int found = 0, n = p->owner == NULL ? 1 : QUEUE_TRAYS;

	for (int tray = 0; tray < n; tray++) {
		char *source = p->owner == NULL ? alloc_string(p->q->keys.transit)
						: queue_tray_key(&p->q->keys, p->owner, tray);

		queue_fence(&s->redis, &p->q->keys, p->owner, source, p->rescue);
		free(source);
	}
	for (int tray = 0; tray < n; tray++) {
		int64_t answer;

		if (connection_integer(s, &answer) == -1)
			return -1;
		if (answer != 0)
			found = 1;
	}
	return found;
}

static void bare_is_fenced(struct page *p)
{
	p->r->fence = false;
	if (p->q->board != NULL && atomic_load(&p->q->board->recovered) == RECOVERED_NOTHING)
		atomic_store(&p->q->board->recovered, RECOVERED_BARE);
}

/* An owner nobody can read, or who is not in the hash, cannot be marked: it is forgotten instead. */
static int mark_dead(struct page *p)
{
	struct redis *redis = &p->s->redis;
	int64_t answer;

	queue_rescue_over(redis, &p->q->keys, p->owner);
	if (p->owner != NULL)
		queue_mark_dead(redis, &p->q->keys, p->owner);
	if (connection_integer(p->s, &answer) == -1 || (p->owner != NULL && connection_integer(p->s, &answer) == -1))
		return -1;
	if (p->owner == NULL || answer == 1)
		return 0;
	queue_forget(redis, &p->q->keys, p->owner);
	return connection_integer(p->s, &answer);
}

/* That nothing lay in the bare list is no news. */
static void log_done(const struct page *p)
{
	bool news = p->owner != NULL || p->r->returned + p->r->escaped > 0;

	log_event(news ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "rescue_done", log_str("queue", p->q->keys.name), log_str("incarnation", p->owner), log_str("reason", p->r->why),
	    log_int("returned", (int64_t)p->r->returned), log_int("escaped", (int64_t)p->r->escaped));
}

/* One bounded step. 1: all of this owner is returned; 0: there is more; -1: error. */
static int step(struct page *p)
{
	int rc = return_page(p);

	if (rc == 0 && p->r->fence) {
		rc = fence(p);
		if (rc != -1 && p->owner == NULL)
			bare_is_fenced(p);
	}
	if (rc != 0)
		return rc == -1 ? -1 : 0;
	if (mark_dead(p) == -1)
		return -1;
	log_done(p);
	return 1;
}

static int step_of(struct sweeper *s, struct swept *q, struct rescue *r)
{
	struct page *p = alloc_zero(1, sizeof(*p));
	int rc;

	p->s = s;
	p->q = q;
	p->r = r;
	p->owner = r->incarnation[0] == '\0' ? NULL : r->incarnation;
	p->rescue = p->owner == NULL ? queue_bare_rescue_key(&q->keys) : queue_tray_key(&q->keys, p->owner, QUEUE_RESCUE);
	p->lease = queue_lease_key(&q->keys, p->owner == NULL ? "none" : p->owner);
	rc = step(p);
	connection_drain(s);
	free(p->rescue);
	free(p->lease);
	free(p);
	return rc;
}

/* ---- the task ---- */

static void over(struct swept *q, struct rescue *r)
{
	if (r->gate) {
		q->rescued += r->returned;
		q->escaped += r->escaped;
	}
	drop(q, r);
}

static struct rescue *next_ready(struct swept *q, int64_t now_ms)
{
	struct rescue *r;

	TAILQ_FOREACH(r, &q->rescues, entry)
		if (!trouble_waits(&r->trouble, now_ms))
			return r;
	return NULL;
}

/* True: an owner is done with. Somebody may wait to hear that. */
static bool rescue_queue(struct sweeper *s, struct swept *q, int budget, int64_t now_ms)
{
	struct rescue *r;
	bool done = false;

	while (budget-- > 0 && sweeper_goes_on(s) && (r = next_ready(q, now_ms)) != NULL) {
		int rc = step_of(s, q, r);

		if (rc == -1) {
			trouble_note(s, q, &r->trouble, "rescue", now_ms);
			continue;
		}
		trouble_over(s, q, &r->trouble);
		if (rc == 1)
			over(q, r);
		done = done || rc == 1;
	}
	return done;
}

bool rescue_task(struct sweeper *s, int budget, int64_t now_ms)
{
	bool more = false;
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry) {
		if (TAILQ_EMPTY(&q->rescues))
			continue;
		more = rescue_queue(s, q, budget, now_ms) || more || next_ready(q, now_ms) != NULL;
	}
	return more;
}
