/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c tests/unit/worker/evidence_fixture.c */
/* ldflags: -Wl,--wrap=queue_annotate */
/* How a worker tells a sweeper that it was ordered to stop, and what it does if Redis refuses. test_evidence_trial.c: which message is on trial. */
#include <stdio.h>
#include <string.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/evidence_fixture.h"

static void answer(enum redis_type type, int64_t now_ms)
{
	const struct redis_reply reply = { .type = type, .integer = 1, .str = "READONLY", .len = 8 };

	evidence_answer(lone.w, (struct place){ -1, lone.last.item }, &reply, now_ms);
}

TEST(an_order_to_stop_is_told_once, evidence_fixture_setup, lone_worker_teardown)
{
	lone.w->exit.order = ORDER_QUIET;
	evidence_tick(lone.w, 0);
	assert_int_equal(noted.written, 0);
	lone.w->exit.order = ORDER_FINISH;
	evidence_tick(lone.w, 5);
	assert_string_equal(noted.key, "stopping");
	assert_string_equal(noted.value, "1");
	assert_int_equal(lone.last.answer, ANSWER_EVIDENCE);
	assert_int_equal(lone.due_ms, 5 + REDIS_TIMEOUT_MS);
	evidence_tick(lone.w, 5);
	answer(REDIS_INTEGER, 5);
	lone.w->exit.order = ORDER_HAND_BACK;
	evidence_tick(lone.w, 5);
	assert_int_equal(noted.written, 1);
	assert_int_equal(lone.reported + lone.cleared, 0);
}

TEST(a_refused_write_is_sent_again_after_a_second, evidence_fixture_setup, lone_worker_teardown)
{
	lone.w->exit.order = ORDER_FINISH;
	evidence_tick(lone.w, 1000);
	answer(REDIS_ERROR, 1000);
	assert_int_equal(lone.reported, 1);
	assert_string_equal(lone.at, "evidence");
	assert_int_equal(evidence_deadline_ms(lone.w, 1000), 2000);
	evidence_tick(lone.w, 1999);
	assert_int_equal(noted.written, 1);
	evidence_tick(lone.w, 2000);
	assert_int_equal(noted.written, 2);
	answer(REDIS_INTEGER, 2000);
	assert_int_equal(lone.cleared, 1);
	assert_int_equal(evidence_deadline_ms(lone.w, 2000), INT64_MAX);
}

TEST(an_answer_of_another_type_is_a_refusal, evidence_fixture_setup, lone_worker_teardown)
{
	lone.w->exit.order = ORDER_FINISH;
	evidence_tick(lone.w, 0);
	answer(REDIS_STRING, 0);
	assert_int_equal(lone.reported, 1);
	assert_false(lone.w->evidence.stop_noted);
}

/* The mover's error is still shown then. */
TEST(success_does_not_clear_an_error_of_a_move, evidence_fixture_setup, lone_worker_teardown)
{
	lone.w->exit.order = ORDER_FINISH;
	evidence_tick(lone.w, 0);
	answer(REDIS_ERROR, 0);
	lone.w->mover.retry.errors = 1;
	evidence_tick(lone.w, 1000);
	answer(REDIS_INTEGER, 1000);
	assert_int_equal(lone.cleared, 0);
}

TEST(nothing_is_written_without_a_registration, evidence_fixture_setup, lone_worker_teardown)
{
	struct worker *w = lone.w;

	w->exit.order = ORDER_FINISH;
	w->session.redis.state = REDIS_OPENING;
	evidence_tick(w, 0);
	w->session.redis.state = REDIS_READY;
	w->session.registered = false;
	evidence_tick(w, 0);
	w->session.registered = w->exit.leaving = true;
	evidence_tick(w, 0);
	w->exit.leaving = false;
	w->exit.left = true;
	evidence_tick(w, 0);
	assert_int_equal(noted.written, 0);
}

/* The renewal is sent before, so Redis knows the name when it reads the write. */
TEST(the_write_follows_the_renewal_at_once, evidence_fixture_setup, lone_worker_teardown)
{
	lone.w->exit.order = ORDER_FINISH;
	lone.w->session.registered = false;
	lone.w->session.renewing = true;
	evidence_tick(lone.w, 0);
	assert_int_equal(noted.written, 1);
}

TEST(a_new_name_is_told_of_the_order_again, evidence_fixture_setup, lone_worker_teardown)
{
	lone.w->exit.order = ORDER_FINISH;
	evidence_tick(lone.w, 0);
	answer(REDIS_INTEGER, 0);
	evidence_lost(lone.w);
	evidence_tick(lone.w, 0);
	assert_int_equal(noted.written, 2);
}

TEST(a_new_connection_ends_the_wait, evidence_fixture_setup, lone_worker_teardown)
{
	lone.w->exit.order = ORDER_FINISH;
	evidence_tick(lone.w, 0);
	answer(REDIS_ERROR, 0);
	evidence_lost(lone.w);
	evidence_tick(lone.w, 0);
	assert_int_equal(noted.written, 2);
}

TEST(a_worker_that_is_not_registered_waits_for_no_deadline, evidence_fixture_setup, lone_worker_teardown)
{
	lone.w->exit.order = ORDER_FINISH;
	evidence_tick(lone.w, 0);
	answer(REDIS_ERROR, 0);
	lone.w->session.registered = false;
	assert_int_equal(evidence_deadline_ms(lone.w, 0), INT64_MAX);
}

UNIT_MAIN(NULL, NULL)
