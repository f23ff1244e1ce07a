/* The code that tables and JSON share: properties of the output file, and the text of a cell. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/cli/output.h"

#include "admin/cli/visible.h"
#include "admin/cli/wrap.h"
#include "common/base/base.h"

void output_init(struct output *o, FILE *file, bool json, enum colour_choice colour)
{
	*o = (struct output){ .format = json ? &output_json : &output_table, .file = file, .width = wrap_width(file),
		.colour = colour_is_wanted(colour, fileno(file)) };
	o->terminal = o->width != SIZE_MAX;
}

/* ---- columns of figures ---- */

/* Finds the next one, from f on, that has a column in this table: first counters, then, from COUNTERS on, figures.
 * FIGURES_END: there is none. */
#define FIGURES_END ((int)COUNTERS + (int)FACTS)
static int next_figure(const struct column *c, int f)
{
	unsigned table = c->kind >> 16;

	while (f < COUNTERS && (counters_table[f].in & table) == 0)
		f++;
	/* `ls` measures what its row names; its lengths stand beside the keys, so they have no title. */
	while (f >= COUNTERS && f < FIGURES_END && (facts_table[f - COUNTERS].in & table) == 0 &&
	    (table != IN_LS || facts_table[f - COUNTERS].listed == NULL))
		f++;
	return f;
}

static struct column column_of(const struct column *c, int f)
{
	const struct fact_words *w;

	if (f < COUNTERS)
		return (struct column){ NULL, counters_table[f].title,
		    COLUMN_NUMBER | YIELDS(counters_table[f].yields) };
	w = &facts_table[f - COUNTERS];
	return (struct column){ w->listed, (w->in & c->kind >> 16) != 0 ? w->title : NULL,
		(w->type == FACT_FLAG ? COLUMN_STATE : w->rare ? COLUMN_NUMBER : COLUMN_FIGURE) | YIELDS(w->yields) };
}

static struct cell cell_of(const struct cell *given, int f)
{
	if (f >= COUNTERS)
		return given->facts == NULL ? cell_none() : cell_fact(given->facts, (enum fact)(f - COUNTERS));
	return given->counted == NULL || given->counted->n[f] == COUNTERS_UNKNOWN ? cell_none()
	    : cell_int((int64_t)given->counted->n[f]);
}

static void expand_columns(struct output *o, const struct column *columns, size_t n)
{
	o->given = columns;
	o->ngiven = n;
	o->columns = o->expanded = alloc_zero(n + FIGURES_END, sizeof(*o->expanded));
	o->ncolumns = 0;
	for (size_t i = 0; i < n; i++) {
		if (column_kind(&columns[i]) != COLUMN_FIGURES)
			o->expanded[o->ncolumns++] = columns[i];
		else
			for (int f = 0; (f = next_figure(&columns[i], f)) < FIGURES_END; f++)
				o->expanded[o->ncolumns++] = column_of(&columns[i], f);
	}
}

/* The cells of all columns: a new array. */
static struct cell *expand_cells(const struct output *o, const struct cell *given)
{
	struct cell *cells = alloc_zero(o->ncolumns, sizeof(*cells));
	size_t n = 0;

	for (size_t i = 0; i < o->ngiven; i++) {
		if (column_kind(&o->given[i]) != COLUMN_FIGURES)
			cells[n++] = given[i];
		else
			for (int f = 0; (f = next_figure(&o->given[i], f)) < FIGURES_END; f++)
				cells[n++] = cell_of(&given[i], f);
	}
	assert(n == o->ncolumns);
	return cells;
}

static void free_columns(struct output *o)
{
	free(o->expanded);
	o->expanded = NULL;
}

/* ---- rows and objects ---- */

void output_begin(struct output *o, const struct column *columns, size_t n)
{
	expand_columns(o, columns, n);
	o->nrows = 0;
	o->format->begin(o);
}

void output_row(struct output *o, const struct cell *cells)
{
	struct cell *all = expand_cells(o, cells);

	o->format->row(o, all);
	o->nrows++;
	free(all);
}

void output_line(struct output *o, const char *text)
{
	if (o->format->line == NULL)
		return;
	o->format->line(o, text);
	o->nrows++;
}

void output_end(struct output *o, bool complete)
{
	o->format->end(o, complete);
	free_columns(o);
}

void output_end_list(struct output *o, bool complete)
{
	bool shows_nothing = o->terminal && o->format != &output_json && o->nrows == 0;

	output_end(o, complete && !shows_nothing);
}

void output_object(struct output *o, const struct column *columns, size_t n, const struct cell *cells)
{
	struct cell *all;

	expand_columns(o, columns, n);
	all = expand_cells(o, cells);
	o->format->object(o, all);
	free(all);
	free_columns(o);
}

static char *json_text(const json_t *json, size_t max_columns)
{
	char *dump = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY), *text;

	if (dump == NULL)
		return alloc_string("-");
	text = visible(dump, strlen(dump), max_columns);
	free(dump);
	return text;
}

char *cell_text(const struct cell *c, size_t max_columns)
{
	char stamp[CLOCK_RFC3339_SIZE], elapsed[UNITS_SIZE];

	switch (c->type) {
	case CELL_TEXT:
		return c->data == NULL ? alloc_string("-") : visible(c->data, strlen(c->data), max_columns);
	case CELL_BYTES:
		return c->data == NULL ? alloc_string("-") : visible(c->data, c->len, max_columns);
	case CELL_INT:
		return alloc_format("%" PRId64, c->value);
	case CELL_BOOL:
		return alloc_string(c->value != 0 ? "yes" : "no");
	case CELL_ELAPSED:
	case CELL_AGO:
		return alloc_string(units_elapsed(c->value, elapsed));
	case CELL_TIME:
		return alloc_string(clock_rfc3339(c->value, stamp));
	case CELL_JSON:
		return json_text(c->json, max_columns);
	case CELL_FACTS:
	case CELL_NONE:
		break;
	}
	return alloc_string("-");
}

const char *output_ago(int64_t ms, char out[OUTPUT_AGO_SIZE])
{
	static const struct { const char *unit; int64_t ms, below; } units[] = {
		{ "s", 1000, 120 }, { "m", 60000, 120 }, { "h", 3600000, 48 }, { "d", 86400000, INT64_MAX },
	};
	bool future = ms < 0;
	size_t u = 0;

	ms = future ? (ms == INT64_MIN ? INT64_MAX : -ms) : ms;
	while (ms / units[u].ms >= units[u].below)
		u++;
	snprintf(out, OUTPUT_AGO_SIZE, "%s%" PRId64 "%s%s", future ? "in " : "", ms / units[u].ms, units[u].unit,
	    future ? "" : " ago");
	return out;
}

/* NULL: it is no time, or is shown as it is. */
static const char *ago_text(const struct output *o, const struct cell *c, char out[OUTPUT_AGO_SIZE])
{
	int64_t ms;

	if (c->type == CELL_TIME && o->now_ms > 0 && !__builtin_sub_overflow(o->now_ms, c->value, &ms))
		return output_ago(ms, out);
	return c->type == CELL_AGO && o->terminal ? output_ago(c->value, out) : NULL;
}

char *output_text(const struct output *o, const struct cell *c, size_t max_columns)
{
	char text[OUTPUT_AGO_SIZE];

	return ago_text(o, c, text) != NULL ? alloc_string(text) : cell_text(c, max_columns);
}

char *output_object_text(const struct output *o, const struct cell *c)
{
	char *shown = cell_text(c, SIZE_MAX), *both, ago[OUTPUT_AGO_SIZE];

	if (c->type != CELL_TIME || ago_text(o, c, ago) == NULL)
		return shown;
	both = alloc_format("%s (%s)", shown, ago);
	free(shown);
	return both;
}
