#ifndef COMMON_BASE_BUFFER_H
#define COMMON_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that grow. Zeroed is empty. data is NULL while cap is 0. len <= cap always. */
struct buffer {
	char *data;
	size_t len;
	size_t cap;
};

void buffer_append(struct buffer *b, const void *data, size_t len);
/* where n bytes may be written; whoever writes them adds them to len */
char *buffer_room(struct buffer *b, size_t n);
void buffer_format(struct buffer *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buffer_consume(struct buffer *b, size_t len);	/* drops the first len bytes */
void buffer_clear(struct buffer *b);			/* empties it, and keeps the memory */
void buffer_free(struct buffer *b);			/* empties it, and frees the memory */

/* The last line of what a program has written, without its newline; at most its last 200 bytes. Returns its length. */
size_t buffer_last_line(const char *data, size_t len, const char **line);

#endif
