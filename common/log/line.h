#ifndef COMMON_LOG_LINE_H
#define COMMON_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/log/log.h"

#define LOG_LINE_SIZE 24576

/* A line that is being formatted: begin, fields, end. Only log.c has one. */
struct log_line {
	char text[LOG_LINE_SIZE];
	size_t len;		/* after the end: with the newline, not the NUL behind it */
	enum log_format format;
	bool empty;		/* no field yet */
	bool full;		/* the field being put did not fit */
	bool truncated;		/* a field was left out */
};

void log_line_begin(struct log_line *l, enum log_format format, const char *prefix);
void log_line_field(struct log_line *l, struct log_field f);
void log_line_end(struct log_line *l);

#endif
