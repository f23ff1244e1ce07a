/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/* Seats above the limit, and those with which a name is registered, against a real Redis. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/queue.h"
#include "tests/unit/queue/moves_fixture.h"
#include "tests/unit/unit.h"

#define LIMIT 3
#define OTHER "n.00000000000000b0.5.1"
#define LONG_UP INT64_C(100000000)

static struct redis_identity one = { .run_id = "one", .replid = "r" };
static struct queue_seats_limit limit = { .max = LIMIT, .loaded_ms = 1000, .node = "web1" };
static struct queue_owner other;

static int setup(void **state)
{
	moves_setup(state);
	queue_keys_use_seats(&keys, NULL, NULL);
	limit = (struct queue_seats_limit){ .max = LIMIT, .loaded_ms = 1000, .node = "web1" };
	queue_owner_free(&other);
	queue_owner_init(&other, &keys, OTHER, 30000);
	REDIS(&server, "SET %s 1", owner.lease);
	REDIS(&server, "SET %s 1", other.lease);
	return 0;
}

static struct queue_seats_answer ask_as(const struct queue_owner *o, const struct queue_seats_wish *wish)
{
	struct queue_seats_answer a;
	struct redis_reply reply;

	queue_seats(&server.r, o, wish);
	reply = private_redis_answer(&server);
	if (queue_seats_parse(&reply, &a) == -1)
		fail_msg("%s", reply.type == REDIS_ERROR ? reply.str : "another form");
	return a;
}

static struct queue_seats_answer ask(const struct queue_owner *o, int64_t held, int64_t wanted)
{
	return ask_as(o, &(struct queue_seats_wish){ .first = 1, .held = held, .wanted = wanted, .server = &one, .up_ms = LONG_UP,
		.limit = &limit });
}

static const char *field(const char *name)
{
	struct redis_reply reply = REDIS(&server, "HGET %s %s", keys.seats, name);

	return reply.type == REDIS_STRING ? reply.str : "";
}

/* A host that was cut off comes back with a message that runs, after others have got its seat. */
TEST(a_recount_takes_back_what_is_above_the_limit, setup)
{
	struct queue_seats_wish again = { .first = 1, .held = 0, .wanted = 1, .server = &one, .up_ms = LONG_UP, .limit = &limit };

	ask(&owner, 0, LIMIT);
	REDIS(&server, "HSET %s server %s", keys.seats, "one. 1000");
	assert_int_equal(ask(&other, 1, 1).taken, LIMIT + 1);
	assert_int_equal(ask_as(&other, &again).has, 1);	/* it asks for no other number */
	again.recount = true;
	assert_int_equal(ask_as(&other, &again).has, 0);
	assert_string_equal(field(OTHER), "");
}

/* A server that went back in time knows neither name. The worker may read its trays for longer than that server waits. */
TEST(a_name_is_registered_with_its_seats, setup)
{
	REDIS(&server, "DEL %s", owner.lease);
	ask(&other, 0, 0);
	REDIS(&server, "HSET %s %s %s", keys.seats, owner.incarnation, "1_mail");
	REDIS(&server, "PEXPIRE %s 100000", keys.seats);
	queue_owner_has_seats(&next, 2);
	queue_renew(&server.r, &next, &owner, "{}");
	assert_int_equal(private_redis_answer(&server).type, REDIS_INTEGER);
	assert_string_equal(field(next.incarnation), "2 mail");
	assert_string_equal(field(owner.incarnation), "");
	assert_true(REDIS_INT(&server, "PTTL %s", keys.seats) > 1000000);
	assert_int_equal(ask(&other, 0, LIMIT).has, LIMIT - 2);
}

TEST(seats_of_another_type_hold_up_no_registration, setup)
{
	REDIS(&server, "SET %s stranger", keys.seats);
	queue_owner_has_seats(&next, 2);
	queue_renew(&server.r, &next, NULL, "{}");
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_int_equal(REDIS_INT(&server, "HEXISTS %s %s", keys.workers, next.incarnation), 1);
	assert_string_equal(REDIS(&server, "GET %s", keys.seats).str, "stranger");
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
