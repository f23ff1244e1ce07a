/*
 * quredis doctor: decides which checks can run, runs them, and adds a finding for a check that found nothing and for
 * one that could not be done. --fix applies the safe repairs, none of which touches what a live worker holds. The
 * checks themselves are in the other files of this folder.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/doctor/checks.h"
#include "admin/doctor/doctor.h"

#include "common/base/base.h"

#define STATUS_WARNINGS 1
#define STATUS_ERRORS 2
#define KEYS_MOST 10000000	/* without --limit */
#define RECORDS_MOST 100000

/* ---- checks ---- */

static const struct check {
	const char *name;
	enum { NEEDS_NOTHING, NEEDS_FILE, NEEDS_OPERATOR, NEEDS_CONNECTION, NEEDS_INFO, NEEDS_SURVEY } needs;
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

static bool can_run(const struct doctor *d, const struct check *c)
{
	switch (c->needs) {
	case NEEDS_FILE:
		return !d->conf.unreadable;
	case NEEDS_OPERATOR:	/* it runs code of users, which a request to the console must not */
		return !d->conf.unreadable && !d->a->served;
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

static int run_checks(struct doctor *d)
{
	for (size_t i = 0; i < nitems(checks); i++) {
		if (can_run(d, &checks[i]))
			run_check(d, &checks[i]);
		if (d->a->status == EX_USAGE)
			return -1;
	}
	return 0;
}

/* ---- the command ---- */

static void apply(struct doctor *d, struct finding *f)
{
	if (d->a->options.dry_run) {
		f->fixed = FIX_WOULD;
		return;
	}
	doctor_enter(d, f->queue);
	if (f->fix->apply(d, f) == 0) {
		f->fixed = FIX_DONE;
	} else {
		f->fixed = FIX_FAILED;
		findings_advise(f, "%s", d->why);
		doctor_drain(d);
	}
	doctor_enter(d, NULL);
}

/* -1: the operator said no. */
static int apply_all(struct doctor *d)
{
	bool asks = !d->a->options.dry_run && !d->a->options.yes && confirm_possible();
	size_t n = asks ? report_fixes(d) : 0;
	struct finding *f;

	if (n > 0 && confirm(d->a, n == 1 ? "Apply this fix?" : "Apply all these fixes?") == -1)
		return -1;
	interrupt_begin();
	STAILQ_FOREACH(f, &d->findings.list, next)
		if (f->fix != NULL && !interrupt_asked() && d->a->redis.state == REDIS_READY)
			apply(d, f);
	return 0;
}

/* Prints the error of a wrong command line as every command does. Errors of checks become findings instead. */
static int report_usage(struct admin *a, const struct doctor *d)
{
	char why[COMPLAINT_SIZE];

	memcpy(why, d->why, sizeof(why));
	a->complaint = NULL;
	return admin_fail(a, EX_USAGE, "%s", why);
}

static void begin(struct doctor *d, struct admin *a)
{
	*d = (struct doctor){ .a = a, .keys_most = KEYS_MOST, .records_most = RECORDS_MOST,
	    .reports = json_object() };
	findings_init(d);
	a->complaint = d->why;
	if (a->options.count >= 0)
		d->keys_most = d->records_most = a->options.count;
}

static void end(struct doctor *d)
{
	doctor_enter(d, NULL);
	d->a->complaint = NULL;
	findings_free(d);
	conf_report_free(&d->conf.report);
	conf_report_free(&d->conf.strict);
	buffer_free(&d->unit.lines);
	json_decref(d->supervisor.status);
	free(d->server.info);
	json_decref(d->reports);
	registry_free_queues(d);
}

int cmd_doctor(struct admin *a)
{
	static const int statuses[] = { [SEVERITY_OK] = EX_OK, [SEVERITY_NOTE] = EX_OK,
		[SEVERITY_WARNING] = STATUS_WARNINGS,
		[SEVERITY_ERROR] = STATUS_ERRORS };
	struct doctor d;
	bool declined = false;
	int rc = 0;

	begin(&d, a);
	if (run_checks(&d) == -1) {
		rc = report_usage(a, &d);
	} else {
		if (a->options.fix && !d.away)
			declined = apply_all(&d) == -1;
		report_print(&d);
		report_summarize(&d);
		a->status = d.away ? EX_UNAVAILABLE : statuses[findings_worst(&d)];
		if (declined)
			admin_note("quredis: %s", d.why);
	}
	end(&d);
	interrupt_end();
	return rc == -1 || a->status != 0 ? -1 : 0;
}
