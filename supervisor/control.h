#ifndef SUPERVISOR_CONTROL_H
#define SUPERVISOR_CONTROL_H

#include <sys/un.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/unix_socket.h"

struct master;
struct pollfd;

/*
 * The control socket: one JSON object a line in, one out, any number on one connection.
 *
 *	{"command":"status"}			-> {"ok":true, …}	status.c
 *	{"command":"reload"}			-> {"ok":true,"warnings":[…]} or {"ok":false,"error":…,"problems":[…]}
 *	{"command":"stop","fast":false}		-> {"ok":true}; the connection closes when the master is gone
 *	{"command":"restart","queue":Q}		-> {"ok":true}
 *	{"command":"scale","queue":Q,"workers":N}	-> {"ok":true}
 *	{"command":"quiet"} {"command":"resume"}, of all or of one "queue"	-> {"ok":true}
 *	anything else				-> {"ok":false,"error":…}
 */
#define CONTROL_CLIENTS 16
#define CONTROL_LINE_MAX 4096
#define CONTROL_POLLFDS (CONTROL_CLIENTS + 1)

struct control_client {
	int fd;			/* -1: free */
	char in[CONTROL_LINE_MAX];
	size_t in_len;
	char *out;		/* what is still to be sent; NULL: nothing */
	size_t out_len, out_sent;
	bool closing;		/* once out is sent */
	int64_t moved_ms;	/* when it last sent or took something */
};

struct control {
	int fd;			/* -1: not listening */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct unix_socket_file file;	/* at path */
	int64_t accept_at_ms;	/* not before: there was no descriptor or memory for another one */
	struct control_client clients[CONTROL_CLIENTS];
};

void control_init(struct control *c);

/* Listens on path, in place of a socket left there: the lock must be ours. -1 and why in error. */
int control_open(struct control *c, const char *path, char *error, size_t size);
void control_close(struct control *c);		/* and removes the socket, if it is still ours */
void control_close_in_child(struct control *c);

size_t control_pollfds(struct control *c, struct pollfd *p, int64_t now_ms);	/* at most CONTROL_POLLFDS */
void control_step(struct master *m, const struct pollfd *p, size_t n, int64_t now_ms);	/* those given */

#endif
