/*
 * Whether the embedded Redis may end. With appendfsync everysec it acknowledges writes before they are in its file,
 * keeps them in a buffer when the disk is full, and ends at SIGTERM and SHUTDOWN in spite of a buffer that it cannot
 * write (seen with Redis 7.0 and 8.0, and Valkey 8.1).
 */
#include "supervisor/children/unsaved.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/redis/redis.h"

#define ANSWER_S 2
#define ANSWER_MAX 8192

static int cannot_tell(struct unsaved *u, const char *what, const char *why)
{
	u->bytes = SLOT_UNSAVED_UNKNOWN;
	snprintf(u->why, sizeof(u->why), "%s: %s", what, why);
	return -1;
}

static int connect_redis(const char *dir, struct unsaved *u)
{
	const struct timeval most = { .tv_sec = ANSWER_S };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd == -1)
		return cannot_tell(u, "no socket", strerror(errno));
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/redis.sock", dir);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
	if (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) == 0)
		return fd;
	cannot_tell(u, "Redis accepts no connection", strerror(errno));
	close(fd);
	return -1;
}

/* True: answer, n bytes and a NUL, is a whole one: a line, or a line with a length and as many bytes. */
static bool is_whole(const char *answer, size_t n)
{
	const char *end = strstr(answer, "\r\n");

	if (end == NULL || answer[0] != '$')
		return end != NULL;
	return n >= (size_t)(end + 2 - answer) + strtoul(answer + 1, NULL, 10) + 2;
}

/* Sends a command and receives its answer. Returns its length; -1: *u says why. */
static int call(int fd, const char *command, char answer[ANSWER_MAX], struct unsaved *u)
{
	size_t have = 0;
	ssize_t n = send(fd, command, strlen(command), MSG_NOSIGNAL);

	answer[0] = '\0';
	while (n > 0 && !is_whole(answer, have)) {
		n = recv(fd, answer + have, ANSWER_MAX - 1 - have, 0);
		have += n > 0 ? (size_t)n : 0;
		answer[have] = '\0';
	}
	if (n > 0)
		return (int)have;
	return cannot_tell(u, "Redis does not answer",
	    n == 0 ? "it closed the connection" : strerror(errno == EAGAIN ? ETIMEDOUT : errno));
}

/* The next start reads the file, which lacks all since then. Redis writes a new one in the background. */
static int switch_aof_on(int fd, struct unsaved *u)
{
	char answer[ANSWER_MAX];

	if (call(fd, "CONFIG SET appendonly yes\r\n", answer, u) == -1)
		return -1;
	return cannot_tell(u, "CONFIG SET had switched off the append-only file",
	    answer[0] == '+' ? "Redis writes a new one" : "Redis refuses to switch it on");
}

static bool is_set(const char *info, size_t len, const char *field)
{
	char value[8];

	return redis_info_value(info, len, field, value, sizeof(value)) && strcmp(value, "0") != 0;
}

/* If there was no file before, Redis has none until its child has written one. After failures Redis would wait for up
 * to an hour. */
static int await_rewrite(int fd, bool runs, struct unsaved *u)
{
	char answer[ANSWER_MAX];

	if (!runs && call(fd, "BGREWRITEAOF\r\n", answer, u) == -1)
		return -1;
	return cannot_tell(u, "Redis writes its append-only file anew", "it may have no other one");
}

/* -1: something is not in the file, or that cannot be told; *u says what. */
static int judge(int fd, const char *info, size_t len, struct unsaved *u)
{
	char enabled[8], status[16], buffer[24];

	if (info[0] != '$')
		return cannot_tell(u, "Redis refuses INFO",
		    info[0] == '-' ? "it answered with an error" : "it sent another answer");
	if (redis_info_value(info, len, "aof_enabled", enabled, sizeof(enabled)) && strcmp(enabled, "0") == 0)
		return switch_aof_on(fd, u);
	if (is_set(info, len, "aof_rewrite_in_progress") || is_set(info, len, "aof_rewrite_scheduled"))
		return await_rewrite(fd, is_set(info, len, "aof_rewrite_in_progress"), u);
	if (!redis_info_value(info, len, "aof_last_write_status", status, sizeof(status)) ||
	    !redis_info_value(info, len, "aof_buffer_length", buffer, sizeof(buffer)))
		return cannot_tell(u, "INFO of Redis does not tell",
		    "aof_last_write_status or aof_buffer_length is missing");
	u->bytes = strtoll(buffer, NULL, 10);
	if (strcmp(status, "ok") == 0 && u->bytes == 0)
		return 0;
	snprintf(u->why, sizeof(u->why), "%s", strcmp(status, "ok") == 0 ? "Redis has not written its buffer yet"
	    : "the last write of Redis to its append-only file failed: the disk may be full");
	if (u->bytes <= 0)		/* the write succeeded, and the sync failed */
		u->bytes = SLOT_UNSAVED_UNKNOWN;
	return -1;
}

bool unsaved_ask(const char *dir, struct unsaved *u)
{
	char answer[ANSWER_MAX];
	int fd = connect_redis(dir, u), n;
	bool unsaved = true;

	if (fd == -1)
		return true;
	/* Redis writes its buffer before it answers. So after this answer, INFO tells of the last writes that it
	 * acknowledges. */
	if (call(fd, "CLIENT PAUSE " UNSAVED_PAUSE_MS " WRITE\r\n", answer, u) != -1 &&
	    (n = call(fd, "INFO persistence\r\n", answer, u)) != -1)
		unsaved = judge(fd, answer, (size_t)n, u) == -1;
	if (unsaved)
		call(fd, "CLIENT UNPAUSE\r\n", answer, &(struct unsaved){0});
	close(fd);
	return unsaved;
}
