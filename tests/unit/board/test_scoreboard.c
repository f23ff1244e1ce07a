#include <string.h>

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

TEST(every_counter_and_state_has_a_name)
{
	for (int i = 0; i < COUNTERS; i++)
		assert_non_null(counters_table[i].name);
	for (int i = 0; i <= SLOT_STOPPING; i++)
		assert_non_null(slot_state_names[i]);
}

TEST(a_state_keeps_the_generation_and_the_reverse, setup, teardown)
{
	struct slot *s = &((struct scoreboard *)*state)->slots[7];

	assert_int_equal(slot_state(s), SLOT_FREE);
	assert_int_equal(slot_next_generation(s), 1);
	slot_set_state(s, SLOT_RUNNING);
	assert_int_equal(slot_generation(s), 1);
	assert_int_equal(slot_next_generation(s), 2);
	assert_int_equal(slot_state(s), SLOT_RUNNING);
}

TEST(clear_leaves_nothing_but_the_generation, setup, teardown)
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

TEST(a_duration_falls_below_its_power_of_two, setup, teardown)
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

TEST(how_late_is_a_histogram_a_sum_and_the_most, setup, teardown)
{
	struct board_queue *q = &((struct scoreboard *)*state)->queues[0];

	board_observe_lag(q, 3);
	board_observe_lag(q, 1000);
	board_observe_lag(q, -1);
	assert_int_equal(atomic_load(&q->sweeper.lags[2]), 1);
	assert_int_equal(atomic_load(&q->sweeper.lags[10]), 1);
	assert_int_equal(atomic_load(&q->sweeper.lags[0]), 1);
	assert_int_equal(atomic_load(&q->sweeper.lag_ms), 1003);
	assert_int_equal(atomic_load(&q->sweeper.lag_max_ms), 1000);
}

#define QUEUE 3

static void worker_of(struct scoreboard *b, int slot, int queue, enum queue_error error)
{
	atomic_store(&b->master.queue_of[slot], queue + 1);
	atomic_store(&b->slots[slot].error, error);
}

static enum queue_error error_of(const struct scoreboard *b, int queue)
{
	struct worker_errors errors;

	queue_error_read_workers(b, &errors);
	return queue_error_in(queue_error_shown(b, &b->queues[queue], &errors));
}

TEST(the_more_important_error_is_shown, setup, teardown)
{
	struct scoreboard *b = *state;
	struct board_queue *q = &b->queues[QUEUE];
	static const enum queue_error pairs[][2] = {	/* the first one is shown */
		{ QUEUE_ERROR_NONE, QUEUE_ERROR_NONE }, { QUEUE_ERROR_OTHER, QUEUE_ERROR_NONE }, { QUEUE_ERROR_WRONG_TYPE, QUEUE_ERROR_NO_REDIS },
		{ QUEUE_ERROR_NO_PERMISSION, QUEUE_ERROR_TRANSIENT }, { QUEUE_ERROR_NO_REDIS, QUEUE_ERROR_OTHER },
		{ QUEUE_ERROR_TRANSIENT, QUEUE_ERROR_LEFTOVERS },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		atomic_store(&q->sweeper.error, pairs[i][0]);
		worker_of(b, 7, QUEUE, pairs[i][1]);
		assert_int_equal(error_of(b, QUEUE), pairs[i][0]);
		atomic_store(&q->sweeper.error, pairs[i][1]);
		worker_of(b, 7, QUEUE, pairs[i][0]);
		assert_int_equal(error_of(b, QUEUE), pairs[i][0]);
	}
}

TEST(the_end_of_one_workers_error_hides_no_others, setup, teardown)
{
	struct scoreboard *b = *state;

	worker_of(b, 1, QUEUE, QUEUE_ERROR_WRONG_TYPE);
	worker_of(b, 2, QUEUE, QUEUE_ERROR_NO_PERMISSION);
	worker_of(b, 3, QUEUE + 1, QUEUE_ERROR_NO_REDIS);
	assert_int_equal(error_of(b, QUEUE), QUEUE_ERROR_WRONG_TYPE);
	worker_of(b, 1, QUEUE, QUEUE_ERROR_NONE);
	assert_int_equal(error_of(b, QUEUE), QUEUE_ERROR_NO_PERMISSION);
	slot_clear(&b->slots[2]);	/* it died */
	assert_int_equal(error_of(b, QUEUE), QUEUE_ERROR_NONE);
	assert_int_equal(error_of(b, QUEUE + 1), QUEUE_ERROR_NO_REDIS);
}

/* The caller uses the result as an index. */
TEST(a_damaged_error_is_an_unknown_one, setup, teardown)
{
	struct scoreboard *b = *state;

	atomic_store(&b->queues[QUEUE].sweeper.error, 1000);
	assert_int_equal(error_of(b, QUEUE), QUEUE_ERROR_OTHER);
	atomic_store(&b->queues[QUEUE].sweeper.error, QUEUE_ERROR_NONE);
	worker_of(b, 1, QUEUE, QUEUE_ERROR_NONE);
	atomic_store(&b->slots[1].error, UINT32_MAX);
	assert_int_equal(error_of(b, QUEUE), QUEUE_ERROR_OTHER);
}

TEST(a_word_holds_an_error_and_the_refused_command, setup, teardown)
{
	uint32_t word = queue_error_word(QUEUE_ERROR_NO_COMMAND, COMMAND_XADD);
	struct worker_errors errors;
	struct scoreboard *b = *state;

	assert_int_equal(queue_error_in(word), QUEUE_ERROR_NO_COMMAND);
	assert_int_equal(queue_error_command(word), COMMAND_XADD);
	assert_int_equal(queue_error_word(QUEUE_ERROR_NO_REDIS, COMMAND_XADD), QUEUE_ERROR_NO_REDIS);
	assert_int_equal(queue_error_command(UINT32_MAX), COMMAND_UNNAMED);
	atomic_store(&b->queues[QUEUE].sweeper.error, QUEUE_ERROR_NO_REDIS);
	worker_of(b, 1, QUEUE, QUEUE_ERROR_OTHER);
	atomic_store(&b->slots[1].error, word);
	queue_error_read_workers(b, &errors);
	assert_int_equal(queue_error_shown(b, &b->queues[QUEUE], &errors), word);
}

/* A worker may damage the board: then the error of a slot belongs to no queue. */
TEST(a_damaged_place_is_no_queue, setup, teardown)
{
	struct scoreboard *b = *state;

	worker_of(b, 1, -7, QUEUE_ERROR_WRONG_TYPE);
	worker_of(b, 2, SCOREBOARD_QUEUES, QUEUE_ERROR_WRONG_TYPE);
	worker_of(b, 3, INT32_MAX - 1, QUEUE_ERROR_WRONG_TYPE);
	worker_of(b, SCOREBOARD_SLOTS - 1, SCOREBOARD_QUEUES - 1, QUEUE_ERROR_NO_REDIS);
	for (int i = 0; i < SCOREBOARD_QUEUES - 1; i++)
		assert_int_equal(error_of(b, i), QUEUE_ERROR_NONE);
	assert_int_equal(error_of(b, SCOREBOARD_QUEUES - 1), QUEUE_ERROR_NO_REDIS);
}

TEST(one_worker_at_a_time_runs_a_trial, setup, teardown)
{
	struct scoreboard *b = *state;

	assert_true(scoreboard_begin_trial(b, 4));
	assert_false(scoreboard_begin_trial(b, 5));
	assert_false(scoreboard_begin_trial(b, 4));
	assert_false(scoreboard_end_trial(b, 5));	/* another worker's death does not end it */
	assert_int_equal(atomic_load(&b->workers.trial), 5);
	assert_true(scoreboard_end_trial(b, 4));
	assert_false(scoreboard_end_trial(b, 4));
	assert_true(scoreboard_begin_trial(b, 0));	/* 0 is a slot, not the absence of one */
	assert_false(scoreboard_begin_trial(b, 5));
}

TEST(a_queue_passes_its_totals_to_its_heir, setup, teardown)
{
	struct board_queue *q = &((struct scoreboard *)*state)->queues[1], *heir = q + 1;

	atomic_store(&q->master.past[COUNT_DONE], 5);
	atomic_store(&q->sweeper.swept[COUNT_DUE], 2);
	atomic_store(&q->reported.tallied[COUNT_DONE], 3);
	atomic_store(&q->reported.sent[COUNT_DONE], 4);
	board_observe_lag(q, 3);
	for (int i = 0; i < 2; i++)
		scoreboard_inherit(heir, q);
	assert_int_equal(atomic_load(&heir->master.past[COUNT_DONE]), 10);
	assert_int_equal(atomic_load(&heir->master.past[COUNT_DUE]), 4);
	assert_int_equal(atomic_load(&heir->master.past[FIGURE_LAGS + 2]), 2);
	assert_int_equal(atomic_load(&heir->master.past[FIGURE_LAG_MS]), 6);
	assert_int_equal(atomic_load(&heir->reported.tallied[COUNT_DONE]), 6);
	assert_int_equal(atomic_load(&heir->reported.sent[COUNT_DONE]), 8);
}

TEST(a_new_handler_closes_the_breaker_also_when_generations_wrap, setup, teardown)
{
	struct board_queue *q = &((struct scoreboard *)*state)->queues[0];

	atomic_store(&q->master.handler_generation, UINT32_MAX);
	atomic_store(&q->workers.breaker.step, 3);
	atomic_store(&q->workers.breaker.failures, 9);
	scoreboard_new_handler(q, 0);
	assert_int_equal(atomic_load(&q->workers.breaker.step), 0);
	assert_int_equal(atomic_load(&q->workers.breaker.failures), 0);
	scoreboard_new_handler(q, 1);
	assert_int_equal(atomic_load(&q->master.handler_generation), 1);
}

TEST(slots_do_not_share_cache_lines)
{
	assert_int_equal(sizeof(struct slot) % 64, 0);
	assert_int_equal(sizeof(struct board_queue) % 64, 0);
}

UNIT_MAIN(NULL, NULL)
