/* Which versions of libraries are too old. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/redis/libraries.h"

static void versions_are_compared_as_numbers(void **state)
{
	(void)state;
	assert_true(libraries_older("3.0.9", "3.0.22"));
	assert_true(libraries_older("1.1.1w", "3.0.22"));
	assert_true(libraries_older("3.0", "3.0.22"));
	assert_true(libraries_older("2.9.99", "3.0.22"));
	assert_false(libraries_older("3.0.22", "3.0.22"));
	assert_false(libraries_older("3.5.0", "3.0.22"));
	assert_false(libraries_older("2.1.12-stable", "2.1.12"));
	assert_false(libraries_older("2.14", "2.14"));
	assert_false(libraries_older("2.14.1", "2.14"));
}

static void each_loaded_library_tells_its_version(void **state)
{
	(void)state;
	assert_int_equal(libraries_count, 3);
	for (size_t i = 0; i < libraries_count; i++)
		assert_true(strtol(libraries[i].version(), NULL, 10) > 0 || libraries[i].version()[0] == '0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_are_compared_as_numbers),
		cmocka_unit_test(each_loaded_library_tells_its_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
