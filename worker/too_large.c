/*
 * Moves messages that are longer than message_max to escape, without receiving them. The worker reads the length of a
 * message in the first line of the reply, and closes the connection there, so the payload does not cross the network.
 * On the next connection Redis moves all such messages out of that tray to escape. One script call moves one message,
 * so that each blocks Redis only as long as its own length requires. The worker reads its trays after that. If Redis
 * keeps refusing to move a message to escape, the message is set aside instead.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/worker.h"

#include "common/base/base.h"

#define SEEN_MIN (16 << 20)	/* the record of a shorter one has its SHA1, for which Redis must read it */

void too_large_init(struct worker *w)
{
	w->too_large.tray = -1;
}

static void describe_size(char *out, size_t size, const struct worker *w, int64_t len)
{
	snprintf(out, size, "%" PRId64 " bytes; message_max is %" PRId64, len, w->env->conf->message_max);
}

bool too_large_arriving(struct worker *w)
{
	const struct expected *e = &w->session.answers.ring[w->session.answers.first % ANSWERS_MAX];
	const char *begin;
	size_t arrived;
	int64_t len = w->session.answers.first == w->session.answers.next ? -1
	    : redis_arriving(&w->session.redis, &begin, &arrived);
	bool wrapped;

	if (len <= w->env->conf->message_max || (e->answer != ANSWER_FETCH && e->answer != ANSWER_ADOPT))
		return false;
	if (arrived < MESSAGE_WRAPPER_BEGIN_LEN)
		return false;		/* the next bytes decide whether it begins like a wrapper */
	wrapped = message_may_be_wrapped(begin, arrived);
	if (wrapped && len <= w->env->conf->message_max + MESSAGE_LINE_MAX)
		return false;		/* a wrapper of quredis does not count for message_max */
	w->too_large.tray = e->tray;
	w->too_large.seen = len <= SEEN_MIN || wrapped ? 0 : len;
	pacing_learn_size(&w->pacing, (size_t)len);
	log_warning("message_too_large", log_int("size", len), log_int("message_max", w->env->conf->message_max));
	return true;
}

/* head: the argument of queue_too_large(). A message whose wrapper cannot be verified keeps it. */
static const char *class_of(const struct message *head)
{
	return head != NULL && head->doubtful ? MESSAGE_UNKNOWN_SEAL : "TooLarge";
}

/* The script puts the size before it, which only Redis knows. */
static void describe_unread(char *out, size_t size, const struct worker *w, const struct message *head, bool aside)
{
	if (head != NULL && head->doubtful && !aside)
		snprintf(out, size, "bytes: " MESSAGE_UNKNOWN_SEAL_WHY);
	else
		snprintf(out, size, aside ? "bytes: escape refused it; message_max is %" PRId64
		    : "bytes; message_max is %" PRId64, w->env->conf->message_max);
}

static void send_question(struct worker *w, const struct message *head, int64_t now_ms)
{
	bool aside = w->too_large.refusals >= MOVE_ATTEMPTS;
	char why[512] = "";
	struct record record = env_record(w->env, w->session.incarnation, NULL, aside ? "escape" : class_of(head), why);

	record.queue_from = "ingress";
	describe_unread(why, sizeof(why), w, head, aside);
	w->too_large.unknown_seal = head != NULL && head->doubtful;
	if (aside)
		w->too_large.seen = 0;
	if (w->too_large.seen > 0)
		queue_too_large_seen(&w->session.redis, &w->session.owner, w->too_large.tray, w->env->conf->message_max,
		    w->too_large.seen, w->env->conf->dead_letter.enabled ? &record : NULL);
	else
		queue_too_large(&w->session.redis, &w->session.owner, w->too_large.tray, w->env->conf->message_max,
		    head, aside || w->env->conf->dead_letter.enabled ? &record : NULL, aside);
	session_expect(w, ANSWER_TOO_LARGE, w->too_large.tray, 0, now_ms + REDIS_TIMEOUT_MS);
}

void too_large_named(struct worker *w)
{
	if (w->too_large.tray != -1)
		send_question(w, NULL, w->now_us / 1000);
	else if (!undeliverable_reads_singly(w))
		undeliverable_read_trays(w);
}

void too_large_confirmed(struct worker *w)
{
	if (w->too_large.tray == -1 && undeliverable_reads_singly(w))
		undeliverable_read_trays(w);
}

static void escaped(struct worker *w, int64_t len, bool record_failed)
{
	bool unknown = w->too_large.unknown_seal;
	char why[96];

	queue_owner_count_moved(&w->session.owner, w->too_large.tray);
	if (record_failed)
		mover_record_failed();
	if (w->too_large.refusals >= MOVE_ATTEMPTS) {
		log_error("message_set_aside", log_int("size", len), log_str("at", "escape"),
		    log_str("error", "escape refused a message longer than message_max"));
		return;
	}
	describe_size(why, sizeof(why), w, len);
	atomic_fetch_add(&w->env->slot->counters[COUNT_FETCHED], 1);
	atomic_fetch_add(&w->env->slot->counters[COUNT_ESCAPED], 1);
	atomic_fetch_add(&w->env->slot->counters[unknown ? COUNT_UNKNOWN_SEAL : COUNT_TOO_LARGE], 1);
	atomic_fetch_add(&w->env->board->workers.done, 1);
	log_info("message_escaped", log_str("class", unknown ? MESSAGE_UNKNOWN_SEAL : "TooLarge"),
	    log_str("error", unknown ? MESSAGE_UNKNOWN_SEAL_WHY : why));
}

void too_large_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	struct redis_reply len, first, record;
	struct message head;
	bool seen = w->too_large.seen > 0;

	(void)of;
	w->too_large.seen = 0;
	if (reply->type != REDIS_ARRAY || reply->n != 3) {
		w->too_large.refusals += !redis_error_is_transient(reply);
		/* opens again after the back-off: the tray cannot be read before the message has left it */
		session_drop(w, reply, now_ms);
		return;
	}
	len = redis_element(reply, 0);
	first = redis_element(reply, 1);
	record = redis_element(reply, 2);
	if (len.type != REDIS_INTEGER || first.type != REDIS_STRING || record.type != REDIS_INTEGER) {
		session_drop(w, reply, now_ms);
		return;
	}
	if (len.integer == 0 && seen) {
		send_question(w, NULL, now_ms);
		return;
	}
	if (len.integer == 0) {
		w->too_large.refusals = 0;
		w->too_large.tray = -1;
		undeliverable_read_trays(w);
		return;
	}
	if (first.len == 0) {
		escaped(w, len.integer, record.integer == QUEUE_MOVED_WITHOUT_RECORD);
		send_question(w, NULL, now_ms);		/* the tray may hold another one */
	} else {
		/* The secrets were read when this connection was opened. */
		message_parse(&head, &w->env->keys.lines, first.str, first.len);
		send_question(w, &head, now_ms);
	}
}

/*
 * For a message that too_large_arriving() has let pass: it arrived whole, together with its length; or it only seemed
 * to have a wrapper; or it was delayed while message_max was larger.
 */
bool too_large_escapes(struct worker *w, struct place p)
{
	int64_t len = (int64_t)(w->starter.job.message->raw_len - w->starter.job.message->wrapper_len);
	char why[96];

	if (len <= w->env->conf->message_max)
		return false;
	describe_size(why, sizeof(why), w, len);
	settle_escape(w, p, "TooLarge", why, NULL);
	tray_close(&w->trays, p.tray);
	return true;
}
