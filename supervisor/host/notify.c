/*
 * The sd_notify(3) protocol over a datagram socket, without libsystemd. The master decides when to send each state.
 * Sending never waits, and errors are ignored: a service manager that does not listen must not harm the supervisor.
 */
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bsd/stdlib.h>

#include "supervisor/host/notify.h"

#define EXTEND_EVERY_MS 5000
#define EXTEND_BY_USEC 20000000

static int open_socket(struct notify *n, const char *path)
{
	size_t len = strlen(path);

	if ((path[0] != '/' && path[0] != '@') || len < 2 || len >= sizeof(n->address.sun_path))
		return -1;
	n->address.sun_family = AF_UNIX;
	memcpy(n->address.sun_path, path, len);
	if (path[0] == '@')		/* an abstract name: begins with a NUL, and no NUL ends it */
		n->address.sun_path[0] = '\0';
	n->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int64_t watchdog_from_environment(void)
{
	const char *pid = getenv("WATCHDOG_PID"), *usec = getenv("WATCHDOG_USEC"), *error = NULL;
	int64_t value;

	if (usec == NULL || (pid != NULL && strtonum(pid, 1, INT_MAX, &error) != getpid()))
		return 0;
	value = strtonum(usec, 1, INT64_MAX, &error);
	if (error != NULL)
		return 0;
	return value < 2000 ? 1 : value / 2000;
}

void notify_open(struct notify *n)
{
	const char *path = getenv("NOTIFY_SOCKET");

	*n = (struct notify){ .fd = -1, .ready_fd = -1 };
	if (path != NULL)
		n->fd = open_socket(n, path);
	if (n->fd != -1)
		n->watchdog_ms = watchdog_from_environment();
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
}

void notify_ready_on(struct notify *n, int fd)
{
	n->ready_fd = fd;
}

void notify_close(struct notify *n)
{
	if (n->fd != -1)
		close(n->fd);
	if (n->ready_fd != -1)
		close(n->ready_fd);
	n->fd = n->ready_fd = -1;
}

static void send_state(const struct notify *n, const char *text)
{
	if (n->fd != -1)
		(void)sendto(n->fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
		    (const struct sockaddr *)&n->address, n->address_len);
}

void notify_ready(struct notify *n)
{
	struct pollfd p = { .fd = n->ready_fd, .events = POLLOUT };
	ssize_t written;

	send_state(n, "READY=1\n");
	if (n->ready_fd == -1)
		return;
	written = poll(&p, 1, 0) == 1 ? write(n->ready_fd, "\n", 1) : 0;
	(void)written;		/* the reader may have ended */
	close(n->ready_fd);
	n->ready_fd = -1;
}

void notify_stopping(const struct notify *n)
{
	send_state(n, "STOPPING=1\n");
}

void notify_reloading(const struct notify *n)
{
	char text[64];
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\n",
	    (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000);
	send_state(n, text);
}

void notify_status(const struct notify *n, const char *fmt, ...)
{
	char text[256] = "STATUS=";
	size_t prefix = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + prefix, sizeof(text) - prefix, fmt, ap);
	va_end(ap);
	send_state(n, text);
}

int64_t notify_tick(struct notify *n, bool stopping, int64_t now_ms)
{
	char text[64];
	int64_t due = INT64_MAX;

	if (n->fd == -1)
		return due;
	if (n->watchdog_ms > 0 && now_ms >= n->watchdog_due_ms) {
		send_state(n, "WATCHDOG=1\n");
		n->watchdog_due_ms = now_ms + n->watchdog_ms;
	}
	if (stopping && now_ms >= n->extend_due_ms) {
		snprintf(text, sizeof(text), "EXTEND_TIMEOUT_USEC=%d\n", EXTEND_BY_USEC);
		send_state(n, text);
		n->extend_due_ms = now_ms + EXTEND_EVERY_MS;
	}
	if (n->watchdog_ms > 0)
		due = n->watchdog_due_ms;
	if (stopping && n->extend_due_ms < due)
		due = n->extend_due_ms;
	return due;
}
