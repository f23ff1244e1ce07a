/* The id of a record, and a dead letter as a line of JSON. The callers choose the dead letters, and the place of the
 * line. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <jansson.h>

#include "common/dead_letters/record_line.h"

#include "common/base/base.h"

/* ---- ids ---- */

int queue_record_id_parse(const char *id, uint64_t *ms, uint64_t *serial)
{
	size_t digits = strspn(id, "0123456789"), more;

	if (digits == 0 || digits > 20 || id[digits] != '-')
		return -1;
	more = strspn(id + digits + 1, "0123456789");
	if (more == 0 || more > 20 || id[digits + 1 + more] != '\0')
		return -1;
	errno = 0;
	*ms = strtoull(id, NULL, 10);
	*serial = strtoull(id + digits + 1, NULL, 10);
	return errno == 0 ? 0 : -1;
}

int queue_record_id_compare(const char *a, const char *b)
{
	uint64_t ms[2] = {0}, serial[2] = {0};

	queue_record_id_parse(a, &ms[0], &serial[0]);
	queue_record_id_parse(b, &ms[1], &serial[1]);
	if (ms[0] != ms[1])
		return ms[0] < ms[1] ? -1 : 1;
	return serial[0] == serial[1] ? 0 : serial[0] < serial[1] ? -1 : 1;
}

bool queue_record_id_next(const char *id, char out[QUEUE_RECORD_ID_SIZE])
{
	uint64_t ms = 0, serial = 0;

	queue_record_id_parse(id, &ms, &serial);
	if (ms == UINT64_MAX && serial == UINT64_MAX) {
		snprintf(out, QUEUE_RECORD_ID_SIZE, "%" PRIu64 "-%" PRIu64, ms, serial);
		return false;
	}
	if (++serial == 0)
		ms++;
	snprintf(out, QUEUE_RECORD_ID_SIZE, "%" PRIu64 "-%" PRIu64, ms, serial);
	return true;
}

/* ---- lines ---- */

static const char *const number_fields[] = { "retry_count", "attempts", "crashes", "exit_code", "duration_ms", "depth",
	"size" };

bool record_field_is_number(const char *name)
{
	for (size_t i = 0; i < nitems(number_fields); i++)
		if (strcmp(name, number_fields[i]) == 0)
			return true;
	return false;
}

const struct queue_bytes *record_field_of(const struct record_field *fields, size_t n, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < n; i++)
		if (fields[i].name.len == len && memcmp(fields[i].name.data, name, len) == 0)
			return &fields[i].value;
	return NULL;
}

static void set_bytes(json_t *line, const char *name, const struct queue_bytes *b)
{
	json_t *text = json_stringn(b->data, b->len);
	char *other, *encoded;

	if (text != NULL) {
		json_object_set_new(line, name, text);
		return;
	}
	other = alloc_format("%s_base64", name);
	encoded = encode_base64(b->data, b->len);
	json_object_set_new(line, other, json_string(encoded));
	free(encoded);
	free(other);
}

static void set_field(json_t *line, const char *name, const struct queue_bytes *value)
{
	const char *why = NULL;
	long long number = 0;

	if (value->len > 0 && record_field_is_number(name))
		number = strtonum(value->data, 0, INT64_MAX, &why);	/* every reply ends with a NUL */
	if (value->len == 0 && strcmp(name, "stderr") != 0)
		json_object_set_new(line, name, json_null());
	else if (record_field_is_number(name) && why == NULL)
		json_object_set_new(line, name, json_integer(number));
	else
		set_bytes(line, name, value);
}

/* The message in the record, if the record has all of it; else NULL. */
static const struct queue_bytes *message_of(const struct record_line *l)
{
	const struct queue_bytes *kept = record_field_of(l->fields, l->nfields, "message");
	const struct queue_bytes *size = record_field_of(l->fields, l->nfields, "size");
	const char *why = NULL;

	if (l->message != NULL || kept == NULL || size == NULL)
		return l->message;
	return strtonum(size->data, 0, INT64_MAX, &why) == (long long)kept->len && why == NULL ? kept : NULL;
}

static void set_string(json_t *line, const char *name, const char *value)
{
	if (value != NULL)
		json_object_set_new(line, name, json_string(value));
}

static json_t *object_of(const struct record_line *l)
{
	const struct queue_bytes *message = message_of(l);
	json_t *line = json_object();

	set_string(line, "record", l->record_id);
	for (size_t i = 0; i < l->nfields; i++) {
		char *name = alloc_copy(l->fields[i].name.data, l->fields[i].name.len);

		/* A field of the record does not replace a member that this file writes. */
		if (strcmp(name, "message") != 0 && json_object_get(line, name) == NULL)
			set_field(line, name, &l->fields[i].value);
		free(name);
	}
	if (message != NULL)
		set_bytes(line, "message", message);
	else
		json_object_set_new(line, "message", json_null());
	set_string(line, "archived_at", l->archived_at);
	set_string(line, "reason", l->reason);
	set_string(line, "batch", l->batch);
	set_string(line, "digest", l->digest);
	if (l->orphan)
		json_object_set_new(line, "orphan", json_true());
	return line;
}

static int append_chunk(const char *data, size_t len, void *out)
{
	buffer_append(out, data, len);
	return 0;
}

void record_line(struct buffer *out, const struct record_line *l)
{
	json_t *line = object_of(l);

	if (json_dump_callback(line, append_chunk, out, JSON_COMPACT) == -1)
		alloc_failed();
	json_decref(line);
	buffer_append(out, "\n", 1);
}
