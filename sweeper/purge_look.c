/*
 * The way of a round through ingress and delayed, by how entries begin: which of them are too old. A mark that is old
 * enough condemns all between it and the pop end; others tell their own time, or stay. What becomes of them is
 * purge_exit.c's, who reads them whole.
 */
#include "sweeper/purge.h"

#include "common/clock.h"
#include "common/nitems.h"
#include "common/queue_waiting.h"
#include "sweeper/sweeper.h"

#define PAGE_FIRST 16
#define MISSES_MAX 100		/* then others are faster than we: the rest is for the next round */

/* The next page behind the cursor and what was seen beyond it. */
static int glance(struct purging *t, struct redis_reply *page, struct queue_glanced *glanced)
{
	struct purge *p = &t->q->purge;
	int64_t from = p->stay + p->ahead, to, sent_ms = clock_boottime_ms();

	if (p->page == 0)
		p->page = PAGE_FIRST;
	to = from + p->page - 1;
	if (p->phase == PURGE_DELAYED)
		queue_glance_delayed(&t->s->redis, &t->q->keys, from, to);
	else
		queue_glance(&t->s->redis, t->q->keys.ingress, -1 - to, -1 - from);
	if (connection_answer(t->s, page) == -1)
		return -1;
	if (queue_glanced(page, glanced) == -1) {
		trouble_say(t->s, TROUBLE_OTHER, "an answer of a kind that was not expected");
		return -1;
	}
	/* What the page says was written by a clock that is known to run evenly until now. */
	clock_learn(t->s, glanced->server_ms, sent_ms);
	return server_clock_age(&t->s->clock, clock_boottime_ms(), &t->clock) ? 0 : -1;
}

/* The i-th behind the cursor. */
static void parse_at(const struct purging *t, const struct redis_reply *page, size_t n, size_t i, struct message *m)
{
	struct redis_reply begins = redis_element(page, t->q->purge.phase == PURGE_DELAYED ? i : n - 1 - i);

	message_parse(m, begins.str, begins.len);
}

static int64_t mark_limit(const struct conf_purge *c)
{
	return c->max_message_age_ms < c->max_ingress_age_ms ? c->max_message_age_ms : c->max_ingress_age_ms;
}

static void go_to(struct purge *p, enum purge_phase phase)
{
	p->phase = phase;
	p->ahead = 0;
	p->misses = 0;
	if (phase == PURGE_DELAYED)
		p->stay = p->kept = p->page = 0;
}

static int seek(struct purging *t)
{
	struct purge *p = &t->q->purge;
	struct queue_glanced glanced;
	struct redis_reply page;
	int asked;
	bool young = false;

	if (glance(t, &page, &glanced) == -1)
		return -1;
	asked = p->page;
	p->old.len = 0;
	for (size_t i = 0; i < glanced.n && !young; i++) {
		struct message m;
		struct mark mark;

		parse_at(t, &page, glanced.n, i, &m);
		if (m.wrapper.mark_ms == 0)
			continue;
		mark = mark_of(&m, -1 - (p->stay + p->ahead + (int64_t)i), &t->clock);
		young = t->clock.now_ms - mark.since_ms < mark_limit(&t->q->conf->purge);
		if (!young && mark.len > 0)
			p->old = mark;
	}
	p->page = glanced.n == 0 ? PAGE_FIRST : rescue_page(glanced.n, glanced.bytes);
	p->ahead += (int64_t)glanced.n;
	if (p->old.len > 0) {
		p->phase = PURGE_CONDEMN;
		p->ahead = 0;
	} else if (young || (int)glanced.n < asked) {
		go_to(p, PURGE_LOOK);
	}
	return 1;
}

void purge_missed(struct purge *p)
{
	int misses = p->misses + 1;

	go_to(p, misses > MISSES_MAX ? PURGE_LOOK : PURGE_SEEK);
	p->misses = misses;
}

static int condemn(struct purging *t)
{
	struct purge *p = &t->q->purge;
	int64_t left = -p->stay - p->old.at;	/* up to the mark, with it */
	int rc;

	if (left <= 0 || p->kept >= PURGE_DEEPEST) {
		go_to(p, left <= 0 ? PURGE_SEEK : PURGE_DELAYED);
		return 1;
	}
	rc = purge_entries(t, left < p->page ? (int)left : p->page);
	if (rc == 0)
		purge_missed(p);
	return rc == -1 ? -1 : 1;
}

/* How many of the page, from its i-th on, are too old by what they tell. */
static int count_old(const struct purging *t, const struct redis_reply *page, size_t n, size_t i)
{
	struct verdict verdict;
	struct message m;
	int count = 0;

	for (; i < n; i++, count++) {
		parse_at(t, page, n, i, &m);
		if (!purge_judge(&t->q->conf->purge, t->q->purge.phase == PURGE_LOOK, &m, 0, &t->clock, &verdict))
			break;
	}
	return count;
}

/* Behind the cursor, those that are too old by what they tell themselves. */
static int look(struct purging *t)
{
	struct purge *p = &t->q->purge;
	struct queue_glanced glanced;
	struct redis_reply page;
	int asked, old = 0, rc = 1;
	size_t i;

	if (glance(t, &page, &glanced) == -1)
		return -1;
	asked = p->page;
	for (i = 0; i < glanced.n && (old = count_old(t, &page, glanced.n, i)) == 0; i++)
		;
	p->stay += (int64_t)i;
	p->kept += (int64_t)i;
	p->page = glanced.n == 0 ? PAGE_FIRST : rescue_page(glanced.n, glanced.bytes);
	if (old > 0)
		rc = purge_entries(t, old);
	p->misses = rc == 0 ? p->misses + 1 : 0;
	if (rc == -1)
		return -1;
	if ((old == 0 && (int)glanced.n < asked) || p->kept >= PURGE_DEEPEST || p->misses > MISSES_MAX) {
		if (p->phase == PURGE_DELAYED)
			return 0;
		go_to(p, PURGE_DELAYED);
	}
	return 1;
}

int purge_step(struct purging *t)
{
	static int (*const steps[])(struct purging *t) = {
		[PURGE_SEEK] = seek, [PURGE_CONDEMN] = condemn, [PURGE_LOOK] = look, [PURGE_DELAYED] = look,
	};

	return steps[t->q->purge.phase](t);
}
