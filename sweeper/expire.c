/*
 * The way out for what waited too long: a script a message, which checks again that it is where its age was
 * proven. Who is over is ttl.c's; each is read whole only here.
 */
#include <stdlib.h>

#include <bsd/string.h>

#include "sweeper/ttl.h"

#include "common/alloc.h"
#include "common/clock.h"
#include "sweeper/sweeper.h"

#define LOGGED_MAX 100		/* a turn; the rest only at level debug */

/* What is sent and not answered yet. */
struct leaving {
	char id[MESSAGE_ID_MAX + 1];
	int64_t age_ms, late_ms;
};

struct exits {
	struct look *l;
	struct leaving sent[LOOK_PAGE_MAX];
	size_t n;
};

struct record expire_record(const struct sweeper *s, const struct swept *q, const struct message *m, const char *class)
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
		.handler = q->conf->handler == NULL ? NULL : q->conf->handler[0],
		.payload_max = (size_t)q->conf->dead_letter.payload_max,
	};
}

void expire_by_value(struct sweeper *s, const struct swept *q, struct message *m, const struct record *record)
{
	char *nobody = queue_lease_key(&q->keys, "none");

	queue_escape(&s->redis, &q->keys, nobody, 1, q->keys.ingress, -1, m, NULL, record);
	free(nobody);
}

static void append_exit(struct exits *e, struct message *m, const struct age_excess *excess, const struct queue_proof *proof)
{
	const struct swept *q = e->l->q;
	struct sweeper *s = e->l->s;
	struct leaving *leaving = &e->sent[e->n++];
	struct record record = expire_record(s, q, m, "TTLExpired");
	const struct record *wanted = q->conf->dead_letter.enabled ? &record : NULL;
	char why[AGE_TEXT_SIZE];

	record.error_message = age_describe(excess, why);
	strlcpy(leaving->id, message_id(m), sizeof(leaving->id));
	leaving->age_ms = excess->age_ms;
	leaving->late_ms = excess->age_ms - excess->limit_ms;
	if (proof != NULL)
		queue_expire(&s->redis, &q->keys, m, proof, wanted);
	else
		expire_by_value(s, q, m, wanted);
}

static void account(struct exits *e, const struct leaving *gone, int64_t answer)
{
	struct waiting *w = &e->l->q->waiting;
	const char *name = e->l->q->keys.name;

	if (answer == 0)
		return;			/* another was there before us */
	swept_count(e->l->q, COUNT_ESCAPED, 1);
	swept_count(e->l->q, COUNT_EXPIRED, 1);
	swept_count(e->l->q, COUNT_EXPIRED_WAITING, 1);
	swept_lag(e->l->q, gone->late_ms);
	if (gone->age_ms > w->oldest_ms)
		w->oldest_ms = gone->age_ms;
	log_event(++w->expired <= LOGGED_MAX ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "message_escaped", log_str("queue", name),
	    log_str("id", gone->id), log_str("class", "TTLExpired"), log_int("age_ms", gone->age_ms));
	if (answer == 2)
		log_warning("record_failed", log_str("queue", name), log_str("id", gone->id),
		    log_str("error", "the stream of records could not be written: check the type of its key"));
}

/* All answers are taken: what comes after an error may still have worked. Returns how many are gone; -1: error. */
static int take_exits(struct exits *e)
{
	int gone = 0, rc = 0;

	for (size_t i = 0; i < e->n && e->l->s->redis.state != REDIS_CLOSED; i++) {
		int64_t answer;

		if (connection_integer(e->l->s, &answer) == -1) {
			rc = -1;
		} else {
			account(e, &e->sent[i], answer);
			gone += answer != 0;
		}
	}
	e->n = 0;
	return rc == -1 || e->l->s->redis.state == REDIS_CLOSED ? -1 : gone;
}

/* A page of those to the right of the old mark, oldest first. 1: there may be more; 0: it has moved, or all is done. */
static int expire_page(struct look *l)
{
	struct exits *e = alloc_zero(1, sizeof(*e));
	int64_t behind = -l->old.at;		/* with the marked one */
	int n = behind < l->q->waiting.page ? (int)behind : l->q->waiting.page, gone;
	struct redis_reply page;

	e->l = l;
	queue_list(&l->s->redis, l->q->keys.ingress, -n, -1);
	if (connection_answer(l->s, &page) == -1) {
		free(e);
		return -1;
	}
	for (size_t i = page.type == REDIS_ARRAY ? page.n : 0; i-- > 0 && e->n < LOOK_PAGE_MAX;) {
		struct queue_proof proof = { l->old.line, l->old.len, l->old.at + (int64_t)e->n, -1 };
		struct redis_reply raw = redis_element(&page, i);
		struct age_excess excess;
		struct message m;

		message_parse(&m, raw.str, raw.len);
		if (age_expired(&m, l->q->conf->ttl_ms, l->old.since_ms, &l->clock, &excess))
			append_exit(e, &m, &excess, &proof);
	}
	gone = take_exits(e);
	free(e);
	if (gone > 0)
		l->old.at += gone;
	return gone == -1 ? -1 : gone == n && l->old.at < 0;
}

int expire_behind(struct look *l)
{
	int rc = 1;

	while (rc == 1 && l->q->waiting.expired < LOOK_EXPIRED_MAX && sweeper_goes_on(l->s))
		rc = expire_page(l);
	return rc;
}

/* Who is over by himself, left ones first: so the others stay where they were, as counted from the right. */
int expire_found(struct look *l)
{
	struct exits *e = alloc_zero(1, sizeof(*e));
	int rc = 0;

	e->l = l;
	for (size_t i = l->nfound; i-- > 0 && rc != -1;) {
		const struct found *f = &l->found[i];
		struct queue_proof proof = { f->mark.line, f->mark.len, f->mark.at, f->at };
		struct age_excess excess;
		struct redis_reply page;
		struct message m;

		if (f->limit_ms >= 0 && f->mark.len == 0)
			continue;
		queue_list(&l->s->redis, l->q->keys.ingress, f->at, f->at);
		if ((rc = connection_answer(l->s, &page)) == -1 || page.type != REDIS_ARRAY || page.n == 0)
			continue;
		message_parse(&m, redis_element(&page, 0).str, redis_element(&page, 0).len);
		if (!age_expired(&m, l->q->conf->ttl_ms, f->mark.len > 0 ? f->mark.since_ms : 0, &l->clock, &excess))
			continue;
		append_exit(e, &m, &excess, f->mark.len > 0 ? &proof : NULL);
		rc = take_exits(e);
	}
	free(e);
	return rc == -1 ? -1 : 0;
}

