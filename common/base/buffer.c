/* Bytes that grow, for messages, records and replies. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/buffer.h"

static void reserve(struct buffer *b, size_t more)
{
	size_t cap = b->cap == 0 ? 256 : b->cap;

	while (cap - b->len < more)
		cap *= 2;
	if (cap != b->cap) {
		b->data = alloc_resize(b->data, cap, 1);
		b->cap = cap;
	}
}

char *buffer_room(struct buffer *b, size_t n)
{
	reserve(b, n);
	return b->data + b->len;
}

void buffer_append(struct buffer *b, const void *data, size_t len)
{
	reserve(b, len);
	if (len > 0)
		memcpy(b->data + b->len, data, len);
	b->len += len;
}

void buffer_format(struct buffer *b, const char *fmt, ...)
{
	size_t room = b->cap - b->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(room == 0 ? NULL : b->data + b->len, room, fmt, ap);
	va_end(ap);
	assert(n >= 0);
	if ((size_t)n >= room) {	/* the text did not fit; most texts do */
		reserve(b, (size_t)n + 1);
		va_start(ap, fmt);
		vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
		va_end(ap);
	}
	b->len += (size_t)n;
}

void buffer_consume(struct buffer *b, size_t len)
{
	assert(len <= b->len);
	if (len == 0)
		return;
	memmove(b->data, b->data + len, b->len - len);
	b->len -= len;
}

void buffer_clear(struct buffer *b)
{
	b->len = 0;
}

void buffer_free(struct buffer *b)
{
	free(b->data);
	*b = (struct buffer){0};
}

size_t buffer_last_line(const char *data, size_t len, const char **line)
{
	size_t end = len, start;

	while (end > 0 && (data[end - 1] == '\n' || data[end - 1] == '\r' || data[end - 1] == ' '))
		end--;
	for (start = end; start > 0 && data[start - 1] != '\n' && end - start < 200; start--)
		;
	*line = data + start;
	return end - start;
}
