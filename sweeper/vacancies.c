/*
 * Purge of registry entries that nobody needs: no message, record, worker, leader or pause of that queue, no configuration
 * here that names it, and that at every look for purge.max_orphaned_age. Whoever serves such a queue elsewhere changes its
 * score (registry.c), and so does who registers it anew; then it is another entry, and young. A script compares it and
 * removes it, and who comes while that is done puts it back.
 */
#include "sweeper/sweeper.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/queue_watch.h"

#define TURN_LEAST_MS 1000
#define TURN_MOST_MS (5 * 60 * 1000)
#define LOOKS 24		/* so many turns, at least, while an entry grows old enough */
#define PROOF_MS (3 * REGISTRY_SHOWN_MS)	/* who serves it has shown it by then */
#define GAP_LEAST_MS 60000	/* a turn through a long registry takes its time */

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

/* Its lists; -1: nobody can tell which. A name alone means those of a queue by default. */
static int keys_of(const struct registered *e, struct queue_keys *keys)
{
	if (e->unread)
		return -1;
	if (e->json != NULL)
		return queue_registered_parse(keys, e->name, e->json, strlen(e->json));
	queue_keys_default(keys, e->name);
	return 0;
}

/* ---- what leaves ---- */

static void name_it(struct sweeper *s, struct vacancy *v, int64_t now_ms)
{
	if (v->told_ms != 0 && now_ms - v->told_ms < s->conf->purge.interval_ms)
		return;
	v->told_ms = now_ms;
	atomic_fetch_add(&s->child->board->registry.would_leave, 1);
	log_info("registration_would_go", log_str("queue", v->name), log_int("age_ms", now_ms - v->since_ms),
	    log_int("limit_ms", s->conf->purge.max_orphaned_age_ms));
}

/* What somebody put there while the entry went: it is known again. */
static int put_back(struct sweeper *s, const struct queue_keys *keys)
{
	struct redis_reply reply;

	queue_register(&s->redis, keys, true);
	return connection_answer(s, &reply) == -1 || connection_answer(s, &reply) == -1 ? -1 : 0;
}

static int remove_it(struct sweeper *s, const struct vacancy *v, const struct queue_keys *keys, int64_t now_ms)
{
	int64_t gone, used;

	queue_unregister(&s->redis, v->name, v->score, v->json);
	queue_is_used(&s->redis, keys);
	if (connection_integer(s, &gone) == -1 || connection_integer(s, &used) == -1)
		return -1;
	if (gone == 0)
		return 0;
	if (used > 0)
		return put_back(s, keys);
	atomic_fetch_add(&s->child->board->registry.left, 1);
	log_info("registration_removed", log_str("queue", v->name), log_int("age_ms", now_ms - v->since_ms),
	    log_int("limit_ms", s->conf->purge.max_orphaned_age_ms));
	queue_forget_totals(&s->redis, keys);
	return connection_integer(s, &gone);
}

/* ---- looks ---- */

static int look_behind(struct sweeper *s, const struct registered *e, const struct queue_keys *keys, int64_t now_ms)
{
	struct vacancies *known = &s->vacancies;
	struct vacancy *v;
	int64_t used;
	int rc = 0;

	queue_is_used(&s->redis, keys);
	if (connection_integer(s, &used) == -1)
		return -1;
	v = used > 0 ? NULL : vacancies_note(known, e, gap_ms(s), now_ms);
	if (used > 0)
		vacancies_forget(known, e->name);
	if (v == NULL || now_ms - v->since_ms < limit_ms(s))
		return 0;
	if (s->conf->purge.dry_run) {
		name_it(s, v, now_ms);
	} else {
		rc = remove_it(s, v, keys, now_ms);
		vacancies_forget(known, e->name);
	}
	return rc;
}

static void look_at(struct sweeper *s, const struct registered *e, int64_t now_ms)
{
	struct queue_keys keys;
	int rc = 0;

	if (swept_find(s, e->name) != NULL || keys_of(e, &keys) == -1) {
		vacancies_forget(&s->vacancies, e->name);
		return;
	}
	if (registry_is_seen_to(s, &keys))
		vacancies_forget(&s->vacancies, e->name);
	else
		rc = look_behind(s, e, &keys, now_ms);
	if (rc == -1)
		registry_wrong(s, e->name);
	queue_keys_free(&keys);
}

/* A page a step, so that no step is long. False: the registry cannot be read. */
static bool begin_page(struct sweeper *s, int64_t now_ms)
{
	struct vacancies *v = &s->vacancies;

	if (v->page.rank == 0) {
		if (v->begun_ms != 0)
			vacancies_end_turn(v);
		v->begun_ms = now_ms;
	}
	v->next = 0;
	return registry_page_next(s, &v->page) == 0;
}

static bool rests(const struct sweeper *s, int64_t now_ms)
{
	const struct vacancies *v = &s->vacancies;

	return v->page.rank == 0 && v->begun_ms != 0 && now_ms - v->begun_ms < turn_ms(s);
}

static bool run_vacancies(struct sweeper *s, int budget, int64_t now_ms)
{
	struct vacancies *v = &s->vacancies;

	if (!s->conf->purge.enabled || rests(s, now_ms) || atomic_load(&s->child->board->sweeper) != s->child->slot)
		return false;
	for (; budget > 0 && begin_page(s, now_ms); budget--) {
		while (v->next < v->page.n && sweeper_goes_on(s)) {
			look_at(s, &v->page.entries[v->next++], now_ms);
			connection_drain(s);
		}
		if (v->page.rank == 0)
			break;
	}
	return false;
}

const struct task vacancies_task = { .name = "vacancies", .interval_ms = 1000, .budget = 1, .run = run_vacancies };
