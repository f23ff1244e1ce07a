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
		return c->json == NULL ? json_null() : json_incref(c->json);
	case CELL_FACTS:
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

/* Jansson escapes no DEL, which some terminals obey as a command. It stands only in strings. */
static int write_without_del(const char *text, size_t len, void *file)
{
	for (size_t i = 0, plain; i < len; i += plain + (i + plain < len)) {
		const char *del = memchr(text + i, 0x7f, len - i);

		plain = del == NULL ? len - i : (size_t)(del - text) - i;
		fwrite(text + i, 1, plain, file);
		if (del != NULL)
			fputs("\\u007f", file);
	}
	return 0;
}

/* On a terminal, escapes all characters but printable ASCII. JSON allows DEL and U+0080 to U+009F, but some terminals
 * obey them as commands. */
static void dump(const struct output *o, const json_t *value, size_t flags)
{
	if (o->width != SIZE_MAX)
		json_dump_callback(value, write_without_del, o->file, flags | JSON_ENSURE_ASCII);
	else
		json_dumpf(value, o->file, flags);
}

void output_json_document(const struct output *o, const json_t *value)
{
	dump(o, value, JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
	fputc('\n', o->file);
}

void output_json_line(const struct output *o, const char *line, size_t len)
{
	json_t *value = o->width != SIZE_MAX ? json_loadb(line, len, JSON_DISABLE_EOF_CHECK, NULL) : NULL;

	if (value == NULL) {
		fwrite(line, 1, len, o->file);
		return;
	}
	dump(o, value, JSON_COMPACT);
	fputc('\n', o->file);
	json_decref(value);
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
	dump(o, object, JSON_COMPACT);
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

	output_json_document(o, object);
	json_decref(object);
}

const struct output_format output_json = { array_begin, array_row, array_end, one_object, NULL };
