#include <unistd.h>

#include "common/base/clock.h"
#include "tests/unit/unit.h"

TEST(grows_by_its_factor)
{
	assert_int_equal(clock_backoff_ms(1000, 2, 300000, 0, 1, 0), 1000);
	assert_int_equal(clock_backoff_ms(1000, 2, 300000, 0, 2, 0), 2000);
	assert_int_equal(clock_backoff_ms(1000, 2, 300000, 0, 3, UINT32_MAX), 4000);
	assert_int_equal(clock_backoff_ms(100, 1.5, 300000, 0, 4, 0), 337);
	assert_int_equal(clock_backoff_ms(250, 1, 300000, 0, 1000000, 0), 250);
}

/* However many attempts there were: no overflow, and no loop over all of them (main() sets an alarm). */
TEST(is_capped)
{
	assert_int_equal(clock_backoff_ms(1000, 2, 300000, 0, 9, 0), 256000);
	assert_int_equal(clock_backoff_ms(1000, 2, 300000, 0, 10, 0), 300000);
	assert_int_equal(clock_backoff_ms(1000, 2, 300000, 0, UINT32_MAX, 0), 300000);
	assert_int_equal(clock_backoff_ms(1000, 100, INT64_C(1) << 50, 0, UINT32_MAX, 0), INT64_C(1) << 50);
	assert_int_equal(clock_backoff_ms(5000, 2, 300, 0, 1, 0), 300);
}

/* n = 0 is no wait number, but must not be a wild one. */
TEST(the_first_wait_is_the_base)
{
	assert_int_equal(clock_backoff_ms(1000, 2, 300000, 0, 0, 0), 1000);
}

TEST(jitter_takes_its_share)
{
	assert_int_equal(clock_backoff_ms(1000, 2, 300000, 0.2, 1, 0), 800);
	assert_int_equal(clock_backoff_ms(1000, 2, 300000, 0.2, 1, UINT32_MAX), 1000);
	assert_in_range(clock_backoff_ms(1000, 2, 300000, 0.2, 1, UINT32_MAX / 2), 899, 900);
	assert_int_equal(clock_backoff_ms(1000, 2, 300000, 1, 2, 0), 0);	/* full jitter: anything from 0 up */
	assert_int_equal(clock_backoff_ms(1000, 2, 300000, 1, 2, UINT32_MAX), 2000);
	assert_in_range(clock_backoff_ms(1000, 2, 300000, 1, 20, UINT32_MAX / 4), 74990, 75000);
}

int main(void)
{
	alarm(10);
	return unit_run(NULL, NULL);
}
