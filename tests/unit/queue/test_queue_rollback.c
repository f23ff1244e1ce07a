/* links: tests/unit/private_redis.c tests/unit/private_queue.c */

/*
 * The lease counts what left each tray alive, and a tray is acknowledged only while it counts what its owner knows: so an
 * owner that remembers a later state of Redis deletes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "common/queue/history.h"
#include "tests/unit/private_queue.h"
#include "tests/unit/unit.h"

static struct message message;
static struct buffer line;
static const struct queue_entry entry = { .raw = "raw", .len = 3, .at = QUEUE_ANYWHERE };
static const struct queue_change change = { &line, 0 };

static int setup_all(void **state)
{
	(void)state;
	private_queue_start();
	message_parse(&message, &keys.lines, "raw", 3);
	buffer_append(&line, "line\n", 5);
	return 0;
}

static int teardown_all(void **state)
{
	buffer_free(&line);
	return private_queue_stop(state);
}

static int setup(void **state)
{
	(void)state;
	private_queue_clear();
	return 0;
}

static void retry(int tray)
{
	queue_retry(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, tray),
	    .entry = &entry, .change = &change }, 1000);
}

static void hand_back(int tray)
{
	queue_hand_back(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, tray),
	    .entry = &entry, .change = &change }, false);
}

static void escape(int tray)
{
	queue_escape(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, tray),
	    .entry = &entry, .message = &message });
}

/* The message is done, but what it emitted is lost if Redis returns to an earlier state. */
static void emit(int tray)
{
	static const char *const targets[] = { "i" };
	static const struct queue_put put = { .data = "x", .len = 1 };
	struct queue_history *none = queue_history_new(0);

	queue_history_emit(&server.r, &owner, tray, &entry,
	    &(struct queue_emitted){ .targets = targets, .ntargets = 1, .puts = &put, .nputs = 1 }, none, 0, "n");
	queue_history_free(none);
}

static void (*const moves[])(int tray) = { retry, hand_back, escape, emit };
#define EACH_MOVE(i) size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++

static bool agrees(void)
{
	struct redis_reply reply;

	queue_lease_counts(&server.r, &owner);
	reply = private_redis_answer(&server);
	return queue_lease_agrees(&owner, &reply);
}

static int64_t acknowledge(int tray)
{
	struct queue_history *h = queue_history_new(0);

	queue_history_done(&server.r, &owner, tray, NULL, h, 0, "n");
	queue_history_free(h);
	return private_redis_answer(&server).integer;
}

static int64_t acknowledge_and_remember(int tray)
{
	struct queue_history *h = queue_history_new(1);
	struct message m;

	message_parse(&m, &keys.lines, "raw", 3);
	queue_history_add(h, &m, 1, 1, 10);
	queue_history_done(&server.r, &owner, tray, NULL, h, 10, "n");
	queue_history_free(h);
	return private_redis_answer(&server).integer;
}

/* The short form of the script and the one that writes the history. */
TEST(a_tray_is_acknowledged_only_if_the_numbers_agree, setup)
{
	int64_t (*const forms[])(int tray) = { acknowledge, acknowledge_and_remember };

	for (size_t i = 0; i < 2; i++) {
		REDIS(&server, "LPUSH %s raw twin", owner.trays[0]);
		owner.moved[0] = 1;
		assert_int_equal(forms[i](0), QUEUE_CANNOT_TELL);
		assert_int_equal(REDIS_INT(&server, "LLEN %s", owner.trays[0]), 2);
		owner.moved[0] = 0;
		assert_int_equal(forms[i](0), 1);
		assert_int_equal(forms[i](0), 0);
	}
}

TEST(a_move_out_of_a_tray_is_counted, setup)
{
	assert_true(agrees());
	for (EACH_MOVE(i)) {
		REDIS(&server, "LPUSH %s raw", owner.trays[1]);
		moves[i](1);
		assert_int_equal(private_redis_answer(&server).integer, 1);
		assert_false(agrees());
		owner.moved[1]++;
		assert_true(agrees());
		assert_int_equal(REDIS_INT(&server, "DEL i quredis:of:i:delayed e"), 1);
	}
}

TEST(one_that_was_not_there_is_not, setup)
{
	for (EACH_MOVE(i)) {
		moves[i](0);
		assert_int_equal(private_redis_answer(&server).integer, 0);
		assert_true(agrees());
	}
}

/* A lease that has run out must not be there again, without an end. */
TEST(without_a_lease_nothing_is_counted, setup)
{
	for (EACH_MOVE(i)) {
		REDIS(&server, "DEL %s", owner.lease);
		REDIS(&server, "LPUSH %s raw", owner.trays[0]);
		moves[i](0);
		assert_int_equal(private_redis_answer(&server).integer, 1);
		assert_int_equal(REDIS_INT(&server, "EXISTS %s", owner.lease), 0);
	}
	owner.moved[0]++;
	assert_false(agrees());
}

/* A key of another type under the lease's name: the move is made, and answered. */
TEST(a_count_that_fails_holds_no_move_up, setup)
{
	for (EACH_MOVE(i)) {
		REDIS(&server, "SET %s 1", owner.lease);
		REDIS(&server, "LPUSH %s raw", owner.trays[0]);
		moves[i](0);
		assert_int_equal(private_redis_answer(&server).integer, 1);
	}
}

TEST(a_tray_is_acknowledged_while_both_counts_are_equal, setup)
{
	REDIS(&server, "LPUSH %s a", owner.trays[0]);
	assert_int_equal(acknowledge(0), 1);
	for (EACH_MOVE(i)) {
		REDIS(&server, "LPUSH %s a raw", owner.trays[0]);
		moves[i](0);
		owner.moved[0] += private_redis_answer(&server).integer;
		assert_int_equal(acknowledge(0), 1);
		assert_int_equal(REDIS_INT(&server, "EXISTS %s", owner.trays[0]), 0);
		assert_int_equal(acknowledge(0), 0);
	}
}

/* The owner knows of a move that this state of Redis does not have. */
TEST(after_a_return_to_an_earlier_state_it_is_not, setup)
{
	REDIS(&server, "LPUSH %s a raw", owner.trays[0]);
	owner.moved[0] = 1;
	assert_false(agrees());
	assert_int_equal(acknowledge(0), QUEUE_CANNOT_TELL);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", owner.trays[0]), 2);
	/* nor if another tray's count is right, */
	retry(0);
	private_redis_answer(&server);
	owner.moved[1] = 1;
	REDIS(&server, "LPUSH %s a", owner.trays[1]);
	assert_int_equal(acknowledge(1), QUEUE_CANNOT_TELL);
	assert_int_equal(acknowledge(0), 1);
	/* nor if even the name is not known any more */
	REDIS(&server, "DEL %s", owner.lease);
	assert_int_equal(acknowledge(1), QUEUE_CANNOT_TELL);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", owner.trays[1]), 1);
}

/* One message by its value: whatever else lies there stays. */
TEST(a_single_acknowledgement_needs_no_count, setup)
{
	struct queue_history *h = queue_history_new(0);

	owner.moved[0] = 1;
	REDIS(&server, "LPUSH %s a raw", owner.trays[0]);
	queue_history_done(&server.r, &owner, 0, &entry, h, 0, "n");
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", owner.trays[0]), 1);
	/* but the lease: a sweeper may have taken it, and this may be an equal one */
	REDIS(&server, "LPUSH %s raw", owner.trays[0]);
	REDIS(&server, "DEL %s", owner.lease);
	queue_history_done(&server.r, &owner, 0, &entry, h, 0, "n");
	queue_history_free(h);
	assert_int_equal(private_redis_answer(&server).integer, QUEUE_CANNOT_TELL);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", owner.trays[0]), 2);
}

/* A place: an equal length and equal ends do not prove that the message there is the one meant. */
TEST(a_place_counts_for_nothing_after_a_return, setup)
{
	static const struct queue_entry last = { .raw = "raw", .len = 3, .at = -1, .of = 2, .moved = 1 };
	struct queue_history *h = queue_history_new(0);

	REDIS(&server, "LPUSH %s raw a", owner.trays[0]);
	queue_history_done(&server.r, &owner, 0, &last, h, 0, "n");
	assert_int_equal(private_redis_answer(&server).integer, QUEUE_CANNOT_TELL);
	queue_retry(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &last, .change = &change }, 1000);
	assert_int_equal(private_redis_answer(&server).integer, QUEUE_CANNOT_TELL);
	queue_hand_back(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &last, .change = &change }, false);
	assert_int_equal(private_redis_answer(&server).integer, QUEUE_CANNOT_TELL);
	queue_escape(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &last, .message = &message });
	assert_int_equal(private_redis_answer(&server).integer, QUEUE_CANNOT_TELL);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", owner.trays[0]), 2);
	assert_int_equal(REDIS_INT(&server, "EXISTS i quredis:of:i:delayed e"), 0);

	REDIS(&server, "HSET %s %s 1", owner.lease, owner.trays[0]);
	queue_history_done(&server.r, &owner, 0, &last, h, 0, "n");
	assert_int_equal(private_redis_answer(&server).integer, 1);
	REDIS(&server, "RPUSH %s raw", owner.trays[0]);
	REDIS(&server, "SET %s 1", owner.lease);        /* no lease of ours */
	queue_history_done(&server.r, &owner, 0, &last, h, 0, "n");
	assert_int_equal(private_redis_answer(&server).integer, QUEUE_CANNOT_TELL);
	queue_history_free(h);
}

TEST(a_new_name_counts_from_nothing, setup)
{
	struct queue_owner next;

	REDIS(&server, "LPUSH %s a raw", owner.trays[0]);
	retry(0);
	private_redis_answer(&server);
	queue_owner_init(&next, &keys, "n.00000000000000b0.4.2", 30000);
	queue_renew(&server.r, &next, &owner, "{}");
	assert_int_equal(private_redis_answer(&server).integer, 1);
	queue_owner_free(&owner);
	owner = next;
	assert_true(agrees());
	assert_in_range(REDIS_INT(&server, "PTTL %s", owner.lease), 1, 30000);
	assert_int_equal(acknowledge(0), 1);
}

UNIT_MAIN(setup_all, teardown_all)
