/* Whether a clock runs evenly, with readings that come in. */
#include <stdlib.h>

#include "common/board/server_clock.h"
#include "tests/unit/unit.h"

#define AHEAD INT64_C(1700000000000)	/* of the server, at the start */

static int64_t step_ms;

/* Asked at `at` of our clock, answered after rtt, the server's clock ahead by `ahead`. */
static void take(struct server_clock *c, int64_t at, int64_t rtt, int64_t ahead)
{
	const struct server_time t = { .server_ms = at + rtt / 2 + ahead, .sent_ms = at, .answered_ms = at + rtt };

	step_ms = server_clock_take(c, &t);
}

static int64_t now(const struct server_clock *c, int64_t at)
{
	struct age_clock a;

	return server_clock_age(c, at, &a) ? a.now_ms : -1;
}

TEST(nothing_is_known_at_first)
{
	struct server_clock c = {0};
	const struct server_time t = { .server_ms = 5, .sent_ms = 5, .answered_ms = 5 };

	assert_int_equal(now(&c, 10), -1);
	assert_false(server_clock_agrees(&c, &t));
	take(&c, 10000, 2, AHEAD);
	assert_int_equal(step_ms, 0);
	assert_int_equal(c.since_ms, AHEAD + 10001);
	assert_int_equal(c.stepped_ms, 0);
	assert_true(now(&c, 10002) > 0);
}

/* An estimate is never ahead of the server, and soon close to it, however slow single answers are. */
TEST(answers_narrow_it)
{
	struct server_clock c = {0};
	struct age_clock a;
	int64_t since = 0;

	srandom(7);
	for (int64_t at = 1000; at < 1000000; at += 1000) {
		int64_t ahead = AHEAD + at / 20000;	/* 50 ppm */

		take(&c, at, at % 7000 == 0 ? 900 : random() % 5, ahead);
		assert_int_equal(step_ms, 0);
		since = since == 0 ? c.since_ms : since;
		assert_true(server_clock_age(&c, at + 950, &a));
		assert_true(a.now_ms <= at + 950 + ahead && a.latest_ms >= at + 950 + ahead);
		if (at > 2000)
			assert_true(a.latest_ms - a.now_ms < 120);
	}
	assert_int_equal(c.since_ms, since);
}

TEST(a_step_begins_an_epoch)
{
	static const int64_t steps[] = { 3600000, -3600000, 500, -500, 100, -100 };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct server_clock c = {0};

		take(&c, 1000, 2, AHEAD);
		take(&c, 2000, 2, AHEAD);
		take(&c, 3000, 2, AHEAD + steps[i]);
		assert_true(llabs(step_ms - steps[i]) <= 20);
		assert_int_equal(c.since_ms, 3001 + AHEAD + steps[i]);
		assert_int_equal(c.stepped_ms, c.since_ms);
		assert_true(now(&c, 3002) <= 3002 + AHEAD + steps[i]);
		take(&c, 4000, 2, AHEAD + steps[i]);
		assert_int_equal(step_ms, 0);
		assert_int_equal(c.since_ms, 3001 + AHEAD + steps[i]);
	}
}

/* Whoever did not look for long knows less: a second at most. */
TEST(a_gap_is_bridged)
{
	struct server_clock c = {0};

	take(&c, 1000, 2, AHEAD);
	take(&c, 90000000, 2, AHEAD + 900);
	assert_int_equal(step_ms, 0);
	assert_int_equal(c.since_ms, 1001 + AHEAD);
	take(&c, 180000000, 2, AHEAD + 900 + 1100);
	assert_int_not_equal(step_ms, 0);
}

TEST(slow_answers_say_nothing)
{
	struct server_clock c = {0};

	take(&c, 1000, 3000, AHEAD);
	assert_int_equal(now(&c, 4000), -1);
	take(&c, 5000, 4, AHEAD);
	assert_true(now(&c, 5004) > 0);
}

TEST(another_process_goes_on_with_it)
{
	struct scoreboard *board = scoreboard_new();
	struct server_clock c = {0}, d;

	server_clock_read(&d, &board->sweeper.clock);
	assert_int_equal(now(&d, 1), -1);
	take(&c, 1000, 2, AHEAD);
	take(&c, 2000, 2, AHEAD + 5000);
	server_clock_publish(&c, &board->sweeper.clock);
	server_clock_read(&d, &board->sweeper.clock);
	assert_memory_equal(&c, &d, sizeof(c));
	scoreboard_free(board);
}

#define BOOT "6c8f1d1e-0000-4000-8000-000000000001"

TEST(a_restart_goes_on_with_it)
{
	char text[SERVER_CLOCK_TEXT_SIZE];
	struct server_clock c = {0}, d = {0};

	take(&c, 1000, 2, AHEAD);
	take(&c, 2000, 2, AHEAD + 5000);
	server_clock_text(&c, BOOT, text);
	assert_true(server_clock_recall(&d, BOOT, text, 2002));
	assert_memory_equal(&c, &d, sizeof(c));
	take(&d, 60000, 2, AHEAD + 5000);
	assert_int_equal(step_ms, 0);
	assert_int_equal(d.since_ms, c.since_ms);
	assert_int_equal(d.stepped_ms, c.stepped_ms);
	assert_true(server_clock_recall(&d, BOOT, text, 60000));
	take(&d, 60000, 2, AHEAD + 7000);
	assert_int_not_equal(step_ms, 0);
	assert_int_equal(d.since_ms, 60001 + AHEAD + 7000);
}

TEST(what_is_too_old_is_not_recalled)
{
	char text[SERVER_CLOCK_TEXT_SIZE];
	struct server_clock c = {0}, d = {0};

	take(&c, 1000, 2, AHEAD);
	server_clock_text(&c, BOOT, text);
	assert_false(server_clock_recall(&d, BOOT, text, c.checked_ms + SERVER_CLOCK_RECALLED_MS + 1));
	assert_int_equal(d.checked_ms, 0);
	assert_true(server_clock_recall(&d, BOOT, text, c.checked_ms + SERVER_CLOCK_RECALLED_MS));
}

TEST(what_is_not_ours_is_not_recalled)
{
	static const char *const wrong[] = {
		"", "1", "1 " BOOT, "2 " BOOT " 1 2 3 4 0", "1 " BOOT " 1 2 3 4", "1 " BOOT " 1 2 3 4 0 ", "1 " BOOT " 1 2 3 4 0 5", "1 " BOOT " 1 2 3 x 0",
		"1 other 1 2 3 4 0",		/* of another machine */
		"1 " BOOT " 1 2 0 1 0",		/* never looked */
		"1 " BOOT " 1 2 1001 4 0",	/* looked in the future */
		"1 " BOOT " 2 1 3 4 0",		/* no bounds */
		"1 " BOOT " 1 2 3 6 0",		/* known since the future */
		"1 " BOOT " 1 2 3 0 0", "1 " BOOT " 1 2 3 4 5", "1 " BOOT " 1 2 3 4 -1",
		"1 " BOOT " 1 9223372036854775807 3 4 0", "1 " BOOT " -9223372036854775808 2 3 4 0",
	};
	struct server_clock c = {0};

	assert_true(server_clock_recall(&c, BOOT, "1 " BOOT " 1 2 3 4 0", 1000));
	c = (struct server_clock){0};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		if (server_clock_recall(&c, BOOT, wrong[i], 1000) || c.checked_ms != 0)
			fail_msg("recalled: %s", wrong[i]);
}

UNIT_MAIN(NULL, NULL)
