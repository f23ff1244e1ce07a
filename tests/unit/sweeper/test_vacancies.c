
/* Since when entries of the registry have nothing behind them, as a sweeper remembers it: no sleeping, times are given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sweeper/registry/unused_entries.h"

#define GAP 60

static struct registered entry(const char *name, const char *score, const char *json)
{
	return (struct registered){ .name = (char *)(uintptr_t)name, .score = (char *)(uintptr_t)score, .json = (char *)(uintptr_t)json };
}

static int64_t since(struct unused_entries *v, const char *name, const char *score, const char *json, int64_t now_ms)
{
	struct registered e = entry(name, score, json);
	struct unused_entry *known = unused_entries_note(v, &e, GAP, now_ms);

	return known == NULL ? -1 : known->since_ms;
}

static void the_same_entry_grows_older(void **state)
{
	struct unused_entries v = {0};

	(void)state;
	assert_int_equal(since(&v, "a", "1", "{}", 10), 10);
	assert_int_equal(since(&v, "b", "1", NULL, 20), 20);
	assert_int_equal(since(&v, "a", "1", "{}", 50), 10);
	assert_int_equal(since(&v, "a", "1", "{}", 110), 10);
	assert_int_equal(since(&v, "b", "1", NULL, 60), 20);
	unused_entries_free(&v);
}

static void another_entry_of_that_name_is_young(void **state)
{
	struct unused_entries v = {0};

	(void)state;
	since(&v, "a", "1", "{}", 10);
	assert_int_equal(since(&v, "a", "2", "{}", 20), 20);		/* registered anew, or shown to be served */
	assert_int_equal(since(&v, "a", "2", "{\"x\":1}", 30), 30);
	assert_int_equal(since(&v, "a", "2", NULL, 40), 40);
	assert_int_equal(since(&v, "a", "2", "{}", 50), 50);
	unused_entries_forget(&v, "a");
	unused_entries_forget(&v, "never there");
	assert_int_equal(since(&v, "a", "2", "{}", 60), 60);
	unused_entries_free(&v);
}

static void nobody_looked_for_too_long(void **state)
{
	struct unused_entries v = {0};

	(void)state;
	since(&v, "a", "1", "{}", 10);
	assert_int_equal(since(&v, "a", "1", "{}", 10 + GAP), 10);
	assert_int_equal(since(&v, "a", "1", "{}", 11 + 2 * GAP), 11 + 2 * GAP);
	unused_entries_free(&v);
}

static void what_a_turn_did_not_see_is_forgotten(void **state)
{
	struct unused_entries v = {0};

	(void)state;
	since(&v, "a", "1", "{}", 10);
	since(&v, "b", "1", "{}", 10);
	unused_entries_end_turn(&v);
	since(&v, "a", "1", "{}", 20);
	unused_entries_end_turn(&v);
	assert_int_equal(v.n, 1);
	assert_int_equal(since(&v, "a", "1", "{}", 30), 10);
	assert_int_equal(since(&v, "b", "1", "{}", 30), 30);
	unused_entries_free(&v);
	assert_int_equal(v.n, 0);
}

static void memory_is_bounded(void **state)
{
	struct unused_entries v = {0};
	char name[16];

	(void)state;
	for (int i = 0; i < UNUSED_ENTRIES_MAX; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		assert_int_equal(since(&v, name, "1", NULL, 1 + i / 1000), 1 + i / 1000);
	}
	assert_int_equal(since(&v, "more", "1", NULL, 20), -1);
	unused_entries_forget(&v, "q7");
	assert_int_equal(since(&v, "more", "1", NULL, 20), 20);
	unused_entries_free(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_entry_grows_older),
		cmocka_unit_test(another_entry_of_that_name_is_young),
		cmocka_unit_test(nobody_looked_for_too_long),
		cmocka_unit_test(what_a_turn_did_not_see_is_forgotten),
		cmocka_unit_test(memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
