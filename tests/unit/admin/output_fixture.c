/* An output that writes into memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/admin/output_fixture.h"

static char *text;		/* of the output that is open */
static size_t size;

struct output output_fixture_open(bool json, size_t width)
{
	struct output o;

	output_init(&o, stdout, json, COLOUR_NEVER);
	o.file = open_memstream(&text, &size);
	assert_non_null(o.file);
	o.width = width;
	return o;
}

char *output_fixture_text(struct output *o)
{
	fclose(o->file);
	return text;
}

void output_fixture_check(struct output *o, const char *wanted)
{
	char *written = output_fixture_text(o);

	assert_string_equal(written, wanted);
	free(written);
}
