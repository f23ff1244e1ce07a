#ifndef COMMON_RECORD_LINE_H
#define COMMON_RECORD_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buffer.h"
#include "common/queue_admin.h"

/* A dead letter as one line of JSON: archive, dlq export and forwarding write the same (quredis(1), "RECORDS"). */

struct record_field {
	struct queue_bytes name, value;
};

struct record_line {
	const char *record_id;
	const struct record_field *fields;	/* as they stand in the stream, whatever they are called */
	size_t nfields;
	const struct queue_bytes *message;	/* NULL: only if the record has it whole */
	/* of an archive; NULL: left out */
	const char *archived_at, *reason, *batch, *digest;
	bool orphan;				/* there is no message to it any more */
};

/* With a newline. Numbers are numbers, what is empty is null, bytes that are no UTF-8 stand in base64 as NAME_base64. */
void record_line(struct buffer *out, const struct record_line *l);

bool record_field_is_number(const char *name);
const struct queue_bytes *record_field_of(const struct record_field *fields, size_t n, const char *name);	/* NULL: none */

#endif
