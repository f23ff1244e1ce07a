/* links: tests/unit/worker/worker_fixture.c tests/unit/worker/fake_persistent.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* One process for many messages: which messages it is given, and what its answers do to them. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/worker/fake_persistent.h"
#include "tests/unit/worker/worker_fixture.h"

static int setup(void **state)
{
	fixture_setup(state);
	w->starter.runner = &runner_persistent;
	runner_persistent.init(w);
	return 0;
}

static int teardown(void **state)
{
	runner_persistent.free(w);
	return fixture_teardown(state);
}

static void start(void)
{
	w->starter.may_start_us = w->now_us;
	runner_persistent.start(w, fixture_now_ms());
}

static void answer(uint64_t serial, enum handler_verb verb, int64_t delay_ms, const char *reason)
{
	process.replies[process.nreplies++] = (struct handler_reply){ .serial = serial, .verb = verb, .delay_ms = delay_ms,
		.reason = reason, .reason_len = strlen(reason) };
	runner_persistent.end(w, fixture_now_ms());
}

static void assert_state(int item, enum item_state state)
{
	assert_int_equal(fixture_item(0, item)->state, state);
}

static const struct outcome *assert_moves(int item, enum move move)
{
	assert_state(item, ITEM_MOVING);
	assert_int_equal(fixture_item(0, item)->move, move);
	return fixture_item(0, item)->outcome;
}

/* ---- jobs ---- */

TEST(the_process_gets_as_many_messages_as_it_takes, setup, teardown)
{
	FILL(0, "a", "b", "c");
	start();
	assert_int_equal(process.starts, 1);
	assert_int_equal(process.ngiven, 2);
	assert_int_equal(process.given[0], 1);		/* never 0: "OK 0" must acknowledge nothing */
	assert_state(1, ITEM_RUNNING);
	assert_state(2, ITEM_WAITING);
	assert_int_equal(runner_persistent.room(w), 0);
	answer(1, VERB_OK, -1, "");
	start();
	assert_int_equal(process.starts, 1);
	assert_state(2, ITEM_RUNNING);
}

TEST(a_slow_message_does_not_hold_up_those_that_come_long_after_it, setup, teardown)
{
	FILL(0, "a", "b", "c", "d", "e", "f", "g");
	start();
	for (uint64_t i = 1; i < 7; i++) {
		answer(process.given[i], VERB_OK, -1, "");
		assert_state((int)i, ITEM_DONE);
		start();
	}
	assert_int_equal(process.ngiven, 7);
	assert_state(0, ITEM_RUNNING);
	answer(1, VERB_OK, -1, "");
	assert_state(0, ITEM_DONE);
}

TEST(a_process_that_starts_up_gets_one_message, setup, teardown)
{
	process.ready = false;
	FILL(0, "a", "b");
	assert_int_equal(runner_persistent.room(w), 1);
	start();
	assert_int_equal(process.ngiven, 1);
	assert_false(runner_persistent.ready(w));
	process.ready = true;
	start();
	assert_int_equal(process.ngiven, 2);
}

TEST(a_failed_fork_gives_nothing, setup, teardown)
{
	process.fork_fails = true;
	FILL(0, "a");
	start();
	assert_int_equal(process.ngiven, 0);
	assert_int_equal(w->starter.retry.errors, 1);
	assert_state(0, ITEM_WAITING);
}

/* A window of one has entries for four serials. */
TEST(messages_that_must_not_run_are_never_given, setup, teardown)
{
	fixture.queue.message_max = 20;
	FILL(0, "quredis/2 x=1\na", "longer than message_max", "good");
	start();
	assert_int_equal(process.ngiven, 1);
	assert_moves(0, MOVE_ESCAPE);
	assert_moves(1, MOVE_ESCAPE);
	assert_state(2, ITEM_RUNNING);
}

TEST(jobs_that_are_not_written_are_taken_back_before_the_lease_ends, setup, teardown)
{
	process.room = 3;
	FILL(0, "a", "b", "c");
	start();
	tray_lose(&w->trays, PLACE(0, 2));
	process.unwritten_from = 2;
	fixture_pass_ms(1);
	runner_persistent.flush(w);
	assert_state(1, ITEM_RUNNING);
	w->starter.may_start_us = w->now_us;
	fake_time_sleep_ms(LEASE_MS);
	runner_persistent.flush(w);				/* the turn that gave them has checked the lease */
	assert_state(1, ITEM_RUNNING);
	fixture_pass_ms(1);
	runner_persistent.flush(w);
	assert_state(0, ITEM_RUNNING);
	assert_state(1, ITEM_WAITING);
	assert_state(2, ITEM_GONE);
	w->session.lease.until_ms += LEASE_MS + 10;
	start();
	assert_int_equal(process.given[process.ngiven - 1], 2);	/* the serial was never seen: it is used again */
	assert_state(1, ITEM_RUNNING);
}

/* Nothing is written to the handler once its worker has read a HOLD. What was written, it still runs. */
TEST(jobs_that_are_not_written_are_taken_back_at_a_hold, setup, teardown)
{
	process.room = 3;
	FILL(0, "a", "b", "c");
	start();
	process.unwritten_from = 3;
	answer(1, VERB_HOLD, 1000, "busy");
	fixture_pass_ms(1);
	runner_persistent.flush(w);
	assert_moves(0, MOVE_HOLD);
	assert_state(1, ITEM_RUNNING);
	assert_state(2, ITEM_WAITING);
	fixture_pass_ms(1);
	starter_tick(w, fixture_now_ms());
	assert_moves(2, MOVE_HAND_BACK);				/* as a message that was never given */
}

/* ---- answers ---- */

TEST(answers_settle_their_messages_in_any_order, setup, teardown)
{
	const struct outcome *o;

	process.room = 3;
	fixture.queue.max_attempts = 1;
	FILL(0, "a", "b", "c");
	start();
	answer(3, VERB_OK, -1, "");
	assert_state(2, ITEM_DONE);
	assert_state(0, ITEM_RUNNING);
	answer(1, VERB_FAIL, -1, "no such user");
	o = assert_moves(0, MOVE_ESCAPE);
	assert_string_equal(o->record.error_class, "HandlerFail");
	assert_string_equal(o->record.error_message, "FAIL: no such user");
	answer(2, VERB_RETRY, 5000, "");
	assert_int_equal(assert_moves(1, MOVE_RETRY)->delay_ms, 5000);
}

TEST(the_answer_to_a_lost_message_changes_nothing, setup, teardown)
{
	FILL(0, "a");
	start();
	tray_lose(&w->trays, PLACE(0, 0));
	answer(1, VERB_FAIL, -1, "");
	assert_int_equal(w->trays.tray[0].state, TRAY_EMPTY);
	assert_int_equal(fixture_counted(COUNT_FAILED), 0);
}

TEST(the_scoreboard_shows_when_the_oldest_job_must_be_over, setup, teardown)
{
	struct slot *slot = fixture.env->slot;

	FILL(0, "a", "b");
	start();
	process.timeout_at_ms = 1234;
	runner_persistent.end(w, fixture_now_ms());
	assert_int_equal(atomic_load(&slot->started_ms), fixture_now_ms());
	assert_int_equal(atomic_load(&slot->deadline_ms), 1234 + 5000);
	assert_int_equal(atomic_load(&slot->handler_pgid), 4321);
	process.timeout_at_ms = INT64_MAX;
	answer(1, VERB_OK, -1, "");
	assert_int_equal(atomic_load(&slot->deadline_ms), INT64_MAX);
	answer(2, VERB_OK, -1, "");
	assert_int_equal(atomic_load(&slot->deadline_ms), 0);
	assert_int_equal(atomic_load(&slot->started_ms), 0);
	assert_int_equal(w->trays.tray[0].state, TRAY_DELETING);
}

TEST(the_scoreboard_shows_the_progress_of_an_unanswered_job, setup, teardown)
{
	struct handler_reply progress = { .serial = 2, .verb = VERB_PROGRESS, .percent = 40, .reason = "page 2", .reason_len = 6 };
	struct slot *slot = fixture.env->slot;

	FILL(0, "a", "b");
	start();
	process.progress = &progress;
	runner_persistent.end(w, fixture_now_ms());
	assert_int_equal(slot_text_read(&slot->progress).number, 40);
	process.progress = NULL;
	answer(1, VERB_OK, -1, "");
	assert_int_equal(slot_text_read(&slot->progress).number, 40);
	process.progress = &progress;		/* it was said before the answer that is taken now */
	answer(2, VERB_OK, -1, "");
	assert_int_equal(slot_text_read(&slot->progress).number, -1);
}

TEST(lines_like_answers_to_no_job_are_counted, setup, teardown)
{
	FILL(0, "a");
	start();
	process.strays = 3;
	runner_persistent.end(w, fixture_now_ms());
	runner_persistent.end(w, fixture_now_ms());
	assert_int_equal(fixture_counted(COUNT_STRAY_ANSWERS), 3);
}

TEST(a_handler_that_answers_at_once_is_served_without_a_poll, setup, teardown)
{
	FILL(0, "a", "b", "c");
	start();
	assert_false(runner_persistent.go_on(w));
	process.reads = 1;
	process.replies[process.nreplies++] = (struct handler_reply){ .serial = 1, .verb = VERB_OK };
	assert_true(runner_persistent.go_on(w));
	assert_state(0, ITEM_DONE);
	assert_state(2, ITEM_RUNNING);
	process.reads = 1 << 30;			/* other events must not wait for long */
	assert_true(runner_persistent.go_on(w));
	assert_in_range(process.reads, (1 << 30) - 2001, (1 << 30) - 2);
}

/* ---- orders ---- */

TEST(orders_reach_only_a_running_process, setup, teardown)
{
	struct pollfd fds[RUNNER_POLLFDS];

	for (int running = 0; running < 2; running++) {
		process.running = running == 1;
		runner_persistent.stop(w, 0);
		runner_persistent.kill(w, 0);
		assert_int_equal(runner_persistent.dismiss(w, 0), !running);
		assert_int_equal(process.stops, running);
		assert_int_equal(process.kills, running);
		assert_int_equal(process.drains, running);
		assert_int_equal(runner_persistent.pollfds(w, fds), running ? 3 : 0);
		assert_int_equal(runner_persistent.deadline_ms(w), running ? 77 : INT64_MAX);
	}
	runner_persistent.io(w, NULL, 0, 0);
	assert_int_equal(process.quiets, 1);
}

UNIT_MAIN(NULL, NULL)
