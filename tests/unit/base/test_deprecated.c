#include <stdlib.h>

/* The rows of this test, and none of the program's. */
#define DEPRECATED_TABLE(X) \
	X(KEY, "queue.old", "queue.new", "9.1.0") \
	X(KEY, "old", "newer", "9.2.0") \
	X(OPTION, "quredis --old", "--new", "9.3.0")

#include "common/base/deprecated.c"
#include "tests/unit/unit.h"

TEST(finds_a_name_by_its_kind_and_what_stands_before_it)
{
	assert_string_equal(deprecated_find(DEPRECATED_KEY, "queue.", "old")->instead, "queue.new");
	assert_string_equal(deprecated_find(DEPRECATED_KEY, "", "old")->instead, "newer");
	assert_string_equal(deprecated_find(DEPRECATED_OPTION, "quredis --", "old")->removed_in, "9.3.0");
}

TEST(finds_no_other_name)
{
	assert_null(deprecated_find(DEPRECATED_KEY, "queue.", "older"));
	assert_null(deprecated_find(DEPRECATED_KEY, "queue.", "ol"));
	assert_null(deprecated_find(DEPRECATED_KEY, "schedule.", "old"));
	assert_null(deprecated_find(DEPRECATED_OPTION, "quredisd --", "old"));
	assert_null(deprecated_find(DEPRECATED_METRIC, "", "old"));
}

TEST(advice_has_the_version_and_what_replaces_it)
{
	char *advice = deprecated_advice(deprecated_find(DEPRECATED_KEY, "", "old"));

	assert_string_equal(advice, "deprecated: version 9.2.0 removes it; use newer");
	free(advice);
}

UNIT_MAIN(NULL, NULL)
