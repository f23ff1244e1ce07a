#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/handler/cause.h"

#include "tests/unit/unit.h"
#include "worker/worker.h"

#define CAUSE handler_cause_unrunnable("execve", 2)

static struct message message_with(const char *id)
{
	struct message m = {0};

	snprintf(m.id, sizeof(m.id), "%s", id);
	return m;
}

static uint64_t id_of(const char *id)
{
	struct message m = message_with(id);

	return breaker_message_id(&m);
}

TEST(closed_lets_everybody_fetch)
{
	struct board_queue b = {0};

	assert_int_equal(breaker_until_ms(&b), 0);
	for (int i = 0; i < 100; i++)
		assert_true(breaker_may_fetch(&b, 1000));
	assert_false(breaker_succeeded(&b));
}

/* Of many who find it broken only one opened it, and only that one says so. */
TEST(opens_once)
{
	struct board_queue b = {0};

	assert_true(breaker_open(&b, CAUSE, 1000));
	assert_false(breaker_open(&b, CAUSE, 1000));
	assert_false(breaker_may_fetch(&b, 1000));
	assert_true(breaker_until_ms(&b) > 1000);
	assert_true(breaker_succeeded(&b));
	assert_int_equal(breaker_until_ms(&b), 0);
	assert_true(breaker_may_fetch(&b, 1000));
}

/* When the pause is over one may look; the next pause is longer, up to half a minute. */
TEST(probes_one_at_a_time_and_less_and_less)
{
	struct board_queue b = {0};
	int64_t now = 1000, pause = 0;

	breaker_open(&b, CAUSE, now);
	for (int i = 0; i < 20; i++) {
		int64_t until = breaker_until_ms(&b), next;

		assert_false(breaker_may_fetch(&b, until - 1));
		assert_true(breaker_may_fetch(&b, until));
		assert_false(breaker_may_fetch(&b, until));
		assert_false(breaker_open(&b, CAUSE, until));		/* a probe that fails changes nothing more */
		next = breaker_until_ms(&b) - until;
		assert_true(next >= pause);
		assert_in_range(next, 500, 30000);
		pause = next;
		now = until;
	}
	assert_int_equal(pause, 30000);
	assert_true(now < 1000 + 20 * 30000);
}

/* Once closed, the next opening begins with a short pause again. */
TEST(forgets_when_closed)
{
	struct board_queue b = {0};
	int64_t first;

	breaker_open(&b, CAUSE, 0);
	first = breaker_until_ms(&b);
	for (int i = 0; i < 5; i++)
		breaker_may_fetch(&b, breaker_until_ms(&b));
	breaker_succeeded(&b);
	breaker_open(&b, CAUSE, 100000);
	assert_int_equal(breaker_until_ms(&b) - 100000, first);
}

TEST(a_row_of_distinct_failures_opens)
{
	struct board_queue b = {0};

	assert_false(breaker_failed(&b, id_of("a"), 3, NULL, 0));
	assert_false(breaker_failed(&b, id_of("b"), 3, NULL, 0));
	assert_int_equal(breaker_until_ms(&b), 0);
	assert_true(breaker_failed(&b, id_of("c"), 3, NULL, 0));
	assert_true(breaker_until_ms(&b) > 0);
	assert_false(breaker_failed(&b, id_of("d"), 3, NULL, 0));	/* it is open already */
}

TEST(a_success_ends_the_row)
{
	struct board_queue b = {0};

	for (int i = 0; i < 100; i++) {
		char id[8];

		snprintf(id, sizeof(id), "m%d", i);
		assert_false(breaker_failed(&b, id_of(id), 3, NULL, 0));
		if (i % 2 == 1)
			assert_false(breaker_succeeded(&b));
	}
}

/* A poisonous message proves nothing about the handler, however often it comes. */
TEST(the_same_message_counts_once)
{
	struct board_queue b = {0};

	for (int i = 0; i < 1000; i++)
		assert_false(breaker_failed(&b, id_of("poison"), 3, NULL, 0));
	assert_false(breaker_failed(&b, id_of("other"), 3, NULL, 0));
	for (int i = 0; i < 1000; i++)
		assert_false(breaker_failed(&b, id_of(i % 2 == 0 ? "poison" : "other"), 3, NULL, 0));
	assert_true(breaker_failed(&b, id_of("third"), 3, NULL, 0));
}

/* It failed while others were done, so it is known to be the message's fault. */
TEST(what_failed_before_a_success_is_no_news)
{
	struct board_queue b = {0};

	for (int round = 0; round < 3; round++) {
		assert_false(breaker_failed(&b, id_of("a"), 3, NULL, 0));
		assert_false(breaker_succeeded(&b));
		assert_false(breaker_failed(&b, id_of("b"), 3, NULL, 0));
		assert_false(breaker_succeeded(&b));
		assert_false(breaker_failed(&b, id_of("c"), 3, NULL, 0));
		assert_false(breaker_succeeded(&b));
	}
	assert_false(breaker_failed(&b, id_of("a"), 3, NULL, 0));
	assert_false(breaker_failed(&b, id_of("b"), 3, NULL, 0));
	assert_false(breaker_failed(&b, id_of("c"), 3, NULL, 0));
	assert_false(breaker_failed(&b, id_of("d"), 3, NULL, 0));
	assert_false(breaker_failed(&b, id_of("e"), 3, NULL, 0));
	assert_true(breaker_failed(&b, id_of("f"), 3, NULL, 0));
}

/* RETRY or FAIL show that it runs. That closes what was opened for a handler that did not, but no row of failures. */
TEST(an_answer_is_no_success)
{
	struct board_queue b = {0};

	assert_true(breaker_open(&b, CAUSE, 0));
	assert_true(breaker_answered(&b, 0));
	assert_true(breaker_open(&b, CAUSE, 0));
	assert_false(breaker_failed(&b, id_of("a"), 2, NULL, 0));
	assert_true(breaker_answered(&b, 2));
	assert_true(breaker_failed(&b, id_of("b"), 2, NULL, 0));	/* the row went on */
	assert_false(breaker_answered(&b, 2));
	assert_true(breaker_succeeded(&b));
}

/* What workers of an older generation see concerns nobody, and proves nothing of the next. */
TEST(generations)
{
	struct board_queue b = {0};

	assert_true(breaker_concerns(&b, 0));
	assert_false(breaker_knows_answers(&b, 0));
	breaker_note_answer(&b, 0);
	assert_true(breaker_knows_answers(&b, 0));
	b.master.handler_generation = 1;
	assert_false(breaker_concerns(&b, 0));
	assert_true(breaker_concerns(&b, 1));
	assert_false(breaker_knows_answers(&b, 1));
	breaker_note_answer(&b, 1);
	assert_true(breaker_knows_answers(&b, 1));
}

/*
 * Messages that end their process before any handler has answered: each costs one short pause, and the pauses stay short. So a handler
 * that works is found behind any number of them, at a constant cost of each.
 */
TEST(probes_with_different_messages_follow_soon)
{
	struct board_queue b = {0};
	int64_t now = 1000, pause = 0;

	assert_true(breaker_mute(&b, CAUSE, 20, now));
	for (int i = 1; i < 1000; i++) {
		pause = breaker_until_ms(&b) - now;
		assert_in_range(pause, 250, i <= 64 ? 250 : 2000);
		now = breaker_until_ms(&b);
		assert_false(breaker_may_fetch(&b, now - 1));
		assert_true(breaker_may_fetch(&b, now));
		assert_false(breaker_may_fetch(&b, now + 900));		/* while the probe runs, no other follows at once */
		assert_false(breaker_mute(&b, CAUSE, 20, now));
	}
	assert_int_equal(pause, 2000);
	assert_true(breaker_succeeded(&b));
	assert_true(breaker_mute(&b, CAUSE, 20, now));
	assert_int_equal(breaker_until_ms(&b) - now, 250);
}

/* At most half of the time goes to its starts. */
TEST(a_handler_that_starts_slowly_is_tried_less_often)
{
	struct board_queue b = {0};

	breaker_mute(&b, CAUSE, 7000, 1000);
	assert_int_equal(breaker_until_ms(&b), 8000);
	breaker_mute(&b, CAUSE, 70000, 8000);
	assert_int_equal(breaker_until_ms(&b), 38000);
}

TEST(an_answer_can_be_doubted)
{
	struct board_queue b = {0};

	breaker_note_answer(&b, 0);
	breaker_doubt(&b);
	assert_false(breaker_knows_answers(&b, 0));
	breaker_note_answer(&b, 0);
	assert_true(breaker_knows_answers(&b, 0));
}

TEST(zero_never_opens)
{
	struct board_queue b = {0};

	for (int i = 0; i < 1000; i++) {
		char id[8];

		snprintf(id, sizeof(id), "m%d", i);
		assert_false(breaker_failed(&b, id_of(id), 0, NULL, 0));
	}
	assert_int_equal(breaker_until_ms(&b), 0);
}

/* The largest row the configuration allows is as long as what is remembered. */
TEST(the_longest_row)
{
	struct board_queue b = {0};

	for (int i = 1; i <= BREAKER_RING; i++) {
		char id[8];

		snprintf(id, sizeof(id), "m%d", i);
		assert_int_equal(breaker_failed(&b, id_of(id), BREAKER_RING, NULL, 0), i == BREAKER_RING);
		if (i < BREAKER_RING)
			assert_false(breaker_failed(&b, id_of("m1"), BREAKER_RING, NULL, 0));	/* the oldest is not forgotten */
	}
}

TEST(ids_tell_messages_apart)
{
	assert_true(id_of("a") == id_of("a"));
	assert_true(id_of("a") != id_of("b"));
	assert_true(id_of("ab") != id_of("ba"));
	assert_true(id_of("sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709") != id_of("sha1:da39a3ee5e6b4b0d3255bfef95601890afd8070a"));
}

static const char *cause_of(const struct board_queue *b, char out[HANDLER_CAUSE_SIZE])
{
	return handler_cause_text(atomic_load(&b->workers.breaker.cause), (char *[]){ (char *)"/opt/mail", NULL }, out);
}

/* The last evidence, also of a probe. */
TEST(its_cause_is_known)
{
	struct board_queue b = {0};
	struct handler_result last = { .end = HANDLER_EXITED, .code = 7 };
	char out[HANDLER_CAUSE_SIZE];

	assert_true(breaker_open(&b, handler_cause_unrunnable("execve", EACCES), 0));
	assert_string_equal(cause_of(&b, out), "its handler cannot be executed: execve /opt/mail: Permission denied");
	assert_false(breaker_open(&b, handler_cause_unrunnable("chdir", EACCES), 0));
	assert_string_equal(cause_of(&b, out), "its handler cannot be executed: chdir: Permission denied");
	assert_true(breaker_succeeded(&b));
	assert_false(breaker_failed(&b, id_of("a"), 2, &last, 0));
	assert_true(breaker_failed(&b, id_of("b"), 2, &last, 0));
	assert_string_equal(cause_of(&b, out), "2 different messages failed in a row, the last one with exit status 7");
	scoreboard_new_handler(&b, 1);
	assert_int_equal(atomic_load(&b.workers.breaker.cause), HANDLER_CAUSE_NONE);
}

UNIT_MAIN(NULL, NULL)
