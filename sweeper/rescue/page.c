/*
 * Returns a page of a dead owner's messages: each message goes back to where it was fetched from, or escapes. The
 * payload of a long message stays in Redis; only its ends are read here. rescue.c chooses the owner, and calls this
 * file for each page.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/rescue/page.h"

#include "common/base/base.h"
#include "common/dead_letters/dead_letters.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"
#include "sweeper/rescue/rescue.h"

#define LOGGED_MAX 100		/* for one owner; the rest is logged at level debug */
/* of a queue that is not configured here: only hosts that serve it know the limit */
#define RECOVERY_ATTEMPTS INT_MAX
#define PAYLOAD_MAX 65536
#define PAGE_BYTES (1 << 20)	/* bytes of a list that Redis reads for one page, unless one message is longer */
#define UNREAD_MIN (16 << 20)	/* memory; the record of a smaller message has its SHA1, for which Redis must read it */
#define WHY_SIZE 320
#define REFUSALS_MAX 6		/* about ten seconds: by then an operator who replaces a key has finished */

struct rescue_page *rescue_page_new(struct sweeper *s, struct sweeper_queue *q, struct rescue *r)
{
	struct rescue_page *p = alloc_zero(1, sizeof(*p));

	p->s = s;
	p->q = q;
	p->r = r;
	p->owner = r->incarnation[0] == '\0' ? NULL : r->incarnation;
	p->rescue = p->owner == NULL ? queue_bare_rescue_key(&q->keys)
	    : queue_tray_key(&q->keys, p->owner, QUEUE_RESCUE);
	p->lease = queue_lease_key(&q->keys, p->owner);
	return p;
}

void rescue_page_free(struct rescue_page *p)
{
	free(p->rescue);
	free(p->lease);
	free(p);
}

/* ---- moves out of the rescue list ---- */

static struct record record_of(const struct rescue_page *p, const struct wrapper *w, const char *class, const char *why)
{
	const struct conf_queue *conf = p->q->conf;

	return (struct record){
		.queue = p->q->keys.name,
		.queue_from = "transit",
		.error_class = class,
		.error_message = why,
		.failed_at_ms = clock_realtime_ms(),
		.first_failed_ms = w->first_failed_ms,
		.attempts = w->attempts,
		.crashes = w->crashes,
		.exit_code = -1,
		.duration_ms = -1,
		.node = p->owner == NULL ? p->s->conf->supervisor.node : p->r->who.node,
		.worker = p->owner,
		.handler = conf == NULL ? NULL : conf_handler_name(conf),
		.payload_max = conf == NULL ? PAYLOAD_MAX : (size_t)conf->dead_letter.payload_max,
	};
}

/*
 * True: Redis keeps refusing this rescue because of one key. Messages that must escape are then set aside (aside.c).
 * Otherwise the messages behind them, which go to ingress, would wait until an operator has repaired the key.
 */
static bool escapes_aside(const struct rescue_page *p)
{
	const struct task_error *t = &p->r->error;

	return t->times >= REFUSALS_MAX &&
	    (t->kind == QUEUE_ERROR_WRONG_TYPE || t->kind == QUEUE_ERROR_NO_PERMISSION ||
	    t->kind == QUEUE_ERROR_NO_COMMAND);
}

/* Returns a view of the queue's keys, with the list and the log to which messages escape now. */
static struct queue_keys keys_to_escape(const struct rescue_page *p)
{
	struct queue_keys keys = p->q->keys;

	if (escapes_aside(p)) {
		keys.escape = keys.aside;
		keys.log = keys.aside_log;
	}
	return keys;
}

/* Returns the record of a message that must escape. NULL: no record is written. */
static const struct record *record_to_escape(const struct rescue_page *p, struct record *record)
{
	if (!escapes_aside(p))
		return p->q->conf == NULL || p->q->conf->dead_letter.enabled ? record : NULL;
	record->error_class = "escape";
	record->error_message = p->r->error.text;
	return record;
}

/* The longest payload of this queue; 0: not known here. */
static int64_t message_max(const struct rescue_page *p)
{
	return p->q->conf == NULL ? 0 : p->q->conf->message_max;
}

static void describe_fate(const struct rescue_page *p, const struct held *h, char *out, size_t size)
{
	if (strcmp(h->class, MESSAGE_UNKNOWN_SEAL) == 0)
		snprintf(out, size, MESSAGE_UNKNOWN_SEAL_WHY);
	else if (strcmp(h->class, "TooLarge") == 0)
		snprintf(out, size, "%" PRId64 " bytes; message_max is %" PRId64, h->size, message_max(p));
	else
		snprintf(out, size, "its worker died %d times while the message was in flight", h->fate.crashes);
}

static void append_escape(const struct rescue_page *p, struct held *h)
{
	const struct queue_keys keys = keys_to_escape(p);
	struct queue_note note;
	struct record record;
	char why[WHY_SIZE];

	describe_fate(p, h, why, sizeof(why));
	record = record_of(p, &h->fate, h->class, why);
	if (keys.shared)
		queue_note_of(&note, &h->m, NULL);
	queue_escape(&p->s->redis, &(struct queue_move){ .keys = &keys, .lease = p->lease, .lease_ms = 1,
	    .from = p->rescue, .count = 1,
	    .entry = &h->entry, .message = &h->m, .note = keys.shared ? &note : NULL,
	    .record = record_to_escape(p, &record) });
}

static void append_return(const struct rescue_page *p, struct held *h)
{
	struct buffer line = {0};
	const struct queue_change change = { &line, h->m.wrapper_len };
	struct queue_note note;
	const struct queue_note *noted = queue_remember(&p->q->keys, &h->m, &h->fate, &line, &note);

	queue_return(&p->s->redis, p->owner, &(struct queue_move){ .keys = &p->q->keys, .from = p->rescue,
	    .entry = &h->entry, .change = &change, .note = noted });
	buffer_free(&line);
}

/* ---- the fate of a message ---- */

static bool is_tried(const struct rescue *r, const struct message *m)
{
	char name[QUEUE_NOTE_FIELD];

	if (r->trial[0] == '\0')
		return false;
	queue_trial_name(m, name);
	return strcmp(name, r->trial) == 0;
}

void rescue_page_judge(const struct rescue_page *p, struct held *h)
{
	int attempts = p->q->conf == NULL ? RECOVERY_ATTEMPTS : p->q->conf->recovery_attempts;
	int64_t len = (int64_t)(h->m.raw_len - h->m.wrapper_len);

	h->fate = h->m.wrapper;
	h->class = NULL;
	if (h->m.doubtful)
		/* the secrets were read again: a worker could not run it either */
		h->class = MESSAGE_UNKNOWN_SEAL;
	else if (message_max(p) > 0 && len > message_max(p))
		h->class = "TooLarge";		/* it never ran */
	else if (rescue_judge(&h->fate, p->r->blame, is_tried(p->r, &h->m), p->tray, attempts))
		h->class = "WorkerLost";
}

/* ---- answers to the moves ---- */

static void log_message(const struct rescue_page *p, const struct held *h, bool record_failed)
{
	uint64_t before = p->r->returned + p->r->escaped;
	enum log_level level = before <= LOGGED_MAX ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG;
	char why[WHY_SIZE];

	if (h->class != NULL) {
		describe_fate(p, h, why, sizeof(why));
		log_event(LOG_LEVEL_WARNING, "message_escaped", log_str("queue", p->q->keys.name),
		    log_str("id", h->m.id),
		    log_str("class", h->class), log_str("incarnation", p->owner), log_int("crashes", h->fate.crashes),
		    log_str("error", why));
	} else {
		log_event(level, "message_rescued", log_str("queue", p->q->keys.name), log_str("id", h->m.id),
		    log_str("incarnation", p->owner), log_int("crashes", h->fate.crashes));
	}
	if (record_failed)
		log_warning("record_failed", log_str("queue", p->q->keys.name), log_str("id", h->m.id),
		    log_str("error", "the stream of records could not be written: check the type of its key"));
}

static void account(struct rescue_page *p, const struct held *h, bool record_failed)
{
	if (h->class != NULL && escapes_aside(p)) {
		log_error("message_set_aside", log_str("queue", p->q->keys.name), log_str("id", h->m.id),
		    log_int("size", h->size), log_str("at", "rescue"), log_str("error", p->r->error.text));
		return;
	}
	rescue_count(p->r, h->class != NULL);
	sweeper_queue_count(p->q, h->class != NULL ? COUNT_ESCAPED : COUNT_RESCUED, 1);
	if (h->class != NULL)
		sweeper_queue_count(p->q, (enum counter)dead_letter_class_counter(h->class), 1);
	log_message(p, h, record_failed);
}

/*
 * Takes all answers, since a command after a failed one may have succeeded. 0, QUEUE_CANNOT_TELL: another sweeper moved
 * the message first, or Redis went back in time. The next page shows what is left.
 */
static int take_answers(struct rescue_page *p)
{
	int rc = 0;

	for (size_t i = 0; i < p->n && p->s->redis.state != REDIS_CLOSED; i++) {
		int64_t answer;

		if (connection_integer(p->s, &answer) == -1)
			rc = -1;
		else if (answer > 0)
			account(p, &p->held[i], answer == QUEUE_MOVED_WITHOUT_RECORD);
	}
	return rc;
}

/* ---- a page ---- */

/* entries: the length of the list when it was weighed. If it has changed since, nothing moves. */
static int return_page(struct rescue_page *p, const struct redis_reply *reply, int64_t entries)
{
	void *kept = redis_keep(&p->s->redis);
	size_t n = queue_look_count(reply);
	int rc;

	for (p->n = 0; p->n < n && p->n < RESCUE_PAGE_MAX; p->n++) {
		struct queue_looked looked;
		struct held *h = &p->held[p->n];

		queue_looked(reply, p->n, &looked);
		h->shown = looked.head.len;
		h->entry = (struct queue_entry){ .raw = looked.head.str, .len = looked.size,
			.of = entries - (int64_t)p->n,
			.tail = looked.size > looked.head.len ? looked.tail.str : NULL };
	}
	rc = rescue_page_learn(p);
	for (size_t i = 0; i < p->n && rc == 0; i++)
		rescue_page_judge(p, &p->held[i]);
	for (size_t i = 0; i < p->n && rc == 0; i++)
		if (p->held[i].class != NULL)
			append_escape(p, &p->held[i]);
		else
			append_return(p, &p->held[i]);
	redis_let_go(kept);
	return rc == 0 ? take_answers(p) : rc;
}

/* A script compares ends of a fixed length, so shorter ones would not identify a message. */
static bool is_page(const struct redis_reply *reply)
{
	size_t n = queue_look_count(reply);

	for (size_t i = 0; n != SIZE_MAX && i < n; i++) {
		struct queue_looked looked;

		queue_looked(reply, i, &looked);
		if (!queue_looked_is_named(&looked, QUEUE_BY_VALUE_MAX))
			return false;
	}
	return n != SIZE_MAX;
}

static int read_page(struct rescue_page *p, const struct queue_weight *weight)
{
	const struct queue_look l = { .key = p->rescue, .most = weight->page, .bytes = PAGE_BYTES,
	    .shown = QUEUE_BY_VALUE_MAX, .ends = QUEUE_ENTRY_ENDS };
	struct redis_reply reply;

	queue_look(&p->s->redis, &l);
	if (connection_answer(p->s, &reply) == -1)
		return -1;
	if (is_page(&reply))
		return return_page(p, &reply, weight->entries);
	return connection_unexpected(p->s);
}

/* ---- messages that no process reads ---- */

/* The answer of queue_too_large_first() and queue_too_large_seen_in_rescue(). */
struct unread {
	int64_t len;
	struct redis_reply first;	/* what may be a wrapper; a view, good until the next answer */
	bool record_failed;
};

static int take_unread(struct rescue_page *p, struct unread *out)
{
	struct redis_reply reply, len, recorded;

	if (connection_answer(p->s, &reply) == -1)
		return -1;
	if (reply.type == REDIS_ARRAY && reply.n == 3) {
		len = redis_element(&reply, 0);
		out->first = redis_element(&reply, 1);
		recorded = redis_element(&reply, 2);
		out->len = len.integer;
		out->record_failed = recorded.integer == QUEUE_MOVED_WITHOUT_RECORD;
		if (len.type == REDIS_INTEGER && out->first.type == REDIS_STRING && recorded.type == REDIS_INTEGER)
			return 0;
	}
	return connection_unexpected(p->s);
}

static int ask_to_escape(struct rescue_page *p, const struct message *head, const struct record *record,
    struct unread *out)
{
	const struct queue_keys keys = keys_to_escape(p);

	queue_too_large_first(&p->s->redis, &keys, p->lease, p->rescue, message_max(p), head, record);
	return take_unread(p, out);
}

/*
 * The same for a message that is alone in its list and has no wrapper: its list becomes the escape list. No script
 * reads the message, which would take Redis four times as long as to send it; the sweeper requests the message and
 * reads only the beginning of the answer. out->len 0: nothing moved, and the caller uses ask_to_escape().
 */
static int ask_to_become_escape(struct rescue_page *p, const struct queue_weight *weight, const struct record *record,
    struct unread *out)
{
	const struct queue_keys keys = keys_to_escape(p);
	char begin[MESSAGE_WRAPPER_BEGIN_LEN];
	int64_t len;

	*out = (struct unread){0};
	if (weight->entries != 1 || weight->first <= UNREAD_MIN)
		return 0;
	len = connection_glimpse(p->s, p->rescue, begin, sizeof(begin));
	if (len <= message_max(p) || message_may_be_wrapped(begin, sizeof(begin)))
		return 0;
	queue_too_large_seen_in_rescue(&p->s->redis, &keys, p->lease, p->rescue, message_max(p), len, record);
	return take_unread(p, out);
}

/* Fills record and why, its error message. Only Redis knows the size of the message: the script puts it before why.
 * NULL: no record is written. */
static const struct record *record_of_unread(const struct rescue_page *p, const struct held *h, char *why, size_t size,
    struct record *record)
{
	const struct record *wanted;

	*record = record_of(p, &h->fate, h->class, why);
	wanted = record_to_escape(p, record);
	if (escapes_aside(p))
		snprintf(why, size, "bytes: %s", p->r->error.text);
	else if (strcmp(h->class, MESSAGE_UNKNOWN_SEAL) == 0)
		snprintf(why, size, "bytes: " MESSAGE_UNKNOWN_SEAL_WHY);
	else
		snprintf(why, size, "bytes; message_max is %" PRId64, message_max(p));
	record->error_message = why;
	return wanted;
}

/*
 * Moves a message to escape without reading its payload. It reads the beginning if that may be a wrapper, which must
 * not get into escape. 1: it escaped; 0: no message is too large; -1: error.
 */
static int let_large_escape(struct rescue_page *p, const struct queue_weight *weight)
{
	struct held h = { .class = "TooLarge" };
	char why[sizeof(p->r->error.text) + WHY_SIZE];
	struct record record;
	const struct record *wanted = record_of_unread(p, &h, why, sizeof(why), &record);
	struct unread answer;
	int rc = ask_to_become_escape(p, weight, wanted, &answer);

	if (rc == 0 && answer.len == 0)
		rc = ask_to_escape(p, NULL, wanted, &answer);
	if (rc == 0 && answer.first.len > 0) {
		const struct redis_reply first = answer.first;
		void *kept = redis_keep(&p->s->redis);

		message_parse(&h.m, &p->q->keys.lines, first.str, first.len);
		if (h.m.doubtful && (rc = connection_secret(p->s)) == 0)
			message_parse(&h.m, &p->q->keys.lines, first.str, first.len);
		if (h.m.doubtful) {
			h.class = MESSAGE_UNKNOWN_SEAL;
			wanted = record_of_unread(p, &h, why, sizeof(why), &record);
		}
		if (rc == 0)
			rc = ask_to_escape(p, &h.m, wanted, &answer);
		redis_let_go(kept);
	}
	if (rc == -1 || answer.len == 0)
		return rc;
	h.size = answer.len;
	if (answer.first.len == 0)
		account(p, &h, answer.record_failed);
	return 1;
}

int rescue_page_return(struct rescue_page *p)
{
	struct queue_weight weight;
	struct redis_reply reply;
	bool large;
	int rc;

	queue_rescue_size(&p->s->redis, &p->q->keys, p->owner);
	queue_weigh(&p->s->redis, p->lease, p->rescue, QUEUE_END_LEFT, RESCUE_PAGE_MAX, PAGE_BYTES);
	if (connection_answer(p->s, &reply) == -1)
		return -1;
	p->tray = reply.type == REDIS_STRING ? strtoll(reply.str, NULL, 10) : -1;
	if (connection_answer(p->s, &reply) == -1)
		return -1;
	if (queue_weighed(&reply, &weight) == -1)
		return connection_unexpected(p->s);
	if (weight.entries == 0)
		return 0;
	/* By its memory the message may be too large. An allocation is at most a quarter larger than its contents, so
	 * only the length is certain. */
	large = message_max(p) > 0 && weight.first > message_max(p) / 3 * 4 + 65536;
	rc = large ? let_large_escape(p, &weight) : 0;
	if (rc == 0)
		rc = read_page(p, &weight);
	return rc == -1 ? -1 : 1;
}
