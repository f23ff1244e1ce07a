#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "admin/cli/output.h"

#include "common/base/nitems.h"

static const struct column columns[] = {
	{ "name", "Name", false }, { "n", "N", true }, { "hidden", NULL, false }, { NULL, "Shown", false },
};

/* What is written between open() and text_of(). */
static char *text;
static size_t size;

static struct output open_output(bool json, size_t width)
{
	struct output o;

	output_init(&o, stdout, json, COLOUR_NEVER);
	o.file = open_memstream(&text, &size);
	assert_non_null(o.file);
	o.width = width;
	return o;
}

static void check_text(struct output *o, const char *wanted)
{
	fclose(o->file);
	assert_string_equal(text, wanted);
	free(text);
}

static void put(struct output *o, const char *name, int64_t n, const char *shown)
{
	output_row(o, (struct cell[]){ cell_str(name), cell_int(n), cell_str("secret"), cell_str(shown) });
}

static void test_columns_line_up(void **state)
{
	struct output o = open_output(false, SIZE_MAX);

	(void)state;
	output_begin(&o, columns, nitems(columns));
	put(&o, "a", 7, "x");
	put(&o, "longer", 12345, "yy");
	output_end(&o, true);
	check_text(&o, "  Name        N  Shown\n"
		       "  a           7  x\n"
		       "  longer  12345  yy\n");
}

static void test_no_rows(void **state)
{
	struct output o = open_output(false, SIZE_MAX);

	(void)state;
	output_begin(&o, columns, nitems(columns));
	output_end(&o, true);
	check_text(&o, "  Name  N  Shown\n");
	o = open_output(false, SIZE_MAX);
	output_begin(&o, columns, nitems(columns));
	output_end(&o, false);
	check_text(&o, "");
}

static void test_the_widest_gives_way(void **state)
{
	struct output o = open_output(false, 30);

	(void)state;
	output_begin(&o, columns, nitems(columns));
	put(&o, "abcd", 1, "0123456789012345678901234567890123456789");
	output_end(&o, true);
	check_text(&o, "  Name  N  Shown\n"
		       "  abcd  1  0123456789012345...\n");
}

static void test_narrow_terminals_keep_a_little(void **state)
{
	struct output o = open_output(false, 12);

	(void)state;
	output_begin(&o, columns, nitems(columns));
	put(&o, "abcdefghij", 1, "0123456789");
	output_end(&o, true);
	check_text(&o, "  Name    N  Shown\n"
		       "  abc...  1  012...\n");
}

static void check_left_out(size_t width, const char *wanted)
{
	static const int give_way[] = { 1, 2, 0, -1 };		/* the second has no title: it never took room */
	struct output o = open_output(false, width);

	o.give_way = give_way;
	output_begin(&o, columns, nitems(columns));
	put(&o, "abcdefghij", 12345, "0123456789");
	put(&o, "k", 1, "l");
	output_end(&o, true);
	check_text(&o, wanted);
}

/* Whole columns go, in the order that was given, and only as many as have to. What stays is cut. */
static void test_columns_give_way(void **state)
{
	(void)state;
	check_left_out(31, "  Name            N  Shown\n"
			   "  abcdefghij  12345  0123456789\n"
			   "  k               1  l\n");
	check_left_out(30, "  Name        Shown\n"
			   "  abcdefghij  0123456789\n"
			   "  k           l\n");
	check_left_out(23, "  Shown\n"
			   "  0123456789\n"
			   "  l\n");
	check_left_out(10, "  Shown\n"
			   "  01234...\n"
			   "  l\n");
}

/* More rows than are held back: later ones keep the columns of the first, as far as they fit. */
static void test_wrapped_rows_go_on_below(void **state)
{
	struct output o = open_output(false, 30);

	(void)state;
	o.wrap = true;
	output_begin(&o, columns, nitems(columns));
	put(&o, "one two three", 7, "a word, another, andalongone");
	put(&o, "x", 1, "y");
	output_end(&o, true);
	check_text(&o, "  Name         N  Shown\n"
		       "  one two      7  a word,\n"
		       "  three           another,\n"
		       "                  andalongone\n"
		       "  x            1  y\n");
}

static void test_many_rows(void **state)
{
	struct output o = open_output(false, SIZE_MAX);
	size_t lines = 0;

	(void)state;
	output_begin(&o, columns, nitems(columns));
	for (int i = 0; i < 2500; i++)
		put(&o, i == 2400 ? "much longer than the others" : "a", i, "x");
	output_end(&o, true);
	fclose(o.file);
	for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	assert_int_equal(lines, 2501);
	assert_non_null(strstr(text, "\n  a     2499  x\n"));
	assert_non_null(strstr(text, "\n  much longer than the others  2400  x\n"));
	free(text);
}

static void test_cells(void **state)
{
	static const struct { struct cell cell; const char *text; } cases[] = {
		{ { .type = CELL_NONE }, "-" }, { { .type = CELL_TEXT }, "-" }, { { .type = CELL_BOOL, .value = 1 }, "yes" },
		{ { .type = CELL_BYTES, .data = "a\0b", .len = 3 }, "a\\0b" },
		{ { .type = CELL_ELAPSED, .value = 7 }, "7ms" }, { { .type = CELL_ELAPSED, .value = 61500 }, "1m01s" },
		{ { .type = CELL_ELAPSED, .value = 1999 }, "1.9s" }, { { .type = CELL_ELAPSED, .value = 7260000 }, "2h01m" },
		{ { .type = CELL_ELAPSED, .value = 90000000 }, "1d01h" },
		{ { .type = CELL_TIME, .value = 1700000000123 }, "2023-11-14T22:13:20.123Z" },
	};

	(void)state;
	for (size_t i = 0; i < nitems(cases); i++) {
		char *shown = cell_text(&cases[i].cell, SIZE_MAX);

		assert_string_equal(shown, cases[i].text);
		free(shown);
	}
}

static void test_json_rows(void **state)
{
	struct output o = open_output(true, SIZE_MAX);

	(void)state;
	output_begin(&o, columns, nitems(columns));
	put(&o, "a\"b\n", 7, "x");
	output_row(&o, (struct cell[]){ cell_bytes("\377", 1), cell_none(), cell_bytes("x\0y", 3), cell_none() });
	output_end(&o, true);
	check_text(&o, "[\n{\"name\":\"a\\\"b\\n\",\"n\":7,\"hidden\":\"secret\"},\n"
		       "{\"name_base64\":\"/w==\",\"n\":null,\"hidden\":\"x\\u0000y\"}\n]\n");
}

static void test_json_of_nothing(void **state)
{
	struct output o = open_output(true, SIZE_MAX);

	(void)state;
	output_begin(&o, columns, nitems(columns));
	output_end(&o, true);
	check_text(&o, "[]\n");
	o = open_output(true, SIZE_MAX);
	output_begin(&o, columns, nitems(columns));
	output_end(&o, false);
	check_text(&o, "");
}

static void test_objects(void **state)
{
	struct cell cells[] = { cell_str("a"), cell_int(7), cell_bool(false), cell_elapsed(5000) };
	struct output o = open_output(false, SIZE_MAX);

	(void)state;
	output_object(&o, columns, nitems(columns), cells);
	check_text(&o, "  Name   a\n  N      7\n  Shown  5.0s\n");
	o = open_output(true, SIZE_MAX);
	output_object(&o, columns, nitems(columns), cells);
	check_text(&o, "{\n  \"name\": \"a\",\n  \"n\": 7,\n  \"hidden\": false\n}\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_columns_line_up),
		cmocka_unit_test(test_no_rows),
		cmocka_unit_test(test_the_widest_gives_way),
		cmocka_unit_test(test_narrow_terminals_keep_a_little),
		cmocka_unit_test(test_columns_give_way),
		cmocka_unit_test(test_wrapped_rows_go_on_below),
		cmocka_unit_test(test_many_rows),
		cmocka_unit_test(test_cells),
		cmocka_unit_test(test_json_rows),
		cmocka_unit_test(test_json_of_nothing),
		cmocka_unit_test(test_objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
