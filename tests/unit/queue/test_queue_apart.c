/* links: tests/unit/private_redis.c tests/unit/private_queue.c tests/unit/queue/apart_fixture.c */

/* Large messages that are delayed: the payload lies apart from its line, and comes back with it. test_queue_apart_errors.c: what can go wrong. */
#include <stdlib.h>
#include <string.h>

#include "common/queue/admin.h"
#include "common/queue/look.h"
#include "common/queue/waiting.h"
#include "tests/unit/queue/apart_fixture.h"
#include "tests/unit/unit.h"

TEST(a_large_one_is_renamed_and_comes_back_whole, apart_setup)
{
	struct redis_reply lates;

	apart_put(0);
	apart_assert_is(0);
	assert_int_equal(atoi(REDIS(&server, "HGET %s %s", owner.lease, owner.trays[0]).str), 1);
	lates = apart_due(false);
	assert_int_equal(lates.n, 1);
	assert_true(redis_element(&lates, 0).integer >= 0);
	apart_assert_holds("i", &line);
	apart_assert_nothing_delayed();
}

TEST(an_older_line_is_dropped, apart_setup)
{
	struct buffer older = {0};

	message_wrapper(&older, &keys.lines, &(struct wrapper){ .attempts = 1, .apart = true });
	size_t strip = older.len;
	buffer_append(&older, payload, LARGE);
	REDIS(&server, "LPUSH %s %b", owner.trays[0], older.data, older.len);
	assert_int_equal(apart_retry(older.data, older.len, strip, 0), 1);
	apart_assert_is(strip);
	assert_int_equal(apart_due(false).n, 1);
	apart_assert_holds("i", &line);
	buffer_free(&older);
}

TEST(what_is_not_due_waits_unless_all_is_wanted, apart_setup)
{
	struct queue_due_moved due;
	struct redis_reply reply;

	apart_put(60000);
	reply = apart_due(false);
	assert_int_equal(queue_due_moved(&reply, &due), 0);
	assert_int_equal(due.moved, 0);
	assert_in_range(due.next_ms, 30000, 60000);
	apart_assert_is(0);
	assert_int_equal(apart_due(true).n, 1);
	apart_assert_holds("i", &line);
}

/* Other programs fetch from ingress, too: no line of ours may stand there. */
TEST(where_the_queue_is_shared_the_line_is_left_out, apart_setup)
{
	struct redis_reply first;
	void *kept;

	apart_put(0);
	keys.shared = true;
	queue_glance_delayed(&server.r, &keys, 0, 9);
	first = private_redis_answer(&server);
	kept = redis_keep(&server.r);
	queue_due(&server.r, &keys, false, 10, &first);
	assert_int_equal(private_redis_answer(&server).n, 1);
	redis_let_go(kept);
	keys.shared = false;
	apart_assert_holds("i", NULL);
	apart_assert_nothing_delayed();
}

TEST(readers_see_one_message, apart_setup)
{
	struct queue_glanced glanced;
	struct queue_looked looked;
	struct redis_reply reply;
	struct message m;

	apart_put(60000);
	queue_glance_delayed(&server.r, &keys, 0, 9);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_glanced(&reply, &glanced), 0);
	assert_true(glanced.n == 1 && glanced.bytes == line.len + LARGE);
	message_parse(&m, &keys.lines, redis_element(&reply, 0).str, redis_element(&reply, 0).len);
	assert_int_equal(m.wrapper.attempts, 1);
	assert_string_equal(m.id, "large");

	queue_look(&server.r, &(struct queue_look){ .key = keys.delayed, .apart = keys.delayed_apart, .most = 9, .bytes = 1, .shown = 100, .ends = 2 });
	reply = private_redis_answer(&server);
	assert_int_equal(queue_look_count(&reply), 1);
	queue_looked(&reply, 0, &looked);
	assert_true(looked.size == line.len + LARGE && looked.head.len == 100 && looked.tail.len == 2);
	assert_memory_equal(looked.tail.str, "x", 2);
}

TEST(what_is_too_old_escapes_with_its_payload, apart_setup)
{
	struct buffer whole = {0};
	struct message m;

	apart_put(60000);
	buffer_append(&whole, line.data, line.len);
	buffer_append(&whole, payload, LARGE);
	whole.data[whole.len - 2] = 'y';
	message_parse(&m, &keys.lines, whole.data, whole.len);
	queue_expire_delayed(&server.r, &keys, &m, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 0);		/* another payload: another message */
	apart_assert_is(0);
	whole.data[whole.len - 2] = 'x';
	queue_expire_delayed(&server.r, &keys, &m, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	apart_assert_holds("e", NULL);
	apart_assert_nothing_delayed();
	buffer_free(&whole);
}

TEST(a_purge_and_destroy_leave_nothing, apart_setup)
{
	apart_put(60000);
	queue_purge_delayed(&server.r, &keys);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	apart_assert_nothing_delayed();
	owner.moved[0] = 1;
	apart_put(60000);
	queue_destroy_lists(&server.r, &keys);
	private_redis_answer(&server);
	private_redis_answer(&server);
	apart_assert_nothing_delayed();
}

TEST(another_answer_is_no_move, apart_setup)
{
	struct redis_reply reply = REDIS(&server, "PING");
	struct queue_due_moved moved;

	assert_int_equal(queue_due_moved(&reply, &moved), -1);
	REDIS(&server, "ZADD quredis:of:i:delayed 1 small");
	reply = REDIS(&server, "ZRANGE quredis:of:i:delayed 0 -1");
	assert_int_equal(queue_due_moved(&reply, &moved), -1);
}

/* An empty message, and one whose payload is such a line. */
TEST(only_a_member_without_a_payload_is_apart, apart_setup)
{
	struct buffer plain = {0}, nested = {0};

	message_wrapper(&plain, &keys.lines, &(struct wrapper){ .attempts = 1 });
	buffer_append(&nested, plain.data, plain.len);
	buffer_append(&nested, line.data, line.len);
	REDIS(&server, "ZADD quredis:of:i:delayed 1 %b 2 %b", plain.data, plain.len, nested.data, nested.len);
	assert_int_equal(apart_due(false).n, 2);
	assert_int_equal(REDIS(&server, "LINDEX i 0").len, nested.len);
	assert_int_equal(REDIS(&server, "LINDEX i 1").len, plain.len);
	buffer_free(&plain);
	buffer_free(&nested);
}

UNIT_MAIN(apart_setup_all, apart_teardown_all)
