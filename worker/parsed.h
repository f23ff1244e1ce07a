#ifndef WORKER_PARSED_H
#define WORKER_PARSED_H

#include <stddef.h>

#include "common/base/base.h"
#include "common/message/message.h"

/*
 * Owner: parsed.c. A message that was parsed once and is kept as long as its item needs it. Most items need it only
 * while they run, so a few of these structs serve a whole batch: the pool reuses them.
 */
struct parsed {
	struct message message;		/* has views into the bytes of its item */
	char sha1[ENCODE_SHA1_SIZE];	/* message.sha1_memo */
	struct parsed *next;		/* in the pool */
};

struct parsed_pool {
	struct parsed *unused;
};

struct parsed *parsed_new(struct parsed_pool *pool, const struct message_keys *keys, const char *raw, size_t len);
void parsed_drop(struct parsed_pool *pool, struct parsed *p);	/* p NULL: nothing */
void parsed_pool_free(struct parsed_pool *pool);		/* frees the unused structs only */

#endif
