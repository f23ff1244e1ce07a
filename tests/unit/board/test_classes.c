/* The counts of the classes that handlers named: bounded, by name, and whole after the death of a worker. */
#include <stdio.h>
#include <string.h>

#include "common/board/classes.h"
#include "common/board/scoreboard.h"
#include "tests/unit/unit.h"

static int setup(void **state)
{
	*state = scoreboard_new();
	return *state == NULL ? -1 : 0;
}

static int teardown(void **state)
{
	scoreboard_free(*state);
	return 0;
}

static struct queue_classes *classes_of(void **state)
{
	return &((struct scoreboard *)*state)->queues[0].workers.classes;
}

static void assert_sum(const struct queue_classes *c, const char *name, uint64_t n)
{
	struct class_figure all[CLASS_FIGURES];
	size_t of = classes_sum(c, all);

	for (size_t i = 0; i < of; i++)
		if (strcmp(all[i].name, name) == 0) {
			assert_int_equal(all[i].n, n);
			return;
		}
	assert_int_equal(n, 0);
}

TEST(names_are_counted_one_by_one, setup, teardown)
{
	static const char longest[] = "Abcdefghijklmnopqrstuvwxyz.0123456789:_-Abcdefghijklmnopqrstuvwx";
	struct queue_classes *c = classes_of(state);

	assert_int_equal(strlen(longest), CLASS_NAME_MAX);
	classes_count(c, "SMTP", 1);
	classes_count(c, longest, 2);
	classes_count(c, "SMTPServerDisconnected", 3);
	classes_count(c, "SMTP", 4);
	assert_sum(c, "SMTP", 5);
	assert_sum(c, longest, 2);
	assert_sum(c, "SMTPServerDisconnected", 3);
	assert_sum(c, CLASS_OTHER, 0);
}

TEST(too_many_names_are_other, setup, teardown)
{
	struct queue_classes *c = classes_of(state);
	struct class_figure all[CLASS_FIGURES];
	char name[32];

	for (int i = 0; i < 3 * CLASS_NAMES; i++) {
		snprintf(name, sizeof(name), "user%d", i);
		classes_count(c, name, 1);
	}
	classes_count(c, "user0", 1);
	classes_count(c, CLASS_OTHER, 1);
	assert_int_equal(classes_sum(c, all), CLASS_FIGURES);
	assert_sum(c, "user0", 2);
	assert_sum(c, "user31", 1);
	assert_sum(c, CLASS_OTHER, 2 * CLASS_NAMES + 1);
}

/* A worker died before the name was whole: others pass by its entry. */
TEST(an_entry_without_a_name_is_passed_by, setup, teardown)
{
	struct queue_classes *c = classes_of(state);

	atomic_store(&c->named[0].state, CLASS_BEING_NAMED);
	classes_count(c, "a", 1);
	assert_int_equal(classes_index(c, "a"), 1);
	assert_int_equal(classes_figure(c, 0).n, 0);
	assert_sum(c, "a", 1);
}

TEST(the_same_name_twice_is_one_sum, setup, teardown)
{
	struct queue_classes *c = classes_of(state);

	atomic_store(&c->named[0].state, CLASS_BEING_NAMED);
	classes_count(c, "a", 1);
	memcpy((void *)c->named[0].name, (void *)c->named[1].name, sizeof(c->named[0].name));
	atomic_store(&c->named[0].state, CLASS_NAMED);
	classes_count(c, "a", 2);
	assert_sum(c, "a", 3);
}

TEST(an_heir_gets_them_by_name, setup, teardown)
{
	struct board_queue *q = ((struct scoreboard *)*state)->queues, *heir = q + 1;

	classes_count(&heir->workers.classes, "b", 1);
	classes_count(&q->workers.classes, "a", 5);
	classes_count(&q->workers.classes, "b", 7);
	classes_count(&q->workers.classes, CLASS_OTHER, 9);
	atomic_store(&q->reported.classes_tallied[0], 4);
	atomic_store(&q->reported.classes_sent[1], 6);
	atomic_store(&q->reported.classes_sent[CLASS_NAMES], 8);
	scoreboard_inherit(heir, q);
	assert_sum(&heir->workers.classes, "a", 5);
	assert_sum(&heir->workers.classes, "b", 8);
	assert_sum(&heir->workers.classes, CLASS_OTHER, 9);
	assert_int_equal(atomic_load(&heir->reported.classes_tallied[classes_index(&heir->workers.classes, "a")]), 4);
	assert_int_equal(atomic_load(&heir->reported.classes_sent[classes_index(&heir->workers.classes, "b")]), 6);
	assert_int_equal(atomic_load(&heir->reported.classes_sent[CLASS_NAMES]), 8);
}

UNIT_MAIN(NULL, NULL)
