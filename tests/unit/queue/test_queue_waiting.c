/* links: tests/unit/private_redis.c */

/* Stamps and looks on a private Redis. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/records.h"
#include "common/queue/waiting.h"
#include "tests/unit/private_redis.h"
#include "tests/unit/sealed.h"
#include "tests/unit/unit.h"

static struct private_redis server;
static struct queue_keys keys;

static int setup(void **state)
{
	(void)state;
	REDIS(&server, "FLUSHALL");
	REDIS(&server, "CONFIG SET maxmemory 0");
	return 0;
}

/* ---- stamps ---- */

static struct message at(int64_t index)
{
	static char raw[4096];
	struct redis_reply reply = REDIS(&server, "LINDEX i %d", index);
	struct message m;

	assert_int_equal(reply.type, REDIS_STRING);
	memcpy(raw, reply.str, reply.len);
	message_parse(&m, &keys.lines, raw, reply.len);
	return m;
}

static int64_t server_ms(void)
{
	struct redis_reply reply = REDIS(&server, "TIME");

	return strtoll(redis_element(&reply, 0).str, NULL, 10) * 1000 + strtoll(redis_element(&reply, 1).str, NULL, 10) / 1000;
}

static struct message_stamp round_line;

static struct redis_reply stamp(int64_t from, int64_t count, int64_t lines)
{
	queue_stamp(&server.r, &keys, &(struct queue_walk){ &round_line, from, count, lines, 1 << 20 });
	return private_redis_answer(&server);
}

static int64_t stamp_seen(const struct queue_stamp_one *ones, size_t n)
{
	queue_stamp_seen(&server.r, &keys, ones, n);
	return private_redis_answer(&server).integer;
}

static struct queue_stamped stamped(int64_t from, int64_t count, int64_t lines)
{
	struct redis_reply reply = stamp(from, count, lines);
	struct queue_stamped said;

	assert_int_equal(queue_stamped(&reply, &said), 0);
	return said;
}

static void new_round(void)
{
	message_stamp(&round_line, &keys.lines, &(struct wrapper){0});
}

static void assert_says(int64_t index, const char *payload, size_t len, int64_t from_ms)
{
	struct message m = at(index);

	assert_true(m.wrapper_len > 0);
	assert_in_range(m.wrapper.own_ms, from_ms, server_ms());
	assert_int_equal(m.raw_len - m.wrapper_len, len);
	assert_memory_equal(m.raw + m.wrapper_len, payload, len);
}

TEST(raw_messages_are_stamped_in_place, setup)
{
	int64_t before = server_ms();
	struct queue_stamped said;

	new_round();
	said = stamped(QUEUE_NEWEST, 10, 1);
	assert_true(said.stamped == 0 && said.next == 0 && said.n == 0);
	assert_int_equal(REDIS_INT(&server, "DBSIZE"), 0);
	REDIS(&server, "RPUSH i %b quredis/1 %s m m", "a\0\xff\n", (size_t)4, "quredis/1 id=z\nbody");
	said = stamped(QUEUE_NEWEST, 3, 1);
	assert_true(said.stamped == 3 && said.next == -2 && said.n == 0);
	assert_string_equal(REDIS(&server, "LINDEX i -1").str, "m");
	said = stamped(said.next, 10, 1);
	assert_true(said.stamped == 2 && said.next == 0 && said.n == 0);
	assert_says(0, "a\0\xff\n", 4, before);
	assert_says(1, "quredis/1", 9, before);
	assert_string_equal(at(2).id, "z");
	assert_says(3, "m", 1, before);
	assert_says(4, "m", 1, before);
	assert_int_equal(REDIS_INT(&server, "LLEN i"), 5);
	/* those of this round are passed over, and others told of */
	said = stamped(QUEUE_NEWEST, 10, 9);
	assert_true(said.stamped == 0 && said.next == 0 && said.n == 0);
	new_round();
	said = stamped(QUEUE_NEWEST, 10, 2);
	assert_true(said.stamped == 0 && said.next == -3 && said.n == 2);
}

TEST(what_begins_like_a_wrapper_is_told_of, setup)
{
	static const char *const forged = "quredis/1 w=0123456789abcdef own=1\npay";
	struct buffer raw = {0};
	struct redis_reply reply;
	struct queue_line line;
	struct message m;

	message_parse(&m, &keys.lines, "payload", 7);
	message_wrap(&raw, &keys.lines, &m, &(struct wrapper){ .attempts = 7 });
	REDIS(&server, "RPUSH i %s %b raw", forged, raw.data, raw.len);
	new_round();
	reply = stamp(QUEUE_NEWEST, 10, 10);
	assert_int_equal(reply.n, 8);
	line = queue_stamped_line(&reply, 0);
	assert_true(line.at == -3 && line.len == strlen(forged) && line.line_len == strlen(forged) - 3);
	line = queue_stamped_line(&reply, 1);
	assert_true(line.at == -2 && line.len == raw.len && line.line_len == raw.len - 7);
	assert_memory_equal(line.line, raw.data, line.line_len);
	assert_says(-1, "raw", 3, 1);
	/* no line, so no wrapper, however it begins */
	REDIS(&server, "LPUSH i %s", "quredis/1 w=");
	assert_int_equal(stamped(QUEUE_NEWEST, 1, 1).stamped, 1);
	assert_says(0, "quredis/1 w=", 12, 1);
	buffer_free(&raw);
}

/* wrapped: with attempts=7; else a line that nobody sealed. Of a payload of one byte. */
static struct queue_stamp_one one_of(struct buffer *raw, bool wrapped, int64_t index)
{
	struct queue_stamp_one one;
	struct message m;

	buffer_clear(raw);
	message_parse(&m, &keys.lines, "p", 1);
	if (wrapped)
		message_wrap(raw, &keys.lines, &m, &(struct wrapper){ .attempts = 7 });
	else
		buffer_append(raw, "quredis/1 w=0123456789abcdef own=1\np", 36);
	message_parse(&m, &keys.lines, raw->data, raw->len);
	one = (struct queue_stamp_one){ { index, raw->len, raw->data, raw->len - 1 }, m.wrapper_len, { "", "" } };
	message_stamp(&one.line, &keys.lines, &m.wrapper);
	return one;
}

TEST(what_was_verified_gets_a_line_of_its_own, setup)
{
	struct buffer raw = {0}, forged = {0};
	struct queue_stamp_one ones[2] = { one_of(&raw, true, -3), one_of(&forged, false, -2) };

	new_round();
	REDIS(&server, "RPUSH i %b %b last", raw.data, raw.len, forged.data, forged.len);
	assert_int_equal(stamp_seen(ones, 2), 2);
	assert_says(-3, "p", 1, 1);
	assert_int_equal(at(-3).wrapper.attempts, 7);
	assert_says(-2, forged.data, forged.len, 1);
	assert_int_equal(at(-2).wrapper.attempts, 0);
	assert_string_equal(REDIS(&server, "LINDEX i -1").str, "last");
	buffer_free(&raw);
	buffer_free(&forged);
}

/* Redis went back, or others took or moved some: nothing is written to another entry. */
TEST(what_is_no_longer_there_is_left_alone, setup)
{
	struct buffer raw = {0}, other = {0};
	struct queue_stamp_one one = one_of(&raw, true, -3);

	new_round();
	one_of(&other, true, -3);
	REDIS(&server, "RPUSH i %b x y", other.data, other.len);
	assert_int_equal(stamp_seen(&one, 1), 0);
	assert_int_equal(REDIS(&server, "LINDEX i 0").len, other.len);
	assert_memory_equal(REDIS(&server, "LINDEX i 0").str, other.data, other.len);
	/* of another length */
	REDIS(&server, "DEL i");
	buffer_append(&raw, "more", 4);
	REDIS(&server, "RPUSH i %b x y", raw.data, raw.len);
	raw.len -= 4;
	assert_int_equal(stamp_seen(&one, 1), 0);
	/* others pop meanwhile: it is looked for nearer to the pop end, and not farther from it */
	REDIS(&server, "DEL i");
	REDIS(&server, "RPUSH i %b y", raw.data, raw.len);
	assert_int_equal(stamp_seen(&one, 1), 1);
	assert_says(-2, "p", 1, 1);
	REDIS(&server, "DEL i");
	REDIS(&server, "RPUSH i %b x y z", raw.data, raw.len);
	assert_int_equal(stamp_seen(&one, 1), 0);
	buffer_free(&raw);
	buffer_free(&other);
}

/* Whatever it says besides, a stamped line can be read again. */
TEST(the_largest_line_is_stamped, setup)
{
	const struct wrapper w = { .attempts = INT32_MAX, .crashes = 2000000, .redelivered = 3000000, .outages = INT32_MAX, .solo = true,
		.own_ms = 5, .redriven_ms = INT64_MAX, .first_failed_ms = INT64_MAX };
	struct message m;

	REDIS(&server, "RPUSH i m");
	message_stamp(&round_line, &keys.lines, &w);
	assert_int_equal(stamped(QUEUE_NEWEST, 1, 1).stamped, 1);
	m = at(0);
	assert_true(m.wrapper.attempts == 1000000 && m.wrapper.crashes == 1000000 && m.wrapper.solo && m.wrapper.own_ms > 5 &&
		    m.wrapper.redriven_ms == INT64_MAX && m.wrapper.first_failed_ms == INT64_MAX);
	assert_int_equal(m.raw_len - m.wrapper_len, 1);
}

/* Whoever knows a stamped line cannot make another one of it. */
TEST(a_stamp_cannot_be_changed, setup)
{
	struct message m;
	char *own;

	new_round();
	REDIS(&server, "RPUSH i m");
	assert_int_equal(stamped(QUEUE_NEWEST, 1, 1).stamped, 1);
	m = at(0);
	own = strstr(m.raw, " own=") + strlen(" own=");
	*own = '0';				/* long ago */
	message_parse(&m, &keys.lines, m.raw, m.raw_len);
	assert_int_equal(m.wrapper_len, 0);
	assert_int_equal(m.wrapper.own_ms, 0);
}

/* One call reads and writes about 256 KiB, and leaves alone what is longer than its limit. */
TEST(large_messages_are_stamped_in_several_calls, setup)
{
	struct queue_stamped said;
	char *big = malloc(2 << 20);

	new_round();
	memset(big, 'x', 2 << 20);
	for (int i = 0; i < 6; i++)
		REDIS(&server, "RPUSH i %b", big, (size_t)100000);
	REDIS(&server, "RPUSH i %b last", big, (size_t)(2 << 20));
	free(big);
	said = stamped(QUEUE_NEWEST, 100, 1);
	assert_true(said.stamped == 3 && said.next == -5);
	said = stamped(said.next, 100, 1);
	assert_true(said.stamped == 3 && said.next == -2);
	said = stamped(said.next, 100, 1);
	assert_true(said.stamped == 0 && said.next == -1);
	assert_int_equal(stamped(said.next, 100, 1).stamped, 1);
	assert_int_equal(REDIS(&server, "LINDEX i -2").len, 2 << 20);
}

TEST(it_works_at_maxmemory, setup)
{
	new_round();
	REDIS(&server, "RPUSH i new a");
	REDIS(&server, "CONFIG SET maxmemory 1");
	redis_appendf(&server.r, "LPUSH i x");
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	assert_int_equal(stamped(QUEUE_NEWEST, 10, 1).stamped, 2);
	queue_glance(&server.r, "i", -1, -1);
	assert_int_equal(private_redis_answer(&server).type, REDIS_ARRAY);
}

/* ---- looks ---- */

TEST(a_look_shows_lines_and_sizes, setup)
{
	struct queue_glanced g;
	struct redis_reply reply;
	static const char *const line = "quredis/1 id=a\nm";
	char *big = malloc(5000);

	memset(big, 'x', 5000);
	memcpy(big, "quredis/1 ", 10);
	REDIS(&server, "RPUSH i newest %b %s raw", big, (size_t)5000, line);
	free(big);
	queue_glance(&server.r, "i", -3, -1);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_glanced(&reply, &g), 0);
	assert_true(g.n == 3 && !g.more);
	assert_int_equal(g.bytes, 5000 + strlen(line) + 3);
	assert_true(g.server_ms > 0 && g.server_ms <= server_ms());
	queue_glance(&server.r, "i", -3, -1);
	reply = private_redis_answer(&server);
	assert_int_equal(redis_element(&reply, 0).len, 2048);
	assert_string_equal(redis_element(&reply, 1).str, line);
	assert_int_equal(redis_element(&reply, 2).len, 0);
	queue_glance(&server.r, "none", -3, -1);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_glanced(&reply, &g), 0);
	assert_int_equal(g.n, 0);
}

/* Another program, or a proxy, may answer anything. */
TEST(a_look_at_other_types_is_refused, setup)
{
	static const char *const answers[] = { "return {1}", "return {'e', '5'}", "return {'e', '5', 6, '0'}",
	    "return {'e', 5, '6', '0'}", "return {'e', false, '6', '0'}",
		"return {'e', '5', {'6'}, '0'}", "return {'e', {err = 'ERR 5'}, '6', '0'}",
		"return {7, '5', '6', '0'}", "return {{'e'}, '5', '6', '0'}", "return '5'" };
	struct queue_glanced g;

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct redis_reply reply = REDIS(&server, "EVAL %s 0", answers[i]);

		assert_int_equal(queue_glanced(&reply, &g), -1);
	}
}

/* What Redis reads in one look is bounded: of large entries there are fewer, and the next look goes on behind them. */
TEST(a_look_ends_after_a_megabyte, setup)
{
	struct queue_glanced g;
	struct redis_reply reply;
	char *big = malloc(700000);
	int64_t seen = 0;
	int looks = 0;

	memset(big, 'x', 700000);
	for (int64_t i = 0; i < 5; i++) {
		big[0] = (char)('0' + i);
		REDIS(&server, "RPUSH i %b", big, (size_t)700000);
		REDIS(&server, "ZADD quredis:of:i:delayed %d %b", i, big, (size_t)700000);
	}
	REDIS(&server, "RPUSH i %s", "quredis/1 id=last\n");
	free(big);
	do {
		queue_glance(&server.r, "i", -seen - 100, -1 - seen);
		reply = private_redis_answer(&server);
		assert_int_equal(queue_glanced(&reply, &g), 0);
		assert_in_range(g.n, 1, 5);		/* it learns from the first that the next one is large */
		if (seen == 0)
			assert_string_equal(redis_element(&reply, g.n - 1).str, "quredis/1 id=last\n");
		seen += (int64_t)g.n;
		looks++;
	} while (g.more);
	assert_int_equal(seen, 6);
	assert_true(looks > 1);
	queue_glance_delayed(&server.r, &keys, 1, 100);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_glanced(&reply, &g), 0);
	assert_true(g.more && g.n == 2 && g.bytes == 2 * 700000);
	queue_glance_delayed(&server.r, &keys, 4, 100);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_glanced(&reply, &g), 0);
	assert_true(!g.more && g.n == 1);
}

int main(void)
{
	int failed;

	private_redis_start(&server, false);
	queue_keys_init(&keys, NULL, "q", "i", "t", "e");
	failed = unit_run(NULL, NULL);
	queue_keys_free(&keys);
	private_redis_stop(&server);
	return failed;
}
