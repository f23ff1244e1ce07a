/* links: tests/unit/private_redis.c tests/unit/private_queue.c tests/unit/queue/apart_fixture.c */

/* An operator picks one waiting or delayed message, or one that a producer delayed, while lists change and Redis refuses commands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/admin.h"
#include "common/queue/watch.h"
#include "tests/unit/queue/apart_fixture.h"
#include "tests/unit/unit.h"

static int64_t pick_waiting(enum queue_pick pick, const char *raw, int64_t at)
{
	queue_pick_waiting(&server.r, &keys, pick, &(struct queue_entry){ .raw = raw, .len = strlen(raw), .at = at });
	return private_redis_answer(&server).integer;
}

static int64_t pick_delayed(enum queue_pick pick, int64_t rank, const char *due, const char *raw, size_t len)
{
	queue_pick_delayed(&server.r, &keys, pick, &(struct queue_delayed){ .rank = rank, .due = due, .entry = { .raw = raw, .len = len } });
	return private_redis_answer(&server).integer;
}

static void assert_waiting(const char *expected)
{
	struct redis_reply all = REDIS(&server, "LRANGE i 0 -1");
	char text[200] = "";

	for (size_t i = 0; i < all.n; i++) {
		strcat(text, i > 0 ? " " : "");
		strncat(text, redis_element(&all, i).str, 50);
	}
	assert_string_equal(text, expected);
}

TEST(a_waiting_message_by_its_value, apart_setup)
{
	REDIS(&server, "RPUSH i d c b a");
	assert_int_equal(pick_waiting(QUEUE_PICK_FIRST, "c", QUEUE_ANYWHERE), 1);
	assert_waiting("d b a c");
	assert_int_equal(pick_waiting(QUEUE_PICK_FIRST, "c", QUEUE_ANYWHERE), 1);
	assert_waiting("d b a c");
	assert_int_equal(pick_waiting(QUEUE_PICK_DELETE, "a", QUEUE_ANYWHERE), 1);
	assert_waiting("d b c");
}

/* A worker has fetched it since the operator's command looked. */
TEST(one_that_left_comes_not_back, apart_setup)
{
	REDIS(&server, "RPUSH i b a");
	assert_int_equal(pick_waiting(QUEUE_PICK_FIRST, "gone", QUEUE_ANYWHERE), 0);
	assert_int_equal(pick_waiting(QUEUE_PICK_DELETE, "gone", QUEUE_ANYWHERE), 0);
	assert_int_equal(pick_waiting(QUEUE_PICK_FIRST, "gone", -1), QUEUE_CANNOT_TELL);
	assert_int_equal(pick_waiting(QUEUE_PICK_DELETE, "a", -2), QUEUE_CANNOT_TELL);
	assert_int_equal(pick_waiting(QUEUE_PICK_DELETE, "a", -3), QUEUE_CANNOT_TELL);
	assert_waiting("b a");
	REDIS(&server, "DEL i");
	assert_int_equal(pick_waiting(QUEUE_PICK_DELETE, "a", -1), 0);
	assert_int_equal(pick_waiting(QUEUE_PICK_FIRST, "a", QUEUE_ANYWHERE), 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS i"), 0);
}

TEST(a_waiting_message_that_redis_refuses_to_move_stays, apart_setup)
{
	REDIS(&server, "RPUSH i b a");
	redis_appendf(&server.r, "ACL SETUSER default -lrem");
	private_redis_answer(&server);
	queue_pick_waiting(&server.r, &keys, QUEUE_PICK_FIRST, &(struct queue_entry){ .raw = "b", .len = 1, .at = QUEUE_ANYWHERE });
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	REDIS(&server, "ACL SETUSER default +@all");
	assert_waiting("b a");
}

TEST(a_delayed_message_that_was_seen, apart_setup)
{
	REDIS(&server, "ZADD quredis:of:i:delayed 5 five 6 six 7 seven");
	REDIS(&server, "RPUSH i b a");
	assert_int_equal(pick_delayed(QUEUE_PICK_FIRST, 1, "6", "six", 3), 1);
	assert_waiting("b a six");
	assert_int_equal(pick_delayed(QUEUE_PICK_DELETE, 1, "7", "seven", 5), 1);
	assert_waiting("b a six");
	assert_int_equal(REDIS_INT(&server, "ZCARD quredis:of:i:delayed"), 1);
}

/* Its rank, its time or its bytes have changed since the look. */
TEST(another_delayed_message_is_left_alone, apart_setup)
{
	static const struct { int64_t rank; const char *due, *raw; size_t len; } wrong[] = {
		{ 0, "6", "six", 3 }, { 2, "6", "six", 3 }, { 3, "6", "six", 3 }, { 1, "60", "six", 3 }, { 1, "6", "siX", 3 }, { 1, "6", "six", 2 },
		{ 1, "6", "six\0x", 4 },
	};

	REDIS(&server, "ZADD quredis:of:i:delayed 5 five 6 six 7 seven");
	for (size_t i = 0; i < nitems(wrong); i++)
		for (int pick = QUEUE_PICK_FIRST; pick <= QUEUE_PICK_DELETE; pick++)
			assert_int_equal(pick_delayed((enum queue_pick)pick, wrong[i].rank, wrong[i].due, wrong[i].raw, wrong[i].len), 0);
	assert_int_equal(REDIS_INT(&server, "ZCARD quredis:of:i:delayed"), 3);
	assert_int_equal(REDIS_INT(&server, "EXISTS i"), 0);
}

/* Both have the same time, length and ends. */
TEST(a_delayed_message_that_differs_in_the_middle_is_left_alone, apart_setup)
{
	char seen[3001];

	memset(seen, 'x', sizeof(seen) - 1);
	seen[sizeof(seen) - 1] = '\0';
	REDIS(&server, "ZADD quredis:of:i:delayed 6 %s", seen);
	seen[1500] = 'y';
	assert_int_equal(pick_delayed(QUEUE_PICK_DELETE, 0, "6", seen, sizeof(seen) - 1), 0);
	seen[1500] = 'x';
	assert_int_equal(pick_delayed(QUEUE_PICK_DELETE, 0, "6", seen, sizeof(seen) - 1), 1);
}

TEST(a_delayed_message_that_redis_refuses_to_move_stays, apart_setup)
{
	REDIS(&server, "ZADD quredis:of:i:delayed 6 six");
	redis_appendf(&server.r, "ACL SETUSER default -zremrangebyrank");
	private_redis_answer(&server);
	queue_pick_delayed(&server.r, &keys, QUEUE_PICK_FIRST, &(struct queue_delayed){ .due = "6", .entry = { .raw = "six", .len = 3 } });
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	REDIS(&server, "ACL SETUSER default +@all");
	assert_int_equal(REDIS_INT(&server, "EXISTS i"), 0);
	assert_int_equal(REDIS_INT(&server, "ZCARD quredis:of:i:delayed"), 1);
}

/* The time when the large message is due, and what quredis peek sees of it. */
static char *due_and_entry(struct buffer *entry)
{
	struct redis_reply due = REDIS(&server, "ZRANGE quredis:of:i:delayed 0 0 WITHSCORES"), score = redis_element(&due, 1);

	buffer_append(entry, line.data, line.len);
	buffer_append(entry, payload, LARGE);
	return alloc_copy(score.str, score.len);
}

TEST(a_payload_that_is_stored_apart_goes_with_it, apart_setup)
{
	struct buffer entry = {0};
	char *due;

	for (int pick = QUEUE_PICK_FIRST; pick <= QUEUE_PICK_DELETE; pick++) {
		apart_setup(NULL);
		apart_put(60000);
		buffer_clear(&entry);
		due = due_and_entry(&entry);
		assert_int_equal(pick_delayed((enum queue_pick)pick, 0, due, entry.data, entry.len - 1), 0);
		assert_int_equal(pick_delayed((enum queue_pick)pick, 0, due, entry.data, entry.len), 1);
		apart_assert_nothing_delayed();
		if (pick == QUEUE_PICK_FIRST)
			apart_assert_holds("i", &line);
		else
			assert_int_equal(REDIS_INT(&server, "EXISTS i"), 0);
		free(due);
	}
	buffer_free(&entry);
}

TEST(a_payload_that_is_gone, apart_setup)
{
	struct buffer entry = {0};
	char *list = apart_list(), *due;

	apart_put(60000);
	REDIS(&server, "DEL %s", list);
	due = due_and_entry(&entry);
	assert_int_equal(pick_delayed(QUEUE_PICK_FIRST, 0, due, line.data, line.len), -1);
	assert_int_equal(REDIS_INT(&server, "EXISTS i"), 0);
	assert_int_equal(REDIS_INT(&server, "ZCARD quredis:of:i:delayed"), 1);
	assert_int_equal(pick_delayed(QUEUE_PICK_DELETE, 0, due, line.data, line.len), 1);
	apart_assert_nothing_delayed();
	buffer_free(&entry);
	free(list);
	free(due);
}

/* ---- what producers delayed ---- */

static void push_delayed(int first, int n)
{
	char member[16];

	for (int i = first; i < first + n; i++) {
		snprintf(member, sizeof(member), "m%d", i);
		REDIS(&server, "ZADD %s %d %s", keys.pushed, i, member);
	}
}

static int64_t next_ms;			/* as the last move_pushed() told */

/* Returns how many left; -1: Redis refused a command. *full: a due one stayed. */
static int64_t move_pushed(bool all, int limit, int least, bool *full)
{
	struct queue_due_moved due;
	struct redis_reply reply;

	queue_pushed(&server.r, &keys, all, limit, least);
	reply = private_redis_answer_or_error(&server);
	if (reply.type == REDIS_ERROR)
		return -1;
	assert_int_equal(queue_due_moved(&reply, &due), 0);
	assert_int_equal(due.lost, 0);
	*full = due.unread;
	next_ms = due.next_ms;
	return due.moved;
}

TEST(due_pushes_fill_ingress, apart_setup)
{
	bool full;

	push_delayed(0, 300);
	assert_int_equal(move_pushed(false, 70, 0, &full), 70);
	assert_false(full);
	assert_int_equal(move_pushed(false, 70, 0, &full), QUEUE_PUSHED_FULL - 70);
	assert_true(full);
	assert_int_equal(move_pushed(false, 70, 0, &full), 0);
	assert_true(full);
	assert_int_equal(move_pushed(false, 70, 5, &full), 5);
	assert_true(full);
	assert_int_equal(REDIS_INT(&server, "LLEN i"), QUEUE_PUSHED_FULL + 5);
	assert_string_equal(REDIS(&server, "LINDEX i 0").str, "m104");
	assert_int_equal(move_pushed(true, 1000, 1000, &full), 195);
	assert_false(full);
}

TEST(only_all_takes_what_is_not_due, apart_setup)
{
	bool full;

	REDIS(&server, "ZADD %s 9e18 far +inf never -inf past", keys.pushed);
	assert_int_equal(move_pushed(false, 10, 10, &full), 1);
	assert_waiting("past");
	assert_int_equal(next_ms, 1000000000);		/* or more */
	assert_int_equal(move_pushed(true, 10, 10, &full), 2);
	assert_waiting("never far past");
	assert_true(next_ms == INT64_MAX);
}

TEST(a_move_tells_when_the_next_push_is_due, apart_setup)
{
	struct redis_reply time = REDIS(&server, "TIME");
	int64_t now = queue_time_parse(&time) / 1000;
	bool full;

	REDIS(&server, "ZADD %s 1 past %d soon %d later", keys.pushed, now + 60, now + 90);
	assert_int_equal(move_pushed(false, 10, 10, &full), 1);
	assert_in_range(next_ms, 30000, 60000);
	assert_false(full);
}

TEST(a_due_push_that_redis_refuses_to_move_stays, apart_setup)
{
	static const char *const commands[] = { "-zremrangebyrank", "-lpush", "-llen" };
	bool full;

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		private_queue_clear();
		push_delayed(0, 3);
		REDIS(&server, "ACL SETUSER limited reset on nopass ~* +@all %s", commands[i]);
		REDIS(&server, "AUTH limited x");
		assert_int_equal(move_pushed(false, 10, 0, &full), -1);
		REDIS(&server, "AUTH default x");
		assert_int_equal(REDIS_INT(&server, "EXISTS i"), 0);
		assert_int_equal(REDIS_INT(&server, "ZCARD %s", keys.pushed), 3);
	}
}

/* Its line is a producer's: it names no payload. */
TEST(a_line_of_a_producer_is_payload, apart_setup)
{
	struct buffer entry = {0};
	char *list = apart_list(), *due;

	apart_put(60000);
	due = due_and_entry(&entry);
	REDIS(&server, "ZADD %s 5 %b", keys.pushed, line.data, line.len);
	queue_pick_delayed(&server.r, &keys, QUEUE_PICK_DELETE,
	    &(struct queue_delayed){ .pushed = true, .due = "5", .entry = { .raw = line.data, .len = line.len } });
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s", keys.pushed), 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s", list), 1);
	assert_int_equal(REDIS_INT(&server, "ZCARD %s", keys.delayed), 1);
	buffer_free(&entry);
	free(list);
	free(due);
}

UNIT_MAIN(apart_setup_all, apart_teardown_all)
