#include <math.h>
#include <time.h>

#include "common/base/clock.h"
#include "tests/unit/unit.h"

TEST(rfc3339_has_milliseconds_in_utc)
{
	char out[CLOCK_RFC3339_SIZE];

	assert_string_equal(clock_rfc3339(0, out), "1970-01-01T00:00:00.000Z");
	assert_string_equal(clock_rfc3339(1, out), "1970-01-01T00:00:00.001Z");
	assert_string_equal(clock_rfc3339(1795271467123, out), "2026-11-21T14:31:07.123Z");
	assert_string_equal(clock_rfc3339(951782400999, out), "2000-02-29T00:00:00.999Z");
	assert_ptr_equal(clock_rfc3339(0, out), out);
}

/* The last moment of the year 9999 still fits. */
TEST(rfc3339_fits)
{
	char out[CLOCK_RFC3339_SIZE];

	assert_string_equal(clock_rfc3339(253402300799999, out), "9999-12-31T23:59:59.999Z");
}

TEST(times_of_others_are_bounded)
{
	assert_int_equal(clock_ms_of(1700000000123.9), 1700000000123);
	assert_int_equal(clock_ms_of(0), 0);
	assert_int_equal(clock_ms_of(-1e300), 0);
	assert_int_equal(clock_ms_of((double)NAN), 0);
	assert_int_equal(clock_ms_of(1e300), 253402300799999);
	assert_int_equal(clock_ms_of((double)INFINITY), 253402300799999);
}

TEST(clocks_go_forward)
{
	int64_t m = clock_monotonic_ms(), b = clock_boottime_ms();

	assert_true(m > 0);
	assert_true(b >= m - 1);	/* counts sleep too */
	assert_true(clock_monotonic_ms() >= m);
	assert_true(clock_boottime_ms() >= b);
}

TEST(realtime_is_the_time_of_day)
{
	int64_t before = (int64_t)time(NULL) * 1000, now = clock_realtime_ms();

	assert_true(now >= before - 1000);
	assert_true(now < before + 60000);
}

UNIT_MAIN(NULL, NULL)
