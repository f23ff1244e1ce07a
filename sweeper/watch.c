/*
 * Owners nobody reports: of supervisors that held our lock, of hosts that vanished (by lease, dead.c),
 * and of dead ones what arrives late. Those dead for an hour are forgotten.
 */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/sweeper.h"

#include "common/alloc.h"
#include "common/clock.h"
#include "common/queue_watch.h"

#define OWN_PATIENCE_MS 120000	/* at least: the master sees to its own, and back-off may keep them away for a while */
#define FORGET_MS (60 * 60 * 1000)
#define HOLDINGS_OWNERS 25

struct names {
	const char **name;	/* of the workers that were read */
	size_t n;
};

/* ---- pulses ---- */

bool pulse_task(struct sweeper *s, int budget, int64_t now_ms)
{
	struct redis_reply reply;
	struct pulse p;
	int64_t n;

	(void)budget;
	(void)now_ms;
	queue_pulse(&s->redis, s->conf->supervisor.node);
	if (connection_integer(s, &n) == -1 || connection_answer(s, &reply) == -1 || queue_time_parse(&reply) == -1) {
		calm_broken(&s->calm);
		return false;
	}
	p = (struct pulse){ .boottime_ms = clock_boottime_ms(), .server_ms = queue_time_parse(&reply),
		.run_id = s->server.run_id, .connection = s->redis.connection };
	calm_pulse(&s->calm, &p, s->conf->supervisor.lease_ms);
	return false;
}

/* ---- owners without a lease ---- */

static int64_t absent_since(const struct swept *q, const char *incarnation)
{
	for (size_t i = 0; i < q->nabsences; i++)
		if (strcmp(q->absences[i].incarnation, incarnation) == 0)
			return q->absences[i].since_ms;
	return 0;
}

/* How long it may be without a lease. */
static int64_t patience_of(const struct sweeper *s, const char *incarnation)
{
	int64_t lease_ms = s->conf->supervisor.lease_ms;
	struct incarnation i;

	if (incarnation_parse(&i, incarnation) == -1 || i.boot != s->child->boot)
		return lease_ms;
	return 4 * lease_ms > OWN_PATIENCE_MS ? 4 * lease_ms : OWN_PATIENCE_MS;
}

static void missed(struct sweeper *s, struct swept *q, const char *incarnation, int64_t asked_ms, struct absence *now, size_t *n)
{
	int64_t since = dead_absent_since(absent_since(q, incarnation), &s->calm, clock_boottime_ms());

	if (dead_by_lease(since, &s->calm, asked_ms, patience_of(s, incarnation))) {
		log_warning("owner_lost", log_str("queue", q->keys.name), log_str("incarnation", incarnation));
		rescue_add(q, incarnation, "lease", true, false);
		return;
	}
	strlcpy(now[*n].incarnation, incarnation, sizeof(now[*n].incarnation));
	now[(*n)++].since_ms = since;
}

/* Some of this group have no lease: which? */
static int ask_each(struct sweeper *s, struct swept *q, const struct names *group, struct absence *now, size_t *n)
{
	int64_t asked_ms = clock_boottime_ms(), present;
	int rc = 0;

	for (size_t i = 0; i < group->n; i++)
		queue_leases(&s->redis, &q->keys, &group->name[i], 1);
	for (size_t i = 0; i < group->n; i++)
		if (connection_integer(s, &present) == -1)
			rc = -1;
		else if (present == 0)
			missed(s, q, group->name[i], asked_ms, now, n);
	return rc;
}

static int look_at_leases(struct sweeper *s, struct swept *q, const struct names *living)
{
	struct absence *now = alloc_zero(living->n + 1, sizeof(*now));
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < living->n && rc == 0; i += QUEUE_OWNERS_MAX) {
		size_t left = living->n - i;
		struct names group = { living->name + i, left < QUEUE_OWNERS_MAX ? left : QUEUE_OWNERS_MAX };
		int64_t present;

		queue_leases(&s->redis, &q->keys, group.name, group.n);
		rc = connection_integer(s, &present);
		if (rc == 0 && present < (int64_t)group.n)
			rc = ask_each(s, q, &group, now, &n);
	}
	free(q->absences);
	q->absences = now;
	q->nabsences = n;
	return rc;
}

/* ---- late arrivals ---- */

static int look_at_each(struct sweeper *s, struct swept *q, const struct names *group)
{
	int64_t holding;
	int rc = 0;

	for (size_t i = 0; i < group->n; i++)
		queue_holdings(&s->redis, &q->keys, &group->name[i], 1);
	for (size_t i = 0; i < group->n; i++)
		if (connection_integer(s, &holding) == -1)
			rc = -1;
		else if (holding > 0)
			rescue_add(q, group->name[i], "late", false, false);
	return rc;
}

static int look_at_dead(struct sweeper *s, struct swept *q, const struct names *dead)
{
	for (size_t i = 0; i < dead->n; i += HOLDINGS_OWNERS) {
		size_t left = dead->n - i;
		struct names group = { dead->name + i, left < HOLDINGS_OWNERS ? left : HOLDINGS_OWNERS };
		int64_t holding;

		queue_holdings(&s->redis, &q->keys, group.name, group.n);
		if (connection_integer(s, &holding) == -1 || (holding > 0 && look_at_each(s, q, &group) == -1))
			return -1;
	}
	return 0;
}

static int forget(struct sweeper *s, struct swept *q, const struct queue_worker *w)
{
	int64_t forgotten;

	if (w->died_at_ms == 0 || s->calm.last_server_ms - w->died_at_ms < FORGET_MS)
		return 0;
	queue_forget(&s->redis, &q->keys, w->incarnation);
	return connection_integer(s, &forgotten);
}

/* ---- one queue ---- */

static bool is_being_rescued(const struct swept *q, const char *incarnation)
{
	const struct rescue *r;

	TAILQ_FOREACH(r, &q->rescues, entry)
		if (strcmp(r->incarnation, incarnation) == 0)
			return true;
	return false;
}

/* Into those to be looked at as dead, those that should have a lease, and those that need no look. */
static int sort_owner(struct sweeper *s, struct swept *q, const struct queue_worker *w, struct names *living, struct names *dead)
{
	if (is_being_rescued(q, w->incarnation))
		return 0;
	if (w->died_at_ms != 0) {
		dead->name[dead->n++] = w->incarnation;
	} else if (recover_is_ours(s, w)) {
		if (recover_end_handlers(s, w->incarnation) == -1)
			return -1;
		rescue_add(q, w->incarnation, "lock", true, false);
	} else {
		living->name[living->n++] = w->incarnation;
	}
	return 0;
}

static int look_at_workers(struct sweeper *s, struct swept *q, const struct queue_worker *workers, size_t n)
{
	struct names living = { alloc_zero(n + 1, sizeof(char *)), 0 }, dead = { alloc_zero(n + 1, sizeof(char *)), 0 };
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = sort_owner(s, q, &workers[i], &living, &dead);
	if (rc == 0)
		rc = look_at_leases(s, q, &living);
	if (rc == 0)
		rc = look_at_dead(s, q, &dead);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = forget(s, q, &workers[i]);
	free(living.name);
	free(dead.name);
	return rc;
}

static int look(struct sweeper *s, struct swept *q)
{
	struct queue_worker *workers;
	struct redis_reply reply;
	size_t n;
	int rc;

	queue_workers(&s->redis, &q->keys);
	if (connection_answer(s, &reply) == -1)
		return -1;
	n = queue_workers_parse(&reply, &workers);
	rc = look_at_workers(s, q, workers, n);
	queue_workers_free(workers, n);
	return rc;
}

bool look_task(struct sweeper *s, int budget, int64_t now_ms)
{
	struct swept *q;

	/* Our own write comes first: if it is refused nobody is judged. */
	pulse_task(s, budget, now_ms);
	TAILQ_FOREACH(q, &s->queues, entry) {
		if (q->conf == NULL || q->recovery != RECOVERED || trouble_waits(&q->watch_trouble, now_ms))
			continue;
		if (!sweeper_goes_on(s))
			return false;
		if (look(s, q) == -1) {
			connection_drain(s);
			trouble_note(s, q, &q->watch_trouble, "workers", now_ms);
		} else {
			trouble_over(s, q, &q->watch_trouble);
		}
	}
	return false;
}
