/* links: tests/unit/worker/worker_fixture.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* Why a worker does not fetch, until when, and what the scoreboard shows of it. */
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/worker/worker_fixture.h"

#include "common/base/nitems.h"
#include "common/handler/cause.h"

#define BY_EVENT (-1)
#define MOVED PLACE(0, 0)

static void leave(void)
{
	w->exit.order = ORDER_FINISH;
}

static void lose_the_connection(void)
{
	w->session.registered = false;
}

static void be_quiet(void)
{
	w->exit.order = ORDER_QUIET;
}

static void shut_the_gate(void)
{
	atomic_store(&fixture.env->board->sweeper.gate, QUEUE_RECOVERING);
}

static void read_a_pause(void)
{
	w->fetcher.paused_until_us = w->now_us + 500000;
}

static void open_the_breaker(void)
{
	breaker_open(fixture.env->board, HANDLER_CAUSE_NONE, fixture_now_ms());
}

static void run(void)
{
	FILL(0, "a");
	starter_describe(w, MOVED);
	starter_started(w, MOVED);
	fixture.runner.room = 0;
}

static void probe(void)
{
	open_the_breaker();
	fixture_pass_ms(500);
	w->pacing.probing = true;
	run();
}

static void be_held(void)
{
	board_hold(w->env->board, fixture_now_ms() + 300);
}

static void lose_the_lease(void)
{
	fixture_pass_ms(LEASE_MS);
}

static void back_off(void)
{
	pacing_not_before(&w->pacing, fixture_now_ms() + 700);
}

static void fetch(void)
{
	fetcher_tick(w, fixture_now_ms());
}

static void refuse_a_move(void)
{
	w->mover.retry.errors = 1;
}

static void hand_back(void)
{
	FILL(0, "a");
	settle_hand_back(w, MOVED, SETTLE_AS_IT_WAS);
}

static void acknowledge(void)
{
	run();
	tray_done(&w->trays, MOVED, 0, 0);
	tray_close(&w->trays, 0);
}

/* Its process has not said READY. */
static void load(void)
{
	fixture.queue.ready = true;
	fixture.runner.not_ready = true;
}

static void run_alone(void)
{
	w->starter.solo_running = true;
}

static void want_notes(void)
{
	FILL(0, "a");
	tray_set_notes(&w->trays, 0, NOTES_WANTED);
}

static const struct conf_rate hourly = { .n = 1, .per_ms = 3600000 };

/* Messages wait in ingress, as the last fetch has shown. */
static void use_up_the_rate(void)
{
	fixture.queue.rate = hourly;
	w->fetcher.busy = true;
	w->throttle.at_ms = fixture_now_ms() + 300;
}

static void have_a_message_without_a_start(void)
{
	fixture.queue.rate = hourly;
	FILL(0, "a");
	w->throttle.asking = true;
}

static void find_too_few(void)
{
	FILL(0, "a");
	fixture.runner.room = 5;
	w->pacing.message_us = 10;
	w->pacing.batch = 2;
	pacing_pause_ahead(&w->pacing, fixture_now_ms() + 20);
}

static void fill_each_tray(void)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		FILL(i, "a");
	fixture.runner.room = 9;
}

/* By rank: each situation alone, and each with all that count before it. */
static const struct situation {
	void (*set)(void);
	enum worker_hold hold;
	enum slot_state shown;
	int64_t in_ms;
} situations[] = {
	{ leave, WORKER_LEAVES, SLOT_STOPPING, BY_EVENT },
	{ lose_the_connection, WORKER_CONNECTS, SLOT_CONNECTING, BY_EVENT },
	{ be_quiet, WORKER_QUIET, SLOT_WAITING, BY_EVENT },
	{ shut_the_gate, WORKER_GATE_SHUT, SLOT_WAITING, BY_EVENT },
	{ be_held, WORKER_PAUSED, SLOT_WAITING, 300 },
	{ read_a_pause, WORKER_PAUSED, SLOT_WAITING, 501 },
	{ open_the_breaker, WORKER_BREAKER, SLOT_WAITING, 500 },
	{ probe, WORKER_BREAKER, SLOT_RUNNING, BY_EVENT },
	{ load, WORKER_LOADS, SLOT_STARTING, BY_EVENT },
	{ lose_the_lease, WORKER_LEASE_IN_DOUBT, SLOT_SETTLING, BY_EVENT },
	{ back_off, WORKER_PUT_OFF, SLOT_WAITING, 700 },
	{ fetch, WORKER_FETCHING, SLOT_IDLE, BY_EVENT },
	{ refuse_a_move, WORKER_MOVES, SLOT_SETTLING, BY_EVENT },
	{ hand_back, WORKER_MOVES, SLOT_SETTLING, BY_EVENT },
	{ acknowledge, WORKER_MOVES, SLOT_SETTLING, BY_EVENT },
	{ run_alone, WORKER_ALONE, SLOT_SETTLING, BY_EVENT },
	{ want_notes, WORKER_NOTES, SLOT_SETTLING, BY_EVENT },
	{ use_up_the_rate, WORKER_THROTTLED, SLOT_WAITING, 300 },
	{ have_a_message_without_a_start, WORKER_THROTTLED, SLOT_WAITING, BY_EVENT },
	{ run, WORKER_ENOUGH, SLOT_RUNNING, BY_EVENT },
	{ find_too_few, WORKER_TOO_FEW, SLOT_SETTLING, 20 },
	{ fill_each_tray, WORKER_NO_TRAY, SLOT_SETTLING, BY_EVENT },
};

static void assert_situation(const struct situation *s)
{
	struct admission a = admission_judge(w);

	assert_int_equal(a.hold, s->hold);
	if (s->in_ms == BY_EVENT)
		assert_true(a.until_ms == ADMISSION_BY_EVENT);
	else
		assert_int_equal(a.until_ms - fixture_now_ms(), s->in_ms);
	fixture_forget_sent();
	fetcher_tick(w, fixture_now_ms());
	assert_sent_nothing();
	admission_show(w);
	assert_int_equal(slot_state(w->env->slot), s->shown);
	assert_int_equal(atomic_load(&w->env->slot->hold), s->hold);
	assert_true(admission_deadline_ms(w, fixture_now_ms()) == a.until_ms);
}

TEST(each_hold_keeps_the_worker_from_fetching_and_is_shown, fixture_setup, fixture_teardown)
{
	bool covered[WORKER_HOLDS] = { [WORKER_ADMITTED] = true };

	for (size_t i = 0; i < nitems(situations); i++) {
		if (i > 0) {
			fixture_teardown(state);
			fixture_setup(state);
		}
		assert_int_equal(admission_judge(w).hold, WORKER_ADMITTED);
		situations[i].set();
		assert_situation(&situations[i]);
		covered[situations[i].hold] = true;
	}
	for (int hold = 0; hold < WORKER_HOLDS; hold++)
		if (!covered[hold])
			fail_msg("no situation has the hold %d", hold);
}

TEST(of_several_holds_the_first_one_counts, fixture_setup, fixture_teardown)
{
	fetch();
	refuse_a_move();
	assert_int_equal(admission_judge(w).hold, WORKER_FETCHING);
	open_the_breaker();
	assert_int_equal(admission_judge(w).hold, WORKER_BREAKER);
	shut_the_gate();
	assert_int_equal(admission_judge(w).hold, WORKER_GATE_SHUT);
	lose_the_connection();
	assert_int_equal(admission_judge(w).hold, WORKER_CONNECTS);
	leave();
	assert_int_equal(admission_judge(w).hold, WORKER_LEAVES);
}

TEST(a_hold_with_an_end_is_over_then, fixture_setup, fixture_teardown)
{
	back_off();
	read_a_pause();
	while (admission_judge(w).hold != WORKER_ADMITTED)
		fixture_pass_ms(admission_judge(w).until_ms - fixture_now_ms());
	fetch();
	assert_sent("BRPOPLPUSH");
}

/* Another worker takes the probe between the judgement and the claim: the next turn comes at the next probe, not at once. */
TEST(a_probe_that_another_worker_takes_is_waited_for, fixture_setup, fixture_teardown)
{
	open_the_breaker();
	fixture_pass_ms(500);
	assert_int_equal(admission_judge(w).hold, WORKER_ADMITTED);
	assert_true(breaker_may_fetch(fixture.env->board, fixture_now_ms()));
	fetch();
	assert_sent_nothing();
	assert_false(w->pacing.probing);
	admission_show(w);
	assert_int_equal(atomic_load(&w->env->slot->hold), WORKER_BREAKER);
	assert_in_range(admission_deadline_ms(w, fixture_now_ms()) - fixture_now_ms(), 1, 30000);
}

static void assert_shown(enum worker_hold hold)
{
	admission_show(w);
	assert_int_equal(atomic_load(&w->env->slot->hold), hold);
}

TEST(what_follows_the_look_of_a_turn_is_shown, fixture_setup, fixture_teardown)
{
	run();
	fetch();
	assert_sent_nothing();
	assert_shown(WORKER_ENOUGH);
	fixture.runner.room = 1;	/* its handler has taken what was written */
	assert_shown(WORKER_ADMITTED);
	assert_true(admission_deadline_ms(w, fixture_now_ms()) <= fixture_now_ms());
	fetch();
	assert_sent("RPOPLPUSH");
	assert_shown(WORKER_FETCHING);
	fetch();
	lose_the_connection();
	assert_shown(WORKER_CONNECTS);
}

TEST(each_hold_says_what_the_slot_waits_for, fixture_setup, fixture_teardown)
{
	for (int hold = 0; hold < WORKER_HOLDS; hold++)
		assert_int_equal(slot_waits_for((uint32_t)hold) == NULL, hold == WORKER_ADMITTED);
	assert_null(slot_waits_for(WORKER_HOLDS));
	assert_null(slot_waits_for(UINT32_MAX));
}

/* evidence_tick() has its turn before a trial begins, so the next turn must follow at once. */
TEST(a_trial_that_begins_is_written_without_another_event, fixture_setup, fixture_teardown)
{
	FILL(0, fixture_sealed("quredis/1 w=00000000000000ab outages=2 solo=1\na"));
	assert_int_equal(evidence_deadline_ms(w, fixture_now_ms()), INT64_MAX);
	assert_false(evidence_may_start(w, MOVED));
	assert_int_equal(evidence_deadline_ms(w, fixture_now_ms()), fixture_now_ms());
	evidence_tick(w, fixture_now_ms());
	assert_int_equal(evidence_deadline_ms(w, fixture_now_ms()), INT64_MAX);
}

UNIT_MAIN(NULL, NULL)
