/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c tests/unit/worker/evidence_fixture.c */
/* ldflags: -Wl,--wrap=queue_annotate */
/* The trial of a suspect: when the suspect may start, what Redis must know before, and when the trial ends. */
#include <stdio.h>
#include <string.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/evidence_fixture.h"

#define SUSPECT "quredis/1 w=00000000000000ab outages=2 solo=1\na"
#define MY_SLOT 2		/* slot + 1 */

static struct place fetched(int tray, const char *raw)
{
	lone_worker_add_sealed(tray, raw);
	if (lone.w->trays.tray[tray].state == TRAY_EMPTY)
		tray_filled(&lone.w->trays, tray);
	return AT(tray, lone.w->trays.tray[tray].n - 1);
}

static void answer(enum redis_type type, int64_t now_ms)
{
	const struct redis_reply reply = { .type = type, .integer = 1, .str = "READONLY", .len = 8 };

	evidence_answer(lone.w, (struct place){ -1, lone.last.item }, &reply, now_ms);
}

static int32_t on_trial(void)
{
	return atomic_load(&lone.board->workers.trial);
}

/* A suspect whose trial Redis has confirmed. */
static struct place tried(int64_t now_ms)
{
	struct place p = fetched(0, SUSPECT);

	assert_false(evidence_may_start(lone.w, p));
	evidence_tick(lone.w, now_ms);
	answer(REDIS_INTEGER, now_ms);
	assert_true(evidence_may_start(lone.w, p));
	return p;
}

TEST(a_message_of_one_outage_needs_no_trial, evidence_fixture_setup, lone_worker_teardown)
{
	assert_true(evidence_may_start(lone.w, fetched(0, "quredis/1 w=00000000000000ab outages=1 crashes=1\na")));
	assert_int_equal(on_trial(), 0);
	evidence_tick(lone.w, 0);
	assert_int_equal(noted.written, 0);
}

/* Else a producer could stop all trials of a supervisor. */
TEST(a_forged_suspect_gets_no_trial, evidence_fixture_setup, lone_worker_teardown)
{
	lone_worker_add(0, "quredis/1 w=00000000000000ab outages=9 mac=00000000000000000000000000000000\na");
	tray_filled(&lone.w->trays, 0);
	assert_true(evidence_may_start(lone.w, AT(0, 0)));
	assert_int_equal(on_trial(), 0);
}

TEST(a_suspect_starts_when_redis_has_its_name, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = fetched(0, SUSPECT);

	assert_false(evidence_may_start(lone.w, p));
	assert_int_equal(on_trial(), MY_SLOT);
	evidence_tick(lone.w, 0);
	assert_string_equal(noted.key, "trial");
	assert_string_equal(noted.value, "00000000000000ab");
	assert_false(evidence_may_start(lone.w, p));
	evidence_tick(lone.w, 0);
	assert_int_equal(noted.written, 1);
	answer(REDIS_INTEGER, 0);
	assert_true(evidence_may_start(lone.w, p));
}

TEST(a_new_name_is_told_of_the_trial_again, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = tried(0);

	evidence_lost(lone.w);
	assert_false(evidence_may_start(lone.w, p));
	evidence_tick(lone.w, 0);
	assert_int_equal(noted.written, 2);
	assert_string_equal(noted.value, "00000000000000ab");
	answer(REDIS_INTEGER, 0);
	assert_true(evidence_may_start(lone.w, p));
}

TEST(a_refused_trial_keeps_the_suspect_waiting, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = fetched(0, SUSPECT);

	assert_false(evidence_may_start(lone.w, p));
	evidence_tick(lone.w, 1000);
	answer(REDIS_ERROR, 1000);
	assert_false(evidence_may_start(lone.w, p));
	assert_int_equal(evidence_deadline_ms(lone.w, 1000), 2000);
	evidence_tick(lone.w, 2000);
	assert_int_equal(noted.written, 2);
	answer(REDIS_INTEGER, 2000);
	assert_true(evidence_may_start(lone.w, p));
}

TEST(an_answer_for_an_earlier_name_confirms_nothing, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = fetched(0, SUSPECT);

	assert_false(evidence_may_start(lone.w, p));
	evidence_tick(lone.w, 0);
	evidence_lost(lone.w);
	answer(REDIS_INTEGER, 0);
	assert_false(evidence_may_start(lone.w, p));
}

TEST(a_withdrawal_under_an_earlier_name_ends_no_trial, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = tried(0);

	tray_move(&lone.w->trays, p, MOVE_RETRY);
	tray_move_refused(&lone.w->trays, p, true);
	evidence_tick(lone.w, 0);
	assert_string_equal(noted.value, "");
	evidence_lost(lone.w);
	answer(REDIS_INTEGER, 0);
	assert_int_equal(on_trial(), MY_SLOT);
	assert_int_equal(lone.w->evidence.trial_noted, TRIAL_UNTOLD);
}

TEST(during_the_trial_of_another_worker_a_suspect_gets_none, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = fetched(0, SUSPECT);

	atomic_store(&lone.board->workers.trial, 7);
	assert_false(evidence_may_start(lone.w, p));
	assert_false(evidence_is_on_trial(lone.w, p));
	assert_int_equal(on_trial(), 7);
	evidence_tick(lone.w, 0);
	assert_int_equal(noted.written, 0);
}

/* A note has no nonce. */
TEST(in_a_shared_queue_a_trial_is_named_by_the_sha1, evidence_fixture_setup_shared, lone_worker_teardown)
{
	const struct wrapper suspect = { .outages = 2 };

	lone_worker_add(0, "a");
	tray_filled(&lone.w->trays, 0);
	tray_add_note(&lone.w->trays, AT(0, 0), &suspect);
	assert_false(evidence_may_start(lone.w, AT(0, 0)));
	evidence_tick(lone.w, 0);
	assert_string_equal(noted.value, "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8");
}

TEST(a_trial_lasts_until_its_message_has_left_the_tray, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = tried(0);

	tray_start(&lone.w->trays, p);
	evidence_tick(lone.w, 0);
	tray_done(&lone.w->trays, p, 0, 0);
	tray_close(&lone.w->trays, 0);
	evidence_tick(lone.w, 0);
	assert_int_equal(on_trial(), MY_SLOT);
	tray_empty(&lone.w->trays, 0);
	evidence_tick(lone.w, 0);
	assert_int_equal(on_trial(), 0);
	assert_int_equal(noted.written, 1);
}

TEST(a_message_that_is_gone_ends_its_trial_without_a_connection, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = tried(0);

	lone_worker_add(0, "b");
	tray_gone(&lone.w->trays, p);
	lone.w->session.redis.state = REDIS_CLOSED;
	evidence_tick(lone.w, 0);
	assert_int_equal(on_trial(), 0);
}

/* An operator may take days to repair Redis; other suspects must not wait for that. */
TEST(a_refused_move_ends_the_trial_when_redis_has_forgotten_it, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = tried(0);

	tray_start(&lone.w->trays, p);
	tray_move(&lone.w->trays, p, MOVE_ESCAPE);
	evidence_tick(lone.w, 0);
	assert_int_equal(noted.written, 1);
	tray_move_refused(&lone.w->trays, p, true);
	evidence_tick(lone.w, 0);
	assert_int_equal(noted.written, 2);
	assert_string_equal(noted.key, "trial");
	assert_string_equal(noted.value, "");
	assert_int_equal(on_trial(), MY_SLOT);
	answer(REDIS_INTEGER, 0);
	assert_int_equal(on_trial(), 0);
	evidence_tick(lone.w, 0);
	assert_int_equal(noted.written, 2);
}

TEST(a_refused_acknowledgement_ends_the_trial, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = tried(0);

	tray_start(&lone.w->trays, p);
	tray_done(&lone.w->trays, p, 0, 0);
	tray_close(&lone.w->trays, 0);
	tray_delete_refused(&lone.w->trays, 0, true);
	evidence_tick(lone.w, 0);
	assert_string_equal(noted.value, "");
	answer(REDIS_INTEGER, 0);
	assert_int_equal(on_trial(), 0);
}

TEST(a_trial_that_redis_does_not_forget_goes_on, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = tried(0);

	tray_move(&lone.w->trays, p, MOVE_RETRY);
	tray_move_refused(&lone.w->trays, p, true);
	evidence_tick(lone.w, 0);
	answer(REDIS_ERROR, 0);
	assert_int_equal(on_trial(), MY_SLOT);
	assert_int_equal(evidence_deadline_ms(lone.w, 0), 1000);
	evidence_tick(lone.w, 999);
	assert_int_equal(noted.written, 2);
	evidence_tick(lone.w, 1000);
	assert_int_equal(noted.written, 3);
}

/* A new connection, under whose name nothing was written. */
TEST(a_trial_that_redis_does_not_know_ends_without_a_write, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = tried(0);

	tray_move(&lone.w->trays, p, MOVE_RETRY);
	tray_move_refused(&lone.w->trays, p, true);
	evidence_lost(lone.w);
	evidence_tick(lone.w, 0);
	assert_int_equal(on_trial(), 0);
	assert_int_equal(noted.written, 1);
}

TEST(a_trial_that_is_over_has_no_deadline, evidence_fixture_setup, lone_worker_teardown)
{
	struct place p = fetched(0, SUSPECT);

	assert_false(evidence_may_start(lone.w, p));
	evidence_tick(lone.w, 0);
	answer(REDIS_ERROR, 0);
	assert_int_equal(evidence_deadline_ms(lone.w, 0), 1000);
	tray_gone(&lone.w->trays, p);
	evidence_tick(lone.w, 0);
	assert_int_equal(evidence_deadline_ms(lone.w, 0), INT64_MAX);
}

UNIT_MAIN(NULL, NULL)
