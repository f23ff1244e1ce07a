/* links: tests/unit/redis/redis_peer.c */
/* One connection whose server is this test, and says what no server should. test_redis_time.c: a peer that is slow, or stands still. */
#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>
#include <sys/socket.h>

#include "tests/unit/redis/redis_peer.h"
#include "tests/unit/unit.h"

/* What it was told arrives, and the connection is closed because of it. */
static void assert_closed(struct redis_peer *s, const char *why)
{
	struct redis_reply reply;

	if (redis_pump(&s->r, 0) == 0)
		assert_int_equal(redis_take(&s->r, &reply), -1);
	assert_int_equal(s->r.state, REDIS_CLOSED);
	if (strstr(s->r.error, why) == NULL)
		fail_msg("%s", s->r.error);
}

TEST(a_role_that_is_none, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;

	redis_peer_say(s, ":1\r\n*1\r\n:1\r\n");
	assert_closed(s, "replica");
}

TEST(an_array_too_large, redis_peer_setup, redis_peer_teardown)
{
	static const char *const heads[] = { "*1048577\r\n", "*2147483647\r\n", "*1\r\n*2147483647\r\n" };
	struct redis_peer *s = *state;

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		if (i > 0) {
			redis_peer_teardown(state);
			redis_peer_setup(state);
			s = *state;
		}
		redis_peer_greet(s);
		redis_appendf(&s->r, "LRANGE l 0 -1");
		redis_peer_say(s, heads[i]);
		assert_closed(s, "too large");
	}
}

TEST(a_large_array, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	struct redis_reply reply;

	redis_peer_greet(s);
	redis_appendf(&s->r, "LRANGE l 0 -1");
	redis_peer_say(s, "*1048576\r\n");
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 0);
}

/* An answer that is kept is not the place of a later one. */
TEST(answers_take_the_places_of_freed_ones, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	struct redis_reply kept, reply;
	void *keeper;

	redis_peer_greet(s);
	for (int i = 0; i < 6; i++)
		redis_appendf(&s->r, "GET k");
	redis_peer_say(s, ":7\r\n$3\r\nabc\r\n:8\r\n$5\r\nhello\r\n$-1\r\n*2\r\n:9\r\n$1\r\nx\r\n");
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_true(reply.type == REDIS_INTEGER && reply.integer == 7);
	assert_int_equal(redis_take(&s->r, &kept), 1);
	keeper = redis_keep(&s->r);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_true(reply.type == REDIS_INTEGER && reply.integer == 8 && reply.str == NULL && reply.len == 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_true(reply.type == REDIS_STRING && reply.len == 5 && reply.integer == 0);
	assert_string_equal(reply.str, "hello");
	assert_true(kept.type == REDIS_STRING && kept.len == 3 && strcmp(kept.str, "abc") == 0);
	redis_let_go(keeper);
	assert_string_equal(reply.str, "hello");
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_int_equal(reply.type, REDIS_NIL);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_true(reply.type == REDIS_ARRAY && reply.n == 2 && redis_element(&reply, 0).integer == 9);
	assert_string_equal(redis_element(&reply, 1).str, "x");
}

TEST(an_answer_without_an_end, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	struct redis_reply reply;

	redis_peer_greet(s);
	redis_appendf(&s->r, "GET k");
	redis_peer_say(s, "$9000000000000000000\r\nab");
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 0);
	assert_int_equal(s->r.received, 24);
	s->r.received = INT64_C(4) << 30;	/* as if so much of it had come */
	redis_peer_say(s, "c");
	assert_closed(s, "too large");
}

/* As of a port that is not Redis and sends without end: nothing in an opening is large. */
TEST(an_opening_without_an_end, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	char text[8 * 1024 + 1];
	int sent = 0;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	redis_peer_say(s, "$99999999\r\n");
	for (; sent < 4096 && redis_pump(&s->r, 0) == 0; sent++)
		redis_peer_say(s, text);
	assert_closed(s, "too large");
	assert_in_range(sent, 64, 256);
}

TEST(answers_are_counted_each, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	struct redis_reply reply;

	redis_peer_greet(s);
	redis_appendf(&s->r, "GET a");
	redis_appendf(&s->r, "GET b");
	redis_peer_say(s, "$3\r\nabc\r\n$5\r\nd");
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_int_equal(s->r.received, 5);
	assert_int_equal(redis_take(&s->r, &reply), 0);
	redis_peer_say(s, "efgh\r\n");
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_string_equal(reply.str, "defgh");
	assert_int_equal(s->r.received, 0);
}

/* It would be taken for the answer to what is asked next. */
TEST(an_answer_to_nothing, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;

	redis_peer_greet(s);
	redis_peer_say(s, ":1\r\n");
	assert_closed(s, "nothing that was asked");
}

TEST(an_answer_behind_the_greetings, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;

	redis_peer_say(s, GREETINGS ":1\r\n");
	assert_closed(s, "nothing that was asked");
}

TEST(one_answer_too_many, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;

	redis_peer_greet(s);
	redis_appendf(&s->r, "DEL k");
	redis_peer_say(s, ":1\r\n:1\r\n");
	assert_closed(s, "nothing that was asked");
}

/* Who asks several things at a time need not look between them. */
TEST(asking_a_closed_connection, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	struct redis_command ping = {0};
	struct redis_reply reply;

	redis_peer_greet(s);
	redis_close(&s->r, "gone");
	redis_appendf(&s->r, "GET %s", "k");
	redis_format(&ping, "PING");
	redis_append_command(&s->r, &ping, 2);
	redis_command_free(&ping);
	redis_expect_by(&s->r, 5);
	assert_int_equal(s->r.pending, 0);
	assert_int_equal(redis_wait(&s->r, &reply, 1000, NULL), -1);
	assert_string_equal(s->r.error, "gone");
}

static bool are_strings(struct redis_peer *s, const char *answer)
{
	struct redis_reply reply;

	redis_appendf(&s->r, "LRANGE l 0 -1");
	redis_peer_say(s, answer);
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	return redis_is_strings(&reply);
}

TEST(strings, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;

	redis_peer_greet(s);
	assert_true(are_strings(s, "*0\r\n"));
	assert_true(are_strings(s, "*2\r\n$1\r\na\r\n$0\r\n\r\n"));
	assert_false(are_strings(s, "*2\r\n$1\r\na\r\n$-1\r\n"));
	assert_false(are_strings(s, "*1\r\n*0\r\n"));
	assert_false(are_strings(s, "*1\r\n:1\r\n"));
	assert_false(are_strings(s, "*-1\r\n"));
	assert_false(are_strings(s, "$1\r\na\r\n"));
}

static const char *begin;
static size_t arrived;

static int64_t arriving_after(struct redis_peer *s, const char *text)
{
	struct redis_reply reply;

	redis_peer_say(s, text);
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 0);
	return redis_arriving(&s->r, &begin, &arrived);
}

TEST(the_length_of_what_arrives, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	struct redis_reply reply;

	redis_peer_greet(s);
	redis_appendf(&s->r, "GET k");
	redis_appendf(&s->r, "LRANGE l 0 -1");
	assert_int_equal(redis_take(&s->r, &reply), 0);
	assert_int_equal(redis_arriving(&s->r, &begin, &arrived), -1);
	assert_int_equal(arriving_after(s, "$"), -1);
	assert_int_equal(arriving_after(s, "4"), -1);
	assert_int_equal(arriving_after(s, "\r\n"), 4);
	assert_int_equal(arrived, 0);
	assert_int_equal(arriving_after(s, "ab"), 4);
	assert_int_equal(arrived, 2);
	assert_memory_equal(begin, "ab", 2);
	redis_peer_say(s, "cd\r\n");
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_int_equal(redis_arriving(&s->r, &begin, &arrived), -1);
	assert_int_equal(arriving_after(s, "*2\r\n$1\r\na\r\n"), -1);
	assert_int_equal(arriving_after(s, "$300000000\r\nx"), 300000000);
}

/* The connection takes 16 KiB, and in the next turn of its caller's loop all that the kernel holds of that answer. */
TEST(a_large_answer_in_two_turns, redis_peer_setup, redis_peer_teardown)
{
	static char text[128 * 1024];
	struct redis_peer *s = *state;
	struct redis_reply reply;
	int n = snprintf(text, sizeof(text), "$%d\r\n", 100 * 1024);

	redis_peer_greet(s);
	redis_appendf(&s->r, "GET k");
	memset(text + n, 'x', 100 * 1024);
	strcpy(text + n + 100 * 1024, "\r\n");
	redis_peer_say(s, text);
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 0);
	assert_in_range(s->r.context->reader->len, 16 * 1024, 17 * 1024);
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_int_equal(reply.len, 100 * 1024);
}

/* The last answer of a server that closes the connection is read before its end. */
TEST(an_end_behind_a_large_answer, redis_peer_setup, redis_peer_teardown)
{
	static char text[64 * 1024];
	struct redis_peer *s = *state;
	struct redis_reply reply;
	int n = snprintf(text, sizeof(text), "$%d\r\n", 32 * 1024);

	redis_peer_greet(s);
	redis_appendf(&s->r, "GET k");
	redis_appendf(&s->r, "GET k");
	memset(text + n, 'x', 32 * 1024);
	strcpy(text + n + 32 * 1024, "\r\n");
	assert_int_equal(redis_pump(&s->r, 0), 0);
	redis_peer_say(s, text);
	shutdown(s->fd, SHUT_RDWR);
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 0);
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_int_equal(redis_pump(&s->r, 0), -1);
	assert_int_equal(s->r.state, REDIS_CLOSED);
}

/* Many short answers come in pieces of 16 KiB: a larger one would cost more than it saves. */
TEST(short_answers_in_pieces, redis_peer_setup, redis_peer_teardown)
{
	static char text[128 * 1024];
	struct redis_peer *s = *state;
	struct redis_reply reply;
	char answer[1024 + 16];
	size_t len = (size_t)snprintf(answer, sizeof(answer), "$1024\r\n%01024d\r\n", 0);

	redis_peer_greet(s);
	for (int i = 0; i < 64; i++) {
		redis_appendf(&s->r, "GET k");
		memcpy(text + (size_t)i * len, answer, len + 1);
	}
	redis_peer_say(s, text);
	for (int taken = 0; taken < 64; ) {
		assert_int_equal(redis_pump(&s->r, 0), 0);
		assert_in_range(s->r.context->reader->len, 1, 17 * 1024);
		while (taken < 64 && redis_take(&s->r, &reply) == 1)
			taken++;
	}
}

UNIT_MAIN(NULL, NULL)
