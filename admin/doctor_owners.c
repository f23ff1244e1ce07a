/* Those who own messages: all that are registered should have a lease, all that have a lease should be registered. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/doctor.h"

#include "admin/outcome.h"
#include "admin/visible.h"
#include "common/alloc.h"
#include "common/queue_survey.h"

#define FORGET_MS (60 * 60 * 1000)	/* a sweeper forgets the dead after so long */
#define FORGET_LATE_MS (FORGET_MS + 5 * 60 * 1000)	/* and looks often enough that none is left after that */

/* "3m12s", or "an unknown time" for what no clock can have said. */
static char *age_of(const struct doctor *d, int64_t since_ms)
{
	if (since_ms <= 0 || since_ms > d->server_ms)
		return alloc_string("an unknown time");
	return cell_text(&(struct cell){ .type = CELL_ELAPSED, .value = d->server_ms - since_ms }, SIZE_MAX);
}

static int64_t held(const struct owner *o)
{
	return o->total > 0 ? o->total : 0;
}

/* ---- the dead ---- */

static int forget(struct doctor *d, const struct finding *f)
{
	int64_t forgotten;

	queue_forget(&d->a->redis, &f->patient->keys, f->subject);
	if (admin_integer(d->a, &forgotten, f->patient->keys.workers) == -1)
		return -1;
	return forgotten == 1 ? 0 : admin_fail(d->a, EX_TEMPFAIL, "something lies in its trays by now, or it died a short time ago");
}

static const struct remedy forgetting = { "the registration is removed", forget };

static void check_dead(struct doctor *d, struct patient *p, const struct queue_worker *w, const struct owner *o)
{
	char *age = age_of(d, w->died_at_ms), *n = outcome_count(held(o));
	struct finding *f;

	if (held(o) > 0) {
		f = doctor_tell(d, SEVERITY_WARNING, w->incarnation, "it died %s ago, with %s in its trays", age, n);
		doctor_advise(f, "any supervisor on this Redis returns them at its next look; if none runs, start one, or quredis retry %s transit", p->keys.name);
	} else if (d->server_ms - w->died_at_ms > FORGET_LATE_MS) {
		f = doctor_tell(d, SEVERITY_NOTE, w->incarnation, "it died %s ago, and is registered still: no supervisor looks at this queue", age);
		doctor_remedy(f, &forgetting, w->incarnation);
	} else if (w->died_at_ms - d->server_ms > FORGET_MS) {
		f = doctor_tell(d, SEVERITY_WARNING, w->incarnation, "it is registered as one that died at a time to come: it is never forgotten");
		doctor_advise(f, "redis-cli HDEL %s %s", p->keys.workers, w->incarnation);
	}
	free(age);
	free(n);
}

/* Without a lease, and nobody has said that it died. */
static void check_silent(struct doctor *d, struct patient *p, const struct queue_worker *w, const struct owner *o)
{
	char *age = age_of(d, w->since_ms), *n = outcome_count(held(o));
	struct finding *f;

	f = doctor_tell(d, SEVERITY_WARNING, w->incarnation,
	    "registered %s ago (pid %" PRId64 " on %s), and without a lease: it died or hangs, with %s in its trays", age, w->pid,
	    w->node[0] == '\0' ? "an unknown host" : w->node, n);
	doctor_advise(f, "any supervisor on this Redis returns them within two leases; if none runs, start one, or quredis retry %s transit",
	    p->keys.name);
	free(age);
	free(n);
}

/* ---- the living ---- */

/* Such an owner could never be found dead. */
static int check_endless(struct doctor *d, struct patient *p)
{
	const struct lists *l = &p->lists;

	for (size_t i = 0; i < l->nworkers; i++)
		if (l->owners[i].alive)
			queue_lease_left(&d->a->redis, &p->keys, l->workers[i].incarnation);
	for (size_t i = 0; i < l->nworkers; i++) {
		struct redis_reply reply;

		if (!l->owners[i].alive)
			continue;
		if (doctor_reply(d, &reply) == -1)
			return -1;
		if (reply.type == REDIS_INTEGER && reply.integer == -1)
			doctor_advise(doctor_tell(d, SEVERITY_ERROR, l->workers[i].incarnation,
			    "its lease never ends: should it die, nobody would know"), "quredis restart %s where it runs: new workers take new leases",
			    p->keys.name);
	}
	return 0;
}

/* ---- what else is in the hash ---- */

static int check_fields(struct doctor *d, struct patient *p)
{
	struct redis_reply reply;

	redis_appendf(&d->a->redis, "HKEYS %s", p->keys.workers);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	for (size_t i = 0; reply.type == REDIS_ARRAY && i < reply.n; i++) {
		struct redis_reply field = redis_element(&reply, i);
		struct incarnation who;
		char *shown;

		if (field.type != REDIS_STRING || queue_is_rescue_field(field.str, field.len))
			continue;
		if (strlen(field.str) == field.len && incarnation_parse(&who, field.str) == 0)
			continue;
		shown = visible(field.str, field.len, 100);
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, p->keys.workers, "its field %s is the name of no worker", shown),
		    "redis-cli HDEL %s with that field", p->keys.workers);
		free(shown);
	}
	return 0;
}

/* ---- two looks ---- */

static bool is_silent(const struct lists *l, size_t i)
{
	return !l->owners[i].alive && l->workers[i].died_at_ms == 0;
}

static bool has_silent(const struct lists *l)
{
	for (size_t i = 0; i < l->nworkers; i++)
		if (is_silent(l, i))
			return true;
	return false;
}

static bool was_silent(const struct lists *before, const char *incarnation)
{
	for (size_t i = 0; i < before->nworkers; i++)
		if (strcmp(before->workers[i].incarnation, incarnation) == 0)
			return is_silent(before, i);
	return false;
}

/* The hash and the leases are not read in one moment: who leaves in between seems to be silent. */
static int look_again(struct doctor *d, struct patient *p, struct lists *before)
{
	struct lists now;

	if (!has_silent(&p->lists))
		return 0;
	doctor_moment(d);
	if (lists_read(d->a, &p->keys, 0, &now) == -1) {
		lists_free(&now);
		return -1;
	}
	*before = p->lists;
	p->lists = now;
	return 0;
}

int doctor_registrations(struct doctor *d, struct patient *p)
{
	struct lists before = {0};

	if (look_again(d, p, &before) == -1)
		return -1;
	for (size_t i = 0; i < p->lists.nworkers; i++) {
		const struct queue_worker *w = &p->lists.workers[i];
		const struct owner *o = &p->lists.owners[i];

		if (!o->alive && w->died_at_ms != 0)
			check_dead(d, p, w, o);
		else if (!o->alive && was_silent(&before, w->incarnation))
			check_silent(d, p, w, o);
	}
	lists_free(&before);
	return check_endless(d, p) == -1 ? -1 : check_fields(d, p);
}

/* ---- leases ---- */
int doctor_leases(struct doctor *d, struct patient *p)
{
	for (size_t i = 0; i < p->nstrangers; i++) {
		const struct stranger *s = &p->strangers[i];
		char *n;

		if (!s->leased)
			continue;
		n = outcome_count(s->total);
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, s->incarnation,
		    "it has a lease and is not registered: should it die, nobody would look into its trays (%s)", n),
		    "quredis restart %s where it runs: new workers register", p->keys.name);
		free(n);
	}
	return 0;
}
