/*
 * quredis doctor: checks everything that quredis depends on, and reports what is wrong. --fix applies the safe repairs, none of
 * which touches what a live worker holds.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/doctor/checks.h"
#include "admin/doctor/doctor.h"

#include "common/base/base.h"

#define STATUS_WARNINGS 1
#define STATUS_ERRORS 2

/* Lists the repairs, and asks. -1: the operator said no. */
static int ask_to_fix(struct doctor *d)
{
	size_t n;

	if (d->a->options.yes || !confirm_possible())
		return 0;
	n = report_fixes(d);
	return n == 0 ? 0 : confirm(d->a, n == 1 ? "Apply this fix?" : "Apply all these fixes?");
}

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

static int apply_all(struct doctor *d)
{
	struct finding *f;

	if (!d->a->options.dry_run && ask_to_fix(d) == -1)
		return -1;
	interrupt_begin();
	STAILQ_FOREACH(f, &d->findings.list, next)
		if (f->fix != NULL && !interrupt_asked() && d->a->redis.state == REDIS_READY)
			apply(d, f);
	return 0;
}

static int status_of(const struct doctor *d)
{
	static const int statuses[] = { [SEVERITY_OK] = EX_OK, [SEVERITY_NOTE] = EX_OK, [SEVERITY_WARNING] = STATUS_WARNINGS, [SEVERITY_ERROR] = STATUS_ERRORS };

	return d->away ? EX_UNAVAILABLE : statuses[findings_worst(d)];
}

/* Prints the error of a wrong command line as every command does. Errors of checks become findings instead. */
static int report_usage(struct admin *a, const struct doctor *d)
{
	char why[COMPLAINT_SIZE];

	memcpy(why, d->why, sizeof(why));
	a->complaint = NULL;
	return admin_fail(a, EX_USAGE, "%s", why);
}

int cmd_doctor(struct admin *a)
{
	struct doctor d;
	bool declined = false;
	int rc = 0;

	doctor_init(&d, a);
	if (doctor_run(&d) == -1) {
		rc = report_usage(a, &d);
	} else {
		if (a->options.fix && !d.away)
			declined = apply_all(&d) == -1;
		report_print(&d);
		report_summarize(&d);
		a->status = status_of(&d);
		if (declined)
			admin_note("quredis: %s", d.why);
	}
	doctor_free(&d);
	interrupt_end();
	return rc == -1 || a->status != 0 ? -1 : 0;
}
