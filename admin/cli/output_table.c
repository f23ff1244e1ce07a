/*
 * Writes rows as a text table: indented by two columns like the Ruby gem's, with two columns between cells. The first rows are
 * held back until the widths are known; the others are written at once, so a long listing needs no memory of its own. On a
 * terminal a row takes one line, or with wrap as many as it needs. Elsewhere nothing is cut.
 */
#include <stdlib.h>
#include <string.h>

#include "admin/cli/output.h"

#include "admin/cli/visible.h"
#include "common/base/base.h"

#define INDENT 2
#define GAP 2
#define NARROWEST 6			/* no column is cut below this */
#define HELD_ROWS 1000
#define HELD_BYTES (1 << 20)

struct table_row { char **texts; };	/* one text for each column, NULL for a column that is not shown */

static bool is_shown(const struct output *o, size_t column)
{
	return o->columns[column].title != NULL && (o->left_out == NULL || !o->left_out[column]);
}

static void table_begin(struct output *o)
{
	o->rows = alloc_zero(HELD_ROWS, sizeof(*o->rows));
	o->nheld = o->held_bytes = 0;
	o->widths = NULL;
	o->left_out = o->give_way == NULL ? NULL : alloc_zero(o->ncolumns, sizeof(*o->left_out));
}

static size_t line_width(const struct output *o, const size_t *widths)
{
	size_t line = INDENT;

	for (size_t i = 0; i < o->ncolumns; i++)
		if (is_shown(o, i))
			line += widths[i] + GAP;
	return line - GAP;
}

static void leave_out(const struct output *o, const size_t *widths)
{
	for (const int *c = o->give_way; c != NULL && *c != -1 && line_width(o, widths) > o->width; c++)
		o->left_out[*c] = true;
}

/* Makes the widest column narrower by one, until the line fits. */
static void fit_widths(const struct output *o, size_t *widths)
{
	size_t first = o->keep_first && o->ncolumns > 1 ? 1 : 0;

	while (line_width(o, widths) > o->width) {
		size_t widest = first;

		for (size_t i = first; i < o->ncolumns; i++)
			if (is_shown(o, i) && widths[i] > widths[widest])
				widest = i;
		if (widths[widest] <= NARROWEST)
			return;
		widths[widest]--;
	}
}

static void measure(struct output *o)
{
	o->widths = alloc_zero(o->ncolumns, sizeof(*o->widths));
	for (size_t i = 0; i < o->ncolumns; i++) {
		if (!is_shown(o, i))
			continue;
		o->widths[i] = strlen(o->columns[i].title);
		for (size_t r = 0; r < o->nheld; r++) {
			size_t columns = visible_columns(o->rows[r].texts[i]);

			if (columns > o->widths[i])
				o->widths[i] = columns;
		}
	}
	if (o->width == SIZE_MAX)
		return;
	leave_out(o, o->widths);
	fit_widths(o, o->widths);
}

static void pad(const struct output *o, size_t n)
{
	fprintf(o->file, "%*s", (int)n, "");
}

/* "queue:a-long... (17)": cuts the name, and keeps the number. */
static void cut_text(const struct output *o, char *text, size_t width)
{
	char *tail = o->keep_tail ? strrchr(text, ' ') : NULL, *kept;
	size_t columns = tail == NULL ? 0 : visible_columns(tail);

	if (tail == NULL || visible_columns(text) <= width || columns >= width) {
		visible_cut(text, width);
		return;
	}
	kept = alloc_string(tail);
	*tail = '\0';
	visible_cut(text, width - columns);
	memcpy(text + strlen(text), kept, strlen(kept) + 1);	/* fits: the part that was cut off had this length */
	free(kept);
}

static void write_cell(const struct output *o, size_t column, char *text, bool last)
{
	size_t width = o->widths[column], columns;

	if (o->width != SIZE_MAX && !o->wrap)
		cut_text(o, text, width);
	columns = visible_columns(text);
	if (o->columns[column].right && columns < width)
		pad(o, width - columns);
	fputs(text, o->file);
	if (!last && !o->columns[column].right && columns < width)
		pad(o, width - columns);
	if (!last)
		pad(o, GAP);
}

static void write_line(const struct output *o, char **texts)
{
	size_t last = 0;

	for (size_t i = 0; i < o->ncolumns; i++)
		if (is_shown(o, i))
			last = i;
	pad(o, INDENT);
	for (size_t i = 0; i < o->ncolumns; i++)
		if (is_shown(o, i))
			write_cell(o, i, texts[i], i == last);
}

static void free_texts(const struct output *o, char **texts)
{
	for (size_t i = 0; i < o->ncolumns; i++)
		free(texts[i]);
	free(texts);
}

/* Returns how many bytes of text fit on this line: up to a blank if there is one, and at least one byte. */
static size_t line_len(const char *text, size_t width)
{
	size_t fit = visible_fit(text, width), blank = fit;

	if (text[fit] == '\0')
		return fit;
	while (blank > 0 && text[blank] != ' ')
		blank--;
	return blank > 0 ? blank : fit > 0 ? fit : 1;
}

/* Takes the first line from rest. True: rest has more. */
static bool take_line(const struct output *o, char **rest, char **line)
{
	bool more = false;

	for (size_t i = 0; i < o->ncolumns; i++) {
		size_t n;

		if (!is_shown(o, i))
			continue;
		n = line_len(rest[i], o->widths[i]);
		line[i] = alloc_copy(rest[i], n);
		rest[i] += n + strspn(rest[i] + n, " ");
		more = more || rest[i][0] != '\0';
	}
	return more;
}

static void write_row(const struct output *o, char **texts)
{
	char **rest;
	bool more = true;

	if (!o->wrap || o->width == SIZE_MAX) {
		write_line(o, texts);
		fputc('\n', o->file);
		return;
	}
	rest = alloc_zero(o->ncolumns, sizeof(*rest));
	memcpy(rest, texts, o->ncolumns * sizeof(*rest));
	while (more) {
		char **line = alloc_zero(o->ncolumns, sizeof(*line));

		more = take_line(o, rest, line);
		write_line(o, line);
		fputc('\n', o->file);
		free_texts(o, line);
	}
	free(rest);
}

static void write_header(const struct output *o)
{
	char **titles = alloc_zero(o->ncolumns, sizeof(*titles));

	for (size_t i = 0; i < o->ncolumns; i++)
		titles[i] = alloc_string(o->columns[i].title);
	fputs(colour_begin(o->colour, MEANING_HEADING), o->file);
	write_line(o, titles);
	fputs(colour_end(o->colour, MEANING_HEADING), o->file);
	fputc('\n', o->file);
	free_texts(o, titles);
}

static void write_held(struct output *o)
{
	if (o->widths == NULL) {
		measure(o);
		write_header(o);
	}
	for (size_t r = 0; r < o->nheld; r++) {
		write_row(o, o->rows[r].texts);
		free_texts(o, o->rows[r].texts);
	}
	o->nheld = o->held_bytes = 0;
}

static void table_row(struct output *o, const struct cell *cells)
{
	char **texts = alloc_zero(o->ncolumns, sizeof(*texts));

	for (size_t i = 0; i < o->ncolumns; i++) {
		if (!is_shown(o, i))
			continue;
		texts[i] = cell_text(&cells[i], o->wrap || o->keep_tail ? SIZE_MAX : o->width);
		o->held_bytes += strlen(texts[i]);
	}
	o->rows[o->nheld++].texts = texts;
	if (o->nheld == HELD_ROWS || o->held_bytes > HELD_BYTES)
		write_held(o);
}

static void table_end(struct output *o, bool complete)
{
	if (complete || o->nrows > 0)
		write_held(o);
	free(o->rows);
	free(o->widths);
	free(o->left_out);
	o->rows = NULL;
	o->widths = NULL;
	o->left_out = NULL;
}

static void table_object(struct output *o, const struct cell *cells)
{
	size_t widest = 0;

	for (size_t i = 0; i < o->ncolumns; i++)
		if (is_shown(o, i) && strlen(o->columns[i].title) > widest)
			widest = strlen(o->columns[i].title);
	for (size_t i = 0; i < o->ncolumns; i++) {
		char *text;

		if (!is_shown(o, i))
			continue;
		text = cell_text(&cells[i], SIZE_MAX);
		fprintf(o->file, "  %-*s  %s\n", (int)widest, o->columns[i].title, text);
		free(text);
	}
}

const struct output_format output_table = { table_begin, table_row, table_end, table_object };
