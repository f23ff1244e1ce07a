/* links: tests/unit/worker/worker_fixture.c tests/unit/worker/fake_persistent.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* A persistent handler that gets the SIGTERM of a stop before its worker hears of it. */
#include <signal.h>
#include <string.h>

#include "common/base/base.h"
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

/* The process gets two jobs, reads the first, and ends. */
static void end_with(enum persistent_how how, int code, int signal)
{
	FILL(0, "a", "b", "c");
	w->starter.may_start_us = w->now_us;
	runner_persistent.start(w, fixture_now_ms());
	process.end = (struct persistent_end){ .how = how, .code = code, .signal = signal, .read_any = true, .unanswered = 2,
		.oldest = process.given[0], .unread_from = process.given[1] };
	process.has_ended = true;
	runner_persistent.end(w, fixture_now_ms());
}

static void next_turn(void)
{
	runner_persistent.end(w, fixture_now_ms());
	runner_persistent.start(w, fixture_now_ms());
}

static void assert_undecided(void)
{
	next_turn();
	assert_int_equal(fixture_item(0, 0)->state, ITEM_RUNNING);
	assert_int_equal(fixture_item(0, 2)->state, ITEM_WAITING);
	assert_int_equal(process.starts, 1);		/* the last words of the old one lie in the buffers of the next */
	assert_int_equal(runner_persistent.room(w), 0);
	assert_false(runner_persistent.dismiss(w, fixture_now_ms()));
}

TEST(a_stop_that_follows_hands_all_back, setup, teardown)
{
	static const int ends[][2] = { { -1, SIGTERM }, { 143, 0 }, { 130, 0 }, { -1, SIGHUP } };

	for (size_t i = 0; i < nitems(ends); i++) {
		end_with(ends[i][0] == -1 ? PERSISTENT_SIGNALED : PERSISTENT_EXITED, ends[i][0], ends[i][1]);
		assert_undecided();
		w->exit.order = ORDER_FINISH;
		runner_persistent.end(w, fixture_now_ms());
		for (int item = 0; item < 2; item++) {
			assert_int_equal(fixture_item(0, item)->state, ITEM_MOVING);
			assert_int_equal(fixture_item(0, item)->move, MOVE_HAND_BACK);
		}
		assert_null(fixture_item(0, 1)->outcome);	/* unread: unchanged */
		assert_int_equal(fixture_counted(COUNT_FAILED), 0);
		assert_int_equal(breaker_until_ms(fixture.env->board), 0);
		assert_true(runner_persistent.dismiss(w, fixture_now_ms()));
		teardown(state);
		setup(state);
	}
}

TEST(without_a_stop_its_end_counts_after_a_moment, setup, teardown)
{
	end_with(PERSISTENT_SIGNALED, -1, SIGTERM);
	assert_undecided();
	fixture_pass_ms(exit_deadline_ms(w, fixture_now_ms()) - fixture_now_ms());
	next_turn();
	assert_int_equal(fixture_item(0, 0)->state, ITEM_MOVING);
	assert_int_equal(process.starts, 2);
	assert_true(breaker_until_ms(fixture.env->board) != 0);		/* it has never answered: the handler may be broken */
}

/* Its other jobs are no cause of that end, and neither is the handler. */
TEST(a_cancelled_job_ends_its_process_and_charges_no_other, setup, teardown)
{
	FILL(0, "a", "b", "c");
	w->starter.may_start_us = w->now_us;
	runner_persistent.start(w, fixture_now_ms());
	w->cancels.all = alloc_zero(1, sizeof(*w->cancels.all));
	w->cancels.all[0] = (struct cancel){ .place = PLACE(0, 1), .serial = fixture_item(0, 1)->serial, .order = { .by = "ada@web1" } };
	w->cancels.n = 1;
	runner_persistent.cancel(w, fixture_now_ms());
	assert_int_equal(process.cancels, 1);
	process.end = (struct persistent_end){ .how = PERSISTENT_CANCELLED, .code = -1, .signal = SIGKILL, .read_any = true, .unanswered = 2,
		.suspects = 2, .jobs_read = 2, .oldest = process.given[0], .unread_from = UINT64_MAX };
	process.has_ended = true;
	runner_persistent.end(w, fixture_now_ms());
	assert_int_equal(fixture_item(0, 0)->move, MOVE_HAND_BACK);
	assert_non_null(strstr(fixture_item(0, 0)->outcome->line.data, "redelivered=1"));
	assert_null(strstr(fixture_item(0, 0)->outcome->line.data, "solo"));
	assert_int_equal(fixture_item(0, 1)->move, MOVE_ESCAPE);
	assert_string_equal(fixture_item(0, 1)->outcome->record.error_class, "Cancelled");
	assert_true(w->cancels.all[0].settled);
	assert_int_equal(fixture_counted(COUNT_FAILED), 0);
	assert_int_equal(breaker_until_ms(fixture.env->board), 0);
	cancel_free(w);
}

UNIT_MAIN(NULL, NULL)
