/* Which server a connection has: its address, its certificate, and how errors name it. */
#include <sys/socket.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "common/redis/peer.h"

#include "common/redis/redis.h"
#include "common/redis/tls.h"

static uint64_t read_word(const uint8_t *bytes)
{
	uint64_t word = 0;

	for (int i = 0; i < 8; i++)
		word = word << 8 | bytes[i];
	return word;
}

static void write_word(uint8_t *bytes, uint64_t word)
{
	for (int i = 7; i >= 0; i--, word >>= 8)
		bytes[i] = (uint8_t)word;
}

bool redis_endpoint_of(const struct redis *r, struct redis_endpoint *out)
{
	union { struct sockaddr any; struct sockaddr_in four; struct sockaddr_in6 six; struct sockaddr_storage room;
	    } a;
	socklen_t len = sizeof(a);
	uint8_t bytes[16] = { [10] = 0xff, [11] = 0xff };

	if (r->context == NULL || getpeername(r->context->fd, &a.any, &len) == -1 ||
	    (a.any.sa_family != AF_INET && a.any.sa_family != AF_INET6))
		return false;
	if (a.any.sa_family == AF_INET)
		memcpy(bytes + 12, &a.four.sin_addr, 4);
	else
		memcpy(bytes, &a.six.sin6_addr, 16);
	*out = (struct redis_endpoint){ read_word(bytes), read_word(bytes + 8),
	    ntohs(a.any.sa_family == AF_INET ? a.four.sin_port : a.six.sin6_port) };
	return true;
}

const char *redis_endpoint_format(const struct redis_endpoint *p, char out[REDIS_ENDPOINT_SIZE])
{
	char host[INET6_ADDRSTRLEN];
	struct in6_addr six;

	write_word(six.s6_addr, p->high);
	write_word(six.s6_addr + 8, p->low);
	if (IN6_IS_ADDR_V4MAPPED(&six))
		inet_ntop(AF_INET, six.s6_addr + 12, host, sizeof(host));
	else
		inet_ntop(AF_INET6, &six, host, sizeof(host));
	snprintf(out, REDIS_ENDPOINT_SIZE, IN6_IS_ADDR_V4MAPPED(&six) ? "%s:%d" : "[%s]:%d", host, p->port);
	return out;
}

bool redis_certificate_expiry(const struct redis *r, struct tls_expiry *out)
{
	return r->tls != NULL && tls_expiry(r->tls, out);
}

void redis_describe_peer(const struct redis *r, char *text, size_t size)
{
	const struct redis_target *t = r->target;
	const char *host;
	int port;

	snprintf(text, size, "%.120s%s", t->shown, strlen(t->shown) > 120 ? "..." : "");
	if (t->unix_path != NULL || (t->naddresses == 1 && r->route.port == 0 && t->master == NULL))
		return;
	host = route_host(&r->route, t, &port);
	size -= strlen(text);
	text += strlen(text);
	snprintf(text, size, strchr(host, ':') != NULL ? " at %s[%.80s]:%d" : " at %s%.80s:%d",
	    r->route.asks ? "Sentinel " : "", host, port);
}

bool redis_wants_tls(const struct redis *r)
{
	return r->route.asks ? r->target->sentinel_tls : r->target->tls;
}

/*
 * Names what speaks at the other end, if its first byte begins no answer of Redis: hiredis quotes that byte, and
 * nothing else of the answer. A server that wants TLS may send an alert (0x15), since it takes our first command for a
 * broken handshake. False: an answer of Redis, or another error.
 */
static bool describe_foreign(const struct redis *r, char *text, size_t size)
{
	static const struct { const char *byte, *like; } known[] = {
		{ "\"H\"", " like a web server (HTTP)" }, { "\"<\"", " like a web server (HTML)" },
		{ "\"S\"", " like an SSH server" }, { "", " in another protocol" },
	};
	size_t i = 0;

	if (r->state != REDIS_OPENING || r->greetings_taken > 0 || r->context->err != REDIS_ERR_PROTOCOL)
		return false;
	if (strstr(r->context->errstr, "\"\\x15\"") != NULL) {
		snprintf(text, size, "the server answers with TLS, so %s",
		    r->route.asks ? "redis.sentinel_tls must be true" : "redis.url must begin with rediss://");
		return true;
	}
	while (strstr(r->context->errstr, known[i].byte) == NULL)
		i++;
	snprintf(text, size, "this is not the port of %s: it answers%s",
	    r->route.asks ? "a Sentinel" : "Redis", known[i].like);
	return true;
}

bool redis_closed_by_peer(const struct redis *r, int error)
{
	if (r->tls != NULL)
		return tls_closed_by_peer(r->tls);
	return r->context->err == REDIS_ERR_EOF ||
	    (r->context->err == REDIS_ERR_IO && (error == ECONNRESET || error == EPIPE));
}

/* A server that wants TLS may close the connection in plain text without an answer. */
static const char *guess_tls(const struct redis *r, bool closed)
{
	if (r->state != REDIS_OPENING || redis_wants_tls(r) || r->target->unix_path != NULL || !closed || r->input > 0)
		return "";
	return r->route.asks ? " before its first answer: does it want TLS (redis.sentinel_tls)?"
			     : " before its first answer: does it want TLS (rediss://)?";
}

static const char *io_error(const struct redis *r)
{
	if (r->context->reader->err == REDIS_ERR_OOM)
		return "an answer too large";
	if (r->tls != NULL && tls_error(r->tls)[0] != '\0')
		return tls_error(r->tls);
	return r->context->errstr[0] != '\0' ? r->context->errstr : "connection lost";
}

void redis_describe_error(const struct redis *r, bool closed, char *text, size_t size)
{
	if (!describe_foreign(r, text, size))
		snprintf(text, size, "%s%s", io_error(r), guess_tls(r, closed));
}

void redis_set_socket_options(const struct redis *r)
{
	int fd = r->context->fd, on = 1, idle = 15, interval = 5, count = 3, user_timeout = 20000;

	fcntl(fd, F_SETFD, FD_CLOEXEC);		/* hiredis does not set it: a handler would hold our connection open */
	if (r->target->unix_path != NULL)
		return;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof(user_timeout));
}
