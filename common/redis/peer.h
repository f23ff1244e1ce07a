#ifndef COMMON_REDIS_PEER_H
#define COMMON_REDIS_PEER_H

#include <stddef.h>

struct redis;

/* For an error: the target, and of several addresses the one in use. Long addresses are cut: what is wrong follows them. */
void redis_describe_peer(const struct redis *r, char *text, size_t size);

#endif
