/* Collects the errors and warnings of a load, and sorts them by file and line at its end. Every step of the load
 * reports here; this file calls none of them. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

struct conf_issue {
	size_t file;		/* index in conf->files; nfiles: none */
	int line;
	size_t serial;		/* order of discovery */
	bool warning, blocks;
	size_t place_len;
	char *text;
};

char *conf_place(const struct conf_origin *where)
{
	if (where->kind == CONF_ORIGIN_ENVIRONMENT)
		return alloc_format("environment %s", where->from);
	if (where->line == 0)
		return alloc_string(where->from);
	return alloc_format("%s:%d", where->from, where->line);
}

static __attribute__((format(printf, 4, 0))) void add_issue(struct conf_loading *l, bool warning,
    const struct conf_origin *where, const char *fmt, va_list ap)
{
	struct conf_issue *issue;
	char *text = alloc_format_args(fmt, ap), *place;

	l->issues = alloc_resize(l->issues, l->nissues + 1, sizeof(*l->issues));
	issue = &l->issues[l->nissues];
	*issue = (struct conf_issue){ .file = l->nfiles, .serial = l->nissues++, .warning = warning, .text = text };
	/* a default has no place: another value causes an error about it */
	if (where == NULL || where->from == NULL || !conf_given(where))
		return;
	for (size_t i = l->nfiles; i-- > 0;)
		if (where->from == l->conf->files[i])
			issue->file = i;
	issue->line = where->line;
	place = conf_place(where);
	issue->place_len = strlen(place);
	issue->text = alloc_format("%s: %s", place, text);
	free(place);
	free(text);
}

void conf_error(struct conf_loading *l, const struct conf_origin *where, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_issue(l, false, where, fmt, ap);
	va_end(ap);
}

void conf_warning(struct conf_loading *l, const struct conf_origin *where, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_issue(l, true, where, fmt, ap);
	va_end(ap);
}

void conf_blocked(struct conf_loading *l, const struct conf_origin *where, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_issue(l, true, where, fmt, ap);
	l->issues[l->nissues - 1].blocks = true;
	va_end(ap);
}

static int compare_issues(const void *a, const void *b)
{
	const struct conf_issue *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return x->serial < y->serial ? -1 : 1;
}

void conf_report_fill(struct conf_loading *l, struct conf_report *report)
{
	*report = (struct conf_report){ .problems = alloc_zero(l->nissues, sizeof(*report->problems)),
	    .n = l->nissues };
	if (l->nissues > 0)
		qsort(l->issues, l->nissues, sizeof(*l->issues), compare_issues);
	for (size_t i = 0; i < l->nissues; i++) {
		report->problems[i] = (struct conf_problem){ l->issues[i].warning, l->issues[i].blocks,
			l->issues[i].place_len, l->issues[i].text };
		report->errors += !l->issues[i].warning;
		report->blocked += l->issues[i].blocks;
	}
	free(l->issues);
	l->issues = NULL;
	l->nissues = 0;
}

void conf_report_free(struct conf_report *report)
{
	for (size_t i = 0; i < report->n; i++)
		free(report->problems[i].text);
	free(report->problems);
	*report = (struct conf_report){0};
}

void conf_report_print(const struct conf_report *report, FILE *out)
{
	for (size_t i = 0; i < report->n; i++) {
		const struct conf_problem *p = &report->problems[i];

		fprintf(out, "%s%s\n", p->blocks ? "queue held: " : p->warning ? "warning: " : "", p->text);
	}
}
