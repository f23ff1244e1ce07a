/*
 * Reads lines from a descriptor: one buffer, and one read for all that is available. Lines are returned in place; only an
 * unfinished line at the end of the buffer is moved. A line longer than the buffer is returned in parts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/handler/persistent_lines.h"

#include "common/base/base.h"
#include "common/handler/spawn.h"

void persistent_lines_init(struct persistent_lines *l)
{
	*l = (struct persistent_lines){ .fd = -1 };
	l->data = alloc_resize(NULL, PERSISTENT_LINES_SIZE, 1);
}

void persistent_lines_close(struct persistent_lines *l)
{
	handler_fd_close(&l->fd);
}

void persistent_lines_free(struct persistent_lines *l)
{
	persistent_lines_close(l);
	free(l->data);
}

void persistent_lines_begin(struct persistent_lines *l, int fd)
{
	l->fd = fd;
	l->at = l->len = 0;
	l->within = false;
}

bool persistent_lines_room(const struct persistent_lines *l)
{
	return l->at > 0 || l->len < PERSISTENT_LINES_SIZE;
}

bool persistent_lines_read(struct persistent_lines *l)
{
	ssize_t n;

	if (l->fd == -1 || !persistent_lines_room(l))
		return false;
	memmove(l->data, l->data + l->at, l->len - l->at);
	l->len -= l->at;
	l->at = 0;
	do
		n = read(l->fd, l->data + l->len, PERSISTENT_LINES_SIZE - l->len);
	while (n == -1 && errno == EINTR);
	if (n == 0 || (n == -1 && errno != EAGAIN))
		persistent_lines_close(l);
	if (n <= 0)
		return false;
	l->len += (size_t)n;
	return true;
}

enum persistent_line persistent_lines_next(struct persistent_lines *l, const char **line, size_t *len)
{
	const char *start = l->data + l->at, *newline;
	bool within = l->within;

	*line = start;
	if (l->at == l->len)
		return PERSISTENT_LINE_NONE;
	newline = memchr(start, '\n', l->len - l->at);
	if (newline != NULL) {
		*len = (size_t)(newline - start);
		l->at += *len + 1;
		l->within = false;
		return within ? PERSISTENT_LINE_END : PERSISTENT_LINE_WHOLE;
	}
	if (persistent_lines_room(l))
		return PERSISTENT_LINE_NONE;
	*len = l->len;
	l->at = l->len;
	l->within = true;
	return within ? PERSISTENT_LINE_MIDDLE : PERSISTENT_LINE_BEGIN;
}

size_t persistent_lines_rest(const struct persistent_lines *l, const char **rest)
{
	*rest = l->data + l->at;
	return l->len - l->at;
}
