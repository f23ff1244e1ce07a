/* Checks owners of messages: every registered worker should have a lease, and every lease should belong to a registered
 * worker. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define FORGET_MS (60 * 60 * 1000)	/* a sweeper removes the registration of a dead worker after this time */
#define FORGET_LATE_MS (FORGET_MS + 5 * 60 * 1000)	/* after this time it has certainly done so */

/* "3m12s", or "an unknown time" for a time that no clock can have had. */
static char *age_of(const struct doctor *d, int64_t since_ms)
{
	if (since_ms <= 0 || since_ms > d->server.now_ms)
		return alloc_string("an unknown time");
	return cell_text(&(struct cell){ .type = CELL_ELAPSED, .value = d->server.now_ms - since_ms }, SIZE_MAX);
}

/* ---- workers without a lease ---- */

static int remove_registration(struct doctor *d, const struct finding *f)
{
	int64_t removed;

	queue_forget(&d->a->redis, &f->queue->keys, f->subject);
	if (admin_integer(d->a, &removed, f->queue->keys.workers) == -1)
		return -1;
	return removed == 1 ? 0 : admin_fail(d->a, EX_TEMPFAIL,
	    "its trays hold messages now, or it died a short time ago");
}

static const struct fix removing_registration = { "remove the registration", remove_registration };

/* Checks a worker whose registration records its death. */
static void check_dead(struct doctor *d, struct queue_check *q, const struct queue_worker *w, const struct owner *o)
{
	char *age = age_of(d, w->died_at_ms), *n = outcome_count(o->total);

	if (o->total > 0)
		findings_advise(findings_add(d, SEVERITY_WARNING, w->incarnation,
		    "it died %s ago, with %s in its trays", age, n),
		    "any supervisor on this Redis returns them at its next look; if none runs, start one, or quredis "
		    "retry %s transit", q->keys.name);
	else if (d->server.now_ms - w->died_at_ms > FORGET_LATE_MS)
		findings_offer(findings_add(d, SEVERITY_NOTE, w->incarnation,
		    "it died %s ago, but is still registered: no sweeper works on this queue", age),
		    &removing_registration, w->incarnation);
	else if (w->died_at_ms - d->server.now_ms > FORGET_MS)
		findings_advise(findings_add(d, SEVERITY_WARNING, w->incarnation,
		    "its registration says that it died in the future, so no sweeper removes it"),
		    "redis-cli HDEL %s %s", q->keys.workers, w->incarnation);
	free(age);
	free(n);
}

static void add_silent(struct doctor *d, struct queue_check *q, const struct queue_worker *w, const struct owner *o)
{
	char *age = age_of(d, w->since_ms), *n = outcome_count(o->total > 0 ? o->total : 0);

	findings_advise(findings_add(d, SEVERITY_WARNING, w->incarnation,
	    "registered %s ago (pid %" PRId64 " on %s), but without a lease: it died or hangs, with %s in its trays",
	    age, w->pid, w->node[0] == '\0' ? "an unknown host" : w->node, n),
	    "any supervisor on this Redis returns them within two leases; if none runs, start one, or quredis retry %s "
	    "transit", q->keys.name);
	free(age);
	free(n);
}

/* ---- live workers ---- */

/* Finds leases without an expiry, which another program must have made: no sweeper would ever find such an owner
 * dead. */
static int check_endless(struct doctor *d, struct queue_check *q)
{
	const struct lists *l = &q->lists;
	struct redis_reply reply;

	for (size_t i = 0; i < l->nworkers; i++)
		queue_lease_left(&d->a->redis, &q->keys, l->workers[i].incarnation);
	for (size_t i = 0; i < l->nworkers; i++) {
		if (doctor_reply(d, &reply) == -1)
			return -1;
		if (reply.type == REDIS_INTEGER && reply.integer == -1)
			findings_advise(findings_add(d, SEVERITY_ERROR, l->workers[i].incarnation,
			    "its lease never expires: no sweeper would notice its death"),
			    "quredis restart %s on its host: new workers take new leases", q->keys.name);
	}
	return 0;
}

/* ---- the check ---- */

static bool is_silent(const struct lists *l, size_t i)
{
	return !l->owners[i].alive && l->workers[i].died_at_ms == 0;
}

/*
 * Reads the lists a second time if a worker seems silent: registrations and leases are not read at the same moment, so
 * a worker that leaves in between has no lease. *before gets the first lists.
 */
static int look_again(struct doctor *d, struct queue_check *q, struct lists *before)
{
	struct lists now;
	size_t i = 0;

	while (i < q->lists.nworkers && !is_silent(&q->lists, i))
		i++;
	if (i == q->lists.nworkers)
		return 0;
	doctor_let_moves_end(d);
	if (lists_read(d->a, &q->keys, 0, &now) == -1) {
		lists_free(&now);
		return -1;
	}
	*before = q->lists;
	q->lists = now;
	return 0;
}

int check_registrations(struct doctor *d, struct queue_check *q)
{
	struct lists before = {0};
	int rc = look_again(d, q, &before);

	for (size_t i = 0; rc == 0 && i < q->lists.nworkers; i++) {
		const struct queue_worker *w = &q->lists.workers[i];
		const struct owner *o = &q->lists.owners[i];
		const struct queue_worker *first = queue_workers_find(before.workers, before.nworkers, w->incarnation);

		if (!o->alive && w->died_at_ms != 0)
			check_dead(d, q, w, o);
		else if (!o->alive && first != NULL && is_silent(&before, (size_t)(first - before.workers)))
			add_silent(d, q, w, o);
	}
	lists_free(&before);
	return rc == -1 ? -1 : check_endless(d, q);
}

int check_leases(struct doctor *d, struct queue_check *q)
{
	for (size_t i = 0; i < q->nunregistered; i++) {
		const struct unregistered *u = &q->unregistered[i];
		char *n;

		if (!u->leased)
			continue;
		n = outcome_count(u->total);
		findings_advise(findings_add(d, SEVERITY_WARNING, u->incarnation,
		    "it has a lease but is not registered: if it dies, no sweeper finds its messages (%s)", n),
		    "quredis restart %s on its host: new workers register", q->keys.name);
		free(n);
	}
	return 0;
}
