/* The queue that tests on a private Redis share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/private_queue.h"

struct private_redis server;
struct queue_keys keys;
struct queue_owner owner;

void private_queue_start(void)
{
	private_redis_start(&server, false);
	queue_keys_init(&keys, NULL, "mail", "i", "t", "e");
	queue_owner_init(&owner, &keys, PRIVATE_OWNER, 30000);
}

void private_queue_clear(void)
{
	REDIS(&server, "FLUSHALL");
	queue_owner_free(&owner);
	queue_owner_init(&owner, &keys, PRIVATE_OWNER, 30000);
	queue_renew(&server.r, &owner, NULL, "{}");
	assert_int_equal(private_redis_answer(&server).integer, 0);
}

int private_queue_stop(void **state)
{
	(void)state;
	private_redis_stop(&server);
	queue_owner_free(&owner);
	queue_keys_free(&keys);
	return 0;
}
