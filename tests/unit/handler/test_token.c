/* The serials that handlers see: their form, and that nobody can guess them. */
#include <stdlib.h>
#include <string.h>

#include "common/handler/token.h"
#include "tests/unit/unit.h"

#define DRAWN 20000

static struct token_source source;

static uint64_t drawn(void)
{
	struct token token;
	char text[HANDLER_TOKEN_LEN + 1] = "", *end;
	uint64_t n;

	token_draw(&source, &token);
	memcpy(text, token.text, sizeof(token.text));
	n = strtoull(text, &end, 10);
	assert_int_equal(*end, '\0');
	return n;
}

/* Each language that computes with doubles keeps it exact, and prints it as it was. */
TEST(are_exact_in_every_language)
{
	for (int i = 0; i < DRAWN; i++) {
		uint64_t n = drawn();

		assert_in_range(n, 1000000000000000, 8999999999999999);
		assert_true((uint64_t)(double)n == n && n < UINT64_C(1) << 53);
	}
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

TEST(are_different)
{
	static uint64_t all[DRAWN];

	for (int i = 0; i < DRAWN; i++)
		all[i] = drawn();
	qsort(all, DRAWN, sizeof(all[0]), by_size);
	for (int i = 1; i < DRAWN; i++)
		assert_true(all[i] != all[i - 1]);
}

/* At each place behind the first every digit comes as often, within six standard deviations of 2000 in 20000. */
TEST(have_every_digit_at_every_place)
{
	int seen[HANDLER_TOKEN_LEN][10] = {{0}};
	struct token token;

	for (int i = 0; i < DRAWN; i++) {
		token_draw(&source, &token);
		for (int at = 0; at < HANDLER_TOKEN_LEN; at++)
			seen[at][token.text[at] - '0']++;
	}
	assert_int_equal(seen[0][0] + seen[0][9], 0);
	for (int at = 1; at < HANDLER_TOKEN_LEN; at++)
		for (int digit = 0; digit < 10; digit++)
			assert_in_range(seen[at][digit], DRAWN / 10 - 255, DRAWN / 10 + 255);
}

UNIT_MAIN(NULL, NULL)
