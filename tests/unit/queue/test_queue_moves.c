/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/*
 * Every move against a real server: what it does, and that a message that is not there, keys of other
 * types, a full server and equal messages lose and double nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "common/queue/notes.h"
#include "tests/unit/queue/moves_fixture.h"
#include "tests/unit/unit.h"

/* ---- the moves under test, each with the places it takes from and puts to ---- */

static void do_retry(void)
{
	queue_retry(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &by_value, .change = &change }, 1000);
}

static void do_hand_back(void)
{
	queue_hand_back(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &by_value, .change = &change }, false);
}

static void do_escape(void)
{
	queue_escape(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &by_value, .message = &message, .record = &record });
}

static void do_escape_from_head(void)
{
	queue_escape(&server.r, &(struct queue_move){ .keys = &keys, .lease = owner.lease, .lease_ms = owner.lease_ms, .from = RESCUE, .count = 1,
	    .entry = &by_value, .message = &message, .record = &record });
}

static void do_return(void)
{
	queue_return(&server.r, owner.incarnation, &(struct queue_move){ .keys = &keys, .from = RESCUE,
	    .entry = &by_value, .change = &change });
}

static void do_redrive(void)
{
	queue_redrive(&server.r, &(struct queue_move){ .keys = &keys,
	    .entry = &by_value, .change = &change }, NULL);
}

/* The same in a shared queue. */
static const struct queue_note *a_note(void)
{
	static struct queue_note note;

	queue_note_of(&note, &message, &(struct wrapper){ .redelivered = 1 });
	return &note;
}

static void do_hand_back_noted(void)
{
	queue_hand_back(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &by_value, .change = &change, .note = a_note() }, false);
}

static void do_escape_noted(void)
{
	queue_escape(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &by_value, .message = &message, .note = a_note(), .record = &record });
}

static void do_return_noted(void)
{
	queue_return(&server.r, owner.incarnation, &(struct queue_move){ .keys = &keys, .from = RESCUE,
	    .entry = &by_value, .change = &change, .note = a_note() });
}

static void do_redrive_noted(void)
{
	queue_redrive(&server.r, &(struct queue_move){ .keys = &keys,
	    .entry = &by_value, .change = &change, .note = a_note() }, NULL);
}

/* The same for a message that is named by its place. */
static void do_retry_placed(void)
{
	queue_retry(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &last, .change = &change }, 1000);
}

static void do_hand_back_placed(void)
{
	queue_hand_back(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &last, .change = &change }, false);
}

static void do_escape_placed(void)
{
	queue_escape(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &last, .message = &message, .record = &record });
}

static void do_escape_from_head_placed(void)
{
	queue_escape(&server.r, &(struct queue_move){ .keys = &keys, .lease = owner.lease, .lease_ms = owner.lease_ms, .from = RESCUE, .count = 1,
	    .entry = &first, .message = &message, .record = &record });
}

static void do_redrive_placed(void)
{
	queue_redrive(&server.r, &(struct queue_move){ .keys = &keys,
	    .entry = &last, .change = &change }, NULL);
}

static void do_due(void)
{
	queue_due(&server.r, &keys, false, 10, NULL);
}

static const struct move {
	const char *name, *from, *to;
	void (*append)(void);
	bool unwraps;		/* puts the producer's bytes, else `wrapped` */
	bool names_it;		/* the message: 0 when it is not there, */
	bool by_place;		/* or QUEUE_CANNOT_TELL when another one is at its place */
} moves[] = {
	{ "retry", TRAY, "quredis:of:i:delayed", do_retry, false, true, false },
	{ "hand back", TRAY, "i", do_hand_back, false, true, false },
	{ "escape", TRAY, "e", do_escape, true, true, false },
	{ "escape from rescue", RESCUE, "e", do_escape_from_head, true, true, false },
	{ "return", RESCUE, "i", do_return, false, true, true },
	{ "redrive", "e", "i", do_redrive, false, true, false },
	{ "due", "quredis:of:i:delayed", "i", do_due, false, false, false },
	{ "hand back noted", TRAY, "i", do_hand_back_noted, false, true, false },
	{ "escape noted", TRAY, "e", do_escape_noted, true, true, false },
	{ "return noted", RESCUE, "i", do_return_noted, false, true, true },
	{ "redrive noted", "e", "i", do_redrive_noted, false, true, false },
	{ "retry placed", TRAY, "quredis:of:i:delayed", do_retry_placed, false, true, true },
	{ "hand back placed", TRAY, "i", do_hand_back_placed, false, true, true },
	{ "escape placed", TRAY, "e", do_escape_placed, true, true, true },
	{ "escape from rescue placed", RESCUE, "e", do_escape_from_head_placed, true, true, true },
	{ "redrive placed", "e", "i", do_redrive_placed, false, true, true },
};
#define EACH_MOVE(m) const struct move *m = moves; m < moves + sizeof(moves) / sizeof(moves[0]); m++

static struct redis_reply run(const struct move *m)
{
	struct redis_reply reply;

	m->append();
	reply = private_redis_answer_or_error(&server);
	if (reply.type == REDIS_ARRAY)		/* of due: one of each */
		reply.integer = (int64_t)reply.n;
	return reply;
}

/* ---- every move ---- */

TEST(a_move_takes_and_puts, moves_setup)
{
	for (EACH_MOVE(m)) {
		moves_setup(NULL);
		moves_put(m->from, RAW, RAW_LEN);
		assert_int_equal(run(m).integer, 1);
		assert_int_equal(moves_count(m->from), 0);
		if (m->unwraps || m->append == do_due)
			moves_assert_holds(m->name, m->to, RAW, RAW_LEN);
		else
			moves_assert_holds(m->name, m->to, wrapped.data, wrapped.len);
	}
}

TEST(what_is_not_there_is_not_moved, moves_setup)
{
	for (EACH_MOVE(m)) {
		if (!m->names_it)
			continue;
		moves_setup(NULL);
		moves_put(m->from, "something else", 14);
		assert_int_equal(run(m).integer, m->by_place ? QUEUE_CANNOT_TELL : 0);
		assert_int_equal(moves_count(m->from), 1);
		assert_int_equal(moves_count(m->to), 0);
		assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 0);
	}
}

/* What was at the destination before is not taken for what an undone move put there. */
TEST(undoing_takes_only_its_own, moves_setup)
{
	for (EACH_MOVE(m)) {
		if (!m->names_it)
			continue;
		moves_setup(NULL);
		moves_put(m->to, wrapped.data, wrapped.len);
		assert_int_equal(run(m).integer, 0);
		moves_assert_holds(m->name, m->to, wrapped.data, wrapped.len);
	}
}

TEST(a_destination_of_another_type_loses_nothing, moves_setup)
{
	for (EACH_MOVE(m)) {
		moves_setup(NULL);
		moves_put(m->from, RAW, RAW_LEN);
		REDIS(&server, "SET %s x", m->to);
		assert_int_equal(run(m).type, REDIS_ERROR);
		moves_assert_holds(m->name, m->from, RAW, RAW_LEN);
		REDIS(&server, "DEL %s", m->to);
		assert_int_equal(run(m).integer, 1);
		assert_int_equal(moves_count(m->to), 1);
	}
}

/* The copy came first, and is undone: else there would be one more each time it is tried. */
TEST(a_source_of_another_type_makes_no_copies, moves_setup)
{
	for (EACH_MOVE(m)) {
		moves_setup(NULL);
		REDIS(&server, "SET %s x", m->from);
		assert_int_equal(run(m).type, REDIS_ERROR);
		assert_string_equal(REDIS(&server, "GET %s", m->from).str, "x");
		assert_int_equal(moves_count(m->to), 0);
	}
}

/* Nor where the server does not let us copy or remove, or take the copy back either. */
TEST(without_two_rights_there_is_still_one_message, moves_setup)
{
	static const char *const without[] = { "", "-lpush", "-rpush", "-zadd", "-lrem", "-zrem", "-zremrangebyrank", "-lpop", "-rpop",
		"-ltrim" };

	for (EACH_MOVE(m)) {
		for (size_t i = 0; i < nitems(without) * nitems(without); i++) {
			bool failed;

			moves_setup(NULL);
			moves_put(m->from, RAW, RAW_LEN);
			REDIS(&server, "ACL SETUSER default +@all");
			for (int k = 0; k < 2; k++) {
				const char *right = without[k == 0 ? i / nitems(without) : i % nitems(without)];

				REDIS(&server, "ACL SETUSER default %s", right[0] == '\0' ? "on" : right);
			}
			failed = run(m).type == REDIS_ERROR;
			REDIS(&server, "ACL SETUSER default +@all");
			if (failed)
				moves_assert_holds(m->name, m->from, RAW, RAW_LEN);
			assert_int_equal(moves_count(m->from) + moves_count(m->to), 1);
		}
	}
}

TEST(every_move_runs_at_maxmemory, moves_setup)
{
	for (EACH_MOVE(m)) {
		moves_setup(NULL);
		moves_put(m->from, RAW, RAW_LEN);
		REDIS(&server, "CONFIG SET maxmemory 1");
		assert_int_equal(run(m).integer, 1);
		assert_int_equal(moves_count(m->from), 0);
		assert_int_equal(moves_count(m->to), 1);
	}
}

TEST(of_equal_messages_one_is_moved, moves_setup)
{
	for (EACH_MOVE(m)) {
		if (moves_is_set(m->from))
			continue;
		moves_setup(NULL);
		for (int i = 0; i < 3; i++)
			moves_put(m->from, RAW, RAW_LEN);
		assert_int_equal(run(m).integer, 1);
		assert_int_equal(moves_count(m->from), 2);
		assert_int_equal(moves_count(m->to), 1);
	}
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
