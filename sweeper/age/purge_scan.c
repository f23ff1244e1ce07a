/*
 * Walks through ingress and delayed in a round, reads how entries begin, and finds those that are too old, each by its own time. A
 * message that waits without a time gets one, so that a later round knows how long it has waited. purge_move.c reads those that are
 * too old whole, and moves them.
 */
#include "sweeper/age/purge.h"

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"
#include "sweeper/age/waiting.h"

#define MISSES_MAX 100		/* consecutive entries that other processes moved first; then the round ends, and the next one continues */

static struct purge_walk walk_of(const struct purging *t)
{
	const struct purge *p = purge_of(t->q);

	return (struct purge_walk){ &t->q->keys, &t->q->conf->purge, p->phase == PURGE_DELAYED, p->stay };
}

/* Reads the page at the cursor. */
static int read_page(struct purging *t, const struct purge_walk *walk, struct purge_page *page)
{
	int64_t sent_ms = clock_boottime_ms();
	struct redis_reply reply;

	purge_walk_ask(&t->s->redis, walk);
	if (connection_answer(t->s, &reply) == -1)
		return -1;
	if (purge_walk_read(&reply, page) == -1)
		return connection_unexpected(t->s);
	/* The times in the page count only if the server's clock has run evenly until the page was read: this learns whether it has. */
	clock_learn(t->s, page->server_ms, sent_ms);
	return server_clock_age(&t->s->clock, clock_boottime_ms(), &t->clock) ? 0 : -1;
}

/* Counts entries from the i-th on, until one is not as wanted: too old, or young. *untimed: whether one of those counted has no time. */
static int64_t count_run(const struct purging *t, const struct purge_walk *walk, const struct purge_page *page, size_t i, bool old, bool *untimed)
{
	struct verdict verdict;
	struct message m;
	int64_t count = 0;

	for (; i < page->n; i++, count++) {
		bool is_old = purge_walk_judge(walk, page, i, &t->clock, &m, &verdict);

		purge_of(t->q)->doubtful = purge_of(t->q)->doubtful || m.doubtful;
		if (is_old != old)
			break;
		*untimed = *untimed || m.wrapper.own_ms == 0;
	}
	return count;
}

/* Passes over the next young entries, which get a time where they lack it, and takes a run of old ones behind them. 1: go on; 0: the round is over; -1: error. */
static int look_at_page(struct purging *t)
{
	struct purge *p = purge_of(t->q);
	struct purge_walk walk = walk_of(t);
	struct purge_page page;
	bool untimed = false, ignored = false;
	int64_t young, old;
	int rc = 1;

	if (read_page(t, &walk, &page) == -1)
		return -1;
	young = count_run(t, &walk, &page, 0, false, &untimed);
	old = count_run(t, &walk, &page, (size_t)young, true, &ignored);
	p->stay += young;
	p->kept += young;
	if (untimed && p->phase == PURGE_LOOK && !t->s->conf->purge.dry_run && stamps_range(t->s, t->q, -p->stay, young) == -1)
		return -1;
	if (old > 0)
		rc = purge_entries(t, (int)old);
	p->misses = rc == 0 ? p->misses + 1 : 0;
	if (rc == -1)
		return -1;
	if ((page.last && old == 0) || p->kept >= PURGE_DEEPEST || p->misses > MISSES_MAX) {
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
