#ifndef ADMIN_OUTPUT_H
#define ADMIN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * What a command says on standard output: rows under columns, or one object. The same cells become
 * a table (output_table.c) or JSON (output_json.c).
 */
struct json_t;

struct column {
	const char *key;	/* in JSON; NULL: not there */
	const char *title;	/* of the table; NULL: not there */
	bool right;		/* numbers */
};

struct cell {
	enum cell_type {
		CELL_NONE,	/* "-"; null */
		CELL_TEXT,	/* a string of ours */
		CELL_BYTES,	/* foreign bytes; in JSON under KEY, or KEY_base64 if they are no UTF-8 */
		CELL_INT,
		CELL_BOOL,	/* yes, no; true, false */
		CELL_ELAPSED,	/* ms; "3m12s"; a number */
		CELL_TIME,	/* ms since 1970; RFC 3339 */
		CELL_JSON	/* any value, borrowed; a compact dump in a table */
	} type;
	const char *data;	/* TEXT, BYTES; NULL: as CELL_NONE. Only read during the call */
	size_t len;		/* BYTES */
	int64_t value;
	struct json_t *json;
};

struct output;
struct output_format {
	void (*begin)(struct output *o);
	void (*row)(struct output *o, const struct cell *cells);
	void (*end)(struct output *o, bool complete);
	void (*object)(struct output *o, const struct cell *cells);
};
extern const struct output_format output_table, output_json;

struct output {
	const struct output_format *format;
	FILE *file;
	size_t width;			/* of the terminal; SIZE_MAX: none */
	bool colour;
	bool keep_first;		/* the first column is an id, which is no use cut */
	bool keep_tail;			/* the last word of what is cut stays */
	const int *give_way;		/* columns that are left out where there is no room, in this order; -1 ends them; NULL: none */
	bool wrap;			/* what is too long for its column goes on below, and is not cut */
	const struct column *columns;	/* of the rows or the object under way */
	size_t ncolumns;
	size_t nrows;
	struct table_row *rows;		/* table: rows not yet written */
	size_t nheld, held_bytes;
	size_t *widths;			/* table: fixed once the first rows are out */
	bool *left_out;			/* table: columns that gave way; NULL: none can */
};

/* Looks at file: width and colour only for a terminal, no colour with NO_COLOR. */
void output_init(struct output *o, FILE *file, bool json);

void output_begin(struct output *o, const struct column *columns, size_t n);
void output_row(struct output *o, const struct cell *cells);
void output_end(struct output *o, bool complete);	/* not complete: what there is, and no closing */

/* One thing: "title  value" lines, or one JSON object. */
void output_object(struct output *o, const struct column *columns, size_t n, const struct cell *cells);

/* What a cell shows in a table: a new string of at most max_columns. */
char *cell_text(const struct cell *c, size_t max_columns);

static inline struct cell cell_str(const char *s) { return (struct cell){ .type = CELL_TEXT, .data = s }; }
static inline struct cell cell_bytes(const void *p, size_t len)
{
	return (struct cell){ .type = CELL_BYTES, .data = p, .len = len };
}
static inline struct cell cell_int(int64_t v) { return (struct cell){ .type = CELL_INT, .value = v }; }
static inline struct cell cell_bool(bool v) { return (struct cell){ .type = CELL_BOOL, .value = v }; }
static inline struct cell cell_elapsed(int64_t ms) { return (struct cell){ .type = CELL_ELAPSED, .value = ms }; }
static inline struct cell cell_time(int64_t ms) { return (struct cell){ .type = CELL_TIME, .value = ms }; }
static inline struct cell cell_none(void) { return (struct cell){ .type = CELL_NONE }; }

#endif
