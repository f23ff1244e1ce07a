/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/*
 * Messages that are named by their place, and what is too large to be read: it escapes unread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/queue/moves_fixture.h"
#include "tests/unit/unit.h"

static int64_t move_placed(const char *raw, size_t len, int64_t at)
{
	queue_hand_back(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &(struct queue_entry){ .raw = raw, .len = len, .at = at }, .change = &change }, false);
	return private_redis_answer(&server).integer;
}

TEST(a_place_must_hold_what_is_named, moves_setup)
{
	moves_put(TRAY, moves_large('a', 'b', 'c'), MOVES_LARGE);
	moves_put(TRAY, "other", 5);
	assert_int_equal(move_placed(moves_large('z', 'b', 'c'), MOVES_LARGE, -2), QUEUE_CANNOT_TELL);
	assert_int_equal(move_placed(moves_large('a', 'b', 'z'), MOVES_LARGE, -2), QUEUE_CANNOT_TELL);
	assert_int_equal(move_placed(moves_large('a', 'b', 'c'), MOVES_LARGE - 1, -2), QUEUE_CANNOT_TELL);
	assert_int_equal(move_placed(moves_large('a', 'b', 'c'), MOVES_LARGE, -1), QUEUE_CANNOT_TELL);
	assert_int_equal(move_placed(moves_large('a', 'b', 'c'), MOVES_LARGE, -3), QUEUE_CANNOT_TELL);
	assert_int_equal(moves_count(TRAY), 2);
	assert_int_equal(moves_count("i"), 0);
	/* The same entry at the same place, but in a list that is not the one in which the place was counted. */
	for (int64_t of = 1; of < 4; of++) {
		if (of == 2)
			continue;
		queue_hand_back(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
		    .entry = &(struct queue_entry){ .raw = moves_large('a', 'b', 'c'), .len = MOVES_LARGE, .at = -2, .of = of }, .change = &change }, false);
		assert_int_equal(private_redis_answer(&server).integer, QUEUE_CANNOT_TELL);
		assert_int_equal(moves_count(TRAY), 2);
	}
	assert_int_equal(move_placed(moves_large('a', 'b', 'c'), MOVES_LARGE, -2), 1);
	moves_assert_holds("the other", TRAY, "other", 5);
	REDIS(&server, "DEL " TRAY);		/* only an empty list proves that it is not there */
	assert_int_equal(move_placed(moves_large('a', 'b', 'c'), MOVES_LARGE, -2), 0);
	assert_int_equal(REDIS(&server, "LINDEX i 0").len, MOVES_LARGE + line.len);
}

/* Its line is dropped, the one that comes instead is put before it, and no byte of its payload leaves Redis. */
TEST(only_the_line_of_a_large_message_is_sent, moves_setup)
{
	const char *old = "quredis/1 w=0000000000000001 attempts=1\n";
	struct buffer raw = {0};
	struct queue_change another = { &line, strlen(old) };
	struct redis_reply there;
	uint64_t before;

	buffer_append(&raw, old, strlen(old));
	buffer_append(&raw, moves_large('a', 'b', 'c'), MOVES_LARGE);
	moves_put(TRAY, raw.data, raw.len);
	before = server.r.output.total;
	queue_hand_back(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &(struct queue_entry){ .raw = raw.data, .len = raw.len, .at = -1 }, .change = &another }, false);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_true(server.r.output.total - before < MOVES_LARGE / 2);
	there = REDIS(&server, "LINDEX i 0");
	assert_int_equal(there.len, line.len + MOVES_LARGE);
	assert_memory_equal(there.str, line.data, line.len);
	assert_memory_equal(there.str + line.len, raw.data + strlen(old), MOVES_LARGE);
	buffer_free(&raw);
}

static void assert_tray(const char *lengths)
{
	struct redis_reply list = REDIS(&server, "LRANGE " TRAY " 0 -1");
	char text[64] = "";

	for (size_t i = 0; i < list.n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%zu ", redis_element(&list, i).len);
	assert_string_equal(text, lengths);
}

/* One a call, wherever it lies; the others keep their order. */
TEST(what_is_too_large_escapes_unread, moves_setup)
{
	moves_put(TRAY, "a", 1);
	moves_put(TRAY, moves_large('a', 'b', 'c'), MOVES_LARGE);
	moves_put(TRAY, "bb", 2);
	moves_put(TRAY, moves_large('a', 'b', 'd'), MOVES_LARGE);
	moves_put(TRAY, "dddd", 4);
	moves_put(TRAY, moves_large('a', 'b', 'e'), MOVES_LARGE);
	assert_int_equal(moves_escape_too_large(MOVES_LARGE), 0);
	assert_tray("1 10000 2 10000 4 10000 ");
	assert_int_equal(moves_escape_too_large(MOVES_LARGE - 1), MOVES_LARGE);
	assert_tray("1 10000 2 10000 4 ");
	moves_assert_holds("too large", "e", moves_large('a', 'b', 'e'), MOVES_LARGE);
	assert_int_equal(moves_escape_too_large(MOVES_LARGE - 1), MOVES_LARGE);
	assert_tray("1 10000 2 4 ");
	assert_int_equal(moves_escape_too_large(MOVES_LARGE - 1), MOVES_LARGE);
	assert_tray("1 2 4 ");
	assert_int_equal(moves_escape_too_large(MOVES_LARGE - 1), 0);
	assert_int_equal(moves_count("e"), 3);
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 3);
}

/* The tray is as it was, in its order. */
TEST(what_is_too_large_stays_where_escape_is_no_list, moves_setup)
{
	moves_put(TRAY, "a", 1);
	moves_put(TRAY, "bb", 2);
	moves_put(TRAY, moves_large('a', 'b', 'c'), MOVES_LARGE);
	moves_put(TRAY, "dddd", 4);
	REDIS(&server, "SET e no-list");
	assert_int_equal(moves_escape_too_large(MOVES_LARGE - 1), -1);
	assert_tray("1 2 10000 4 ");
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 0);
}

static int64_t peak_memory(void)
{
	return strtoll(strstr(REDIS(&server, "INFO memory").str, "used_memory_peak:") + strlen("used_memory_peak:"), NULL, 10);
}

/* What its owner saw arrive is not copied, however long it is: other clients would wait for that. */
TEST(what_is_very_large_becomes_escape, moves_setup)
{
	const int64_t len = 20 << 20, limit = 8 << 20;
	char *raw = malloc((size_t)len);
	struct redis_reply reply;
	int64_t peak;

	memset(raw, 'x', (size_t)len);
	REDIS(&server, "RPUSH e newer older");
	REDIS(&server, "HSET %s " TRAY " 0", owner.lease);
	moves_put(TRAY, raw, (size_t)len);
	peak = peak_memory();
	queue_too_large_seen(&server.r, &owner, 0, limit, len, &record);
	reply = private_redis_answer(&server);
	assert_int_equal(redis_element(&reply, 0).integer, len);
	assert_in_range(peak_memory() - peak, 0, len / 4);
	assert_int_equal(moves_count(TRAY), 0);
	assert_int_equal(moves_count("e"), 3);
	assert_string_equal(REDIS(&server, "LINDEX e -1").str, "older");
	assert_string_equal(REDIS(&server, "LINDEX e -2").str, "newer");
	reply = REDIS(&server, "LINDEX e 0");
	assert_int_equal(reply.len, len);
	assert_memory_equal(reply.str, raw, (size_t)len);
	assert_string_equal(REDIS(&server, "HGET %s " TRAY, owner.lease).str, "1");
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 1);
	free(raw);
}

/* Redis went back in time: in the tray is another one than was seen. */
TEST(what_was_seen_is_no_longer_there, moves_setup)
{
	const int64_t len = 20 << 20;
	struct redis_reply reply;

	moves_put(TRAY, moves_large('a', 'b', 'c'), MOVES_LARGE);
	queue_too_large_seen(&server.r, &owner, 0, MOVES_LARGE - 1, len, &record);
	reply = private_redis_answer(&server);
	assert_int_equal(redis_element(&reply, 0).integer, 0);
	assert_tray("10000 ");
	assert_int_equal(moves_count("e"), 0);
}

/* Else dead letters would return to ingress with the tray, and stay in escape. */
TEST(a_refused_rename_leaves_no_dead_letter_in_the_tray, moves_setup)
{
	const size_t len = 1 << 20;
	char *raw = malloc(len);

	memset(raw, 'x', len);
	moves_put(TRAY, raw, len);
	REDIS(&server, "RPUSH e d1 d2 d3");
	REDIS(&server, "ACL SETUSER default -rename");
	queue_too_large_seen(&server.r, &owner, 0, MOVES_LARGE, (int64_t)len, &record);
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	REDIS(&server, "ACL SETUSER default +@all");
	assert_int_equal(moves_count(TRAY), 1);
	assert_int_equal(REDIS(&server, "LINDEX " TRAY " 0").len, len);
	assert_int_equal(moves_count("e"), 3);
	free(raw);
}

/* Redis cannot tell whether a line is ours: its caller can, and is asked. */
TEST(a_wrapper_does_not_get_into_escape_with_what_is_too_large, moves_setup)
{
	const char *lines[] = { "quredis/1 w=0000000000000001 attempts=1\n", "quredis/1 w=0000000000000002 attempts=1\n" };
	struct redis_reply reply;
	struct message head = {0};
	struct buffer raw = {0};
	char begin[1024];
	int64_t limit;

	buffer_append(&raw, lines[0], strlen(lines[0]));
	buffer_append(&raw, moves_large('a', 'b', 'c'), MOVES_LARGE);
	limit = (int64_t)raw.len - MESSAGE_LINE_MAX - 1;
	moves_put(TRAY, raw.data, raw.len);
	moves_put(TRAY, "z", 1);
	queue_too_large(&server.r, &owner, 0, (int64_t)raw.len - MESSAGE_LINE_MAX, NULL, &record, false);
	reply = private_redis_answer(&server);
	assert_int_equal(redis_element(&reply, 0).integer, 0);		/* without its wrapper it may not be longer */
	queue_too_large(&server.r, &owner, 0, limit, NULL, &record, false);
	reply = private_redis_answer(&server);
	assert_int_equal(redis_element(&reply, 0).integer, (int64_t)raw.len);
	assert_int_equal(redis_element(&reply, 1).len, sizeof(begin));
	memcpy(begin, redis_element(&reply, 1).str, sizeof(begin));
	assert_memory_equal(begin, raw.data, sizeof(begin));
	assert_int_equal(moves_count("e"), 0);
	for (int is_it = 0; is_it < 2; is_it++) {
		memcpy(begin, lines[1 - is_it], strlen(lines[0]));
		head = (struct message){ .raw = begin, .raw_len = sizeof(begin), .wrapper_len = strlen(lines[0]) };
		queue_too_large(&server.r, &owner, 0, limit, &head, &record, false);
		reply = private_redis_answer(&server);
		assert_int_equal(redis_element(&reply, 1).len, is_it ? 0 : sizeof(begin));
		assert_int_equal(redis_element(&reply, 0).integer, is_it ? MOVES_LARGE : (int64_t)raw.len);
	}
	moves_assert_holds("too large", "e", moves_large('a', 'b', 'c'), MOVES_LARGE);
	assert_tray("1 ");
	buffer_free(&raw);
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
