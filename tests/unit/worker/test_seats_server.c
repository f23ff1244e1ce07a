/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c tests/unit/worker/seats_fixture.c */
/* The seats of a worker on a server that is new to the hash, and how long that has certainly been up. */
#include <string.h>

#include "tests/unit/worker/seats_fixture.h"
#include "tests/unit/unit.h"

#define OFFSET INT64_C(1700000000000)

/* The sweeper has seen that the clock of the server was set so long ago, and watched it since. */
static void publish_step(int64_t ago_ms)
{
	int64_t boot_ms = clock_boottime_ms();
	const struct server_clock known = { .low_ms = OFFSET, .high_ms = OFFSET, .checked_ms = boot_ms,
		.since_ms = boot_ms + OFFSET - ago_ms, .stepped_ms = boot_ms + OFFSET - ago_ms };

	server_clock_publish(&known, &lone.board->sweeper.clock);
}

/* A supervisor starts; the server in the hash is another one. The time since the start of this one is above a day, by its own clock. */
static void start_on_a_new_server(void)
{
	redis_appendf(&lone.w->session.redis, "DEL " SEATS);
	lone_worker_answer();
	redis_appendf(&lone.w->session.redis, "HSET " SEATS " server %b", "other. 0", (size_t)8);
	lone_worker_answer();
	lone.w->seats = (struct seats){0};
	seats_init(lone.w);
	seats_adopted(lone.w);
	seats_take_answer();
}

TEST(a_supervisor_that_starts_does_not_believe_when_the_server_did, seats_setup, lone_worker_teardown)
{
	server_clock_publish(&(struct server_clock){0}, &lone.board->sweeper.clock);
	start_on_a_new_server();
	assert_true(lone.w->seats.quiet);
	lone.w->now_us += (LONE_LEASE_MS + 1000) * INT64_C(1000);
	assert_true(seats_asked_and_answered(1, false));
	assert_false(lone.w->seats.quiet);
	assert_int_equal(seats_free(lone.w), 1);
}

TEST(the_start_of_a_server_counts_as_far_as_its_clock_was_watched, seats_setup, lone_worker_teardown)
{
	/* the time since the connection is part of the time since the step, not more */
	static const struct { int64_t step_ms, connection_ms; bool quiet; } rows[] = { { 20000, 5000, true }, { 29000, 3000, true },
		{ 29000, 29000, true }, { 40000, 0, false }, { 1000, 32000, false } };

	for (size_t i = 0; i < nitems(rows); i++) {
		publish_step(rows[i].step_ms);
		lone.w->session.server.up_ms = 100000000;
		start_on_a_new_server();
		lone.w->now_us += rows[i].connection_ms * 1000;
		seats_asked_and_answered(1, false);
		assert_int_equal(lone.w->seats.quiet, rows[i].quiet);
	}
}

UNIT_MAIN(lone_worker_start_server, lone_worker_stop_server)
