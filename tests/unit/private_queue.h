#ifndef TESTS_UNIT_PRIVATE_QUEUE_H
#define TESTS_UNIT_PRIVATE_QUEUE_H

#include "common/queue/moves.h"
#include "tests/unit/private_redis.h"

/* What tests of one queue share: a redis-server of their own, the keys of the queue, and one owner of its trays. */
#define PRIVATE_OWNER "n.00000000000000b0.4.1"

extern struct private_redis server;
extern struct queue_keys keys;
extern struct queue_owner owner;

void private_queue_start(void);
void private_queue_clear(void);		/* a test's setup begins with it: an empty server, the owner just registered, nothing moved out of its trays */
int private_queue_stop(void **state);	/* a group's teardown */

#endif
