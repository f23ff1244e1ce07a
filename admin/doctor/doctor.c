/*
 * The core of quredis doctor: it decides which checks can run, runs them, and adds a finding for a check that found nothing and
 * for one that could not be done. The checks themselves are in the other files of this folder.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"

#define DRAIN_MS 5000
#define MOVES_MS 1000
#define KEYS_MOST 10000000	/* without --limit */
#define RECORDS_MOST 100000

static const struct check {
	const char *name;
	enum { NEEDS_NOTHING, NEEDS_FILE, NEEDS_CONNECTION, NEEDS_INFO, NEEDS_SURVEY } needs;
	int (*run)(struct doctor *d);	/* NULL: run_queue() */
	int (*run_queue)(struct doctor *d, struct queue_check *q);
	const char *ok;
} checks[] = {
#define SYSTEM(name, needs, ok) { #name, needs, check_##name, NULL, ok },
#define QUEUE(name, needs, ok) { #name, needs, NULL, check_##name, ok },
	CHECKS(SYSTEM, QUEUE)
#undef SYSTEM
#undef QUEUE
};

void doctor_init(struct doctor *d, struct admin *a)
{
	*d = (struct doctor){ .a = a, .keys_most = KEYS_MOST, .records_most = RECORDS_MOST };
	findings_init(d);
	a->complaint = d->why;
	if (a->options.count >= 0)
		d->keys_most = d->records_most = a->options.count;
}

void doctor_enter(struct doctor *d, struct queue_check *q)
{
	static const struct queue_keys none;

	d->queue = q;
	d->a->keys = q == NULL ? none : q->keys;	/* owned by q: never freed there */
	d->a->queue = q == NULL ? NULL : q->conf;
}

void doctor_drain(struct doctor *d)
{
	struct redis *r = &d->a->redis;
	struct redis_reply reply;

	while (r->state == REDIS_READY && r->pending > 0)
		if (redis_wait(r, &reply, DRAIN_MS, NULL) == -1)
			return;
}

int doctor_reply(struct doctor *d, struct redis_reply *reply)
{
	return admin_wait(d->a, reply);
}

void doctor_let_moves_end(const struct doctor *d)
{
	int64_t left = d->queues.read_ms + MOVES_MS - clock_monotonic_ms();

	if (left > 0)
		poll(NULL, 0, (int)left);
}

void doctor_lose_redis(struct doctor *d)
{
	d->away = true;
}

static bool can_run(const struct doctor *d, const struct check *c)
{
	switch (c->needs) {
	case NEEDS_FILE:
		return !d->conf.unreadable;
	case NEEDS_CONNECTION:
		return d->server.connected && !d->away;
	case NEEDS_INFO:
		return d->server.connected && !d->away && d->server.info != NULL;
	case NEEDS_SURVEY:
		return d->survey.done && !d->away;
	case NEEDS_NOTHING:
		break;
	}
	return true;
}

static void add_failure(struct doctor *d)
{
	if (d->server.connected && d->a->redis.state == REDIS_CLOSED)
		doctor_lose_redis(d);
	else
		doctor_drain(d);
	findings_advise(findings_add(d, SEVERITY_ERROR, NULL, "the check failed: %s", d->why),
	    d->away ? "run doctor again when Redis is back" : "fix this, then run doctor again");
}

static void run_for_queues(struct doctor *d, const struct check *c)
{
	for (size_t i = 0; i < d->queues.n && !d->away; i++) {
		if (!d->queues.all[i].readable)
			continue;
		doctor_enter(d, &d->queues.all[i]);
		if (c->run_queue(d, &d->queues.all[i]) == -1)
			add_failure(d);
		findings_end_check(d);
	}
	doctor_enter(d, NULL);
}

static void run_check(struct doctor *d, const struct check *c)
{
	const struct finding *last = STAILQ_LAST(&d->findings.list, finding, next);

	if (c->run_queue != NULL && d->queues.n == 0)
		return;
	d->check = c->name;
	if (c->run_queue != NULL)
		run_for_queues(d, c);
	else if (c->run(d) == -1)
		add_failure(d);
	if (last == STAILQ_LAST(&d->findings.list, finding, next))
		findings_add(d, SEVERITY_OK, NULL, "%s", c->ok);
	findings_end_check(d);
}

int doctor_run(struct doctor *d)
{
	for (size_t i = 0; i < nitems(checks); i++) {
		if (can_run(d, &checks[i]))
			run_check(d, &checks[i]);
		if (d->a->status == EX_USAGE)
			return -1;
	}
	return 0;
}

void doctor_free(struct doctor *d)
{
	doctor_enter(d, NULL);
	d->a->complaint = NULL;
	findings_free(d);
	conf_report_free(&d->conf.report);
	conf_report_free(&d->conf.strict);
	buffer_free(&d->unit.lines);
	json_decref(d->supervisor.status);
	free(d->server.info);
	registry_free_queues(d);
}
