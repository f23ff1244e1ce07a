/* links: tests/unit/worker/worker_fixture.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* Which move a message gets, and what is stored with it: attempts, delay, wrapper, record; and what the breaker learns of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/worker/worker_fixture.h"

#define P PLACE(0, 0)

static const struct handler_result exit_3 = { .end = HANDLER_EXITED, .code = 3, .duration_ms = 40, .stderr_tail = "words", .stderr_len = 5 };
static struct message line;

static void run(int tray, int item)
{
	starter_describe(w, PLACE(tray, item));
	starter_started(w, PLACE(tray, item));
}

static void run_only(const char *raw)
{
	FILL(0, raw);
	run(0, 0);
}

static struct failure failure(enum conf_outcome verdict)
{
	return (struct failure){ .verdict = verdict, .class = "HandlerExit", .text = "exit status 3", .delay_ms = -1, .result = &exit_3 };
}

static void fail_item(struct place p, enum conf_outcome verdict)
{
	struct failure f = failure(verdict);

	settle_failed(w, p, &f, fixture_now_ms());
}

static struct outcome *assert_moves(struct place p, enum move move)
{
	assert_int_equal(tray_item(&w->trays, p)->state, ITEM_MOVING);
	assert_int_equal(tray_item(&w->trays, p)->move, move);
	return tray_outcome(&w->trays, p);
}

/* The wrapper that the move writes. */
static const struct wrapper *rewritten(struct place p)
{
	const struct outcome *o = tray_outcome(&w->trays, p);

	assert_true(o->rewritten);
	message_parse(&line, &fixture.env->keys.lines, o->line.data, o->line.len);
	assert_int_equal(line.wrapper_len, o->line.len);
	return &line.wrapper;
}

/* ---- done ---- */

TEST(a_message_that_is_done_stays_with_its_tray, fixture_setup, fixture_teardown)
{
	run_only("a");
	settle_done(w, P, 12);
	assert_int_equal(fixture_item(0, 0)->state, ITEM_DONE);
	assert_int_equal(fixture_item(0, 0)->done_ms, 0);
	tray_close(&w->trays, 0);
	assert_int_equal(w->trays.tray[0].state, TRAY_DELETING);
	assert_sent_nothing();
}

TEST(a_history_needs_the_time_and_the_duration, fixture_setup, fixture_teardown)
{
	fixture.queue.done.keep = 10;
	run_only("a");
	settle_done(w, P, 12);
	assert_int_equal(fixture_item(0, 0)->done_ms, clock_realtime_ms());
	assert_int_equal(fixture_item(0, 0)->duration_ms, 12);
}

/* ---- failures ---- */

TEST(a_failure_is_retried_with_one_attempt_more, fixture_setup, fixture_teardown)
{
	const struct wrapper *after;

	run_only(fixture_sealed("quredis/1 w=0000000000000001 attempts=1 crashes=2 own=5 first_failed=7000\na"));
	assert_int_equal(tray_message(&w->trays, P)->wrapper.first_failed_ms, 7000);
	fail_item(P, CONF_OUTCOME_FAIL);
	assert_int_equal(assert_moves(P, MOVE_RETRY)->delay_ms, 2000);		/* the second one: base * 2 */
	after = rewritten(P);
	assert_int_equal(after->attempts, 2);
	assert_int_equal(after->crashes, 2);
	assert_int_equal(after->first_failed_ms, 7000);
	assert_int_equal(after->own_ms, 0);		/* its wait begins again */
	assert_int_equal(fixture_counted(COUNT_FAILED), 1);
	assert_int_equal(fixture_logged("event=message_retried"), 1);
}

TEST(the_first_failure_is_dated, fixture_setup, fixture_teardown)
{
	run_only("a");
	fail_item(P, CONF_OUTCOME_FAIL);
	assert_int_equal(assert_moves(P, MOVE_RETRY)->delay_ms, 1000);
	assert_int_equal(rewritten(P)->first_failed_ms, clock_realtime_ms());
}

TEST(a_delay_that_the_handler_names_counts, fixture_setup, fixture_teardown)
{
	struct failure f = failure(CONF_OUTCOME_RETRY);

	run_only("a");
	f.delay_ms = 0;
	settle_failed(w, P, &f, fixture_now_ms());
	assert_int_equal(assert_moves(P, MOVE_RETRY)->delay_ms, 0);
}

TEST(the_last_attempt_escapes_with_its_record, fixture_setup, fixture_teardown)
{
	const struct record *r;

	run_only(fixture_sealed("quredis/1 w=0000000000000001 attempts=2 crashes=1\na"));
	fail_item(P, CONF_OUTCOME_FAIL);
	r = &assert_moves(P, MOVE_ESCAPE)->record;
	assert_string_equal(r->error_class, "HandlerExit");
	assert_string_equal(r->error_message, "exit status 3");
	assert_string_equal(r->queue_from, "transit");
	assert_string_equal(r->worker, INC);
	assert_int_equal(r->attempts, 3);
	assert_int_equal(r->crashes, 1);
	assert_int_equal(r->exit_code, 3);
	assert_null(r->signal);
	assert_int_equal(r->duration_ms, 40);
	assert_memory_equal(r->stderr_tail, "words", r->stderr_len);
	assert_ptr_not_equal(r->stderr_tail, exit_3.stderr_tail);		/* the handler's own ends with its next start */
	assert_int_equal(fixture_logged("event=message_escaped"), 1);
}

TEST(a_rejected_message_escapes_at_its_first_attempt, fixture_setup, fixture_teardown)
{
	run_only("a");
	fail_item(P, CONF_OUTCOME_ESCAPE);
	assert_int_equal(assert_moves(P, MOVE_ESCAPE)->record.attempts, 1);
}

TEST(a_requested_retry_never_escapes, fixture_setup, fixture_teardown)
{
	run_only(fixture_sealed("quredis/1 w=0000000000000001 attempts=2\na"));
	fail_item(P, CONF_OUTCOME_RETRY);
	assert_moves(P, MOVE_RETRY);
	assert_int_equal(rewritten(P)->attempts, 3);
}

TEST(a_signal_is_recorded_instead_of_a_status, fixture_setup, fixture_teardown)
{
	const struct handler_result killed = { .end = HANDLER_SIGNALED, .code = -1, .signal = 9 };
	struct failure f = failure(CONF_OUTCOME_ESCAPE);

	run_only("a");
	f.result = &killed;
	settle_failed(w, P, &f, fixture_now_ms());
	assert_string_equal(tray_outcome(&w->trays, P)->record.signal, "SIGKILL");
	assert_int_equal(tray_outcome(&w->trays, P)->record.exit_code, -1);
}

TEST(a_shared_queue_turns_a_requested_retry_into_a_failure, fixture_setup, fixture_teardown)
{
	const struct record *r;
	struct failure f = failure(CONF_OUTCOME_RETRY);

	fixture_share();
	fixture.queue.max_attempts = 1;
	run_only("a");
	f.class = FAILED_RETRY;
	settle_failed(w, P, &f, fixture_now_ms());
	r = &assert_moves(P, MOVE_ESCAPE)->record;
	assert_string_equal(r->error_class, "HandlerFail");
	assert_string_equal(r->error_message, "exit status 3 (asked for a retry: there is none in a shared queue)");
	assert_string_equal(f.text, "exit status 3");
}

/* ---- the breaker ---- */

static bool is_open(void)
{
	return breaker_until_ms(fixture.env->board) != 0;
}

TEST(different_messages_that_fail_open_the_breaker_and_a_success_closes_it, fixture_setup, fixture_teardown)
{
	fixture.queue.breaker.failures = 2;
	FILL(0, "a", "b", "c", "d");
	for (int i = 0; i < 4; i++)
		run(0, i);
	fail_item(PLACE(0, 0), CONF_OUTCOME_RETRY);		/* asked for by the handler: no evidence against it */
	fail_item(PLACE(0, 1), CONF_OUTCOME_FAIL);
	assert_false(is_open());
	fail_item(PLACE(0, 2), CONF_OUTCOME_FAIL);
	assert_true(is_open());
	assert_int_equal(fixture_logged("event=breaker_opened"), 1);
	settle_done(w, PLACE(0, 3), 1);
	assert_false(is_open());
	assert_int_equal(fixture_logged("event=breaker_closed"), 1);
}

TEST(a_worker_of_an_older_generation_has_no_say_in_the_breaker, fixture_setup, fixture_teardown)
{
	fixture.queue.breaker.failures = 1;
	atomic_store(&fixture.env->board->master.handler_generation, 1);
	FILL(0, "a", "b");
	run(0, 0);
	run(0, 1);
	fail_item(PLACE(0, 0), CONF_OUTCOME_FAIL);
	settle_unrunnable(w, handler_cause_unrunnable("execve", ENOENT), "execve", "No such file or directory", fixture_now_ms());
	assert_false(is_open());
	assert_int_equal(fixture_counted(COUNT_UNRUNNABLE), 1);
	breaker_open(fixture.env->board, HANDLER_CAUSE_NONE, fixture_now_ms());
	settle_done(w, PLACE(0, 1), 1);
	assert_true(is_open());
	assert_false(breaker_knows_answers(fixture.env->board, 1));
}

/* A persistent handler may ask for several before Redis has answered about the first. */
TEST(of_the_holds_that_redis_has_not_answered_the_last_one_to_end_counts, fixture_setup, fixture_teardown)
{
	static const int64_t ms[] = { 20000, 60000, 40000 };
	const _Atomic int64_t *word = &fixture.env->slot->unanswered_hold_ms;
	int64_t now_ms = fixture_now_ms();

	FILL(0, "a", "b", "c");
	for (int i = 0; i < 3; i++) {
		struct failure f = failure(CONF_OUTCOME_RETRY);

		run(0, i);
		f.hold = true;
		f.delay_ms = ms[i];
		settle_failed(w, PLACE(0, i), &f, now_ms);
	}
	assert_int_equal(atomic_load(word), now_ms + 60000);
	assert_int_equal(atomic_load(&fixture.env->board->workers.held_until_ms), now_ms + 60000);
	mover_gone(w, PLACE(0, 1));
	assert_int_equal(atomic_load(word), now_ms + 40000);
	mover_gone(w, PLACE(0, 0));
	assert_int_equal(atomic_load(word), now_ms + 40000);
	mover_gone(w, PLACE(0, 2));
	assert_int_equal(atomic_load(word), 0);
}

TEST(only_an_answer_proves_that_the_handler_works, fixture_setup, fixture_teardown)
{
	struct failure f = failure(CONF_OUTCOME_FAIL);

	FILL(0, "a", "b");
	run(0, 0);
	run(0, 1);
	f.mute = true;
	settle_failed(w, PLACE(0, 0), &f, fixture_now_ms());
	assert_false(breaker_knows_answers(fixture.env->board, 0));
	f.mute = false;
	settle_failed(w, PLACE(0, 1), &f, fixture_now_ms());
	assert_true(breaker_knows_answers(fixture.env->board, 0));
}

/* breaker.failures = 0 forgives failures, but not silence. */
TEST(many_mute_handlers_open_a_breaker_without_a_threshold, fixture_setup, fixture_teardown)
{
	struct failure f = failure(CONF_OUTCOME_FAIL);
	char raw[] = "a";

	for (int i = 0; i < 2 * BREAKER_MUTE; i++) {
		raw[0] = (char)('a' + i);
		run_only(raw);
		f.mute = i >= BREAKER_MUTE;
		assert_false(is_open());
		settle_failed(w, P, &f, fixture_now_ms());
		tray_gone(&w->trays, P);
		tray_close(&w->trays, 0);
	}
	assert_true(is_open());
}

TEST(a_handler_that_cannot_run_opens_the_breaker_and_ends_the_probe, fixture_setup, fixture_teardown)
{
	w->pacing.probing = true;
	settle_unrunnable(w, handler_cause_unrunnable("execve", ENOENT), "execve", "No such file or directory", fixture_now_ms());
	assert_true(is_open());
	assert_false(w->pacing.probing);
	assert_int_equal(fixture_logged("at=execve error=\"No such file or directory\""), 1);
}

/* ---- messages that go back ---- */

TEST(a_message_that_did_not_start_goes_back_as_it_was, fixture_setup, fixture_teardown)
{
	FILL(0, fixture_sealed("quredis/1 w=0000000000000001 attempts=1\na"));
	settle_hand_back(w, P, SETTLE_AS_IT_WAS);
	assert_int_equal(fixture_item(0, 0)->move, MOVE_HAND_BACK);
	assert_null(fixture_item(0, 0)->outcome);
}

TEST(a_message_that_may_have_run_goes_back_redelivered, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b", fixture_sealed("quredis/1 w=0000000000000001 attempts=1 redelivered=1\nc"));
	settle_hand_back(w, PLACE(0, 0), SETTLE_REDELIVERED);
	assert_int_equal(rewritten(PLACE(0, 0))->redelivered, 1);
	assert_false(line.wrapper.solo);
	settle_hand_back(w, PLACE(0, 1), SETTLE_SOLO);
	assert_int_equal(rewritten(PLACE(0, 1))->redelivered, 1);
	assert_true(line.wrapper.solo);
	settle_hand_back(w, PLACE(0, 2), SETTLE_REDELIVERED);
	assert_int_equal(rewritten(PLACE(0, 2))->redelivered, 2);
	assert_int_equal(line.wrapper.attempts, 1);
}

TEST(a_message_that_reappeared_goes_back_redelivered, fixture_setup, fixture_teardown)
{
	tray_ask(&w->trays, 0, 1);
	tray_add(&w->trays, 0, "a", 1, true);
	tray_answered(&w->trays, 0);
	tray_filled(&w->trays, 0);
	settle_hand_back(w, P, SETTLE_AS_IT_WAS);
	assert_int_equal(rewritten(P)->redelivered, 1);
}

TEST(a_shared_queue_gets_its_message_back_without_a_wrapper, fixture_setup, fixture_teardown)
{
	struct outcome *o;

	fixture_share();
	FILL(0, fixture_sealed("quredis/1 w=0000000000000001 attempts=1\na"), "b");
	settle_hand_back(w, P, SETTLE_AS_IT_WAS);
	o = assert_moves(P, MOVE_HAND_BACK);
	assert_true(o->rewritten);
	assert_int_equal(o->line.len, 0);
	assert_non_null(strstr(o->note.text, "attempts=1"));		/* what it remembered lies beside it from now on */
	settle_hand_back(w, PLACE(0, 1), SETTLE_AS_IT_WAS);
	assert_null(fixture_item(0, 1)->outcome);
}

TEST(a_message_that_is_put_off_keeps_its_attempts, fixture_setup, fixture_teardown)
{
	FILL(0, fixture_sealed("quredis/1 w=0000000000000001 attempts=1\na"));
	settle_put_off(w, P, 5000);
	assert_int_equal(assert_moves(P, MOVE_PUT_OFF)->delay_ms, 5000);
	assert_int_equal(rewritten(P)->attempts, 1);
}

TEST(a_long_payload_is_stored_apart_while_it_is_delayed, fixture_setup, fixture_teardown)
{
	static char raw[QUEUE_APART_MIN + 2];

	memset(raw, 'x', QUEUE_APART_MIN + 1);
	FILL(0, raw + 1, raw);
	settle_put_off(w, PLACE(0, 0), 1);
	settle_put_off(w, PLACE(0, 1), 1);
	for (int i = 0; i < 2; i++) {
		const struct buffer *b = &tray_outcome(&w->trays, PLACE(0, i))->line;

		assert_int_equal(memmem(b->data, b->len, " apart=", 7) != NULL, i == 1);
	}
}

TEST(relief_leaves_what_runs_and_what_it_is_told_to_leave, fixture_setup, fixture_teardown)
{
	FILL(0, "done", "runs", "but", "waits");
	FILL(1, "waits");
	run(0, 0);
	settle_done(w, PLACE(0, 0), 1);
	run(0, 1);
	settle_relieve(w, PLACE(0, 2));
	assert_int_equal(fixture_item(0, 0)->move, MOVE_DONE);
	assert_int_equal(fixture_item(0, 0)->state, ITEM_MOVING);
	assert_int_equal(fixture_item(0, 1)->state, ITEM_RUNNING);
	assert_int_equal(fixture_item(0, 2)->state, ITEM_WAITING);
	assert_moves(PLACE(0, 3), MOVE_HAND_BACK);
	assert_moves(PLACE(1, 0), MOVE_HAND_BACK);
}

/* ---- messages that leave without a run ---- */

TEST(the_record_of_a_message_that_never_ran_has_no_run, fixture_setup, fixture_teardown)
{
	const struct record *r;

	FILL(0, fixture_sealed("quredis/1 w=0000000000000001 attempts=2\na"));
	settle_escape(w, P, "Unrepresentable", "it holds a NUL", NULL);
	r = &assert_moves(P, MOVE_ESCAPE)->record;
	assert_string_equal(r->error_class, "Unrepresentable");
	assert_string_equal(r->error_message, "it holds a NUL");
	assert_int_equal(r->attempts, 2);
	assert_int_equal(r->exit_code, -1);
	assert_int_equal(r->duration_ms, -1);
	assert_int_equal(r->stderr_len, 0);
}

/* It waited in ingress for so long, and not in its tray. */
TEST(an_expired_message_leaves_ingress, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	settle_expired(w, P, "waited 3 s longer than its TTL");
	assert_string_equal(assert_moves(P, MOVE_ESCAPE)->record.queue_from, "ingress");
	assert_string_equal(tray_outcome(&w->trays, P)->record.error_class, "TTLExpired");
}

TEST(a_message_set_aside_keeps_the_line_of_its_retry_only, fixture_setup, fixture_teardown)
{
	struct outcome *o;

	FILL(0, fixture_sealed("quredis/1 w=0000000000000001 attempts=1 first_failed=7000\na"), "b");
	run(0, 0), run(0, 1);
	fail_item(PLACE(0, 0), CONF_OUTCOME_FAIL);
	fail_item(PLACE(0, 1), CONF_OUTCOME_ESCAPE);
	settle_set_aside(w, PLACE(0, 0), "WRONGTYPE no");
	o = assert_moves(PLACE(0, 0), MOVE_ASIDE);
	assert_string_equal(o->error_message, "retry: WRONGTYPE no");
	assert_string_equal(o->record.error_class, "retry");
	assert_int_equal(o->record.first_failed_ms, 7000);
	assert_int_equal(rewritten(PLACE(0, 0))->attempts, 2);
	settle_set_aside(w, PLACE(0, 1), "WRONGTYPE no");
	assert_false(assert_moves(PLACE(0, 1), MOVE_ASIDE)->rewritten);
	assert_int_equal(fixture_logged("event=message_set_aside"), 2);
}

UNIT_MAIN(NULL, NULL)
