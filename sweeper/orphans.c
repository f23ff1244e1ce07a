/*
 * Purge of records without a dead letter: those that are older than purge.max_orphaned_age and whose message is proven
 * to be gone (letters_pair.c) leave, also where dead letters have no bounds. Not where there is an archive: what leaves
 * there is written to it first, by letters.c. A dry run names them.
 */
#include "sweeper/sweeper.h"

#include "common/clock.h"
#include "common/queue_letters.h"

#define PAGE_BYTES (1024 * 1024)

/* What failed before the clock was seen to be set may be as young as that. */
static bool is_known(const struct sweeper *s, int64_t age_ms, int64_t *oldest_ms)
{
	struct age_clock clock;

	if (!server_clock_age(&s->clock, clock_boottime_ms(), &clock))
		return false;
	*oldest_ms = clock.now_ms - age_ms;
	return clock.stepped_ms == 0 || *oldest_ms > clock.stepped_ms;
}

static void name_those(struct swept *q, const struct letters *l, size_t n, int64_t server_ms)
{
	for (size_t i = 0; i < l->nrecords; i++)
		if (l->records[i].fate == LETTER_LEAVES)
			log_info("orphan_would_go", log_str("queue", q->keys.name), log_str("record", l->records[i].id),
			    log_int("age_ms", server_ms - l->records[i].ms), log_int("limit_ms", q->conf->purge.max_orphaned_age_ms));
	swept_count(q, COUNT_WOULD_PURGE, n);
}

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
	struct redis_reply reply;
	struct letters *l;
	void *kept;
	int rc = 0;
	size_t n;

	queue_letters_page(&s->redis, &q->keys, LETTERS_PAGE, PAGE_BYTES);
	if (connection_answer(s, &reply) == -1)
		return -1;
	if (queue_letters_paged(&reply, &page) == -1) {
		trouble_say(s, TROUBLE_OTHER, "an answer of a kind that was not expected");
		return -1;
	}
	kept = redis_keep(&s->redis);
	l = letters_new(&page);
	n = letters_judge_orphans(l, b);
	if (n > 0 && s->conf->purge.dry_run)
		name_those(q, l, n, page.server_ms);
	else if (n > 0)
		rc = remove_those(s, q, l);
	letters_free(l);
	redis_let_go(kept);
	return rc;
}

static void sweep(struct sweeper *s, struct swept *q, int budget, int64_t now_ms)
{
	struct letters_bounds b = { .max_entries = -1 };
	char forwarded[QUEUE_RECORD_ID_SIZE];
	int rc;

	if (!is_known(s, q->conf->purge.max_orphaned_age_ms, &b.oldest_ms))
		return;
	if (q->conf->dead_letter.forward_to != NULL)
		b.forwarded = forwarded;
	rc = b.forwarded != NULL && letters_forwarded(s, q, forwarded) == -1 ? -1 : 1;
	while (rc == 1 && budget-- > 0 && sweeper_goes_on(s))
		rc = look(s, q, &b);
	if (rc == 0)
		q->orphans_at_ms = now_ms + s->conf->purge.interval_ms;
	if (rc != -1) {
		trouble_over(s, q, &q->orphans_trouble);
		return;
	}
	trouble_note(s, q, &q->orphans_trouble, "orphans", now_ms);
	q->orphans_at_ms = q->orphans_trouble.retry_at_ms;
}

bool orphans_task(struct sweeper *s, int budget, int64_t now_ms)
{
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry) {
		if (q->conf == NULL || !s->conf->purge.enabled || q->conf->dead_letter.archive != NULL || !lead_is_ours(q) ||
		    now_ms < q->orphans_at_ms || !sweeper_goes_on(s))
			continue;
		sweep(s, q, budget, now_ms);
		connection_drain(s);
	}
	return false;
}
