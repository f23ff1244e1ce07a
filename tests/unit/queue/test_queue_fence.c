/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/*
 * A fence takes the tray and the lease of a dead worker, and remembers how many messages lay there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/queue/moves_fixture.h"

static void fence(void)
{
	queue_fence(&server.r, &keys, owner.incarnation, TRAY, RESCUE);
}

static void a_fence_takes_tray_and_lease_and_remembers_how_many(void **state)
{
	(void)state;
	REDIS(&server, "SET " LEASE " 1");
	fence();
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS " LEASE), 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS t:workers"), 0);
	REDIS(&server, "RPUSH " TRAY " a b c");
	fence();
	assert_int_equal(private_redis_answer(&server).integer, 3);
	assert_int_equal(REDIS_INT(&server, "EXISTS " TRAY), 0);
	assert_int_equal(moves_count(RESCUE), 3);
	queue_rescue_size(&server.r, &keys, owner.incarnation);
	assert_string_equal(private_redis_answer(&server).str, "3");
	/* what the owner still sends finds nothing */
	queue_done(&server.r, &owner, 0);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	message_parse(&message, &keys.lines, "b", 1);
	queue_hand_back(&server.r, &owner, 0, &by_value, false, &change, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	message_parse(&message, &keys.lines, RAW, RAW_LEN);
	assert_int_equal(moves_count("i"), 0);
}

/* Two trays with one message each: neither is known to be the one. */
static void a_fence_counts_what_lies_in_all_trays(void **state)
{
	(void)state;
	REDIS(&server, "RPUSH " TRAY " a");
	REDIS(&server, "RPUSH t:n.00000000000000b0.4.1:1 b");
	REDIS(&server, "SET t:n.00000000000000b0.4.1:2 x");
	fence();
	assert_int_equal(private_redis_answer(&server).integer, 1);
	queue_rescue_size(&server.r, &keys, owner.incarnation);
	assert_string_equal(private_redis_answer(&server).str, "2");
	REDIS(&server, "DEL " RESCUE);
	queue_fence(&server.r, &keys, owner.incarnation, "t:n.00000000000000b0.4.1:1", RESCUE);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	queue_rescue_size(&server.r, &keys, owner.incarnation);
	assert_string_equal(private_redis_answer(&server).str, "2");
}

static void a_fence_leaves_what_is_being_rescued_alone(void **state)
{
	(void)state;
	REDIS(&server, "RPUSH " RESCUE " old");
	REDIS(&server, "RPUSH " TRAY " new");
	fence();
	assert_int_equal(private_redis_answer(&server).integer, -1);
	moves_assert_holds("fence", RESCUE, "old", 3);
	moves_assert_holds("fence", TRAY, "new", 3);
}

static void a_fence_among_keys_of_other_types(void **state)
{
	(void)state;
	REDIS(&server, "SET " TRAY " x");
	fence();
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	assert_int_equal(REDIS_INT(&server, "EXISTS " TRAY), 1);
	REDIS(&server, "DEL " TRAY);
	REDIS(&server, "SET t:workers x");
	REDIS(&server, "RPUSH " TRAY " a");
	fence();
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	moves_assert_holds("fence", TRAY, "a", 1);
}

static void a_fence_at_maxmemory(void **state)
{
	(void)state;
	REDIS(&server, "RPUSH " TRAY " a");
	REDIS(&server, "CONFIG SET maxmemory 1");
	fence();
	assert_int_equal(private_redis_answer(&server).integer, 1);
	moves_assert_holds("fence", RESCUE, "a", 1);
}

#define T(f) cmocka_unit_test_setup(f, moves_setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_fence_takes_tray_and_lease_and_remembers_how_many),
		T(a_fence_counts_what_lies_in_all_trays),
		T(a_fence_leaves_what_is_being_rescued_alone),
		T(a_fence_among_keys_of_other_types),
		T(a_fence_at_maxmemory),
	};

	return cmocka_run_group_tests(tests, moves_setup_all, moves_teardown_all);
}
