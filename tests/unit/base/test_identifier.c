#include <string.h>

#include "common/base/identifier.h"
#include "tests/unit/unit.h"

static bool is(enum identifier kind, const char *text)
{
	return identifier_is(kind, text, strlen(text));
}

TEST(test_never_an_option_or_a_directory)
{
	static const char *const never[] = { "", "-", "--all", "-y", ".", "..", "...", ".hidden", "_x", ":x", "+x", "a b", "a/b", "../x", "a\nb",
	    "a\x7f", "a=b",
		"\xc3\xa9", "a\xc3\xa9", "a\x9b", "a%2e", "a\\b", "a*", "a?b", "a#b", "a\"b", "a'b", "a$b", "a;b", "a&b" };

	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		for (enum identifier kind = IDENTIFIER_NAME; kind <= IDENTIFIER_ID; kind++)
			assert_false(is(kind, never[i]));
	for (enum identifier kind = IDENTIFIER_NAME; kind <= IDENTIFIER_ID; kind++) {
		assert_true(is(kind, "a") && is(kind, "0") && is(kind, "Z9._-x") && is(kind, "1.."));
		assert_false(identifier_is(kind, "a\0b", 3) || identifier_is(kind, "a", 2));
	}
}

TEST(test_marks_of_each_kind)
{
	assert_true(is(IDENTIFIER_ID, "sha1:da39+1") && is(IDENTIFIER_CLASS, "Net::Timeout") && is(IDENTIFIER_NAME, "mail-2.high"));
	assert_false(is(IDENTIFIER_NAME, "a:b") || is(IDENTIFIER_NAME, "a+b") || is(IDENTIFIER_CLASS, "a+b"));
}

TEST(test_bounded)
{
	static const size_t longest[] = { [IDENTIFIER_NAME] = QUEUE_NAME_MAX, [IDENTIFIER_CLASS] = IDENTIFIER_CLASS_MAX, [IDENTIFIER_ID] = IDENTIFIER_ID_MAX };
	char text[IDENTIFIER_ID_MAX + 1];

	memset(text, 'x', sizeof(text));
	for (enum identifier kind = IDENTIFIER_NAME; kind <= IDENTIFIER_ID; kind++) {
		assert_true(identifier_is(kind, text, longest[kind]));
		assert_false(identifier_is(kind, text, longest[kind] + 1));
		assert_non_null(identifier_form(kind));
	}
}

UNIT_MAIN(NULL, NULL)
