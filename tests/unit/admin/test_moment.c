/* Moments as an operator writes them. */
#include "admin/cli/moment.h"
#include "tests/unit/unit.h"

#define NOW INT64_C(1795399805250)	/* 2026-11-23T02:10:05.250Z */
#define MIDNIGHT (NOW / 86400000 * 86400000)

static void assert_moment(const char *text, int64_t expected)
{
	int64_t ms = 0;

	assert_int_equal(moment_parse(text, NOW, &ms), 0);
	assert_int_equal(ms, expected);
}

TEST(times_as_they_are_printed)
{
	assert_moment("2026-11-23T02:10:05.250Z", NOW);
	assert_moment("2026-11-23T02:10:05Z", NOW - 250);
	assert_moment("2026-11-23T02:10:05.2Z", NOW - 50);
	assert_moment("2026-11-23 02:10", NOW - 5250);
	assert_moment("2026-11-23T03:10:05.250+01:00", NOW);
	assert_moment("2026-11-22T21:40:05.250-0430", NOW);
	assert_moment("2026-11-23", MIDNIGHT);
}

TEST(a_time_of_day_is_the_last_one)
{
	assert_moment("02:00", MIDNIGHT + 7200000);
	assert_moment("02:10:05", NOW - 250);
	assert_moment("02:11", MIDNIGHT + 7860000 - 86400000);
	assert_moment("03:10:05+01:00", NOW - 250);
	assert_moment("23:59:59.999", MIDNIGHT - 1);
}

TEST(durations_are_ago)
{
	assert_moment("1h30m", NOW - 5400000);
	assert_moment("2d", NOW - 172800000);
	assert_moment("0s", NOW);
	assert_moment("1m500ms", NOW - 60500);
	assert_moment("49s ago", NOW - 49000);		/* as a table shows them */
	assert_moment("1h30m ago", NOW - 5400000);
}

static void assert_coming(const char *text, int64_t expected)
{
	int64_t ms = 0;

	assert_int_equal(moment_parse_coming(text, NOW, &ms), 0);
	assert_int_equal(ms, expected);
}

TEST(moments_that_come)
{
	static const char *const wrong[] = { "9223372036854775807ms", "", "soon", "5m ago", "in ", "in soon" };
	int64_t ms;

	assert_coming("02:00", MIDNIGHT + 7200000 + 86400000);
	assert_coming("02:11", MIDNIGHT + 7860000);
	assert_coming("23:00-08:00", MIDNIGHT + 7 * 3600000);
	assert_coming("1h30m", NOW + 5400000);
	assert_coming("0s", NOW);
	assert_coming("in 5m", NOW + 300000);		/* as a table shows it */
	assert_coming("2026-11-23T02:10:05.250Z", NOW);
	assert_coming("2026-11-24", MIDNIGHT + 86400000);
	assert_coming("2026-11-23", MIDNIGHT);		/* is over */
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(moment_parse_coming(wrong[i], NOW, &ms), -1);
}

TEST(other_texts_are_refused)
{
	static const char *const wrong[] = {
		"", "yesterday", "1", "1h30", "h", "24:00", "02:60", "2:00", "02:00x", "2026-02-30", "2026-11-23T", "2026-11-23T02", "02:00+1",
		"2026-11-23T02:00:00+", "1969-12-31", "99999d", "-1h", "1 h", "02:00:", "in 5m", " ago", "ago", "5m  ago", "5m agoo",
	};
	int64_t ms;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(moment_parse(wrong[i], NOW, &ms), -1);
}

UNIT_MAIN(NULL, NULL)
