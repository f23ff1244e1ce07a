#include "admin/trend/waits.h"
#include "common/base/nitems.h"
#include "common/queue/queue.h"
#include "tests/unit/unit.h"

#define UNKNOWN QUEUE_BACKLOG_UNKNOWN
#define HOUR 60

/* {backlog, left} of consecutive minutes */
static int64_t below(const struct waits_minute *minutes, size_t n, size_t first, size_t count, int percent)
{
	struct waits *w = waits_new(minutes, n);
	int64_t found = waits_below_minutes(w, first, count, percent);

	waits_free(w);
	return found;
}

TEST(a_queue_without_a_backlog)
{
	struct waits_minute minutes[HOUR];

	for (size_t i = 0; i < HOUR; i++)
		minutes[i] = (struct waits_minute){ .backlog = 0, .left = 100 };
	assert_int_equal(below(minutes, HOUR, 1, HOUR - 1, 50), 1);
	assert_int_equal(below(minutes, HOUR, 1, HOUR - 1, 99), 1);
}

/* The backlog divided by the rate (Little's law): 3,000 wait, and 100 leave in a minute. */
TEST(a_steady_backlog)
{
	struct waits_minute minutes[3 * HOUR];

	for (size_t i = 0; i < nitems(minutes); i++)
		minutes[i] = (struct waits_minute){ .backlog = 3000, .left = 100 };
	assert_in_range(below(minutes, nitems(minutes), 2 * HOUR, HOUR, 50), 30, 31);
	assert_in_range(below(minutes, nitems(minutes), 2 * HOUR, HOUR, 99), 30, 31);
}

/* 600 come in minute 2, and leave evenly between 20 and 30. */
TEST(a_pause)
{
	struct waits_minute minutes[HOUR] = {{0}};

	for (size_t i = 2; i < 30; i++)
		minutes[i].backlog = i < 20 ? 600 : 600 - (int64_t)(i - 20) * 60;
	for (size_t i = 20; i < 30; i++)
		minutes[i].left = 60;
	assert_int_equal(below(minutes, HOUR, 0, 20, 50), WAITS_NONE);
	assert_in_range(below(minutes, HOUR, 20, 1, 99), 18, 20);
	assert_in_range(below(minutes, HOUR, 29, 1, 50), 27, 29);
	assert_in_range(below(minutes, HOUR, 0, HOUR, 50), 22, 24);
	assert_in_range(below(minutes, HOUR, 0, HOUR, 99), 27, 29);
	assert_int_equal(below(minutes, HOUR, 30, 30, 99), WAITS_NONE);
}

/* Most messages did not wait; few did: p50 and p99 differ. They left between two looks at the backlog. */
TEST(few_waited)
{
	struct waits_minute minutes[HOUR];

	for (size_t i = 0; i < HOUR; i++)
		minutes[i] = (struct waits_minute){ .backlog = 0, .left = 1000 };
	for (size_t i = 10; i < 20; i++)
		minutes[i] = (struct waits_minute){ .backlog = 2000, .left = 0 };
	minutes[20].left = 3000;
	assert_int_equal(below(minutes, HOUR, 1, HOUR - 1, 50), 1);
	assert_in_range(below(minutes, HOUR, 1, HOUR - 1, 99), 7, 11);
}

/* An operator deleted 900 of 1,000. The backlog says so; nothing counted it. */
TEST(messages_that_left_another_way)
{
	static const struct waits_minute minutes[] = {
		{ 0, 0 }, { 0, 0 }, { 1000, 0 }, { 1000, 0 }, { 1000, 0 }, { 100, 0 }, { 100, 100 }, { 0, 0 }, { 0, 50 }, { 0, 50 },
	};

	assert_in_range(below(minutes, nitems(minutes), 6, 1, 50), 4, 6);
	assert_int_equal(below(minutes, nitems(minutes), 8, 2, 99), 1);
}

/* No supervisor ran from minute 1 to 9, and 100 messages came: evenly, as far as anybody knows. */
TEST(a_gap)
{
	struct waits_minute minutes[12] = {{0}};

	for (size_t i = 1; i < 10; i++)
		minutes[i].backlog = UNKNOWN;
	minutes[10] = (struct waits_minute){ .backlog = 100, .left = 0 };
	minutes[11] = (struct waits_minute){ .backlog = 0, .left = 100 };
	assert_in_range(below(minutes, nitems(minutes), 11, 1, 50), 4, 8);
	assert_in_range(below(minutes, nitems(minutes), 11, 1, 99), 8, 12);
}

/* Those that waited already when the first minute was noted count from then. */
TEST(what_came_before)
{
	static const struct waits_minute minutes[] = { { UNKNOWN, 5 }, { 100, 0 }, { 100, 50 }, { 50, 50 }, { 10, 10 }, { 10, 10 }, { 10, 10 } };
	static const struct waits_minute nothing[] = { { UNKNOWN, 5 }, { UNKNOWN, 0 } };

	assert_int_equal(below(minutes, nitems(minutes), 0, 1, 50), WAITS_UNKNOWN);
	assert_int_equal(below(minutes, nitems(minutes), 2, 1, 50), 2);
	assert_in_range(below(minutes, nitems(minutes), 3, 1, 99), 2, 3);
	assert_in_range(below(minutes, nitems(minutes), 6, 1, 99), 1, 3);
	assert_int_equal(below(nothing, nitems(nothing), 0, 2, 50), WAITS_UNKNOWN);
	assert_int_equal(below(nothing, nitems(nothing), 1, 1, 50), WAITS_NONE);
}

static size_t oldest(const struct waits_minute *minutes, size_t n, size_t first)
{
	struct waits *w = waits_new(minutes, n);
	size_t found = waits_oldest(w, first);

	waits_free(w);
	return found;
}

TEST(how_far_back_messages_came)
{
	struct waits_minute minutes[HOUR] = {{0}}, waited[] = { { 100, 0 }, { 100, 0 }, { 100, 50 } }, nothing[] = { { UNKNOWN, 5 }, { UNKNOWN, 5 } };

	for (size_t i = 10; i < 30; i++)
		minutes[i].backlog = 600;
	minutes[30].left = 600;
	minutes[50].left = 10;
	assert_in_range(oldest(minutes, HOUR, 0), 10, 11);
	assert_in_range(oldest(minutes, HOUR, 30), 10, 11);
	assert_in_range(oldest(minutes, HOUR, 31), 49, 50);
	assert_int_equal(oldest(minutes, HOUR, 51), HOUR);
	assert_int_equal(oldest(waited, nitems(waited), 2), 0);
	assert_int_equal(oldest(nothing, nitems(nothing), 0), 0);
}

/* Other programs may write to the keys. */
TEST(absurd_figures)
{
	struct waits_minute minutes[] = { { INT64_MAX, INT64_MIN }, { 0, INT64_MAX }, { INT64_MAX, INT64_MAX }, { 0, -1 }, { 1, 1 } };

	for (size_t first = 0; first < nitems(minutes); first++)
		for (size_t n = 1; first + n <= nitems(minutes); n++)
			assert_in_range(below(minutes, nitems(minutes), first, n, 99) + 2, 0, nitems(minutes) + 3);
}

UNIT_MAIN(NULL, NULL)
