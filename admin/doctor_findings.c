/*
 * What was found, and how it is shown: one row a finding, the worst first. What is the same over and over is told a few
 * times and counted then.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/doctor.h"

#include "common/alloc.h"
#include "common/nitems.h"

#define TOLD_MAX 20		/* of one check and queue */

static const char *const severity_names[] = {
	[SEVERITY_OK] = "ok", [SEVERITY_NOTE] = "note", [SEVERITY_WARNING] = "warning", [SEVERITY_ERROR] = "error",
};

/* ---- telling ---- */

static void clear(struct finding *f)
{
	free(f->where);
	free(f->what);
	free(f->advice);
	free(f->subject);
	*f = (struct finding){0};
}

static struct finding *add(struct doctor *d)
{
	struct finding *f = alloc_zero(1, sizeof(*f));

	STAILQ_INSERT_TAIL(&d->findings, f, next);
	d->nfindings++;
	return f;
}

/* Where there is no more room it is filled in all the same, and forgotten. */
static struct finding *room(struct doctor *d, enum severity severity)
{
	enum severity worst = d->spare.severity;

	if (d->told++ < TOLD_MAX)
		return add(d);
	clear(&d->spare);
	d->spare.severity = severity > worst ? severity : worst;
	return &d->spare;
}

struct finding *doctor_tell(struct doctor *d, enum severity severity, const char *where, const char *what, ...)
{
	struct finding *f = room(d, severity);
	va_list ap;

	if (f != &d->spare)
		f->severity = severity;
	f->check = d->check;
	f->patient = d->patient;
	f->where = alloc_string(where != NULL ? where : d->patient != NULL ? d->patient->keys.name : NULL);
	va_start(ap, what);
	if (vasprintf(&f->what, what, ap) == -1)
		f->what = alloc_string("out of memory");
	va_end(ap);
	return f;
}

void doctor_advise(struct finding *f, const char *advice, ...)
{
	va_list ap;

	free(f->advice);
	va_start(ap, advice);
	if (vasprintf(&f->advice, advice, ap) == -1)
		f->advice = NULL;
	va_end(ap);
}

void doctor_remedy(struct finding *f, const struct remedy *remedy, const char *subject)
{
	f->remedy = remedy;
	free(f->subject);
	f->subject = alloc_string(subject);
}

void doctor_told(struct doctor *d)
{
	size_t more = d->told > TOLD_MAX ? d->told - TOLD_MAX : 0;
	struct finding *f;

	d->told = 0;
	if (more > 0) {
		f = add(d);
		*f = (struct finding){ .check = d->check, .severity = d->spare.severity, .patient = d->patient,
			.where = alloc_string(d->patient != NULL ? d->patient->keys.name : NULL),
			.what = alloc_format("and %zu more of this kind", more),
			.advice = alloc_string(d->a->options.fix ? "run it again for the next ones" : "they are told when these are mended") };
	}
	clear(&d->spare);
}

/* ---- showing ---- */

static bool counts(const struct finding *f)
{
	return f->mended != MENDED;
}

enum severity doctor_worst(const struct doctor *d)
{
	enum severity worst = SEVERITY_OK;
	const struct finding *f;

	STAILQ_FOREACH(f, &d->findings, next)
		if (counts(f) && f->severity > worst)
			worst = f->severity;
	return worst;
}

/* What is to be done, what was, or why it could not be. */
static char *advice_of(const struct finding *f)
{
	const char *advice = f->advice == NULL ? "" : f->advice;

	switch (f->mended) {
	case MENDED:
		return alloc_format("mended: %s", f->remedy->does);
	case MENDED_WOULD:
		return alloc_format("would be mended: %s", f->remedy->does);
	case MENDED_FAILED:
		return alloc_format("not mended: %s", advice);
	case MENDED_NOT:
		break;
	}
	if (f->remedy == NULL)
		return f->advice == NULL ? NULL : alloc_string(advice);
	return alloc_format("%s%squredis doctor --fix: %s", advice, f->advice == NULL ? "" : "; or ", f->remedy->does);
}

/* A worker does not say whose it is; keys do. */
static char *place_of(const struct finding *f)
{
	const char *queue = f->patient == NULL ? NULL : f->patient->keys.name;

	if (f->where == NULL || queue == NULL || strstr(f->where, queue) != NULL)
		return alloc_string(f->where);
	return alloc_format("%s: %s", queue, f->where);
}

static void show(struct doctor *d, const struct finding *f)
{
	char *advice = advice_of(f), *place = place_of(f);
	const char *queue = f->patient == NULL ? NULL : f->patient->keys.name;

	output_row(&d->a->output, (struct cell[]){ cell_str(severity_names[f->severity]), cell_str(f->check), cell_str(queue),
	    cell_str(f->where), cell_str(place), cell_str(f->what), cell_str(advice), cell_bool(f->remedy != NULL),
	    cell_bool(f->mended == MENDED) });
	free(advice);
	free(place);
}

void doctor_show(struct doctor *d)
{
	static const struct column columns[] = {
		{ "severity", "Severity", false }, { "check", "Check", false }, { "queue", NULL, false }, { "where", NULL, false },
		{ NULL, "Where", false }, { "what", "What", false }, { "advice", "What to do", false }, { "fixable", NULL, false }, { "fixed", NULL, false },
	};
	const struct finding *f;

	d->a->output.wrap = true;
	output_begin(&d->a->output, columns, nitems(columns));
	for (int severity = SEVERITY_ERROR; severity >= SEVERITY_OK; severity--)
		STAILQ_FOREACH(f, &d->findings, next)
			if (f->severity == (enum severity)severity)
				show(d, f);
	output_end(&d->a->output, true);
}

static void number_of(const struct doctor *d, size_t n[SEVERITY_ERROR + 1], size_t *mended)
{
	const struct finding *f;

	*mended = 0;
	STAILQ_FOREACH(f, &d->findings, next)
		if (counts(f))
			n[f->severity]++;
		else
			(*mended)++;
}

void doctor_sum_up(struct doctor *d)
{
	size_t n[SEVERITY_ERROR + 1] = {0}, mended;
	const char *before = "";

	number_of(d, n, &mended);
	fflush(stdout);
	if (mended > 0)
		fprintf(stderr, "%zu mended; ", mended);
	for (int s = SEVERITY_ERROR; s > SEVERITY_OK; s--) {
		if (n[s] == 0)
			continue;
		fprintf(stderr, "%s%zu %s%s", before, n[s], severity_names[s], n[s] == 1 ? "" : "s");
		before = ", ";
	}
	fprintf(stderr, "%s\n", before[0] == '\0' ? "nothing is wrong" : "");
}
