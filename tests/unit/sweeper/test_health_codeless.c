/* A hold may have no code of health: holds.h. The table here has such a hold, and the first one of a code behind it. */
#include <string.h>

#include "sweeper/report/health.h"
#include "tests/unit/unit.h"

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

TEST(a_hold_without_a_code_has_no_place)
{
	assert_null(holds_code_name((enum health_code)(HEALTH_HOLDS + HOLD_QUIET)));
	assert_string_equal(holds_code_name((enum health_code)(HEALTH_HOLDS + HOLD_DRAINING)), "draining");
	assert_null(holds_code_name((enum health_code)(HEALTH_HOLDS + HOLD_PAUSED)));
}

UNIT_MAIN(NULL, NULL)
