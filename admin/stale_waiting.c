/*
 * Messages in ingress and delayed that are too old, by how they begin. In ingress from the pop end: a mark says of all
 * before it, up to the last one, how long they wait at least, so they are undecided until it comes. The first mark that is
 * not old enough ends that; behind it messages only speak for themselves.
 */
#include <string.h>
#include <sysexits.h>

#include "admin/stale.h"

#include "admin/interrupt.h"
#include "admin/pager.h"
#include "common/queue_waiting.h"

#define FIRST_PAGE 16

struct walk {
	struct stale *s;
	struct pager pager;
	int64_t at;			/* entries seen */
	int64_t stay;			/* of those; what is undecided is among them */
	bool young;			/* no mark counts any more */
	int64_t undecided;		/* since the last mark */
	struct stale_count by_message;	/* the same, too old by max_message_age if no mark says more */
};

static bool is_ingress_rule(const struct verdict *v)
{
	return strcmp(v->rule, "max_ingress_age") == 0;
}

static void take(struct stale *s, enum stale_rule rule, int64_t n, int64_t age_ms)
{
	stale_add(&s->counts[rule], n, age_ms);
}

/* ---- ingress ---- */

static void decide_as_they_say(struct walk *w)
{
	take(w->s, STALE_MESSAGE, w->by_message.count, w->by_message.oldest_ms);
	w->by_message = (struct stale_count){0};
	w->undecided = 0;
}

static void take_mark(struct walk *w, int64_t mark_ms)
{
	const struct message one = { .raw = "", .wrapper.mark_ms = mark_ms };
	struct stale *s = w->s;
	struct verdict v;

	if (!purge_judge(&s->conf->purge, true, &one, 0, &s->clock, &v)) {
		w->young = true;
		decide_as_they_say(w);
		return;
	}
	w->stay -= w->undecided;
	if (is_ingress_rule(&v)) {
		take(s, STALE_INGRESS, w->undecided + w->by_message.count, v.excess.age_ms);
		w->by_message = (struct stale_count){0};
	} else {
		take(s, STALE_MESSAGE, w->undecided, v.excess.age_ms);
	}
	decide_as_they_say(w);
}

static void take_waiting(struct walk *w, const struct message *m)
{
	struct stale *s = w->s;
	struct verdict v;

	if (w->stay >= PURGE_DEEPEST || !purge_judge(&s->conf->purge, true, m, 0, &s->clock, &v)) {
		w->stay++;
		w->undecided++;
	} else if (is_ingress_rule(&v)) {
		take(s, STALE_INGRESS, 1, v.excess.age_ms);
	} else {
		stale_add(&w->by_message, 1, v.excess.age_ms);
	}
	if (m->wrapper.mark_ms != 0 && !w->young)
		take_mark(w, m->wrapper.mark_ms);
	if (w->young)
		decide_as_they_say(w);
}

/* ---- delayed ---- */

static void take_delayed(struct walk *w, const struct message *m)
{
	struct verdict v;

	if (purge_judge(&w->s->conf->purge, false, m, 0, &w->s->clock, &v))
		take(w->s, STALE_DELAYED, 1, v.excess.age_ms);
	else
		w->stay++;
}

/* ---- pages ---- */

/* How many there were, of `asked`; -1: error. */
static int64_t page(struct admin *a, struct walk *w, const char *key, bool delayed)
{
	int64_t n = w->pager.count;
	struct stale *s = w->s;
	struct queue_glanced glanced;
	struct redis_reply reply;

	if (delayed)
		queue_glance_delayed(&a->redis, &s->keys, w->at, w->at + n - 1);
	else
		queue_glance(&a->redis, key, -w->at - n, -1 - w->at);
	if (admin_reply(a, &reply, key) == -1)
		return -1;
	if (queue_glanced(&reply, &glanced) == -1)
		return admin_fail(a, EX_PROTOCOL, "%s: Redis answered something else than entries", key);
	s->clock.now_ms = s->clock.latest_ms = glanced.server_ms;
	for (size_t i = 0; i < glanced.n; i++) {
		struct redis_reply begins = redis_element(&reply, delayed ? i : glanced.n - 1 - i);
		struct message m;

		message_parse(&m, begins.str, begins.len);
		if (delayed)
			take_delayed(w, &m);
		else
			take_waiting(w, &m);
	}
	w->at += (int64_t)glanced.n;
	pager_learn(&w->pager, glanced.n, glanced.bytes);
	return (int64_t)glanced.n;
}

static int walk(struct admin *a, struct stale *s, bool delayed)
{
	struct walk w = { .s = s, .pager = pager_of(FIRST_PAGE) };
	int64_t n = FIRST_PAGE, asked = FIRST_PAGE;

	while (n == asked && !(w.stay >= PURGE_DEEPEST && (delayed || w.young)) && !interrupt_asked()) {
		asked = w.pager.count;
		n = page(a, &w, delayed ? s->keys.delayed : s->keys.ingress, delayed);
	}
	decide_as_they_say(&w);
	return n == -1 ? -1 : 0;
}

int stale_waiting(struct admin *a, struct stale *s)
{
	if (!purge_takes_messages(s->conf))
		return 0;
	s->looked |= 1u << STALE_INGRESS | 1u << STALE_MESSAGE | 1u << STALE_DELAYED;
	return walk(a, s, false) == -1 || walk(a, s, true) == -1 ? -1 : 0;
}
