#ifndef COMMON_QUEUE_RECORDS_H
#define COMMON_QUEUE_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/message/message.h"
#include "common/queue/scripts.h"

/*
 * The record of a dead letter (docs/design.md). Its id, request_id, root, depth, traceparent, sha1, size and message
 * come from the message itself, its retry_count from attempts. NULL strings are written as "". Only the record of a
 * message that a handler emitted has root and depth, and only one that has a traceparent has that.
 */
struct record {
	const char *queue, *queue_from, *error_class, *error_message;
	int64_t failed_at_ms;		/* ms since 1970 */
	int64_t first_failed_ms;	/* ms since 1970; 0: equal to failed_at_ms */
	int attempts, crashes;		/* including this failure */
	int exit_code;			/* -1: no exit status */
	const char *signal;		/* "SIGKILL"; NULL: no signal */
	const char *stderr_tail;
	size_t stderr_len;
	int64_t duration_ms;		/* -1: the handler did not run */
	const char *node, *worker, *handler;
	/* a message of at most so many bytes is kept in the record; a longer one is left out */
	size_t payload_max;
};
#define RECORD_FIELDS 24
extern const char *const record_fields[RECORD_FIELDS];	/* names in the order they are written */

/* Storage for the numbers and times of a record as text, while its arguments are in use. */
struct record_text {
	struct script_number numbers[9];
	char failed_at[CLOCK_RFC3339_SIZE], first_failed_at[CLOCK_RFC3339_SIZE];
	char sha1[ENCODE_SHA1_SIZE];
};

/* Field, value, field, value …: fills at most args[2 * RECORD_FIELDS] and returns how many. m: the message as it lies
 * in its list. */
size_t queue_record_args(const struct record *record, struct message *m, struct record_text *text,
    struct script_arg *args);

#endif
