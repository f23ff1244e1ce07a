/* links: tests/unit/admin/output_fixture.c */
/* A command writes one object: a line for each member. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/nitems.h"
#include "tests/unit/admin/output_fixture.h"
#include "tests/unit/unit.h"

static const struct column columns[] = {
	{ "name", "Name", COLUMN_NAME }, { "n", "N", COLUMN_NUMBER }, { "hidden", NULL, COLUMN_NAME }, { NULL, "Shown", COLUMN_NAME },
};

TEST(an_object_has_a_line_for_each_member)
{
	struct cell cells[] = { cell_str("a"), cell_int(7), cell_bool(false), cell_elapsed(5000) };
	struct output o = output_fixture_open(false, SIZE_MAX);

	output_object(&o, columns, nitems(columns), cells);
	output_fixture_check(&o, "  Name   a\n  N      7\n  Shown  5.0s\n");
	o = output_fixture_open(true, SIZE_MAX);
	output_object(&o, columns, nitems(columns), cells);
	output_fixture_check(&o, "{\n  \"name\": \"a\",\n  \"n\": 7,\n  \"hidden\": false\n}\n");
}

/* As a traceback has them; what could control a terminal is shown, and nothing follows the last newline. */
TEST(lines_of_a_member_stand_below_each_other)
{
	static const struct column shown[] = { { "id", "id", COLUMN_NAME }, { "stderr", "stderr", COLUMN_LINES } };
	struct output o = output_fixture_open(false, SIZE_MAX);
	const char said[] = "Traceback:\n  at \33[1m1\n\nError\n";

	o.columns = shown;
	output_object(&o, shown, nitems(shown), (struct cell[]){ cell_str("a"), cell_bytes(said, strlen(said)) });
	output_fixture_check(&o, "  id      a\n"
	    "  stderr  Traceback:\n"
	    "            at \\033[1m1\n"
	    "          \n"
	    "          Error\n");
	o = output_fixture_open(false, SIZE_MAX);
	output_object(&o, shown, nitems(shown), (struct cell[]){ cell_str("a"), cell_bytes("", 0) });
	output_fixture_check(&o, "  id      a\n  stderr  \n");
}

UNIT_MAIN(NULL, NULL)
