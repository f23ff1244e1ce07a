/* links: tests/unit/private_redis.c tests/unit/private_queue.c tests/unit/queue/apart_fixture.c */

/* Large messages that are delayed while Redis refuses a command, the tray holds something else, or the payload is gone. */
#include <stdlib.h>
#include <string.h>

#include "common/queue/waiting.h"
#include "tests/unit/queue/apart_fixture.h"
#include "tests/unit/unit.h"

static void assert_moved_whole(void)
{
	struct redis_reply member = REDIS(&server, "ZRANGE quredis:of:i:delayed 0 -1");

	assert_int_equal(member.n, 1);
	assert_int_equal(redis_element(&member, 0).len, line.len + LARGE);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", owner.trays[0]), 0);
	assert_int_equal(apart_due(true).n, 1);
	apart_assert_holds("i", &line);
}

TEST(what_redis_refuses_is_undone_and_the_message_moves_whole, apart_setup)
{
	static const char *const refused[] = { "SET " APART " 1", "ACL SETUSER default -memory", "ACL SETUSER default -rename -ltrim",
		"ACL SETUSER default -rpush" };

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		apart_setup(NULL);
		REDIS(&server, "LPUSH %s %b", owner.trays[0], payload, LARGE);
		redis_appendf(&server.r, refused[i]);
		private_redis_answer(&server);
		assert_int_equal(apart_retry(payload, LARGE, 0, 0), 1);
		REDIS(&server, "ACL SETUSER default +@all");
		assert_int_equal(REDIS_INT(&server, "HEXISTS %s %s", owner.lease, owner.trays[0]), 1);
		assert_moved_whole();
	}
}

TEST(one_beside_others_moves_whole, apart_setup)
{
	const struct queue_entry entry = { .raw = payload, .len = LARGE, .at = -1, .of = 2 };
	const struct queue_change change = { &line, 0 };

	REDIS(&server, "LPUSH %s %b other", owner.trays[0], payload, LARGE);
	queue_retry(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &entry, .change = &change }, 0);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_string_equal(REDIS(&server, "LINDEX %s 0", owner.trays[0]).str, "other");
	REDIS(&server, "DEL %s", owner.trays[0]);
	assert_moved_whole();
}

/* Redis went back in time, or the message is of another size. */
TEST(a_tray_that_holds_something_else_is_left_alone, apart_setup)
{
	REDIS(&server, "LPUSH %s %b", owner.trays[0], payload, LARGE / 2);
	assert_int_equal(apart_retry(payload, LARGE, 0, 0), QUEUE_CANNOT_TELL);
	REDIS(&server, "DEL %s", owner.trays[0]);
	REDIS(&server, "LPUSH %s %b", owner.trays[0], payload, LARGE);
	REDIS(&server, "HSET %s %s 3", owner.lease, owner.trays[0]);
	assert_int_equal(apart_retry(payload, LARGE, 0, 0), QUEUE_CANNOT_TELL);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", owner.trays[0]), 1);
	REDIS(&server, "DEL %s", owner.trays[0]);
	assert_int_equal(apart_retry(payload, LARGE, 0, 0), 0);
	apart_assert_nothing_delayed();
}

TEST(one_whose_payload_is_gone_makes_no_empty_dead_letter, apart_setup)
{
	char *list = apart_list();
	struct message m;

	apart_put(60000);
	REDIS(&server, "DEL %s", list);
	message_parse(&m, &keys.lines, line.data, line.len);
	queue_expire_delayed(&server.r, &keys, &m, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS e"), 0);
	assert_int_equal(REDIS_INT(&server, "ZCARD quredis:of:i:delayed"), 1);
	free(list);
}

/* Its line alone would run as an empty message. */
TEST(one_whose_payload_is_gone_is_deleted_and_told, apart_setup)
{
	static const char *const lost[] = { "DEL %s", "SET %s 1" };
	char *list;

	for (size_t i = 0; i < 2; i++) {
		struct queue_due_moved moved;
		struct redis_reply lates;

		apart_setup(NULL);
		apart_put(0);
		REDIS(&server, "ZADD quredis:of:i:delayed 1 small");
		list = apart_list();
		redis_appendf(&server.r, lost[i], list);
		private_redis_answer(&server);
		lates = apart_due(false);
		assert_int_equal(lates.n, 2);
		assert_true(redis_element(&lates, 0).integer > 0);
		assert_int_equal(redis_element(&lates, 1).integer, QUEUE_DUE_LOST);
		assert_int_equal(queue_due_moved(&lates, &moved), 0);
		assert_true(moved.moved == 1 && moved.lost == 1);
		assert_int_equal(REDIS_INT(&server, "LLEN i"), 1);
		assert_string_equal(REDIS(&server, "LINDEX i 0").str, "small");
		assert_int_equal(REDIS_INT(&server, "EXISTS quredis:of:i:delayed " APART), 0);
		free(list);
	}
}

/* An older message of about the same size lies in the tray. retry.lua cannot tell, since it does not read it; due.lua reads it and can. */
TEST(another_message_in_its_place_comes_back_as_it_was, apart_setup)
{
	static const struct wrapper again = { .attempts = 1, .apart = true };
	struct buffer older = {0};

	message_wrapper(&older, &keys.lines, &again);
	size_t strip = older.len;
	buffer_append(&older, payload, LARGE);
	older.data[older.len - 9] = 'y';
	REDIS(&server, "LPUSH %s %b", owner.trays[0], payload, LARGE);
	assert_int_equal(apart_retry(older.data, older.len - strip / 2, strip, 0), 1);
	assert_int_equal(apart_due(false).n, 1);
	apart_assert_holds("i", NULL);
	apart_assert_nothing_delayed();

	apart_setup(NULL);
	REDIS(&server, "LPUSH %s %b", owner.trays[0], older.data, older.len);
	assert_int_equal(apart_retry(payload, LARGE, 0, 0), 1);
	assert_int_equal(apart_due(false).n, 1);
	struct redis_reply entry = REDIS(&server, "LINDEX i 0");
	assert_int_equal(entry.len, older.len);
	assert_memory_equal(entry.str, older.data, older.len);
	buffer_free(&older);
}

/* Without a seal it is a producer's message: only the seal proves that there was a payload which is gone. */
TEST(a_line_without_a_seal_is_moved_as_it_is, apart_setup)
{
	static const char raw[] = "quredis/1 w=00000000000000aa apart=1\n";
	struct redis_reply lates;

	REDIS(&server, "ZADD quredis:of:i:delayed 1 %s 2 small", raw);
	queue_due(&server.r, &keys, false, 10, NULL);		/* nobody has looked at the line: it stays */
	lates = private_redis_answer(&server);
	assert_int_equal(lates.n, 2);
	assert_int_equal(redis_element(&lates, 1).integer, QUEUE_DUE_UNREAD);
	assert_int_equal(REDIS_INT(&server, "ZCARD quredis:of:i:delayed"), 1);
	lates = apart_due(false);
	assert_int_equal(lates.n, 1);
	assert_true(redis_element(&lates, 0).integer > 0);
	assert_string_equal(REDIS(&server, "LINDEX i 0").str, raw);
	assert_int_equal(REDIS_INT(&server, "LLEN i"), 2);
}

/* The secret may have been lost, or is news: whoever fetches it judges the line, with the whole message behind it. */
TEST(a_line_whose_secret_is_unknown_leaves_with_its_payload, apart_setup)
{
	char *digit = &line.data[line.len - 2];

	*digit = *digit == '0' ? '1' : '0';
	apart_put(0);
	assert_int_equal(apart_due(false).n, 1);
	apart_assert_holds("i", &line);
	apart_assert_nothing_delayed();
}

/* It is not gone. */
TEST(one_whose_payload_may_not_be_read_stays, apart_setup)
{
	struct redis_reply first;
	void *kept;

	apart_put(0);
	queue_glance_delayed(&server.r, &keys, 0, 9);
	first = private_redis_answer(&server);
	kept = redis_keep(&server.r);
	REDIS(&server, "ACL SETUSER default -lrange");
	queue_due(&server.r, &keys, false, 10, &first);
	redis_let_go(kept);
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	REDIS(&server, "ACL SETUSER default +@all");
	apart_assert_is(0);
	assert_int_equal(apart_due(false).n, 1);
	apart_assert_holds("i", &line);
}

TEST(where_unlink_is_forbidden_nothing_is_left_either, apart_setup)
{
	apart_put(0);
	REDIS(&server, "ACL SETUSER default -unlink");
	assert_int_equal(apart_due(false).n, 1);
	REDIS(&server, "ACL SETUSER default +@all");
	apart_assert_holds("i", &line);
	apart_assert_nothing_delayed();
}

/* If Redis refuses HDEL, a name stays in the hash. A later move removes it. */
TEST(a_name_whose_list_is_gone_leaves_with_a_later_move, apart_setup)
{
	char *list;

	redis_appendf(&server.r, "HRANDFIELD " APART);
	if (private_redis_answer_or_error(&server).type == REDIS_ERROR)
		skip();		/* before Redis 6.2 */
	apart_put(0);
	list = apart_list();
	REDIS(&server, "ACL SETUSER default -hdel");
	assert_int_equal(apart_due(false).n, 1);
	REDIS(&server, "ACL SETUSER default +@all");
	assert_int_equal(REDIS_INT(&server, "EXISTS quredis:of:i:delayed %s", list), 0);
	assert_int_equal(REDIS_INT(&server, "HLEN " APART), 1);
	free(list);

	REDIS(&server, "DEL i %s", owner.lease);
	apart_new_line();
	owner.moved[0] = 0;
	apart_put(0);
	assert_int_equal(REDIS_INT(&server, "HLEN " APART), 2);
	assert_int_equal(apart_due(false).n, 1);
	assert_int_equal(REDIS_INT(&server, "EXISTS " APART), 0);
}

/* Each payload whose message is still delayed keeps its name. */
TEST(a_name_whose_list_is_there_stays, apart_setup)
{
	apart_put(0);
	REDIS(&server, "HSET " APART " 0123456789abcdef 1");
	REDIS(&server, "RPUSH " APART ":0123456789abcdef payload");
	assert_int_equal(apart_due(false).n, 1);
	assert_int_equal(REDIS_INT(&server, "HEXISTS " APART " 0123456789abcdef"), 1);
}

UNIT_MAIN(apart_setup_all, apart_teardown_all)
