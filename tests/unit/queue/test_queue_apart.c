/* links: tests/unit/private_redis.c */

/* Large messages that are delayed: the payload lies apart from its line (common/queue/scripts/shared/apart.lua). On a private Redis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/queue/admin.h"
#include "common/queue/look.h"
#include "common/queue/waiting.h"
#include "tests/unit/private_queue.h"

#define LARGE ((size_t)200000)
#define APART "i:delayed:apart"

static char *payload;		/* LARGE bytes that begin with a header */
static struct buffer line;	/* a wrapper that says apart=1 */

static int setup_all(void **state)
{
	static const char header[] = "quredis/1 id=large\n";

	(void)state;
	payload = malloc(LARGE);
	memset(payload, 'x', LARGE);
	memcpy(payload, header, sizeof(header) - 1);
	payload[LARGE - 1] = '\0';
	private_queue_start();
	return 0;
}

static int teardown_all(void **state)
{
	free(payload);
	buffer_free(&line);
	return private_queue_stop(state);
}

static void new_line(void)
{
	buffer_clear(&line);
	message_wrapper(&line, &keys.lines, &(struct wrapper){ .attempts = 1, .apart = true });
}

static int setup(void **state)
{
	(void)state;
	private_queue_clear();
	new_line();
	return 0;
}

/* As a worker that has `raw` alone in its tray does it. */
static int64_t retry(const char *raw, size_t len, size_t strip, int64_t delay_ms)
{
	const struct queue_entry entry = { .raw = raw, .len = len, .at = -1, .of = 1, .moved = owner.moved[0] };
	const struct queue_change change = { &line, strip };

	queue_retry(&server.r, &owner, 0, &entry, &change, delay_ms);
	return private_redis_answer(&server).integer;
}

static void put_apart(int64_t delay_ms)
{
	REDIS(&server, "LPUSH %s %b", owner.trays[0], payload, LARGE);
	assert_int_equal(retry(payload, LARGE, 0, delay_ms), 1);
}

/* The key of the list that holds the payload; the caller frees it. */
static char *list_apart(void)
{
	char *list = NULL;

	assert_int_not_equal(asprintf(&list, APART ":%.16s", strstr(line.data, "w=") + 2), -1);
	return list;
}

static void assert_is_apart(size_t strip)
{
	char *list = list_apart();
	struct redis_reply member = REDIS(&server, "ZRANGE i:delayed 0 -1"), element = redis_element(&member, 0);

	assert_int_equal(member.n, 1);
	assert_int_equal(element.len, line.len);
	assert_memory_equal(element.str, line.data, line.len);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", list), 5);
	assert_int_equal(atoi(REDIS(&server, "LINDEX %s 1", list).str), (int)strip);
	assert_int_equal(atoi(REDIS(&server, "HGET " APART " %s", list + sizeof(APART)).str), (int)LARGE);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s", owner.trays[0]), 0);
	free(list);
}

/* The list holds one message: the line `before`, unless it is NULL, and the payload. */
static void assert_holds(const char *list, const struct buffer *before)
{
	struct redis_reply entry = REDIS(&server, "LINDEX %s 0", list);
	size_t len = before == NULL ? 0 : before->len;

	assert_int_equal(entry.len, len + LARGE);
	if (before != NULL)
		assert_memory_equal(entry.str, before->data, len);
	assert_memory_equal(entry.str + len, payload, LARGE);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", list), 1);
}

static void assert_nothing_is_delayed(void)
{
	char *list = list_apart();

	assert_int_equal(REDIS_INT(&server, "EXISTS i:delayed " APART " %s", list), 0);
	free(list);
}

static struct redis_reply due(bool all)
{
	queue_due(&server.r, &keys, all, 10, NULL);
	return private_redis_answer(&server);
}

static void a_large_one_is_renamed_and_comes_back_whole(void **state)
{
	struct redis_reply lates;

	(void)state;
	put_apart(0);
	assert_is_apart(0);
	assert_int_equal(atoi(REDIS(&server, "HGET %s %s", owner.lease, owner.trays[0]).str), 1);
	lates = due(false);
	assert_int_equal(lates.n, 1);
	assert_true(redis_element(&lates, 0).integer >= 0);
	assert_holds("i", &line);
	assert_nothing_is_delayed();
}

static void an_older_line_is_dropped(void **state)
{
	struct buffer older = {0};

	(void)state;
	message_wrapper(&older, &keys.lines, &(struct wrapper){ .attempts = 1, .apart = true });
	size_t strip = older.len;
	buffer_append(&older, payload, LARGE);
	REDIS(&server, "LPUSH %s %b", owner.trays[0], older.data, older.len);
	assert_int_equal(retry(older.data, older.len, strip, 0), 1);
	assert_is_apart(strip);
	assert_int_equal(due(false).n, 1);
	assert_holds("i", &line);
	buffer_free(&older);
}

static void what_is_not_due_waits_unless_all_is_wanted(void **state)
{
	(void)state;
	put_apart(60000);
	assert_int_equal(due(false).n, 0);
	assert_is_apart(0);
	assert_int_equal(due(true).n, 1);
	assert_holds("i", &line);
}

/* Other programs fetch from ingress, too: no line of ours may stand there. */
static void where_the_queue_is_shared_the_line_is_left_out(void **state)
{
	struct redis_reply first;
	void *kept;

	(void)state;
	put_apart(0);
	queue_glance_delayed(&server.r, &keys, 0, 9);
	first = private_redis_answer(&server);
	kept = redis_keep(&server.r);
	queue_due(&server.r, &keys, false, 10, &first);
	assert_int_equal(private_redis_answer(&server).n, 1);
	redis_let_go(kept);
	assert_holds("i", NULL);
	assert_nothing_is_delayed();
}

static void assert_moved_whole(void)
{
	struct redis_reply member = REDIS(&server, "ZRANGE i:delayed 0 -1");

	assert_int_equal(member.n, 1);
	assert_int_equal(redis_element(&member, 0).len, line.len + LARGE);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", owner.trays[0]), 0);
	assert_int_equal(due(true).n, 1);
	assert_holds("i", &line);
}

static void what_redis_refuses_is_undone_and_the_message_moves_whole(void **state)
{
	static const char *const refused[] = { "SET " APART " 1", "ACL SETUSER default -memory", "ACL SETUSER default -rename -ltrim",
		"ACL SETUSER default -rpush -zrem" };

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		setup(NULL);
		REDIS(&server, "LPUSH %s %b", owner.trays[0], payload, LARGE);
		redis_appendf(&server.r, refused[i]);
		private_redis_answer(&server);
		assert_int_equal(retry(payload, LARGE, 0, 0), 1);
		REDIS(&server, "ACL SETUSER default +@all");
		assert_int_equal(REDIS_INT(&server, "HEXISTS %s %s", owner.lease, owner.trays[0]), 1);
		assert_moved_whole();
	}
}

static void one_beside_others_moves_whole(void **state)
{
	const struct queue_entry entry = { .raw = payload, .len = LARGE, .at = -1, .of = 2 };
	const struct queue_change change = { &line, 0 };

	(void)state;
	REDIS(&server, "LPUSH %s %b other", owner.trays[0], payload, LARGE);
	queue_retry(&server.r, &owner, 0, &entry, &change, 0);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_string_equal(REDIS(&server, "LINDEX %s 0", owner.trays[0]).str, "other");
	REDIS(&server, "DEL %s", owner.trays[0]);
	assert_moved_whole();
}

/* Redis went back in time, or the message is of another size. */
static void a_tray_that_holds_something_else_is_left_alone(void **state)
{
	(void)state;
	REDIS(&server, "LPUSH %s %b", owner.trays[0], payload, LARGE / 2);
	assert_int_equal(retry(payload, LARGE, 0, 0), 0);
	REDIS(&server, "DEL %s", owner.trays[0]);
	REDIS(&server, "LPUSH %s %b", owner.trays[0], payload, LARGE);
	REDIS(&server, "HSET %s %s 3", owner.lease, owner.trays[0]);
	assert_int_equal(retry(payload, LARGE, 0, 0), 0);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", owner.trays[0]), 1);
	REDIS(&server, "DEL %s", owner.trays[0]);
	assert_int_equal(retry(payload, LARGE, 0, 0), 0);
	assert_nothing_is_delayed();
}

static void readers_see_one_message(void **state)
{
	struct queue_glanced glanced;
	struct queue_looked looked;
	struct redis_reply reply;
	struct message m;

	(void)state;
	put_apart(60000);
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

static void what_is_too_old_escapes_with_its_payload(void **state)
{
	struct buffer whole = {0};
	struct message m;

	(void)state;
	put_apart(60000);
	buffer_append(&whole, line.data, line.len);
	buffer_append(&whole, payload, LARGE);
	whole.data[whole.len - 2] = 'y';
	message_parse(&m, &keys.lines, whole.data, whole.len);
	queue_expire_delayed(&server.r, &keys, &m, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 0);		/* another payload: another message */
	assert_is_apart(0);
	whole.data[whole.len - 2] = 'x';
	queue_expire_delayed(&server.r, &keys, &m, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_holds("e", NULL);
	assert_nothing_is_delayed();
	buffer_free(&whole);
}

static void a_purge_and_destroy_leave_nothing(void **state)
{
	(void)state;
	put_apart(60000);
	queue_purge_delayed(&server.r, &keys);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_nothing_is_delayed();
	owner.moved[0] = 1;
	put_apart(60000);
	queue_destroy_lists(&server.r, &keys);
	private_redis_answer(&server);
	private_redis_answer(&server);
	assert_nothing_is_delayed();
}

static void one_whose_payload_is_gone_makes_no_empty_dead_letter(void **state)
{
	char *list = list_apart();
	struct message m;

	(void)state;
	put_apart(60000);
	REDIS(&server, "DEL %s", list);
	message_parse(&m, &keys.lines, line.data, line.len);
	queue_expire_delayed(&server.r, &keys, &m, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS e"), 0);
	assert_int_equal(REDIS_INT(&server, "ZCARD i:delayed"), 1);
	free(list);
}

/* Its line alone would run as an empty message. */
static void one_whose_payload_is_gone_is_deleted_and_told(void **state)
{
	static const char *const lost[] = { "DEL %s", "SET %s 1" };
	char *list;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct queue_due_moved moved;
		struct redis_reply lates;

		setup(NULL);
		put_apart(0);
		REDIS(&server, "ZADD i:delayed 1 small");
		list = list_apart();
		redis_appendf(&server.r, lost[i], list);
		private_redis_answer(&server);
		lates = due(false);
		assert_int_equal(lates.n, 2);
		assert_true(redis_element(&lates, 0).integer > 0);
		assert_int_equal(redis_element(&lates, 1).integer, QUEUE_DUE_LOST);
		assert_int_equal(queue_due_moved(&lates, &moved), 0);
		assert_true(moved.moved == 1 && moved.lost == 1);
		assert_int_equal(REDIS_INT(&server, "LLEN i"), 1);
		assert_string_equal(REDIS(&server, "LINDEX i 0").str, "small");
		assert_int_equal(REDIS_INT(&server, "EXISTS i:delayed " APART), 0);
		free(list);
	}
}

static void another_answer_is_no_move(void **state)
{
	struct redis_reply reply = REDIS(&server, "PING");
	struct queue_due_moved moved;

	(void)state;
	assert_int_equal(queue_due_moved(&reply, &moved), -1);
	REDIS(&server, "ZADD i:delayed 1 small");
	reply = REDIS(&server, "ZRANGE i:delayed 0 -1");
	assert_int_equal(queue_due_moved(&reply, &moved), -1);
}

/* An older message of about the same size lies in the tray. retry.lua cannot tell, since it does not read it; due.lua reads it and can. */
static void another_message_in_its_place_comes_back_as_it_was(void **state)
{
	static const struct wrapper again = { .attempts = 1, .apart = true };
	struct buffer older = {0};

	(void)state;
	message_wrapper(&older, &keys.lines, &again);
	size_t strip = older.len;
	buffer_append(&older, payload, LARGE);
	older.data[older.len - 9] = 'y';
	REDIS(&server, "LPUSH %s %b", owner.trays[0], payload, LARGE);
	assert_int_equal(retry(older.data, older.len - strip / 2, strip, 0), 1);
	assert_int_equal(due(false).n, 1);
	assert_holds("i", NULL);
	assert_nothing_is_delayed();

	setup(NULL);
	REDIS(&server, "LPUSH %s %b", owner.trays[0], older.data, older.len);
	assert_int_equal(retry(payload, LARGE, 0, 0), 1);
	assert_int_equal(due(false).n, 1);
	struct redis_reply entry = REDIS(&server, "LINDEX i 0");
	assert_int_equal(entry.len, older.len);
	assert_memory_equal(entry.str, older.data, older.len);
	buffer_free(&older);
}

/* It is not gone. */
static void one_whose_payload_may_not_be_read_stays(void **state)
{
	(void)state;
	put_apart(0);
	REDIS(&server, "ACL SETUSER default -lrange");
	queue_due(&server.r, &keys, false, 10, NULL);
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	REDIS(&server, "ACL SETUSER default +@all");
	assert_is_apart(0);
	assert_int_equal(due(false).n, 1);
	assert_holds("i", &line);
}

static void where_unlink_is_forbidden_nothing_is_left_either(void **state)
{
	(void)state;
	put_apart(0);
	REDIS(&server, "ACL SETUSER default -unlink");
	assert_int_equal(due(false).n, 1);
	REDIS(&server, "ACL SETUSER default +@all");
	assert_holds("i", &line);
	assert_nothing_is_delayed();
}

/* If Redis refuses HDEL, a name stays in the hash. A later move removes it. */
static void a_name_whose_list_is_gone_leaves_with_a_later_move(void **state)
{
	char *list;

	(void)state;
	redis_appendf(&server.r, "HRANDFIELD " APART);
	if (private_redis_answer_or_error(&server).type == REDIS_ERROR)
		skip();		/* before Redis 6.2 */
	put_apart(0);
	list = list_apart();
	REDIS(&server, "ACL SETUSER default -hdel");
	assert_int_equal(due(false).n, 1);
	REDIS(&server, "ACL SETUSER default +@all");
	assert_int_equal(REDIS_INT(&server, "EXISTS i:delayed %s", list), 0);
	assert_int_equal(REDIS_INT(&server, "HLEN " APART), 1);
	free(list);

	REDIS(&server, "DEL i %s", owner.lease);
	new_line();
	owner.moved[0] = 0;
	put_apart(0);
	assert_int_equal(REDIS_INT(&server, "HLEN " APART), 2);
	assert_int_equal(due(false).n, 1);
	assert_int_equal(REDIS_INT(&server, "EXISTS " APART), 0);
}

/* Each payload whose message is still delayed keeps its name. */
static void a_name_whose_list_is_there_stays(void **state)
{
	(void)state;
	put_apart(0);
	REDIS(&server, "HSET " APART " 0123456789abcdef 1");
	REDIS(&server, "RPUSH " APART ":0123456789abcdef payload");
	assert_int_equal(due(false).n, 1);
	assert_int_equal(REDIS_INT(&server, "HEXISTS " APART " 0123456789abcdef"), 1);
}

/* An empty message, and one whose payload is such a line. */
static void only_a_member_without_a_payload_is_apart(void **state)
{
	struct buffer plain = {0}, nested = {0};

	(void)state;
	message_wrapper(&plain, &keys.lines, &(struct wrapper){ .attempts = 1 });
	buffer_append(&nested, plain.data, plain.len);
	buffer_append(&nested, line.data, line.len);
	REDIS(&server, "ZADD i:delayed 1 %b 2 %b", plain.data, plain.len, nested.data, nested.len);
	assert_int_equal(due(false).n, 2);
	assert_int_equal(REDIS(&server, "LINDEX i 0").len, nested.len);
	assert_int_equal(REDIS(&server, "LINDEX i 1").len, plain.len);
	buffer_free(&plain);
	buffer_free(&nested);
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_large_one_is_renamed_and_comes_back_whole),
		T(an_older_line_is_dropped),
		T(what_is_not_due_waits_unless_all_is_wanted),
		T(where_the_queue_is_shared_the_line_is_left_out),
		T(what_redis_refuses_is_undone_and_the_message_moves_whole),
		T(one_beside_others_moves_whole),
		T(a_tray_that_holds_something_else_is_left_alone),
		T(readers_see_one_message),
		T(what_is_too_old_escapes_with_its_payload),
		T(one_whose_payload_is_gone_makes_no_empty_dead_letter),
		T(a_purge_and_destroy_leave_nothing),
		T(one_whose_payload_is_gone_is_deleted_and_told),
		T(another_answer_is_no_move),
		T(another_message_in_its_place_comes_back_as_it_was),
		T(one_whose_payload_may_not_be_read_stays),
		T(where_unlink_is_forbidden_nothing_is_left_either),
		T(a_name_whose_list_is_gone_leaves_with_a_later_move),
		T(a_name_whose_list_is_there_stays),
		T(only_a_member_without_a_payload_is_apart),
	};

	return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
