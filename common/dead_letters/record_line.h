#ifndef COMMON_DEAD_LETTERS_RECORD_LINE_H
#define COMMON_DEAD_LETTERS_RECORD_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/queue/queue.h"

#define QUEUE_RECORD_ID_SIZE 48	/* "1700000000000-0" */

/* The parts of a record's id. -1: not an id */
int queue_record_id_parse(const char *id, uint64_t *ms, uint64_t *serial);
/* As strcmp(3), for two ids. */
int queue_record_id_compare(const char *a, const char *b);
/* Writes the next greater id; if id is not one: 0-1. false: id is the greatest of all; out is the same. No record
 * follows, so a walk ends. */
bool queue_record_id_next(const char *id, char out[QUEUE_RECORD_ID_SIZE]);

/* A dead letter as one line of JSON: archive, dlq export and forwarding write the same (quredis(1), "RECORDS"). */

struct record_field {
	struct queue_bytes name, value;
};

struct record_line {
	const char *record_id;
	const struct record_field *fields;	/* all fields of the stream, also unknown ones */
	size_t nfields;
	const struct queue_bytes *message;	/* NULL: only the message in the record, if that is complete */
	/* for the archive; NULL: left out */
	const char *archived_at, *reason, *batch, *digest;
	bool orphan;				/* it has no message any more */
};

/*
 * Appends a line with its newline. Numbers are JSON numbers, empty fields are null, and bytes that are not UTF-8 become
 * base64 as NAME_base64.
 */
void record_line(struct buffer *out, const struct record_line *l);

bool record_field_is_number(const char *name);
/* NULL: no such field */
const struct queue_bytes *record_field_of(const struct record_field *fields, size_t n, const char *name);

#endif
