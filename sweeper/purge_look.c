/*
 * Walks through ingress and delayed in a round, reads how entries begin, and finds those that are too old, each by its own time. A
 * message that waits without a time gets one, so that a later round knows how long it has waited. purge_exit.c reads those that are
 * too old whole, and moves them.
 */
#include "sweeper/purge.h"

#include "common/clock.h"
#include "common/nitems.h"
#include "common/queue_waiting.h"
#include "sweeper/waiting.h"
#include "sweeper/sweeper.h"

#define MISSES_MAX 100		/* in a row that others had moved first; then the rest is for the next round */

/* The next page behind the cursor. */
static int glance(struct purging *t, struct redis_reply *page, struct queue_glanced *glanced)
{
	struct purge *p = purge_of(t->q);
	int64_t to = p->stay + LOOK_PAGE_MAX - 1, sent_ms = clock_boottime_ms();

	if (p->phase == PURGE_DELAYED)
		queue_glance_delayed(&t->s->redis, &t->q->keys, p->stay, to);
	else
		queue_glance(&t->s->redis, t->q->keys.ingress, -1 - to, -1 - p->stay);
	if (connection_answer(t->s, page) == -1)
		return -1;
	if (queue_glanced(page, glanced) == -1)
		return connection_unexpected(t->s);
	/* What the page says was written by a clock that is known to run evenly until now. */
	clock_learn(t->s, glanced->server_ms, sent_ms);
	return server_clock_age(&t->s->clock, clock_boottime_ms(), &t->clock) ? 0 : -1;
}

/* The i-th behind the cursor. */
static void parse_at(const struct purging *t, const struct redis_reply *page, size_t n, size_t i, struct message *m)
{
	struct redis_reply begins = redis_element(page, purge_of(t->q)->phase == PURGE_DELAYED ? i : n - 1 - i);

	message_parse(m, &t->q->keys.lines, begins.str, begins.len);
	purge_of(t->q)->doubtful = purge_of(t->q)->doubtful || m->doubtful;
}

/* How many of the page, from its i-th on, are too old by what they tell. */
static int count_old(const struct purging *t, const struct redis_reply *page, size_t n, size_t i)
{
	struct verdict verdict;
	struct message m;
	int count = 0;

	for (; i < n; i++, count++) {
		parse_at(t, page, n, i, &m);
		if (!purge_judge(&t->q->conf->purge, purge_of(t->q)->phase == PURGE_LOOK, &m, &t->clock, &verdict))
			break;
	}
	return count;
}

/* How many of the page, up to the first that is too old; and whether one of them has no time. */
static size_t count_young(const struct purging *t, const struct redis_reply *page, size_t n, bool *untimed)
{
	struct verdict verdict;
	struct message m;
	size_t i;

	for (i = 0; i < n; i++) {
		parse_at(t, page, n, i, &m);
		if (purge_judge(&t->q->conf->purge, purge_of(t->q)->phase == PURGE_LOOK, &m, &t->clock, &verdict))
			break;
		*untimed = *untimed || m.wrapper.own_ms == 0;
	}
	return i;
}

/* Over the next young ones, which get a time where they lack it, and a run of old ones behind them. 1: go on; 0: the round is over; -1: error. */
static int look_at_page(struct purging *t)
{
	struct purge *p = purge_of(t->q);
	struct queue_glanced glanced;
	struct redis_reply page;
	bool untimed = false, last;
	int64_t young;
	int old, rc = 1;

	if (glance(t, &page, &glanced) == -1)
		return -1;
	young = (int64_t)count_young(t, &page, glanced.n, &untimed);
	old = count_old(t, &page, glanced.n, (size_t)young);
	last = old == 0 && !glanced.more && glanced.n < LOOK_PAGE_MAX;
	p->stay += young;
	p->kept += young;
	if (untimed && p->phase == PURGE_LOOK && !t->s->conf->purge.dry_run && stamps_range(t->s, t->q, -p->stay, young) == -1)
		return -1;
	if (old > 0)
		rc = purge_entries(t, old);
	p->misses = rc == 0 ? p->misses + 1 : 0;
	if (rc == -1)
		return -1;
	if (last || p->kept >= PURGE_DEEPEST || p->misses > MISSES_MAX) {
		if (p->phase == PURGE_DELAYED)
			return 0;
		p->phase = PURGE_DELAYED;
		p->stay = p->kept = p->misses = 0;
	}
	return 1;
}

int purge_step(struct purging *t)
{
	if (purge_of(t->q)->doubtful && connection_secret(t->s) == -1)
		return -1;
	purge_of(t->q)->doubtful = false;
	return look_at_page(t);
}
