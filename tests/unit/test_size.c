/* links: common/size.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/nitems.h"
#include "common/size.h"

static void reads_each_unit(void **state)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} known[] = { { "0", 0 }, { "512", 512 }, { "64K", 65536 }, { "512M", 536870912 }, { "5G", INT64_C(5368709120) },
		{ "2T", INT64_C(2199023255552) }, { "9223372036854775807", INT64_MAX }, { "0K", 0 },
		{ "8388607T", INT64_C(8388607) << 40 } };
	int64_t bytes;

	(void)state;
	for (size_t i = 0; i < nitems(known); i++) {
		assert_int_equal(size_parse(known[i].text, &bytes), 0);
		assert_int_equal(bytes, known[i].bytes);
	}
}

static void refuses_anything_else(void **state)
{
	static const char *const bad[] = { "", "K", "64k", "64KB", "64KiB", "64 K", " 64K", "64K ", "-1", "+1", "1.5G", "0x10",
		"9223372036854775808", "8388608T", "99999999999999999999", "1P", "64K\n" };
	int64_t bytes = 42;

	(void)state;
	for (size_t i = 0; i < nitems(bad); i++)
		if (size_parse(bad[i], &bytes) != -1)
			fail_msg("\"%s\" was taken", bad[i]);
}

static void formats_shortest_and_exact(void **state)
{
	static const struct {
		int64_t bytes;
		const char *text;
	} known[] = { { 0, "0" }, { 1, "1" }, { 1023, "1023" }, { 1024, "1K" }, { 1536, "1536" }, { 65536, "64K" },
		{ INT64_C(1) << 20, "1M" }, { INT64_C(5) << 30, "5G" }, { INT64_C(1) << 40, "1T" },
		{ INT64_C(1) << 50, "1024T" }, { INT64_MAX, "9223372036854775807" } };
	char text[SIZE_SIZE];

	(void)state;
	for (size_t i = 0; i < nitems(known); i++)
		assert_string_equal(size_format(known[i].bytes, text), known[i].text);
}

static void formats_what_parses_again(void **state)
{
	char text[SIZE_SIZE];
	int64_t back;

	(void)state;
	for (int64_t bytes = 1; bytes > 0 && bytes < INT64_MAX / 7; bytes = bytes * 5 / 3 + 1) {
		assert_int_equal(size_parse(size_format(bytes, text), &back), 0);
		assert_int_equal(back, bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_each_unit),
		cmocka_unit_test(refuses_anything_else),
		cmocka_unit_test(formats_shortest_and_exact),
		cmocka_unit_test(formats_what_parses_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
