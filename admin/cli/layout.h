#ifndef ADMIN_CLI_LAYOUT_H
#define ADMIN_CLI_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "admin/cli/output.h"

/* Where a column of a table is, and how wide. */
struct table_place {
	enum table_where {
		TABLE_INLINE,
		TABLE_BELOW,		/* on lines of its own below each row */
		TABLE_UNTITLED,		/* only in JSON */
		TABLE_EMPTY,		/* left out: no row has a value */
		TABLE_NO_ROOM		/* left out: the terminal is too narrow */
	} where;
	size_t width;			/* of the widest text; INLINE: of the column */
	bool says_nothing;		/* each row has 0 or no value */
};

#define TABLE_INDENT 2
#define TABLE_GAP 2

/* Chooses the places of all columns for these rows: texts[row][column], NULL for a cell without a value. A new
 * array. */
struct table_place *layout_choose(const struct output *o, char **const *rows, size_t nrows);

/* False: a column that was left out as empty has a value in these rows. */
bool layout_fits(const struct output *o, const struct table_place *places, char **const *rows, size_t nrows);

#endif
