#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

/* cmocka.h needs three of these. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/*
 * TEST(name) { ... } is a test of the program. Behind the name may stand what runs before it, what runs after it, and
 * what *state is at first: TEST(name, setup, teardown, &state). UNIT_MAIN(setup, teardown) is the main() that runs the
 * tests of the file in their order, between the two.
 */
#define TEST(function, ...) \
	static void function(void **state); \
	__attribute__((constructor)) static void add_##function(void) \
	{ \
		unit_add((struct CMUnitTest){ .name = #function, .test_func = function, ##__VA_ARGS__ }); \
	} \
	static void function(void **state __attribute__((unused)))

#define UNIT_MAIN(setup, teardown) \
	int main(void) \
	{ \
		return unit_run(setup, teardown); \
	}

#define UNIT_TESTS_MAX 128

static struct CMUnitTest unit_tests[UNIT_TESTS_MAX];
static size_t unit_count;

static inline void unit_add(struct CMUnitTest test)
{
	if (unit_count == UNIT_TESTS_MAX)
		abort();
	unit_tests[unit_count++] = test;
}

static inline int unit_run(CMFixtureFunction before, CMFixtureFunction after)
{
	return _cmocka_run_group_tests("tests", unit_tests, unit_count, before, after);
}

#endif
