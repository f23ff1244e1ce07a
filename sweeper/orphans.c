/*
 * Purge of records without a dead letter: those that are older than purge.max_orphaned_age and whose message is proven
 * to be gone (letters_pair.c) leave, also where dead letters have no bounds. Not where there is an archive: what leaves
 * there is written to it first, by letters.c. A dry run goes the same way and names them.
 */
#include "sweeper/orphans.h"

#include <stdlib.h>

#include <bsd/string.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/queue_letters.h"
#include "sweeper/sweeper.h"

#define PAGES_EVERY_MS 100

static bool is_known(const struct sweeper *s, int64_t age_ms, int64_t *oldest_ms)
{
	struct age_clock clock;

	return server_clock_age(&s->clock, clock_boottime_ms(), &clock) && purge_oldest(age_ms, &clock, oldest_ms);
}

/* ---- a dry run ---- */

static void name_those(struct swept *q, const struct letters *l, size_t n, int64_t server_ms)
{
	for (size_t i = 0; i < l->nrecords; i++)
		if (l->records[i].fate == LETTER_LEAVES)
			log_info("orphan_would_go", log_str("queue", q->keys.name), log_str("record", l->records[i].id),
			    log_int("age_ms", server_ms - l->records[i].ms), log_int("limit_ms", q->conf->purge.max_orphaned_age_ms));
	letters_walk_on(q->orphans_walk, l);
	swept_count(q, COUNT_WOULD_PURGE, n);
}

static void end_round(struct sweeper *s, struct swept *q, int64_t now_ms)
{
	free(q->orphans_walk);
	q->orphans_walk = NULL;
	q->orphans_at_ms = now_ms + 2 * s->conf->purge.interval_ms;	/* sooner if purge.c asks */
	q->orphans_over = true;
}

/* ---- a live run ---- */

/* A message that fails again comes with a record of its own: what was alone on the page stays so. */
static int remove_those(struct sweeper *s, struct swept *q, const struct letters *l)
{
	const char *ids[LETTERS_PAGE];
	int64_t gone;
	size_t n = 0;

	for (size_t i = 0; i < l->nrecords; i++)
		if (l->records[i].fate == LETTER_LEAVES)
			ids[n++] = l->records[i].id;
	queue_records_remove(&s->redis, &q->keys, ids, n);
	if (connection_integer(s, &gone) == -1)
		return -1;
	swept_count(q, COUNT_ORPHANED, (uint64_t)gone);
	log_info("orphans_removed", log_str("queue", q->keys.name), log_int("records", gone), log_str("first", ids[0]),
	    log_str("last", ids[n - 1]), log_int("limit_ms", q->conf->purge.max_orphaned_age_ms));
	return 1;
}

/* 1: some left, there may be more; 0: none; -1: error */
static int look(struct sweeper *s, struct swept *q, const struct letters_bounds *b)
{
	struct queue_letters_page page;
	struct letters *l;
	void *kept;
	bool dry_run = s->conf->purge.dry_run;
	int rc = 0;
	size_t n;

	if (dry_run && q->orphans_walk == NULL)
		q->orphans_walk = alloc_zero(1, sizeof(*q->orphans_walk));
	rc = letters_page_read(s, q, q->orphans_walk, &page);
	if (rc != 1)
		return rc;
	rc = 0;
	kept = redis_keep(&s->redis);
	l = dry_run ? letters_walk_page(q->orphans_walk, &page) : letters_new(&page);
	n = letters_judge_orphans(l, b);
	if (n > 0 && dry_run)
		name_those(q, l, n, page.server_ms);
	if (n > 0)
		rc = dry_run ? 1 : remove_those(s, q, l);
	letters_free(l);
	redis_let_go(kept);
	return rc;
}

/* ---- the task ---- */

static bool is_wanted(const struct sweeper *s, const struct swept *q)
{
	return q->conf != NULL && s->conf->purge.enabled && purge_takes_orphans(q->conf);
}

bool orphans_come_first(const struct sweeper *s, const struct swept *q)
{
	return is_wanted(s, q) && !q->orphans_over && q->orphans_trouble.kind == TROUBLE_NONE;
}

void orphans_begin(struct swept *q, int64_t now_ms)
{
	q->orphans_over = false;
	q->orphans_at_ms = now_ms;
}

static void sweep(struct sweeper *s, struct swept *q, int budget, int64_t now_ms)
{
	struct letters_bounds b = { .max_entries = -1 };
	char forwarded[QUEUE_RECORD_ID_SIZE];
	int rc = 1;

	if (!is_known(s, q->conf->purge.max_orphaned_age_ms, &b.oldest_ms)) {
		end_round(s, q, now_ms);
		return;
	}
	if (q->conf->dead_letter.forward_to != NULL)
		b.forwarded = forwarded;
	if (b.forwarded != NULL && letters_forwarded(s, q, forwarded) == -1)
		rc = -1;
	while (rc == 1 && budget-- > 0 && sweeper_goes_on(s))
		rc = look(s, q, &b);
	if (rc == -1) {
		trouble_note(s, q, &q->orphans_trouble, "orphans", now_ms);
		q->orphans_at_ms = q->orphans_trouble.retry_at_ms;
		return;
	}
	trouble_over(s, q, &q->orphans_trouble);
	if (rc == 0)
		end_round(s, q, now_ms);
	else
		q->orphans_at_ms = now_ms + PAGES_EVERY_MS;
}

bool orphans_task(struct sweeper *s, int budget, int64_t now_ms)
{
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry) {
		if (!is_wanted(s, q) || !lead_is_ours(q) || now_ms < q->orphans_at_ms || !sweeper_goes_on(s))
			continue;
		sweep(s, q, budget, now_ms);
		connection_drain(s);
	}
	return false;
}
