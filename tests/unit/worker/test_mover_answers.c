/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c tests/unit/worker/adopt_fixture.c */

/* What a worker learns from the answers to its moves and acknowledgements: refusals, and what left a tray alive. test_mover.c: when it sends them. */

#include "common/base/alloc.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/adopt_fixture.h"

/* Redis counted other moves than we know of: the tray is not deleted, and looked into under a new name. */
TEST(a_refused_acknowledgement_is_a_doubt, adopt_fixture_setup, adopt_fixture_teardown)
{
	struct redis_reply reply = { .type = REDIS_INTEGER, .integer = QUEUE_CANNOT_TELL };

	adopt_fixture_believe(TRAY_DELETING, "agbd");
	w->trays.tray[0].sent = w->session.registered = true;
	mover_delete_answer(w, (struct place){ 0, 0 }, &reply, 0);
	assert_false(w->session.registered);
	assert_int_equal(w->trays.tray[0].state, TRAY_DELETING);
	assert_string_equal(adopt_fixture_believed(), "agbd");
	adopt_fixture_compare("ab");
	assert_string_equal(adopt_fixture_believed(), "agbdaW");
	assert_int_equal(adopt_fixture_lost(), 0);
}

/*
 * Redis cannot tell whether the message is at its place, since the lease ran out meanwhile: nothing is lost before the worker has read its tray. The
 * order in the tray is in doubt, too, so the move names its message by its value from then on.
 */
TEST(a_place_in_doubt_is_no_lost_claim, adopt_fixture_setup, adopt_fixture_teardown)
{
	static const struct redis_reply cannot_tell = { .type = REDIS_INTEGER, .integer = QUEUE_CANNOT_TELL };

	adopt_fixture_believe(TRAY_FILLED, "ambm");
	w->session.registered = true;
	mover_answer(w, (struct place){ 0, 1 }, &cannot_tell, 0);
	assert_false(w->session.registered);
	assert_string_equal(adopt_fixture_believed(), "ambu");
	assert_int_equal(adopt_fixture_lost(), 0);
	assert_int_equal(w->session.owner.moved[0], 0);
	mover_answer(w, (struct place){ 0, 0 }, &cannot_tell, 0);
	adopt_fixture_compare("b");
	assert_string_equal(adopt_fixture_believed(), "agbu");
	assert_int_equal(adopt_fixture_lost(), 1);
	assert_true(w->trays.tray[0].mixed);
	assert_int_equal(w->mover.retry.errors, 0);
}

/* Redis refused the moves, then went back in time or another owner took the messages: nothing is left to be asked for again. */
TEST(a_refused_move_that_is_gone_holds_nothing_up, adopt_fixture_setup, adopt_fixture_teardown)
{
	static const struct redis_reply readonly = { .type = REDIS_ERROR, .str = (char *)"READONLY", .len = 8 };

	adopt_fixture_believe(TRAY_FILLED, "ambm");
	for (int i = 0; i < 2; i++)
		mover_answer(w, (struct place){ 0, i }, &readonly, 0);
	assert_int_equal(w->mover.retry.errors, 1);
	adopt_fixture_compare("b");
	assert_int_equal(w->mover.retry.errors, 1);
	REDIS(&lone_server, "DEL %s", w->session.owner.trays[0]);
	adopt_fixture_compare("");
	assert_int_equal(w->trays.refusals, 0);
	assert_int_equal(w->mover.retry.errors, 0);

	adopt_fixture_believe(TRAY_DELETING, "ad");
	w->trays.tray[0].sent = true;
	mover_delete_answer(w, (struct place){ 0, 0 }, &readonly, 0);
	assert_int_equal(w->mover.retry.errors, 1);
	adopt_fixture_compare("");
	assert_int_equal(w->mover.retry.errors, 0);
}

/* Redis as a whole may refuse for as long as it likes. What is done never leaves unacknowledged. */
TEST(what_is_refused_too_often_is_set_aside, adopt_fixture_setup, adopt_fixture_teardown)
{
	static const char *const of_redis[] = { "READONLY x", "OOM x", "MISCONF x", "BUSY x", "LOADING x" };
	static const char *const of_the_message[] = { "WRONGTYPE x", "NOPERM x", "ERR a script failed" };
	struct redis_reply refusal = { .type = REDIS_ERROR }, moved = { .type = REDIS_INTEGER, .integer = 1 };
	struct place first = { 0, 0 }, second = { 0, 1 }, third = { 0, 2 };

	adopt_fixture_believe(TRAY_FILLED, "amamamam");
	for (int i = 0; i < 4; i++)
		w->trays.tray[0].items[i].move = i == 3 ? MOVE_DONE : MOVE_RETRY;
	for (int i = 0; i < 5 * MOVE_ATTEMPTS; i++) {
		refusal.str = (char *)(uintptr_t)of_redis[i % 5];
		mover_answer(w, first, &refusal, 0);
	}
	assert_int_equal(set_aside, 0);
	for (int i = 0; i < MOVE_ATTEMPTS; i++) {
		assert_int_equal(set_aside, 0);
		refusal.str = (char *)(uintptr_t)of_the_message[i % 3];
		mover_answer(w, first, &refusal, 0);
		mover_answer(w, (struct place){ 0, 3 }, &refusal, 0);
	}
	assert_int_equal(set_aside, 1);
	mover_answer(w, first, &refusal, 0);		/* that is refused, too */
	assert_int_equal(set_aside, 1);
	mover_answer(w, first, &moved, 0);
	assert_int_equal(w->trays.tray[0].items[0].state, ITEM_GONE);
	mover_answer(w, second, &refusal, 0);		/* the next one of the same fate */
	assert_int_equal(set_aside, 2);
	w->trays.tray[0].items[2].move = MOVE_RETRY;
	w->mover.hopeless[MOVE_RETRY] = true;
	mover_answer(w, third, &moved, 0);
	assert_false(w->mover.hopeless[MOVE_RETRY]);
	w->mover.hopeless[MOVE_RETRY] = false;
}

TEST(what_leaves_a_tray_alive_is_counted, adopt_fixture_setup, adopt_fixture_teardown)
{
	struct redis_reply reply = { .type = REDIS_INTEGER, .integer = 1 };
	static const int64_t counted[] = { [MOVE_DONE] = 0, [MOVE_RETRY] = 1, [MOVE_ESCAPE] = 2, [MOVE_HAND_BACK] = 3, [MOVE_PUT_OFF] = 4,
		[MOVE_HOLD] = 5, [MOVE_ASIDE] = 6 };

	adopt_fixture_believe(TRAY_FILLED, "amamamamamamam");
	for (int i = 0; i < MOVES; i++) {
		struct outcome *o = alloc_zero(1, sizeof(*o));

		w->trays.tray[0].items[i].outcome = o;
		o->record.error_class = "HandlerExit";
		w->trays.tray[0].items[i].move = (enum move)i;
		mover_answer(w, (struct place){ 0, i }, &reply, 0);
		assert_int_equal(w->session.owner.moved[0], counted[i]);
		assert_int_equal(w->session.owner.moved[1], 0);
	}
}

/* The worker asks twice a turn whether a hand-back waits to be sent. In a tray in which nothing moves it must not read all messages. */
TEST(a_tray_without_moves_is_not_searched, adopt_fixture_setup, adopt_fixture_teardown)
{
	struct tray *t = &w->trays.tray[0];
	struct item *items;

	adopt_fixture_believe(TRAY_FILLED, "adbrcw");
	items = t->items;
	t->items = NULL;		/* a read of an item crashes */
	assert_false(mover_hand_back_waits(w));
	t->items = items;
	tray_move(&w->trays, (struct place){ 0, 2 }, MOVE_HAND_BACK);
	assert_true(mover_hand_back_waits(w));
	items[2].refused = true;
	assert_false(mover_hand_back_waits(w));
	items[2].refused = false;
	items[2].sent = true;
	assert_false(mover_hand_back_waits(w));
}

UNIT_MAIN(lone_worker_start_server, lone_worker_stop_server)
