/* Which versions of libraries are too old. */
#include <stdlib.h>

#include "common/redis/libraries.h"
#include "tests/unit/unit.h"

TEST(versions_are_compared_as_numbers)
{
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

TEST(each_loaded_library_tells_its_version)
{
	assert_int_equal(libraries_count, 3);
	for (size_t i = 0; i < libraries_count; i++)
		assert_true(strtol(libraries[i].version(), NULL, 10) > 0 || libraries[i].version()[0] == '0');
}

UNIT_MAIN(NULL, NULL)
