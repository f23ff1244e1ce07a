/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/* The script that pushes a tick and records it, against a real Redis. tests/sweeper/test_schedules.py: who calls it, and when. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/queue.h"
#include "tests/unit/queue/moves_fixture.h"
#include "tests/unit/unit.h"

#define HOURLY "aaaaaaaaaaaaaaaa"	/* definitions */
#define DAILY "bbbbbbbbbbbbbbbb"
#define MINUTE INT64_C(60000)

static int64_t now_ms;

static void put_record(int64_t last_ms)
{
	char *value = alloc_format(HOURLY " %" PRId64 " 0 0 0 0", last_ms);

	REDIS(&server, "HSET %s nightly %s", keys.schedules, value);
	free(value);
}

static struct queue_schedule recorded(void)
{
	struct queue_schedule is;
	struct redis_reply reply;

	queue_schedule_read(&server.r, &keys, "nightly");
	reply = private_redis_answer(&server);
	assert_int_equal(queue_schedule_parse(&reply, &is), 0);
	return is;
}

static int setup(void **state)
{
	struct redis_reply time, seconds;

	moves_setup(state);
	time = REDIS(&server, "TIME");
	seconds = redis_element(&time, 0);
	now_ms = strtoll(seconds.str, NULL, 10) * 1000;
	put_record(now_ms - 5 * MINUTE);
	return 0;
}

static struct redis_reply send_tick(const char *definition, int64_t last_ms, int64_t tick_ms, int64_t missed)
{
	queue_tick(&server.r, &keys, &(struct queue_tick){ .name = "nightly", .definition = definition, .last_ms = last_ms,
	    .tick_ms = tick_ms, .missed = missed, .message = "m", .len = 1 });
	return private_redis_answer_or_error(&server);
}

static enum queue_tick_end tick_of(const char *definition, int64_t last_ms, int64_t tick_ms, int64_t missed)
{
	struct redis_reply reply = send_tick(definition, last_ms, tick_ms, missed);
	struct queue_ticked ticked;

	if (queue_ticked(&reply, &ticked) == -1)
		fail_msg("%s", reply.type == REDIS_ERROR ? reply.str : "another form");
	return ticked.end;
}

static int64_t pushed(void)
{
	return REDIS_INT(&server, "LLEN %s", keys.ingress);
}

TEST(a_tick_is_pushed_and_recorded, setup)
{
	assert_int_equal(tick_of(HOURLY, now_ms - 5 * MINUTE, now_ms - MINUTE, 3), QUEUE_TICK_DONE);
	assert_int_equal(pushed(), 1);
	assert_true(recorded().last_ms == now_ms - MINUTE && recorded().pushed_ms == now_ms - MINUTE && recorded().missed == 3);
}

/* It was executed, and the answer was lost; or another sweeper leads, too. */
TEST(the_second_execution_pushes_no_tick, setup)
{
	tick_of(HOURLY, now_ms - 5 * MINUTE, now_ms - MINUTE, 0);
	assert_int_equal(tick_of(HOURLY, now_ms - 5 * MINUTE, now_ms - MINUTE, 0), QUEUE_TICK_NONE);
	assert_int_equal(tick_of(HOURLY, now_ms - 5 * MINUTE, now_ms - 2 * MINUTE, 0), QUEUE_TICK_NONE);
	assert_int_equal(pushed(), 1);
	assert_true(recorded().last_ms == now_ms - MINUTE);
}

TEST(a_tick_whose_push_is_refused_is_not_recorded, setup)
{
	REDIS(&server, "SET %s stranger", keys.ingress);
	assert_int_equal(send_tick(HOURLY, now_ms - 5 * MINUTE, now_ms - MINUTE, 3).type, REDIS_ERROR);
	assert_true(recorded().last_ms == now_ms - 5 * MINUTE && recorded().pushed_ms == 0 && recorded().missed == 0);
	REDIS(&server, "DEL %s", keys.ingress);
	assert_int_equal(tick_of(HOURLY, now_ms - 5 * MINUTE, now_ms - MINUTE, 3), QUEUE_TICK_DONE);
	assert_int_equal(pushed(), 1);
}

/* The sweeper takes it for later than it is: the clock of Redis was set back. */
TEST(a_tick_ahead_of_the_clock_of_redis_waits, setup)
{
	assert_int_equal(tick_of(HOURLY, now_ms - 5 * MINUTE, now_ms + 10 * MINUTE, 0), QUEUE_TICK_NONE);
	assert_int_equal(pushed(), 0);
	assert_true(recorded().last_ms == now_ms - 5 * MINUTE);
}

TEST(a_tick_of_other_times_begins_anew, setup)
{
	assert_int_equal(tick_of(DAILY, now_ms - 5 * MINUTE, now_ms - MINUTE, 0), QUEUE_TICK_CHANGED);
	assert_int_equal(pushed(), 0);
	assert_string_equal(recorded().definition, DAILY);
	assert_true(recorded().last_ms >= now_ms);
}

/* The clock was set back: the ticks up to the last one were pushed. */
TEST(other_times_begin_not_before_the_last_tick, setup)
{
	put_record(now_ms + MINUTE);
	assert_int_equal(tick_of(DAILY, now_ms + MINUTE, now_ms - MINUTE, 0), QUEUE_TICK_CHANGED);
	assert_true(recorded().last_ms == now_ms + MINUTE);
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
