#ifndef COMMON_REDIS_ROUTE_H
#define COMMON_REDIS_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

struct redis_reply;
struct redis_target;

/*
 * Where the next connection goes. A target lists addresses of Redis, or of Sentinels. A server can name another one: a
 * Sentinel names the master, a node of a Redis Cluster names the owner of a slot (MOVED). That node is a belief: it is
 * dropped as soon as a connection to it fails, and a Sentinel is asked again for each connection. route.c owns all
 * fields.
 */
struct redis_route {
	size_t at;		/* of target->addresses: the one that answered last, or the next one to try */
	bool asks;		/* the connection goes to a Sentinel, to ask it for the master */
	char host[256];		/* of the node that was named */
	int port;		/* 0: none was named */
	/* the numeric address of the server, known from another connection: host is not resolved. "": not known */
	char peer[64];
	int peer_port;
	int hops;		/* nodes of a Cluster that named another one during this opening */
};

/* A new connection begins. With Sentinels it goes to one of them, and asks. */
void route_begin(struct redis_route *route, const struct redis_target *target);
/* The host and port to connect to now; the view ends with the next call of a function that changes the route. */
const char *route_host(const struct redis_route *route, const struct redis_target *target, int *port);
/* The same for the socket: a peer that is known already needs no name. */
const char *route_socket(const struct redis_route *route, const struct redis_target *target, int *port);
/* The next connection goes to the server at the other end of fd, which is that of `other`. False: fd has no TCP peer
 * any more. */
bool route_beside(struct redis_route *route, const struct redis_route *other, int fd);
/* The connection could not be opened: the next one goes to the node that a MOVED error names, otherwise to the next
 * address. */
void route_failed(struct redis_route *route, const struct redis_target *target, const char *error);
/* The next connection goes to this address of the target first. An index beyond the last one counts from the first
 * again. */
void route_prefer(struct redis_route *route, const struct redis_target *target, size_t at);
/* Takes the reply to SENTINEL GET-MASTER-ADDR-BY-NAME. Returns what is wrong with it; NULL: the connection goes to the
 * master now. */
const char *route_take_master(struct redis_route *route, const struct redis_reply *reply);
/* Heeds "MOVED SLOT HOST:PORT": the next connection goes there. An empty host is the one that answered. False: another
 * text, which changes nothing. */
bool route_heed(struct redis_route *route, const struct redis_target *target, const char *error);
/* The same, in answer to an opening, which goes on there. False also after too many such answers in a row, since then
 * the nodes do not agree, and beside another connection, which is to have the same server. */
bool route_follow(struct redis_route *route, const struct redis_target *target, const char *error);

#endif
