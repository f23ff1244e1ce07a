/* The code that tables and JSON share: properties of the output file, and the text of a cell. */
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

void output_begin(struct output *o, const struct column *columns, size_t n)
{
	o->columns = columns;
	o->ncolumns = n;
	o->nrows = 0;
	o->format->begin(o);
}

void output_row(struct output *o, const struct cell *cells)
{
	o->format->row(o, cells);
	o->nrows++;
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
}

void output_end_list(struct output *o, bool complete)
{
	bool shows_nothing = o->terminal && o->format != &output_json && o->nrows == 0;

	output_end(o, complete && !shows_nothing);
}

void output_object(struct output *o, const struct column *columns, size_t n, const struct cell *cells)
{
	o->columns = columns;
	o->ncolumns = n;
	o->format->object(o, cells);
}

static char *elapsed_text(int64_t ms)
{
	char text[UNITS_SIZE];

	return alloc_string(units_elapsed(ms, text));
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
	char stamp[CLOCK_RFC3339_SIZE];

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
		return elapsed_text(c->value);
	case CELL_TIME:
		return alloc_string(clock_rfc3339(c->value, stamp));
	case CELL_JSON:
		return json_text(c->json, max_columns);
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
	snprintf(out, OUTPUT_AGO_SIZE, "%s%" PRId64 "%s%s", future ? "in " : "", ms / units[u].ms, units[u].unit, future ? "" : " ago");
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
