/* The codes of health: of the figures first, then of the holds. A queue's last report is read by these names. */
#include <string.h>

#include "sweeper/report/health.h"
#include "tests/unit/unit.h"

static int places_of(const char *code)
{
	int n = 0;

	for (int c = 0; c < HEALTH_CODES; c++)
		n += holds_code_name((enum health_code)c) != NULL && strcmp(holds_code_name((enum health_code)c), code) == 0;
	return n;
}

TEST(each_code_has_one_place)
{
	for (int c = 0; c < HEALTH_CODES; c++)
		if (holds_code_name((enum health_code)c) != NULL)
			assert_int_equal(places_of(holds_code_name((enum health_code)c)), 1);
	for (int c = 0; c < HEALTH_HOLDS; c++)
		assert_non_null(holds_code_name((enum health_code)c));
	for (int h = HOLD_NONE + 1; h < HOLDS; h++)
		assert_true(h == HOLD_THROTTLED ? holds_table[h].code == NULL : places_of(holds_table[h].code) == 1);
	assert_null(holds_code_name(HEALTH_HOLDS));
}

UNIT_MAIN(NULL, NULL)
