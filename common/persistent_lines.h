#ifndef COMMON_PERSISTENT_LINES_H
#define COMMON_PERSISTENT_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* Lines as they come from a descriptor, in place. */
#define PERSISTENT_LINES_SIZE 65536

struct persistent_lines {
	int fd;				/* owned; -1: closed, or at its end */
	char *data;			/* PERSISTENT_LINES_SIZE bytes */
	size_t at, len;			/* data[at..len) is not taken yet */
	bool within;			/* what is at `at` goes on a line too long to be seen whole */
};

/* What persistent_lines_next() found. */
enum persistent_line {
	PERSISTENT_LINE_NONE,		/* nothing, or no newline yet */
	PERSISTENT_LINE_WHOLE,
	PERSISTENT_LINE_BEGIN,		/* of one too long */
	PERSISTENT_LINE_MIDDLE,
	PERSISTENT_LINE_END		/* and its newline */
};

void persistent_lines_init(struct persistent_lines *l);
void persistent_lines_free(struct persistent_lines *l);
void persistent_lines_begin(struct persistent_lines *l, int fd);	/* non-blocking; what was left of another is dropped */
bool persistent_lines_room(const struct persistent_lines *l);

/* One read. True: there is more to take than before. At its end, or an error, the descriptor is closed. */
bool persistent_lines_read(struct persistent_lines *l);

/* A view of `len` bytes, valid until the next read; behind WHOLE and END stands the newline. */
enum persistent_line persistent_lines_next(struct persistent_lines *l, const char **line, size_t *len);

/* What is left without a newline. */
size_t persistent_lines_rest(const struct persistent_lines *l, const char **rest);
void persistent_lines_close(struct persistent_lines *l);

#endif
