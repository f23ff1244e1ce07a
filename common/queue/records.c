/* The record of a dead letter: names and text of its fields (quredis(1), "dlq show"). */
#include <string.h>

#include "common/queue/records.h"

const char *const record_fields[RECORD_FIELDS] = { "id", "queue", "queue_from", "error_class", "error_message",
	"failed_at", "retry_count", "attempts", "crashes", "exit_code", "signal", "stderr", "duration_ms", "node",
	"worker", "handler", "first_failed_at", "request_id", "root", "depth", "traceparent", "sha1", "size",
	"message" };

/* Most messages have none of these, so a record does without. */
static bool is_left_out(const char *field, const struct script_arg *value)
{
	return value->len == 0 &&
	    (strcmp(field, "root") == 0 || strcmp(field, "depth") == 0 || strcmp(field, "traceparent") == 0);
}

static struct script_arg number_or_none(struct script_number *room, int64_t value)
{
	return value < 0 ? script_string(NULL) : script_number(room, value);
}

size_t queue_record_args(const struct record *record, struct message *m, struct record_text *text,
    struct script_arg *args)
{
	const char *original = m->raw + m->wrapper_len;
	size_t size = m->raw_len - m->wrapper_len;
	const struct message_lineage *lineage = &m->wrapper.lineage;
	size_t n = 0;
	int64_t first = record->first_failed_ms == 0 ? record->failed_at_ms : record->first_failed_ms;

	message_digest(m, text->sha1);
	const struct script_arg values[RECORD_FIELDS] = {
		script_string(message_id(m)),
		script_string(record->queue),
		script_string(record->queue_from),
		script_string(record->error_class),
		script_string(record->error_message),
		script_string(clock_rfc3339(record->failed_at_ms, text->failed_at)),
		script_number(&text->numbers[0], record->attempts > 1 ? record->attempts - 1 : 0),
		script_number(&text->numbers[1], record->attempts),
		script_number(&text->numbers[2], record->crashes),
		number_or_none(&text->numbers[3], record->exit_code),
		script_string(record->signal),
		{ record->stderr_tail == NULL ? "" : record->stderr_tail, record->stderr_len },
		number_or_none(&text->numbers[4], record->duration_ms),
		script_string(record->node),
		script_string(record->worker),
		script_string(record->handler),
		script_string(clock_rfc3339(first, text->first_failed_at)),
		script_string(m->request_id),
		script_string(lineage->root),
		number_or_none(&text->numbers[6], lineage->depth > 0 ? lineage->depth : -1),
		script_string(message_traceparent(m)),
		script_string(text->sha1),
		script_number(&text->numbers[5], (int64_t)size),
		{ original, size <= record->payload_max ? size : 0 },
	};

	for (size_t i = 0; i < RECORD_FIELDS; i++) {
		if (is_left_out(record_fields[i], &values[i]))
			continue;
		args[n++] = script_string(record_fields[i]);
		args[n++] = values[i];
	}
	return n;
}
