/*
 * Writes rows as a text table: indented by two columns like the Ruby gem's, with two columns between cells. The first
 * rows are held back until the widths are known; the others are written at once, so a long listing needs no memory of
 * its own. layout.c fits the table to a terminal. Elsewhere each row is one line with all columns, and nothing is cut.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "admin/cli/output.h"

#include "admin/cli/layout.h"
#include "admin/cli/visible.h"
#include "admin/cli/wrap.h"
#include "common/base/base.h"

#define HELD_ROWS 1000
#define HELD_BYTES (1 << 20)
#define BELOW_INDENT 4
#define TEXT_LINES_MAX 8		/* of a text below its row; the rest is cut */

struct table_row {
	char **texts;		/* one for each column, NULL for a cell without a value, or a column without a title */
	char *line;		/* a line between the rows; the texts are NULL then */
};

static bool is_shown(const struct output *o, size_t column)
{
	return o->places[column].where == TABLE_INLINE;
}

static void table_begin(struct output *o)
{
	o->rows = alloc_zero(HELD_ROWS, sizeof(*o->rows));
	o->nheld = o->held_bytes = 0;
	o->places = NULL;
}

static void pad(const struct output *o, size_t n)
{
	fprintf(o->file, "%*s", (int)n, "");
}

static void write_coloured(const struct output *o, enum colour_meaning meaning, const char *text)
{
	fputs(colour_begin(o->colour, meaning), o->file);
	fputs(text, o->file);
	fputs(colour_end(o->colour, meaning), o->file);
}

static enum colour_meaning meaning_of(const struct column *column, const char *text)
{
	return column_kind(column) == COLUMN_STATE ? colour_meaning_of(text) : MEANING_NONE;
}

static void write_cell(const struct output *o, size_t column, enum colour_meaning meaning, const char *text, bool last)
{
	bool right = column_kind(&o->columns[column]) == COLUMN_NUMBER ||
	    column_kind(&o->columns[column]) == COLUMN_FIGURE;
	size_t width = o->places[column].width, columns = visible_columns(text);

	if (right && columns < width)
		pad(o, width - columns);
	write_coloured(o, meaning, text);
	if (!last && !right && columns < width)
		pad(o, width - columns);
	if (!last)
		pad(o, TABLE_GAP);
}

static void write_line(const struct output *o, char **texts, bool titles)
{
	size_t last = 0;

	for (size_t i = 0; i < o->ncolumns; i++)
		if (is_shown(o, i) && (texts[i] == NULL || texts[i][0] != '\0'))
			last = i;
	pad(o, TABLE_INDENT);
	for (size_t i = 0; i < o->ncolumns; i++) {
		const char *text = texts[i] == NULL ? "-" : texts[i];

		if (is_shown(o, i) && i <= last)
			write_cell(o, i, titles ? MEANING_HEADING : meaning_of(&o->columns[i], text), text, i == last);
	}
	fputc('\n', o->file);
}

static void free_texts(const struct output *o, char **texts)
{
	for (size_t i = 0; i < o->ncolumns; i++)
		free(texts[i]);
	free(texts);
}

/* ---- texts that continue on the next line ---- */

/* Takes a line of at most so many columns from *rest; it ends in "..." if it is the last one allowed and more
 * follows. */
static char *next_line(const char **rest, size_t width, bool last_allowed)
{
	size_t n = wrap_cell(*rest, width);
	char *line = alloc_copy(*rest, last_allowed ? strlen(*rest) : n);

	if (last_allowed)
		visible_cut(line, width);
	*rest += last_allowed ? strlen(*rest) : n + strspn(*rest + n, " ");
	return line;
}

/* Takes the next line from rest. True: rest has more. */
static bool take_line(const struct output *o, const char **rest, char **line)
{
	bool more = false;

	for (size_t i = 0; i < o->ncolumns; i++) {
		if (!is_shown(o, i))
			continue;
		if (o->wrap || column_kind(&o->columns[i]) == COLUMN_TEXT) {
			line[i] = next_line(&rest[i], o->places[i].width, false);
		} else {
			line[i] = alloc_string(rest[i]);
			if (column_kind(&o->columns[i]) == COLUMN_NAME || column_kind(&o->columns[i]) == COLUMN_LINE)
				visible_cut(line[i], o->places[i].width);
			rest[i] = "";
		}
		more = more || rest[i][0] != '\0';
	}
	return more;
}

static void write_inline(const struct output *o, char **texts)
{
	const char **rest = alloc_zero(o->ncolumns, sizeof(*rest));
	bool more = true;

	for (size_t i = 0; i < o->ncolumns; i++)
		rest[i] = texts[i] == NULL ? "-" : texts[i];
	while (more) {
		char **line = alloc_zero(o->ncolumns, sizeof(*line));

		more = take_line(o, rest, line);
		write_line(o, line, false);
		free_texts(o, line);
	}
	free(rest);
}

/* "    Reason: 12 of 40 attempts failed", and further lines under the text. An id stays whole. */
static void write_below(const struct output *o, size_t column, const char *text)
{
	const char *title = o->columns[column].title;
	size_t before = BELOW_INDENT + strlen(title) + 2,
	    width = o->width > before + BELOW_INDENT ? o->width - before : BELOW_INDENT;
	size_t most = column_kind(&o->columns[column]) == COLUMN_LINE ? 1 : TEXT_LINES_MAX;

	if (column_kind(&o->columns[column]) == COLUMN_ID)
		width = SIZE_MAX;

	for (size_t n = 1; text[0] != '\0'; n++) {
		char *line = next_line(&text, width, n == most);

		pad(o, n == 1 ? BELOW_INDENT : before);
		if (n == 1) {
			write_coloured(o, MEANING_FAINT, title);
			fputs(": ", o->file);
		}
		fprintf(o->file, "%s\n", line);
		free(line);
	}
}

/* ---- rows ---- */

static void write_row(const struct output *o, char **texts)
{
	if (o->width == SIZE_MAX) {
		write_line(o, texts, false);
		return;
	}
	write_inline(o, texts);
	for (size_t i = 0; i < o->ncolumns; i++)
		if (o->places[i].where == TABLE_BELOW && texts[i] != NULL)
			write_below(o, i, texts[i]);
}

static void write_header(const struct output *o)
{
	char **titles = alloc_zero(o->ncolumns, sizeof(*titles));

	for (size_t i = 0; i < o->ncolumns; i++)
		titles[i] = alloc_string(o->columns[i].title);
	write_line(o, titles, true);
	free_texts(o, titles);
}

static void write_between(const struct output *o, const char *line)
{
	pad(o, TABLE_INDENT);
	write_coloured(o, MEANING_FAINT, line);
	fputc('\n', o->file);
}

/* Says which figures are not on the screen. */
static void write_left_out(const struct output *o)
{
	struct buffer names = {0};

	for (size_t i = 0; o->terminal && i < o->ncolumns; i++)
		if (o->places[i].where == TABLE_NO_ROOM && !o->places[i].says_nothing)
			buffer_format(&names, "%s%s", names.len > 0 ? ", " : "", o->columns[i].title);
	if (names.len > 0) {
		char *text = alloc_format("no room for %s (--json has all)", names.data);

		for (const char *rest = text; rest[0] != '\0';) {
			char *line = next_line(&rest,
			    o->width > 2 * TABLE_INDENT ? o->width - TABLE_INDENT : TABLE_INDENT, false);

			write_between(o, line);
			free(line);
		}
		free(text);
	}
	buffer_free(&names);
}

static void choose_places(struct output *o)
{
	char ***texts = alloc_zero(o->nheld + 1, sizeof(*texts));
	size_t n = 0;

	for (size_t r = 0; r < o->nheld; r++)
		if (o->rows[r].texts != NULL)
			texts[n++] = o->rows[r].texts;
	if (o->places != NULL && !layout_fits(o, o->places, texts, n)) {
		free(o->places);
		o->places = NULL;
	}
	if (o->places == NULL) {
		o->places = layout_choose(o, texts, n);
		write_header(o);
	}
	free(texts);
}

static void write_held(struct output *o)
{
	choose_places(o);
	for (size_t r = 0; r < o->nheld; r++) {
		struct table_row *row = &o->rows[r];

		if (row->texts == NULL) {
			write_between(o, row->line);
			free(row->line);
		} else {
			write_row(o, row->texts);
			free_texts(o, row->texts);
		}
	}
	o->nheld = o->held_bytes = 0;
}

/* NULL: no value. */
static char *row_text(const struct output *o, const struct column *column, const struct cell *c)
{
	bool whole = o->wrap || column_kind(column) == COLUMN_TEXT || column_kind(column) == COLUMN_ID;

	if (column->title == NULL || cell_is_empty(c))
		return NULL;
	return output_text(o, c, whole ? SIZE_MAX : o->width);
}

static void hold_row(struct output *o, char **texts, char *line)
{
	assert(o->nheld < HELD_ROWS);
	o->rows[o->nheld++] = (struct table_row){ texts, line };
	if (o->nheld == HELD_ROWS || o->held_bytes > HELD_BYTES)
		write_held(o);
}

static void table_line(struct output *o, const char *text)
{
	hold_row(o, NULL, visible(text, strlen(text),
	    o->width > TABLE_INDENT ? o->width - TABLE_INDENT : TABLE_INDENT));
}

static void table_row(struct output *o, const struct cell *cells)
{
	char **texts = alloc_zero(o->ncolumns, sizeof(*texts));

	for (size_t i = 0; i < o->ncolumns; i++) {
		texts[i] = row_text(o, &o->columns[i], &cells[i]);
		o->held_bytes += texts[i] == NULL ? 0 : strlen(texts[i]);
	}
	hold_row(o, texts, NULL);
}

static void table_end(struct output *o, bool complete)
{
	if (complete || o->nrows > 0)
		write_held(o);
	if (o->places != NULL && o->nrows > 0)
		write_left_out(o);
	free(o->rows);
	free(o->places);
	o->rows = NULL;
	o->places = NULL;
}

static void write_lines(struct output *o, const struct cell *c, int indent)
{
	for (size_t at = 0, len; at < c->len; at += len + 1) {
		const char *newline = memchr(c->data + at, '\n', c->len - at);
		char *text;

		len = newline == NULL ? c->len - at : (size_t)(newline - c->data) - at;
		text = visible(c->data + at, len, SIZE_MAX);
		fprintf(o->file, "%*s%s%s", at == 0 ? 0 : indent, "", text, at + len + 1 < c->len ? "\n" : "");
		free(text);
	}
}

static void table_object(struct output *o, const struct cell *cells)
{
	size_t widest = 0;

	for (size_t i = 0; i < o->ncolumns; i++)
		if (o->columns[i].title != NULL && strlen(o->columns[i].title) > widest)
			widest = strlen(o->columns[i].title);
	for (size_t i = 0; i < o->ncolumns; i++) {
		char *text;

		if (o->columns[i].title == NULL)
			continue;
		text = output_object_text(o, &cells[i]);
		fprintf(o->file, "  %-*s  ", (int)widest, o->columns[i].title);
		if (column_kind(&o->columns[i]) == COLUMN_LINES && cells[i].type == CELL_BYTES && cells[i].len > 0)
			write_lines(o, &cells[i], (int)widest + 4);
		else
			write_coloured(o, meaning_of(&o->columns[i], text), text);
		fputc('\n', o->file);
		free(text);
	}
}

const struct output_format output_table = { table_begin, table_row, table_end, table_object, table_line };
