/*
 * Messages longer than message_max. The worker learns the length of a message from the first line of the answer, and
 * closes the connection there: the payload does not cross the network. After the next opening Redis moves all such messages
 * out of that tray to escape, one by a script, so that each holds up Redis only for its own length. Only then the trays
 * are read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/worker.h"

#include "common/clock.h"

#define SEEN_MIN (16 << 20)	/* the record of a shorter one has its SHA1, for which Redis must read it */

static void describe_size(char *out, size_t size, const struct worker *w, int64_t len)
{
	snprintf(out, size, "%" PRId64 " bytes; message_max is %" PRId64, len, w->conf->message_max);
}

bool too_large_arriving(struct worker *w)
{
	const struct expected *e = &w->expected[w->expect_first % ANSWERS_MAX];
	const char *begin;
	size_t arrived;
	int64_t len = w->expect_first == w->expect_next ? -1 : redis_arriving(&w->redis, &begin, &arrived);
	bool wrapped;

	if (len <= w->conf->message_max || (e->answer != ANSWER_FETCH && e->answer != ANSWER_ADOPT))
		return false;
	if (arrived < MESSAGE_WRAPPER_BEGIN_LEN)
		return false;		/* they come next */
	wrapped = message_may_be_wrapped(begin, arrived);
	if (wrapped && len <= w->conf->message_max + MESSAGE_LINE_MAX)
		return false;		/* a wrapper of ours does not count */
	w->too_large_tray = e->tray;
	w->too_large_seen = len <= SEEN_MIN || wrapped ? 0 : len;
	batch_learn_size(w, (size_t)len);
	log_warning("message_too_large", log_str("queue", w->conf->name), log_str("worker", w->name), log_int("size", len),
	    log_int("message_max", w->conf->message_max));
	return true;
}

/* head: as queue_too_large() takes it. */
static void send_question(struct worker *w, const struct message *head, int64_t now_ms)
{
	bool aside = w->too_large_refusals >= MOVE_ATTEMPTS;
	char why[96];		/* behind the size, which only Redis knows */
	const struct record record = {
		.queue = w->conf->name,
		.queue_from = "ingress",
		.error_class = aside ? "escape" : "TooLarge",
		.error_message = why,
		.failed_at_ms = clock_realtime_ms(),
		.exit_code = -1,
		.duration_ms = -1,
		.node = w->child->conf->supervisor.node,
		.worker = w->incarnation,
		.handler = w->conf->handler[0],
	};

	snprintf(why, sizeof(why), aside ? "bytes: escape refused it; message_max is %" PRId64 : "bytes; message_max is %" PRId64,
	    w->conf->message_max);
	if (aside)
		w->too_large_seen = 0;
	if (w->too_large_seen > 0)
		queue_too_large_seen(&w->redis, &w->owner, w->too_large_tray, w->conf->message_max, w->too_large_seen,
		    w->conf->dead_letter.enabled ? &record : NULL);
	else
		queue_too_large(&w->redis, &w->owner, w->too_large_tray, w->conf->message_max, head,
		    aside || w->conf->dead_letter.enabled ? &record : NULL, aside);
	session_expect(w, ANSWER_TOO_LARGE, w->too_large_tray, 0, now_ms + REDIS_TIMEOUT_MS);
}

bool too_large_send(struct worker *w, int64_t now_ms)
{
	if (w->too_large_tray == -1)
		return false;
	send_question(w, NULL, now_ms);
	return true;
}

static void escaped(struct worker *w, int64_t len, bool record_failed)
{
	char why[96];

	w->owner.moved[w->too_large_tray]++;
	if (record_failed)
		move_record_failed(w);
	if (w->too_large_refusals >= MOVE_ATTEMPTS) {
		log_error("message_set_aside", log_str("queue", w->conf->name), log_str("worker", w->name), log_int("size", len),
		    log_str("at", "escape"), log_str("error", "escape refused a message longer than message_max"));
		return;
	}
	describe_size(why, sizeof(why), w, len);
	atomic_fetch_add(&w->slot->counters[COUNT_FETCHED], 1);
	atomic_fetch_add(&w->slot->counters[COUNT_ESCAPED], 1);
	atomic_fetch_add(&w->slot->counters[COUNT_TOO_LARGE], 1);
	atomic_fetch_add(&w->board->workers_done, 1);
	log_info("message_escaped", log_str("queue", w->conf->name), log_str("worker", w->name), log_str("class", "TooLarge"),
	    log_str("error", why));
}

bool too_large_answer(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	struct redis_reply len, first, record;
	struct message head;
	bool seen = w->too_large_seen > 0;

	w->too_large_seen = 0;
	if (reply->type != REDIS_ARRAY || reply->n != 3) {
		w->too_large_refusals += !redis_refuses_all(reply);
		session_drop(w, reply, now_ms);		/* again, after a while: the tray cannot be read before */
		return false;
	}
	len = redis_element(reply, 0);
	first = redis_element(reply, 1);
	record = redis_element(reply, 2);
	if (len.type != REDIS_INTEGER || first.type != REDIS_STRING || record.type != REDIS_INTEGER) {
		session_drop(w, reply, now_ms);
		return false;
	}
	if (len.integer == 0 && seen) {
		send_question(w, NULL, now_ms);
		return false;
	}
	if (len.integer == 0) {
		w->too_large_refusals = 0;
		w->too_large_tray = -1;
		return true;
	}
	if (first.len == 0) {
		escaped(w, len.integer, record.integer == 2);
		send_question(w, NULL, now_ms);		/* another one may lie there */
	} else {
		/* The secrets were read when this connection was opened: a line that they do not verify is payload. */
		message_parse(&head, &w->keys.lines, first.str, first.len);
		send_question(w, &head, now_ms);
	}
	return false;
}

/* One that came whole with the line that says its length, that only seems to have a wrapper, or was delayed since message_max was larger. */
bool too_large_escapes(struct worker *w, struct place p)
{
	int64_t len = (int64_t)(w->message.raw_len - w->message.wrapper_len);
	char why[96];

	if (len <= w->conf->message_max)
		return false;
	describe_size(why, sizeof(why), w, len);
	settle_escape(w, p, "TooLarge", why);
	move_close_tray(w, p.tray);
	return true;
}
