/* Lines that are broken at words. */
#include <stdio.h>
#include <stdlib.h>

#include "admin/cli/wrap.h"
#include "tests/unit/unit.h"

static void assert_wrapped(const char *text, size_t at, size_t indent, size_t width, const char *expected)
{
	char *written = NULL;
	size_t len;
	FILE *out = open_memstream(&written, &len);

	wrap_write(out, text, at, indent, width);
	fclose(out);
	assert_string_equal(written, expected);
	free(written);
}

TEST(lines_end_at_words)
{
	assert_wrapped("", 0, 0, 30, "");
	assert_wrapped("it is full and refuses producers", 0, 0, 32, "it is full and refuses producers");
	assert_wrapped("it is full and refuses producers", 0, 0, 31, "it is full and refuses\nproducers");
	assert_wrapped("it is full and refuses producers", 9, 2, 31, "it is full and refuses\n  producers");
	assert_wrapped("it is full and refuses producers", 0, 0, SIZE_MAX, "it is full and refuses producers");
	assert_wrapped("one\ntwo three", 4, 4, 40, "one\n    two three");
	assert_wrapped("two three", 0, 15, 30, "two three");
	assert_wrapped("two three four five six seven", 0, 15, 30, "two three four five six seven");		/* too narrow for an indent */
}

TEST(words_stay_whole)
{
	assert_wrapped("the socket is /a/path/that/is/longer/than/the/line now", 0, 2, 30, "the socket is\n  /a/path/that/is/longer/than/the/line\n  now");
	assert_wrapped("/a/path/that/is/longer/than/the/line", 12, 2, 30, "\n  /a/path/that/is/longer/than/the/line");
	assert_wrapped("/a/path/that/is/longer/than/the/line", 2, 2, 30, "/a/path/that/is/longer/than/the/line");
}

/* An operator copies them: one that is broken would run its first half. */
TEST(commands_stay_whole)
{
	assert_wrapped("correct it; quredis doctor --fix: remove it", 0, 0, 30, "correct it;\nquredis doctor --fix: remove\nit");
	assert_wrapped("continue: quredis dlq retry mail --all --canary=50", 0, 0, 30, "continue:\nquredis dlq retry mail --all --canary=50");
	assert_wrapped("run redis-cli HDEL a b; quredis ls", 0, 0, 30, "run redis-cli HDEL a b;\nquredis ls");
	assert_wrapped("or quredis dlq rm a --cause 'x, y: z' --all, and then", 0, 0, 30, "or\nquredis dlq rm a --cause 'x, y: z' --all,\nand then");
	assert_wrapped("or quredis dlq rm a --cause 'it'\"'\"'s, y' --all, then", 0, 0, 30, "or\nquredis dlq rm a --cause 'it'\"'\"'s, y' --all,\nthen");
	assert_wrapped("quredisd and its log, and what it says", 0, 0, 30, "quredisd and its log, and what\nit says");
}

TEST(a_cell_breaks_long_words)
{
	assert_int_equal(wrap_cell("one two", 7), 7);
	assert_int_equal(wrap_cell("one two", 6), 3);
	assert_int_equal(wrap_cell("abcdefgh", 6), 6);
	assert_int_equal(wrap_cell("abcdefgh", 0), 1);
	assert_int_equal(wrap_cell("", 6), 0);
}

UNIT_MAIN(NULL, NULL)
