#ifndef TESTS_UNIT_ADMIN_OUTPUT_FIXTURE_H
#define TESTS_UNIT_ADMIN_OUTPUT_FIXTURE_H

#include "admin/cli/output.h"

/* An output into memory. width: columns of the terminal. output_fixture_text() and output_fixture_check() close it. */
struct output output_fixture_open(bool json, size_t width);
char *output_fixture_text(struct output *o);				/* all that was written: a new string */
void output_fixture_check(struct output *o, const char *wanted);	/* exactly this was written */

#endif
