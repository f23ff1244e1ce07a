/* links: tests/unit/worker/worker_fixture.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* What the end of a handler means for its message: done, retry, escape, or back to ingress. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/worker/worker_fixture.h"

#define P PLACE(0, 0)

static void end_of(const char *raw, struct handler_result result)
{
	FILL(0, raw);
	starter_describe(w, P);
	starter_started(w, P);
	verdict_of_exec(w, P, &result, fixture_now_ms());
}

static void assert_moves(enum move move)
{
	assert_int_equal(fixture_item(0, 0)->state, ITEM_MOVING);
	assert_int_equal(fixture_item(0, 0)->move, move);
}

static void assert_record(const char *class, const char *message)
{
	assert_moves(MOVE_ESCAPE);
	assert_string_equal(fixture_item(0, 0)->outcome->record.error_class, class);
	assert_string_equal(fixture_item(0, 0)->outcome->record.error_message, message);
}

TEST(the_exit_status_decides, fixture_setup, fixture_teardown)
{
	end_of("a", (struct handler_result){ .end = HANDLER_EXITED, .code = 0 });
	assert_int_equal(w->trays.tray[0].state, TRAY_DELETING);
	fixture_teardown(state);
	fixture_setup(state);
	end_of("a", (struct handler_result){ .end = HANDLER_EXITED, .code = 75 });
	assert_moves(MOVE_RETRY);
	fixture_teardown(state);
	fixture_setup(state);
	end_of("a", (struct handler_result){ .end = HANDLER_EXITED, .code = 65 });
	assert_record("Rejected", "exit status 65");
	fixture_teardown(state);
	fixture_setup(state);
	fixture.queue.max_attempts = 1;
	end_of("a", (struct handler_result){ .end = HANDLER_EXITED, .code = 255, .duration_ms = 1001 });
	assert_record("HandlerExit", "exit status 255");
}

TEST(the_last_line_of_stderr_says_why, fixture_setup, fixture_teardown)
{
	static const char text[] = "first\nlast words \r\n\n";

	end_of("a", (struct handler_result){ .end = HANDLER_EXITED, .code = 65, .stderr_tail = text, .stderr_len = strlen(text) });
	assert_record("Rejected", "exit status 65: last words");
}

TEST(a_long_last_line_is_cut_at_its_front, fixture_setup, fixture_teardown)
{
	char text[1001];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 'y';
	end_of("a", (struct handler_result){ .end = HANDLER_EXITED, .code = 65, .stderr_tail = text, .stderr_len = sizeof(text) });
	assert_int_equal(strlen(fixture_item(0, 0)->outcome->record.error_message), strlen("exit status 65: ") + 200);
	assert_int_equal(fixture_item(0, 0)->outcome->record.error_message[strlen("exit status 65: ") + 199], 'y');
}

TEST(a_signal_is_a_failure_of_its_own_class, fixture_setup, fixture_teardown)
{
	fixture.queue.max_attempts = 1;
	end_of("a", (struct handler_result){ .end = HANDLER_SIGNALED, .code = -1, .signal = SIGSEGV });
	assert_record("HandlerSignal", "killed by SIGSEGV");
	assert_int_equal(fixture_counted(COUNT_TIMED_OUT), 0);
}

/* Even a status that means done: the handler had more time than it may take. */
TEST(a_timeout_is_a_failure_whatever_the_status, fixture_setup, fixture_teardown)
{
	fixture.queue.max_attempts = 1;
	end_of("a", (struct handler_result){ .end = HANDLER_TIMED_OUT, .code = 0, .duration_ms = 1000 });
	assert_record("HandlerTimeout", "timed out after 1000 ms");
	assert_int_equal(fixture_counted(COUNT_TIMED_OUT), 1);
}

TEST(a_stopped_handler_that_finished_its_message_is_done, fixture_setup, fixture_teardown)
{
	end_of("a", (struct handler_result){ .end = HANDLER_STOPPED, .code = 0, .exit_after_stop = true });
	assert_int_equal(w->trays.tray[0].state, TRAY_DELETING);
}

TEST(any_other_end_after_a_stop_hands_back, fixture_setup, fixture_teardown)
{
	static const struct handler_result ends[] = {
		{ .end = HANDLER_STOPPED, .code = -1, .signal = SIGKILL },
		{ .end = HANDLER_STOPPED, .code = 65, .exit_after_stop = true },
		{ .end = HANDLER_STOPPED, .code = 0, .exit_after_stop = false },
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		end_of("a", ends[i]);
		assert_moves(MOVE_HAND_BACK);
		assert_true(fixture_item(0, 0)->outcome->rewritten);	/* it may have run: redelivered */
		assert_int_equal(fixture_counted(COUNT_FAILED), 0);
		tray_gone(&w->trays, P);
		tray_close(&w->trays, 0);
	}
}

TEST(a_handler_that_cannot_run_charges_no_message, fixture_setup, fixture_teardown)
{
	for (int i = 0; i < 2; i++) {
		end_of("a", (struct handler_result){ .end = HANDLER_UNRUNNABLE, .code = -1, .error = i == 0 ? ENOENT : E2BIG, .stage = "execve" });
		assert_moves(MOVE_HAND_BACK);
		assert_null(fixture_item(0, 0)->outcome);
		assert_true(breaker_until_ms(fixture.env->board) != 0);
		assert_int_equal(fixture_counted(COUNT_UNRUNNABLE), i + 1);
		tray_gone(&w->trays, P);
		tray_close(&w->trays, 0);
	}
}

TEST(a_message_that_can_be_no_argument_escapes_and_charges_no_handler, fixture_setup, fixture_teardown)
{
	end_of("a", (struct handler_result){ .end = HANDLER_UNREPRESENTABLE, .code = -1 });
	assert_moves(MOVE_ESCAPE);
	assert_string_equal(fixture_item(0, 0)->outcome->record.error_class, "Unrepresentable");
	assert_int_equal(breaker_until_ms(fixture.env->board), 0);
}

/* Another worker owns the message. */
TEST(the_end_of_a_lost_message_changes_nothing, fixture_setup, fixture_teardown)
{
	const struct handler_result failed = { .end = HANDLER_EXITED, .code = 1 };

	FILL(0, "a");
	starter_describe(w, P);
	starter_started(w, P);
	tray_lose(&w->trays, P);
	verdict_of_exec(w, P, &failed, fixture_now_ms());
	assert_int_equal(w->trays.tray[0].state, TRAY_EMPTY);
	assert_int_equal(fixture_counted(COUNT_FAILED), 0);
	mover_tick(w, fixture_now_ms());
	assert_sent_nothing();
}

TEST(a_reply_names_its_class, fixture_setup, fixture_teardown)
{
	static const struct {
		struct handler_reply reply;
		enum conf_outcome outcome;
		const char *class, *text;
	} cases[] = {
		{ { .verb = VERB_FAIL }, CONF_OUTCOME_FAIL, "HandlerFail", "FAIL" },
		{ { .verb = VERB_FAIL, .class = "Gone!", .class_len = 4, .reason = "away", .reason_len = 4 }, CONF_OUTCOME_FAIL, "Gone", "FAIL: away" },
		{ { .verb = VERB_REJECT, .class = "Broken", .class_len = 6 }, CONF_OUTCOME_ESCAPE, "Broken", "REJECT" },
		{ { .verb = VERB_REJECT, .class = "WorkerLost", .class_len = 10 }, CONF_OUTCOME_ESCAPE, "Rejected", "REJECT" },
		{ { .verb = VERB_RETRY, .class = "Busy", .class_len = 4 }, CONF_OUTCOME_RETRY, "Busy", "RETRY" },
		{ { .verb = VERB_RETRY }, CONF_OUTCOME_RETRY, FAILED_RETRY, "RETRY" },
		{ { .verb = VERB_HOLD }, CONF_OUTCOME_RETRY, FAILED_RETRY, "HOLD" },
		{ { .verb = VERB_FAIL, .class = "HandlerRetry", .class_len = 12 }, CONF_OUTCOME_FAIL, "HandlerFail", "FAIL" },
	};

	for (size_t i = 0; i < nitems(cases); i++) {
		struct failure failure = {0};

		verdict_of_reply(&failure, &cases[i].reply);
		assert_int_equal(failure.verdict, cases[i].outcome);
		assert_string_equal(failure.class, cases[i].class);
		assert_string_equal(failure.text, cases[i].text);
	}
}

UNIT_MAIN(NULL, NULL)
