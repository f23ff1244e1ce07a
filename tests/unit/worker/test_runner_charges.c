/* links: tests/unit/worker/worker_fixture.c tests/unit/worker/fake_persistent.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* The end of a process that stays: which message is charged, which one runs again and how, and when the handler itself is suspected. */
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

static void end_with(struct persistent_end e)
{
	process.end = e;
	process.has_ended = true;
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

/* "": unchanged */
static void assert_goes_back(int item, const char *with)
{
	const struct outcome *o = assert_moves(item, MOVE_HAND_BACK);

	if (with[0] == '\0')
		assert_null(o);
	else
		assert_non_null(memmem(o->line.data, o->line.len, with, strlen(with)));
}

static bool is_open(void)
{
	return breaker_until_ms(fixture.env->board) != 0;
}

/* ---- ends ---- */

/* Two jobs were given, the handler of this queue has answered before, and the process ends. */
static void end_of_two(struct persistent_end e)
{
	FILL(0, "a", "b");
	start();
	breaker_note_answer(fixture.env->board, 0);
	end_with(e);
	assert_false(is_open());
	assert_int_equal(atomic_load(&fixture.env->slot->started_ms), 0);
}

TEST(of_several_unanswered_jobs_none_is_charged_and_each_runs_alone, setup, teardown)
{
	end_of_two((struct persistent_end){ .how = PERSISTENT_EXITED, .code = 1, .read_any = true, .jobs_read = 2, .suspects = 2,
		.unanswered = 2, .oldest = 1, .unread_from = UINT64_MAX });
	assert_goes_back(0, " solo=1 mac=");
	assert_goes_back(1, " solo=1 mac=");
	assert_int_equal(fixture_counted(COUNT_FAILED), 0);
}

TEST(the_only_job_that_a_process_has_read_is_charged, setup, teardown)
{
	fixture.queue.max_attempts = 1;
	process.room = 1;
	end_of_two((struct persistent_end){ .how = PERSISTENT_SIGNALED, .code = -1, .signal = SIGSEGV, .read_any = true, .jobs_read = 1,
	    .suspects = 1, .unanswered = 1,
		.oldest = 1, .unread_from = UINT64_MAX });
	assert_string_equal(assert_moves(0, MOVE_ESCAPE)->record.error_message, "killed by SIGSEGV");
	assert_state(1, ITEM_WAITING);
}

TEST(a_process_may_die_of_a_job_that_it_has_answered, setup, teardown)
{
	process.room = 1;
	end_of_two((struct persistent_end){ .how = PERSISTENT_SIGNALED, .code = -1, .signal = SIGSEGV, .read_any = true, .answered_any = true,
		.jobs_read = 2, .suspects = 1, .unanswered = 1, .oldest = 1, .unread_from = UINT64_MAX });
	assert_goes_back(0, " redelivered=1 solo=1 fresh=1 mac=");
	assert_int_equal(fixture_counted(COUNT_FAILED), 0);
}

TEST(a_process_whose_input_was_closed_charges_nobody, setup, teardown)
{
	process.room = 1;
	end_of_two((struct persistent_end){ .how = PERSISTENT_EXITED, .code = 1, .asked = true, .read_any = true, .jobs_read = 1, .suspects = 1,
		.unanswered = 1, .oldest = 1, .unread_from = UINT64_MAX });
	assert_goes_back(0, " redelivered=1 solo=1 mac=");
}

TEST(a_message_that_needs_a_fresh_process_gets_one, setup, teardown)
{
	process.running = true;
	FILL(0, fixture_sealed("quredis/1 w=0000000000000001 solo=1 fresh=1\na"));
	start();
	assert_int_equal(process.drains, 1);
	assert_int_equal(process.ngiven, 0);
	assert_state(0, ITEM_WAITING);
	end_with((struct persistent_end){ .how = PERSISTENT_EXITED, .asked = true, .read_any = true, .jobs_read = 1 });
	start();
	assert_int_equal(process.starts, 1);
	assert_int_equal(process.drains, 1);
	assert_state(0, ITEM_RUNNING);
}

TEST(a_job_that_was_not_read_goes_back_unchanged, setup, teardown)
{
	end_of_two((struct persistent_end){ .how = PERSISTENT_EXITED, .code = 1, .read_any = true, .jobs_read = 1, .suspects = 1, .unanswered = 2,
		.oldest = 1, .unread_from = 2 });
	assert_moves(0, MOVE_RETRY);
	assert_goes_back(1, "");
}

TEST(a_stopped_process_hands_back_what_it_has_read, setup, teardown)
{
	end_of_two((struct persistent_end){ .how = PERSISTENT_STOPPED, .code = -1, .signal = SIGTERM, .read_any = true, .unanswered = 2,
		.oldest = 1, .unread_from = 2 });
	assert_goes_back(0, " redelivered=1 mac=");
	assert_goes_back(1, "");
}

TEST(a_timeout_charges_the_only_job_that_a_process_has_read, setup, teardown)
{
	fixture.queue.max_attempts = 1;
	end_of_two((struct persistent_end){ .how = PERSISTENT_TIMED_OUT, .code = -1, .signal = SIGKILL, .read_any = true, .jobs_read = 1, .suspects = 1,
		.unanswered = 2, .oldest = 1, .unread_from = 2, .duration_ms = 700, .odd_lines = 2 });
	assert_string_equal(assert_moves(0, MOVE_ESCAPE)->record.error_message,
	    "timed out after 700 ms; it never answered: 2 odd lines");
	assert_goes_back(1, "");
	assert_int_equal(fixture_counted(COUNT_TIMED_OUT), 1);
}

/* It may wait for the other one, or for one that is answered. */
TEST(a_timeout_of_a_process_that_has_read_others_charges_nobody, setup, teardown)
{
	end_of_two((struct persistent_end){ .how = PERSISTENT_TIMED_OUT, .code = -1, .signal = SIGKILL, .read_any = true, .answered_any = true,
		.jobs_read = 3, .suspects = 2, .unanswered = 2, .oldest = 1, .unread_from = UINT64_MAX });
	assert_goes_back(0, " redelivered=1 solo=1 fresh=1 mac=");
	assert_goes_back(1, " redelivered=1 solo=1 mac=");
	assert_int_equal(fixture_counted(COUNT_FAILED), 0);
	assert_int_equal(fixture_logged(" signal=SIGKILL reason=timeout "), 1);
}

/* `defaults` may set the key for functions of other queues. */
TEST(a_handler_that_is_no_function_is_not_isolated, setup, teardown)
{
	fixture.queue.max_attempts = 1;
	fixture.queue.isolate = true;
	end_of_two((struct persistent_end){ .how = PERSISTENT_TIMED_OUT, .code = -1, .signal = SIGKILL, .read_any = true, .answered_any = true,
		.jobs_read = 3, .suspects = 2, .unanswered = 2, .oldest = 1, .unread_from = UINT64_MAX });
	assert_goes_back(0, " redelivered=1 solo=1 fresh=1 mac=");
	assert_goes_back(1, " redelivered=1 solo=1 mac=");
}

TEST(a_timeout_of_an_isolated_function_charges_the_oldest, setup, teardown)
{
	fixture.queue.max_attempts = 1;
	fixture.queue.function = (char *)(uintptr_t)"/srv/jobs.py";
	fixture.queue.isolate = true;
	end_of_two((struct persistent_end){ .how = PERSISTENT_TIMED_OUT, .code = -1, .signal = SIGKILL, .read_any = true, .answered_any = true,
		.jobs_read = 3, .suspects = 2, .unanswered = 2, .oldest = 1, .unread_from = UINT64_MAX, .duration_ms = 700 });
	assert_string_equal(assert_moves(0, MOVE_ESCAPE)->record.error_message, "timed out after 700 ms");
	assert_goes_back(1, " redelivered=1 mac=");
}

TEST(a_lost_message_is_gone_with_the_process, setup, teardown)
{
	FILL(0, "a");
	start();
	tray_lose(&w->trays, PLACE(0, 0));
	breaker_note_answer(fixture.env->board, 0);
	end_with((struct persistent_end){ .how = PERSISTENT_EXITED, .code = 1, .read_any = true, .unanswered = 1, .oldest = 1, .unread_from = UINT64_MAX });
	assert_int_equal(w->trays.tray[0].state, TRAY_EMPTY);
}

/* ---- whose fault an end is ---- */

static bool opens_the_breaker(bool answered_before, struct persistent_end e)
{
	bool open;

	FILL(0, "a");
	start();
	if (answered_before)
		breaker_note_answer(fixture.env->board, 0);
	e.unanswered = 1;
	e.suspects = (int)(e.jobs_read = e.read_any);
	e.oldest = w->persistent.next_serial - 1;
	e.unread_from = e.read_any ? UINT64_MAX : 0;
	end_with(e);
	open = is_open();
	breaker_succeeded(fixture.env->board);
	tray_gone(&w->trays, PLACE(0, 0));
	tray_close(&w->trays, 0);
	process.room = 2;
	return open;
}

TEST(a_handler_is_broken_if_no_message_can_be_the_cause_of_its_end, setup, teardown)
{
	assert_true(opens_the_breaker(true, (struct persistent_end){ .how = PERSISTENT_UNRUNNABLE, .code = -1, .error = ENOENT, .stage = "execve",
		.asked = true }));
	assert_int_equal(fixture_logged("at=execve error=\"No such file or directory\""), 1);
	assert_true(opens_the_breaker(true, (struct persistent_end){ .how = PERSISTENT_EXITED, .code = 1 }));
	assert_false(opens_the_breaker(true, (struct persistent_end){ .how = PERSISTENT_EXITED, .code = 1, .read_any = true }));
	assert_false(opens_the_breaker(true, (struct persistent_end){ .how = PERSISTENT_EXITED, .code = 1, .answered_any = true }));
	assert_false(opens_the_breaker(true, (struct persistent_end){ .how = PERSISTENT_EXITED, .asked = true }));
	assert_false(opens_the_breaker(true, (struct persistent_end){ .how = PERSISTENT_STOPPED, .code = -1 }));
}

/* Status shows them as the words of the last failure: the end of a healthy process does not replace them. */
TEST(only_a_handler_that_is_suspected_leaves_its_last_words, setup, teardown)
{
	const struct persistent_end healthy[] = {
		{ .how = PERSISTENT_EXITED, .asked = true, .read_any = true, .answered_any = true },
		{ .how = PERSISTENT_EXITED, .asked = true },
		{ .how = PERSISTENT_STOPPED, .code = -1, .signal = SIGTERM, .read_any = true },
		{ .how = PERSISTENT_EXITED, .answered_any = true },
	};

	assert_true(opens_the_breaker(false, (struct persistent_end){ .how = PERSISTENT_EXITED, .code = 1, .read_any = true, .stderr_tail = "no\n",
		.stderr_len = 3 }));
	assert_string_equal(slot_text_read(&fixture.env->slot->failure).text, "no");
	assert_true(opens_the_breaker(true, (struct persistent_end){ .how = PERSISTENT_EXITED, .code = 1, .stderr_tail = "no memory\n", .stderr_len = 10 }));
	assert_string_equal(slot_text_read(&fixture.env->slot->failure).text, "no memory");
	for (size_t i = 0; i < sizeof(healthy) / sizeof(healthy[0]); i++) {
		struct persistent_end e = healthy[i];

		e.stderr_tail = "bye\n";
		e.stderr_len = 4;
		assert_false(opens_the_breaker(true, e));
		assert_string_equal(slot_text_read(&fixture.env->slot->failure).text, "no memory");
	}
	assert_true(opens_the_breaker(true, (struct persistent_end){ .how = PERSISTENT_SIGNALED, .code = -1, .signal = SIGKILL, .stderr_tail = "" }));
	assert_string_equal(slot_text_read(&fixture.env->slot->failure).text, "");	/* it is silent, and the words are of another process */
}

TEST(before_its_first_answer_a_handler_is_suspected_and_not_its_message, setup, teardown)
{
	assert_false(opens_the_breaker(false, (struct persistent_end){ .how = PERSISTENT_TIMED_OUT, .code = -1, .read_any = true }));
	assert_int_equal(fixture_counted(COUNT_FAILED), 1);
	assert_true(opens_the_breaker(false, (struct persistent_end){ .how = PERSISTENT_EXITED, .code = 1, .read_any = true }));
	assert_int_equal(fixture_counted(COUNT_FAILED), 1);
}

/* Each message may end this handler, or only this one: it goes behind all others, and the next probe, which another one is, follows soon. */
TEST(before_the_first_answer_nobody_is_charged, setup, teardown)
{
	const struct persistent_end e = { .how = PERSISTENT_EXITED, .code = 1, .read_any = true, .jobs_read = 1, .suspects = 1, .unanswered = 1, .oldest = 1,
		.unread_from = UINT64_MAX };

	for (int i = 0; i < 3; i++) {
		FILL(0, fixture_sealed("quredis/1 w=0000000000000001 solo=1 fresh=1\na"));
		start();
		end_with(e);
		assert_goes_back(0, " solo=1 fresh=1 mac=");
		assert_true(assert_moves(0, MOVE_HAND_BACK)->last);
		assert_true(is_open());
		assert_true(breaker_until_ms(fixture.env->board) <= fixture_now_ms() + 250);
		tray_gone(&w->trays, PLACE(0, 0));
		tray_close(&w->trays, 0);
		process.room = 2;
	}
	assert_int_equal(fixture_counted(COUNT_FAILED), 0);
	breaker_note_answer(fixture.env->board, 0);
	FILL(0, fixture_sealed("quredis/1 w=0000000000000001 solo=1 fresh=1\na"));
	start();
	end_with(e);
	assert_moves(0, MOVE_RETRY);
	assert_int_equal(fixture_counted(COUNT_FAILED), 1);
}

UNIT_MAIN(NULL, NULL)
