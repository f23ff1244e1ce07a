/* Decides to which address the next connection goes: see route.h. */
#include <sys/socket.h>

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "common/redis/route.h"

#include "common/redis/redis.h"

#define HOPS_MAX 4

void route_begin(struct redis_route *route, const struct redis_target *target)
{
	route->hops = 0;
	route->asks = target->master != NULL;
	route->peer_port = 0;
	if (route->asks)
		route->port = 0;
}

const char *route_host(const struct redis_route *route, const struct redis_target *target, int *port)
{
	if (route->port != 0) {
		*port = route->port;
		return route->host;
	}
	*port = target->addresses[route->at].port;
	return target->addresses[route->at].host;
}

const char *route_socket(const struct redis_route *route, const struct redis_target *target, int *port)
{
	if (route->peer_port == 0)
		return route_host(route, target, port);
	*port = route->peer_port;
	return route->peer;
}

void route_prefer(struct redis_route *route, const struct redis_target *target, size_t at)
{
	route->at = target->naddresses == 0 ? 0 : at % target->naddresses;
	route->port = 0;
}

static int parse_port(const char *text)
{
	const char *why = NULL;
	long long port = strtonum(text, 1, 65535, &why);

	return why == NULL ? (int)port : 0;
}

bool route_beside(struct redis_route *route, const struct redis_route *other, int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char port[8];

	*route = *other;
	route->hops = 0;
	if (getpeername(fd, (struct sockaddr *)&sa, &len) == -1 ||
	    getnameinfo((const struct sockaddr *)&sa, len, route->peer, sizeof(route->peer), port, sizeof(port),
	    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return false;
	route->peer_port = parse_port(port);
	return route->peer_port != 0;
}

static bool set_node(struct redis_route *route, const char *host, size_t len, const char *port)
{
	if (len == 0 || len >= sizeof(route->host) || parse_port(port) == 0)
		return false;
	memmove(route->host, host, len);
	route->host[len] = '\0';
	route->port = parse_port(port);
	return true;
}

const char *route_take_master(struct redis_route *route, const struct redis_reply *reply)
{
	struct redis_reply host, port;

	if (reply->type == REDIS_NIL)
		return "this Sentinel does not know redis.master";
	if (reply->type != REDIS_ARRAY || reply->n != 2 || !redis_is_strings(reply))
		return "unexpected reply from a Sentinel";
	host = redis_element(reply, 0);
	port = redis_element(reply, 1);
	if (strlen(host.str) != host.len || !set_node(route, host.str, host.len, port.str))
		return "this Sentinel names a master without a valid address";
	route->asks = false;
	return NULL;
}

bool route_heed(struct redis_route *route, const struct redis_target *target, const char *error)
{
	const char *to, *colon, *host;
	size_t len;
	int port;

	if (strncmp(error, "MOVED ", 6) != 0 || target->naddresses == 0 || target->master != NULL)
		return false;
	to = strchr(error + 6, ' ');
	colon = to == NULL ? NULL : strrchr(to, ':');
	if (colon == NULL)
		return false;
	host = to + 1;
	len = (size_t)(colon - host);
	if (len == 0) {
		host = route_host(route, target, &port);
		len = strlen(host);
	}
	return set_node(route, host, len, colon + 1);
}

void route_failed(struct redis_route *route, const struct redis_target *target, const char *error)
{
	if (route_heed(route, target, error))
		return;
	/* The node that another node named is gone: ask again where it was named. But pass over a Sentinel that named a
	 * dead master. */
	if ((route->port == 0 || target->master != NULL) && target->naddresses > 0)
		route->at = (route->at + 1) % target->naddresses;
	route->port = 0;
}

bool route_follow(struct redis_route *route, const struct redis_target *target, const char *error)
{
	if (route->hops >= HOPS_MAX || route->peer_port != 0 || !route_heed(route, target, error))
		return false;
	route->hops++;
	return true;
}
