#ifndef COMMON_BASE_IDENTIFIER_H
#define COMMON_BASE_IDENTIFIER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/limits.h"

/*
 * Identifiers that others choose: producers, handlers, hosts. Each becomes a word of a command line, part of a path, of
 * a key, of a URL, and of a line on a terminal. So each begins with a letter or a digit (never "--all", "." or ".."),
 * has a bounded length, and contains no byte with a meaning of its own in one of these places.
 */
enum identifier {
	IDENTIFIER_NAME,		/* of a queue or a node */
	IDENTIFIER_CLASS,		/* an error class that a handler names */
	IDENTIFIER_ID,			/* id and request_id of a message; the id of a record has this form, too */
};
#define IDENTIFIER_ID_MAX 128
#define IDENTIFIER_CLASS_MAX 64

/* len bytes; a NUL among them is as bad as any other byte. */
bool identifier_is(enum identifier kind, const char *text, size_t len);
/* The valid form, in words: "1 to 64 letters, ...". */
const char *identifier_form(enum identifier kind);

#endif
