/*
 * Connections of the control socket inside the master's loop. It reads the next line of a client only when the client
 * has taken the answer to the last one, so a client that does not read uses no memory.
 */
#include <sys/socket.h>
#include <sys/stat.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <bsd/string.h>

#include "supervisor/host/control.h"

#include "common/base/base.h"
#include "common/log/log.h"

#define PATIENCE_MS 10000	/* a client may take this long to complete a line, or to read an answer */
#define BUSY_MS 1000		/* a client that moved a byte this short ago keeps its place */
#define BACKLOG 128
#define RETRY_ACCEPT_MS 500	/* between tries while accept() fails */

static const char too_long[] = "{\"ok\":false,\"error\":\"a request is at most 4095 bytes\"}";

void control_init(struct control *c,
    char *(*answer)(void *arg, const char *line, size_t len, bool may_order, int64_t now_ms), void *arg)
{
	c->answer = answer;
	c->arg = arg;
	c->fd = -1;
	c->readers = (gid_t)-1;
	for (int i = 0; i < CONTROL_CLIENTS; i++)
		c->clients[i].fd = -1;
}

static int open_failed(char *error, size_t size, const char *path)
{
	snprintf(error, size, "control socket %s: %s", path, strerror(errno));
	return EX_CANTCREAT;
}

/* Until the socket has its group, only the members of the master's own can connect. */
static int listen_for(const char *path, gid_t readers, struct unix_socket_file *file)
{
	int fd = unix_socket_listen(path, BACKLOG, file), error;

	if (fd == -1 || readers == (gid_t)-1 || lchown(path, (uid_t)-1, readers) == 0)
		return fd;
	error = errno;
	unix_socket_remove(path, file);
	close(fd);
	errno = error;
	return -1;
}

int control_open(struct control *c, const char *path, gid_t readers, char *error, size_t size)
{
	char *link = file_link_flaw(path, geteuid());

	if (link != NULL) {
		snprintf(error, size, "control socket: %s", link);
		free(link);
		return EX_CANTCREAT;
	}
	if (unix_socket_answers(path)) {
		snprintf(error, size, "control socket %s: another process answers there", path);
		return EX_TEMPFAIL;
	}
	c->fd = listen_for(path, readers, &c->file);
	if (c->fd == -1)
		return open_failed(error, size, path);
	c->readers = readers;
	strlcpy(c->path, path, sizeof(c->path));
	return EX_OK;
}

bool control_restore(struct control *c)
{
	struct unix_socket_file file;
	struct stat st;
	int fd;

	if (c->fd == -1 || lstat(c->path, &st) == 0 || errno != ENOENT ||
	    (fd = listen_for(c->path, c->readers, &file)) == -1)
		return false;
	close(c->fd);
	c->fd = fd;
	c->file = file;
	return true;
}

static void drop_client(struct control_client *client)
{
	close(client->fd);
	free(client->out);
	client->fd = -1;
	client->out = NULL;
}

void control_close_in_child(struct control *c)
{
	if (c->fd != -1)
		close(c->fd);
	c->fd = -1;
	for (int i = 0; i < CONTROL_CLIENTS; i++)
		if (c->clients[i].fd != -1)
			drop_client(&c->clients[i]);
}

void control_close(struct control *c)
{
	if (c->fd != -1)
		unix_socket_remove(c->path, &c->file);
	control_close_in_child(c);
}

/* A free place, or that of the client that has moved no byte for longest; NULL: all clients are busy. */
static struct control_client *find_place(struct control *c, int64_t now_ms)
{
	struct control_client *idlest = &c->clients[0];

	for (int i = 0; i < CONTROL_CLIENTS; i++) {
		if (c->clients[i].fd == -1)
			return &c->clients[i];
		if (c->clients[i].moved_ms < idlest->moved_ms)
			idlest = &c->clients[i];
	}
	return now_ms - idlest->moved_ms >= BUSY_MS ? idlest : NULL;
}

static void accept_client(struct control *c, int64_t now_ms)
{
	struct control_client *client;
	bool may_order;
	int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd == -1) {
		/* The connection stays in the backlog and ends every poll, so wait before the next accept(). */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			c->accept_at_ms = now_ms + RETRY_ACCEPT_MS;
		return;
	}
	may_order = unix_socket_peer_is_allowed(fd);
	if (!may_order && !(c->readers != (gid_t)-1 && unix_socket_peer_is_member(fd, c->readers))) {
		log_warning("control_denied", log_str("reason", "the client runs as neither the owner nor its group"));
		close(fd);
		return;
	}
	client = find_place(c, now_ms);
	if (client->fd != -1)
		drop_client(client);
	client->fd = fd;
	client->may_order = may_order;
	client->in_len = 0;
	client->out = NULL;
	client->closing = false;
	client->moved_ms = now_ms;
}

/* Takes ownership of text. A newline replaces its NUL. */
static void start_answer(struct control_client *client, char *text)
{
	if (text == NULL) {
		drop_client(client);
		return;
	}
	client->out = text;
	client->out_len = strlen(text) + 1;
	client->out_sent = 0;
	text[client->out_len - 1] = '\n';
}

static void flush_answer(struct control_client *client, int64_t now_ms)
{
	ssize_t n = send(client->fd, client->out + client->out_sent, client->out_len - client->out_sent,
	    MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n == -1) {
		if (errno != EAGAIN && errno != EINTR)
			drop_client(client);
		return;
	}
	client->moved_ms = now_ms;
	client->out_sent += (size_t)n;
	if (client->out_sent < client->out_len)
		return;
	free(client->out);
	client->out = NULL;
	if (client->closing)
		drop_client(client);
}

static void serve(struct control *c, struct control_client *client, int64_t now_ms)
{
	char *newline;

	while (client->fd != -1 && client->out == NULL &&
	    (newline = memchr(client->in, '\n', client->in_len)) != NULL) {
		size_t len = (size_t)(newline - client->in);

		start_answer(client, c->answer(c->arg, client->in, len, client->may_order, now_ms));
		client->in_len -= len + 1;
		memmove(client->in, newline + 1, client->in_len);
		if (client->fd != -1)
			flush_answer(client, now_ms);
	}
	if (client->fd != -1 && client->out == NULL && client->in_len == sizeof(client->in)) {
		client->closing = true;
		start_answer(client, strdup(too_long));
		if (client->fd != -1)
			flush_answer(client, now_ms);
	}
}

static void receive(struct control *c, struct control_client *client, int64_t now_ms)
{
	ssize_t n = recv(client->fd, client->in + client->in_len, sizeof(client->in) - client->in_len, MSG_DONTWAIT);

	if (n == 0 || (n == -1 && errno != EAGAIN && errno != EINTR)) {
		drop_client(client);
		return;
	}
	if (n == -1)
		return;
	client->moved_ms = now_ms;
	client->in_len += (size_t)n;
	serve(c, client, now_ms);
}

size_t control_pollfds(struct control *c, struct pollfd *p, int64_t now_ms)
{
	size_t n = 0;

	if (c->fd != -1 && now_ms >= c->accept_at_ms && find_place(c, now_ms) != NULL)
		p[n++] = (struct pollfd){ .fd = c->fd, .events = POLLIN };
	for (int i = 0; i < CONTROL_CLIENTS; i++)
		if (c->clients[i].fd != -1)
			p[n++] = (struct pollfd){
				.fd = c->clients[i].fd,
				.events = c->clients[i].out != NULL ? POLLOUT : POLLIN,
			};
	return n;
}

static struct control_client *client_of(struct control *c, int fd)
{
	for (int i = 0; i < CONTROL_CLIENTS; i++)
		if (c->clients[i].fd == fd)
			return &c->clients[i];
	return NULL;
}

static void serve_client(struct control *c, struct control_client *client, int64_t now_ms)
{
	if (client->out == NULL) {
		receive(c, client, now_ms);
		return;
	}
	flush_answer(client, now_ms);
	if (client->fd != -1)
		serve(c, client, now_ms);
}

void control_step(struct control *c, const struct pollfd *p, size_t n, int64_t now_ms)
{
	bool incoming = false;

	for (size_t i = 0; i < n; i++) {
		struct control_client *client = client_of(c, p[i].fd);

		if (p[i].revents != 0 && client != NULL)
			serve_client(c, client, now_ms);
		else if (p[i].revents != 0 && p[i].fd == c->fd)
			incoming = true;
	}
	for (int i = 0; i < CONTROL_CLIENTS; i++) {
		struct control_client *client = &c->clients[i];

		if (client->fd != -1 && (client->in_len > 0 || client->out != NULL) &&
		    now_ms - client->moved_ms >= PATIENCE_MS)
			drop_client(client);
	}
	/* last: it may take a place, and a descriptor's number, that p still refers to */
	if (incoming && find_place(c, now_ms) != NULL)
		accept_client(c, now_ms);
}
