/*
 * Fits a table to the width of a terminal: what the operator needs stays readable, and the rest makes room for it. In
 * this order, until the line fits: columns that may give way, and are no figures, go if they say nothing, or only 0;
 * ids beside the first column stand below their row; reasons and errors get what remains of the line, and continue on
 * further lines; if that is too little, they stand below their row, and then messages do; other columns that may give
 * way go; names are cut. Numbers, states and ids are never cut.
 */
#include <string.h>

#include "admin/cli/layout.h"

#include "admin/cli/visible.h"
#include "common/base/base.h"

#define NARROWEST 6		/* no column is cut below this */
#define NAME_LEAST 30		/* columns of a name: they give way to no other column */
#define TEXT_LEAST 24		/* columns of a text beside others; fewer: below */
#define LINE_LEAST 40		/* of a message, which is cut */
#define TEXT_LINES 3		/* the longest text of a column beside others continues on at most so many lines */

static bool is_long(const struct column *c)
{
	return column_kind(c) == COLUMN_TEXT || column_kind(c) == COLUMN_LINE;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The width that a column asks for. */
static size_t claim(const struct column *c, size_t width)
{
	switch (column_kind(c)) {
	case COLUMN_NAME:
		return smaller(width, NAME_LEAST);
	case COLUMN_LINE:
		return smaller(width, LINE_LEAST);
	case COLUMN_TEXT:
		return smaller(width, width / TEXT_LINES > TEXT_LEAST ? width / TEXT_LINES : TEXT_LEAST);
	case COLUMN_NUMBER:
	case COLUMN_FIGURE:
	case COLUMN_STATE:
	case COLUMN_ID:
	case COLUMN_LINES:
	case COLUMN_FIGURES:
		break;
	}
	return width;
}

static size_t line_width(const struct output *o, const struct table_place *places, bool claimed)
{
	size_t line = TABLE_INDENT;

	for (size_t i = 0; i < o->ncolumns; i++)
		if (places[i].where == TABLE_INLINE)
			line += (claimed ? claim(&o->columns[i], places[i].width) : places[i].width) + TABLE_GAP;
	return line - TABLE_GAP;
}

/* With wrap, all columns share the line. */
static bool has_room(const struct output *o, const struct table_place *places)
{
	return line_width(o, places, !o->wrap) <= o->width;
}

static void leave_out(const struct output *o, struct table_place *places, bool silent)
{
	for (int rank = 1; rank <= YIELDS_MOST; rank++)
		for (size_t i = 0; i < o->ncolumns && !has_room(o, places); i++)
			if (column_yields(&o->columns[i]) == rank && places[i].where == TABLE_INLINE &&
			    (places[i].says_nothing || !silent))
				places[i].where = TABLE_NO_ROOM;
}

/* Brings back what gave way, the most useful first, as far as there is room after all. */
static void bring_back(const struct output *o, struct table_place *places)
{
	for (int rank = YIELDS_MOST; rank > 0; rank--)
		for (size_t i = o->ncolumns; i-- > 0;) {
			if (column_yields(&o->columns[i]) != rank || places[i].where != TABLE_NO_ROOM)
				continue;
			places[i].where = TABLE_INLINE;
			if (!has_room(o, places))
				places[i].where = TABLE_NO_ROOM;
		}
}

/* An id in the first column names the row, and stays there. */
static void move_below(const struct output *o, struct table_place *places, enum column_kind kind)
{
	for (size_t i = 0; i < o->ncolumns && !o->wrap && !has_room(o, places); i++)
		if (column_kind(&o->columns[i]) == kind && places[i].where == TABLE_INLINE &&
		    (kind != COLUMN_ID || (i > 0 && column_yields(&o->columns[i]) == 0)))
			places[i].where = TABLE_BELOW;
}

/* Makes the widest of some columns narrower by one, until the line fits or all of them have the least width. */
static void shrink(const struct output *o, struct table_place *places,
    bool (*may)(const struct output *o, size_t column), size_t least)
{
	while (line_width(o, places, false) > o->width) {
		size_t widest = o->ncolumns;

		for (size_t i = 0; i < o->ncolumns; i++)
			if (places[i].where == TABLE_INLINE && may(o, i) &&
			    (widest == o->ncolumns || places[i].width > places[widest].width))
				widest = i;
		if (widest == o->ncolumns || places[widest].width <= least)
			return;
		places[widest].width--;
	}
}

static bool is_text(const struct output *o, size_t column)
{
	return is_long(&o->columns[column]);
}

static bool may_be_cut(const struct output *o, size_t column)
{
	return o->wrap || column_kind(&o->columns[column]) == COLUMN_NAME || is_long(&o->columns[column]);
}

static void measure(const struct output *o, size_t column, struct table_place *place, char **const *rows, size_t nrows)
{
	bool figure = column_kind(&o->columns[column]) == COLUMN_FIGURE, empty = !figure;

	place->width = strlen(o->columns[column].title);
	place->says_nothing = !figure;
	for (size_t r = 0; r < nrows; r++) {
		const char *text = rows[r][column];
		size_t columns = text == NULL ? 0 : visible_columns(text);

		place->width = columns > place->width ? columns : place->width;
		place->says_nothing = place->says_nothing &&
		    (text == NULL || text[0] == '\0' || strcmp(text, "0") == 0);
		empty = empty && (text == NULL || text[0] == '\0');
	}
	if (o->terminal && empty && nrows > 0 && column > 0)
		place->where = TABLE_EMPTY;
}

struct table_place *layout_choose(const struct output *o, char **const *rows, size_t nrows)
{
	struct table_place *places = alloc_zero(o->ncolumns, sizeof(*places));

	for (size_t i = 0; i < o->ncolumns; i++)
		if (o->columns[i].title == NULL)
			places[i].where = TABLE_UNTITLED;
		else
			measure(o, i, &places[i], rows, nrows);
	if (o->width == SIZE_MAX || line_width(o, places, false) <= o->width)
		return places;
	if (o->terminal)		/* a page that is drawn again has the same columns whatever their values are */
		leave_out(o, places, true);
	move_below(o, places, COLUMN_ID);
	move_below(o, places, COLUMN_TEXT);
	move_below(o, places, COLUMN_LINE);
	leave_out(o, places, false);
	if (o->terminal)
		bring_back(o, places);
	if (!o->wrap)
		shrink(o, places, is_text, TEXT_LEAST);
	shrink(o, places, may_be_cut, NARROWEST);
	return places;
}

bool layout_fits(const struct output *o, const struct table_place *places, char **const *rows, size_t nrows)
{
	for (size_t r = 0; r < nrows; r++)
		for (size_t i = 0; i < o->ncolumns; i++)
			if (places[i].where == TABLE_EMPTY && rows[r][i] != NULL && rows[r][i][0] != '\0')
				return false;
	return true;
}
