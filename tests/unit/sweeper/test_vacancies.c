/* Since when entries of the registry have nothing behind them, as a sweeper remembers it: no sleeping, times are given. */
#include <stdio.h>

#include "sweeper/registry/unused_entries.h"
#include "tests/unit/unit.h"

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

TEST(the_same_entry_grows_older)
{
	struct unused_entries v = {0};

	assert_int_equal(since(&v, "a", "1", "{}", 10), 10);
	assert_int_equal(since(&v, "b", "1", NULL, 20), 20);
	assert_int_equal(since(&v, "a", "1", "{}", 50), 10);
	assert_int_equal(since(&v, "a", "1", "{}", 110), 10);
	assert_int_equal(since(&v, "b", "1", NULL, 60), 20);
	unused_entries_free(&v);
}

TEST(another_entry_of_that_name_is_young)
{
	struct unused_entries v = {0};

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

TEST(nobody_looked_for_too_long)
{
	struct unused_entries v = {0};

	since(&v, "a", "1", "{}", 10);
	assert_int_equal(since(&v, "a", "1", "{}", 10 + GAP), 10);
	assert_int_equal(since(&v, "a", "1", "{}", 11 + 2 * GAP), 11 + 2 * GAP);
	unused_entries_free(&v);
}

TEST(what_a_turn_did_not_see_is_forgotten)
{
	struct unused_entries v = {0};

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

TEST(memory_is_bounded)
{
	struct unused_entries v = {0};
	char name[16];

	for (int i = 0; i < UNUSED_ENTRIES_MAX; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		assert_int_equal(since(&v, name, "1", NULL, 1 + i / 1000), 1 + i / 1000);
	}
	assert_int_equal(since(&v, "more", "1", NULL, 20), -1);
	unused_entries_forget(&v, "q7");
	assert_int_equal(since(&v, "more", "1", NULL, 20), 20);
	unused_entries_free(&v);
}

UNIT_MAIN(NULL, NULL)
