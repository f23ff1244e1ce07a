/* Names that ask a real Redis for seats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/queue/seats_fixture.h"

struct redis_identity one = { .run_id = "one", .replid = "r" }, two = { .run_id = "two", .replid = "r" };
struct queue_seats_limit limit;
struct queue_owner other, third;

int seats_setup(void **state)
{
	moves_setup(state);
	queue_keys_use_seats(&keys, NULL, NULL);
	limit = (struct queue_seats_limit){ .max = SEATS_LIMIT, .loaded_ms = 1000, .node = "web1" };
	queue_owner_free(&other);
	queue_owner_free(&third);
	queue_owner_init(&other, &keys, SEATS_OTHER, 30000);
	queue_owner_init(&third, &keys, SEATS_THIRD, 30000);
	REDIS(&server, "SET %s 1", owner.lease);
	REDIS(&server, "SET %s 1", other.lease);
	REDIS(&server, "SET %s 1", third.lease);
	return 0;
}

struct queue_seats_answer seats_wish(const struct queue_owner *o, const struct queue_seats_wish *wish)
{
	struct queue_seats_answer a;
	struct redis_reply reply;

	queue_seats(&server.r, o, wish);
	reply = private_redis_answer(&server);
	if (queue_seats_parse(&reply, &a) == -1)
		fail_msg("%s", reply.type == REDIS_ERROR ? reply.str : "another form");
	return a;
}

struct queue_seats_answer seats_ask(const struct queue_owner *o, int64_t held, int64_t wanted)
{
	return seats_wish(o, &(struct queue_seats_wish){ .first = 1, .held = held, .wanted = wanted, .server = &one,
		.up_ms = SEATS_LONG_UP, .watched_ms = SEATS_LONG_UP, .limit = &limit });
}

const char *seats_field(const char *name)
{
	struct redis_reply reply = REDIS(&server, "HGET %s %s", keys.seats, name);

	return reply.type == REDIS_STRING ? reply.str : "";
}
