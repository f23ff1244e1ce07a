/* The socket on which the console listens. */
#include <sys/socket.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "admin/web/server.h"

#include "common/base/base.h"

#define BACKLOG 128

static bool is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return (ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24) == 127;
	return address->sa_family == AF_INET6 &&
	    IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* -1: errno. */
static int bind_to(const struct addrinfo *ai)
{
	int one = 1, error, fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd == -1)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
	    bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

/* With port 0 the kernel chose one. */
static void learn_port(int fd, struct web_settings *s)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	char port[NI_MAXSERV];

	if (getsockname(fd, (struct sockaddr *)&address, &len) == -1 ||
	    getnameinfo((struct sockaddr *)&address, len, NULL, 0, port, sizeof(port), NI_NUMERICSERV) != 0)
		return;
	free(s->port);
	s->port = alloc_string(port);
}

static int listen_unix(struct web *w)
{
	struct web_settings *s = &w->settings;
	int fd;

	s->loopback = true;
	if (unix_socket_answers(s->path))
		return admin_fail(w->a, EX_UNAVAILABLE, "cannot listen on %s: a console is running there already",
		    s->path);
	fd = unix_socket_listen(s->path, BACKLOG, &w->socket);
	return fd != -1 ? fd : admin_fail(w->a, errno == EACCES ? EX_NOPERM : EX_UNAVAILABLE, "cannot listen on %s: %s",
	    s->path, strerror(errno));
}

static int listen_inet(struct web *w, const struct addrinfo *found)
{
	struct web_settings *s = &w->settings;
	int fd;

	s->loopback = is_loopback(found->ai_addr);
	/* Without TLS the token, the cookie and all messages would cross the network unencrypted. */
	if (!s->loopback && !s->behind_proxy)
		return admin_fail(w->a, EX_CONFIG, "%s can be reached from other machines, and the console has no TLS: "
		    "listen on 127.0.0.1 or on a unix socket, behind a proxy with TLS; or set web.behind_proxy = true "
		    "if only such a proxy can reach this address", s->host);
	fd = bind_to(found);
	if (fd == -1)
		return admin_fail(w->a, errno == EACCES ? EX_NOPERM : EX_UNAVAILABLE,
		    "cannot listen on %s, port %s: %s%s", s->host, s->port,
		    strerror(errno), errno == EADDRINUSE ? " (is a console running already? -p chooses another port)"
		    : "");
	learn_port(fd, s);
	return fd;
}

int web_listen(struct web *w)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	struct web_settings *s = &w->settings;
	struct addrinfo *found;
	int rc, fd;

	if (s->path != NULL)
		return listen_unix(w);
	rc = getaddrinfo(s->host, s->port, &hints, &found);
	if (rc != 0)
		return admin_fail(w->a, EX_CONFIG, "%s: %s", s->host, gai_strerror(rc));
	fd = listen_inet(w, found);
	freeaddrinfo(found);
	return fd;
}

void web_listen_end(struct web *w)
{
	if (w->settings.path != NULL)
		unix_socket_remove(w->settings.path, &w->socket);
}
