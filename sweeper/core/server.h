#ifndef SWEEPER_CORE_SERVER_H
#define SWEEPER_CORE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/redis/redis.h"

/* The fields of INFO that the sweeper needs. "" and 0: INFO lacks the field. */
struct server {
	char version[32];
	int major;			/* number of version */
	char run_id[REDIS_RUN_ID_SIZE];
	char maxmemory_policy[32];
};

/* Sets the fields that the text of INFO contains, and leaves the others as they are. */
void server_parse(struct server *server, const char *info, size_t len);

/* True: the server may evict keys without an expiry, or leases. */
bool server_evicts(const struct server *server);

#endif
