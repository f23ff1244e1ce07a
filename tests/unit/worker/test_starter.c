/* links: tests/unit/worker/worker_fixture.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* Which message starts, which one must run alone, and which messages go back to ingress from behind a slow one. */
#include <errno.h>

#include "tests/unit/unit.h"
#include "tests/unit/worker/worker_fixture.h"

#define SOLO "quredis/1 w=0000000000000001 solo=1\nsuspect"

static int starts_after_a_tick(void)
{
	fixture.runner.starts = 0;
	starter_tick(w, fixture_now_ms());
	return fixture.runner.starts;
}

static void start(int tray, int item)
{
	starter_describe(w, PLACE(tray, item));
	starter_started(w, PLACE(tray, item));
}

static void assert_next(int tray, int item)
{
	struct place p = starter_next(w);

	assert_int_equal(p.tray, tray);
	assert_int_equal(p.item, item);
}

static bool goes_back(int tray, int item)
{
	const struct item *i = fixture_item(tray, item);

	return i->state == ITEM_MOVING && i->move == MOVE_HAND_BACK;
}

/* ---- the job ---- */

TEST(a_job_counts_its_attempts, fixture_setup, fixture_teardown)
{
	FILL(0, "new", fixture_sealed("quredis/1 w=0000000000000001 attempts=2 redelivered=1\nold"));
	starter_describe(w, PLACE(0, 0));
	assert_int_equal(w->starter.job.attempt, 1);
	assert_false(w->starter.job.redelivered);
	assert_string_equal(w->starter.job.incarnation, INC);
	starter_describe(w, PLACE(0, 1));
	assert_int_equal(w->starter.job.attempt, 3);
	assert_true(w->starter.job.redelivered);
}

static int64_t described_timeout(const char *header, int64_t own_ms)
{
	fixture.queue.timeout_ms = own_ms;
	FILL(0, header);
	starter_describe(w, PLACE(0, 0));
	tray_gone(&w->trays, PLACE(0, 0));
	tray_close(&w->trays, 0);
	return w->starter.job.timeout_ms;
}

TEST(a_header_shortens_the_timeout_and_never_extends_it, fixture_setup, fixture_teardown)
{
	assert_int_equal(described_timeout("plain", 60000), 60000);
	assert_int_equal(described_timeout("quredis/1 timeout=2s\nx", 60000), 2000);
	assert_int_equal(described_timeout("quredis/1 timeout=2h\nx", 60000), 60000);
	assert_int_equal(described_timeout("quredis/1 timeout=2h\nx", -1), 7200000);
	assert_int_equal(described_timeout("plain", -1), -1);
}

TEST(a_header_lowers_the_attempts_and_never_raises_them, fixture_setup, fixture_teardown)
{
	FILL(0, "plain", "quredis/1 max_attempts=2\nx", "quredis/1 max_attempts=9\nx");
	for (int i = 0; i < 3; i++) {
		starter_describe(w, PLACE(0, i));
		assert_int_equal(w->starter.job.max_attempts, i == 1 ? 2 : 3);
	}
}

TEST(a_start_is_counted_on_the_scoreboard, fixture_setup, fixture_teardown)
{
	FILL(0, "new", fixture_sealed("quredis/1 w=0000000000000001 redelivered=1\nold"));
	start(0, 0);
	assert_int_equal(atomic_load(&fixture.env->slot->serial), 1);
	assert_int_equal(fixture_counted(COUNT_REDELIVERED), 0);
	start(0, 1);
	assert_int_equal(atomic_load(&fixture.env->slot->serial), 2);
	assert_int_equal(fixture_counted(COUNT_REDELIVERED), 1);
	assert_int_equal(tray_count(&w->trays, ITEM_RUNNING), 2);
}

/* ---- when ---- */

TEST(a_waiting_message_starts_if_nothing_forbids_it, fixture_setup, fixture_teardown)
{
	assert_int_equal(starts_after_a_tick(), 0);
	FILL(0, "a");
	assert_int_equal(starts_after_a_tick(), 1);
	assert_int_equal(w->starter.may_start_us, w->now_us);
	fixture.runner.room = 0;
	assert_int_equal(starts_after_a_tick(), 0);
}

TEST(nothing_starts_before_an_answer_that_may_forbid_it, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	w->fetcher.asking_paused = true;
	assert_int_equal(starts_after_a_tick(), 0);
	w->fetcher.asking_paused = false;
	w->expiry.asking = true;
	assert_int_equal(starts_after_a_tick(), 0);
	w->expiry.asking = false;
	assert_int_equal(starts_after_a_tick(), 1);
	assert_false(goes_back(0, 0));
}

TEST(nothing_starts_when_the_lease_may_have_expired, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	fixture_pass_ms(LEASE_MS - 1);
	assert_int_equal(starts_after_a_tick(), 1);
	fake_time_sleep_ms(1);			/* the machine slept, which CLOCK_MONOTONIC does not count */
	assert_int_equal(starts_after_a_tick(), 0);
	assert_false(goes_back(0, 0));
}

TEST(waiting_messages_go_back_when_none_may_start, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b", "c");
	start(0, 0);
	w->exit.order = ORDER_QUIET;
	assert_int_equal(starts_after_a_tick(), 0);
	assert_int_equal(fixture_item(0, 0)->state, ITEM_RUNNING);
	assert_true(goes_back(0, 1) && goes_back(0, 2));
}

TEST(a_shut_gate_and_a_pause_count_like_an_order, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	FILL(1, "b");
	atomic_store(&fixture.env->board->sweeper.gate, QUEUE_PAUSED);
	assert_int_equal(starts_after_a_tick(), 0);
	assert_true(goes_back(0, 0));
	atomic_store(&fixture.env->board->sweeper.gate, QUEUE_OPEN);
	FILL(2, "c");
	w->fetcher.paused_until_us = w->now_us + 1;
	assert_int_equal(starts_after_a_tick(), 0);
	assert_true(goes_back(1, 0) && goes_back(2, 0));
}

/* A fetch was under way when the handler ended; that of another worker may be ready. */
TEST(what_arrives_while_the_handler_loads_goes_back, fixture_setup, fixture_teardown)
{
	fixture.queue.ready = true;
	fixture.runner.not_ready = true;
	FILL(0, "a");
	assert_int_equal(starts_after_a_tick(), 0);
	assert_true(goes_back(0, 0));
	FILL(1, fixture_sealed("quredis/1 w=0000000000000001 fresh=1\nneeds a new process"));
	assert_int_equal(starts_after_a_tick(), 1);
	assert_false(goes_back(1, 0));
}

TEST(an_open_breaker_lets_only_its_probe_start, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	breaker_open(fixture.env->board, HANDLER_CAUSE_NONE, fixture_now_ms());
	w->pacing.probing = true;
	assert_int_equal(starts_after_a_tick(), 1);
	w->pacing.probing = false;
	assert_int_equal(starts_after_a_tick(), 0);
	assert_true(goes_back(0, 0));
}

TEST(a_failed_fork_is_retried_later_and_logged_once, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	for (int i = 0; i < 2; i++) {
		errno = EAGAIN;
		starter_put_off(w, fixture_now_ms());
	}
	assert_int_equal(fixture_logged("handler_not_started"), 1);
	assert_int_equal(starts_after_a_tick(), 0);
	assert_in_range(starter_deadline_ms(w, fixture_now_ms()) - fixture_now_ms(), 100, 200);
	fixture_pass_ms(200);
	assert_int_equal(starts_after_a_tick(), 1);
	starter_succeeded(w);
	starter_put_off(w, fixture_now_ms());
	assert_int_equal(fixture_logged("handler_not_started"), 2);
}

TEST(a_worker_that_cannot_start_a_handler_shows_it_until_it_can, fixture_setup, fixture_teardown)
{
	const struct slot *s = fixture.env->slot;

	for (int i = 0; i < 4; i++) {
		assert_int_equal(atomic_load(&s->not_started), 0);
		errno = EMFILE;
		starter_put_off(w, fixture_now_ms());
	}
	assert_int_equal(atomic_load(&s->not_started), EMFILE);
	assert_int_equal(atomic_load(&s->next_start_ms), w->starter.retry.at_ms);
	errno = EAGAIN;
	starter_put_off(w, fixture_now_ms());
	assert_int_equal(atomic_load(&s->not_started), EAGAIN);
	starter_succeeded(w);
	assert_int_equal(atomic_load(&s->not_started), 0);
}

/* Such as one that must run alone, while answers to moves are under way. */
TEST(a_message_that_an_event_lets_start_is_not_looked_at_before, fixture_setup, fixture_teardown)
{
	assert_int_equal(starter_deadline_ms(w, fixture_now_ms()), INT64_MAX);
	FILL(0, "a");
	assert_int_equal(starts_after_a_tick(), 1);
	assert_int_equal(starter_deadline_ms(w, fixture_now_ms()), INT64_MAX);
	fixture.runner.deadline_ms = fixture_now_ms() + 1;
	assert_int_equal(starter_deadline_ms(w, fixture_now_ms()), fixture_now_ms() + 1);
}

/* ---- alone ---- */

TEST(a_suspect_starts_only_after_all_others_have_left, fixture_setup, fixture_teardown)
{
	FILL(0, "a", fixture_sealed(SOLO));
	FILL(1, "b");
	assert_next(0, 0);
	start(0, 0);
	tray_done(&w->trays, PLACE(0, 0), 0, 0);
	assert_next(-1, -1);
	assert_int_equal(fixture_item(0, 0)->move, MOVE_DONE);		/* acknowledged by itself */
	assert_true(goes_back(1, 0));
	assert_false(goes_back(0, 1));
	tray_gone(&w->trays, PLACE(1, 0));
	tray_close(&w->trays, 1);
	assert_next(-1, -1);
	tray_gone(&w->trays, PLACE(0, 0));
	assert_next(0, 1);
}

TEST(a_fetch_under_way_keeps_a_suspect_from_starting, fixture_setup, fixture_teardown)
{
	FILL(0, fixture_sealed(SOLO));
	tray_ask(&w->trays, 1, 1);
	assert_next(-1, -1);
	tray_answered(&w->trays, 1);
	tray_filled(&w->trays, 1);
	assert_next(0, 0);
}

TEST(nothing_starts_beside_a_running_suspect, fixture_setup, fixture_teardown)
{
	FILL(0, fixture_sealed(SOLO));
	start(0, 0);
	FILL(1, "b");
	assert_next(-1, -1);
	starter_solo_ended(&w->starter);
	assert_next(1, 0);
}

/* ---- behind a slow one ---- */

TEST(messages_behind_a_slow_one_go_back, fixture_setup, fixture_teardown)
{
	FILL(0, "slow", "a");
	FILL(1, "b");
	start(0, 0);
	fixture.runner.room = 0;
	fixture_pass_ms(19);
	starts_after_a_tick();
	assert_false(goes_back(0, 1));
	assert_in_range(starter_deadline_ms(w, fixture_now_ms()) - fixture_now_ms(), 1, 2);
	fixture_pass_ms(1);
	starts_after_a_tick();
	assert_true(goes_back(0, 1) && goes_back(1, 0));
	assert_int_equal(fixture_item(0, 0)->state, ITEM_RUNNING);
}

/* What goes back now would come after the message that the fetch has perhaps taken already. */
TEST(nothing_goes_back_while_a_fetch_is_under_way, fixture_setup, fixture_teardown)
{
	FILL(0, "slow", "a");
	start(0, 0);
	fixture.runner.room = 0;
	tray_ask(&w->trays, 1, 1);
	fixture_pass_ms(1000);
	starts_after_a_tick();
	assert_false(goes_back(0, 1));
	assert_int_equal(starter_deadline_ms(w, fixture_now_ms()), INT64_MAX);
}

/* A message that comes late asks Redis first whether the queue is paused, and the handler that stays has room for it. */
TEST(nothing_goes_back_before_an_answer_that_may_let_it_start, fixture_setup, fixture_teardown)
{
	bool *const questions[] = { &w->fetcher.asking_paused, &w->expiry.asking };

	FILL(0, "slow", "a");
	start(0, 0);
	fixture_pass_ms(1000);
	for (size_t i = 0; i < nitems(questions); i++) {
		*questions[i] = true;
		assert_int_equal(starts_after_a_tick(), 0);
		assert_false(goes_back(0, 1));
		assert_int_equal(starter_deadline_ms(w, fixture_now_ms()), INT64_MAX);
		*questions[i] = false;
	}
	fixture.runner.room = 0;
	starts_after_a_tick();
	assert_true(goes_back(0, 1));
}

static int64_t pause_after_relief(int tray)
{
	FILL(tray, "next");
	starts_after_a_tick();
	assert_true(goes_back(tray, 0));
	tray_gone(&w->trays, PLACE(tray, 0));
	tray_close(&w->trays, tray);
	return w->pacing.ahead_at_ms - fixture_now_ms();
}

/* Else it fetched the same messages at once, only to hand them back again. */
TEST(each_relief_makes_the_next_fetch_wait_longer, fixture_setup, fixture_teardown)
{
	FILL(0, "slow");
	start(0, 0);
	fixture.runner.room = 0;
	fixture_pass_ms(1000);
	assert_int_equal(pause_after_relief(1), 20);
	assert_int_equal(pause_after_relief(2), 40);
	assert_int_equal(pause_after_relief(1), 80);
	for (int i = 0; i < 20; i++)
		pause_after_relief(2);
	assert_int_equal(pause_after_relief(1), 10000);
	starter_progressed(w, 1);
	assert_int_equal(w->pacing.ahead_at_ms, 0);
	fixture_pass_ms(1000);
	assert_int_equal(pause_after_relief(2), 20);
}

/* ---- trials ---- */

/* It must not hold up the messages behind it. */
TEST(during_another_trial_a_suspect_is_put_off, fixture_setup, fixture_teardown)
{
	FILL(0, fixture_sealed("quredis/1 w=0000000000000001 outages=2 solo=1\na"));
	atomic_store(&fixture.board.workers.trial, 7);
	assert_next(-1, -1);
	assert_int_equal(fixture_item(0, 0)->move, MOVE_PUT_OFF);
	assert_int_equal(fixture_item(0, 0)->outcome->delay_ms, 1000);
	assert_int_equal(w->starter.retry.at_ms, 0);
}

/* It has no delayed set, so the suspect stays where it is. */
TEST(in_a_shared_queue_the_worker_pauses_for_another_trial, fixture_setup, fixture_teardown)
{
	const struct wrapper suspect = { .outages = 2, .solo = true };

	fixture_share();
	FILL(0, "a");
	tray_set_notes(&w->trays, 0, NOTES_KNOWN);
	tray_add_note(&w->trays, PLACE(0, 0), &suspect);
	atomic_store(&fixture.board.workers.trial, 7);
	assert_next(-1, -1);
	assert_int_equal(fixture_item(0, 0)->state, ITEM_WAITING);
	assert_int_equal(w->starter.retry.at_ms, fixture_now_ms() + 1000);
}

/* ---- progress ---- */

TEST(progress_counts_from_the_last_end_and_not_from_the_start, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b");
	start(0, 0);
	fixture_pass_ms(15);
	start(0, 1);				/* beside another one: no progress */
	fixture_pass_ms(6);
	assert_true(pacing_is_slow(&w->pacing, tray_count(&w->trays, ITEM_RUNNING) > 0, w->now_us));
	starter_progressed(w, 1);
	assert_in_range(w->pacing.message_us, 20000, 20000);	/* capped at batch.time */
	assert_false(pacing_is_slow(&w->pacing, tray_count(&w->trays, ITEM_RUNNING) > 0, w->now_us));
	fixture_pass_ms(19);
	assert_false(pacing_is_slow(&w->pacing, tray_count(&w->trays, ITEM_RUNNING) > 0, w->now_us));
}

UNIT_MAIN(NULL, NULL)
