#ifndef COMMON_HANDLER_LINES_H
#define COMMON_HANDLER_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* Lines from a descriptor, returned in place. */
#define HANDLER_LINES_SIZE 65536

struct handler_lines {
	int fd;				/* owned; -1: closed, or at the end of input */
	char *data;			/* HANDLER_LINES_SIZE bytes */
	size_t at, len;			/* data[at..len) is not returned yet */
	bool within;			/* data[at] continues a line that is too long for the buffer */
};

/* The result of handler_lines_next(). */
enum handler_lines_part {
	HANDLER_LINES_NONE,		/* no complete line yet */
	HANDLER_LINES_WHOLE,
	HANDLER_LINES_BEGIN,		/* the beginning of a line that is too long */
	HANDLER_LINES_MIDDLE,
	HANDLER_LINES_END		/* the end of a long line, with its newline */
};

void handler_lines_init(struct handler_lines *l);
void handler_lines_free(struct handler_lines *l);
void handler_lines_begin(struct handler_lines *l, int fd);	/* non-blocking; drops the rest of another descriptor */
bool handler_lines_room(const struct handler_lines *l);

/* Reads once. True: there is more to return than before. Closes the descriptor at the end of input, or after an
 * error. */
bool handler_lines_read(struct handler_lines *l);

/* A view of `len` bytes, valid until the next read; after WHOLE and END the newline follows. */
enum handler_lines_part handler_lines_next(struct handler_lines *l, const char **line, size_t *len);

/* The bytes that handler_lines_next() has not returned, if the last thing that it returned was a whole line. */
size_t handler_lines_bytes(const struct handler_lines *l, const char **bytes);
void handler_lines_skip(struct handler_lines *l, size_t n);	/* the first n of them were taken */
void handler_lines_continue(struct handler_lines *l);		/* the next one continues a line */

/* The bytes at the end that have no newline. */
size_t handler_lines_rest(const struct handler_lines *l, const char **rest);
void handler_lines_close(struct handler_lines *l);

#endif
