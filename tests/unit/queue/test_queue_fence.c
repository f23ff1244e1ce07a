/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/*
 * A fence takes the tray and the lease of a dead worker, and remembers how many messages lay there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/queue/moves_fixture.h"
#include "tests/unit/unit.h"

static void fence(void)
{
	queue_fence(&server.r, &keys, owner.incarnation, TRAY, RESCUE);
}

TEST(a_fence_takes_tray_and_lease_and_remembers_how_many, moves_setup)
{
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
	queue_hand_back(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &by_value, .change = &change }, false);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	message_parse(&message, &keys.lines, RAW, RAW_LEN);
	assert_int_equal(moves_count("i"), 0);
}

/* Two trays with one message each: neither is known to be the one. */
TEST(a_fence_counts_what_lies_in_all_trays, moves_setup)
{
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

TEST(a_fence_leaves_what_is_being_rescued_alone, moves_setup)
{
	REDIS(&server, "RPUSH " RESCUE " old");
	REDIS(&server, "RPUSH " TRAY " new");
	fence();
	assert_int_equal(private_redis_answer(&server).integer, -1);
	moves_assert_holds("fence", RESCUE, "old", 3);
	moves_assert_holds("fence", TRAY, "new", 3);
}

TEST(a_fence_among_keys_of_other_types, moves_setup)
{
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

TEST(a_fence_at_maxmemory, moves_setup)
{
	REDIS(&server, "RPUSH " TRAY " a");
	REDIS(&server, "CONFIG SET maxmemory 1");
	fence();
	assert_int_equal(private_redis_answer(&server).integer, 1);
	moves_assert_holds("fence", RESCUE, "a", 1);
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
