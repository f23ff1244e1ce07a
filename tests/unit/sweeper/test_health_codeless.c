/* A hold may have no code of health: holds.h. The table here has such a hold, and the first one of a code behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sweeper/report/health.h"

const char *const hold_level_names[HOLD_LEVELS];
const struct hold_words holds_table[HOLDS] = { [HOLD_DRAINING] = { .code = "draining" }, [HOLD_PAUSED] = { .code = "draining" } };

bool holds_end_by_themselves(enum hold hold)
{
	return hold == HOLDS;
}

enum hold holds_by_name(const char *name)
{
	return name == NULL ? HOLDS : HOLD_NONE;
}

static void a_hold_without_a_code_has_no_place(void **state)
{
	(void)state;
	assert_null(health_codes_name((enum health_code)(HEALTH_HOLDS + HOLD_QUIET)));
	assert_string_equal(health_codes_name((enum health_code)(HEALTH_HOLDS + HOLD_DRAINING)), "draining");
	assert_null(health_codes_name((enum health_code)(HEALTH_HOLDS + HOLD_PAUSED)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hold_without_a_code_has_no_place),
	};

	return cmocka_run_group_tests_name("health_codeless", tests, NULL, NULL);
}
