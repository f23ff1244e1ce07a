/* links: common/scoreboard.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/scoreboard.h"

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

static void every_counter_and_state_has_a_name(void **state)
{
	(void)state;
	for (int i = 0; i < COUNTERS; i++)
		assert_non_null(counter_names[i]);
	for (int i = 0; i <= SLOT_STOPPING; i++)
		assert_non_null(slot_state_names[i]);
}

static void a_state_keeps_the_generation_and_the_reverse(void **state)
{
	struct slot *s = &((struct scoreboard *)*state)->slots[7];

	assert_int_equal(slot_state(s), SLOT_FREE);
	assert_int_equal(slot_next_generation(s), 1);
	slot_set_state(s, SLOT_RUNNING);
	assert_int_equal(slot_generation(s), 1);
	assert_int_equal(slot_next_generation(s), 2);
	assert_int_equal(slot_state(s), SLOT_RUNNING);
}

static void clear_leaves_nothing_but_the_generation(void **state)
{
	struct slot *s = &((struct scoreboard *)*state)->slots[0], zero;

	memset(s, 0xff, sizeof(*s));
	atomic_store(&s->state, 41 << 8 | SLOT_RUNNING);
	slot_clear(s);
	assert_int_equal(slot_next_generation(s), 42);
	assert_int_equal(slot_state(s), SLOT_FREE);
	memset(&zero, 0, sizeof(zero));
	assert_memory_equal((char *)s + sizeof(s->state), (char *)&zero + sizeof(s->state),
	    offsetof(struct slot, duration_ms) + sizeof(s->duration_ms) - sizeof(s->state));
}

static void a_duration_falls_below_its_power_of_two(void **state)
{
	static const struct { int64_t ms; int bucket; } cases[] = {
		{ -5, 0 }, { 0, 0 }, { 1, 1 }, { 2, 2 }, { 3, 2 }, { 4, 3 }, { 1023, 10 }, { 1024, 11 },
		{ (1 << 22) - 1, 22 }, { 1 << 22, 23 }, { INT64_MAX, 23 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct slot *s = &((struct scoreboard *)*state)->slots[i];

		slot_observe(s, cases[i].ms);
		assert_int_equal(atomic_load(&s->durations[cases[i].bucket]), 1);
	}
}

static void how_late_is_a_histogram_a_sum_and_the_most(void **state)
{
	struct board_queue *q = &((struct scoreboard *)*state)->queues[0];

	board_observe_lag(q, 3);
	board_observe_lag(q, 1000);
	board_observe_lag(q, -1);
	assert_int_equal(atomic_load(&q->lags[2]), 1);
	assert_int_equal(atomic_load(&q->lags[10]), 1);
	assert_int_equal(atomic_load(&q->lags[0]), 1);
	assert_int_equal(atomic_load(&q->lag_ms), 1003);
	assert_int_equal(atomic_load(&q->lag_most_ms), 1000);
}

static void the_more_important_trouble_is_shown(void **state)
{
	struct board_queue *q = &((struct scoreboard *)*state)->queues[0];
	static const enum queue_trouble pairs[][2] = {	/* the first one is shown */
		{ TROUBLE_NONE, TROUBLE_NONE }, { TROUBLE_OTHER, TROUBLE_NONE }, { TROUBLE_WRONG_TYPE, TROUBLE_NO_REDIS },
		{ TROUBLE_NO_PERMISSION, TROUBLE_STORM }, { TROUBLE_NO_REDIS, TROUBLE_OTHER }, { TROUBLE_STORM, TROUBLE_LEFTOVERS },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		atomic_store(&q->trouble, pairs[i][0]);
		atomic_store(&q->worker_trouble, pairs[i][1]);
		assert_int_equal(board_trouble(q), pairs[i][0]);
		atomic_store(&q->trouble, pairs[i][1]);
		atomic_store(&q->worker_trouble, pairs[i][0]);
		assert_int_equal(board_trouble(q), pairs[i][0]);
	}
}

static void slots_do_not_share_cache_lines(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct slot) % 64, 0);
	assert_int_equal(sizeof(struct board_queue) % 64, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_counter_and_state_has_a_name),
		cmocka_unit_test_setup_teardown(a_state_keeps_the_generation_and_the_reverse, setup, teardown),
		cmocka_unit_test_setup_teardown(clear_leaves_nothing_but_the_generation, setup, teardown),
		cmocka_unit_test_setup_teardown(a_duration_falls_below_its_power_of_two, setup, teardown),
		cmocka_unit_test_setup_teardown(how_late_is_a_histogram_a_sum_and_the_most, setup, teardown),
		cmocka_unit_test_setup_teardown(the_more_important_trouble_is_shown, setup, teardown),
		cmocka_unit_test(slots_do_not_share_cache_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
