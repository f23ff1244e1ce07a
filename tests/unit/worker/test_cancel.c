/* links: tests/unit/worker/worker_fixture.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* Orders to cancel messages: which message an order means, and what is written in its place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "tests/unit/unit.h"
#include "tests/unit/worker/worker_fixture.h"

#include "common/base/base.h"

#define OTHER "m.00000000000000b1.1.1"
#define ESCAPE INC " 0 0 0 escape ada@web1"

static int ended;

static void end_run(struct worker *worker, int64_t now_ms)
{
	(void)worker, (void)now_ms;
	ended++;
}

static const struct runner runner = { .cancel = end_run };

static int setup(void **state)
{
	fixture_setup(state);
	ended = 0;
	w->starter.runner = &runner;
	w->cancels.before = 0;
	atomic_store(&fixture.env->board->sweeper.cancels, 1);
	return 0;
}

static int teardown(void **state)
{
	cancel_free(w);
	return fixture_teardown(state);
}

/* The message arrived now. */
static void receive(const char *raw, bool runs)
{
	FILL(0, raw);
	for (int i = 0; i < w->trays.tray[0].n; i++)
		fixture_item(0, i)->received_us = w->now_us;
	if (runs)
		tray_start(&w->trays, PLACE(0, 0));
}

/* Asks, and gets one order for `payload` of this age. */
static void read_order(const char *payload, int64_t age_ms, const char *text)
{
	char field[ENCODE_SHA1_SIZE], age[24], resp[512];

	encode_sha1(payload, strlen(payload), field);
	snprintf(age, sizeof(age), "%lld", (long long)age_ms);
	snprintf(resp, sizeof(resp), "*3\r\n$40\r\n%s\r\n$%zu\r\n%s\r\n$%zu\r\nwanted %s\r\n", field, strlen(age), age,
	    strlen("wanted ") + strlen(text), text);
	cancel_tick(w, fixture_now_ms());
	assert_sent("cancels");
	assert_awaits(ANSWER_CANCELS, -1, CANCEL_READS);
	cancel_answer(w, PLACE(-1, CANCEL_READS), fixture_reply(resp), fixture_now_ms());
}

static void assert_noted(const char *text)
{
	static const char begin[] = "cancel_note t:lease:none quredis:of:i:cancels ";
	const char *sent = fixture_sent();

	assert_int_equal(strncmp(sent, begin, strlen(begin)), 0);
	assert_non_null(strstr(sent, text));
	assert_awaits(ANSWER_CANCELS, -1, CANCEL_NOTES);
	cancel_answer(w, PLACE(-1, CANCEL_NOTES), fixture_integer(1), fixture_now_ms());
	assert_true(cancel_deadline_ms(w, fixture_now_ms()) <= fixture_now_ms());		/* what the operator sees follows at once */
}

static void assert_untouched(enum item_state state)
{
	assert_int_equal(ended, 0);
	assert_int_equal(fixture_item(0, 0)->state, state);
	assert_sent_nothing();
}

TEST(without_orders_nothing_is_asked, setup, teardown)
{
	atomic_store(&fixture.env->board->sweeper.cancels, 0);
	cancel_tick(w, fixture_now_ms());
	assert_sent_nothing();
	assert_int_equal(cancel_deadline_ms(w, fixture_now_ms()), INT64_MAX);
}

TEST(what_comes_into_the_same_tray_later_does_not_make_a_message_younger, setup, teardown)
{
	receive("a", true);
	fixture_pass_ms(100);
	FILL(0, "b");
	fixture_item(0, 1)->received_us = w->now_us;
	read_order("a", 50, ESCAPE);
	assert_int_equal(ended, 1);
}

TEST(the_run_ends_and_then_the_result_is_written, setup, teardown)
{
	receive("a", true);
	fixture_pass_ms(100);
	read_order("a", 50, ESCAPE);
	assert_int_equal(ended, 1);
	assert_sent_nothing();
	fixture_pass_ms(1000);
	read_order("a", 1050, ESCAPE);		/* it is being ended: once is enough */
	assert_int_equal(ended, 1);
	cancel_settle(w, PLACE(0, 0), &(struct handler_result){ .end = HANDLER_CANCELLED, .code = -1, .signal = 15 });
	assert_int_equal(fixture_item(0, 0)->move, MOVE_ESCAPE);
	assert_string_equal(fixture_item(0, 0)->outcome->record.error_class, "Cancelled");
	assert_string_equal(fixture_item(0, 0)->outcome->error_message, "cancelled by ada@web1");
	fixture_pass_ms(1000);
	read_order("a", 2050, ESCAPE);		/* Redis has not answered to the move */
	assert_sent_nothing();
	mover_tick(w, fixture_now_ms());
	assert_non_null(strstr(fixture_sent(), " wanted " ESCAPE " ended escaped "));	/* the move writes the result */
	assert_int_equal(fixture_counted(COUNT_FAILED), 0);
}

TEST(it_is_handed_back_with_the_same_attempt, setup, teardown)
{
	receive("a", true);
	fixture_pass_ms(100);
	read_order("a", 50, INC " 0 0 0 retry ada@web1");
	cancel_settle(w, PLACE(0, 0), &(struct handler_result){ .end = HANDLER_CANCELLED, .code = -1, .signal = 15 });
	assert_int_equal(fixture_item(0, 0)->move, MOVE_HAND_BACK);
	mover_tick(w, fixture_now_ms());
	assert_non_null(strstr(fixture_sent(), " wanted " INC " 0 0 0 retry ada@web1 ended handed_back"));
}

TEST(a_message_that_waits_here_does_not_start, setup, teardown)
{
	receive("a", false);
	fixture_pass_ms(100);
	read_order("a", 50, ESCAPE);
	assert_int_equal(ended, 0);
	assert_int_equal(fixture_item(0, 0)->move, MOVE_ESCAPE);
}

TEST(an_equal_message_that_came_later_runs_on, setup, teardown)
{
	receive("a", true);
	fixture_pass_ms(100);
	read_order("a", 500, ESCAPE);
	assert_untouched(ITEM_RUNNING);		/* perhaps: the order stays */
	fixture_pass_ms(1000);
	read_order("a", -3600000, ESCAPE);	/* the clock of Redis was set back */
	assert_untouched(ITEM_RUNNING);
}

TEST(what_has_ended_by_itself_is_not_running, setup, teardown)
{
	receive("b", true);
	fixture_pass_ms(100);
	read_order("a", 50, ESCAPE);
	assert_int_equal(ended, 0);
	assert_noted("ended not_running");
}

TEST(another_process_answers_for_its_own_tray, setup, teardown)
{
	receive("a", true);
	fixture_pass_ms(100);
	read_order("a", 50, OTHER " 0 0 0 escape ada@web1");
	assert_untouched(ITEM_RUNNING);
	fixture_pass_ms(1000);
	w->cancels.before = UINT64_MAX;		/* INC is of an earlier process in this slot */
	read_order("b", 50, ESCAPE);
	assert_untouched(ITEM_RUNNING);
}

/* The worker puts its own name into the order first: of several equal messages one ends. */
TEST(a_message_that_was_taken_over_ends_here, setup, teardown)
{
	receive(fixture_sealed("quredis/1 w=0000000000000001 redelivered=1\na"), true);
	fixture_pass_ms(100);
	read_order("a", 60000, OTHER " 0 0 0 escape ada@web1");
	assert_int_equal(ended, 0);
	assert_noted("wanted " INC " 0 0 0 escape ada@web1");
	read_order("a", 60001, ESCAPE);
	assert_int_equal(ended, 1);
}

/* Another worker answered to the first order, and a second one for the same bytes stands in its place. */
TEST(the_result_of_an_order_answers_to_no_other_order, setup, teardown)
{
	receive("a", true);
	fixture_pass_ms(100);
	read_order("a", 50, INC " 0 0 0 retry ada@web1");
	cancel_settle(w, PLACE(0, 0), &(struct handler_result){ .end = HANDLER_CANCELLED, .code = -1, .signal = 15 });
	mover_gone(w, PLACE(0, 0));
	tray_close(&w->trays, 0);
	receive(fixture_sealed("quredis/1 w=0000000000000001 redelivered=1\na"), true);
	fixture_pass_ms(1000);
	read_order("a", 50, INC " 0 1 0 retry ada@web1");
	assert_int_equal(ended, 2);
	assert_sent_nothing();
}

/* The worker that handed it back has not written that yet. */
TEST(a_message_that_was_handed_back_runs, setup, teardown)
{
	static const char *const owners[] = { OTHER, INC };

	receive(fixture_sealed("quredis/1 w=0000000000000001 redelivered=1\na"), true);
	for (size_t i = 0; i < nitems(owners); i++) {
		char text[128];

		snprintf(text, sizeof(text), "%s 0 0 0 retry ada@web1", owners[i]);
		fixture_pass_ms(1000);
		read_order("a", 60000, text);
		assert_int_equal(ended, 0);
		assert_noted("ended handed_back");
	}
}

TEST(what_was_retried_since_is_another_run, setup, teardown)
{
	receive(fixture_sealed("quredis/1 w=0000000000000001 attempts=1 redelivered=1\na"), true);
	fixture_pass_ms(100);
	read_order("a", 60000, OTHER " 0 0 0 escape ada@web1");
	assert_untouched(ITEM_RUNNING);
}

TEST(strange_orders_are_left_alone, setup, teardown)
{
	static const char *const texts[] = { "", INC, INC " 0 0 0 delete ada@web1", "x 0 0 0 escape", INC " a b c escape ada" };

	receive("a", true);
	for (size_t i = 0; i < nitems(texts); i++) {
		fixture_pass_ms(1000);
		read_order("a", 10, texts[i]);
		assert_untouched(ITEM_RUNNING);
	}
	fixture_pass_ms(1000);
	cancel_tick(w, fixture_now_ms());
	fixture_forget_sent();
	cancel_answer(w, PLACE(-1, CANCEL_READS), fixture_reply("-WRONGTYPE no\r\n"), fixture_now_ms());
	assert_untouched(ITEM_RUNNING);
}

static void cancel_a(void)
{
	receive("a", true);
	fixture_pass_ms(100);
	read_order("a", 50, ESCAPE);
	cancel_settle(w, PLACE(0, 0), &(struct handler_result){ .end = HANDLER_CANCELLED, .code = -1, .signal = 15 });
}

static void assert_order_stays(void)
{
	fixture_forget_sent();
	fixture_pass_ms(1000);
	w->session.answers.first = w->session.answers.next;
	read_order("a", 1050, ESCAPE);
	assert_sent_nothing();		/* neither "escaped" nor "not_running" would be true */
}

TEST(what_was_set_aside_is_not_said_to_run_no_more, setup, teardown)
{
	cancel_a();
	for (int i = 0; i < MOVE_ATTEMPTS; i++) {
		fixture_pass_ms(20000);
		w->session.lease.until_ms = clock_boottime_ms() + LEASE_MS;
		mover_tick(w, fixture_now_ms());
		mover_answer(w, PLACE(0, 0), fixture_reply("-WRONGTYPE no\r\n"), fixture_now_ms());
	}
	assert_int_equal(fixture_item(0, 0)->move, MOVE_ASIDE);
	mover_gone(w, PLACE(0, 0));
	tray_close(&w->trays, 0);
	assert_order_stays();
}

TEST(what_another_process_took_is_not_said_to_run_no_more, setup, teardown)
{
	cancel_a();
	mover_tick(w, fixture_now_ms());
	mover_answer(w, PLACE(0, 0), fixture_integer(0), fixture_now_ms());
	w->session.registered = true;
	assert_order_stays();
}

TEST(at_a_stop_a_refused_escape_goes_back_without_a_result, setup, teardown)
{
	cancel_a();
	mover_tick(w, fixture_now_ms());
	fixture_forget_sent();
	w->exit.order = ORDER_HAND_BACK;
	mover_answer(w, PLACE(0, 0), fixture_reply("-WRONGTYPE no\r\n"), fixture_now_ms());
	assert_int_equal(fixture_item(0, 0)->move, MOVE_HAND_BACK);
	mover_tick(w, fixture_now_ms());
	assert_null(strstr(fixture_sent(), "ended"));
}

TEST(a_note_that_failed_is_written_at_the_next_look, setup, teardown)
{
	static const char *const replies[] = { "-NOPERM no\r\n", ":0\r\n" };

	for (size_t i = 0; i < nitems(replies); i++) {
		fixture_pass_ms(1000);
		read_order("a", 50, ESCAPE);
		assert_sent("cancel_note");
		assert_awaits(ANSWER_CANCELS, -1, CANCEL_NOTES);
		cancel_answer(w, PLACE(-1, CANCEL_NOTES), fixture_reply(replies[i]), fixture_now_ms());
		assert_true(cancel_deadline_ms(w, fixture_now_ms()) > fixture_now_ms());
	}
}

TEST(no_more_orders_are_read_than_a_queue_may_have, setup, teardown)
{
	char resp[32 * 1024];
	size_t len = (size_t)snprintf(resp, sizeof(resp), "*%d\r\n", 3 * (QUEUE_CANCELS_MAX + 1));

	for (int i = 0; i <= QUEUE_CANCELS_MAX; i++)
		len += (size_t)snprintf(resp + len, sizeof(resp) - len, "$40\r\n%040d\r\n$2\r\n50\r\n$%zu\r\nwanted " ESCAPE "\r\n", i,
		    strlen("wanted " ESCAPE));
	cancel_tick(w, fixture_now_ms());
	assert_sent("cancels");
	cancel_answer(w, PLACE(-1, CANCEL_READS), fixture_reply(resp), fixture_now_ms());
	for (int i = 0; i < QUEUE_CANCELS_MAX; i++)
		assert_sent("cancel_note");
	assert_sent_nothing();
}

UNIT_MAIN(NULL, NULL)
