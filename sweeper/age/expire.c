/*
 * Expires messages. One script call moves one message to escape, if the message is still in ingress. ttl.c finds the
 * messages by their beginnings; this file reads each message whole and judges it again.
 */
#include <stdlib.h>

#include <bsd/string.h>

#include "sweeper/age/ttl.h"

#include "common/base/base.h"
#include "sweeper/core/core.h"

#define LOGGED_MAX 100		/* in a turn; the rest is logged at level debug */

/* Messages whose moves are sent and not answered yet. */
struct leaving {
	char id[MESSAGE_ID_MAX + 1];
	int64_t age_ms, late_ms;
};

struct exits {
	struct look *l;
	struct leaving sent[LOOK_PAGE_MAX];
	size_t n;
};

struct record expire_record(const struct sweeper *s, const struct sweeper_queue *q, const struct message *m,
    const char *class)
{
	return (struct record){
		.queue = q->keys.name,
		.queue_from = "ingress",
		.error_class = class,
		.failed_at_ms = clock_realtime_ms(),
		.first_failed_ms = m->wrapper.first_failed_ms,
		.attempts = m->wrapper.attempts,
		.crashes = m->wrapper.crashes,
		.exit_code = -1,
		.duration_ms = -1,
		.node = s->conf->supervisor.node,
		.handler = conf_handler_name(q->conf),
		.payload_max = (size_t)q->conf->dead_letter.payload_max,
	};
}

void expire_send(struct sweeper *s, const struct sweeper_queue *q, struct message *m, int64_t at,
    const struct record *record)
{
	const struct queue_entry e = { .raw = m->raw, .len = m->raw_len,
	    .at = m->raw_len > QUEUE_BY_VALUE_MAX ? at : QUEUE_ANYWHERE };
	char *no_lease = queue_lease_key(&q->keys, NULL);

	queue_escape(&s->redis, &(struct queue_move){ .keys = &q->keys, .lease = no_lease, .lease_ms = 1,
	    .from = q->keys.ingress, .count = -1, .entry = &e, .message = m, .record = record });
	free(no_lease);
}

static void append_exit(struct exits *e, struct message *m, const struct age_excess *excess, int64_t at)
{
	const struct sweeper_queue *q = e->l->q;
	struct sweeper *s = e->l->s;
	struct leaving *leaving = &e->sent[e->n++];
	struct record record = expire_record(s, q, m, "TTLExpired");
	const struct record *wanted = q->conf->dead_letter.enabled ? &record : NULL;
	char why[AGE_TEXT_SIZE];

	record.error_message = age_describe(excess, why);
	strlcpy(leaving->id, message_id(m), sizeof(leaving->id));
	leaving->age_ms = excess->age_ms;
	leaving->late_ms = excess->age_ms - excess->limit_ms;
	expire_send(s, q, m, at, wanted);
}

static void account(struct exits *e, const struct leaving *gone, int64_t answer)
{
	struct expired *x = &e->l->expired;
	const char *name = e->l->q->keys.name;

	if (answer <= 0)
		/* it was fetched or moved first, or is at another place now: the next walk finds it */
		return;
	sweeper_queue_count(e->l->q, COUNT_ESCAPED, 1);
	sweeper_queue_count(e->l->q, COUNT_EXPIRED, 1);
	sweeper_queue_count(e->l->q, COUNT_EXPIRED_WAITING, 1);
	sweeper_queue_observe_lag(e->l->q, gone->late_ms);
	if (gone->age_ms > x->oldest_ms)
		x->oldest_ms = gone->age_ms;
	log_event(++x->messages <= LOGGED_MAX ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "message_escaped",
	    log_str("queue", name),
	    log_str("id", gone->id), log_str("class", "TTLExpired"), log_int("age_ms", gone->age_ms));
	if (answer == QUEUE_MOVED_WITHOUT_RECORD)
		log_warning("record_failed", log_str("queue", name), log_str("id", gone->id),
		    log_str("error", "the stream of records could not be written: check the type of its key"));
}

/* Takes all answers: a command after a failed one may have succeeded. Returns how many messages are gone; -1: error. */
static int take_exits(struct exits *e)
{
	int gone = 0, rc = 0;

	for (size_t i = 0; i < e->n && e->l->s->redis.state != REDIS_CLOSED; i++) {
		int64_t answer;

		if (connection_integer(e->l->s, &answer) == -1) {
			rc = -1;
		} else {
			account(e, &e->sent[i], answer);
			gone += answer > 0;
		}
	}
	e->n = 0;
	return rc == -1 || e->l->s->redis.state == REDIS_CLOSED ? -1 : gone;
}

/* Remove expired entries left to right, so that indexes from the right stay valid. */
int64_t expire_range(struct look *l, int64_t first, int64_t last)
{
	struct exits *e = alloc_zero(1, sizeof(*e));
	struct redis_reply page;
	int64_t gone;

	e->l = l;
	queue_list(&l->s->redis, l->q->keys.ingress, first, last);
	if (connection_answer(l->s, &page) == -1) {
		free(e);
		return -1;
	}
	for (size_t i = 0; redis_is_strings(&page) && i < page.n && e->n < LOOK_PAGE_MAX; i++) {
		struct redis_reply raw = redis_element(&page, i);
		struct age_excess excess;
		struct message m;

		message_parse(&m, &l->q->keys.lines, raw.str, raw.len);
		if (age_expired(&m, l->q->conf->ttl_ms, &l->clock, &excess))
			append_exit(e, &m, &excess, last + 1 + (int64_t)i - (int64_t)page.n);
	}
	gone = take_exits(e);
	free(e);
	return gone;
}
