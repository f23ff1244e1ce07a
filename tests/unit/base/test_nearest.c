#include <string.h>

#include "common/base/nearest.h"
#include "common/base/nitems.h"
#include "tests/unit/unit.h"

static const char *const keys[] = { "workers", "timeout", "handler", "max_attempts", "name", "env" };

TEST(finds_what_was_meant)
{
	static const char *const pairs[][2] = { { "worker", "workers" }, { "wrokers", "workers" }, { "workerss", "workers" },
		{ "workers", "workers" }, { "time_out", "timeout" }, { "timeotu", "timeout" }, { "hander", "handler" },
		{ "max_atempts", "max_attempts" }, { "maxattempt", "max_attempts" }, { "nam", "name" }, { "evn", "env" } };

	for (size_t i = 0; i < nitems(pairs); i++) {
		const char *found = nearest(pairs[i][0], keys, nitems(keys));

		if (found == NULL || strcmp(found, pairs[i][1]) != 0)
			fail_msg("%s: expected %s, got %s", pairs[i][0], pairs[i][1], found == NULL ? "nothing" : found);
	}
}

TEST(is_silent_when_nothing_is_near)
{
	static const char *const far[] = { "", "x", "colour", "working_directory", "tempo", "attempts_of_all" };
	char longer[200];

	for (size_t i = 0; i < nitems(far); i++)
		if (nearest(far[i], keys, nitems(keys)) != NULL)
			fail_msg("\"%s\" is near to %s", far[i], nearest(far[i], keys, nitems(keys)));
	memset(longer, 'w', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_null(nearest(longer, keys, nitems(keys)));
	assert_null(nearest("workers", keys, 0));
}

/* A swap of neighbours is one slip, not two. */
TEST(prefers_the_nearest)
{
	static const char *const near[] = { "abdc", "abxx", "abcd" };

	assert_string_equal(nearest("abcd", near, 3), "abcd");
	assert_string_equal(nearest("abdc", near + 1, 2), "abcd");
	assert_string_equal(nearest("abd", near, 3), "abdc");
}

TEST(names_all_that_are_as_near)
{
	static const char *const known[] = { "stats", "status", "stop", "xtats", "purge" };
	const char *found[3];

	assert_int_equal(nearest_all("stauts", known, nitems(known), found, 3), 2);
	assert_string_equal(found[0], "stats");
	assert_string_equal(found[1], "status");
	assert_int_equal(nearest_all("stauts", known, nitems(known), found, 1), 1);
	assert_int_equal(nearest_all("ytats", known + 3, 1, found, 3), 1);
	assert_int_equal(nearest_all("nothing", known, nitems(known), found, 3), 0);
	/* the same first letter wins, wherever it stands */
	static const char *const letters[] = { "xail", "mail", "maul", "yail" };
	assert_int_equal(nearest_all("mil", letters, nitems(letters), found, 3), 1);
	assert_string_equal(found[0], "mail");
	assert_int_equal(nearest_all("mayl", letters, nitems(letters), found, 3), 2);
	assert_string_equal(found[1], "maul");
}

UNIT_MAIN(NULL, NULL)
