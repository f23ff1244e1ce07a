#ifndef ADMIN_CLI_OUTPUT_H
#define ADMIN_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "admin/cli/colour.h"
#include "common/facts/facts.h"

/*
 * The standard output of a command: rows under columns, or one object. The same cells become a table (output_table.c)
 * or JSON (output_json.c).
 */
struct json_t;

enum column_kind {	/* how it gives way if the line is too long; layout.c */
	COLUMN_NAME,	/* is cut */
	COLUMN_NUMBER,	/* aligned to the right, never cut */
	/* a number of which 0 and unknown say something, too: whether it is shown does not depend on its values */
	COLUMN_FIGURE,
	COLUMN_STATE,	/* a word, never cut; it has the colour of its meaning */
	COLUMN_ID,	/* never cut or broken: the operator copies it into a command */
	COLUMN_TEXT,	/* a reason or an error: continues on further lines */
	COLUMN_LINE,	/* a message: gets the rest of a line, and is cut */
	COLUMN_LINES,	/* only in an object: bytes whose lines stand one below the other */
	COLUMN_FIGURES	/* stands for a column for each counter and each figure of a table */
};
struct column {
	const char *key;	/* of the member in JSON; NULL: left out */
	const char *title;	/* in the table; NULL: left out */
	unsigned kind;		/* enum column_kind, and YIELDS() if the column may be left out */
};
/* where the terminal is too narrow the columns with the lower ranks go first */
#define YIELDS(rank) ((unsigned)(rank) << 8)
#define YIELDS_MOST 16
#define FIGURES_OF(table) (COLUMN_FIGURES | (unsigned)(table) << 16)	/* enum fact_table */

static inline enum column_kind column_kind(const struct column *c)
{
	return (enum column_kind)(c->kind & 0xff);
}

static inline int column_yields(const struct column *c)		/* its rank; 0: never */
{
	return c->kind >> 8 & 0xff;
}

struct cell {
	enum cell_type {
		CELL_NONE,	/* "-"; null */
		CELL_TEXT,	/* a string made by quredis */
		CELL_BYTES,	/* untrusted bytes; in JSON under KEY, or under KEY_base64 if they are not UTF-8 */
		CELL_INT,
		CELL_BOOL,	/* yes, no; in JSON true, false */
		CELL_ELAPSED,	/* ms; in a table "3m12s", in JSON a number */
		CELL_TIME,	/* ms since 1970; RFC 3339, for people "3m ago" */
		CELL_AGO,	/* as CELL_ELAPSED, for people "3m ago" */
		CELL_JSON,	/* any value, borrowed; in a table a compact dump */
		CELL_FACTS	/* the figures of a column that stands for several; borrowed */
	} type;
	const char *data;	/* TEXT, BYTES; NULL: as CELL_NONE. Valid during the call */
	size_t len;		/* BYTES */
	int64_t value;
	struct json_t *json;
	const struct facts *facts;	/* FACTS; NULL: none is known */
	const struct queue_figures *counted;	/* FACTS; NULL: none is known */
};

struct output;
struct output_format {
	void (*begin)(struct output *o);
	void (*row)(struct output *o, const struct cell *cells);
	void (*end)(struct output *o, bool complete);
	void (*object)(struct output *o, const struct cell *cells);
	void (*line)(struct output *o, const char *text);	/* NULL: it has no lines between rows */
};
extern const struct output_format output_table, output_json;

struct output {
	const struct output_format *format;
	FILE *file;
	size_t width;			/* of the terminal; SIZE_MAX: none */
	/* a person reads it: times are relative, and columns without any value are left out */
	bool terminal;
	bool colour;
	/* by the clock of Redis; 0: not known, times are absolute. admin_show_ages() sets it */
	int64_t now_ms;
	bool wrap;			/* a long cell continues on the next line instead of being cut */
	const struct column *columns;	/* columns of the current rows or object */
	size_t ncolumns;
	struct column *expanded;	/* the same; owned */
	const struct column *given;	/* as the caller gave them: one of these may stand for several */
	size_t ngiven;
	size_t nrows;
	struct table_row *rows;		/* table: rows that are not written yet */
	size_t nheld, held_bytes;
	struct table_place *places;	/* table: of the columns; chosen when the first rows are written */
};

/* Sets the width, which only a terminal has, and whether there are colours. */
void output_init(struct output *o, FILE *file, bool json, enum colour_choice colour);

void output_begin(struct output *o, const struct column *columns, size_t n);
void output_row(struct output *o, const struct cell *cells);
/* A line of text between the rows of a table. JSON leaves it out. */
void output_line(struct output *o, const char *text);
/* complete false: writes the rows so far, and does not close the array */
void output_end(struct output *o, bool complete);

/* The same, where a notice says that the list is empty: a person then sees no header above nothing. */
void output_end_list(struct output *o, bool complete);

/* Prints a single object: lines "title  value", or one JSON object. */
void output_object(struct output *o, const struct column *columns, size_t n, const struct cell *cells);

/* Writes a document that has no rows, or a line of JSON with its newline. On a terminal both are safe to look at. */
void output_json_document(const struct output *o, const struct json_t *value);
void output_json_line(const struct output *o, const char *line, size_t len);

/* The text of a cell: a new string of at most max_columns. */
char *cell_text(const struct cell *c, size_t max_columns);
/* The same in a table, where people see "3m ago". */
char *output_text(const struct output *o, const struct cell *c, size_t max_columns);
/* The same in an object, where people see a time, and how long ago it was. */
char *output_object_text(const struct output *o, const struct cell *c);

/* "3m ago", "in 12s", rounded down. Writes and returns out. */
#define OUTPUT_AGO_SIZE 32
const char *output_ago(int64_t ms, char out[OUTPUT_AGO_SIZE]);

static inline struct cell cell_str(const char *s) { return (struct cell){ .type = CELL_TEXT, .data = s }; }
static inline struct cell cell_bytes(const void *p, size_t len)
{
	return (struct cell){ .type = CELL_BYTES, .data = p, .len = len };
}
static inline struct cell cell_int(int64_t v) { return (struct cell){ .type = CELL_INT, .value = v }; }
static inline struct cell cell_bool(bool v) { return (struct cell){ .type = CELL_BOOL, .value = v }; }
static inline struct cell cell_elapsed(int64_t ms) { return (struct cell){ .type = CELL_ELAPSED, .value = ms }; }
static inline struct cell cell_ago(int64_t ms) { return (struct cell){ .type = CELL_AGO, .value = ms }; }
static inline struct cell cell_time(int64_t ms) { return (struct cell){ .type = CELL_TIME, .value = ms }; }
static inline struct cell cell_facts(const struct facts *f) { return (struct cell){ .type = CELL_FACTS, .facts = f }; }
static inline struct cell cell_figures(const struct queue_figures *counted, const struct facts *f)
{
	return (struct cell){ .type = CELL_FACTS, .counted = counted, .facts = f };
}
static inline struct cell cell_none(void) { return (struct cell){ .type = CELL_NONE }; }
static inline struct cell cell_count(int64_t n) { return n < 0 ? cell_none() : cell_int(n); }	/* n < 0: not known */
static inline struct cell cell_fact(const struct facts *f, enum fact fact)
{
	enum fact_type type = facts_table[fact].type;
	int64_t n = f->n[fact];

	if (n >= 0 && type == FACT_FLAG)
		return cell_bool(n > 0);
	return n >= 0 && (type == FACT_AGE || type == FACT_LEFT) ? cell_elapsed(n) : cell_count(n);
}
static inline bool cell_is_empty(const struct cell *c)		/* it has no value */
{
	return c->type == CELL_NONE || ((c->type == CELL_TEXT || c->type == CELL_BYTES) && c->data == NULL);
}

#endif
