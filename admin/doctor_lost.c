/*
 * Messages that lie where nobody looks: in trays of owners that are in no registration, or half way back from somewhere.
 * The first are handed back only when their owner was silent, and its trays were untouched, for a whole lease.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/doctor.h"

#include "admin/interrupt.h"
#include "admin/outcome.h"
#include "admin/retry.h"
#include "common/alloc.h"
#include "common/clock.h"
#include "common/dead.h"
#include "common/duration.h"
#include "common/queue_survey.h"
#include "common/queue_watch.h"

#define PULSES_A_LEASE 8
#define LEASE_MOST_MS (60 * 60 * 1000)	/* that can be configured */
#define LEASES_MOST 4		/* so long one of them is waited for that passes undisturbed */

/* ---- a lease without a disturbance ---- */

static int pulse(struct doctor *d, struct absence *a)
{
	struct pulse p = { .connection = d->a->redis.connection };
	struct redis_reply reply;
	int64_t taken;

	queue_pulse(&d->a->redis, d->a->conf->supervisor.node);
	if (admin_integer(d->a, &taken, NULL) == -1 || admin_reply(d->a, &reply, NULL) == -1)
		return -1;
	p.boottime_ms = clock_boottime_ms();
	p.server_ms = queue_time_parse(&reply);
	for (int i = 0; i < QUEUE_IDENTITY_INFOS; i++) {	/* refused where the server hides it */
		if (doctor_reply(d, &reply) == -1)
			return -1;
		if (reply.type == REDIS_STRING)
			redis_identity_read(&p.server, reply.str, reply.len);
	}
	calm_pulse(&a->calm, &p, a->lease_ms);
	return 0;
}

/* What theirs was nobody knows any more: no shorter than ours, and any that is registered. */
static int64_t longest_lease(const struct doctor *d)
{
	int64_t longest = d->a->conf->supervisor.lease_ms;

	for (size_t i = 0; i < d->npatients; i++)
		for (size_t w = 0; w < d->patients[i].lists.nworkers; w++) {
			int64_t theirs = d->patients[i].lists.workers[w].lease_ms;

			if (theirs > longest && theirs <= LEASE_MOST_MS)
				longest = theirs;
		}
	return longest;
}

/* The first look counts from the first pulse on: what was before it nobody saw. */
static int wait_for_a_lease(struct doctor *d)
{
	struct absence a = { .lease_ms = longest_lease(d) };
	int64_t until = clock_boottime_ms() + LEASES_MOST * a.lease_ms;
	char shown[DURATION_SIZE];

	admin_note("waiting a lease, %s, for owners to show that they live", duration_format(a.lease_ms, shown));
	while (clock_boottime_ms() < until && !interrupt_asked()) {
		int64_t now;

		if (pulse(d, &a) == -1)
			return -1;
		now = clock_boottime_ms();
		if (dead_missed(&a, now, now, a.lease_ms))
			return 0;
		poll(NULL, 0, (int)(a.lease_ms / PULSES_A_LEASE));
	}
	return admin_fail(d->a, EX_TEMPFAIL, interrupt_asked() ? "interrupted" :
	    "Redis or this host stalled meanwhile, or Redis restarted, so no worker can be proven dead: run quredis doctor again");
}

/* ---- handing back ---- */

static int is_untouched(struct doctor *d, struct patient *p, struct stranger *s)
{
	struct stranger now = *s;
	int rc = doctor_stranger_look(d, p, &now, true);

	if (rc == -1)
		return -1;
	if (rc == 1 || now.leased || strcmp(now.signature, s->signature) != 0)
		return admin_fail(d->a, EX_TEMPFAIL, "somebody touched it meanwhile: its owner lives, or another brings it back");
	return 0;
}

static struct stranger *find(struct patient *p, const char *incarnation)
{
	for (size_t i = 0; i < p->nstrangers; i++)
		if (strcmp(p->strangers[i].incarnation, incarnation) == 0)
			return &p->strangers[i];
	return NULL;
}

static int hand_back(struct doctor *d, const struct finding *f)
{
	struct retry t = { .a = d->a };
	struct stranger *s = find(f->patient, f->subject);
	int64_t n;

	if (!d->waited && wait_for_a_lease(d) == -1)
		return -1;
	d->waited = true;
	if (is_untouched(d, f->patient, s) == -1 || retry_owner(&t, s->incarnation) == -1)
		return -1;
	queue_rescue_over(&d->a->redis, &f->patient->keys, s->incarnation);
	if (admin_integer(d->a, &n, f->patient->keys.workers) == -1)
		return -1;
	return interrupt_asked() ? admin_fail(d->a, EX_TEMPFAIL, "interrupted: run it again to go on") : 0;
}

static const struct remedy handing_back = { "after a lease without a sign of life they are handed back to ingress", hand_back };

/* ---- lost ---- */

static void check_unknown(struct doctor *d, const struct patient *p)
{
	if (p->nunknown > 0)
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, p->unknown, "keys below %s that quredis does not know: %zu, such as this", p->keys.transit, p->nunknown),
		    "of another program, or a later version: redis-cli TYPE tells what they are");
	if (p->nscratch > 0)
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, p->scratch, "keys of a rehearsal that was cut off: %zu; no message of yours is there",
		    p->nscratch), "the next start of that supervisor, or the next doctor there, deletes them; redis-cli DEL where there is none");
}

static void tell_lost(struct doctor *d, const struct patient *p, const struct stranger *s)
{
	struct finding *f;
	char *n;

	if (s->wrong_type) {
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, s->incarnation, "one of its trays is no list, and it is in no registration"),
		    "another program uses such a key below %s: rename or delete it", p->keys.transit);
		return;
	}
	n = outcome_count(s->total);
	f = doctor_tell(d, SEVERITY_ERROR, s->incarnation,
	    "%s in trays of a worker that is not registered and has no lease: no sweeper will find them", n);
	doctor_remedy(f, &handing_back, s->incarnation);
	free(n);
}

int doctor_lost(struct doctor *d, struct patient *p)
{
	for (size_t i = 0; i < p->nstrangers; i++)
		if (!p->strangers[i].leased)
			tell_lost(d, p, &p->strangers[i]);
	check_unknown(d, p);
	return 0;
}

/* ---- half way ---- */

/* What is on its way is elsewhere a moment later. -1: as a check. */
static int still_there(struct doctor *d, const char *key, int64_t before)
{
	int64_t now;

	doctor_moment(d);
	redis_appendf(&d->a->redis, "LLEN %s", key);
	if (admin_integer(d->a, &now, key) == -1)
		return -1;
	return now >= before;
}

static int check_rescue(struct doctor *d, const struct patient *p, const char *key, int64_t n)
{
	int there = n > 0 ? still_there(d, key, n) : 0;
	char *count = outcome_count(n);

	if (there == 1)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, key, "%s half way back to ingress, and nobody moves them", count),
		    "any supervisor on this Redis takes them up; if none runs, start one, or quredis retry %s transit", p->keys.name);
	free(count);
	return there == -1 ? -1 : 0;
}

static int check_bare(struct doctor *d, const struct patient *p)
{
	char *rescue = queue_bare_rescue_key(&p->keys), *n = outcome_count(p->lists.bare);
	int rc = check_rescue(d, p, rescue, p->lists.bare_rescue);

	if (p->lists.bare > 0 && !p->keys.shared)
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, p->keys.transit, "%s in work at another consumer (such as the gem), or left by one", n),
		    "the next start of a supervisor returns them; if that consumer is gone: quredis retry %s transit", p->keys.name);
	free(rescue);
	free(n);
	return rc;
}

int doctor_leftovers(struct doctor *d, struct patient *p)
{
	int rc = check_bare(d, p);

	for (size_t i = 0; i < p->lists.nworkers && rc == 0; i++) {
		const struct owner *o = &p->lists.owners[i];
		char *key = queue_tray_key(&p->keys, p->lists.workers[i].incarnation, QUEUE_RESCUE);

		rc = check_rescue(d, p, key, o->trays[QUEUE_RESCUE]);
		free(key);
	}
	return rc;
}
