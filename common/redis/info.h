#ifndef COMMON_REDIS_INFO_H
#define COMMON_REDIS_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDIS_RUN_ID_SIZE 64	/* of run_id and master_replid */
#define REDIS_OLDEST_MAJOR 5	/* the first with streams */

/* The value of one line "name:value" of INFO's answer. false: there is no such line (hosted servers hide some), or it
 * does not fit into out, which is left alone then. */
bool redis_info_value(const char *info, size_t len, const char *name, char *out, size_t out_size);

/*
 * Identifies the server behind a connection. run_id changes with each start of the server; replid changes with each
 * promotion, and a replica has that of its master. Zeroed: the server hides both.
 */
struct redis_identity {
	char run_id[REDIS_RUN_ID_SIZE];
	char replid[REDIS_RUN_ID_SIZE];		/* "": an old or a hosted server */
	int64_t up_ms;				/* since its start; 0: not known */
	bool promoted;				/* it was a replica before: nobody knows when that ended */
};
/* info: the answer to INFO server and INFO replication, len bytes. Missing lines leave "" */
void redis_identity_read(struct redis_identity *id, const char *info, size_t len);
bool redis_identity_known(const struct redis_identity *id);
/* also true if neither is known: compare connections then */
bool redis_identity_same(const struct redis_identity *a, const struct redis_identity *b);

/* Whether a maxmemory-policy lets keys without an expiry, or leases, be thrown away. */
bool redis_policy_evicts(const char *policy);

#endif
