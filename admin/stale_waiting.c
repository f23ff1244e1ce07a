/*
 * Messages in ingress and delayed that are too old, by how they begin: each by its own time, ingress from the pop end. What has no
 * time of its own stays.
 */
#include <string.h>
#include <sysexits.h>

#include "admin/stale.h"

#include "admin/interrupt.h"
#include "admin/pager.h"
#include "common/queue_waiting.h"

struct walk {
	struct stale *s;
	bool delayed;
	int64_t at;			/* entries seen */
	int64_t stay;			/* of those */
};

static bool is_ingress_rule(const struct verdict *v)
{
	return strcmp(v->rule, "max_ingress_age") == 0;
}

static void take(struct walk *w, const struct message *m)
{
	struct stale *s = w->s;
	enum stale_rule rule;
	struct verdict v;

	if (w->stay >= PURGE_DEEPEST || !purge_judge(&s->conf->purge, !w->delayed, m, &s->clock, &v)) {
		w->stay++;
		return;
	}
	rule = w->delayed ? STALE_DELAYED : is_ingress_rule(&v) ? STALE_INGRESS : STALE_MESSAGE;
	stale_add(&s->counts[rule], 1, v.excess.age_ms);
}

/* ---- pages ---- */

/* 1: there are more; 0: it was the last; -1: error. */
static int page(struct admin *a, struct walk *w, const char *key)
{
	struct stale *s = w->s;
	struct queue_glanced glanced;
	struct redis_reply reply;

	if (w->delayed)
		queue_glance_delayed(&a->redis, &s->keys, w->at, w->at + PAGER_MAX - 1);
	else
		queue_glance(&a->redis, key, -w->at - PAGER_MAX, -1 - w->at);
	if (admin_reply(a, &reply, key) == -1)
		return -1;
	if (queue_glanced(&reply, &glanced) == -1)
		return admin_fail(a, EX_PROTOCOL, "%s: Redis answered something else than entries", key);
	s->clock.now_ms = s->clock.latest_ms = glanced.server_ms;
	for (size_t i = 0; i < glanced.n; i++) {
		struct redis_reply begins = redis_element(&reply, w->delayed ? i : glanced.n - 1 - i);
		struct message m;

		message_parse(&m, &s->keys.lines, begins.str, begins.len);
		take(w, &m);
	}
	w->at += (int64_t)glanced.n;
	return glanced.more || glanced.n == PAGER_MAX;
}

static int walk(struct admin *a, struct stale *s, bool delayed)
{
	struct walk w = { .s = s, .delayed = delayed };
	int rc = 1;

	while (rc == 1 && w.stay < PURGE_DEEPEST && !interrupt_asked())
		rc = page(a, &w, delayed ? s->keys.delayed : s->keys.ingress);
	return rc == -1 ? -1 : 0;
}

int stale_waiting(struct admin *a, struct stale *s)
{
	if (!purge_takes_messages(s->conf))
		return 0;
	s->looked |= 1u << STALE_INGRESS | 1u << STALE_MESSAGE | 1u << STALE_DELAYED;
	return walk(a, s, false) == -1 || walk(a, s, true) == -1 ? -1 : 0;
}
