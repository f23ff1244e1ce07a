/* What failures have in common. */
#include <string.h>

#include "admin/dead_letters/cause.h"
#include "tests/unit/unit.h"

static void assert_line(const char *error, const char *expected)
{
	char out[CAUSE_SIZE];

	assert_string_equal(cause_describe("C", "", "", error, strlen(error), out), expected);
}

TEST(numbers_and_ids_are_left_out)
{
	assert_line("", "C");
	assert_line("order 1700 of 20260", "C: order # of #");
	assert_line("at 12:30:05.123", "C: at #");
	assert_line("on 2026-11-23T02:10:05Z", "C: on #T#Z");
	assert_line("id 6f1c2d3e-0000-4a5b-8c9d-123456789abc gone", "C: id # gone");
	assert_line("sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709", "C: sha1:#");
	assert_line("address 0x7ffe1234abcd, 0x1f", "C: address #, #");
	assert_line("10.0.0.17:25 refused", "C: # refused");
	assert_line("mail2 cannot", "C: mail2 cannot");
	assert_line("deadbeef and facade stay", "C: deadbeef and facade stay");
	assert_line("first\nsecond", "C: first");
	assert_line("tab\there", "C: tab here");
}

TEST(numbers_of_up_to_three_digits_tell_causes_apart)
{
	assert_line("HTTP 404", "C: HTTP 404");
	assert_line("HTTP 500: 503", "C: HTTP 500: 503");
	assert_line("550 5.7.1 rejected, line 1234", "C: 550 5.7.1 rejected, line #");
	assert_line("timeout after 30.5 s", "C: timeout after 30.5 s");
	assert_line("550-5.7.1 rejected", "C: 550-5.7.1 rejected");
	assert_line("7:", "C: 7:");
	assert_line("9", "C: 9");
}

TEST(a_shape_has_no_number_in_its_line)
{
	char shape[CAUSE_SIZE];

	cause_shape("HandlerExit exit 4: no such file: /data/102 (line #) of 5.7.1", shape);
	assert_string_equal(shape, "HandlerExit exit 4: no such file: /data/* (line *) of *");
	cause_shape("C: /data/#", shape);
	assert_string_equal(shape, "C: /data/*");
	cause_shape("C: /data/*", shape);
	assert_string_equal(shape, "C: /data/*");
	cause_shape("C: 7#7 of 7 8", shape);
	assert_string_equal(shape, "C: * of * *");
	cause_shape("HandlerExit exit 4", shape);
	assert_string_equal(shape, "HandlerExit exit 4");
	cause_shape("", shape);
	assert_string_equal(shape, "");
}

TEST(what_is_long_is_cut)
{
	char error[1000], out[CAUSE_SIZE];

	memset(error, 'x', sizeof(error));
	cause_describe("Class", "255", "SIGKILL", error, sizeof(error), out);
	assert_true(strlen(out) < CAUSE_SIZE);
	assert_memory_equal(out, "Class exit 255 SIGKILL: xxx", 27);
	for (size_t i = 0; i < sizeof(error); i += 4)
		memcpy(error + i, "123 ", 4);
	cause_describe("Class", "255", "SIGKILL", error, sizeof(error), out);
	assert_true(strlen(out) < CAUSE_SIZE);
}

UNIT_MAIN(NULL, NULL)
