/* links: tests/unit/worker/worker_fixture.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* When the worker fetches, how many messages, with which command, and what the answers change. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/worker/worker_fixture.h"

#define BLOCKS(tray) "BRPOPLPUSH i " TRAY(tray) " 2"
#define AT_ONCE(tray) "RPOPLPUSH i " TRAY(tray)
#define AT_MAXMEMORY(tray) "fetch t:lease:" INC " i " TRAY(tray) " 30000"
#define OOM "-OOM command not allowed when used memory > 'maxmemory'.\r\n"

static void tick(void)
{
	fetcher_tick(w, fixture_now_ms());
}

static void assert_fetches(const char *command, int tray)
{
	tick();
	assert_sent(command);
	assert_awaits(ANSWER_FETCH, tray, 0);
}

static void assert_fetches_nothing(void)
{
	tick();
	assert_sent_nothing();
}

static void answer(int tray, const struct redis_reply *reply)
{
	fetcher_answer(w, PLACE(tray, 0), reply, fixture_now_ms());
}

/* Sends a fetch, whose answers the test gives. */
static void fetch(void)
{
	tick();
	fixture_forget_sent();
	w->session.answers.first = w->session.answers.next;
}

static void run(int tray, int item)
{
	starter_describe(w, PLACE(tray, item));
	starter_started(w, PLACE(tray, item));
}

static int64_t deadline_in(void)
{
	int64_t at = admission_judge(w).until_ms;

	return at == INT64_MAX ? at : at - fixture_now_ms();
}

static void make_pace(double message_us, int batch)
{
	w->pacing.message_us = message_us;
	w->pacing.batch = batch;
}

/* ---- when ---- */

TEST(a_worker_without_messages_waits_in_a_blocking_fetch, fixture_setup, fixture_teardown)
{
	assert_fetches(BLOCKS(0), 0);
	assert_true(w->session.redis.deadline_ms == fixture_now_ms() + 2000 + REDIS_TIMEOUT_MS);
	assert_fetches_nothing();		/* one at a time */
	assert_int_equal(deadline_in(), INT64_MAX);
}

TEST(a_short_lease_shortens_the_block, fixture_setup, fixture_teardown)
{
	w->session.owner.lease_ms = 8000;
	assert_fetches("BRPOPLPUSH i " TRAY(0) " 1", 0);
}

TEST(nothing_is_fetched_under_orders_or_without_a_lease, fixture_setup, fixture_teardown)
{
	w->exit.order = ORDER_QUIET;
	assert_fetches_nothing();
	w->exit.order = ORDER_RUN;
	atomic_store(&fixture.env->board->sweeper.gate, QUEUE_PAUSED);
	assert_fetches_nothing();
	assert_int_equal(deadline_in(), INT64_MAX);		/* the master sends a signal when it opens */
	atomic_store(&fixture.env->board->sweeper.gate, QUEUE_OPEN);
	fixture_pass_ms(LEASE_MS);
	assert_fetches_nothing();
	w->session.lease.until_ms += LEASE_MS;
	assert_fetches(BLOCKS(0), 0);
}

TEST(nothing_is_fetched_while_something_must_be_settled_first, fixture_setup, fixture_teardown)
{
	w->mover.retry.errors = 1;
	assert_fetches_nothing();
	assert_int_equal(deadline_in(), INT64_MAX);
	w->mover.retry.errors = 0;
	w->starter.solo_running = true;
	assert_fetches_nothing();
	w->starter.solo_running = false;
	FILL(0, "a", "b");
	fixture.runner.room = 9;
	w->trays.tray[0].solos = 1;
	assert_fetches_nothing();
	w->trays.tray[0].solos = 0;
	tray_set_notes(&w->trays, 0, NOTES_WANTED);
	assert_fetches_nothing();
	tray_set_notes(&w->trays, 0, NOTES_KNOWN);
	settle_hand_back(w, PLACE(0, 0), SETTLE_AS_IT_WAS);		/* a message fetched now would overtake it */
	assert_fetches_nothing();
	tray_move_sent(&w->trays, PLACE(0, 0), true);
	settle_hand_back(w, PLACE(0, 1), SETTLE_AS_IT_WAS);
	tray_move_sent(&w->trays, PLACE(0, 1), true);
	assert_fetches(AT_ONCE(1), 1);		/* and does not block, so that Redis reads what is still to be sent */
}

TEST(an_acknowledgement_that_is_not_sent_holds_up_a_fetch, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	run(0, 0);
	tray_done(&w->trays, PLACE(0, 0), 0, 0);
	tray_close(&w->trays, 0);
	assert_fetches_nothing();
	tray_delete_sent(&w->trays, 0, true);
	assert_fetches(BLOCKS(1), 1);
}

/* ---- how many ---- */

TEST(fast_messages_are_fetched_in_batches, fixture_setup, fixture_teardown)
{
	make_pace(10, 4);
	tick();
	for (int i = 0; i < 4; i++) {
		assert_sent(AT_ONCE(0));
		assert_awaits(ANSWER_FETCH, 0, 0);
	}
	assert_sent_nothing();
}

TEST(the_next_batch_is_fetched_while_the_last_one_runs, fixture_setup, fixture_teardown)
{
	make_pace(10, 2);
	FILL(0, "a", "b", "c");
	run(0, 0);
	fixture.runner.room = 0;
	assert_fetches_nothing();		/* two wait: enough */
	run(0, 1);
	tick();
	assert_sent(AT_ONCE(1));
	assert_sent(AT_ONCE(1));
	assert_sent_nothing();
}

TEST(a_slow_handler_gets_no_second_message, fixture_setup, fixture_teardown)
{
	make_pace(10, 2);
	FILL(0, "a");
	run(0, 0);
	fixture.runner.room = 0;
	fixture_pass_ms(1000);
	assert_fetches_nothing();
	assert_int_equal(deadline_in(), INT64_MAX);
}

TEST(a_window_is_filled_however_long_a_message_takes, fixture_setup, fixture_teardown)
{
	make_pace(20000, 4);
	FILL(0, "a", "b");
	run(0, 0);
	fixture.runner.room = 3;
	fixture_pass_ms(1000);
	tick();
	assert_sent(AT_ONCE(1));
	assert_sent(AT_ONCE(1));
	assert_sent_nothing();			/* one that waits takes the third place */
}

TEST(a_handler_that_starts_up_gets_one_message, fixture_setup, fixture_teardown)
{
	make_pace(10, 4);
	fixture.runner.not_ready = true;
	assert_fetches(BLOCKS(0), 0);
	assert_sent_nothing();
}

TEST(trays_are_used_in_turn, fixture_setup, fixture_teardown)
{
	for (int i = 0; i < 2 * QUEUE_TRAYS; i++) {
		tick();
		assert_int_equal(w->trays.tray[i % QUEUE_TRAYS].state, TRAY_FETCHING);
		answer(i % QUEUE_TRAYS, fixture_reply("$-1\r\n"));
		assert_true(tray_all_empty(&w->trays));
	}
}

/* ---- the breaker ---- */

TEST(an_open_breaker_lets_one_probe_through_which_does_not_block, fixture_setup, fixture_teardown)
{
	make_pace(10, 4);
	breaker_open(fixture.env->board, HANDLER_CAUSE_NONE, fixture_now_ms());
	assert_fetches_nothing();
	assert_int_equal(deadline_in(), 500);
	fixture_pass_ms(500);
	assert_fetches(AT_ONCE(0), 0);
	assert_sent_nothing();
	assert_true(w->pacing.probing);
	answer(0, fixture_string("a"));
	fixture_forget_sent();
	fixture.runner.room = 5;
	fixture_pass_ms(60000);
	w->session.lease.until_ms += 60000;
	assert_fetches_nothing();		/* the probe is still here */
}

/* ---- answers ---- */

TEST(messages_that_arrive_fill_the_tray_and_a_full_fetch_doubles, fixture_setup, fixture_teardown)
{
	make_pace(10, 2);
	tick();
	answer(0, fixture_string("a"));
	assert_int_equal(w->trays.tray[0].state, TRAY_FETCHING);
	answer(0, fixture_string("b"));
	assert_int_equal(w->trays.tray[0].state, TRAY_FILLED);
	assert_int_equal(w->trays.tray[0].n, 2);
	assert_int_equal(w->pacing.batch, 4);
	assert_int_equal(fixture_counted(COUNT_FETCHED), 2);
}

TEST(a_fetch_that_found_too_few_ends_the_batches_and_pauses, fixture_setup, fixture_teardown)
{
	make_pace(10, 2);
	fetch();
	w->fetcher.fetched_us = w->now_us;
	answer(0, fixture_string("a"));
	answer(0, fixture_reply("$-1\r\n"));
	assert_int_equal(w->pacing.batch, 1);
	make_pace(10, 2);
	fixture.runner.room = 5;
	assert_fetches_nothing();
	assert_int_equal(deadline_in(), 20);
	fixture_pass_ms(20);
	tick();
	assert_sent(AT_ONCE(1));
}

/* Pushed after a pause of which the sweeper does not know yet, it must not run. */
TEST(a_worker_that_waited_long_asks_whether_the_queue_is_paused, fixture_setup, fixture_teardown)
{
	fetch();
	answer(0, fixture_string("a"));
	assert_sent("STRLEN quredis:of:i:paused");
	assert_awaits(ANSWER_PAUSED, -1, 0);
	assert_true(w->fetcher.asking_paused);
	fetcher_paused_answer(w, PLACE(-1, 0), fixture_integer(1), fixture_now_ms());
	assert_false(w->fetcher.asking_paused);
	assert_false(admission_lets_work(w));
	fixture_pass_ms(500);
	assert_true(admission_lets_work(w));
	settle_relieve(w, PLACE(-1, -1));
	tray_gone(&w->trays, PLACE(0, 0));
	tray_close(&w->trays, 0);
	fetch();
	w->fetcher.fetched_us = w->now_us;
	answer(1, fixture_string("b"));
	assert_sent("STRLEN quredis:of:i:paused");			/* soon after a pause: again */
	fetcher_paused_answer(w, PLACE(-1, 0), fixture_integer(0), fixture_now_ms());
	assert_true(admission_lets_work(w));
	assert_int_equal(w->fetcher.paused_until_us, 0);
}

TEST(a_busy_worker_does_not_ask_for_pauses, fixture_setup, fixture_teardown)
{
	tick();
	answer(0, fixture_string("a"));
	fetcher_paused_answer(w, PLACE(-1, 0), fixture_integer(0), fixture_now_ms());
	fixture_forget_sent();
	fixture_pass_ms(100);
	fixture.runner.room = 2;
	tick();
	assert_sent(AT_ONCE(1));
	answer(1, fixture_string("b"));
	assert_sent_nothing();
	assert_false(w->fetcher.asking_paused);
}

/* Redis answers the question right behind the message, so the message does not wait for it. */
TEST(the_question_for_a_pause_leaves_with_a_fetch_that_blocks, fixture_setup, fixture_teardown)
{
	w->fetcher.fetched_us = w->now_us;
	assert_fetches(BLOCKS(0), 0);
	assert_sent("STRLEN quredis:of:i:paused");
	assert_awaits(ANSWER_PAUSED, -1, 0);
	assert_true(w->session.redis.deadline_ms == fixture_now_ms() + 2000 + REDIS_TIMEOUT_MS);
	fixture_pass_ms(1900);
	answer(0, fixture_string("a"));
	assert_sent_nothing();
	assert_true(w->fetcher.asking_paused);		/* and the message does not start before the answer */
	fetcher_paused_answer(w, PLACE(-1, 0), fixture_integer(1), fixture_now_ms());
	assert_false(w->fetcher.asking_paused || admission_lets_work(w));
}

TEST(a_fetch_after_a_long_silence_costs_no_question, fixture_setup, fixture_teardown)
{
	w->fetcher.fetched_us = w->now_us;
	fixture_pass_ms(1000);
	assert_fetches(BLOCKS(0), 0);
	assert_sent_nothing();
	answer(0, fixture_string("a"));
	assert_sent("STRLEN quredis:of:i:paused");
}

/* ---- errors ---- */

TEST(the_errors_of_one_fetch_are_one_step_of_the_back_off, fixture_setup, fixture_teardown)
{
	make_pace(10, 2);
	fetch();
	answer(0, fixture_reply("-WRONGTYPE no\r\n"));
	answer(0, fixture_reply("-WRONGTYPE no\r\n"));
	assert_int_equal(w->pacing.retry.errors, 1);
	assert_true(tray_all_empty(&w->trays));
	assert_int_equal(fixture_logged("event=redis_error"), 1);
	assert_fetches_nothing();
	assert_in_range(deadline_in(), 50, 100);
	fixture_pass_ms(100);
	assert_fetches(BLOCKS(1), 1);
	answer(1, fixture_reply("$-1\r\n"));
	assert_int_equal(w->pacing.retry.errors, 0);
	assert_false(redis_outage_logged(&w->errors.outage));
}

TEST(a_shorter_wait_does_not_end_the_back_off, fixture_setup, fixture_teardown)
{
	fetch();
	answer(0, fixture_reply("-WRONGTYPE no\r\n"));
	pacing_not_before(&w->pacing, fixture_now_ms() + 10);
	assert_in_range(deadline_in(), 50, 100);
	pacing_not_before(&w->pacing, fixture_now_ms() + 700);
	assert_int_equal(deadline_in(), 700);
	fixture_pass_ms(700);
	assert_fetches(BLOCKS(1), 1);
}

TEST(a_success_does_not_hide_the_error_of_a_refused_move, fixture_setup, fixture_teardown)
{
	errors_report(w, "settle", fixture_reply("-WRONGTYPE no\r\n"));
	tick();
	w->mover.retry.errors = 1;
	answer(0, fixture_reply("$-1\r\n"));
	assert_true(redis_outage_logged(&w->errors.outage));
}

TEST(at_maxmemory_a_script_fetches_and_looks_only_now_and_then, fixture_setup, fixture_teardown)
{
	fetch();
	answer(0, fixture_reply(OOM));
	assert_int_equal(w->pacing.retry.errors, 0);
	assert_int_equal(deadline_in(), 250);
	fixture_pass_ms(250);
	assert_fetches(AT_MAXMEMORY(1), 1);
	answer(1, fixture_reply("$-1\r\n"));
	assert_fetches_nothing();
	assert_int_equal(deadline_in(), 250);
	assert_true(redis_outage_logged(&w->errors.outage));		/* that nothing waits proves nothing */
	fixture_pass_ms(1000);
	assert_fetches(BLOCKS(2), 2);
	assert_int_equal(fixture_logged("event=redis_error "), 1);
}

TEST(at_maxmemory_a_longer_wait_stays, fixture_setup, fixture_teardown)
{
	fetch();
	answer(0, fixture_reply(OOM));
	fixture_pass_ms(250);
	assert_fetches(AT_MAXMEMORY(1), 1);
	pacing_not_before(&w->pacing, fixture_now_ms() + 700);		/* no handler can be started */
	answer(1, fixture_reply("$-1\r\n"));
	assert_int_equal(deadline_in(), 700);
}

TEST(a_server_without_the_old_command_gets_the_new_one, fixture_setup, fixture_teardown)
{
	fetch();
	answer(0, fixture_reply("-ERR unknown command 'BRPOPLPUSH'\r\n"));
	assert_fetches("BLMOVE i " TRAY(1) " RIGHT LEFT 2", 1);
	assert_int_equal(fixture_logged("event=redis_error"), 0);
	answer(1, fixture_reply("-ERR unknown command 'BLMOVE'\r\n"));
	assert_int_equal(w->pacing.retry.errors, 1);
}

TEST(a_fetch_that_the_worker_ended_itself_is_no_error, fixture_setup, fixture_teardown)
{
	tick();
	w->exit.order = ORDER_FINISH;
	answer(0, fixture_reply("-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"));
	assert_int_equal(w->pacing.retry.errors, 0);
	w->exit.order = ORDER_RUN;
	tick();
	answer(1, fixture_reply("-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n"));
	assert_int_equal(w->pacing.retry.errors, 1);
}

/* What one server refused again and again, the next one may accept: a node of a Cluster refuses until its slot has moved. */
TEST(a_new_connection_ends_the_back_off, fixture_setup, fixture_teardown)
{
	struct retry refused = { .at_ms = INT64_MAX, .errors = 9 };

	w->pacing.retry = w->mover.retry = refused;
	assert_fetches_nothing();
	session_adopted(w);
	assert_true(w->mover.retry.at_ms <= fixture_now_ms());
	assert_int_equal(w->pacing.retry.errors, 9);		/* if the new server refuses, too, the back-off goes on */
	retry_succeeded(&w->mover.retry);
	assert_fetches(BLOCKS(0), 0);
}

UNIT_MAIN(NULL, NULL)
