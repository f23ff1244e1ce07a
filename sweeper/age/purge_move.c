/*
 * Purges messages. One script call moves one message, if the message is still in the place where it was judged; a dry
 * run logs the message and writes nothing. purge.c finds the messages by their beginnings; this file reads each message
 * whole and judges it again.
 */
#include <stdio.h>
#include <stdlib.h>

#include <bsd/string.h>

#include "sweeper/age/purge.h"

#include "common/base/base.h"
#include "common/dead_letters/dead_letters.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"

#define PAGE_BYTES (1 << 20)	/* of delayed that Redis reads for one page, unless one message is longer */
#define LOGGED_MAX 100		/* in a turn, of the messages that moved; the rest is logged at level debug */

struct leaving {
	char id[MESSAGE_ID_MAX + 1];
	struct verdict verdict;
};

struct exits {
	struct purging *t;
	struct leaving sent[PURGE_PAGE];
	int n;
};

static const char *place(const struct purging *t)
{
	return purge_of(t->q)->phase == PURGE_DELAYED ? "delayed" : "ingress";
}

static bool judge_message(const struct purging *t, const struct message *m, struct verdict *out)
{
	return purge_judge(&t->q->conf->purge, purge_of(t->q)->phase != PURGE_DELAYED, m, &t->clock, out);
}

static void describe_verdict(const struct purging *t, const struct verdict *v, char out[2 * AGE_TEXT_SIZE])
{
	char age[UNITS_SIZE], limit[UNITS_SIZE];

	snprintf(out, (size_t)2 * AGE_TEXT_SIZE, "%s: %s in queue %s, limit %s (%s)", v->class,
	    units_format_duration(v->excess.age_ms, age),
	    t->q->keys.name, units_format_duration(v->excess.limit_ms, limit), v->rule);
}

static void send_exit(struct purging *t, struct message *m, const struct verdict *v)
{
	const struct purge *p = purge_of(t->q);
	char why[2 * AGE_TEXT_SIZE];
	struct record record = expire_record(t->s, t->q, m, v->class);
	const struct record *wanted = t->q->conf->dead_letter.enabled ? &record : NULL;

	describe_verdict(t, v, why);
	record.error_message = why;
	record.queue_from = place(t);
	if (p->phase == PURGE_DELAYED)
		queue_expire_delayed(&t->s->redis, &t->q->keys, m, wanted);
	else
		expire_send(t->s, t->q, m, -1 - p->stay, wanted);
}

static void log_exit(struct purging *t, const struct leaving *l, bool dry_run)
{
	bool loud = dry_run || t->logged++ < LOGGED_MAX;

	log_event(loud ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, dry_run ? "message_would_escape" : "message_escaped",
	    log_str("queue", t->q->keys.name), log_str("id", l->id), log_str("class", l->verdict.class),
	    log_str("from", place(t)),
	    log_int("age_ms", l->verdict.excess.age_ms), log_int("limit_ms", l->verdict.excess.limit_ms),
	    log_str("rule", l->verdict.rule));
}

static void account(struct purging *t, const struct leaving *l)
{
	struct purge *p = purge_of(t->q);
	bool dry_run = t->s->conf->purge.dry_run;
	int counter = dead_letter_class_counter(l->verdict.class);

	sweeper_queue_count(t->q, dry_run ? COUNT_WOULD_PURGE : COUNT_PURGED, 1);
	if (!dry_run)
		sweeper_queue_count(t->q, COUNT_ESCAPED, 1);
	if (!dry_run && counter != -1)
		sweeper_queue_count(t->q, (enum counter)counter, 1);
	if (!dry_run && p->phase == PURGE_DELAYED)
		sweeper_queue_count(t->q, COUNT_PURGED_DELAYED, 1);
	purge_leaves(p, l->verdict.excess.age_ms);
	log_exit(t, l, dry_run);
}

static void take_answer(struct purging *t, const struct leaving *l, int64_t answer, int *gone)
{
	if (answer <= 0)
		/* it was fetched or moved first, or is at another place now: the next walk finds it */
		return;
	++*gone;
	account(t, l);
	if (answer == QUEUE_MOVED_WITHOUT_RECORD)
		log_warning("record_failed", log_str("queue", t->q->keys.name), log_str("id", l->id),
		    log_str("error", "the stream of records could not be written: check the type of its key"));
}

/* Takes all answers: a command after a failed one may have succeeded. Returns as purge_entries(). */
static int take_answers(struct exits *e)
{
	struct purging *t = e->t;
	int gone = 0, rc = 0;

	for (int i = 0; i < e->n && t->s->redis.state != REDIS_CLOSED; i++) {
		int64_t answer;

		if (connection_integer(t->s, &answer) == -1)
			rc = -1;
		else
			take_answer(t, &e->sent[i], answer, &gone);
	}
	return rc == -1 || t->s->redis.state == REDIS_CLOSED ? -1 : gone == e->n;
}

/* Handles a message that is too old: a dry run logs it, otherwise a move to escape is sent. */
static void purge_old(struct exits *e, struct message *m, const struct verdict *v)
{
	struct leaving *l = &e->sent[e->n];
	struct purging *t = e->t;

	strlcpy(l->id, message_id(m), sizeof(l->id));
	l->verdict = *v;
	if (t->s->conf->purge.dry_run) {
		account(t, l);
		purge_stays(purge_of(t->q), 1, false);
		return;
	}
	send_exit(t, m, v);
	e->n++;
}

/*
 * Returns the i-th entry in the order of the walk. The page of delayed begins with the message that is due first; the
 * page of ingress ends with the oldest one.
 */
static struct redis_reply message_of_page(const struct purge *p, const struct redis_reply *page, size_t i)
{
	struct queue_looked delayed;

	if (p->phase != PURGE_DELAYED)
		return redis_element(page, page->n - 1 - i);
	queue_looked(page, i, &delayed);
	return delayed.head;
}

static void decide_page(struct exits *e, const struct redis_reply *page)
{
	struct purge *p = purge_of(e->t->q);
	bool ask = e->t->q->conf->purge.check != NULL;
	size_t n = p->phase == PURGE_DELAYED ? queue_look_count(page) : page->n;

	for (size_t i = 0; i < n && e->n < PURGE_PAGE && !p->question.open; i++) {
		struct redis_reply raw = message_of_page(p, page, i);
		struct verdict verdict;
		struct message m;

		message_parse(&m, &e->t->q->keys.lines, raw.str, raw.len);
		/* a check gets no line of quredis */
		if (!judge_message(e->t, &m, &verdict) || (ask && m.doubtful)) {
			if (e->n > 0)
				break;		/* the cursor must stay before entries whose move is unanswered */
			purge_stays(p, 1, true);
		} else if (ask) {
			purge_check_ask(&p->question, raw.str, raw.len, &verdict);
		} else {
			purge_old(e, &m, &verdict);
		}
	}
}

int purge_entries(struct purging *t, int n)
{
	struct purge *p = purge_of(t->q);
	struct exits *e = alloc_zero(1, sizeof(*e));
	struct redis_reply page;
	int rc = -1;

	e->t = t;
	if (t->q->conf->purge.check != NULL)
		n = 1;
	if (p->phase == PURGE_DELAYED)
		queue_look(&t->s->redis, &(struct queue_look){ .key = t->q->keys.delayed,
		    .apart = t->q->keys.delayed_apart, .first = p->stay,
		    .most = n, .bytes = PAGE_BYTES, .shown = INT64_MAX });
	else
		queue_list(&t->s->redis, t->q->keys.ingress, -p->stay - n, -1 - p->stay);
	if (connection_answer(t->s, &page) == 0 &&
	    (p->phase == PURGE_DELAYED ? queue_look_count(&page) != SIZE_MAX : redis_is_strings(&page))) {
		decide_page(e, &page);
		rc = page.n == 0 ? 0 : take_answers(e);
	}
	free(e);
	return rc;
}

int purge_asked(struct purging *t, bool agreed)
{
	struct purge *p = purge_of(t->q);
	struct exits *e = alloc_zero(1, sizeof(*e));
	struct verdict verdict;
	struct message m;
	int rc = 1;

	e->t = t;
	message_parse(&m, &t->q->keys.lines, p->question.message.len == 0 ? "" : p->question.message.data,
	    p->question.message.len);
	if (agreed && judge_message(t, &m, &verdict)) {
		purge_old(e, &m, &verdict);
		rc = take_answers(e);
	} else {
		purge_spares(p);
	}
	purge_check_drop(&p->question);
	free(e);
	return rc;
}
