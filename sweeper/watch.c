/*
 * Owners nobody reports: of supervisors that held our lock, of hosts that vanished (by lease, dead.c),
 * and of dead ones what arrives late (late.c). Those dead for an hour are forgotten. A round of looks is made every half
 * lease, over the queues that are ours and some that are not (registry.c).
 */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/sweeper.h"

#include "common/alloc.h"
#include "common/clock.h"
#include "common/queue_watch.h"

#define OWN_PATIENCE_MS 120000	/* at least: the master sees to its own, and back-off may keep them away for a while */
#define LEASE_MAX_MS (60 * 60 * 1000)	/* what a configuration allows */
#define FORGET_MS (60 * 60 * 1000)

/* Some of the workers that were read; names are for what is asked of them together. */
struct owners {
	const struct queue_worker **who;
	const char **name;
	size_t n;
};

static struct owners owners_new(size_t most)
{
	return (struct owners){ alloc_zero(most + 1, sizeof(struct queue_worker *)), alloc_zero(most + 1, sizeof(char *)), 0 };
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

/* Those from first on, at most so many. */
static struct owners owners_group(const struct owners *o, size_t first, size_t most)
{
	size_t left = o->n - first;

	return (struct owners){ o->who + first, o->name + first, left < most ? left : most };
}

/* ---- owners without a lease ---- */

/* As it was left by the look before; else one that begins. */
static struct absence absence_of(struct sweeper *s, const struct swept *q, const struct queue_worker *w)
{
	int64_t own_ms = s->conf->supervisor.lease_ms, theirs_ms = w->lease_ms > LEASE_MAX_MS ? LEASE_MAX_MS : w->lease_ms;
	struct absence a = { .lease_ms = theirs_ms > own_ms ? theirs_ms : own_ms };

	for (size_t i = 0; i < q->nabsences; i++)
		if (strcmp(q->absences[i].incarnation, w->incarnation) == 0)
			return q->absences[i];
	strlcpy(a.incarnation, w->incarnation, sizeof(a.incarnation));
	calm_pulse(&a.calm, &s->pulse, a.lease_ms);
	return a;
}

/* A worker of this master; *i is its name, read. */
static bool is_own(const struct sweeper *s, const struct queue_worker *w, struct incarnation *i)
{
	return incarnation_parse(i, w->incarnation) == 0 && i->boot == s->child->boot && i->slot >= 0 && i->slot < SCOREBOARD_SLOTS;
}

static void log_undecided(const struct swept *q, struct absence *a, int64_t now_ms)
{
	a->undecided = true;
	log_warning("rescue_undecided", log_str("queue", q->keys.name), log_str("incarnation", a->incarnation),
	    log_int("missed_ms", now_ms - a->first_ms), log_str("reason", doubt_text(a->calm.doubt)),
	    log_str("advice", "if that worker is dead, quredis retry QUEUE transit returns its messages"));
}

/* How long it may be without a lease. A worker that is cut off comes back to the trays of its last name only. */
static int64_t patience_of(const struct sweeper *s, const struct queue_worker *w, int64_t lease_ms)
{
	struct incarnation i;

	if (!is_own(s, w, &i) || w->superseded)
		return lease_ms;
	return 4 * lease_ms > OWN_PATIENCE_MS ? 4 * lease_ms : OWN_PATIENCE_MS;
}

/* The master reports its own dead. So an own worker that it did not report lives, and what it left here charges nobody. */
static void missed(struct sweeper *s, struct swept *q, const struct queue_worker *w, int64_t asked_ms, struct absence *now, size_t *n)
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

/* Some of this group have no lease: which? */
static int ask_each(struct sweeper *s, struct swept *q, const struct owners *group, struct absence *now, size_t *n)
{
	int64_t asked_ms = clock_boottime_ms(), present;
	int rc = 0;

	for (size_t i = 0; i < group->n; i++)
		queue_leases(&s->redis, &q->keys, &group->name[i], 1);
	for (size_t i = 0; i < group->n; i++)
		if (connection_integer(s, &present) == -1)
			rc = -1;
		else if (present == 0)
			missed(s, q, group->who[i], asked_ms, now, n);
	return rc;
}

static int look_at_leases(struct sweeper *s, struct swept *q, const struct owners *living)
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
	if (rc == -1) {			/* who was not asked for is unknown: nobody counts as missed since the look before */
		free(now);
		for (size_t i = 0; i < q->nabsences; i++)
			dead_unseen(&q->absences[i]);
		return -1;
	}
	free(q->absences);
	q->absences = now;
	q->nabsences = n;
	swept_publish_undecided(q);
	return 0;
}

/* ---- one queue's dead ---- */

static int forget(struct sweeper *s, struct swept *q, const struct queue_worker *w)
{
	int64_t forgotten;

	if (w->died_at_ms == 0 || s->pulse.server_ms - w->died_at_ms < FORGET_MS)
		return 0;
	queue_forget(&s->redis, &q->keys, w->incarnation);
	return connection_integer(s, &forgotten);
}

/* ---- rescues that were broken off ---- */

static bool is_being_rescued(const struct swept *q, const char *incarnation)
{
	const struct rescue *r;

	TAILQ_FOREACH(r, &q->rescues, entry)
		if (strcmp(r->incarnation, incarnation) == 0)
			return true;
	return false;
}

static bool is_registered(const struct queue_worker *workers, size_t n, const char *incarnation)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(workers[i].incarnation, incarnation) == 0)
			return true;
	return false;
}

/*
 * A sweeper notes whose messages it returns, and takes that away at the end. What is noted still, of the bare list or of
 * somebody not registered any more, nobody else may come upon. The sweeper may live: so only at the second look.
 */
static void take_over_rescues(struct swept *q, const struct redis_reply *reply, const struct queue_worker *workers, size_t n)
{
	char **names;
	size_t found = queue_rescues_parse(reply, &names), broken_off = 0;

	for (size_t i = 0; i < found; i++) {
		if (is_registered(workers, n, names[i]) || is_being_rescued(q, names[i]))
			continue;
		broken_off++;
		if (q->broken_off)
			rescue_add(q, names[i][0] == '\0' ? NULL : names[i], "late", BLAME_NOBODY, false)->fence = names[i][0] != '\0';
	}
	q->broken_off = broken_off > 0;
	queue_rescues_free(names, found);
}

/* ---- one queue ---- */

/*
 * A worker of this master that died, or settled everything and left. Its messages were returned, or it had none, so if it has some
 * now, Redis has returned to an earlier state, or another server answers.
 */
static bool is_buried(const struct sweeper *s, const struct queue_worker *w)
{
	struct incarnation i;

	return is_own(s, w, &i) && i.generation <= atomic_load(&s->child->board->buried[i.slot]);
}

/* A living worker of ours has left this name, and says that nothing runs any more that was fetched under it. */
static bool is_left_behind(const struct sweeper *s, const struct queue_worker *w)
{
	const struct slot *slot;
	struct incarnation i;

	if (!w->superseded || !is_own(s, w, &i))
		return false;
	slot = &s->child->board->slots[i.slot];
	return atomic_load(&slot->pid) == w->pid && atomic_load(&slot->abandoned) > i.generation;
}

/* Into those to be looked at as dead, those that should have a lease, and those that need no look. */
static int sort_owner(struct sweeper *s, struct swept *q, const struct queue_worker *w, struct owners *living, struct owners *dead)
{
	if (is_being_rescued(q, w->incarnation))
		return 0;
	if (w->died_at_ms != 0) {
		owners_add(dead, w);
	} else if (recover_is_ours(s, w)) {
		if (dead_boots_end(s, w->incarnation) == -1)
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

/* One whose handlers do not end yet holds up no other. */
static int look_at_workers(struct sweeper *s, struct swept *q, const struct queue_worker *workers, size_t n)
{
	struct owners living = owners_new(n), dead = owners_new(n);
	int sorted = 0, rc;

	dead_boots_note(s, workers, n);
	for (size_t i = 0; i < n; i++)
		sorted = sort_owner(s, q, &workers[i], &living, &dead) == -1 ? -1 : sorted;
	rc = look_at_leases(s, q, &living);
	if (rc == 0)
		rc = late_look(s, q, dead.name, dead.n, false);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = forget(s, q, &workers[i]);
	owners_free(&living);
	owners_free(&dead);
	return sorted == -1 ? -1 : rc;
}

static int look(struct sweeper *s, struct swept *q)
{
	struct queue_worker *workers;
	struct redis_reply reply;
	size_t n;
	int rc;

	if (swept_workers(s, q, &reply, &workers, &n) == -1)
		return -1;
	take_over_rescues(q, &reply, workers, n);
	rc = look_at_workers(s, q, workers, n);
	queue_workers_free(workers, n);
	return rc;
}

/* ---- the task ---- */

/* What is not ours, and of which there is nothing more to see to. */
static bool is_idle(const struct swept *q)
{
	return q->conf == NULL && TAILQ_EMPTY(&q->rescues) && q->nabsences == 0 && !q->broken_off;
}

bool watch_queue(struct sweeper *s, struct swept *q, int64_t now_ms)
{
	int rc = look(s, q);

	connection_drain(s);
	if (rc == 0)
		trouble_over(s, q, task_trouble(q, TASK_look));
	else if (q->conf != NULL)
		trouble_note(s, q, task_trouble(q, TASK_look), "workers", now_ms);
	else
		registry_wrong(s, q->keys.name);
	if (!is_idle(q))
		return true;
	swept_drop(s, q);
	return false;
}

/* Not before the last one is over, or those at its end would never come. */
void watch_round(struct sweeper *s)
{
	struct swept *q;

	if (s->looking)
		return;
	s->looking = true;
	TAILQ_FOREACH(q, &s->queues, entry)
		q->unlooked = q->recovery == RECOVERED;
	registry_round(s);
}

/*
 * A worker of ours came back under a new name: what it left under an older one need not wait for the next round. Each
 * connection may be to another server, with other names on it.
 */
static void look_after_names(const struct sweeper *s, struct swept *q)
{
	uint32_t renamed = q->board == NULL ? 0 : atomic_load(&q->board->renamed);

	if (renamed == 0 || q->recovery != RECOVERED ||
	    (renamed == q->renamed_seen && s->redis.connection == q->renamed_connection))
		return;
	q->renamed_seen = renamed;
	q->renamed_connection = s->redis.connection;
	q->unlooked = true;
}

static bool run_look(struct sweeper *s, int budget, int64_t now_ms)
{
	struct swept *q, *next;

	TAILQ_FOREACH_SAFE(q, &s->queues, entry, next) {
		look_after_names(s, q);
		if (!q->unlooked)
			continue;
		if (budget == 0 || !sweeper_goes_on(s))
			return s->looking;
		q->unlooked = false;
		if (trouble_waits(task_trouble(q, TASK_look), now_ms))
			continue;
		budget--;
		watch_queue(s, q, now_ms);
	}
	s->looking = s->looking && registry_look(s, budget, now_ms);
	return s->looking;
}

const struct task look_task = { .name = "look", .budget = 32, .run = run_look, .in_queues = true };
