/* Reads the traceparent of a line before a message. */
#include <stdbool.h>
#include <string.h>

#include <bsd/string.h>

#include "common/message/traceparent.h"

#include "common/base/base.h"
#include "common/message/line.h"

static bool is_traceparent(const char *value)
{
	/* a number of hex digits each, and what comes after them; the last one ends the text */
	static const struct {
		size_t digits;
		char end;
		bool may_be_zero;
	} parts[] = { { 2, '-', true }, { 32, '-', false }, { 16, '-', false }, { 2, '\0', true } };

	if (strncmp(value, "ff", 2) == 0)	/* the recommendation forbids this version */
		return false;
	for (size_t i = 0; i < nitems(parts); value += parts[i++].digits + 1)
		if (strspn(value, "0123456789abcdef") != parts[i].digits || value[parts[i].digits] != parts[i].end ||
		    (!parts[i].may_be_zero && strspn(value, "0") == parts[i].digits))
			return false;
	return true;
}

void message_traceparent_parse(char traceparent[MESSAGE_TRACEPARENT_SIZE], const struct message_line *line,
    const char *key)
{
	const char *value = message_line_value(line, key);

	strlcpy(traceparent, value != NULL && is_traceparent(value) ? value : "", MESSAGE_TRACEPARENT_SIZE);
}
