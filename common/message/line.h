#ifndef COMMON_MESSAGE_LINE_H
#define COMMON_MESSAGE_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "common/message/message.h"

/*
 * Parses one line "quredis/1 key=value key=value\n". message.c decides which keys count, and their meaning.
 */
#define MESSAGE_MAGIC "quredis/"
#define MESSAGE_VERSION "quredis/1"
#define MESSAGE_VALUE_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:+-"
#define MESSAGE_PAIRS_MAX 64		/* a line with more has another form */

struct message_pair {
	const char *key, *value;	/* in the line's text */
};

struct message_line {
	size_t len;		/* with the newline; 0: the bytes begin with no such line */
	size_t npairs;
	struct message_pair pairs[MESSAGE_PAIRS_MAX];	/* no key occurs twice */
	char text[MESSAGE_LINE_MAX];	/* a copy, with a NUL behind each key and value */
};

/* Parses the line with which data begins. */
void message_line_parse(struct message_line *line, const char *data, size_t len);
/* The same for "key=value key=value" alone, which sets the pairs only. -1: it has another form */
int message_line_parse_pairs(struct message_line *line, const char *data, size_t len);

const char *message_line_value(const struct message_line *line, const char *key);	/* NULL: the key is absent */
/* The same as a number from 0 to max, or as a duration in ms. An absent key leaves *out alone. -1: not such a value */
int message_line_number(const struct message_line *line, const char *key, int64_t max, int64_t *out);
int message_line_duration(const struct message_line *line, const char *key, int64_t *out);

/* of its key, in the bytes of the line */
size_t message_line_offset(const struct message_line *line, const struct message_pair *p);

#endif
