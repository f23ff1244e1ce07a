/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/*
 * The rescue of what nobody reads: lists are weighed, not read, and what is too large escapes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/look.h"
#include "tests/unit/queue/moves_fixture.h"
#include "tests/unit/unit.h"

#define MIB (1 << 20)
#define SHORT 2000		/* bytes by which a weight may be too low; Redis 7 stays below 1000, Valkey 8.1 not */

static void put_of(size_t len, char byte)
{
	char *text = alloc_bytes(len);

	memset(text, byte, len);
	moves_put(RESCUE, text, len);
	free(text);
}

/* Of at most 100 entries and 1 MiB. */
static struct queue_weight weigh_end(enum queue_end end)
{
	struct queue_weight weight;
	struct redis_reply reply;

	queue_weigh(&server.r, "t:lease:none", RESCUE, end, 100, MIB);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_weighed(&reply, &weight), 0);
	assert_int_equal(weight.entries, moves_count(RESCUE));		/* the list is as before */
	return weight;
}

static struct queue_weight weigh(void)
{
	return weigh_end(QUEUE_END_LEFT);
}

TEST(the_right_end_is_weighed, moves_setup)
{
	struct queue_weight w;

	for (int i = 0; i < 3; i++)
		put_of(20 * MIB, 'x');
	for (int i = 0; i < 5000; i++)
		put_of(1000, 'x');
	w = weigh_end(QUEUE_END_RIGHT);
	assert_true(w.entries == 5003 && w.page == 100 && w.first == 0);
	put_of(40 * MIB, 'x');
	put_of(10, 'x');
	w = weigh_end(QUEUE_END_RIGHT);
	assert_true(w.page == 1 && w.first == 0);	/* the second node is too much */
	REDIS(&server, "RPOP " RESCUE);
	w = weigh_end(QUEUE_END_RIGHT);
	assert_true(w.page == 1);
	assert_in_range(w.first, 40 * MIB - SHORT, 52 * MIB);
	REDIS(&server, "LTRIM " RESCUE " -1 -1");
	w = weigh_end(QUEUE_END_RIGHT);
	assert_in_range(w.first, 40 * MIB - SHORT, 52 * MIB);
	REDIS(&server, "LPUSH " RESCUE " a");
	w = weigh_end(QUEUE_END_RIGHT);
	assert_true(w.page == 1);
	assert_in_range(w.first, 40 * MIB - SHORT, 52 * MIB);
}

TEST(a_list_is_weighed_and_not_read, moves_setup)
{
	struct queue_weight w = weigh();

	assert_int_equal(w.entries, 0);
	for (int i = 0; i < 5; i++)
		put_of(10, 'x');
	w = weigh();
	assert_true(w.entries == 5 && w.page == 100 && w.first == 0);
	for (int i = 0; i < 3; i++)
		put_of(20 * MIB, 'x');
	w = weigh();
	assert_true(w.entries == 8 && w.page == 1 && w.first == 0);	/* the second node is too much */
	REDIS(&server, "LTRIM " RESCUE " 5 -1");
	w = weigh();
	assert_true(w.entries == 3 && w.page == 1);
	assert_in_range(w.first, 20 * MIB, 26 * MIB);
	assert_int_equal(REDIS(&server, "LINDEX " RESCUE " 0").len, 20 * MIB);
	REDIS(&server, "LTRIM " RESCUE " 0 0");
	w = weigh();
	assert_true(w.entries == 1 && w.page == 1);
	assert_in_range(w.first, 20 * MIB, 26 * MIB);
	moves_setup(NULL);
	for (int i = 0; i < 5; i++)
		put_of(400 * 1024, 'x');
	w = weigh();
	assert_in_range(w.page, 1, 2);
	moves_setup(NULL);
	for (int i = 0; i < 3000; i++)
		put_of(1000, 'x');
	w = weigh();
	assert_true(w.page == 100 && w.first == 0);
	moves_setup(NULL);
	REDIS(&server, "CONFIG SET list-max-listpack-size -5");
	for (int i = 0; i < 3000; i++)
		put_of(1000, 'x');
	w = weigh();
	REDIS(&server, "CONFIG SET list-max-listpack-size -2");
	assert_true(w.page > 10 && w.first == 0);
}

static int64_t persistence(const char *field)
{
	return strtoll(strstr(REDIS(&server, "INFO persistence").str, field) + strlen(field), NULL, 10);
}

/* The script removes the probes before it ends. */
TEST(a_scale_leaves_nothing_in_the_aof, moves_setup)
{
	int64_t before;

	for (int i = 0; i < 2; i++)
		put_of(3 * MIB, 'x');
	REDIS(&server, "CONFIG SET appendfsync always");
	REDIS(&server, "CONFIG SET appendonly yes");
	while (persistence("aof_rewrite_in_progress:") + persistence("aof_rewrite_scheduled:") > 0)
		;
	REDIS(&server, "SET before 1");
	before = persistence("aof_current_size:");
	assert_true(weigh().page == 1);
	REDIS(&server, "SET after 1");
	assert_in_range(persistence("aof_current_size:") - before, 1, 1000);
	REDIS(&server, "CONFIG SET appendonly no");
}

TEST(a_list_is_weighed_at_maxmemory_and_without_the_right, moves_setup)
{
	struct queue_weight w;

	for (int i = 0; i < 2; i++)
		put_of(3 * MIB, 'x');
	REDIS(&server, "CONFIG SET maxmemory 1");
	w = weigh();
	assert_true(w.page == 1 && w.first >= 3 * MIB);
	REDIS(&server, "CONFIG SET maxmemory 0");
	REDIS(&server, "ACL SETUSER default -memory");
	w = weigh();
	REDIS(&server, "ACL SETUSER default +@all");
	assert_true(w.entries == 2 && w.page == 100 && w.first == 0);
	REDIS(&server, "ACL SETUSER default -lpop");
	queue_weigh(&server.r, "t:lease:none", RESCUE, QUEUE_END_LEFT, 100, MIB);
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	REDIS(&server, "ACL SETUSER default +@all");
	assert_int_equal(moves_count(RESCUE), 2);
}

TEST(an_answer_that_is_no_weight, moves_setup)
{
	static const char *const answers[] = { "return {}", "return 'x'", "return { 1, 2 }", "return { 1, 2, 'x' }", "return { -1, 2, 3 }" };
	struct queue_weight w;

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct redis_reply reply = REDIS(&server, "EVAL %s 0", answers[i]);

		if (queue_weighed(&reply, &w) != -1)
			fail_msg("%s", answers[i]);
	}
}

TEST(what_is_held_in_part_is_moved_whole, moves_setup)
{
	const char *raw = moves_large('a', 'b', 'c');
	struct queue_entry part = { .raw = "", .len = MOVES_LARGE, .of = 2, .tail = raw + MOVES_LARGE - QUEUE_ENTRY_ENDS };
	const size_t from[] = { 0, 1 };
	struct redis_reply sums, fields;
	char head[QUEUE_ENTRY_ENDS], sha1[ENCODE_SHA1_SIZE];
	struct message m;

	memcpy(head, raw, sizeof(head));
	part.raw = head;
	moves_put(RESCUE, raw, MOVES_LARGE);
	moves_put(RESCUE, "other", 5);
	queue_digest(&server.r, "t:lease:none", RESCUE, &part, from, 2);
	sums = private_redis_answer(&server);
	encode_sha1(raw, MOVES_LARGE, sha1);
	assert_string_equal(redis_element(&sums, 0).str, sha1);
	encode_sha1(raw + 1, MOVES_LARGE - 1, sha1);
	assert_string_equal(redis_element(&sums, 1).str, sha1);
	part.of = 3;			/* another list */
	queue_digest(&server.r, "t:lease:none", RESCUE, &part, from, 1);
	sums = private_redis_answer(&server);
	assert_string_equal(redis_element(&sums, 0).str, "");
	queue_return(&server.r, owner.incarnation, &(struct queue_move){ .keys = &keys, .from = RESCUE,
	    .entry = &part, .change = &change });
	assert_int_equal(private_redis_answer(&server).integer, QUEUE_CANNOT_TELL);
	part.of = 2;
	queue_return(&server.r, owner.incarnation, &(struct queue_move){ .keys = &keys, .from = RESCUE,
	    .entry = &part, .change = &change });
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS(&server, "LINDEX i 0").len, line.len + MOVES_LARGE);
	moves_assert_holds("the other", RESCUE, "other", 5);

	moves_setup(NULL);
	moves_put(RESCUE, raw, MOVES_LARGE);
	part.of = 1;
	message_parse(&m, &keys.lines, head, sizeof(head));
	m.raw_len = MOVES_LARGE;
	encode_sha1(raw, MOVES_LARGE, m.sha1);
	strcpy(m.id, "id");
	record.payload_max = MOVES_LARGE;
	queue_escape(&server.r, &(struct queue_move){ .keys = &keys, .lease = "t:lease:none", .lease_ms = 1, .from = RESCUE, .count = 1,
	    .entry = &part, .message = &m, .record = &record });
	record.payload_max = 100;
	assert_int_equal(private_redis_answer(&server).integer, 1);
	moves_assert_holds("escape", "e", raw, MOVES_LARGE);
	fields = REDIS(&server, "XRANGE e:log - +");
	fields = redis_element(&fields, 0);
	fields = redis_element(&fields, 1);
	assert_string_equal(redis_element(&fields, 37).str, m.sha1);
	assert_string_equal(redis_element(&fields, 39).str, "10000");
	assert_int_equal(redis_element(&fields, 41).len, MOVES_LARGE);
	assert_memory_equal(redis_element(&fields, 41).str, raw, MOVES_LARGE);
}

/* The length of what escaped; -1: it may begin with a wrapper. */
static int64_t escape_first(int64_t limit, const struct message *head)
{
	struct redis_reply reply;

	queue_too_large_first(&server.r, &keys, "t:lease:none", RESCUE, limit, head, &record);
	reply = private_redis_answer(&server);
	return redis_element(&reply, 1).len > 0 ? -1 : redis_element(&reply, 0).integer;
}

TEST(the_left_end_escapes_if_it_is_too_large, moves_setup)
{
	assert_int_equal(escape_first(0, NULL), 0);
	moves_put(RESCUE, moves_large('a', 'b', 'c'), MOVES_LARGE);
	moves_put(RESCUE, "other", 5);
	assert_int_equal(escape_first(MOVES_LARGE, NULL), 0);
	assert_int_equal(moves_count(RESCUE), 2);
	assert_int_equal(moves_count("e"), 0);
	assert_int_equal(escape_first(MOVES_LARGE - 1, NULL), MOVES_LARGE);
	moves_assert_holds("too large", "e", moves_large('a', 'b', 'c'), MOVES_LARGE);
	assert_int_equal(escape_first(5, NULL), 0);
	moves_assert_holds("the other", RESCUE, "other", 5);
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 1);
	assert_int_equal(escape_first(4, NULL), 5);
	assert_int_equal(moves_count("e"), 2);
	assert_int_equal(REDIS_INT(&server, "EXISTS " RESCUE), 0);
	REDIS(&server, "DEL e");			/* now it is alone, and there is no other */
	moves_put(RESCUE, moves_large('a', 'b', 'd'), MOVES_LARGE);
	assert_int_equal(escape_first(5, NULL), MOVES_LARGE);
	moves_assert_holds("too large", "e", moves_large('a', 'b', 'd'), MOVES_LARGE);
	assert_int_equal(REDIS_INT(&server, "EXISTS " RESCUE), 0);
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 3);
}

TEST(where_it_cannot_escape_it_stays, moves_setup)
{
	static const char *const without[] = { "-lpush", "-ltrim", "-rename" };

	for (size_t i = 0; i < 4; i++) {
		moves_setup(NULL);
		moves_put(RESCUE, "longer", 6);
		if (i < 2)
			moves_put(RESCUE, "other", 5);
		REDIS(&server, i == 3 ? "SET e x" : "ACL SETUSER default %s", i == 3 ? "" : without[i]);
		queue_too_large_first(&server.r, &keys, "t:lease:none", RESCUE, 1, NULL, &record);
		assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
		REDIS(&server, "ACL SETUSER default +@all");
		assert_string_equal(REDIS(&server, "LINDEX " RESCUE " 0").str, "longer");
		assert_int_equal(i == 3 ? 0 : moves_count("e"), 0);
	}
}

/* Whether a line is ours only the caller can tell. */
TEST(no_line_of_ours_goes_into_escape, moves_setup)
{
	char raw[2000];
	struct message head;

	memset(raw, 'x', sizeof(raw));
	memcpy(raw, "quredis/1 w=\n", 13);
	for (int ours = 0; ours <= 1; ours++) {
		moves_setup(NULL);
		moves_put(RESCUE, raw, sizeof(raw));
		assert_int_equal(escape_first(sizeof(raw) - MESSAGE_LINE_MAX, NULL), 0);
		assert_int_equal(escape_first(sizeof(raw) - MESSAGE_LINE_MAX - 1, NULL), -1);
		assert_int_equal(moves_count(RESCUE), 1);
		message_parse(&head, &keys.lines, raw, 1024);
		head.wrapper_len = ours ? 13 : 0;
		assert_int_equal(escape_first(1, &head), sizeof(raw) - head.wrapper_len);
		moves_assert_holds("too large", "e", raw + head.wrapper_len, sizeof(raw) - head.wrapper_len);
	}
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
