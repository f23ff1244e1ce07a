/* The back-off of a worker's components: doubles with each error in a row, up to its cap, and begins anew after a success. */
#include "tests/unit/unit.h"
#include "worker/retry.h"

TEST(errors_in_a_row_wait_longer_up_to_the_cap)
{
	static const struct retry_backoff plain = { .base_ms = 100, .cap_ms = 350 };
	static const int64_t waits[] = { 100, 200, 350, 350 };
	struct retry r = {0};

	for (unsigned i = 0; i < 4; i++) {
		retry_failed(&r, &plain, 1000);
		assert_int_equal(r.at_ms, 1000 + waits[i]);
		assert_int_equal(r.errors, i + 1);
	}
}

TEST(a_part_of_the_wait_is_random)
{
	static const struct retry_backoff half = { .base_ms = 1000, .cap_ms = 1000, .jitter = 0.5 };
	struct retry r = {0};
	int64_t first = 0;
	int others = 0;

	for (int i = 0; i < 100; i++) {
		retry_failed(&r, &half, 0);
		assert_in_range(r.at_ms, 500, 1000);
		first = i == 0 ? r.at_ms : first;
		others += r.at_ms != first;
	}
	assert_true(others > 0);
}

TEST(after_a_success_the_next_error_is_the_first)
{
	static const struct retry_backoff plain = { .base_ms = 100, .cap_ms = 10000 };
	struct retry r = {0};

	retry_failed(&r, &plain, 0);
	retry_failed(&r, &plain, 0);
	retry_succeeded(&r);
	assert_int_equal(r.errors, 0);
	retry_failed(&r, &plain, 1000);
	assert_int_equal(r.at_ms, 1100);
}

TEST(a_pause_is_no_error)
{
	struct retry r = {0};

	retry_not_before(&r, 5000);
	assert_int_equal(r.at_ms, 5000);
	assert_int_equal(r.errors, 0);
	retry_not_before(&r, 0);
	assert_int_equal(r.at_ms, 0);
}

UNIT_MAIN(NULL, NULL)
