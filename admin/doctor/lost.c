/*
 * Finds messages that no process will find: in trays of owners that are not registered, or stuck on their way back to
 * ingress. The fix returns messages of unregistered owners, after a whole lease in which the owner gave no sign of life
 * and its trays did not change.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/doctor/checks.h"

#include "admin/moves/moves.h"
#include "common/base/base.h"
#include "common/queue/queue.h"

#define PULSES_A_LEASE 8
#define LEASE_MOST_MS (60 * 60 * 1000)	/* the longest that the configuration accepts */
#define LEASES_MOST 4		/* leases to wait at most for one without a disturbance */

/* ---- a lease without a disturbance ---- */

static int send_pulse(struct doctor *d, struct absence *a)
{
	struct pulse p = { .connection = d->a->redis.connection };
	struct redis_reply reply;
	int64_t taken;

	queue_pulse(&d->a->redis, d->a->conf->supervisor.node);
	if (admin_integer(d->a, &taken, NULL) == -1 || admin_reply(d->a, &reply, NULL) == -1)
		return -1;
	p.boottime_ms = clock_boottime_ms();
	p.server_ms = queue_time_parse(&reply);
	for (int i = 0; i < QUEUE_IDENTITY_INFOS; i++) {	/* some servers refuse INFO */
		if (doctor_reply(d, &reply) == -1)
			return -1;
		if (reply.type == REDIS_STRING)
			redis_identity_read(&p.server, reply.str, reply.len);
	}
	calm_pulse(&a->calm, &p, a->lease_ms);
	return 0;
}

/* The lease of an unregistered owner is unknown: take the longest of ours and of all registered workers. */
static int64_t longest_lease(const struct doctor *d)
{
	int64_t longest = d->a->conf->supervisor.lease_ms;

	for (size_t i = 0; i < d->queues.n; i++)
		for (size_t w = 0; w < d->queues.all[i].lists.nworkers; w++) {
			int64_t theirs = d->queues.all[i].lists.workers[w].lease_ms;

			if (theirs > longest && theirs <= LEASE_MOST_MS)
				longest = theirs;
		}
	return longest;
}

/* Waits until one lease has passed in which neither Redis nor this host stood still: in that time every living owner
 * has renewed its lease. */
static int wait_for_a_lease(struct doctor *d)
{
	struct absence a = { .lease_ms = longest_lease(d) };
	int64_t until = clock_boottime_ms() + LEASES_MOST * a.lease_ms;
	char shown[UNITS_SIZE];

	admin_note("waiting a lease (%s) for a sign of life of the owners", units_format_duration(a.lease_ms, shown));
	while (clock_boottime_ms() < until && !interrupt_asked()) {
		int64_t now;

		if (send_pulse(d, &a) == -1)
			return -1;
		now = clock_boottime_ms();
		if (dead_missed(&a, now, now, a.lease_ms))
			return 0;
		poll(NULL, 0, (int)(a.lease_ms / PULSES_A_LEASE));
	}
	return admin_fail(d->a, EX_TEMPFAIL, interrupt_asked() ? "interrupted" :
	    "Redis or this host stalled meanwhile, or Redis restarted, so no worker can be proven dead: run quredis "
	    "doctor again");
}

/* ---- returning ---- */

static int is_untouched(struct doctor *d, struct queue_check *q, const struct unregistered *u)
{
	struct unregistered now = *u;
	int rc = survey_look(d, q, &now, true);

	if (rc == -1)
		return -1;
	if (rc == 1 || now.leased || strcmp(now.signature, u->signature) != 0)
		return admin_fail(d->a, EX_TEMPFAIL,
		    "its trays changed meanwhile: its owner lives, or another process returns the messages");
	return 0;
}

static int return_messages(struct doctor *d, const struct finding *f)
{
	const struct unregistered *u = survey_find(f->queue, f->subject);
	struct retry t = { .a = d->a };
	int64_t n;

	if (!d->lost.waited && wait_for_a_lease(d) == -1)
		return -1;
	d->lost.waited = true;
	if (is_untouched(d, f->queue, u) == -1 || retry_owner(&t, u->incarnation) == -1)
		return -1;
	queue_rescue_over(&d->a->redis, &f->queue->keys, u->incarnation);
	if (admin_integer(d->a, &n, f->queue->keys.workers) == -1)
		return -1;
	return interrupt_asked() ? admin_fail(d->a, EX_TEMPFAIL, "interrupted: run doctor --fix again") : 0;
}

static const struct fix returning = { "return them to ingress after a lease without a sign of life", return_messages };

/* ---- lost ---- */

int check_lost(struct doctor *d, struct queue_check *q)
{
	for (size_t i = 0; i < q->nunregistered; i++) {
		const struct unregistered *u = &q->unregistered[i];
		char *n;

		if (u->leased)
			continue;
		if (u->wrong_type) {
			findings_advise(findings_add(d, SEVERITY_WARNING, u->incarnation,
			    "one of its trays is not a list, and it is not registered"),
			    "another program uses such a key below %s: rename or delete it", q->keys.transit);
			continue;
		}
		n = outcome_count(u->total);
		findings_offer(findings_add(d, SEVERITY_ERROR, u->incarnation,
		    "%s in trays of a worker that is not registered and has no lease: no sweeper will find them", n),
		    &returning, u->incarnation);
		free(n);
	}
	return 0;
}

/* ---- leftovers ---- */

/* Reports only messages that stay, since a rescue under way moves its messages within a moment. */
static int check_rescue(struct doctor *d, const struct queue_check *q, const char *key, int64_t n)
{
	int64_t now;
	char *count;

	if (n <= 0)
		return 0;
	doctor_let_moves_end(d);
	redis_appendf(&d->a->redis, "LLEN %s", key);
	if (admin_integer(d->a, &now, key) == -1)
		return -1;
	if (now < n)
		return 0;
	count = outcome_count(n);
	findings_advise(findings_add(d, SEVERITY_WARNING, key, "%s half way back to ingress, and no process moves them",
	    count),
	    "any supervisor on this Redis returns them; if none runs, start one, or quredis retry %s transit",
	    q->keys.name);
	free(count);
	return 0;
}

static int check_bare(struct doctor *d, const struct queue_check *q)
{
	char *rescue = queue_bare_rescue_key(&q->keys), *n = outcome_count(q->lists.bare);
	int rc = check_rescue(d, q, rescue, q->lists.bare_rescue);

	if (q->lists.bare > 0 && !q->keys.shared)
		findings_advise(findings_add(d, SEVERITY_NOTE, q->keys.transit,
		    "%s in flight at a consumer outside quredis (such as a program with the Ruby gem), or left by one",
		    n),
		    "the next start of a supervisor returns them; if that consumer has ended: quredis retry %s transit",
		    q->keys.name);
	free(rescue);
	free(n);
	return rc;
}

int check_leftovers(struct doctor *d, struct queue_check *q)
{
	int rc = check_bare(d, q);

	for (size_t i = 0; i < q->lists.nworkers && rc == 0; i++) {
		char *key = queue_tray_key(&q->keys, q->lists.workers[i].incarnation, QUEUE_RESCUE);

		rc = check_rescue(d, q, key, q->lists.owners[i].trays[QUEUE_RESCUE]);
		free(key);
	}
	return rc;
}
