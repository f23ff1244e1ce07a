/* Collects the findings of all checks in the order of the table, and counts them. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"

#define KEPT_MAX 1000		/* findings of one check and queue */

/* ---- adding ---- */

void findings_init(struct doctor *d)
{
	STAILQ_INIT(&d->findings.list);
}

struct finding *findings_add(struct doctor *d, enum severity severity, const char *where, const char *what, ...)
{
	struct finding *f = alloc_zero(1, sizeof(*f));
	va_list ap;

	*f = (struct finding){ .check = d->check, .severity = severity, .queue = d->queue, .format = what,
		.where = alloc_string(where != NULL ? where : d->queue != NULL ? d->queue->keys.name : NULL) };
	va_start(ap, what);
	f->what = alloc_format_args(what, ap);
	va_end(ap);
	STAILQ_INSERT_TAIL(&d->findings.list, f, next);
	return f;
}

void findings_advise(struct finding *f, const char *advice, ...)
{
	va_list ap;

	free(f->advice);
	va_start(ap, advice);
	f->advice = alloc_format_args(advice, ap);
	va_end(ap);
}

void findings_offer(struct finding *f, const struct fix *fix, const char *subject)
{
	f->fix = fix;
	f->subject = alloc_string(subject);
}

static void finding_free(struct finding *f)
{
	free(f->where);
	free(f->what);
	free(f->advice);
	free(f->subject);
	free(f);
}

static struct finding *next_of(const struct doctor *d, struct finding *f)
{
	return f == NULL ? STAILQ_FIRST(&d->findings.list) : STAILQ_NEXT(f, next);
}

/* Removes all findings after this one. Returns their number, and the worst severity among them. */
static size_t remove_after(struct doctor *d, struct finding *kept, enum severity *worst)
{
	struct finding *f;
	size_t n = 0;

	*worst = SEVERITY_OK;
	while ((f = next_of(d, kept)) != NULL) {
		*worst = f->severity > *worst ? f->severity : *worst;
		STAILQ_REMOVE_AFTER(&d->findings.list, kept, next);
		finding_free(f);
		n++;
	}
	return n;
}

void findings_end_check(struct doctor *d)
{
	struct finding *kept = d->findings.before;
	enum severity worst;
	size_t more;

	for (int i = 0; i < KEPT_MAX && next_of(d, kept) != NULL; i++)
		kept = next_of(d, kept);
	more = kept == NULL ? 0 : remove_after(d, kept, &worst);
	if (more > 0)
		findings_advise(findings_add(d, worst, NULL, "%zu more findings like these", more),
		    d->a->options.fix ? "run doctor again to fix more of them" : "fix these, then run doctor again");
	d->findings.before = STAILQ_LAST(&d->findings.list, finding, next);
}

void findings_free(struct doctor *d)
{
	struct finding *f;

	while ((f = STAILQ_FIRST(&d->findings.list)) != NULL) {
		STAILQ_REMOVE_HEAD(&d->findings.list, next);
		finding_free(f);
	}
}

/* ---- counting ---- */

size_t findings_count(const struct doctor *d, size_t n[SEVERITY_ERROR + 1])
{
	const struct finding *f;
	size_t fixed = 0;

	STAILQ_FOREACH(f, &d->findings.list, next)
		if (f->fixed == FIX_DONE)
			fixed++;
		else
			n[f->severity]++;
	return fixed;
}

enum severity findings_worst(const struct doctor *d)
{
	size_t n[SEVERITY_ERROR + 1] = {0};
	int worst = SEVERITY_ERROR;

	findings_count(d, n);
	while (worst > SEVERITY_OK && n[worst] == 0)
		worst--;
	return (enum severity)worst;
}
