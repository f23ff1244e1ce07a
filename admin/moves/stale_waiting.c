/*
 * Counts messages in ingress and delayed that are too old, each by its own time. Walk and judgement are those of the
 * sweeper (common/queue/purge.h), so the count is what a round would take. A message without a time of its own stays.
 */
#include <string.h>
#include <sysexits.h>

#include "admin/moves/stale.h"

#include "admin/cli/cli.h"
#include "common/queue/queue.h"

static enum stale_rule rule_of(const struct purge_walk *w, const struct verdict *v)
{
	if (w->delayed)
		return STALE_DELAYED;
	return strcmp(v->rule, "max_ingress_age") == 0 ? STALE_INGRESS : STALE_MESSAGE;
}

/* Nothing is removed, so the cursor passes every entry. *stay counts the passed entries that a round would leave. */
static void count_page(struct stale *s, struct purge_walk *w, const struct purge_page *page, int64_t *stay)
{
	for (size_t i = 0; i < page->n; i++) {
		struct verdict v;
		struct message m;

		if (*stay >= PURGE_DEEPEST || !purge_walk_judge(w, page, i, &s->clock, &m, &v))
			(*stay)++;
		else
			stale_add(s, rule_of(w, &v), v.excess.age_ms);
	}
	w->cursor += (int64_t)page->n;
}

static int count_list(struct admin *a, struct stale *s, bool delayed)
{
	struct purge_walk w = { .keys = &s->keys, .limits = &s->conf->purge, .delayed = delayed };
	const char *key = delayed ? s->keys.delayed : s->keys.ingress;
	struct purge_page page = {0};
	struct redis_reply reply;
	int64_t stay = 0;

	while (!page.last && stay < PURGE_DEEPEST && !interrupt_asked()) {
		purge_walk_ask(&a->redis, &w);
		if (admin_reply(a, &reply, key) == -1)
			return -1;
		if (purge_walk_read(&reply, &page) == -1)
			return admin_fail(a, EX_PROTOCOL, "%s: unexpected reply type from Redis", key);
		s->clock.now_ms = s->clock.latest_ms = page.server_ms;
		count_page(s, &w, &page, &stay);
	}
	return 0;
}

int stale_waiting(struct admin *a, struct stale *s)
{
	if (!purge_takes_messages(s->conf))
		return 0;
	for (int rule = STALE_INGRESS; rule <= STALE_DELAYED; rule++)
		stale_begin(s, (enum stale_rule)rule);
	return count_list(a, s, false) == -1 || count_list(a, s, true) == -1 ? -1 : 0;
}
