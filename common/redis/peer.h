#ifndef COMMON_REDIS_PEER_H
#define COMMON_REDIS_PEER_H

#include <stdbool.h>
#include <stddef.h>

struct redis;

/* For an error: the target, and of several addresses the one in use. Long addresses are cut: what is wrong follows
 * them. */
void redis_describe_peer(const struct redis *r, char *text, size_t size);
/* Whether the connection failed because the peer closed or reset it. error: the errno of the call that failed. Only
 * while r has a context. */
bool redis_closed_by_peer(const struct redis *r, int error);
/* Why the connection failed, and what that shows about the server. closed: redis_closed_by_peer(). Only while r has a
 * context. */
void redis_describe_error(const struct redis *r, bool closed, char *text, size_t size);
void redis_set_socket_options(const struct redis *r);	/* of the connection to it */
bool redis_wants_tls(const struct redis *r);	/* the connection that r opens, or has */

#endif
