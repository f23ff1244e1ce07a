#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/encode.h"
#include "admin/cli/visible.h"

static void check(const char *data, size_t len, size_t max, const char *wanted)
{
	char *text = visible(data, len, max);

	assert_string_equal(text, wanted);
	free(text);
}

static void test_plain_text_stays(void **state)
{
	(void)state;
	check("", 0, SIZE_MAX, "");
	check("hello world", 11, SIZE_MAX, "hello world");
	check("a\"'%n", 5, SIZE_MAX, "a\"'%n");
}

static void test_control_bytes_are_shown(void **state)
{
	(void)state;
	check("\n\t\r\033\177", 5, SIZE_MAX, "\\n\\t\\r\\033\\177");
	check("a\\nb", 4, SIZE_MAX, "a\\\\nb");
	check("\0", 1, SIZE_MAX, "\\0");
	check("\0" "7", 2, SIZE_MAX, "\\0007");	/* not to be read as \07 */
}

static void test_every_byte_is_printable(void **state)
{
	char all[256], *text;

	(void)state;
	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	text = visible(all, sizeof(all), SIZE_MAX);
	for (const char *p = text; *p != '\0'; p++)
		assert_true(*p >= ' ' && *p <= '~');
	free(text);
}

static void test_utf8(void **state)
{
	(void)state;
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

static void test_cut(void **state)
{
	(void)state;
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

static void test_cut_never_exceeds(void **state)
{
	char data[64], *text;

	(void)state;
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
static void test_line(void **state)
{
	char *text;

	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	text = visible_line("no queue a\\nb (\033[2J\302\233m\n gr\303\274n)");

	setlocale(LC_CTYPE, "C");
	(void)state;
	assert_string_equal(text, "no queue a\\nb (\\033[2J\\302\\233m\\n gr\303\274n)");
	free(text);
	text = visible_line("");
	assert_string_equal(text, "");
	free(text);
}

static void test_base64(void **state)
{
	static const char *const pairs[][2] = { { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" }, { "\377\376\375", "//79" } };

	(void)state;
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

static void test_no_base64(void **state)
{
	static const char *const texts[] = { "Z", "Zg", "Zg=", "Zm9v=", "Zm9vY", "%%", "Zm9v\377" };
	size_t size;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_null(encode_base64_undo(texts[i], strlen(texts[i]), &size));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_text_stays),
		cmocka_unit_test(test_control_bytes_are_shown),
		cmocka_unit_test(test_every_byte_is_printable),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_cut_never_exceeds),
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_base64),
		cmocka_unit_test(test_no_base64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
