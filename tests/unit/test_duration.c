/* links: common/duration.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/duration.h"
#include "common/nitems.h"

static void reads_each_unit(void **state)
{
	static const struct {
		const char *text;
		int64_t ms;
	} known[] = { { "0s", 0 }, { "0ms", 0 }, { "250ms", 250 }, { "30s", 30000 }, { "5m", 300000 }, { "1h", 3600000 },
		{ "7d", 604800000 }, { "007s", 7000 }, { "9223372036854775807ms", INT64_MAX },
		{ "106751991167d", INT64_C(106751991167) * 86400000 } };
	int64_t ms;

	(void)state;
	for (size_t i = 0; i < nitems(known); i++) {
		assert_int_equal(duration_parse(known[i].text, &ms), 0);
		assert_int_equal(ms, known[i].ms);
	}
}

static void refuses_anything_else(void **state)
{
	static const char *const bad[] = { "", "s", "30", "30 s", " 30s", "30s ", "-1s", "+1s", "1.5s", "1S", "1sec", "1m30s",
		"1w", "ms", "0x1s", "9223372036854775808ms", "106751991168d", "99999999999999999999s", "1s\n" };
	int64_t ms = 42;

	(void)state;
	for (size_t i = 0; i < nitems(bad); i++)
		if (duration_parse(bad[i], &ms) != -1)
			fail_msg("\"%s\" was taken", bad[i]);
}

static void formats_shortest_and_exact(void **state)
{
	static const struct {
		int64_t ms;
		const char *text;
	} known[] = { { 0, "0s" }, { 1, "1ms" }, { 999, "999ms" }, { 1000, "1s" }, { 1500, "1500ms" }, { 60000, "1m" },
		{ 90000, "90s" }, { 3600000, "1h" }, { 86400000, "1d" }, { 7 * INT64_C(86400000), "7d" },
		{ INT64_MAX, "9223372036854775807ms" } };
	char text[DURATION_SIZE];

	(void)state;
	for (size_t i = 0; i < nitems(known); i++)
		assert_string_equal(duration_format(known[i].ms, text), known[i].text);
}

static void formats_what_parses_again(void **state)
{
	char text[DURATION_SIZE];
	int64_t back;

	(void)state;
	for (int64_t ms = 1; ms > 0 && ms < INT64_MAX / 7; ms = ms * 5 / 3 + 1) {
		assert_int_equal(duration_parse(duration_format(ms, text), &back), 0);
		assert_int_equal(back, ms);
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
