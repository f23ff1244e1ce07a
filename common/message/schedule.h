#ifndef COMMON_MESSAGE_SCHEDULE_H
#define COMMON_MESSAGE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/base.h"

/* The tick that pushed a message. It travels in the wrapper, so its handler knows it at each attempt. */
struct message_schedule {
	char name[QUEUE_NAME_MAX + 1];	/* of the schedule; "": a producer pushed the message */
	int64_t at_ms;			/* the tick: server's ms since 1970 */
};

struct message_line;

/* Appends the pairs of a wrapper line, each with a blank before it; nothing without a name. */
void message_schedule_append(struct buffer *out, const struct message_schedule *s);
/* The id of a message that the schedule pushes, of the form IDENTIFIER_ID: NAME:2026-11-29T01:30:00.000Z, and for one
 * that an operator asked for (tick false) also :run: and random digits. Two pushes of one tick have the same id. */
#define MESSAGE_SCHEDULE_ID_SIZE (QUEUE_NAME_MAX + CLOCK_RFC3339_SIZE + 24)
void message_schedule_id(const struct message_schedule *s, bool tick, char out[MESSAGE_SCHEDULE_ID_SIZE]);
/* Reads them. Without them, or if a value has another form, which only another version writes: no schedule is known. */
void message_schedule_parse(struct message_schedule *s, const struct message_line *line);

#endif
