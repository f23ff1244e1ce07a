#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "common/base/clock.h"

static void rfc3339_has_milliseconds_in_utc(void **state)
{
	char out[CLOCK_RFC3339_SIZE];

	(void)state;
	assert_string_equal(clock_rfc3339(0, out), "1970-01-01T00:00:00.000Z");
	assert_string_equal(clock_rfc3339(1, out), "1970-01-01T00:00:00.001Z");
	assert_string_equal(clock_rfc3339(1795271467123, out), "2026-11-21T14:31:07.123Z");
	assert_string_equal(clock_rfc3339(951782400999, out), "2000-02-29T00:00:00.999Z");
	assert_ptr_equal(clock_rfc3339(0, out), out);
}

/* The last moment of the year 9999 still fits. */
static void rfc3339_fits(void **state)
{
	char out[CLOCK_RFC3339_SIZE];

	(void)state;
	assert_string_equal(clock_rfc3339(253402300799999, out), "9999-12-31T23:59:59.999Z");
}

static void times_of_others_are_bounded(void **state)
{
	(void)state;
	assert_int_equal(clock_ms_of(1700000000123.9), 1700000000123);
	assert_int_equal(clock_ms_of(0), 0);
	assert_int_equal(clock_ms_of(-1e300), 0);
	assert_int_equal(clock_ms_of((double)NAN), 0);
	assert_int_equal(clock_ms_of(1e300), 253402300799999);
	assert_int_equal(clock_ms_of((double)INFINITY), 253402300799999);
}

static void clocks_go_forward(void **state)
{
	int64_t m = clock_monotonic_ms(), b = clock_boottime_ms();

	(void)state;
	assert_true(m > 0);
	assert_true(b >= m - 1);	/* counts sleep too */
	assert_true(clock_monotonic_ms() >= m);
	assert_true(clock_boottime_ms() >= b);
}

static void realtime_is_the_time_of_day(void **state)
{
	int64_t before = (int64_t)time(NULL) * 1000, now = clock_realtime_ms();

	(void)state;
	assert_true(now >= before - 1000);
	assert_true(now < before + 60000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rfc3339_has_milliseconds_in_utc),
		cmocka_unit_test(rfc3339_fits),
		cmocka_unit_test(times_of_others_are_bounded),
		cmocka_unit_test(clocks_go_forward),
		cmocka_unit_test(realtime_is_the_time_of_day),
	};

	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
