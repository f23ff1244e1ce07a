/* The codes of health: of the figures first, then of the holds. A queue's last report is read by these names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sweeper/report/health.h"

static int places_of(const char *code)
{
	int n = 0;

	for (int c = 0; c < HEALTH_CODES; c++)
		n += health_codes_name((enum health_code)c) != NULL && strcmp(health_codes_name((enum health_code)c), code) == 0;
	return n;
}

static void each_code_has_one_place(void **state)
{
	(void)state;
	for (int c = 0; c < HEALTH_CODES; c++)
		if (health_codes_name((enum health_code)c) != NULL)
			assert_int_equal(places_of(health_codes_name((enum health_code)c)), 1);
	for (int c = 0; c < HEALTH_HOLDS; c++)
		assert_non_null(health_codes_name((enum health_code)c));
	for (int h = HOLD_NONE + 1; h < HOLDS; h++)
		assert_int_equal(places_of(holds_table[h].code), 1);
	assert_null(health_codes_name(HEALTH_HOLDS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_code_has_one_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
