/*
 * quredis doctor: looks at everything quredis stands on and says what is wrong with it. With --fix it does what cannot do
 * harm. Nothing here touches what a live worker holds.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/command.h"
#include "admin/confirm.h"
#include "admin/doctor.h"
#include "admin/interrupt.h"
#include "admin/visible.h"

#include "common/alloc.h"

#define STATUS_WARNINGS 1
#define STATUS_ERRORS 2

static size_t count_remedies(const struct doctor *d)
{
	const struct finding *f;
	size_t n = 0;

	STAILQ_FOREACH(f, &d->findings, next)
		n += f->remedy != NULL;
	return n;
}

/* Who is asked sees what it is about. */
static int ask(struct doctor *d)
{
	size_t n = count_remedies(d);
	const struct finding *f;
	char *question;
	int rc;

	if (n == 0 || d->a->options.yes || !confirm_possible())
		return 0;
	STAILQ_FOREACH(f, &d->findings, next)
		if (f->remedy != NULL) {
			char *where = f->where == NULL ? alloc_string("") : visible(f->where, strlen(f->where), 200);

			admin_note("%s: %s", where, f->remedy->does);
			free(where);
		}
	question = alloc_format("Do %s?", n == 1 ? "this" : "all of these");
	rc = confirm(d->a, question);
	free(question);
	return rc;
}

static void mend(struct doctor *d, struct finding *f)
{
	d->why[0] = '\0';
	if (d->a->options.dry_run) {
		f->mended = MENDED_WOULD;
		return;
	}
	doctor_enter(d, f->patient);
	if (f->remedy->apply(d, f) == 0) {
		f->mended = MENDED;
	} else {
		f->mended = MENDED_FAILED;
		doctor_advise(f, "%s", d->why);
		doctor_drain(d);
	}
	doctor_enter(d, NULL);
}

/* -1: somebody said no. */
static int mend_all(struct doctor *d)
{
	struct finding *f;

	if (!d->a->options.dry_run && ask(d) == -1)
		return -1;
	interrupt_begin();
	STAILQ_FOREACH(f, &d->findings, next)
		if (f->remedy != NULL && !interrupt_asked() && d->a->redis.state == REDIS_READY)
			mend(d, f);
	return 0;
}

static int status_of(const struct doctor *d)
{
	if (d->away)
		return EX_UNAVAILABLE;
	switch (doctor_worst(d)) {
	case SEVERITY_ERROR:
		return STATUS_ERRORS;
	case SEVERITY_WARNING:
		return STATUS_WARNINGS;
	case SEVERITY_NOTE:
	case SEVERITY_OK:
		break;
	}
	return EX_OK;
}

/* What a check says on the way is a finding of its own; what cannot be asked at all is said as by every command. */
static int usage(struct admin *a, const struct doctor *d)
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
	if (doctor_look(&d) == -1) {
		rc = usage(a, &d);
	} else {
		if (a->options.fix && !d.away)
			declined = mend_all(&d) == -1;
		doctor_show(&d);
		doctor_sum_up(&d);
		a->status = status_of(&d);
		if (declined)
			admin_note("quredis: %s", d.why);
	}
	doctor_free(&d);
	interrupt_end();
	return rc == -1 || a->status != 0 ? -1 : 0;
}
