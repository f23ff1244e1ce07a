/*
 * Returns the messages of a dead owner to where they were fetched from; a message whose workers died of it too often escapes. Other files decide
 * which owner is dead: recover.c, deaths.c, watch.c.
 *
 * A rescue goes on in bounded steps until all trays are empty. Each step begins with the owner's rescue list and returns a page of it (page.c). When
 * that list is empty, the step fences the trays: it renames each of them to the rescue list, so the owner, if it lives after all, finds its tray gone
 * and cannot settle a message that others may already run. If nothing was left in any tray, the owner is marked dead in its registration, and
 * the rescue is over.
 *
 * No state of this is only in memory. The list of rescues here says what to do next, but each step reads Redis first and is one script or one
 * rename that checks what it moves. So a sweeper that is killed at any point is followed by one that begins at the top, and two sweepers that rescue
 * the same owner at once share the work. Redis may also have executed a step whose answer was lost: repeating it finds nothing to move.
 *
 * Each rescue has an error and a back-off of its own, so a tray of the wrong type, or a page that breaks the connection each time,
 * holds up no other owner.
 */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/core/core.h"

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/rescue/page.h"
#include "sweeper/rescue/rescue.h"
#include "sweeper/rescue/watch.h"

#define LOOK_MS 100		/* while all rescues of a queue wait for their back-off */
#define LATE_GROUP 25		/* owners; four keys each */
#define PAGE_BYTES (1u << 20)	/* about so much of a list is in memory at a time */

int rescue_page(size_t n, size_t bytes)
{
	size_t fit = PAGE_BYTES / (bytes / (n == 0 ? 1 : n) + 1);

	return fit < 1 ? 1 : fit > RESCUE_PAGE_MAX ? RESCUE_PAGE_MAX : (int)fit;
}

bool rescue_judge(struct wrapper *w, enum blame blame, bool tried, int64_t tray, int recovery_attempts)
{
	bool charged = tray == 1 && (blame == BLAME_WORKER || (blame == BLAME_OUTAGE && tried));

	w->redelivered++;
	if (charged)
		w->crashes++;
	else if (tray != 1 || blame == BLAME_OUTAGE)
		w->solo = true;		/* the next run shows whether this message was the cause */
	if (blame == BLAME_OUTAGE && !charged && w->outages < MESSAGE_OUTAGES_MAX)
		w->outages++;
	return charged && w->crashes > recovery_attempts;
}

/* ---- the list of owners ---- */

static int compare_names(const struct rescue *a, const struct rescue *b)
{
	return strcmp(a->incarnation, b->incarnation);
}

RB_PROTOTYPE(rescue_tree, rescue, by_name, compare_names)
RB_GENERATE(rescue_tree, rescue, by_name, compare_names)

struct rescues *rescues_of(const struct sweeper_queue *q)
{
	struct rescues *all = task_state(q, &rescue_task);

	if (all->list.tqh_last == NULL)
		TAILQ_INIT(&all->list);
	return all;
}

struct rescue *rescue_find(const struct sweeper_queue *q, const char *incarnation)
{
	struct rescue like;

	strlcpy(like.incarnation, incarnation, sizeof(like.incarnation));
	return RB_FIND(rescue_tree, &rescues_of(q)->by_name, &like);
}

bool rescue_keeps_failing(const struct sweeper_queue *q)
{
	const struct rescue *r;

	TAILQ_FOREACH(r, &rescues_of(q)->list, entry)
		if (r->error.times >= TASK_ERROR_PERSISTS)
			return true;
	return false;
}

static bool is_reported(const struct rescue *r)
{
	return strcmp(r->why, "reported") == 0;
}

static void insert(struct sweeper_queue *q, struct rescue *r)
{
	if (is_reported(r))
		TAILQ_INSERT_HEAD(&rescues_of(q)->list, r, entry);
	else
		TAILQ_INSERT_TAIL(&rescues_of(q)->list, r, entry);
}

struct rescue *rescue_add(struct sweeper_queue *q, const char *incarnation, const char *why, enum blame blame, bool gate)
{
	struct rescue *r = rescue_find(q, incarnation);

	if (r == NULL) {
		r = alloc_zero(1, sizeof(*r));
		strlcpy(r->incarnation, incarnation, sizeof(r->incarnation));
		incarnation_parse(&r->who, incarnation);
		r->why = why;
		r->blame = blame;
		r->fence = true;
		RB_INSERT(rescue_tree, &rescues_of(q)->by_name, r);
		insert(q, r);
	} else if (strcmp(why, "reported") == 0) {
		r->why = why;
		TAILQ_REMOVE(&rescues_of(q)->list, r, entry);
		insert(q, r);
	}
	r->gate = r->gate || gate;
	task_wake_at(q, &rescue_task, 0);
	return r;
}

struct rescue *rescue_add_owner(struct sweeper_queue *q, const struct queue_worker *who, const char *why, enum blame blame, bool gate)
{
	bool blameless = who->stopping || who->died_at_ms != 0 || who->superseded;
	struct rescue *r = rescue_add(q, who->incarnation, why, blameless ? BLAME_NOBODY : blame, gate);

	strlcpy(r->trial, who->trial, sizeof(r->trial));
	return r;
}

void rescue_add_bare(struct sweeper_queue *q, const char *why, enum blame blame, bool fence, bool gate)
{
	rescue_add(q, "", why, blame, gate)->fence = fence;
}

void rescue_count(struct rescue *r, bool escaped)
{
	r->escaped += escaped;
	r->returned += !escaped;
}

static void drop_rescue(struct sweeper_queue *q, struct rescue *r)
{
	TAILQ_REMOVE(&rescues_of(q)->list, r, entry);
	RB_REMOVE(rescue_tree, &rescues_of(q)->by_name, r);
	task_error_forget(q, &r->error);
	free(r);
}

static void free_all(struct sweeper_queue *q)
{
	while (!TAILQ_EMPTY(&rescues_of(q)->list))
		drop_rescue(q, TAILQ_FIRST(&rescues_of(q)->list));
}

/* ---- owners whose trays fill again ---- */

static int look_at_each(struct sweeper *s, struct sweeper_queue *q, const char *const *names, size_t n, bool gate)
{
	int64_t holding;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		queue_holdings(&s->redis, &q->keys, &names[i], 1);
	for (size_t i = 0; i < n; i++)
		if (connection_integer(s, &holding) == -1)
			rc = -1;
		else if (holding > 0)
			rescue_add(q, names[i], "late", BLAME_NOBODY, gate);
	return rc;
}

/*
 * A rescue fences the trays of an owner, empties its rescue list, and marks the owner dead. But a command of that owner may still be on its way: a
 * BRPOPLPUSH that a proxy or a full socket held back puts a message into the tray after it was emptied. No worker fetches from there, so the message
 * would wait forever. Therefore each look (watch.c) and each recovery checks the trays of all owners that are marked dead and not yet forgotten, and
 * begins a new rescue where one is not empty. That rescue charges no message, since such a message never ran.
 *
 * There can be thousands of dead owners, because each new connection of a worker leaves a dead name for an hour, and the trays
 * of nearly all are empty. So a request asks for the sum of a group, and only a group that is not empty is checked one by one.
 */
int rescue_add_late(struct sweeper *s, struct sweeper_queue *q, const char *const *names, size_t n, bool gate)
{
	for (size_t i = 0; i < n; i += LATE_GROUP) {
		size_t some = n - i < LATE_GROUP ? n - i : LATE_GROUP;
		int64_t holding;

		queue_holdings(&s->redis, &q->keys, &names[i], some);
		if (connection_integer(s, &holding) == -1 || (holding > 0 && look_at_each(s, q, &names[i], some, gate) == -1))
			return -1;
	}
	return 0;
}

/* ---- the trays ---- */

/* Fences the trays. 1: a tray or the rescue list has messages; 0: all are empty; -1: error. */
static int fence_trays(struct rescue_page *p)
{
	struct sweeper *s = p->s;
	int found = 0, n = p->owner == NULL ? 1 : QUEUE_TRAYS;

	for (int tray = 0; tray < n; tray++) {
		char *source = p->owner == NULL ? alloc_string(p->q->keys.transit)
						: queue_tray_key(&p->q->keys, p->owner, tray);

		queue_fence(&s->redis, &p->q->keys, p->owner, source, p->rescue);
		free(source);
	}
	for (int tray = 0; tray < n; tray++) {
		int64_t answer;

		if (connection_integer(s, &answer) == -1)
			return -1;
		if (answer != 0)
			found = 1;
	}
	return found;
}

static void bare_is_fenced(struct rescue_page *p)
{
	p->r->fence = false;
	if (p->q->board != NULL && atomic_load(&p->q->board->sweeper.recovered) == RECOVERED_NOTHING)
		atomic_store(&p->q->board->sweeper.recovered, RECOVERED_BARE);
}

/* An owner whose registration is missing or cannot be parsed cannot be marked dead: its registration is removed. */
static int mark_dead(struct rescue_page *p)
{
	struct redis *redis = &p->s->redis;
	int64_t answer;

	queue_rescue_over(redis, &p->q->keys, p->owner);
	if (p->owner != NULL)
		queue_mark_dead(redis, &p->q->keys, p->owner);
	if (connection_integer(p->s, &answer) == -1 || (p->owner != NULL && connection_integer(p->s, &answer) == -1))
		return -1;
	if (p->owner == NULL || answer == 1)
		return 0;
	queue_forget(redis, &p->q->keys, p->owner);
	return connection_integer(p->s, &answer);
}

/* An empty bare list is logged only at level debug. */
static void log_done(const struct rescue_page *p)
{
	bool news = p->owner != NULL || p->r->returned + p->r->escaped > 0;

	log_event(news ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "rescue_done", log_str("queue", p->q->keys.name), log_str("incarnation", p->owner), log_str("reason", p->r->why),
	    log_int("returned", (int64_t)p->r->returned), log_int("escaped", (int64_t)p->r->escaped));
}

/*
 * Checks the lease again, for an owner that is dead because its lease was missing. Since then the sweeper may have connected to
 * another server, on which the owner lives, or to one that returned to an earlier state. On one connection a missing lease does
 * not come back. 1: the owner has a lease; 0: it is dead here, too; -1: error.
 */
static int check_lease(struct rescue_page *p)
{
	int64_t present;

	if (strcmp(p->r->why, "lease") != 0)
		return 0;
	queue_leases(&p->s->redis, &p->q->keys, &p->owner, 1);
	if (connection_integer(p->s, &present) == -1)
		return -1;
	if (present > 0)
		log_warning("rescue_called_off", log_str("queue", p->q->keys.name), log_str("incarnation", p->owner));
	return present > 0;
}

/* One bounded step. 1: all messages of this owner are returned, or the owner lives; 0: there is more; -1: error. */
static int rescue_step(struct rescue_page *p)
{
	int rc = p->r->fence ? check_lease(p) : 0;

	if (rc != 0)
		return rc;
	rc = rescue_page_return(p);
	if (rc == 0 && p->r->fence) {
		rc = fence_trays(p);
		if (rc != -1 && p->owner == NULL)
			bare_is_fenced(p);
	}
	if (rc != 0)
		return rc == -1 ? -1 : 0;
	if (mark_dead(p) == -1)
		return -1;
	log_done(p);
	return 1;
}

static int rescue_step_of(struct sweeper *s, struct sweeper_queue *q, struct rescue *r)
{
	struct rescue_page *p = rescue_page_new(s, q, r);
	int rc = rescue_step(p);

	connection_drain(s);
	rescue_page_free(p);
	return rc;
}

/* ---- the task ---- */

static void end_rescue(struct sweeper_queue *q, struct rescue *r)
{
	if (r->gate) {
		rescues_of(q)->returned += r->returned;
		rescues_of(q)->escaped += r->escaped;
	}
	drop_rescue(q, r);
}

static struct rescue *next_ready(struct sweeper_queue *q, int64_t now_ms)
{
	struct rescue *r;

	TAILQ_FOREACH(r, &rescues_of(q)->list, entry)
		if (!task_error_waits(&r->error, now_ms))
			return r;
	return NULL;
}

/* Makes only this rescue wait, also if the connection was lost: other owners and queues go on. */
static void note_failure(struct sweeper *s, struct sweeper_queue *q, struct rescue *r, int64_t now_ms)
{
	if (s->redis.state == REDIS_CLOSED)
		task_error_note_cut(q, &r->error, "rescue", now_ms);
	else
		task_error_note(s, q, &r->error, "rescue", now_ms);
	watch_publish_undecided(q);
}

static void note_success(struct sweeper *s, struct sweeper_queue *q, struct rescue *r)
{
	if (r->error.times == 0)
		return;
	task_error_clear(s, q, &r->error);
	watch_publish_undecided(q);
}

static enum task_end run_rescue(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct rescue *r;
	bool ended = false;

	while (budget-- > 0 && sweeper_goes_on(s) && (r = next_ready(q, now_ms)) != NULL) {
		int rc = rescue_step_of(s, q, r);

		if (rc == -1) {
			note_failure(s, q, r, now_ms);
			continue;
		}
		note_success(s, q, r);
		if (rc == 1) {
			end_rescue(q, r);
			ended = true;
		}
	}
	/* The master waits for the end of a rescue: another turn at once lets deaths.c report it. */
	return ended || next_ready(q, now_ms) != NULL ? TASK_MORE : TASK_DONE;
}

/* A sweeper that finishes still rescues what its master has reported. The next sweeper, or another host, begins all other rescues again. */
static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct rescue *first = TAILQ_FIRST(&rescues_of(q)->list);

	return first != NULL && (!core_is_finishing(s) || is_reported(first));
}

const struct task rescue_task = { .name = "rescue", .interval_ms = LOOK_MS, .budget = 4, .finishing = true, .wanted = is_wanted, .run_queue = run_rescue,
	.state_size = sizeof(struct rescues), .free = free_all };
