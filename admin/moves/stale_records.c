/* Counts entries of the history, and records without a dead letter, that are too old. */
#include <stdlib.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/moves/stale.h"

#include "admin/cli/cli.h"
#include "common/base/base.h"
#include "common/dead_letters/dead_letters.h"
#include "common/queue/queue.h"

#define HISTORY_PAGE 500

/* ---- history ---- */

static int history_page(struct admin *a, struct stale *s, int64_t before_ms, char from[QUEUE_RECORD_ID_SIZE])
{
	struct redis_reply reply;
	bool follow = true;

	queue_history_look(&a->redis, &s->keys, from[0] == '\0' ? "-" : from, before_ms, HISTORY_PAGE);
	if (admin_reply(a, &reply, s->keys.done) == -1)
		return -1;
	if (!redis_is_strings(&reply))
		return admin_fail(a, EX_PROTOCOL, "%s: unexpected reply from Redis: expected entries", s->keys.done);
	for (size_t i = 0; i + 1 < reply.n; i += 2) {
		struct redis_reply id = redis_element(&reply, i);
		uint64_t ms = 0, serial;

		queue_record_id_parse(id.str, &ms, &serial);
		stale_add(s, STALE_DONE, s->clock.now_ms - (int64_t)ms);
		follow = queue_record_id_next(id.str, from);
	}
	return follow && reply.n / 2 == HISTORY_PAGE;
}

int stale_done(struct admin *a, struct stale *s)
{
	char from[QUEUE_RECORD_ID_SIZE] = "";
	int64_t before_ms;
	int rc = 1;

	if (!purge_takes_done(s->conf))
		return 0;
	stale_begin(s, STALE_DONE);
	if (!purge_oldest(s->conf->purge.max_done_age_ms, &s->clock, &before_ms))
		return 0;
	while (rc == 1 && !interrupt_asked())
		rc = history_page(a, s, before_ms, from);
	return rc == -1 ? -1 : 0;
}

/* ---- records ---- */

static int read_forwarded(struct admin *a, struct stale *s, char out[QUEUE_RECORD_ID_SIZE])
{
	struct redis_reply reply;

	queue_forwarded(&a->redis, &s->keys);
	if (admin_reply(a, &reply, s->keys.log) == -1)
		return -1;
	if (queue_forward_paged(&reply) == -1)
		return admin_fail(a, EX_PROTOCOL, "%s: unexpected reply type from Redis", s->keys.log);
	strlcpy(out, redis_element(&reply, 0).str, QUEUE_RECORD_ID_SIZE);
	return 0;
}

/*
 * *entries: how many dead letters a page may have; 0: the oldest is too long to be read, and the sweeper does not read
 * it either. Unchanged if the user of Redis may not run the script. -1: an error was printed.
 */
static int weigh_escape(struct admin *a, const struct stale *s, int64_t *entries)
{
	struct queue_weight weight;
	struct redis_reply reply;

	dead_letters_walk_weigh(&a->redis, &s->keys);
	if (admin_wait(a, &reply) == -1)
		return -1;
	if (queue_weighed(&reply, &weight) == 0)
		*entries = dead_letters_is_too_long(weight.first, s->conf->message_max) ? 0 : weight.page;
	return 0;
}

/* Judges a page of records. 1: a purge would remove some, and there may be more; 0: none; -1: error */
static int records_page(struct admin *a, struct stale *s, const struct dead_letters_bounds *b,
    struct dead_letters_walk *walk)
{
	struct queue_dead_letters_page page;
	struct redis_reply reply;
	struct dead_letters *l;
	int64_t entries = DEAD_LETTERS_PAGE;
	size_t n;

	if (weigh_escape(a, s, &entries) == -1)
		return -1;
	if (entries == 0) {
		admin_note("%s: the oldest dead letter is too long to be read, so records without a dead letter are "
		    "not counted", s->keys.name);
		return 0;
	}
	dead_letters_walk_ask(&a->redis, &s->keys, walk, entries);
	if (admin_reply(a, &reply, s->keys.log) == -1)
		return -1;
	if (queue_dead_letters_paged(&reply, &page) == -1)
		return admin_fail(a, EX_PROTOCOL, "%s: unexpected reply from Redis: expected records", s->keys.log);
	l = dead_letters_walk_page(walk, &page);
	n = dead_letters_judge_orphans(l, b);
	for (size_t i = 0; i < l->nrecords; i++)
		if (l->records[i].fate == DEAD_LETTER_LEAVES)
			stale_add(s, STALE_RECORDS, page.server_ms - l->records[i].ms);
	dead_letters_walk_on(walk, l);
	dead_letters_free(l);
	return n > 0;
}

int stale_records(struct admin *a, struct stale *s)
{
	struct dead_letters_bounds b = { .max_entries = -1 };
	char last[QUEUE_RECORD_ID_SIZE];
	struct dead_letters_walk *walk;
	int rc = 1;

	if (!purge_takes_orphans(s->conf))
		return 0;
	stale_begin(s, STALE_RECORDS);
	if (!purge_oldest(s->conf->purge.max_orphaned_age_ms, &s->clock, &b.oldest_ms))
		return 0;
	if (s->conf->dead_letter.forward_to != NULL && read_forwarded(a, s, last) == -1)
		return -1;
	if (s->conf->dead_letter.forward_to != NULL)
		b.forwarded = last;
	walk = alloc_zero(1, sizeof(*walk));
	while (rc == 1 && !interrupt_asked())
		rc = records_page(a, s, &b, walk);
	free(walk);
	return rc == -1 ? -1 : 0;
}
