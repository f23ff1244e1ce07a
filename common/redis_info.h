#ifndef COMMON_REDIS_INFO_H
#define COMMON_REDIS_INFO_H

#include <stdbool.h>
#include <stddef.h>

#define REDIS_RUN_ID_SIZE 64
#define REDIS_OLDEST_MAJOR 5	/* the first with streams */

/* The value of one line "name:value" of INFO's answer. false: there is no such line (hosted servers hide some), or it
 * does not fit into out, which is left alone then. */
bool redis_info_value(const char *info, size_t len, const char *name, char *out, size_t out_size);

/* Whether a maxmemory-policy lets keys without an expiry, or leases, be thrown away. */
bool redis_policy_evicts(const char *policy);

#endif
