#ifndef TESTS_UNIT_PRIVATE_QUEUE_H
#define TESTS_UNIT_PRIVATE_QUEUE_H

#include "common/queue/moves.h"
#include "tests/unit/private_redis.h"

/* What tests of one queue share: a redis-server of their own, the keys of the queue, and one owner of its trays. */
#define PRIVATE_OWNER "n.00000000000000b0.4.1"

static struct private_redis server;
static struct queue_keys keys;
static struct queue_owner owner;

static void private_queue_start(void)
{
	private_redis_start(&server, false);
	queue_keys_init(&keys, "mail", "i", "t", "e");
	queue_owner_init(&owner, &keys, PRIVATE_OWNER, 30000);
}

/* A test's setup begins with it: an empty server, and the owner just registered, with nothing moved out of its trays. */
static inline void private_queue_clear(void)
{
	REDIS(&server, "FLUSHALL");
	queue_owner_free(&owner);
	queue_owner_init(&owner, &keys, PRIVATE_OWNER, 30000);
	queue_renew(&server.r, &owner, NULL, "{}");
	assert_int_equal(private_redis_answer(&server).integer, 0);
}

/* A group's teardown. */
static int private_queue_stop(void **state)
{
	(void)state;
	private_redis_stop(&server);
	queue_owner_free(&owner);
	queue_keys_free(&keys);
	return 0;
}

#endif
