/*
 * A persistent handler that does nothing: all jobs of one read are answered in one write. With fail=N
 * as its argument every Nth job fails. With another argument it takes each message as the nanosecond (CLOCK_MONOTONIC) at which it was pushed, and
 * appends to that file how long ago that was, as 8 bytes.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROOM (4 * 1024 * 1024)

static char in[ROOM], out[ROOM];
static unsigned long fail_every, jobs;

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void note(int fd, const char *message, int64_t now)
{
	int64_t took = now - strtoll(message, NULL, 10);

	if (fd != -1 && write(fd, &took, sizeof(took)) != sizeof(took))
		exit(1);
}

/* One frame at p: its length, or 0 if it is not whole. */
static size_t job(const char *p, size_t len, size_t *out_len, int fd, int64_t now)
{
	const char *end = memchr(p, '\n', len), *serial = p + 4, *space;
	const char *word;
	char *rest;
	size_t size, head;

	if (end == NULL)
		return 0;
	space = memchr(serial, ' ', (size_t)(end - serial));
	strtoull(space + 1, &rest, 10);			/* attempt */
	size = strtoull(rest, NULL, 10);
	head = (size_t)(end - p) + 1;
	if (len < head + size + 1)
		return 0;
	word = fail_every > 0 && ++jobs % fail_every == 0 ? "FAIL " : "OK ";
	*out_len = (size_t)(stpcpy(out + *out_len, word) - out);
	memcpy(out + *out_len, serial, (size_t)(space - serial));
	*out_len += (size_t)(space - serial);
	out[(*out_len)++] = '\n';
	note(fd, end + 1, now);
	return head + size + 1;
}

static int answer(const char *p, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, p, len);

		if (n <= 0)
			return -1;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int fd = argc > 1 && sscanf(argv[1], "fail=%lu", &fail_every) != 1 ? open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
	size_t have = 0;
	ssize_t n;

	while ((n = read(STDIN_FILENO, in + have, sizeof(in) - have)) > 0) {
		int64_t now = fd == -1 ? 0 : now_ns();
		size_t at = 0, one, out_len = 0;

		have += (size_t)n;
		while ((one = job(in + at, have - at, &out_len, fd, now)) > 0)
			at += one;
		memmove(in, in + at, have - at);
		have -= at;
		if (answer(out, out_len) == -1)
			return 1;
	}
	return n < 0 || have > 0;
}
