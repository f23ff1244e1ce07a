/* The record of a dead letter: names and text of its fields (quredis(1), "dlq show"). */
#include <string.h>

#include "common/queue/records.h"

const char *const record_fields[RECORD_FIELDS] = { "id", "queue", "queue_from", "error_class", "error_message",
	"failed_at", "retry_count", "attempts", "crashes", "exit_code", "signal", "stderr", "duration_ms", "node",
	"worker", "handler", "first_failed_at", "request_id", "sha1", "size", "message" };

static struct script_arg number_or_none(struct script_number *room, int64_t value)
{
	return value < 0 ? script_string(NULL) : script_number(room, value);
}

size_t queue_record_args(const struct record *record, struct message *m, struct record_text *text,
    struct script_arg *args)
{
	const char *original = m->raw + m->wrapper_len;
	size_t size = m->raw_len - m->wrapper_len;
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
		script_string(text->sha1),
		script_number(&text->numbers[5], (int64_t)size),
		{ original, size <= record->payload_max ? size : 0 },
	};

	for (size_t i = 0; i < RECORD_FIELDS; i++) {
		args[2 * i] = script_string(record_fields[i]);
		args[2 * i + 1] = values[i];
	}
	return 2 * RECORD_FIELDS;
}
