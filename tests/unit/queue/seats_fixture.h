#ifndef TESTS_UNIT_QUEUE_SEATS_FIXTURE_H
#define TESTS_UNIT_QUEUE_SEATS_FIXTURE_H

#include "common/queue/queue.h"
#include "tests/unit/queue/moves_fixture.h"

/*
 * Shared by the tests of seats, beside moves_fixture.h: three names with a lease, in a queue with max_in_flight = SEATS_LIMIT. They ask
 * with `limit`, which a test may change, and on a server that has run for long.
 */
#define SEATS_LIMIT 3
#define SEATS_OTHER "n.00000000000000b0.5.1"
#define SEATS_THIRD "n.00000000000000b0.6.9"
#define SEATS_LONG_UP INT64_C(100000000)	/* ms */

extern struct redis_identity one, two;
extern struct queue_seats_limit limit;
extern struct queue_owner other, third;

int seats_setup(void **state);
/* A request, which Redis must not refuse. seats_ask(): the wish of a worker whose process is the first one in its slot */
struct queue_seats_answer seats_wish(const struct queue_owner *o, const struct queue_seats_wish *wish);
struct queue_seats_answer seats_ask(const struct queue_owner *o, int64_t held, int64_t wanted);
const char *seats_field(const char *name);	/* of the hash of seats; "": none */

#endif
