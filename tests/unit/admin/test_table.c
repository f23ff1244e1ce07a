/* links: tests/unit/admin/output_fixture.c */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/nitems.h"
#include "tests/unit/admin/output_fixture.h"
#include "tests/unit/unit.h"

static const struct column columns[] = {
	{ "name", "Name", COLUMN_NAME }, { "n", "N", COLUMN_NUMBER }, { "hidden", NULL, COLUMN_NAME }, { NULL, "Shown", COLUMN_NAME },
};

static void put(struct output *o, const char *name, int64_t n, const char *shown)
{
	output_row(o, (struct cell[]){ cell_str(name), cell_int(n), cell_str("secret"), cell_str(shown) });
}

TEST(test_columns_line_up)
{
	struct output o = output_fixture_open(false, SIZE_MAX);

	output_begin(&o, columns, nitems(columns));
	put(&o, "a", 7, "x");
	put(&o, "longer", 12345, "yy");
	output_end(&o, true);
	output_fixture_check(&o, "  Name        N  Shown\n"
	    "  a           7  x\n"
	    "  longer  12345  yy\n");
}

TEST(test_no_rows)
{
	struct output o = output_fixture_open(false, SIZE_MAX);

	output_begin(&o, columns, nitems(columns));
	output_end(&o, true);
	output_fixture_check(&o, "  Name  N  Shown\n");
	o = output_fixture_open(false, SIZE_MAX);
	output_begin(&o, columns, nitems(columns));
	output_end(&o, false);
	output_fixture_check(&o, "");
}

TEST(test_the_widest_gives_way)
{
	struct output o = output_fixture_open(false, 30);

	output_begin(&o, columns, nitems(columns));
	put(&o, "abcd", 1, "0123456789012345678901234567890123456789");
	output_end(&o, true);
	output_fixture_check(&o, "  Name  N  Shown\n"
	    "  abcd  1  0123456789012345...\n");
}

TEST(test_narrow_terminals_keep_a_little)
{
	struct output o = output_fixture_open(false, 12);

	output_begin(&o, columns, nitems(columns));
	put(&o, "abcdefghij", 1, "0123456789");
	output_end(&o, true);
	output_fixture_check(&o, "  Name    N  Shown\n"
	    "  abc...  1  012...\n");
}

static void check_left_out(size_t width, const char *wanted)
{
	static const struct column yielding[] = {		/* the third has no title: it never took room */
		{ "name", "Name", COLUMN_NAME | YIELDS(3) }, { "n", "N", COLUMN_NUMBER | YIELDS(1) }, { "hidden", NULL, COLUMN_NAME | YIELDS(2) },
		{ NULL, "Shown", COLUMN_NAME },
	};
	struct output o = output_fixture_open(false, width);

	output_begin(&o, yielding, nitems(yielding));
	put(&o, "abcdefghij", 12345, "0123456789");
	put(&o, "k", 1, "l");
	output_end(&o, true);
	output_fixture_check(&o, wanted);
}

/* Whole columns go, in the order that was given, and only as many as have to. What stays is cut. */
TEST(test_columns_give_way)
{
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
TEST(test_wrapped_rows_go_on_below)
{
	struct output o = output_fixture_open(false, 30);

	o.wrap = true;
	output_begin(&o, columns, nitems(columns));
	put(&o, "one two three", 7, "a word, another, andalongone");
	put(&o, "x", 1, "y");
	output_end(&o, true);
	output_fixture_check(&o, "  Name         N  Shown\n"
	    "  one two      7  a word,\n"
	    "  three           another,\n"
	    "                  andalongone\n"
	    "  x            1  y\n");
}

/* ---- what makes room for what; the pictures are what an operator sees ---- */

static const struct column health[] = {
	{ NULL, "Queue", COLUMN_NAME }, { NULL, "Status", COLUMN_STATE }, { NULL, "Waiting", COLUMN_NUMBER | YIELDS(2) },
	{ NULL, "Stuck", COLUMN_NUMBER | YIELDS(1) }, { NULL, "Oldest", COLUMN_NUMBER }, { NULL, "Reason", COLUMN_TEXT },
};

static void put_health(struct output *o, const char *queue, const char *status, int64_t waiting, int64_t oldest_ms, const char *reason)
{
	output_row(o, (struct cell[]){ cell_str(queue), cell_str(status), cell_int(waiting), cell_int(0), oldest_ms < 0 ? cell_none() : cell_elapsed(oldest_ms),
	    cell_str(reason) });
}

static void check_health(size_t width, bool terminal, const char *wanted)
{
	struct output o = output_fixture_open(false, width);

	o.terminal = terminal;
	output_begin(&o, health, nitems(health));
	put_health(&o, "mail", "healthy", 0, -1, NULL);
	put_health(&o, "payment-reconciliation", "unhealthy", 12, -1, "24 of 24 attempts failed in the last 10m: 100.0 %, the limit is 70 %");
	output_end(&o, true);
	output_fixture_check(&o, wanted);
}

TEST(test_reasons_are_the_last_to_give_way)
{
	check_health(SIZE_MAX, false,
	    "  Queue                   Status     Waiting  Stuck  Oldest  Reason\n"
	    "  mail                    healthy          0      0       -  -\n"
	    "  payment-reconciliation  unhealthy       12      0       -  24 of 24 attempts failed in the last 10m: 100.0 %, the limit is 70 %\n");
	check_health(90, true,
	    "  Queue                   Status     Waiting  Stuck  Reason\n"
	    "  mail                    healthy          0      0  -\n"
	    "  payment-reconciliation  unhealthy       12      0  24 of 24 attempts failed in the last\n"
	    "                                                     10m: 100.0 %, the limit is 70 %\n");
	check_health(72, true,
	    "  Queue                   Status     Waiting  Reason\n"
	    "  mail                    healthy          0  -\n"
	    "  payment-reconciliation  unhealthy       12  24 of 24 attempts failed\n"
	    "                                              in the last 10m: 100.0 %,\n"
	    "                                              the limit is 70 %\n");
	check_health(60, true,
	    "  Queue                   Status     Waiting  Stuck\n"
	    "  mail                    healthy          0      0\n"
	    "  payment-reconciliation  unhealthy       12      0\n"
	    "    Reason: 24 of 24 attempts failed in the last 10m: 100.0\n"
	    "            %, the limit is 70 %\n");
	check_health(40, true,
	    "  Queue                   Status\n"
	    "  mail                    healthy\n"
	    "  payment-reconciliation  unhealthy\n"
	    "    Reason: 24 of 24 attempts failed in\n"
	    "            the last 10m: 100.0 %, the\n"
	    "            limit is 70 %\n"
	    "  no room for Waiting (--json has all)\n");
	check_health(30, true,
	    "  Queue              Status\n"
	    "  mail               healthy\n"
	    "  payment-reconc...  unhealthy\n"
	    "    Reason: 24 of 24 attempts\n"
	    "            failed in the last\n"
	    "            10m: 100.0 %, the\n"
	    "            limit is 70 %\n"
	    "  no room for Waiting (--json\n"
	    "  has all)\n");
}

/* Between two runs the operator compares figures, so whether they are shown does not depend on their values. */
TEST(test_figures_do_not_come_and_go)
{
	static const struct column figures[] = { { NULL, "Queue", COLUMN_NAME }, { NULL, "Waiting", COLUMN_FIGURE | YIELDS(3) },
		{ NULL, "Stuck", COLUMN_NUMBER | YIELDS(1) }, { NULL, "Oldest", COLUMN_FIGURE | YIELDS(2) } };
	struct output o = output_fixture_open(false, 26);

	o.terminal = true;
	output_begin(&o, figures, nitems(figures));
	output_row(&o, (struct cell[]){ cell_str("mail"), cell_int(0), cell_int(0), cell_none() });
	output_end(&o, true);
	output_fixture_check(&o, "  Queue  Waiting  Oldest\n"
	    "  mail         0       -\n");
}

/* Finds title and value behind this place of the text, and returns the place of the title. */
static char *find_column(char *in, const char *title, int64_t n)
{
	char value[32];

	assert_non_null(in = strstr(in, title));
	snprintf(value, sizeof(value), " %lld ", (long long)n);
	assert_true(n < 0 || strstr(in, value) != NULL);
	return in;
}

/* Each table has the counters and figures whose rows name it: title and value of each, in their order. */
TEST(test_figures_make_columns)
{
	static const unsigned tables[] = { IN_LS, IN_TOP, IN_HEALTH, IN_HEALTH_END, IN_NODES, IN_NODES_END, IN_NODES | IN_NODES_END,
		IN_STATUS, IN_STATUS_END, IN_STATS };
	size_t shown = 0;

	for (size_t t = 0; t < nitems(tables); t++) {
		const struct column of[] = { { NULL, "Queue", COLUMN_NAME }, { NULL, NULL, FIGURES_OF(tables[t]) }, { NULL, "Reason", COLUMN_TEXT } };
		struct output o = output_fixture_open(false, SIZE_MAX);
		struct facts f = facts_unknown();
		struct queue_figures counted = {0};
		char *text, *rest;

		for (int i = 0; i < COUNTERS; i++)
			counted.n[i] = 2000000 + (uint64_t)i;
		for (int i = 0; i < FACTS; i++)
			f.n[i] = facts_table[i].type == FACT_COUNT || facts_table[i].type == FACT_SOME ? 1000000 + i : -1;
		output_begin(&o, of, nitems(of));
		output_row(&o, (struct cell[]){ cell_str("mail"), cell_figures(&counted, &f), cell_str("why") });
		output_end(&o, true);
		rest = text = output_fixture_text(&o);
		for (int i = 0; i < COUNTERS; i++)
			if ((counters_table[i].in & tables[t]) != 0) {
				rest = find_column(rest, counters_table[i].title, (int64_t)counted.n[i]);
				shown++;
			}
		for (int i = 0; i < FACTS; i++)
			if ((facts_table[i].in & tables[t]) != 0) {
				rest = find_column(rest, facts_table[i].title, f.n[i]);
				shown++;
			}
		assert_non_null(rest = strstr(rest, "  Reason\n  mail"));
		assert_non_null(strstr(rest, "  why\n"));
		free(text);
	}
	for (int i = 0; i < FACTS; i++)
		assert_true(facts_table[i].in == 0 || facts_table[i].title != NULL);
	for (int i = 0; i < COUNTERS; i++)
		assert_true((counters_table[i].in == 0) == (counters_table[i].title == NULL));
	assert_true(shown > 30);
}

TEST(test_states_have_colours)
{
	struct output o = output_fixture_open(false, 60);

	o.terminal = o.colour = true;
	output_begin(&o, health, 2);
	put_health(&o, "running", "healthy", 0, -1, NULL);
	put_health(&o, "b", "unhealthy", 0, -1, NULL);
	put_health(&o, "c", "strange", 0, -1, NULL);
	output_end(&o, true);
	output_fixture_check(&o, "  \033[1mQueue\033[0m    \033[1mStatus\033[0m\n"
	    "  running  \033[32mhealthy\033[0m\n"
	    "  b        \033[1;31munhealthy\033[0m\n"
	    "  c        strange\n");
}

/* The first rows are written before the later ones are known. Then the table begins anew. */
TEST(test_a_column_that_is_empty_at_first)
{
	struct output o = output_fixture_open(false, 80);
	const char *second;
	char *text;

	o.terminal = true;
	output_begin(&o, columns, nitems(columns));
	for (int i = 0; i < 1500; i++)
		put(&o, "a", i, i == 1200 ? "x" : NULL);
	output_end(&o, true);
	text = output_fixture_text(&o);
	assert_true(strncmp(text, "  Name  N\n  a     0\n", 20) == 0 || strncmp(text, "  Name    N\n  a       0\n", 24) == 0);
	second = strstr(text, "  Name     N  Shown\n");
	assert_non_null(second);
	assert_non_null(strstr(second, "\n  a     1200  x\n"));
	assert_non_null(strstr(second, "\n  a     1201  -\n"));
	free(text);
}

TEST(test_long_texts_end_somewhere)
{
	static const struct column two[] = { { NULL, "Id", COLUMN_ID }, { NULL, "Error", COLUMN_TEXT } };
	struct output o = output_fixture_open(false, 40);
	char error[2001] = "", *text;
	size_t lines = 0;

	memset(error, 'e', sizeof(error) - 1);
	output_begin(&o, two, nitems(two));
	output_row(&o, (struct cell[]){ cell_str("1700000000000-0"), cell_str(error) });
	output_end(&o, true);
	text = output_fixture_text(&o);
	for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	assert_int_equal(lines, 2 + 8);
	assert_string_equal(text + strlen(text) - 4, "...\n");
	free(text);
}

/* A character may be three bytes, and two columns of a terminal. */
TEST(test_wide_characters_line_up)
{
	struct output o = output_fixture_open(false, 30);

	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	output_begin(&o, columns, nitems(columns));
	put(&o, "\u6f22\u5b57", 1, "\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22");
	put(&o, "\u00fc", 2, "y");
	output_end(&o, true);
	output_fixture_check(&o, "  Name  N  Shown\n"
	    "  \u6f22\u5b57  1  \u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22...\n"
	    "  \u00fc     2  y\n");
	setlocale(LC_CTYPE, "C");
}

TEST(test_ages)
{
	static const struct { int64_t ms; const char *text; } cases[] = {
		{ 0, "0s ago" }, { 999, "0s ago" }, { 119999, "119s ago" }, { 120000, "2m ago" }, { 200000, "3m ago" }, { 7199999, "119m ago" },
		{ 7200000, "2h ago" }, { 172799999, "47h ago" }, { 172800000, "2d ago" }, { -12000, "in 12s" }, { -7200000, "in 2h" },
		{ INT64_MAX, "106751991167d ago" }, { INT64_MIN, "in 106751991167d" },
	};
	struct output o = output_fixture_open(false, 80);
	struct cell at = cell_time(1700000000123), seen = cell_ago(3100);
	char ago[OUTPUT_AGO_SIZE], *shown[4];

	for (size_t i = 0; i < nitems(cases); i++)
		assert_string_equal(output_ago(cases[i].ms, ago), cases[i].text);
	shown[0] = output_text(&o, &at, SIZE_MAX);
	shown[1] = output_text(&o, &seen, SIZE_MAX);
	o.terminal = true;
	o.now_ms = 1700000180123;
	shown[2] = output_text(&o, &at, SIZE_MAX);
	shown[3] = output_text(&o, &seen, SIZE_MAX);
	assert_string_equal(shown[0], "2023-11-14T22:13:20.123Z");
	assert_string_equal(shown[1], "3.1s");
	assert_string_equal(shown[2], "3m ago");
	assert_string_equal(shown[3], "3s ago");
	for (size_t i = 0; i < nitems(shown); i++)
		free(shown[i]);
	free(output_fixture_text(&o));
}

TEST(test_many_rows)
{
	struct output o = output_fixture_open(false, SIZE_MAX);
	size_t lines = 0;
	char *text;

	output_begin(&o, columns, nitems(columns));
	for (int i = 0; i < 2500; i++)
		put(&o, i == 2400 ? "much longer than the others" : "a", i, "x");
	output_end(&o, true);
	text = output_fixture_text(&o);
	for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	assert_int_equal(lines, 2501);
	assert_non_null(strstr(text, "\n  a     2499  x\n"));
	assert_non_null(strstr(text, "\n  much longer than the others  2400  x\n"));
	free(text);
}

TEST(test_cells)
{
	static const struct { struct cell cell; const char *text; } cases[] = {
		{ { .type = CELL_NONE }, "-" }, { { .type = CELL_TEXT }, "-" }, { { .type = CELL_BOOL, .value = 1 }, "yes" },
		{ { .type = CELL_BYTES, .data = "a\0b", .len = 3 }, "a\\0b" },
		{ { .type = CELL_ELAPSED, .value = 7 }, "7ms" }, { { .type = CELL_ELAPSED, .value = 61500 }, "1m01s" },
		{ { .type = CELL_ELAPSED, .value = 1999 }, "1.9s" }, { { .type = CELL_ELAPSED, .value = 7260000 }, "2h01m" },
		{ { .type = CELL_ELAPSED, .value = 90000000 }, "1d01h" },
		{ { .type = CELL_TIME, .value = 1700000000123 }, "2023-11-14T22:13:20.123Z" },
	};

	for (size_t i = 0; i < nitems(cases); i++) {
		char *shown = cell_text(&cases[i].cell, SIZE_MAX);

		assert_string_equal(shown, cases[i].text);
		free(shown);
	}
}

TEST(test_json_rows)
{
	struct output o = output_fixture_open(true, SIZE_MAX);

	output_begin(&o, columns, nitems(columns));
	put(&o, "a\"b\n", 7, "x");
	output_row(&o, (struct cell[]){ cell_bytes("\377", 1), cell_none(), cell_bytes("x\0y", 3), cell_none() });
	output_end(&o, true);
	output_fixture_check(&o, "[\n{\"name\":\"a\\\"b\\n\",\"n\":7,\"hidden\":\"secret\"},\n"
	    "{\"name_base64\":\"/w==\",\"n\":null,\"hidden\":\"x\\u0000y\"}\n]\n");
}

TEST(test_json_of_nothing)
{
	for (int whole = 0; whole <= 1; whole++) {
		struct output o = output_fixture_open(true, SIZE_MAX);

		output_begin(&o, columns, nitems(columns));
		output_end(&o, whole);
		output_fixture_check(&o, whole ? "[]\n" : "");
	}
}

UNIT_MAIN(NULL, NULL)
