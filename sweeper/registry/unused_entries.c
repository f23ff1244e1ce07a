/*
 * Purge of unused registry entries. An entry leaves if at every look for purge.max_orphaned_age its queue had no
 * message, record, worker, leader or pause, and no configuration here names it. A host that serves the queue, or
 * registers it again, renews the score (registry.c), and an entry with another score counts as new. A script compares
 * score and entry before it removes them. If the queue was used in that moment, the sweeper enters it again.
 */
#include "sweeper/registry/unused_entries.h"

#include "sweeper/core/core.h"
#include "sweeper/registry/registry.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "common/queue/queue.h"

#define TURN_LEAST_MS 1000
#define TURN_MOST_MS (5 * 60 * 1000)
#define LOOKS 24		/* turns, at least, until an entry is old enough */
#define PROOF_MS (3 * QUEUE_REGISTRY_SHOWN_MS)	/* a host that serves the queue has renewed the score by then */
#define GAP_LEAST_MS 60000	/* a turn through a long registry takes time */

extern const struct task unused_entries_task;

/* The task's own state. */
struct search {
	struct unused_entries known;
	struct registry_page page;
	size_t next;		/* entry of it; <= page.n */
	int64_t begun_ms;	/* CLOCK_MONOTONIC: begin of this turn; 0: none yet */
};

static struct search *search_of(const struct sweeper *s)
{
	return task_own(s, &unused_entries_task);
}

static int64_t limit_ms(const struct sweeper *s)
{
	return s->conf->purge.max_orphaned_age_ms < PROOF_MS ? PROOF_MS : s->conf->purge.max_orphaned_age_ms;
}

static int64_t turn_ms(const struct sweeper *s)
{
	int64_t every = limit_ms(s) / LOOKS;

	return every < TURN_LEAST_MS ? TURN_LEAST_MS : every > TURN_MOST_MS ? TURN_MOST_MS : every;
}

static int64_t gap_ms(const struct sweeper *s)
{
	return limit_ms(s) / 2 < GAP_LEAST_MS ? GAP_LEAST_MS : limit_ms(s) / 2;
}

/* The lists of an entry; -1: they are not known. A name without an entry has the default lists. */
static int keys_of(const struct sweeper *s, const struct registered *e, struct queue_keys *keys)
{
	if (e->unread)
		return -1;
	if (e->json != NULL)
		return queue_registered_parse(keys, s->conf->redis.prefix, e->name, e->json, strlen(e->json));
	queue_keys_default(keys, s->conf->redis.prefix, e->name);
	return 0;
}

/* ---- what leaves ---- */

static void name_it(struct sweeper *s, struct unused_entry *v, int64_t now_ms)
{
	if (v->logged_ms != 0 && now_ms - v->logged_ms < s->conf->purge.interval_ms)
		return;
	v->logged_ms = now_ms;
	atomic_fetch_add(&s->child->board->sweeper.registry.would_leave, 1);
	log_info("registration_would_be_removed", log_str("queue", v->name), log_int("age_ms", now_ms - v->since_ms),
	    log_int("limit_ms", s->conf->purge.max_orphaned_age_ms));
}

static int remove_it(struct sweeper *s, const struct unused_entry *v, const struct queue_keys *keys, int64_t now_ms)
{
	struct redis_reply reply;
	int64_t gone, used;

	queue_unregister(&s->redis, v->name, v->score, v->json);
	queue_is_used(&s->redis, keys);
	if (connection_integer(s, &gone) == -1 || connection_integer(s, &used) == -1)
		return -1;
	if (gone == 0)
		return 0;
	if (used > 0) {			/* while its entry was removed: enters it again */
		queue_register(&s->redis, keys, true);
		return connection_answer(s, &reply) == -1 || connection_answer(s, &reply) == -1 ? -1 : 0;
	}
	atomic_fetch_add(&s->child->board->sweeper.registry.left, 1);
	log_info("registration_removed", log_str("queue", v->name), log_int("age_ms", now_ms - v->since_ms),
	    log_int("limit_ms", s->conf->purge.max_orphaned_age_ms));
	queue_forget_totals(&s->redis, keys);
	return connection_integer(s, &gone);
}

/* ---- looks ---- */

static int look_behind(struct sweeper *s, const struct registered *e, const struct queue_keys *keys, int64_t now_ms)
{
	struct unused_entries *known = &search_of(s)->known;
	struct unused_entry *v;
	int64_t used;
	int rc = 0;

	queue_is_used(&s->redis, keys);
	if (connection_integer(s, &used) == -1)
		return -1;
	v = used > 0 ? NULL : unused_entries_note(known, e, gap_ms(s), now_ms);
	if (used > 0)
		unused_entries_forget(known, e->name);
	if (v == NULL || now_ms - v->since_ms < limit_ms(s))
		return 0;
	if (s->conf->purge.dry_run) {
		name_it(s, v, now_ms);
	} else {
		rc = remove_it(s, v, keys, now_ms);
		unused_entries_forget(known, e->name);
	}
	return rc;
}

static void look_at_entry(struct sweeper *s, const struct registered *e, int64_t now_ms)
{
	struct unused_entries *known = &search_of(s)->known;
	struct queue_keys keys;
	int rc = 0;

	if (sweeper_queue_find(s, e->name) != NULL || keys_of(s, e, &keys) == -1) {
		unused_entries_forget(known, e->name);
		return;
	}
	if (sweeper_queue_has_transit(s, keys.transit))
		unused_entries_forget(known, e->name);
	else
		rc = look_behind(s, e, &keys, now_ms);
	if (rc == -1)
		registry_note_error(s, e->name);
	queue_keys_free(&keys);
}

/* One page a step, so that no step takes long. False: the registry cannot be read. */
static bool begin_page(struct sweeper *s, int64_t now_ms)
{
	struct search *v = search_of(s);

	if (v->page.rank == 0) {
		if (v->begun_ms != 0)
			unused_entries_end_turn(&v->known);
		v->begun_ms = now_ms;
	}
	v->next = 0;
	return registry_page_next(s, &v->page) == 0;
}

static bool run_unused_entries(struct sweeper *s, int budget, int64_t now_ms)
{
	struct search *v = search_of(s);
	bool between_turns = v->page.rank == 0 && v->begun_ms != 0 && now_ms - v->begun_ms < turn_ms(s);

	if (!s->conf->purge.enabled || between_turns || !sweeper_is_active(s))
		return false;
	for (; budget > 0 && begin_page(s, now_ms); budget--) {
		while (v->next < v->page.n && sweeper_goes_on(s)) {
			look_at_entry(s, &v->page.entries[v->next++], now_ms);
			connection_drain(s);
		}
		if (v->page.rank == 0)
			break;
	}
	return false;
}

static void free_own(struct sweeper *s)
{
	unused_entries_free(&search_of(s)->known);
	registry_page_drop(&search_of(s)->page);
}

const struct task unused_entries_task = { .name = "unused_entries", .interval_ms = 1000, .budget = 1,
	.run = run_unused_entries,
	.own_size = sizeof(struct search), .free_own = free_own };
