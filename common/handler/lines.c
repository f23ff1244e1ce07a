/*
 * Reads lines from a descriptor: one buffer, and one read for all that is available. Lines are returned in place; only
 * an unfinished line at the end of the buffer is moved. A line longer than the buffer is returned in parts.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/handler/lines.h"

#include "common/base/base.h"
#include "common/handler/spawn.h"

void handler_lines_init(struct handler_lines *l)
{
	*l = (struct handler_lines){ .fd = -1 };
	l->data = alloc_resize(NULL, HANDLER_LINES_SIZE, 1);
}

void handler_lines_close(struct handler_lines *l)
{
	handler_fd_close(&l->fd);
}

void handler_lines_free(struct handler_lines *l)
{
	handler_lines_close(l);
	free(l->data);
}

void handler_lines_begin(struct handler_lines *l, int fd)
{
	l->fd = fd;
	l->at = l->len = 0;
	l->within = false;
}

bool handler_lines_room(const struct handler_lines *l)
{
	return l->at > 0 || l->len < HANDLER_LINES_SIZE;
}

bool handler_lines_read(struct handler_lines *l)
{
	ssize_t n;

	if (l->fd == -1 || !handler_lines_room(l))
		return false;
	memmove(l->data, l->data + l->at, l->len - l->at);
	l->len -= l->at;
	l->at = 0;
	do
		n = read(l->fd, l->data + l->len, HANDLER_LINES_SIZE - l->len);
	while (n == -1 && errno == EINTR);
	if (n == 0 || (n == -1 && errno != EAGAIN))
		handler_lines_close(l);
	if (n <= 0)
		return false;
	l->len += (size_t)n;
	return true;
}

enum handler_lines_part handler_lines_next(struct handler_lines *l, const char **line, size_t *len)
{
	const char *start = l->data + l->at, *newline;
	bool within = l->within;

	*line = start;
	if (l->at == l->len)
		return HANDLER_LINES_NONE;
	newline = memchr(start, '\n', l->len - l->at);
	if (newline != NULL) {
		*len = (size_t)(newline - start);
		l->at += *len + 1;
		l->within = false;
		return within ? HANDLER_LINES_END : HANDLER_LINES_WHOLE;
	}
	if (handler_lines_room(l))
		return HANDLER_LINES_NONE;
	*len = l->len;
	l->at = l->len;
	l->within = true;
	return within ? HANDLER_LINES_MIDDLE : HANDLER_LINES_BEGIN;
}

size_t handler_lines_bytes(const struct handler_lines *l, const char **bytes)
{
	assert(!l->within);
	return handler_lines_rest(l, bytes);
}

void handler_lines_skip(struct handler_lines *l, size_t n)
{
	assert(n <= l->len - l->at);
	l->at += n;
}

void handler_lines_continue(struct handler_lines *l)
{
	l->within = true;
}

size_t handler_lines_rest(const struct handler_lines *l, const char **rest)
{
	*rest = l->data + l->at;
	return l->len - l->at;
}
