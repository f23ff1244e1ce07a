/*
 * Looks for owners that are dead and that no master reports: those of supervisors that held our lock before, of hosts
 * that vanished, and dead names of living workers.
 *
 * Twice a lease a round wakes this task for each queue: it reads the registrations of the queue and asks for the leases
 * of all owners that should have one. A missing lease proves nothing by itself: Redis may have refused the renewals,
 * may not have answered, or may have returned to an earlier state; or the worker is cut off while Redis answers the
 * sweeper. So the first look that misses a lease only creates an `absence`. The owner is dead if later looks miss its
 * lease, too, for as long as its patience, while pulses show that it could have renewed the lease all the time
 * (common/queue/dead.c decides). Any doubt starts that time anew. If the lease is missing for long without such a
 * proof, the owner is `undecided`: the log, status and health say why the sweeper does not return its messages.
 *
 * Three kinds of owners need no such proof: an owner under our own lock whose supervisor is gone, a worker that the
 * master has reaped, and a name that a living worker of ours has left. The task also checks the trays of owners that
 * are marked dead for late messages (rescue_add_late()), and forgets these owners after an hour.
 *
 * A sweeper writes into Redis whose messages it returns. This task finds a note that outlives its sweeper, and takes
 * its rescue over.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/rescue/watch.h"

#include "sweeper/core/core.h"
#include "sweeper/registry/registry.h"
#include "sweeper/rescue/dead_supervisors.h"
#include "sweeper/rescue/foreign.h"
#include "sweeper/rescue/pulse.h"
#include "sweeper/rescue/recover.h"
#include "sweeper/rescue/rescue.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

/* at least: the master reports the death of its own workers, and back-off may keep a living one from Redis for a
 * while */
#define OWN_PATIENCE_MS 120000
#define LEASE_MAX_MS (60 * 60 * 1000)	/* what a configuration allows */
#define FORGET_MS (60 * 60 * 1000)
/* after a look at 10,000 registrations no other one for 5 s: looks take some percent of the time at most */
#define OWNERS_PER_MS 2

/* Some of the registered workers; name is an array for requests about all of them. */
struct owners {
	const struct queue_worker **who;
	const char **name;
	size_t n;
};

static struct owners owners_new(size_t most)
{
	return (struct owners){ alloc_zero(most + 1, sizeof(struct queue_worker *)),
	    alloc_zero(most + 1, sizeof(char *)), 0 };
}

static void owners_add(struct owners *o, const struct queue_worker *w)
{
	o->who[o->n] = w;
	o->name[o->n++] = w->incarnation;
}

static void owners_free(struct owners *o)
{
	free(o->who);
	free(o->name);
}

/* A view of the owners from `first` on, at most `most`. */
static struct owners owners_group(const struct owners *o, size_t first, size_t most)
{
	size_t left = o->n - first;

	return (struct owners){ o->who + first, o->name + first, left < most ? left : most };
}

/* The state of the task in a queue. */
struct watch {
	struct absence *absences;	/* owners without a lease at the last look, by name */
	size_t nabsences;
	size_t undecided;		/* the first of them that is; nabsences: none */
	bool broken_off;		/* the last look found a rescue whose sweeper may be dead */
	int64_t next_ms;		/* CLOCK_MONOTONIC: no look before */
	uint32_t renamed_seen;		/* board->workers.renamed at the last look that it caused, */
	int64_t renamed_connection;	/* and redis.connection */
};

static struct watch *watch_of(const struct sweeper_queue *q)
{
	return task_state(q, &watch_task);
}

/* ---- owners without a lease ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct absence *)a)->incarnation, ((const struct absence *)b)->incarnation);
}

/* The absence from the last look, or a new one. */
static struct absence absence_of(struct sweeper *s, const struct sweeper_queue *q, const struct queue_worker *w)
{
	int64_t own_ms = s->conf->supervisor.lease_ms,
	    theirs_ms = w->lease_ms > LEASE_MAX_MS ? LEASE_MAX_MS : w->lease_ms;
	struct absence a = { .lease_ms = theirs_ms > own_ms ? theirs_ms : own_ms }, *known;

	strlcpy(a.incarnation, w->incarnation, sizeof(a.incarnation));
	known = watch_of(q)->nabsences == 0 ? NULL
	    : bsearch(&a, watch_of(q)->absences, watch_of(q)->nabsences, sizeof(a), by_name);
	if (known != NULL)
		return *known;
	calm_pulse(&a.calm, pulse_last(s), a.lease_ms);
	return a;
}

/* True: the owner is a worker of this master; *i is its name, parsed. */
static bool is_own(const struct sweeper *s, const struct queue_worker *w, struct incarnation *i)
{
	return incarnation_parse(i, w->incarnation) == 0 && i->boot == s->child->boot && i->slot >= 0 &&
	    i->slot < SCOREBOARD_SLOTS;
}

static void log_undecided(const struct sweeper_queue *q, struct absence *a, int64_t now_ms)
{
	a->undecided = true;
	log_warning("rescue_undecided", log_str("queue", q->keys.name), log_str("incarnation", a->incarnation),
	    log_int("missed_ms", now_ms - a->first_ms), log_str("reason", doubt_text(a->calm.doubt)),
	    log_str("advice", "if that worker is dead, quredis retry QUEUE transit returns its messages"));
}

/*
 * Returns how long the owner may be without a lease. A worker of this master that was cut off takes over the trays of
 * its last name when it comes back, so that name may be without a lease for longer. An older name, and a worker of
 * another master, have one lease.
 */
static int64_t patience_of(const struct sweeper *s, const struct queue_worker *w, int64_t lease_ms)
{
	struct incarnation i;

	if (!is_own(s, w, &i) || w->superseded)
		return lease_ms;
	return 4 * lease_ms > OWN_PATIENCE_MS ? 4 * lease_ms : OWN_PATIENCE_MS;
}

/*
 * A look found no lease. The master reports its own dead workers, so a worker that it did not report is alive, and the
 * messages that it left under this name are not charged.
 */
static void note_missing_lease(struct sweeper *s, struct sweeper_queue *q, const struct queue_worker *w,
    int64_t asked_ms, struct absence *now, size_t *n)
{
	struct absence a = absence_of(s, q, w);
	int64_t patience_ms = patience_of(s, w, a.lease_ms);

	if (dead_missed(&a, asked_ms, clock_boottime_ms(), patience_ms)) {
		struct incarnation i;

		log_warning("owner_lost", log_str("queue", q->keys.name), log_str("incarnation", w->incarnation));
		rescue_add_owner(q, w, "lease", is_own(s, w, &i) ? BLAME_NOBODY : BLAME_OUTAGE, false);
		return;
	}
	if (!a.undecided && dead_is_undecided(&a, asked_ms, patience_ms))
		log_undecided(q, &a, asked_ms);
	now[(*n)++] = a;
}

/* Some owner of this group has no lease: asks Redis for the lease of each. */
static int ask_each(struct sweeper *s, struct sweeper_queue *q, const struct owners *group, struct absence *now,
    size_t *n)
{
	int64_t asked_ms = clock_boottime_ms(), present;
	int rc = 0;

	for (size_t i = 0; i < group->n; i++)
		queue_leases(&s->redis, &q->keys, &group->name[i], 1);
	for (size_t i = 0; i < group->n; i++)
		if (connection_integer(s, &present) == -1)
			rc = -1;
		else if (present == 0)
			note_missing_lease(s, q, group->who[i], asked_ms, now, n);
	return rc;
}

static int look_at_leases(struct sweeper *s, struct sweeper_queue *q, const struct owners *living)
{
	struct absence *now = alloc_zero(living->n + 1, sizeof(*now));
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < living->n && rc == 0; i += QUEUE_OWNERS_MAX) {
		struct owners group = owners_group(living, i, QUEUE_OWNERS_MAX);
		int64_t present;

		queue_leases(&s->redis, &q->keys, group.name, group.n);
		rc = connection_integer(s, &present);
		if (rc == 0 && present < (int64_t)group.n)
			rc = ask_each(s, q, &group, now, &n);
	}
	if (rc == -1) {			/* the look is incomplete: it proves no absence, and every count begins anew */
		free(now);
		for (size_t i = 0; i < watch_of(q)->nabsences; i++)
			dead_unseen(&watch_of(q)->absences[i]);
		return -1;
	}
	free(watch_of(q)->absences);
	watch_of(q)->absences = now;
	watch_of(q)->nabsences = n;
	for (n = 0; n < watch_of(q)->nabsences && !now[n].undecided; n++)
		;
	assert(n <= watch_of(q)->nabsences && watch_of(q)->nabsences <= living->n);
	watch_of(q)->undecided = n;
	watch_publish_undecided(q);
	return 0;
}

/* ---- dead owners of one queue ---- */

static int forget_owners(struct sweeper *s, struct sweeper_queue *q, const struct owners *dead)
{
	int64_t forgotten;
	int rc = 0;

	for (size_t i = 0, asked = 0; i < dead->n && rc == 0; i++) {
		if (pulse_last(s)->server_ms - dead->who[i]->died_at_ms >= FORGET_MS) {
			queue_forget(&s->redis, &q->keys, dead->name[i]);
			asked++;
		}
		for (bool read = asked == QUEUE_OWNERS_MAX || i + 1 == dead->n; read && asked > 0; asked--)
			rc = connection_integer(s, &forgotten) == -1 ? -1 : rc;
	}
	return rc;
}

/* ---- rescues that were interrupted ---- */

/*
 * A sweeper notes in Redis whose messages it returns, and deletes the note at the end. A note about the bare list, or
 * about an owner that is not registered any more, is the only trace of an interrupted rescue. The sweeper that wrote it
 * may be alive, so it is taken over only if the second look finds it, too.
 */
static void take_over_rescues(struct sweeper_queue *q, const struct redis_reply *reply,
    const struct queue_worker *workers, size_t n)
{
	char **names;
	size_t found = queue_rescues_parse(reply, &names), broken_off = 0;

	for (size_t i = 0; i < found; i++) {
		if (queue_workers_find(workers, n, names[i]) != NULL || rescue_find(q, names[i]) != NULL)
			continue;
		broken_off++;
		if (watch_of(q)->broken_off && names[i][0] == '\0')
			rescue_add_bare(q, "late", BLAME_NOBODY, false, false);
		else if (watch_of(q)->broken_off)
			rescue_add(q, names[i], "late", BLAME_NOBODY, false);
	}
	watch_of(q)->broken_off = broken_off > 0;
	queue_rescues_free(names, found);
}

/* ---- one queue ---- */

/*
 * A worker of this master that died, or settled everything and exited. Its messages were returned, or it had none. If
 * it has messages now, Redis has returned to an earlier state, or another server answers.
 */
static bool is_buried(const struct sweeper *s, const struct queue_worker *w)
{
	struct incarnation i;

	return is_own(s, w, &i) && i.generation <= atomic_load(&s->child->board->master.buried[i.slot]);
}

/* A living worker of this master has another name now, and reports that no message fetched under this name runs any
 * more. */
static bool is_left_behind(const struct sweeper *s, const struct queue_worker *w)
{
	const struct slot *slot;
	struct incarnation i;

	if (!w->superseded || !is_own(s, w, &i))
		return false;
	slot = &s->child->board->slots[i.slot];
	return atomic_load(&slot->pid) == w->pid && atomic_load(&slot->abandoned) > i.generation;
}

/* Adds the owner to the dead ones, to those that should have a lease, or to neither. */
static int sort_owner(struct sweeper *s, struct sweeper_queue *q, const struct queue_worker *w, struct owners *living,
    struct owners *dead)
{
	if (rescue_find(q, w->incarnation) != NULL)
		return 0;
	if (w->died_at_ms != 0) {
		owners_add(dead, w);
	} else if (recover_is_ours(s, w)) {
		if (dead_supervisors_end(s, w->incarnation) == -1)
			return -1;
		rescue_add_owner(q, w, "lock", BLAME_OUTAGE, false);
	} else if (is_buried(s, w)) {
		rescue_add_owner(q, w, "reported", BLAME_NOBODY, false);
	} else if (is_left_behind(s, w)) {
		rescue_add_owner(q, w, "left", BLAME_NOBODY, false);
	} else {
		owners_add(living, w);
	}
	return 0;
}

/* Goes on with the other owners if the leftovers of one owner have not ended yet. */
static int look_at_workers(struct sweeper *s, struct sweeper_queue *q, const struct redis_reply *reply,
    const struct queue_worker *workers, size_t n, void *unused)
{
	struct owners living = owners_new(n), dead = owners_new(n);
	int sorted = 0, rc;

	(void)unused;
	watch_of(q)->next_ms = clock_monotonic_ms() + (int64_t)n / OWNERS_PER_MS;
	take_over_rescues(q, reply, workers, n);
	dead_supervisors_note(s, workers, n);
	for (size_t i = 0; i < n; i++)
		sorted = sort_owner(s, q, &workers[i], &living, &dead) == -1 ? -1 : sorted;
	rc = look_at_leases(s, q, &living);
	if (rc == 0)
		rc = rescue_add_late(s, q, dead.name, dead.n, false);
	if (rc == 0)
		rc = forget_owners(s, q, &dead);
	owners_free(&living);
	owners_free(&dead);
	return sorted == -1 ? -1 : rc;
}

/* ---- the task ---- */

static uint32_t renamed(const struct sweeper_queue *q)
{
	return q->board == NULL ? 0 : atomic_load(&q->board->workers.renamed);
}

static enum task_end run_watch(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	int rc;

	(void)budget;
	if (now_ms < watch_of(q)->next_ms) {
		task_wake_at(q, &watch_task, watch_of(q)->next_ms);
		return TASK_DONE;
	}
	watch_of(q)->renamed_seen = renamed(q);
	watch_of(q)->renamed_connection = s->redis.connection;
	rc = sweeper_queue_use_workers(s, q, look_at_workers, NULL);
	if (q->conf != NULL)
		return rc == -1 ? TASK_FAILED : TASK_DONE;
	if (rc == -1)
		registry_note_error(s, q->keys.name);
	return RB_EMPTY(&rescues_of(q)->by_name) && watch_of(q)->nabsences == 0 && !watch_of(q)->broken_off
	    ? TASK_REMOVE : TASK_DONE;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	(void)s;
	return q->recovered;
}

/*
 * A worker of this master has reconnected under a new name: messages under its older names need not wait for the next
 * round. Each connection may lead to another server, with other names on it.
 */
static bool is_urgent(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms)
{
	const struct watch *w = watch_of(q);

	return now_ms >= w->next_ms && renamed(q) != 0 &&
	    (renamed(q) != w->renamed_seen || s->redis.connection != w->renamed_connection);
}

static void free_state(struct sweeper_queue *q)
{
	free(watch_of(q)->absences);
}

const struct task watch_task = { .name = "workers", .interval_ms = TASK_WHEN_WOKEN_MS, .budget = 1, .queues = 32,
	.wanted = is_wanted, .urgent = is_urgent,
	.run_queue = run_watch, .state_size = sizeof(struct watch), .free = free_state };

/* Begins a round only when the last one is over: otherwise the sweeper might never look at the queues at its end. */
void watch_round(struct sweeper *s, int64_t now_ms)
{
	if (!foreign_is_busy(s) && task_wake_all(s, &watch_task, now_ms))
		foreign_round(s);
}

/* ---- for pulse.c and rescue.c ---- */

static void break_calm(struct sweeper *s, struct sweeper_queue *q, void *why)
{
	(void)s;
	for (size_t i = 0; i < watch_of(q)->nabsences; i++)
		calm_broken(&watch_of(q)->absences[i].calm, *(const enum doubt *)why);
}

void watch_break_calm(struct sweeper *s, enum doubt why)
{
	sweeper_queues_each(s, break_calm, &why);
}

static void pass_pulse(struct sweeper *s, struct sweeper_queue *q, void *pulse)
{
	struct watch *w = watch_of(q);

	(void)s;
	for (size_t i = 0; i < w->nabsences; i++)
		calm_pulse(&w->absences[i].calm, pulse, w->absences[i].lease_ms);
}

void watch_pulse(struct sweeper *s, const struct pulse *p)
{
	struct pulse copy = *p;

	sweeper_queues_each(s, pass_pulse, &copy);
}

static void count_absences(struct sweeper *s, struct sweeper_queue *q, void *sum)
{
	(void)s;
	*(size_t *)sum += watch_of(q)->nabsences;
}

bool watch_misses_owners(struct sweeper *s)
{
	size_t n = 0;

	sweeper_queues_each(s, count_absences, &n);
	return n > 0;
}

void watch_publish_undecided(struct sweeper_queue *q)
{
	const struct watch *w = watch_of(q);
	uint32_t word = 0;

	if (w->undecided < w->nabsences)
		word = (uint32_t)w->absences[w->undecided].calm.doubt + 1;
	else if (rescue_keeps_failing(q))
		word = DOUBT_MOVES + 1;
	if (q->board != NULL)
		atomic_store(&q->board->sweeper.undecided, word);
}
