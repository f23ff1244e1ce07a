/* Durations and sizes: what is accepted, with which value, and how it is written. */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/nitems.h"
#include "common/base/put.h"
#include "common/base/units.h"
#include "tests/unit/unit.h"

TEST(numbers_are_put_without_printf)
{
	static const int64_t numbers[] = { 0, 9, 10, 99, 100, 1700000000123, INT64_MAX, -1, -10, INT64_MIN };
	char text[1 + PUT_NUMBER_MAX + 1], printed[sizeof(text)];

	for (size_t i = 0; i < nitems(numbers); i++) {
		*put_signed(text, numbers[i]) = '\0';
		snprintf(printed, sizeof(printed), "%" PRId64, numbers[i]);
		assert_string_equal(text, printed);
	}
	*put_number(text, UINT64_MAX) = '\0';
	assert_string_equal(text, "18446744073709551615");
}

TEST(bytes_are_put_as_hexadecimal_digits)
{
	char text[] = "xxxxxxxxxx";

	assert_ptr_equal(put_hex(text, "\0\x0f\x9a\xff", 4), text + 8);
	assert_string_equal(text, "000f9affxx");
}

TEST(duration_reads_each_unit)
{
	static const struct {
		const char *text;
		int64_t ms;
	} known[] = { { "0s", 0 }, { "0ms", 0 }, { "250ms", 250 }, { "30s", 30000 }, { "5m", 300000 }, { "1h", 3600000 },
		{ "7d", 604800000 }, { "007s", 7000 }, { "9223372036854775807ms", INT64_MAX },
		{ "106751991167d", INT64_C(106751991167) * 86400000 }, { "1h30m", 5400000 }, { "1d2h3m4s5ms", 93784005 }, { "2.5s", 2500 },
		{ "19m07s", 1147000 },
		{ "3d04h", 273600000 }, { "1m0.1s", 60100 } };
	int64_t ms;

	for (size_t i = 0; i < nitems(known); i++) {
		assert_int_equal(units_parse_duration(known[i].text, &ms), 0);
		assert_int_equal(ms, known[i].ms);
	}
}

TEST(duration_refuses_anything_else)
{
	static const char *const bad[] = { "", "s", "30", "30 s", " 30s", "30s ", "-1s", "+1s", "1.55s", "1.s", ".5s", "1.5m", "1.5ms", "1.5s1ms", "1S", "1sec",
		"1m1m", "30s1m", "1m30", "1h 30m", "106751991167d9000000h", "9223372036854775807ms1ms",
		"1w", "ms", "0x1s", "9223372036854775808ms", "106751991168d", "99999999999999999999s", "1s\n" };
	int64_t ms = 42;

	for (size_t i = 0; i < nitems(bad); i++)
		if (units_parse_duration(bad[i], &ms) != -1)
			fail_msg("\"%s\" was taken", bad[i]);
}

TEST(duration_formats_shortest_and_exact)
{
	static const struct {
		int64_t ms;
		const char *text;
	} known[] = { { 0, "0s" }, { 1, "1ms" }, { 999, "999ms" }, { 1000, "1s" }, { 1500, "1500ms" }, { 60000, "1m" },
		{ 90000, "90s" }, { 3600000, "1h" }, { 86400000, "1d" }, { 7 * INT64_C(86400000), "7d" },
		{ INT64_MAX, "9223372036854775807ms" } };
	char text[UNITS_SIZE];

	for (size_t i = 0; i < nitems(known); i++)
		assert_string_equal(units_format_duration(known[i].ms, text), known[i].text);
}

/* What an operator reads can be typed: less exact, but never refused. */
TEST(duration_reads_what_is_printed_for_people)
{
	char text[UNITS_SIZE];
	int64_t back;

	for (int64_t ms = 1; ms > 0 && ms < INT64_MAX / 7; ms = ms * 5 / 3 + 1) {
		assert_int_equal(units_parse_duration(units_elapsed(ms, text), &back), 0);
		assert_true(back <= ms && ms - back <= ms / 10);
	}
}

TEST(duration_formats_what_parses_again)
{
	char text[UNITS_SIZE];
	int64_t back;

	for (int64_t ms = 1; ms > 0 && ms < INT64_MAX / 7; ms = ms * 5 / 3 + 1) {
		assert_int_equal(units_parse_duration(units_format_duration(ms, text), &back), 0);
		assert_int_equal(back, ms);
	}
}

TEST(elapsed_has_two_units)
{
	static const struct {
		int64_t ms;
		const char *text;
	} known[] = { { -5, "0ms" }, { 999, "999ms" }, { 1000, "1.0s" }, { 59999, "59.9s" }, { 60000, "1m00s" }, { 1147000, "19m07s" },
		{ 3599999, "59m59s" }, { 5 * 3600000, "5h00m" }, { 86399999, "23h59m" }, { 76 * INT64_C(3600000), "3d04h" },
		{ INT64_MAX, "106751991167d07h" } };
	char text[UNITS_SIZE];

	for (size_t i = 0; i < nitems(known); i++)
		assert_string_equal(units_elapsed(known[i].ms, text), known[i].text);
}

TEST(size_reads_each_unit)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} known[] = { { "0", 0 }, { "512", 512 }, { "64K", 65536 }, { "512M", 536870912 }, { "5G", INT64_C(5368709120) },
		{ "2T", INT64_C(2199023255552) }, { "9223372036854775807", INT64_MAX }, { "0K", 0 },
		{ "8388607T", INT64_C(8388607) << 40 } };
	int64_t bytes;

	for (size_t i = 0; i < nitems(known); i++) {
		assert_int_equal(units_parse_size(known[i].text, &bytes), 0);
		assert_int_equal(bytes, known[i].bytes);
	}
}

TEST(size_refuses_anything_else)
{
	static const char *const bad[] = { "", "K", "64k", "64KB", "64KiB", "64 K", " 64K", "64K ", "-1", "+1", "1.5G", "0x10",
		"9223372036854775808", "8388608T", "99999999999999999999", "1P", "64K\n" };
	int64_t bytes = 42;

	for (size_t i = 0; i < nitems(bad); i++)
		if (units_parse_size(bad[i], &bytes) != -1)
			fail_msg("\"%s\" was taken", bad[i]);
}

TEST(size_formats_shortest_and_exact)
{
	static const struct {
		int64_t bytes;
		const char *text;
	} known[] = { { 0, "0" }, { 1, "1" }, { 1023, "1023" }, { 1024, "1K" }, { 1536, "1536" }, { 65536, "64K" },
		{ INT64_C(1) << 20, "1M" }, { INT64_C(5) << 30, "5G" }, { INT64_C(1) << 40, "1T" },
		{ INT64_C(1) << 50, "1024T" }, { INT64_MAX, "9223372036854775807" } };
	char text[UNITS_SIZE];

	for (size_t i = 0; i < nitems(known); i++)
		assert_string_equal(units_format_size(known[i].bytes, text), known[i].text);
}

TEST(size_formats_what_parses_again)
{
	char text[UNITS_SIZE];
	int64_t back;

	for (int64_t bytes = 1; bytes > 0 && bytes < INT64_MAX / 7; bytes = bytes * 5 / 3 + 1) {
		assert_int_equal(units_parse_size(units_format_size(bytes, text), &back), 0);
		assert_int_equal(back, bytes);
	}
}

UNIT_MAIN(NULL, NULL)
