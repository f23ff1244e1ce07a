/* Writes and reads the pairs of a wrapper that name a schedule and its tick. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "common/message/schedule.h"

#include "common/message/line.h"

void message_schedule_append(struct buffer *out, const struct message_schedule *s)
{
	if (s->name[0] != '\0')
		buffer_format(out, " schedule=%s scheduled=%" PRId64, s->name, s->at_ms);
}

void message_schedule_id(const struct message_schedule *s, bool tick, char out[MESSAGE_SCHEDULE_ID_SIZE])
{
	char stamp[CLOCK_RFC3339_SIZE];
	uint64_t random;
	int len = snprintf(out, MESSAGE_SCHEDULE_ID_SIZE, "%s:%s", s->name, clock_rfc3339(s->at_ms, stamp));

	arc4random_buf(&random, sizeof(random));
	if (!tick)
		snprintf(out + len, MESSAGE_SCHEDULE_ID_SIZE - (size_t)len, ":run:%016" PRIx64, random);
}

void message_schedule_parse(struct message_schedule *s, const struct message_line *line)
{
	const char *name = message_line_value(line, "schedule");

	*s = (struct message_schedule){0};
	if (name == NULL || !identifier_is(IDENTIFIER_NAME, name, strlen(name)) ||
	    message_line_number(line, "scheduled", INT64_MAX, &s->at_ms) == -1)
		return;
	strlcpy(s->name, name, sizeof(s->name));
}
