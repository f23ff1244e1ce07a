/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c tests/unit/queue/seats_fixture.c */

/* Seats above the limit, those with which a name is registered, and those of a server that is new to the hash, against a real Redis. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/queue/seats_fixture.h"
#include "tests/unit/unit.h"

/* A host that was cut off comes back with a message that runs, after others have got its seat. */
TEST(a_recount_takes_back_what_is_above_the_limit, seats_setup)
{
	struct queue_seats_wish again = { .first = 1, .held = 0, .wanted = 1, .server = &one, .up_ms = SEATS_LONG_UP,
		.watched_ms = SEATS_LONG_UP, .limit = &limit };

	seats_ask(&owner, 0, SEATS_LIMIT);
	REDIS(&server, "HSET %s server %s", keys.seats, "one. 1000");
	assert_int_equal(seats_ask(&other, 1, 1).taken, SEATS_LIMIT + 1);
	assert_int_equal(seats_wish(&other, &again).has, 1);	/* it asks for no other number */
	again.recount = true;
	assert_int_equal(seats_wish(&other, &again).has, 0);
	assert_string_equal(seats_field(SEATS_OTHER), "");
}

/* A server that went back in time knows neither name. The worker may read its trays for longer than that server waits. */
TEST(a_name_is_registered_with_its_seats, seats_setup)
{
	REDIS(&server, "DEL %s", owner.lease);
	seats_ask(&other, 0, 0);
	REDIS(&server, "HSET %s %s %s", keys.seats, owner.incarnation, "1_mail");
	REDIS(&server, "PEXPIRE %s 100000", keys.seats);
	queue_owner_has_seats(&next, 2);
	queue_renew(&server.r, &next, &owner, "{}");
	assert_int_equal(private_redis_answer(&server).type, REDIS_INTEGER);
	assert_string_equal(seats_field(next.incarnation), "2 mail");
	assert_string_equal(seats_field(owner.incarnation), "");
	assert_true(REDIS_INT(&server, "PTTL %s", keys.seats) > 1000000);
	assert_int_equal(seats_ask(&other, 0, SEATS_LIMIT).has, SEATS_LIMIT - 2);
}

TEST(seats_of_another_type_hold_up_no_registration, seats_setup)
{
	REDIS(&server, "SET %s stranger", keys.seats);
	queue_owner_has_seats(&next, 2);
	queue_renew(&server.r, &next, NULL, "{}");
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_int_equal(REDIS_INT(&server, "HEXISTS %s %s", keys.workers, next.incarnation), 1);
	assert_string_equal(REDIS(&server, "GET %s", keys.seats).str, "stranger");
}

/* Its clock may have been set since its start, before this host began to watch it. */
TEST(what_a_server_says_of_its_start_counts_only_if_no_earlier_one_is_known, seats_setup)
{
	struct queue_seats_wish wish = { .first = 1, .wanted = 1, .server = &two, .up_ms = SEATS_LONG_UP, .watched_ms = 1000, .known = true,
	    .limit = &limit };

	assert_int_equal(seats_wish(&other, &wish).has, 1);
	REDIS(&server, "DEL %s", keys.seats);
	seats_ask(&owner, 0, 1);
	REDIS(&server, "HDEL %s %s", keys.seats, owner.incarnation);	/* it went back */
	assert_int_equal(seats_wish(&other, &wish).has, 0);
	wish.known = false;
	assert_int_equal(seats_wish(&other, &wish).has, 0);
	assert_in_range(seats_wish(&other, &wish).quiet_ms, 29000, 30000);
	wish.watched_ms = 31000;
	assert_int_equal(seats_wish(&other, &wish).has, 1);
	wish.watched_ms = 0;
	wish.wanted = 2;
	assert_int_equal(seats_wish(&other, &wish).has, 2);		/* the quiet time is over for all */
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
