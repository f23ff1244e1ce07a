/*
 * Writes rows as a JSON array with one object a line. It writes each row at once. Bytes that are not UTF-8 go under
 * KEY_base64, so the value of KEY is always the message itself.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/cli/output.h"

#include "common/base/base.h"

static void set_base64(json_t *object, const char *key, const struct cell *c)
{
	char *name = alloc_format("%s_base64", key), *text = encode_base64(c->data, c->len);

	json_object_set_new(object, name, json_string(text));
	free(text);
	free(name);
}

static json_t *cell_json(const struct cell *c)
{
	char stamp[CLOCK_RFC3339_SIZE];

	switch (c->type) {
	case CELL_TEXT:
		return c->data == NULL ? json_null() : json_string(c->data);
	case CELL_BYTES:
		return c->data == NULL ? json_null() : json_stringn(c->data, c->len);
	case CELL_INT:
	case CELL_ELAPSED:
	case CELL_AGO:
		return json_integer(c->value);
	case CELL_BOOL:
		return json_boolean(c->value != 0);
	case CELL_TIME:
		return json_string(clock_rfc3339(c->value, stamp));
	case CELL_JSON:
		return json_incref(c->json);
	case CELL_NONE:
		break;
	}
	return json_null();
}

static json_t *object_of(const struct output *o, const struct cell *cells)
{
	json_t *object = json_object();

	for (size_t i = 0; i < o->ncolumns; i++) {
		json_t *value;

		if (o->columns[i].key == NULL)
			continue;
		value = cell_json(&cells[i]);
		if (value != NULL)
			json_object_set_new(object, o->columns[i].key, value);
		else		/* jansson takes UTF-8 only */
			set_base64(object, o->columns[i].key, &(struct cell){ .data = cells[i].data,
			    .len = cells[i].type == CELL_BYTES ? cells[i].len : strlen(cells[i].data) });
	}
	return object;
}

/* On a terminal, escapes all characters but ASCII. JSON allows U+0080 to U+009F, but some terminals obey them as commands. */
static size_t escapes(const struct output *o)
{
	return o->width != SIZE_MAX ? JSON_ENSURE_ASCII : 0;
}

/* The first row writes the bracket, so a command that fails before it prints nothing on standard output. */
static void array_begin(struct output *o)
{
	(void)o;
}

static void array_row(struct output *o, const struct cell *cells)
{
	json_t *object = object_of(o, cells);

	fputs(o->nrows == 0 ? "[\n" : ",\n", o->file);
	json_dumpf(object, o->file, JSON_COMPACT | escapes(o));
	json_decref(object);
}

static void array_end(struct output *o, bool complete)
{
	if (complete)
		fputs(o->nrows == 0 ? "[]\n" : "\n]\n", o->file);
	else if (o->nrows > 0)
		fputc('\n', o->file);
}

static void one_object(struct output *o, const struct cell *cells)
{
	json_t *object = object_of(o, cells);

	json_dumpf(object, o->file, JSON_INDENT(2) | escapes(o));
	fputc('\n', o->file);
	json_decref(object);
}

const struct output_format output_json = { array_begin, array_row, array_end, one_object, NULL };
