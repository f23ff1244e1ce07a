/*
 * What waits for longer than its queue's ttl, or its own, escapes: the list is looked at from its pop end, for the
 * marks of marks.c. The rule of ages is common/age.c's; docs/design.md says why it holds.
 */
#include <stdlib.h>
#include <string.h>

#include "sweeper/ttl.h"

#include "common/age.h"
#include "common/alloc.h"
#include "common/clock.h"
#include "common/queue_waiting.h"
#include "sweeper/sweeper.h"

#define PAGE_FIRST 16
#define DEEPEST 100000		/* further from the pop end nobody is looked for who knows his own time */

/* ---- looking ---- */

static void found_mark(struct look *l, const struct message *m, int64_t at)
{
	struct waiting *w = &l->q->waiting;
	struct mark mark = mark_of(m, at, &l->clock);
	int64_t age = l->clock.now_ms - mark.since_ms;

	if (mark.len == 0)
		return;
	for (size_t i = 0; i < l->nfound; i++) {
		struct found *f = &l->found[i];

		if (f->limit_ms >= 0 && f->mark.len == 0 && age >= f->limit_ms)
			f->mark = mark;
	}
	if (age >= l->q->conf->ttl_ms) {
		l->old = mark;
	} else if (w->due_ms == 0) {
		w->due_ms = mark.since_ms + l->q->conf->ttl_ms;
	}
}

static void look_at(struct look *l, const struct redis_reply *begins, int64_t at)
{
	int64_t ttl = l->q->conf->ttl_ms;
	struct age_excess excess;
	struct message m;

	if (begins->len == 0)
		return;
	message_parse(&m, begins->str, begins->len);
	if (m.wrapper.mark_ms != 0)
		found_mark(l, &m, at);
	if (l->nfound == LOOK_FOUND_MAX)
		return;			/* another round */
	if (age_expired(&m, ttl, 0, &l->clock, &excess))
		l->found[l->nfound++] = (struct found){ .at = at, .limit_ms = -1 };
	else if (m.ttl_ms >= 0 && m.ttl_ms < ttl && m.enqueued_ms < 0)
		l->found[l->nfound++] = (struct found){ .at = at, .limit_ms = m.ttl_ms };
}

/* A page of the list from its pop end, after what this round has seen. Returns how many entries; -1: error. */
static int look_at_page(struct look *l)
{
	struct waiting *w = &l->q->waiting;
	int64_t last = -1 - w->seen, sent_ms = clock_boottime_ms();
	struct queue_glanced glanced;
	struct redis_reply page;

	queue_glance(&l->s->redis, l->q->keys.ingress, last - w->page + 1, last);
	if (connection_answer(l->s, &page) == -1)
		return -1;
	if (queue_glanced(&page, &glanced) == -1) {
		trouble_say(l->s, TROUBLE_OTHER, "an answer of a kind that was not expected");
		return -1;
	}
	/* What the page says was written by a clock that is known to run evenly until now. */
	clock_learn(l->s, glanced.server_ms, sent_ms);
	if (!server_clock_age(&l->s->clock, clock_boottime_ms(), &l->clock))
		return 0;
	l->old.len = 0;
	for (size_t i = glanced.n; i-- > 0;) {
		struct redis_reply begins = redis_element(&page, i);

		look_at(l, &begins, last - (int64_t)(glanced.n - 1 - i));
	}
	w->page = glanced.n == 0 ? PAGE_FIRST : rescue_page(glanced.n, glanced.bytes);
	return (int)glanced.n;
}

/* What waits for a mark still goes on to the next page. */
static void forget_found(struct look *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->nfound; i++)
		if (l->found[i].limit_ms >= 0 && l->found[i].mark.len == 0)
			l->found[n++] = l->found[i];
	l->nfound = n < LOOK_PAGE_MAX ? n : 0;
}

/* ---- a turn ---- */

static void begin_round(struct waiting *w)
{
	w->seen = w->due_ms = 0;
	w->page = PAGE_FIRST;
}

/* A page, and what follows from it. 1: the round goes on; 0: it is over; -1: error. */
static int step(struct look *l)
{
	struct waiting *w = &l->q->waiting;
	int asked = w->page, n = look_at_page(l);

	if (n <= 0)
		return n;
	if (l->old.len > 0) {
		begin_round(w);
		return expire_behind(l) == -1 ? -1 : 1;
	}
	if (l->nfound > 0 && expire_found(l) == -1)
		return -1;
	forget_found(l);
	w->seen += n;
	return n == asked && (w->due_ms == 0 || w->seen < DEEPEST);
}

static bool is_due(const struct look *l)
{
	struct age_clock clock;

	return l->q->waiting.due_ms != 0 && server_clock_age(&l->s->clock, clock_boottime_ms(), &clock) &&
	       clock.now_ms >= l->q->waiting.due_ms;
}

/* 1: there is more to do at once; 0: not before the next second; -1: error. */
static int turn(struct look *l, int budget)
{
	struct waiting *w = &l->q->waiting;
	int rc = 1;

	if (w->page == 0 || w->since_ms != l->s->clock.since_ms || is_due(l))
		begin_round(w);
	w->since_ms = l->s->clock.since_ms;
	while (rc == 1 && budget-- > 0 && w->expired < LOOK_EXPIRED_MAX && sweeper_goes_on(l->s))
		rc = step(l);
	if (rc == 0)
		w->seen = 0;
	return rc == 1 ? w->due_ms == 0 : rc;
}

static void sweep(struct sweeper *s, struct swept *q, struct look *l, int budget, int64_t now_ms)
{
	struct waiting *w = &q->waiting;
	int rc;

	*l = (struct look){ .s = s, .q = q };
	w->expired = 0;
	w->oldest_ms = 0;
	rc = turn(l, budget);
	if (rc == -1)
		trouble_note(s, q, &w->trouble, "ttl", now_ms);
	else
		trouble_over(s, q, &w->trouble);
	w->at_ms = rc == 1 ? now_ms : trouble_waits(&w->trouble, q->marks.at_ms) ? w->trouble.retry_at_ms : q->marks.at_ms;
	if (w->expired > 0)
		log_info("ttl_expired", log_str("queue", q->keys.name), log_int("messages", (int64_t)w->expired),
		    log_int("oldest_ms", w->oldest_ms), log_int("limit_ms", q->conf->ttl_ms));
}

static bool is_ours(const struct swept *q)
{
	return q->conf != NULL && q->conf->ttl_ms > 0 && lead_is_ours(q) && q->marks.trouble.kind == TROUBLE_NONE;
}

int64_t ttl_wake_ms(const struct sweeper *s)
{
	int64_t at = INT64_MAX;
	const struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (is_ours(q) && q->waiting.at_ms < at)
			at = q->waiting.at_ms;
	return at;
}

bool ttl_task(struct sweeper *s, int budget, int64_t now_ms)
{
	struct look *l = NULL;
	bool more = false;
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry) {
		if (!is_ours(q) || now_ms < q->waiting.at_ms || !sweeper_goes_on(s))
			continue;
		if (l == NULL)
			l = alloc_zero(1, sizeof(*l));
		sweep(s, q, l, budget, now_ms);
		connection_drain(s);
		more = more || q->waiting.at_ms <= now_ms;
	}
	free(l);
	return more;
}
