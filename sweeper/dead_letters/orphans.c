/*
 * Purge of records without a dead letter. A record leaves if it is older than purge.max_orphaned_age and its message is
 * proven to be gone (dead_letters/pair.c), even in a queue without bounds of dead letters. In a queue with an archive
 * bounds.c removes them instead, after writing them to the archive. A dry run makes the same decisions and only names
 * the records.
 */
#include "sweeper/dead_letters/dead_letters.h"

#include <stdlib.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "common/dead_letters/dead_letters.h"
#include "sweeper/dead_letters/bounds.h"
#include "sweeper/core/core.h"

#define PAGES_EVERY_MS 100

extern const struct task orphans_task;

struct orphans {
	bool over;			/* the requested round is over */
	struct dead_letters_walk *walk;	/* the walk of a round of a dry run; else NULL */
};

static struct orphans *orphans_of(const struct sweeper_queue *q)
{
	return task_state(q, &orphans_task);
}

static bool is_known(const struct sweeper *s, int64_t age_ms, int64_t *oldest_ms)
{
	struct age_clock clock;

	return server_clock_age(&s->clock, clock_boottime_ms(), &clock) && purge_oldest(age_ms, &clock, oldest_ms);
}

/* ---- a dry run ---- */

static void name_those(struct sweeper_queue *q, const struct dead_letters *l, size_t n, int64_t server_ms)
{
	for (size_t i = 0; i < l->nrecords; i++)
		if (l->records[i].fate == DEAD_LETTER_LEAVES)
			log_info("orphan_would_be_removed", log_str("queue", q->keys.name),
			    log_str("record", l->records[i].id),
			    log_int("age_ms", server_ms - l->records[i].ms),
			    log_int("limit_ms", q->conf->purge.max_orphaned_age_ms));
	dead_letters_walk_on(orphans_of(q)->walk, l);
	sweeper_queue_count(q, COUNT_WOULD_PURGE, n);
}

static void end_round(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	free(orphans_of(q)->walk);
	orphans_of(q)->walk = NULL;
	/* purge.c may start it sooner */
	task_wake_at(q, &orphans_task, now_ms + 2 * s->conf->purge.interval_ms);
	orphans_of(q)->over = true;
}

/* ---- a live run ---- */

/* A message that fails again gets a new record, so a record without a message on this page stays without one. */
static int remove_those(struct sweeper *s, struct sweeper_queue *q, const struct dead_letters *l)
{
	const char *ids[DEAD_LETTERS_PAGE];
	int64_t gone;
	size_t n = 0;

	for (size_t i = 0; i < l->nrecords; i++)
		if (l->records[i].fate == DEAD_LETTER_LEAVES)
			ids[n++] = l->records[i].id;
	queue_records_remove(&s->redis, &q->keys, ids, n);
	if (connection_integer(s, &gone) == -1)
		return -1;
	sweeper_queue_count(q, COUNT_ORPHANED, (uint64_t)gone);
	log_info("orphans_removed", log_str("queue", q->keys.name), log_int("records", gone), log_str("first", ids[0]),
	    log_str("last", ids[n - 1]), log_int("limit_ms", q->conf->purge.max_orphaned_age_ms));
	return 1;
}

/* 1: records were removed, there may be more; 0: none; -1: error */
static int look_for_orphans(struct sweeper *s, struct sweeper_queue *q, const struct dead_letters_bounds *b)
{
	struct queue_dead_letters_page page;
	struct dead_letters *l;
	void *kept;
	bool dry_run = s->conf->purge.dry_run;
	int rc = 0;
	size_t n;

	if (dry_run && orphans_of(q)->walk == NULL)
		orphans_of(q)->walk = alloc_zero(1, sizeof(*orphans_of(q)->walk));
	rc = dead_letters_page_read(s, q, orphans_of(q)->walk, &page);
	if (rc != 1)
		return rc;
	rc = 0;
	kept = redis_keep(&s->redis);
	l = dry_run ? dead_letters_walk_page(orphans_of(q)->walk, &page) : dead_letters_new(&page);
	n = dead_letters_judge_orphans(l, b);
	if (n > 0 && dry_run)
		name_those(q, l, n, page.server_ms);
	if (n > 0)
		rc = dry_run ? 1 : remove_those(s, q, l);
	dead_letters_free(l);
	redis_let_go(kept);
	return rc;
}

/* ---- the task ---- */

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	return q->conf != NULL && s->conf->purge.enabled && purge_takes_orphans(q->conf);
}

bool orphans_come_first(const struct sweeper *s, const struct sweeper_queue *q)
{
	return is_wanted(s, q) && !orphans_of(q)->over && !task_fails(q, &orphans_task);
}

void orphans_begin(struct sweeper_queue *q, int64_t now_ms)
{
	orphans_of(q)->over = false;
	task_wake_at(q, &orphans_task, now_ms);
}

static enum task_end run_orphans(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct dead_letters_bounds b = { .max_entries = -1 };
	char forwarded[QUEUE_RECORD_ID_SIZE];
	int rc = 1;

	if (!is_known(s, q->conf->purge.max_orphaned_age_ms, &b.oldest_ms)) {
		end_round(s, q, now_ms);
		return TASK_DONE;
	}
	if (q->conf->dead_letter.forward_to != NULL)
		b.forwarded = forwarded;
	if (b.forwarded != NULL && forward_last_id(s, q, forwarded) == -1)
		rc = -1;
	while (rc == 1 && budget-- > 0 && sweeper_goes_on(s))
		rc = look_for_orphans(s, q, &b);
	if (rc == 0)
		end_round(s, q, now_ms);
	return rc == -1 ? TASK_FAILED : TASK_DONE;
}

static void free_state(struct sweeper_queue *q)
{
	free(orphans_of(q)->walk);
}

const struct task orphans_task = { .name = "orphans", .interval_ms = PAGES_EVERY_MS, .budget = 4, .leads = true,
	.wanted = is_wanted,
	.run_queue = run_orphans, .state_size = sizeof(struct orphans), .free = free_state };
