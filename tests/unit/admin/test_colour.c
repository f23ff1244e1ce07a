#include <stdlib.h>

#include "admin/cli/colour.h"

#include "common/base/nitems.h"
#include "common/queue/queue.h"
#include "tests/unit/unit.h"

TEST(test_each_meaning_has_its_own_colour)
{
	for (int m = MEANING_NONE; m < MEANINGS; m++) {
		assert_string_equal(colour_begin(false, (enum colour_meaning)m), "");
		assert_string_equal(colour_end(false, (enum colour_meaning)m), "");
		assert_string_equal(colour_end(true, (enum colour_meaning)m), m == MEANING_NONE ? "" : "\033[0m");
		for (int other = MEANING_NONE; other < m; other++)
			assert_string_not_equal(colour_begin(true, (enum colour_meaning)m), colour_begin(true, (enum colour_meaning)other));
	}
}

TEST(test_words)
{
	static const enum colour_meaning of_health[QUEUE_HEALTH_LEVELS] = { MEANING_GOOD, MEANING_WARNING, MEANING_BAD };

	for (size_t i = 0; i < nitems(of_health); i++)
		assert_int_equal(colour_meaning_of(queue_health_names[i]), of_health[i]);
	assert_int_equal(colour_meaning_of("no redis"), MEANING_BAD);
	assert_int_equal(colour_meaning_of("error"), MEANING_BAD);
	assert_int_equal(colour_meaning_of("fixed"), MEANING_GOOD);
	assert_int_equal(colour_meaning_of("mail"), MEANING_NONE);
	assert_int_equal(colour_meaning_of(NULL), MEANING_NONE);
}

/* fd is no terminal: auto never wants colours there, and the others do not ask. */
TEST(test_the_choice_overrides_all)
{
	static const char *const terms[] = { NULL, "", "dumb", "xterm" };

	for (size_t i = 0; i < nitems(terms); i++) {
		if (terms[i] == NULL)
			unsetenv("TERM");
		else
			setenv("TERM", terms[i], 1);
		assert_int_equal(colour_terminal_obeys(), i == nitems(terms) - 1);
		assert_false(colour_is_wanted(COLOUR_AUTO, -1));
		assert_false(colour_is_wanted(COLOUR_NEVER, -1));
		assert_true(colour_is_wanted(COLOUR_ALWAYS, -1));
	}
	setenv("NO_COLOR", "1", 1);
	assert_true(colour_is_wanted(COLOUR_ALWAYS, -1));
}

UNIT_MAIN(NULL, NULL)
