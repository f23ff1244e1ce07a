/*
 * Prints the findings. What is printed for an operator in a hurry hides what is fine, makes one row of findings that
 * say the same of several queues, workers or keys, and ends with the worst, where the terminal shows it. With -v, and
 * in JSON, each finding has its own row. On a terminal a row is a block across the whole width, elsewhere a line of a
 * table.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/doctor/checks.h"
#include "admin/doctor/fold.h"

#include "common/base/base.h"

/* rows that a finding is compared with: thousands of different findings take no quadratic time */
#define OPEN_MAX 32
#define FIX_COLUMNS 400
#define TEXT_INDENT 4		/* of a block, below its first line */
#define ADVICE_TITLE "What to do:"

static const char *const severity_names[] = {
	[SEVERITY_OK] = "ok", [SEVERITY_NOTE] = "note", [SEVERITY_WARNING] = "warning", [SEVERITY_ERROR] = "error",
};

/* In the order of the table. */
enum urgency { URGENCY_FINE, URGENCY_FIXED, URGENCY_NOTE, URGENCY_WARNING, URGENCY_ERROR };

struct row {
	const struct finding *finding;
	char *advice;		/* owned; may be NULL */
	struct row *alike;	/* the next finding in the same row; NULL: there is none */
	bool folded;		/* stands in the row of an earlier finding */
};

/* ---- the cells of a finding ---- */

static enum urgency urgency_of(const struct finding *f)
{
	static const enum urgency urgencies[] =
	    { [SEVERITY_OK] = URGENCY_FINE, [SEVERITY_NOTE] = URGENCY_NOTE, [SEVERITY_WARNING] = URGENCY_WARNING,
		[SEVERITY_ERROR] = URGENCY_ERROR };

	return f->fixed == FIX_DONE ? URGENCY_FIXED : urgencies[f->severity];
}

/* Returns the advice, the result of the fix, or the reason why it failed. A new string; NULL: no advice */
static char *advice_of(const struct finding *f)
{
	switch (f->fixed) {
	case FIX_DONE:
		return alloc_format("fixed: %s", f->fix->does);
	case FIX_WOULD:
		return alloc_format("would fix: %s", f->fix->does);
	case FIX_FAILED:
		return alloc_format("not fixed: %s", f->advice);
	case FIX_NONE:
		break;
	}
	if (f->fix == NULL)
		return f->advice == NULL ? NULL : alloc_string(f->advice);
	return alloc_format("%s%squredis doctor --fix: %s", f->advice == NULL ? "" : f->advice,
	    f->advice == NULL ? "" : "; or ", f->fix->does);
}

static const char *queue_of(const struct finding *f)
{
	return f->queue == NULL ? NULL : f->queue->keys.name;
}

/* In the table the place of a worker needs the name of its queue; keys contain the name already. */
static bool needs_queue(const struct finding *f)
{
	return f->where != NULL && f->queue != NULL && strstr(f->where, f->queue->keys.name) == NULL;
}

static char *place_of(const struct finding *f)
{
	return needs_queue(f) ? alloc_format("%s: %s", f->queue->keys.name, f->where) : alloc_string(f->where);
}

/* ---- folding ---- */

static bool folds(struct fold_line one, struct fold_line other, bool only_names)
{
	char *text = fold_text((struct fold_line[]){ one, other }, 2, only_names);

	free(text);
	return text != NULL;
}

static struct fold_line line_of(const struct row *r, bool advice)
{
	return (struct fold_line){ queue_of(r->finding), r->finding->where, advice ? r->advice : r->finding->what };
}

/* The advice must be the same but for names: a command folded out of different ones would be wrong. */
static bool is_alike(const struct row *a, const struct row *b)
{
	const struct finding *f = a->finding, *g = b->finding;

	return strcmp(f->check, g->check) == 0 && f->fix == g->fix && f->fixed == g->fixed &&
	    f->severity == g->severity &&
	    strcmp(f->format, g->format) == 0 && (a->advice == NULL) == (b->advice == NULL) &&
	    (a->advice == NULL || folds(line_of(a, true), line_of(b, true), true)) &&
	    folds(line_of(a, false), line_of(b, false), false);
}

/* Links each row to the last one before it that is alike, among the latest OPEN_MAX rows that stand alone. */
static void fold_rows(struct row *rows, size_t n)
{
	struct { struct row *first, *last; } open[OPEN_MAX];
	size_t nopen = 0;

	for (size_t i = 0; i < n; i++) {
		size_t most = nopen < OPEN_MAX ? nopen : OPEN_MAX, at = 0;

		while (at < most && !is_alike(open[at].first, &rows[i]))
			at++;
		if (at < most) {
			open[at].last->alike = &rows[i];
			open[at].last = &rows[i];
			rows[i].folded = true;
		} else {
			open[nopen % OPEN_MAX].first = open[nopen % OPEN_MAX].last = &rows[i];
			nopen++;
		}
	}
}

static size_t count_alike(const struct row *first)
{
	size_t n = 0;

	for (const struct row *r = first; r != NULL; r = r->alike)
		n++;
	return n;
}

/* "mail, fax and news"; of workers of one queue "mail: WORKER, WORKER and 3 more" */
static char *places_of(const struct row *first)
{
	const struct finding *f = first->finding;
	size_t n = count_alike(first), i = 0;
	char **places = alloc_zero(n, sizeof(*places)), *list, *text;
	bool one_queue = needs_queue(f);

	for (const struct row *r = first; r != NULL; r = r->alike)
		one_queue = one_queue && r->finding->queue == f->queue && needs_queue(r->finding);
	for (const struct row *r = first; r != NULL; r = r->alike)
		places[i++] = one_queue ? alloc_string(r->finding->where) : place_of(r->finding);
	list = fold_names((const char *const *)places, n);
	text = one_queue ? alloc_format("%s: %s", f->queue->keys.name, list) : alloc_string(list);
	for (i = 0; i < n; i++)
		free(places[i]);
	free(places);
	free(list);
	return text;
}

static char *text_of(const struct row *first, bool advice)
{
	size_t n = count_alike(first), i = 0;
	struct fold_line *lines;
	char *text;

	if (n == 1)
		return alloc_string(advice ? first->advice : first->finding->what);
	lines = alloc_zero(n, sizeof(*lines));
	for (const struct row *r = first; r != NULL; r = r->alike)
		lines[i++] = line_of(r, advice);
	text = lines[0].text == NULL ? NULL : fold_text(lines, n, advice);
	if (text == NULL)	/* each is alike to the first, but not to all others: the first stands for them */
		text = alloc_string(lines[0].text);
	free(lines);
	return text;
}

/* ---- printing ---- */

static bool is_in_blocks(const struct doctor *d)
{
	return d->a->output.terminal && !d->a->options.json;
}

/* Continues a block after `at` columns of its line. */
static void print_text(const struct output *o, const char *text, size_t at)
{
	char *shown = visible(text, strlen(text), SIZE_MAX);

	wrap_write(o->file, shown, at, TEXT_INDENT, o->width);
	fputc('\n', o->file);
	free(shown);
}

/* "  error  memory  redis://10.0.0.7:6379", and below it what was found, and what to do. */
static void print_block(const struct output *o, const char *severity, const char *check, const char *place,
    const char *what, const char *advice)
{
	enum colour_meaning meaning = colour_meaning_of(severity);
	size_t at = strlen("  ") + strlen(severity) + strlen("  ") + strlen(check) + strlen("  ");

	fprintf(o->file, "  %s%s%s  %s%s%s  ", colour_begin(o->colour, meaning), severity,
	    colour_end(o->colour, meaning),
	    colour_begin(o->colour, MEANING_HEADING), check, colour_end(o->colour, MEANING_HEADING));
	print_text(o, place == NULL ? "" : place, at);
	fprintf(o->file, "%*s", TEXT_INDENT, "");
	print_text(o, what, TEXT_INDENT);
	if (advice == NULL)
		return;
	fprintf(o->file, "%*s%s" ADVICE_TITLE "%s ", TEXT_INDENT, "", colour_begin(o->colour, MEANING_FAINT),
	    colour_end(o->colour, MEANING_FAINT));
	print_text(o, advice, TEXT_INDENT + strlen(ADVICE_TITLE " "));
}

static void print_row(struct doctor *d, const struct row *row)
{
	const struct finding *f = row->finding;
	const char *severity = severity_names[f->severity], *shown = f->fixed == FIX_DONE ? "fixed" : severity;
	char *place = places_of(row), *what = text_of(row, false), *folded = text_of(row, true);
	char *advice = folded == NULL ? NULL : advice_complete(d, folded, !f->other_user);

	if (is_in_blocks(d))
		print_block(&d->a->output, shown, f->check, place, what, advice);
	else
		output_row(&d->a->output, (struct cell[]){ cell_str(severity), cell_str(shown), cell_str(f->check),
		    cell_str(queue_of(f)),
		    cell_str(f->where), cell_str(place), cell_str(what), cell_str(advice), cell_bool(f->fix != NULL),
		    cell_bool(f->fixed == FIX_DONE) });
	free(place);
	free(what);
	free(folded);
	free(advice);
}

static void print_rows(struct doctor *d, const struct row *rows, size_t n, enum urgency least)
{
	for (int urgency = (int)least; urgency <= URGENCY_ERROR; urgency++)
		for (size_t i = 0; i < n; i++)
			if (!rows[i].folded && urgency_of(rows[i].finding) == (enum urgency)urgency)
				print_row(d, &rows[i]);
}

/* The checks of which every finding is fine. Findings of one check stand together. */
static size_t count_fine(const struct doctor *d)
{
	const struct finding *f, *before = NULL;
	size_t n = 0;
	bool fine = false;

	STAILQ_FOREACH(f, &d->findings.list, next) {
		if (before == NULL || strcmp(before->check, f->check) != 0) {
			n += fine;
			fine = true;
		}
		fine = fine && f->severity == SEVERITY_OK;
		before = f;
	}
	return n + fine;
}

static struct row *make_rows(const struct doctor *d, size_t *n)
{
	const struct finding *f;
	struct row *rows;

	*n = 0;
	STAILQ_FOREACH(f, &d->findings.list, next)
		(*n)++;
	rows = alloc_zero(*n + 1, sizeof(*rows));
	*n = 0;
	STAILQ_FOREACH(f, &d->findings.list, next)
		rows[(*n)++] = (struct row){ .finding = f, .advice = advice_of(f) };
	return rows;
}

void report_print(struct doctor *d)
{
	static const struct column columns[] = {
		{ "severity", NULL, COLUMN_NAME }, { NULL, "Severity", COLUMN_STATE },
		{ "check", "Check", COLUMN_NAME }, { "queue", NULL, COLUMN_NAME },
		{ "where", NULL, COLUMN_NAME }, { NULL, "Where", COLUMN_NAME }, { "what", "What", COLUMN_NAME },
		{ "advice", "What to do", COLUMN_NAME },
		{ "fixable", NULL, COLUMN_NAME }, { "fixed", NULL, COLUMN_NAME },
	};
	bool json = d->a->options.json, verbose = d->a->options.verbose;
	enum urgency least = verbose ? URGENCY_FINE : URGENCY_FIXED;
	size_t n, fine = count_fine(d), shown = 0;
	struct row *rows = make_rows(d, &n);

	for (size_t i = 0; i < n; i++)
		shown += urgency_of(rows[i].finding) >= least;
	if (!json && !verbose && fine > 0)
		printf("  %zu check%s fine (-v lists %s)\n", fine, fine == 1 ? " is" : "s are",
		    fine == 1 ? "it" : "them");
	if (!json && !verbose)
		fold_rows(rows, n);
	if (json || shown > 0) {
		if (!is_in_blocks(d))
			output_begin(&d->a->output, columns, nitems(columns));
		for (int severity = SEVERITY_ERROR; json && severity >= SEVERITY_OK; severity--)
			for (size_t i = 0; i < n; i++)
				if (rows[i].finding->severity == (enum severity)severity)
					print_row(d, &rows[i]);
		if (!json)
			print_rows(d, rows, n, least);
		if (!is_in_blocks(d))
			output_end(&d->a->output, true);
	}
	for (size_t i = 0; i < n; i++)
		free(rows[i].advice);
	free(rows);
}

void report_summarize(const struct doctor *d)
{
	bool colour = colour_is_wanted(d->a->options.colour, STDERR_FILENO);
	size_t n[SEVERITY_ERROR + 1] = {0}, fixed = findings_count(d, n);
	const char *before = "";

	fflush(stdout);
	if (fixed > 0)
		fprintf(stderr, "%zu fixed; ", fixed);
	for (int s = SEVERITY_ERROR; s > SEVERITY_OK; s--) {
		enum colour_meaning meaning = colour_meaning_of(severity_names[s]);

		if (n[s] == 0)
			continue;
		fprintf(stderr, "%s%s%zu %s%s%s", before, colour_begin(colour, meaning), n[s], severity_names[s],
		    n[s] == 1 ? "" : "s", colour_end(colour, meaning));
		before = ", ";
	}
	fprintf(stderr, "%s\n", before[0] == '\0' ? "no problem found" : "");
}

/* ---- fixes ---- */

/* One line for each fix, with the places where it would be applied. */
static void print_fix(const struct row *rows, size_t n, const struct fix *fix)
{
	char **places = alloc_zero(n, sizeof(*places)), *list, *shown;
	size_t nplaces = 0;

	for (size_t i = 0; i < n; i++)
		if (rows[i].finding->fix == fix)
			places[nplaces++] = place_of(rows[i].finding);
	list = fold_names((const char *const *)places, nplaces);
	shown = list == NULL ? alloc_string("") : visible(list, strlen(list), FIX_COLUMNS);
	admin_note("%s: %s", shown, fix->does);
	for (size_t i = 0; i < nplaces; i++)
		free(places[i]);
	free(places);
	free(list);
	free(shown);
}

size_t report_fixes(const struct doctor *d)
{
	size_t n, offered = 0;
	struct row *rows = make_rows(d, &n);

	for (size_t i = 0; i < n; i++) {
		size_t first = 0;

		if (rows[i].finding->fix == NULL)
			continue;
		offered++;
		while (rows[first].finding->fix != rows[i].finding->fix)
			first++;
		if (first == i)
			print_fix(rows, n, rows[i].finding->fix);
	}
	for (size_t i = 0; i < n; i++)
		free(rows[i].advice);
	free(rows);
	return offered;
}
