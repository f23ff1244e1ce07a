/*
 * Returns the messages of a dead owner to where they were fetched from; a message whose workers died of it too often
 * escapes. Other files decide which owner is dead: recover.c, deaths.c, watch.c.
 *
 * A rescue goes on in bounded steps until all trays are empty. Each step begins with the owner's rescue list and
 * returns a page of it (page.c). When that list is empty, the step fences the trays: it renames each of them to the
 * rescue list, so the owner, if it lives after all, finds its tray gone and cannot settle a message that others may
 * already run. If nothing was left in any tray, the owner is marked dead in its registration, and the rescue is over.
 *
 * No state of this is only in memory. The list of rescues here says what to do next, but each step reads Redis first
 * and is one script or one rename that checks what it moves. So a sweeper that is killed at any point is followed by
 * one that begins at the top, and two sweepers that rescue the same owner at once share the work. Redis may also have
 * executed a step whose answer was lost: repeating it finds nothing to move.
 *
 * Each rescue has an error and a back-off of its own, so a tray of the wrong type, or a page that breaks the connection
 * each time, holds up no other owner.
 */
#include <assert.h>
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

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_processes(const struct incarnation *a, const struct incarnation *b)
{
	int order = compare(a->boot, b->boot);

	if (order == 0)
		order = compare((uint64_t)a->slot, (uint64_t)b->slot);
	return order == 0 ? strcmp(a->node, b->node) : order;
}

static int compare_names(const struct rescue *a, const struct rescue *b)
{
	int order = compare_processes(&a->who, &b->who);

	if (order == 0)
		order = compare(a->who.generation, b->who.generation);
	return order == 0 ? strcmp(a->incarnation, b->incarnation) : order;
}

static int compare_times(const struct rescue *a, const struct rescue *b)
{
	int order = compare((uint64_t)a->at_ms, (uint64_t)b->at_ms);

	return order == 0 ? compare(a->number, b->number) : order;
}

RB_PROTOTYPE(rescue_names, rescue, by_name, compare_names)
RB_GENERATE(rescue_names, rescue, by_name, compare_names)
RB_PROTOTYPE(rescue_times, rescue, by_time, compare_times)
RB_GENERATE(rescue_times, rescue, by_time, compare_times)

struct rescues *rescues_of(const struct sweeper_queue *q)
{
	return task_state(q, &rescue_task);
}

static void set_name(struct rescue *r, const char *incarnation)
{
	strlcpy(r->incarnation, incarnation, sizeof(r->incarnation));
	incarnation_parse(&r->who, incarnation);
}

struct rescue *rescue_find(const struct sweeper_queue *q, const char *incarnation)
{
	struct rescue like = {0};

	set_name(&like, incarnation);
	return RB_FIND(rescue_names, &rescues_of(q)->by_name, &like);
}

bool rescue_covers(const struct sweeper_queue *q, const struct incarnation *i, uint64_t first)
{
	struct rescue like = { .who = *i };
	const struct rescue *r;

	like.who.generation = first;
	r = RB_NFIND(rescue_names, &rescues_of(q)->by_name, &like);
	return r != NULL && compare_processes(&r->who, i) == 0 && r->who.generation <= i->generation;
}

bool rescue_keeps_failing(const struct sweeper_queue *q)
{
	return rescues_of(q)->failing > 0;
}

bool rescue_gates(const struct sweeper_queue *q)
{
	return rescues_of(q)->gates > 0;
}

static struct rescue_times *times_of(struct rescues *all, const struct rescue *r)
{
	return strcmp(r->why, "reported") == 0 ? &all->reported : &all->others;
}

/* The sweeper changes `why`, `gate` and `error` of a rescue only between take_out() and put_in(), since they decide its
 * tree and the two counts. */
static void take_out(struct rescues *all, struct rescue *r)
{
	assert(all->gates >= r->gate && all->failing >= (r->error.times >= TASK_ERROR_PERSISTS));
	RB_REMOVE(rescue_times, times_of(all, r), r);
	all->gates -= r->gate;
	all->failing -= r->error.times >= TASK_ERROR_PERSISTS;
}

static void put_in(struct rescues *all, struct rescue *r)
{
	r->at_ms = r->error.retry_at_ms;
	RB_INSERT(rescue_times, times_of(all, r), r);
	all->gates += r->gate;
	all->failing += r->error.times >= TASK_ERROR_PERSISTS;
}

static struct rescue *begin(struct rescues *all, const char *incarnation, const char *why, enum blame blame)
{
	struct rescue *r = alloc_zero(1, sizeof(*r)), *same;

	set_name(r, incarnation);
	r->why = why;
	r->blame = blame;
	r->fence = true;
	r->number = ++all->begun;
	same = RB_INSERT(rescue_names, &all->by_name, r);
	assert(same == NULL);		/* each caller has looked: an owner has one rescue */
	return r;
}

struct rescue *rescue_add(struct sweeper_queue *q, const char *incarnation, const char *why, enum blame blame,
    bool gate)
{
	struct rescues *all = rescues_of(q);
	struct rescue *r = rescue_find(q, incarnation);

	if (r == NULL)
		r = begin(all, incarnation, why, blame);
	else
		take_out(all, r);
	if (strcmp(why, "reported") == 0)
		r->why = why;
	r->gate = r->gate || gate;
	put_in(all, r);
	task_wake_at(q, &rescue_task, 0);
	return r;
}

struct rescue *rescue_add_owner(struct sweeper_queue *q, const struct queue_worker *who, const char *why,
    enum blame blame, bool gate)
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
	take_out(rescues_of(q), r);
	RB_REMOVE(rescue_names, &rescues_of(q)->by_name, r);
	task_error_forget(q, &r->error);
	free(r);
}

static void free_all(struct sweeper_queue *q)
{
	struct rescue *r;

	while ((r = RB_ROOT(&rescues_of(q)->by_name)) != NULL)
		drop_rescue(q, r);
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

/*
 * An owner whose registration is missing or cannot be parsed cannot be marked dead: its registration is removed. The
 * mark comes before the end of the rescue, since without both renew.lua takes the trays for untouched.
 */
static int mark_dead(struct rescue_page *p)
{
	struct redis *redis = &p->s->redis;
	int64_t marked = 1, answer;

	if (p->owner != NULL)
		queue_mark_dead(redis, &p->q->keys, p->owner);
	queue_rescue_over(redis, &p->q->keys, p->owner);
	if ((p->owner != NULL && connection_integer(p->s, &marked) == -1) || connection_integer(p->s, &answer) == -1)
		return -1;
	if (marked == 1)
		return 0;
	queue_forget(redis, &p->q->keys, p->owner);
	return connection_integer(p->s, &answer);
}

/* An empty bare list is logged only at level debug. */
static void log_done(const struct rescue_page *p)
{
	bool news = p->owner != NULL || p->r->returned + p->r->escaped > 0;

	log_event(news ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "rescue_done", log_str("queue", p->q->keys.name),
	    log_str("incarnation", p->owner), log_str("reason", p->r->why),
	    log_int("returned", (int64_t)p->r->returned), log_int("escaped", (int64_t)p->r->escaped));
}

/*
 * Checks the lease again, for an owner that is dead because its lease was missing. Since then the sweeper may have
 * connected to another server, on which the owner lives, or to one that returned to an earlier state. On one connection
 * a missing lease does not come back. 1: the owner has a lease; 0: it is dead here, too; -1: error.
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

static struct rescue *next_ready(struct sweeper_queue *q, int64_t now_ms)
{
	struct rescue *r = RB_MIN(rescue_times, &rescues_of(q)->reported);

	if (r == NULL || r->at_ms > now_ms)
		r = RB_MIN(rescue_times, &rescues_of(q)->others);
	return r == NULL || r->at_ms > now_ms ? NULL : r;
}

/* The core ends the back-off of all errors on a new connection. */
static void sort_anew(struct sweeper *s, struct sweeper_queue *q)
{
	struct rescues *all = rescues_of(q);
	struct rescue *r;

	if (all->connection == s->redis.connection)
		return;
	all->connection = s->redis.connection;
	RB_FOREACH(r, rescue_names, &all->by_name) {
		take_out(all, r);
		put_in(all, r);
	}
}

/*
 * Makes only this rescue wait, also if the connection was lost: other owners and queues go on. A list of another type
 * holds up the gate only for TASK_ERROR_PERSISTS failures. The rescue then continues until the key is repaired; what it
 * returns may come after newer messages.
 */
static void note_failure(struct sweeper *s, struct sweeper_queue *q, struct rescue *r, int64_t now_ms)
{
	take_out(rescues_of(q), r);
	if (s->redis.state == REDIS_CLOSED)
		task_error_note_cut(q, &r->error, "rescue", now_ms);
	else
		task_error_note(s, q, &r->error, "rescue", now_ms);
	if (r->error.kind == QUEUE_ERROR_WRONG_TYPE && r->error.times >= TASK_ERROR_PERSISTS)
		r->gate = false;
	put_in(rescues_of(q), r);
	watch_publish_undecided(q);
}

static void note_success(struct sweeper *s, struct sweeper_queue *q, struct rescue *r)
{
	if (r->error.times == 0)
		return;
	take_out(rescues_of(q), r);
	task_error_clear(s, q, &r->error);
	put_in(rescues_of(q), r);
	watch_publish_undecided(q);
}

static enum task_end run_rescue(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct rescue *r;
	bool ended = false;

	sort_anew(s, q);
	while (budget-- > 0 && sweeper_goes_on(s) && (r = next_ready(q, now_ms)) != NULL) {
		int rc = rescue_step_of(s, q, r);

		if (rc == -1) {
			note_failure(s, q, r, now_ms);
			continue;
		}
		note_success(s, q, r);
		if (rc == 0)
			continue;
		if (r->gate) {
			rescues_of(q)->returned += r->returned;
			rescues_of(q)->escaped += r->escaped;
		}
		drop_rescue(q, r);
		ended = true;
	}
	/* The master waits for the end of a rescue: another turn at once lets deaths.c report it. */
	return ended || next_ready(q, now_ms) != NULL ? TASK_MORE : TASK_DONE;
}

/* A sweeper that finishes still rescues what its master has reported. The next sweeper, or another host, begins all
 * other rescues again. */
static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct rescues *all = rescues_of(q);

	return !RB_EMPTY(&all->reported) || (!RB_EMPTY(&all->others) && !core_is_finishing(s));
}

const struct task rescue_task = { .name = "rescue", .interval_ms = LOOK_MS, .budget = 4, .finishing = true,
	.wanted = is_wanted, .run_queue = run_rescue,
	.state_size = sizeof(struct rescues), .free = free_all };
