/*
 * Finds messages that have waited longer than the ttl of their queue, or than their own ttl. It judges each message by
 * its own time. common/message/age.c computes ages, stamps.c writes the times, expire.c moves what has expired. A
 * message without a time that this file meets gets one, too: a killed sweeper may have left gaps, and some producers
 * push to the pop end.
 */
#include <stdlib.h>

#include "sweeper/age/ttl.h"

#include "common/base/base.h"
#include "common/message/message.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"
#include "sweeper/age/waiting.h"

#define DEEPEST 100000		/* the sweeper does not read entries further from the pop end */
#define EVERY_MS 1000

/* ---- a page ---- */

struct page {
	int64_t first, last;		/* indexes of the expired entries; first > last: none */
	/* the server's time at which the first of the other entries expires; 0: not known */
	int64_t due_ms;
	bool untimed;			/* an entry has no time */
	bool doubtful;			/* a line has a seal with an unknown secret */
};

static void judge_entry(const struct look *l, struct page *p, const struct redis_reply *begins, int64_t at)
{
	int64_t ttl = l->q->conf->ttl_ms, since;
	struct age_excess excess;
	struct message m;

	message_parse(&m, &l->q->keys.lines, begins->str, begins->len);
	p->doubtful = p->doubtful || m.doubtful;
	since = age_since(&m.wrapper, &l->clock);
	p->untimed = p->untimed || since == 0;
	if (age_expired(&m, ttl, &l->clock, &excess)) {
		p->first = at;
		p->last = p->last > at ? p->last : at;
	} else if (since != 0 && (p->due_ms == 0 || since + ttl < p->due_ms)) {
		p->due_ms = since + ttl;
	}
}

/* Judges a page of entries, after the first `seen` from the pop end. Returns their number; -1: error. */
static int look_at_page(struct look *l, struct page *p, int64_t seen)
{
	int64_t last = -1 - seen, sent_ms = clock_boottime_ms();
	struct queue_glanced glanced;
	struct redis_reply reply;

	*p = (struct page){ .first = 0, .last = INT64_MIN };
	queue_glance(&l->s->redis, l->q->keys.ingress, last - LOOK_PAGE_MAX + 1, last);
	if (connection_answer(l->s, &reply) == -1)
		return -1;
	if (queue_glanced(&reply, &glanced) == -1)
		return connection_unexpected(l->s);
	/* Learns whether the server's clock has run evenly until Redis read the page: only then the times in the page
	 * count. */
	clock_learn(l->s, glanced.server_ms, sent_ms);
	l->more = glanced.more || glanced.n == LOOK_PAGE_MAX;
	if (!server_clock_age(&l->s->clock, clock_boottime_ms(), &l->clock))
		return 0;
	for (size_t i = glanced.n; i-- > 0;) {
		struct redis_reply begins = redis_element(&reply, i);

		judge_entry(l, p, &begins, last - (int64_t)(glanced.n - 1 - i));
	}
	/*
	 * This look treats such an entry as one without a time. expire.c and stamps.c verify it again, with the secret
	 * that is read here.
	 */
	return p->doubtful && connection_secret(l->s) == -1 ? -1 : (int)glanced.n;
}

/* One page after *seen: expires, stamps, and moves *seen over the entries that stay. 1: there is more; 0: it was the
 * last; -1: error. */
static int expire_page(struct look *l, int64_t *seen, int64_t *due_ms)
{
	struct page p;
	int64_t n = look_at_page(l, &p, *seen);

	l->gone = 0;
	if (n <= 0)
		return (int)n;
	if (p.first <= p.last && (l->gone = expire_range(l, p.first, p.last)) == -1)
		return -1;
	n = n > l->gone ? n - l->gone : 0;
	if (p.untimed && n > 0 && stamps_range(l->s, l->q, -*seen - n, n) == -1)
		return -1;
	*seen += n;
	if (p.due_ms != 0 && (*due_ms == 0 || p.due_ms < *due_ms))
		*due_ms = p.due_ms;
	return l->more;
}

/* ---- a turn ---- */

static bool may_go_on(const struct look *l, int *budget)
{
	return --*budget >= 0 && l->expired.messages < LOOK_EXPIRED_MAX && sweeper_goes_on(l->s);
}

/* Reads the pop end, where the oldest messages are, as long as a page has expired messages. 1: there may be more of
 * them; 0: no more; -1: error. */
static int look_at_pop_end(struct look *l, int *budget)
{
	struct waiting *w = waiting_of(l->q);
	int64_t stay = 0, gone = 0;
	int rc;

	w->due_ms = 0;
	do {
		rc = expire_page(l, &stay, &w->due_ms);
		gone += l->gone;
	} while (rc == 1 && l->gone > 0 && may_go_on(l, budget));
	w->seen = w->seen - gone > stay ? w->seen - gone : stay;
	return rc == 1 ? l->gone > 0 : rc;
}

/* 1: call again at once; 0: nothing to do before the next second; -1: error. */
static int run_turn(struct look *l, int budget)
{
	struct waiting *w = waiting_of(l->q);
	int64_t unused = 0;
	int rc = 0;

	if (!server_clock_age(&l->s->clock, clock_boottime_ms(), &l->clock) || w->since_ms != l->s->clock.since_ms)
		w->due_ms = 0;
	w->since_ms = l->s->clock.since_ms;
	if (w->due_ms == 0 || l->clock.now_ms >= w->due_ms)
		rc = look_at_pop_end(l, &budget);
	if (rc != 0)
		return rc;
	rc = 1;
	while (rc == 1 && w->seen < DEEPEST && may_go_on(l, &budget))
		rc = expire_page(l, &w->seen, &unused);
	if (rc == 0 || w->seen >= DEEPEST)
		w->seen = 0;
	return rc == -1 ? -1 : 0;
}

static enum task_end run_ttl(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct look l = { .s = s, .q = q };
	int rc;

	if (task_at_ms(q, &stamps_task) > now_ms)
		task_wake_at(q, &ttl_task, task_at_ms(q, &stamps_task));
	rc = run_turn(&l, budget);
	if (l.expired.messages > 0)
		log_info("ttl_expired", log_str("queue", q->keys.name),
		    log_int("messages", (int64_t)l.expired.messages),
		    log_int("oldest_ms", l.expired.oldest_ms), log_int("limit_ms", q->conf->ttl_ms));
	return rc == -1 ? TASK_FAILED : rc == 1 ? TASK_MORE : TASK_DONE;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	(void)s;
	return q->conf->ttl_ms > 0 && !task_fails(q, &stamps_task);
}

const struct task ttl_task = { .name = "ttl", .interval_ms = EVERY_MS, .budget = 20, .leads = true, .configured = true,
	.wanted = is_wanted,
	.run_queue = run_ttl,
	.state_size = sizeof(struct waiting) };
