#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/encode.h"
#include "admin/cli/visible.h"
#include "tests/unit/unit.h"

static void check(const char *data, size_t len, size_t max, const char *wanted)
{
	char *text = visible(data, len, max);

	assert_string_equal(text, wanted);
	free(text);
}

TEST(test_plain_text_stays)
{
	check("", 0, SIZE_MAX, "");
	check("hello world", 11, SIZE_MAX, "hello world");
	check("a\"'%n", 5, SIZE_MAX, "a\"'%n");
}

TEST(test_control_bytes_are_shown)
{
	check("\n\t\r\033\177", 5, SIZE_MAX, "\\n\\t\\r\\033\\177");
	check("a\\nb", 4, SIZE_MAX, "a\\\\nb");
	check("\0", 1, SIZE_MAX, "\\0");
	check("\0" "7", 2, SIZE_MAX, "\\0007");	/* not to be read as \07 */
}

TEST(test_every_byte_is_printable)
{
	char all[256], *text;

	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	text = visible(all, sizeof(all), SIZE_MAX);
	for (const char *p = text; *p != '\0'; p++)
		assert_true(*p >= ' ' && *p <= '~');
	free(text);
}

TEST(test_utf8)
{
	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	check("gr\303\274n", 5, SIZE_MAX, "gr\303\274n");
	check("\303", 1, SIZE_MAX, "\\303");			/* cut short */
	check("\303\303\274", 3, SIZE_MAX, "\\303\303\274");
	check("\302\233" "31m", 5, SIZE_MAX, "\\302\\23331m");	/* a control character in UTF-8 */
	check("\342\200\256", 3, SIZE_MAX, "\\342\\200\\256");	/* turns the line around */
	check("e\314\201", 3, SIZE_MAX, "e\\314\\201");		/* takes no room */
	assert_int_equal(visible_columns("gr\303\274n"), 4);
	assert_int_equal(visible_columns("\346\274\242"), 2);
	setlocale(LC_CTYPE, "C");
	check("\303\274", 2, SIZE_MAX, "\\303\\274");
}

TEST(test_cut)
{
	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	check("abcdefgh", 8, 8, "abcdefgh");
	check("abcdefgh", 8, 7, "abcd...");
	check("abcdefgh", 8, 3, "...");
	check("abcdefgh", 8, 2, "..");
	check("abcdefgh", 8, 0, "");
	check("\346\274\242\346\274\242\346\274\242", 9, 6, "\346\274\242\346\274\242\346\274\242");
	check("\346\274\242\346\274\242\346\274\242", 9, 5, "\346\274\242...");
	check("\346\274\242\346\274\242\346\274\242", 9, 4, "...");	/* half a character is none */
	setlocale(LC_CTYPE, "C");
}

TEST(test_cut_never_exceeds)
{
	char data[64], *text;

	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	for (unsigned seed = 1; seed < 3000; seed++) {
		unsigned x = seed;

		for (size_t i = 0; i < sizeof(data); i++) {
			x = x * 1664525 + 1013904223;
			data[i] = (x & 0x300000) == 0 ? "\346\274\242\303\274\033"[i % 6] : (char)(x >> 24);
		}
		for (size_t max = 0; max < 20; max++) {
			text = visible(data, sizeof(data), max);
			assert_true(visible_columns(text) <= max);
			free(text);
		}
	}
	setlocale(LC_CTYPE, "C");
}

/* What is visible already stays as it is. */
TEST(test_line)
{
	char *text;

	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	text = visible_line("no queue a\\nb (\033[2J\302\233m\n gr\303\274n)");

	setlocale(LC_CTYPE, "C");
	assert_string_equal(text, "no queue a\\nb (\\033[2J\\302\\233m\\n gr\303\274n)");
	free(text);
	text = visible_line("");
	assert_string_equal(text, "");
	free(text);
}

TEST(test_base64)
{
	static const char *const pairs[][2] = { { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" }, { "\377\376\375", "//79" } };

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		char *text = encode_base64(pairs[i][0], strlen(pairs[i][0]));
		size_t size;
		char *bytes = encode_base64_undo(pairs[i][1], strlen(pairs[i][1]), &size);

		assert_string_equal(text, pairs[i][1]);
		assert_int_equal(size, strlen(pairs[i][0]));
		assert_memory_equal(bytes, pairs[i][0], size);
		free(bytes);
		free(text);
	}
}

TEST(test_no_base64)
{
	static const char *const texts[] = { "Z", "Zg", "Zg=", "Zm9v=", "Zm9vY", "%%", "Zm9v\377" };
	size_t size;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_null(encode_base64_undo(texts[i], strlen(texts[i]), &size));
}

UNIT_MAIN(NULL, NULL)
