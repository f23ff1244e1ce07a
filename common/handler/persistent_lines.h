#ifndef COMMON_HANDLER_PERSISTENT_LINES_H
#define COMMON_HANDLER_PERSISTENT_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* Lines from a descriptor, returned in place. */
#define PERSISTENT_LINES_SIZE 65536

struct persistent_lines {
	int fd;				/* owned; -1: closed, or at the end of input */
	char *data;			/* PERSISTENT_LINES_SIZE bytes */
	size_t at, len;			/* data[at..len) is not returned yet */
	bool within;			/* data[at] continues a line that is too long for the buffer */
};

/* The result of persistent_lines_next(). */
enum persistent_line {
	PERSISTENT_LINE_NONE,		/* no complete line yet */
	PERSISTENT_LINE_WHOLE,
	PERSISTENT_LINE_BEGIN,		/* the beginning of a line that is too long */
	PERSISTENT_LINE_MIDDLE,
	PERSISTENT_LINE_END		/* the end of a long line, with its newline */
};

void persistent_lines_init(struct persistent_lines *l);
void persistent_lines_free(struct persistent_lines *l);
void persistent_lines_begin(struct persistent_lines *l, int fd);	/* non-blocking; drops the rest of another descriptor */
bool persistent_lines_room(const struct persistent_lines *l);

/* One read. True: there is more to return than before. At the end of input, or after an error, the descriptor is closed. */
bool persistent_lines_read(struct persistent_lines *l);

/* A view of `len` bytes, valid until the next read; after WHOLE and END the newline follows. */
enum persistent_line persistent_lines_next(struct persistent_lines *l, const char **line, size_t *len);

/* The bytes at the end that have no newline. */
size_t persistent_lines_rest(const struct persistent_lines *l, const char **rest);
void persistent_lines_close(struct persistent_lines *l);

#endif
