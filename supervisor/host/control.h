#ifndef SUPERVISOR_HOST_CONTROL_H
#define SUPERVISOR_HOST_CONTROL_H

#include <sys/un.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/base.h"

struct pollfd;

/*
 * The control socket. A client sends requests, one a line, and gets one line for each; the caller defines their
 * contents. No client can delay the caller's loop, whatever it sends, does not read or keeps open.
 */
#define CONTROL_CLIENTS 16
#define CONTROL_LINE_MAX 4096
#define CONTROL_POLLFDS (CONTROL_CLIENTS + 1)

struct control_client {
	int fd;			/* -1: the place is free */
	char in[CONTROL_LINE_MAX];
	size_t in_len;
	char *out;		/* the unsent rest of the answer; NULL: nothing */
	size_t out_len, out_sent;
	bool closing;		/* close it when out is sent */
	bool may_order;		/* root, or of the master's user or group; another one may only read */
	int64_t moved_ms;	/* CLOCK_MONOTONIC when it last sent or received a byte */
};

struct control {
	int fd;			/* -1: not listening */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct unix_socket_file file;	/* at path */
	gid_t readers;		/* the group of the socket, whose members may read; (gid_t)-1: that of the master */
	int64_t accept_at_ms;	/* no accept before: there was no descriptor or memory for another client */
	/* Returns the answer to a line; control.c frees it. NULL: out of memory, and the connection is closed. */
	char *(*answer)(void *arg, const char *line, size_t len, bool may_order, int64_t now_ms);
	void *arg;
	struct control_client clients[CONTROL_CLIENTS];
};

void control_init(struct control *c,
    char *(*answer)(void *arg, const char *line, size_t len, bool may_order, int64_t now_ms), void *arg);

/* Listens on path, in place of a socket that an earlier master left there: call it with the lock held. Returns EX_OK;
 * else the exit status, with the reason in error: EX_TEMPFAIL if a process answers there, or EX_CANTCREAT. */
int control_open(struct control *c, const char *path, gid_t readers, char *error, size_t size);
/*
 * Listens again if the socket was removed; one that another process has put there stays. Call it with the lock held.
 * True: it did. A failure is tried again at the next call.
 */
bool control_restore(struct control *c);
void control_close(struct control *c);		/* also removes the socket, unless another process has replaced it */
void control_close_in_child(struct control *c);

size_t control_pollfds(struct control *c, struct pollfd *p, int64_t now_ms);	/* at most CONTROL_POLLFDS */
/* p, n: the descriptors after poll() */
void control_step(struct control *c, const struct pollfd *p, size_t n, int64_t now_ms);

#endif
