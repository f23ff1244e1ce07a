#ifndef SUPERVISOR_HOST_NOTIFY_H
#define SUPERVISOR_HOST_NOTIFY_H

#include <sys/socket.h>
#include <sys/un.h>

#include <stdbool.h>
#include <stdint.h>

/* Reports states to systemd, or to another program that set $NOTIFY_SOCKET (sd_notify(3)). Never waits, never fails. */
struct notify {
	int fd;				/* -1: no program listens */
	int ready_fd;			/* of quredisd --ready-fd; -1: none */
	struct sockaddr_un address;	/* the socket is not connected, since the listener may recreate its own */
	socklen_t address_len;
	int64_t watchdog_ms;		/* half of $WATCHDOG_USEC; 0: no watchdog */
	int64_t watchdog_due_ms;
	int64_t extend_due_ms;
};

/* Also removes the variables from the environment. */
void notify_open(struct notify *n);
/* The descriptor gets one newline at the first notify_ready(), and is closed then. -1: none. */
void notify_ready_on(struct notify *n, int fd);
void notify_close(struct notify *n);

void notify_ready(struct notify *n);
void notify_reloading(const struct notify *n);
void notify_stopping(const struct notify *n);
void notify_status(const struct notify *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Called in the main loop: sends WATCHDOG=1 and, while stopping, EXTEND_TIMEOUT_USEC, each when due. Returns when to
 * call it again; INT64_MAX: never.
 */
int64_t notify_tick(struct notify *n, bool stopping, int64_t now_ms);

#endif
