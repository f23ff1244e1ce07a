/* The classes of failed attempts: bounded, each count taken once, and a class that fails again and again has a place beside any number of others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/board/failed.h"
#include "common/board/scoreboard.h"
#include "tests/unit/unit.h"

static struct class_figure taken[FAILED_FIGURES];
static int64_t last_id;

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

static struct queue_failed_words *failed_of(void **state)
{
	return &((struct scoreboard *)*state)->queues[0].workers.failed;
}

static struct failed_batch begin(struct queue_failed_words *f)
{
	struct failed_batch batch = {0};

	failed_begin(f, ++last_id, 29000000, &batch);
	return batch;
}

/* Redis confirms the batch at once. */
static void take(struct queue_failed_words *f, struct class_figure *out)
{
	struct failed_batch batch = begin(f);

	memcpy(out, batch.figures, sizeof(batch.figures));
	failed_confirm(f, batch.id);
}

/* Adds up: two entries may have the same name. */
static uint64_t taken_as(const char *name)
{
	uint64_t n = 0;

	for (size_t i = 0; i < FAILED_FIGURES; i++)
		n += strcmp(taken[i].name, name) == 0 ? taken[i].n : 0;
	return n;
}

static uint64_t taken_in_all(void)
{
	uint64_t n = 0;

	for (size_t i = 0; i < FAILED_FIGURES; i++)
		n += taken[i].n;
	return n;
}

static void count_users(struct queue_failed_words *f, int first, int n)
{
	char name[32];

	for (int i = first; i < first + n; i++) {
		snprintf(name, sizeof(name), "user%d", i);
		failed_count(f, name, 1);
	}
}

TEST(names_are_counted_one_by_one, setup, teardown)
{
	static const char longest[] = "Abcdefghijklmnopqrstuvwxyz.0123456789:_-Abcdefghijklmnopqrstuvwx";
	struct queue_failed_words *f = failed_of(state);

	assert_int_equal(strlen(longest), CLASS_NAME_MAX);
	assert_false(failed_any(f));
	failed_count(f, "Refused", 1);
	failed_count(f, longest, 2);
	failed_count(f, "RefusedAgain", 3);
	failed_count(f, "Refused", 4);
	failed_count(f, CLASS_OTHER, 5);
	assert_true(failed_any(f));
	take(f, taken);
	assert_int_equal(taken_as("Refused"), 5);
	assert_int_equal(taken_as(longest), 2);
	assert_int_equal(taken_as("RefusedAgain"), 3);
	assert_int_equal(taken_as(CLASS_OTHER), 5);
}

TEST(what_was_taken_is_gone, setup, teardown)
{
	struct queue_failed_words *f = failed_of(state);

	failed_count(f, "Refused", 7);
	take(f, taken);
	assert_int_equal(taken_in_all(), 7);
	assert_false(failed_any(f));
	take(f, taken);
	assert_int_equal(taken_in_all(), 0);
	failed_count(f, "Timeout", 1);
	take(f, taken);
	assert_int_equal(taken_as("Timeout"), 1);
	assert_int_equal(taken_as("Refused"), 0);
}

/* Its sweeper was killed, or lost the connection: the next one sends the same, for the same minute. */
TEST(a_batch_stays_as_it_is_until_it_is_confirmed, setup, teardown)
{
	struct queue_failed_words *f = failed_of(state);
	struct failed_batch first, again;

	failed_count(f, "Refused", 7);
	first = begin(f);
	failed_count(f, "Refused", 1);
	failed_count(f, CLASS_OTHER, 2);
	assert_true(failed_begin(f, ++last_id, first.minute + 5, &again));
	assert_memory_equal(&again, &first, sizeof(first));
	failed_confirm(f, first.id + 1000);		/* of an earlier batch, late */
	assert_int_equal(begin(f).id, first.id);
	failed_confirm(f, first.id);
	take(f, taken);
	assert_int_equal(taken_as("Refused"), 1);
	assert_int_equal(taken_in_all(), 3);
	assert_false(failed_any(f));
}

TEST(a_sweeper_goes_on_with_a_batch_that_another_began_to_fill, setup, teardown)
{
	struct queue_failed_words *f = failed_of(state);
	struct failed_batch batch;

	failed_count(f, "Refused", 7);
	batch = begin(f);
	atomic_store(&f->minute, 0);			/* killed just before */
	failed_count(f, "Refused", 1);
	failed_count(f, "Timeout", 2);
	assert_true(failed_begin(f, ++last_id, 29000001, &batch));
	assert_int_equal(batch.id, last_id - 1);
	assert_int_equal(batch.minute, 29000001);
	failed_confirm(f, batch.id);
	memcpy(taken, batch.figures, sizeof(taken));
	assert_int_equal(taken_as("Refused"), 8);
	assert_int_equal(taken_as("Timeout"), 2);
	assert_false(failed_any(f));
}

TEST(ten_thousand_names_lose_no_count, setup, teardown)
{
	struct queue_failed_words *f = failed_of(state);

	count_users(f, 0, 10000);
	take(f, taken);
	assert_int_equal(taken_in_all(), 10000);
	assert_int_equal(taken_as(CLASS_OTHER), 10000 - FAILED_NAMES);
}

/* They came first, and they go on between its failures. */
TEST(a_class_that_fails_again_and_again_has_a_place, setup, teardown)
{
	struct queue_failed_words *f = failed_of(state);

	count_users(f, 0, 10000);
	for (int i = 0; i < 100; i++) {
		failed_count(f, "Refused", 1);
		count_users(f, 10000 + 5 * i, 5);
	}
	take(f, taken);
	assert_int_equal(taken_as("Refused"), 100);
	assert_int_equal(taken_in_all(), 10600);
}

TEST(frequent_classes_do_not_give_way, setup, teardown)
{
	struct queue_failed_words *f = failed_of(state);
	char name[32];

	for (int i = 0; i < FAILED_NAMES; i++) {
		snprintf(name, sizeof(name), "class%d", i);
		failed_count(f, name, 2);
	}
	count_users(f, 0, 100);
	take(f, taken);
	assert_int_equal(taken_as("class0"), 2);
	assert_int_equal(taken_as("class15"), 2);
	assert_int_equal(taken_as(CLASS_OTHER), 100);
}

/* A worker died before the name was whole. */
TEST(an_entry_without_a_name_is_passed_by, setup, teardown)
{
	struct queue_failed_words *f = failed_of(state);

	atomic_store(&f->named[0].word, UINT64_C(1) << 34 | UINT64_C(1) << 32);
	assert_false(failed_any(f));
	count_users(f, 0, FAILED_NAMES);
	take(f, taken);
	assert_int_equal(taken_in_all(), FAILED_NAMES);
	assert_int_equal(taken[0].n, 0);
	assert_int_equal(taken_as(CLASS_OTHER), 1);
}

TEST(a_count_that_does_not_fit_is_not_lost, setup, teardown)
{
	struct queue_failed_words *f = failed_of(state);

	failed_count(f, "Refused", UINT32_MAX);
	failed_count(f, "Refused", 2);
	failed_count(f, "Huge", (uint64_t)UINT32_MAX + 1);
	take(f, taken);
	assert_int_equal(taken_in_all(), 2 * (uint64_t)UINT32_MAX + 3);
}

TEST(an_heir_gets_what_nobody_took, setup, teardown)
{
	struct board_queue *q = ((struct scoreboard *)*state)->queues, *heir = q + 1;

	failed_count(&heir->workers.failed, "b", 1);
	failed_count(&q->workers.failed, "a", 5);
	failed_count(&q->workers.failed, "b", 7);
	failed_count(&q->workers.failed, CLASS_OTHER, 9);
	scoreboard_inherit(heir, q);
	assert_false(failed_any(&q->workers.failed));
	take(&heir->workers.failed, taken);
	assert_int_equal(taken_as("a"), 5);
	assert_int_equal(taken_as("b"), 8);
	assert_int_equal(taken_as(CLASS_OTHER), 9);
}

TEST(an_heir_gets_an_unconfirmed_batch_and_what_was_counted_since, setup, teardown)
{
	struct board_queue *q = ((struct scoreboard *)*state)->queues, *heir = q + 1;

	failed_count(&q->workers.failed, "a", 5);
	begin(&q->workers.failed);
	failed_count(&q->workers.failed, "a", 7);
	scoreboard_inherit(heir, q);
	assert_false(failed_any(&q->workers.failed));
	take(&heir->workers.failed, taken);
	assert_int_equal(taken_as("a"), 12);
}

/* Workers count many names while a sweeper takes: nothing is lost, nothing counts twice or for another name. */
#define WORKERS 3
#define EACH 20000
TEST(many_processes_count_at_once, setup, teardown)
{
	struct queue_failed_words *f = failed_of(state);
	uint64_t all = 0, refused = 0, other = 0;
	int left = WORKERS, status;

	for (int w = 0; w < WORKERS; w++) {
		if (fork() != 0)
			continue;
		for (int i = 0; i < EACH; i++) {
			failed_count(f, "Refused", 1);
			count_users(f, i * WORKERS + w, 1);
		}
		_exit(0);
	}
	while (left > 0 || failed_any(f)) {
		if (left > 0 && waitpid(-1, &status, WNOHANG) > 0) {
			assert_int_equal(status, 0);
			left--;
		}
		take(f, taken);
		all += taken_in_all();
		refused += taken_as("Refused");
		other += taken_as(CLASS_OTHER);
	}
	assert_int_equal(all, 2 * WORKERS * EACH);
	assert_true(refused <= (uint64_t)WORKERS * EACH);
	assert_true(refused + other >= (uint64_t)WORKERS * EACH);
}

TEST(the_latest_attempt_has_its_class_and_text, setup, teardown)
{
	struct slot *s = &((struct scoreboard *)*state)->slots[3];

	slot_note_attempt(s, "Refused", "connect to mail:25:\n\x1b[31mrefused", 1234);
	assert_string_equal(slot_text_read(&s->attempt).text, "Refused connect to mail:25:??[31mrefused");
	assert_int_equal(atomic_load(&s->attempt_ms), 1234);
	slot_clear(s);
	assert_int_equal(slot_text_read(&s->attempt).number, -1);
	assert_int_equal(atomic_load(&s->attempt_ms), 0);
}

UNIT_MAIN(NULL, NULL)
