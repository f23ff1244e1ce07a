#ifndef SWEEPER_CORE_SERVER_H
#define SWEEPER_CORE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/redis/redis.h"

/* What INFO says. "" and 0: it does not. */
struct server {
	char version[32];
	int major;			/* of version */
	char run_id[REDIS_RUN_ID_SIZE];
	char maxmemory_policy[32];
};

/* Takes what it knows from INFO's text; the rest of *server is left alone. */
void server_parse(struct server *server, const char *info, size_t len);

/* Whether keys without an expiry, or leases, may be evicted. */
bool server_evicts(const struct server *server);

#endif
