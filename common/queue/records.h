#ifndef COMMON_QUEUE_RECORDS_H
#define COMMON_QUEUE_RECORDS_H

#include <stddef.h>

#include "common/base/base.h"
#include "common/queue/moves.h"
#include "common/queue/scripts.h"

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
