/* links: tests/unit/worker/worker_fixture.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* In which order moves leave, how a message is named in them, and what follows from each answer and each refusal. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/worker/worker_fixture.h"

#define P PLACE(0, 0)
#define RETRY(tray) "retry t:lease:" INC " " TRAY(tray) " quredis:of:i:delayed quredis:of:i:delayed:apart 30000 "
#define REFUSED "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
#define OOM "-OOM command not allowed when used memory > 'maxmemory'.\r\n"

static char large[3][QUEUE_BY_VALUE_MAX + 2];

static void tick(void)
{
	mover_tick(w, fixture_now_ms());
}

static void answer(struct place p, const char *resp)
{
	assert_awaits(ANSWER_MOVE, p.tray, p.item);
	mover_answer(w, p, fixture_reply(resp), fixture_now_ms());
}

static void hand_back(int tray, int item)
{
	settle_hand_back(w, PLACE(tray, item), SETTLE_AS_IT_WAS);
}

static void run(int tray, int item)
{
	starter_describe(w, PLACE(tray, item));
	starter_started(w, PLACE(tray, item));
}

static void finish(int tray, int item)
{
	run(tray, item);
	settle_done(w, PLACE(tray, item), 1);
	tray_close(&w->trays, tray);
}

static void ask_for(int tray, int item, enum conf_outcome verdict)
{
	const struct failure f = { .verdict = verdict, .class = "HandlerExit", .text = "x", .delay_ms = -1 };

	run(tray, item);
	settle_failed(w, PLACE(tray, item), &f, fixture_now_ms());
}

static const struct item *item_at(struct place p)
{
	return tray_item(&w->trays, p);
}

static void make_large(void)
{
	for (int i = 0; i < 3; i++)
		memset(large[i], 'a' + i, sizeof(large[i]) - 1);
}

/* ---- what leaves, and in which order ---- */

/* What goes back to the pop end last is fetched first. */
TEST(hand_backs_leave_newest_first, fixture_setup, fixture_teardown)
{
	FILL(1, "a", "b");
	FILL(0, "c");
	settle_relieve(w, PLACE(-1, -1));
	assert_true(mover_hand_back_waits(w));
	tick();
	assert_sent(HAND_BACK(0) "'' '' c");
	assert_sent(HAND_BACK(1) "'' '' b");
	assert_sent(HAND_BACK(1) "'' '' a");
	assert_sent_nothing();
	assert_awaits(ANSWER_MOVE, 0, 0);
	assert_awaits(ANSWER_MOVE, 1, 1);
	assert_awaits(ANSWER_MOVE, 1, 0);
	assert_false(mover_hand_back_waits(w));
}

TEST(a_move_is_sent_once, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	hand_back(0, 0);
	tick();
	tick();
	assert_sent(HAND_BACK(0));
	assert_sent_nothing();
}

TEST(nothing_is_sent_without_a_registered_connection, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	hand_back(0, 0);
	w->session.registered = false;
	tick();
	assert_sent_nothing();
	w->session.registered = true;
	tick();
	assert_sent(HAND_BACK(0));
}

/* Of equal ones only one leaves at a time, since a list does not tell which one has left. Redis may refuse a retry, and execute an escape. */
TEST(equal_messages_with_different_moves_leave_one_by_one, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b", "a");
	ask_for(0, 0, CONF_OUTCOME_RETRY);
	ask_for(0, 1, CONF_OUTCOME_RETRY);
	ask_for(0, 2, CONF_OUTCOME_ESCAPE);
	tick();
	assert_true(item_at(PLACE(0, 2))->sent && item_at(PLACE(0, 1))->sent && !item_at(PLACE(0, 0))->sent);
	answer(PLACE(0, 2), ":1\r\n");
	tick();
	assert_true(item_at(PLACE(0, 0))->sent);
}

/* The place of a large message is certain only when no move out of its tray is unanswered. */
TEST(large_messages_leave_one_by_one_and_by_their_places, fixture_setup, fixture_teardown)
{
	make_large();
	FILL(0, large[0], "small", large[2]);
	settle_relieve(w, PLACE(-1, -1));
	tick();
	assert_sent(HAND_BACK(0) "-3/3/0 4097 cccc");
	assert_sent_nothing();
	tick();
	assert_sent_nothing();
	answer(PLACE(0, 2), ":1\r\n");
	tick();
	assert_sent(HAND_BACK(0) "'' '' small");
	assert_sent_nothing();
	answer(PLACE(0, 1), ":1\r\n");
	tick();
	assert_sent(HAND_BACK(0) "-1/1/2 4097 aaaa");	/* two have left: the lease has counted them, too */
}

TEST(a_lost_message_takes_no_place_in_the_list, fixture_setup, fixture_teardown)
{
	make_large();
	FILL(0, "lost", large[0], "newer");
	run(0, 0);
	tray_lose(&w->trays, P);
	hand_back(0, 1);
	tick();
	assert_sent(HAND_BACK(0) "-1/2/0 4097 aaaa");
}

TEST(a_large_message_of_a_mixed_tray_is_named_by_its_bytes, fixture_setup, fixture_teardown)
{
	make_large();
	FILL(0, large[0]);
	tray_mix(&w->trays, 0);
	hand_back(0, 0);
	tick();
	assert_sent(HAND_BACK(0) "'' '' aaaa");
}

/* Else a newer message would come back to the pop end behind an older one. */
TEST(an_older_tray_waits_until_a_newer_one_has_gone_back, fixture_setup, fixture_teardown)
{
	make_large();
	FILL(0, "retried", "older");
	ask_for(0, 0, CONF_OUTCOME_RETRY);
	FILL(1, large[0], large[1]);
	hand_back(0, 1);
	hand_back(1, 0);
	hand_back(1, 1);
	tick();
	assert_sent(HAND_BACK(1) "-2/2/0 4097 bbbb");
	assert_sent(RETRY(0) "'' '' retried");		/* no order to keep: it leaves at once */
	assert_sent_nothing();
	answer(PLACE(1, 1), ":1\r\n");
	tick();
	assert_sent(HAND_BACK(1) "-1/1/1 4097 aaaa");
	assert_sent(HAND_BACK(0) "'' '' older");
}

/* ---- answers ---- */

TEST(a_moved_message_is_gone_and_counted, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b");
	hand_back(0, 0);
	ask_for(0, 1, CONF_OUTCOME_ESCAPE);
	tick();
	assert_sent("escape t:lease:" INC " " TRAY(0) " e e:log quredis:of:i:cancels 30000 '' '' b ");
	assert_sent(HAND_BACK(0));
	answer(PLACE(0, 1), ":1\r\n");
	assert_int_equal(w->trays.tray[0].state, TRAY_FILLED);
	answer(P, ":1\r\n");
	assert_int_equal(w->trays.tray[0].state, TRAY_EMPTY);
	assert_int_equal(w->session.owner.moved[0], 2);
	assert_int_equal(fixture_counted(COUNT_ESCAPED), 1);
	assert_int_equal(fixture_counted(COUNT_HANDLER_EXIT), 1);
	assert_int_equal(fixture_counted(COUNT_HANDED_BACK), 1);
	assert_int_equal(atomic_load(&fixture.env->board->workers.done), 1);	/* a hand-back settles nothing */
	assert_true(w->session.registered);
}

TEST(a_message_that_was_not_there_is_a_lost_claim_and_needs_a_new_name, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	ask_for(0, 0, CONF_OUTCOME_RETRY);
	tick();
	answer(P, ":0\r\n");
	assert_int_equal(w->trays.tray[0].state, TRAY_EMPTY);
	assert_int_equal(w->session.owner.moved[0], 0);		/* the lease has not counted it, either */
	assert_int_equal(fixture_counted(COUNT_CLAIM_LOST), 1);
	assert_int_equal(fixture_counted(COUNT_RETRIED), 0);
	assert_false(w->session.registered);
	assert_int_equal(fixture_logged("event=claim_lost"), 1);
}

TEST(a_dead_letter_without_its_record_is_logged, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	ask_for(0, 0, CONF_OUTCOME_ESCAPE);
	tick();
	answer(P, ":2\r\n");
	assert_int_equal(fixture_logged("event=record_failed"), 1);
	assert_int_equal(fixture_counted(COUNT_ESCAPED), 1);
}

/* ---- acknowledgements ---- */

TEST(a_tray_that_is_done_is_deleted_at_once, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b");
	finish(0, 0);
	finish(0, 1);
	tick();
	tick();
	assert_sent("DEL " TRAY(0));
	assert_sent_nothing();
	assert_awaits(ANSWER_DELETE, 0, 0);
	mover_delete_answer(w, (struct place){ 0, 0 }, fixture_integer(1), fixture_now_ms());
	assert_int_equal(w->trays.tray[0].state, TRAY_EMPTY);
	assert_int_equal(fixture_counted(COUNT_DONE), 2);
}

/* Redis may have gone back to a state before the move. Then the message that was moved lies in the tray again. */
TEST(a_tray_that_a_message_left_is_deleted_only_if_the_counts_agree, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b", "c");
	hand_back(0, 0);
	tick();
	answer(P, ":1\r\n");
	fixture_forget_sent();
	finish(0, 1);
	finish(0, 2);
	tick();
	assert_sent("acknowledge t:lease:" INC " " TRAY(0) " 1");
	assert_awaits(ANSWER_DELETE, 0, 0);
	mover_delete_answer(w, (struct place){ 0, 0 }, fixture_integer(QUEUE_CANNOT_TELL), fixture_now_ms());
	assert_int_equal(w->trays.tray[0].state, TRAY_DELETING);
	assert_false(w->trays.tray[0].sent);
	assert_false(w->session.registered);			/* it reads its trays under a new name */
	assert_int_equal(fixture_counted(COUNT_DONE), 0);
}

TEST(a_deleted_tray_that_was_missing_is_a_lost_claim, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b");
	finish(0, 0);
	finish(0, 1);
	tick();
	mover_delete_answer(w, (struct place){ 0, 0 }, fixture_integer(0), fixture_now_ms());
	assert_int_equal(w->trays.tray[0].state, TRAY_EMPTY);
	assert_int_equal(fixture_counted(COUNT_CLAIM_LOST), 2);
	assert_int_equal(fixture_counted(COUNT_DONE), 0);
	assert_false(w->session.registered);
}

TEST(a_refused_acknowledgement_is_sent_again, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b");
	finish(0, 0);
	finish(0, 1);
	tick();
	fixture_forget_sent();
	mover_delete_answer(w, (struct place){ 0, 0 }, fixture_reply(REFUSED), fixture_now_ms());
	assert_int_equal(w->trays.refusals, 1);
	tick();
	assert_sent_nothing();
	fixture_pass_ms(100);
	tick();
	assert_sent("DEL " TRAY(0));
	mover_delete_answer(w, (struct place){ 0, 0 }, fixture_integer(1), fixture_now_ms());
	assert_int_equal(w->trays.refusals, 0);
	assert_int_equal(w->mover.retry.errors, 0);
}

/* ---- refusals ---- */

TEST(refusals_that_arrive_together_are_one_step_of_the_back_off, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b");
	hand_back(0, 0);
	hand_back(0, 1);
	tick();
	fixture_forget_sent();
	answer(PLACE(0, 1), OOM);
	answer(P, OOM);
	assert_int_equal(w->mover.retry.errors, 1);
	assert_int_equal(w->trays.refusals, 2);
	assert_false(mover_hand_back_waits(w));			/* it may stay refused for long: others must not wait */
	assert_in_range(mover_deadline_ms(w, fixture_now_ms()) - fixture_now_ms(), 50, 100);
	tick();
	assert_sent_nothing();
	fixture_pass_ms(100);
	tick();
	assert_sent(HAND_BACK(0) "'' '' b");
	assert_sent(HAND_BACK(0) "'' '' a");
	assert_int_not_equal(atomic_load(&fixture.env->slot->error), QUEUE_ERROR_NONE);
}

TEST(the_error_stays_until_the_last_refused_move_has_its_answer, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b");
	hand_back(0, 0);
	hand_back(0, 1);
	tick();
	answer(PLACE(0, 1), OOM);
	answer(P, OOM);
	fixture_pass_ms(100);
	tick();
	answer(PLACE(0, 1), ":1\r\n");
	assert_int_equal(w->mover.retry.errors, 1);
	assert_true(redis_outage_logged(&w->errors.outage));
	answer(P, ":1\r\n");
	assert_int_equal(w->mover.retry.errors, 0);
	assert_int_equal(w->mover.retry.at_ms, 0);
	assert_false(redis_outage_logged(&w->errors.outage));
	assert_int_equal(mover_deadline_ms(w, fixture_now_ms()), INT64_MAX);
}

/* Answers the move with this error n times, each after its back-off. */
static void refuse(struct place p, const char *resp, int n)
{
	for (int i = 0; i < n; i++) {
		fixture_pass_ms(20000);
		tick();
		answer(p, resp);
	}
}

TEST(a_message_that_alone_cannot_be_moved_is_set_aside, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b", "c");
	ask_for(0, 0, CONF_OUTCOME_RETRY);
	refuse(P, REFUSED, MOVE_ATTEMPTS - 1);
	assert_int_equal(item_at(P)->move, MOVE_RETRY);
	refuse(P, REFUSED, 1);
	assert_int_equal(item_at(P)->move, MOVE_ASIDE);
	fixture_forget_sent();
	tick();						/* at once: no back-off */
	assert_sent("escape t:lease:" INC " " TRAY(0) " t:aside t:aside:log");
	answer(P, ":1\r\n");
	ask_for(0, 1, CONF_OUTCOME_RETRY);		/* from now on at the first refusal, */
	refuse(PLACE(0, 1), REFUSED, 1);
	assert_int_equal(item_at(PLACE(0, 1))->move, MOVE_ASIDE);
	tick();
	answer(PLACE(0, 1), ":1\r\n");
	w->mover.hopeless[MOVE_RETRY] = true;
	ask_for(0, 2, CONF_OUTCOME_RETRY);
	fixture_pass_ms(20000);
	tick();
	answer(PLACE(0, 2), ":1\r\n");
	assert_false(w->mover.hopeless[MOVE_RETRY]);	/* until such a move succeeds */
}

TEST(a_transient_error_never_sets_a_message_aside, fixture_setup, fixture_teardown)
{
	FILL(0, "a");
	ask_for(0, 0, CONF_OUTCOME_RETRY);
	refuse(P, OOM, 3 * MOVE_ATTEMPTS);
	assert_int_equal(item_at(P)->move, MOVE_RETRY);
	assert_int_equal(item_at(P)->refusals, 0);
}

/* It would run again. */
TEST(a_message_that_is_done_is_never_set_aside, fixture_setup, fixture_teardown)
{
	FILL(0, "a", "b");
	finish(0, 0);
	settle_relieve(w, PLACE(0, 1));
	refuse(P, REFUSED, 3 * MOVE_ATTEMPTS);
	assert_int_equal(item_at(P)->move, MOVE_DONE);
}

TEST(a_worker_that_must_hand_back_does_not_wait_for_a_refused_retry, fixture_setup, fixture_teardown)
{
	const char *sent;

	FILL(0, "a", "b");
	ask_for(0, 0, CONF_OUTCOME_RETRY);
	settle_put_off(w, PLACE(0, 1), 10);
	w->exit.order = ORDER_HAND_BACK;
	tick();
	answer(PLACE(0, 1), REFUSED);
	answer(P, REFUSED);
	assert_int_equal(item_at(P)->move, MOVE_HAND_BACK);
	assert_int_equal(item_at(PLACE(0, 1))->move, MOVE_HAND_BACK);
	fixture_forget_sent();
	tick();
	assert_string_equal(fixture_sent(), HAND_BACK(0) "'' '' b '' '' 0 R '' '' ''");	/* it did not run: unchanged */
	sent = fixture_sent();
	assert_non_null(strstr(sent, HAND_BACK(0) "'' '' a '' quredis/1 w="));
	assert_non_null(strstr(sent, " redelivered=1"));
	assert_null(strstr(sent, " attempts="));
}

UNIT_MAIN(NULL, NULL)
