/* links: tests/unit/worker/worker_fixture.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* Messages that come one by one to a handler that takes more: they share trays. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/worker/worker_fixture.h"

#define AT_ONCE(tray) "RPOPLPUSH i " TRAY(tray)

static void tick(void)
{
	fetcher_tick(w, fixture_now_ms());
}

static void answer(int tray, const struct redis_reply *reply)
{
	fetcher_answer(w, PLACE(tray, 0), reply, fixture_now_ms());
}

static void run(int tray, int item)
{
	starter_describe(w, PLACE(tray, item));
	starter_started(w, PLACE(tray, item));
}

static void run_two_in_each_tray(void)
{
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		FILL(i, "a", "b");
		run(i, 0);
		run(i, 1);
	}
}

/* Of messages that come one by one, as many run at once as the handler takes. */
TEST(while_messages_run_in_all_trays_one_of_them_takes_more, fixture_setup, fixture_teardown)
{
	w->pacing.message_us = 10;
	w->pacing.batch = 8;
	run_two_in_each_tray();
	fixture.runner.room = 0;
	tick();
	assert_sent_nothing();
	assert_true(admission_judge(w).until_ms == INT64_MAX);
	fixture.runner.room = 2;
	tick();
	assert_sent(AT_ONCE(0));
	assert_sent(AT_ONCE(0));
	assert_sent_nothing();			/* and none to wait */
	fixture.runner.room = 0;
	answer(0, fixture_string("c"));
	settle_done(w, PLACE(0, 0), 1);
	tray_close(&w->trays, 0);
	assert_int_equal(w->trays.tray[0].state, TRAY_FETCHING);
	answer(0, fixture_reply("$-1\r\n"));
	assert_int_equal(w->trays.tray[0].state, TRAY_FILLED);
	assert_int_equal(w->pacing.batch, 1);		/* one came of two */
	assert_int_equal(tray_count(&w->trays, ITEM_WAITING), 1);
}

/* They leave one by one, which costs Redis more than a tray as a whole. */
TEST(messages_of_a_fast_handler_do_not_share_trays, fixture_setup, fixture_teardown)
{
	run_two_in_each_tray();
	fixture.runner.room = 1;
	w->fetcher.fetched_us = w->now_us;
	tick();
	assert_sent_nothing();
	assert_int_equal(admission_judge(w).until_ms, fixture_now_ms() + 3);
	w->now_us += 3000;
	tick();
	assert_sent(AT_ONCE(0));
}

TEST(a_tray_whose_messages_end_during_its_fetch_is_acknowledged, fixture_setup, fixture_teardown)
{
	run_two_in_each_tray();
	fixture.runner.room = 1;
	tick();
	settle_done(w, PLACE(0, 0), 1);
	settle_done(w, PLACE(0, 1), 1);
	tray_close(&w->trays, 0);
	assert_int_equal(w->trays.tray[0].state, TRAY_FETCHING);
	answer(0, fixture_reply("$-1\r\n"));
	assert_int_equal(w->trays.tray[0].state, TRAY_DELETING);
}

/* A DEL of the tray may be far away: after a crash, all that was done since would run again. */
TEST(a_message_leaves_alone_if_its_tray_took_more_while_it_ran, fixture_setup, fixture_teardown)
{
	run_two_in_each_tray();
	settle_done(w, PLACE(1, 0), 1);
	settle_done(w, PLACE(0, 0), 1);
	mover_tick(w, fixture_now_ms());
	assert_sent_nothing();
	FILL(0, "c");
	mover_tick(w, fixture_now_ms());
	assert_sent("done t:lease:" INC " " TRAY(0));		/* which looks at the lease: "c" might be equal */
	assert_sent_nothing();
	assert_awaits(ANSWER_MOVE, 0, 0);
	mover_answer(w, PLACE(0, 0), fixture_integer(1), fixture_now_ms());
	assert_int_equal(fixture_item(0, 0)->state, ITEM_GONE);
	assert_int_equal(w->trays.tray[0].state, TRAY_FILLED);
	assert_int_equal(fixture_counted(COUNT_DONE), 1);
}

static char large[QUEUE_BY_VALUE_MAX + 2];

/* The payload does not go back to Redis, and small ones need not wait for it while it runs. */
TEST(a_large_message_of_a_refilled_tray_goes_by_its_place, fixture_setup, fixture_teardown)
{
	memset(large, 'a', sizeof(large) - 1);
	run_two_in_each_tray();
	settle_done(w, PLACE(0, 0), 1);
	FILL(0, "c");
	mover_tick(w, fixture_now_ms());
	assert_sent("done t:lease:" INC " " TRAY(0));
	mover_answer(w, PLACE(0, 0), fixture_integer(1), fixture_now_ms());
	tray_ask(&w->trays, 0, 1);
	tray_add(&w->trays, 0, large, strlen(large), false);		/* where "a" was */
	tray_answered(&w->trays, 0);
	tray_filled(&w->trays, 0);
	assert_int_equal(fixture_item(0, 0)->len, strlen(large));
	run(0, 0);
	run(0, 2);
	settle_done(w, PLACE(0, 2), 1);
	mover_tick(w, fixture_now_ms());
	assert_sent("done t:lease:" INC " " TRAY(0) " quredis:of:i:done 1 '' '' c");
	settle_done(w, PLACE(0, 0), 1);
	mover_tick(w, fixture_now_ms());
	assert_sent_nothing();						/* its place is not certain yet */
	mover_answer(w, PLACE(0, 2), fixture_integer(1), fixture_now_ms());
	mover_tick(w, fixture_now_ms());
	assert_sent("done t:lease:" INC " " TRAY(0) " quredis:of:i:done 1 -2/2/0 4097 ");
}

/* By age, not by tray: what goes back to the pop end last is fetched first. */
TEST(messages_of_refilled_trays_go_back_newest_first, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b");
	FILL(1, "c");
	run(0, 0);
	settle_done(w, PLACE(0, 0), 1);
	FILL(0, "d");
	mover_tick(w, fixture_now_ms());
	assert_sent("done t:lease:" INC " " TRAY(0) " quredis:of:i:done 1 '' '' a");
	settle_relieve(w, PLACE(-1, -1));
	mover_tick(w, fixture_now_ms());
	assert_sent(HAND_BACK(0) "'' '' d");
	assert_sent(HAND_BACK(1) "'' '' c");
	assert_sent(HAND_BACK(0) "'' '' b");
	assert_sent_nothing();
}

/* Redis may have taken the next messages before it reads the hand-back, which would then go behind them. */
TEST(messages_go_back_after_those_of_a_fetch_that_is_under_way, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	tray_ask(&w->trays, 1, 1);
	settle_relieve(w, PLACE(-1, -1));
	mover_tick(w, fixture_now_ms());
	assert_sent_nothing();
	answer(1, fixture_string("b"));
	fixture_forget_sent();
	settle_relieve(w, PLACE(-1, -1));
	mover_tick(w, fixture_now_ms());
	assert_sent(HAND_BACK(1) "'' '' b");
	assert_sent(HAND_BACK(0) "'' '' a");
	assert_sent_nothing();
}

/* The slow ones are no probe. */
TEST(a_probe_that_is_over_is_followed_by_the_next_while_others_run, fixture_setup, fixture_teardown)
{
	FILL(0, "slow");
	run(0, 0);
	fixture.runner.room = 5;
	breaker_open(fixture.env->board, HANDLER_CAUSE_NONE, fixture_now_ms());
	tick();
	assert_sent_nothing();
	fixture_pass_ms(500);
	tick();
	assert_sent(AT_ONCE(1));
	answer(1, fixture_string("probe"));
	fixture_forget_sent();
	fixture_pass_ms(20000);
	tick();
	assert_sent_nothing();						/* it is still here */
	run(1, 0);
	tray_move(&w->trays, PLACE(1, 0), MOVE_RETRY);
	tray_gone(&w->trays, PLACE(1, 0));
	tray_close(&w->trays, 1);
	tick();
	assert_sent(AT_ONCE(2));
}

UNIT_MAIN(NULL, NULL)
