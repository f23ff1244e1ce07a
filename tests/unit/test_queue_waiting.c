/* links: tests/unit/private_redis.c common/alloc.c common/buffer.c common/clock.c common/duration.c common/message.c common/queue_keys.c common/queue_records.c common/queue_scripts.c common/queue_waiting.c common/redis.c common/redis_command.c common/redis_reply.c common/redis_wait.c common/redis_target.c */

/* Marks, looks and expiry on a private Redis. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/queue_records.h"
#include "common/queue_waiting.h"
#include "tests/unit/private_redis.h"

#define LINE "quredis/1 w=00000000000000aa"
#define M "quredis/1 w=00000000000000bb mark=5\n"	/* what a mark's message begins with */

static struct private_redis server;
static struct queue_keys keys;

static int setup(void **state)
{
	(void)state;
	REDIS(&server, "FLUSHALL");
	REDIS(&server, "CONFIG SET maxmemory 0");
	return 0;
}

static int64_t integer(void)
{
	struct redis_reply reply = private_redis_answer(&server);

	assert_int_equal(reply.type, REDIS_INTEGER);
	return reply.integer;
}

static void assert_list(const char *key, const char *const *want, size_t n)
{
	struct redis_reply reply = REDIS(&server, "LRANGE %s 0 -1", key);

	assert_int_equal(reply.n, n);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(redis_element(&reply, i).str, want[i]);
}

#define LIST(key, ...)                                                                             \
	do {                                                                                       \
		const char *const want_[] = { __VA_ARGS__ };                                       \
		assert_list(key, want_, sizeof(want_) / sizeof(want_[0]));                         \
	} while (0)

/* ---- marks ---- */

static struct message newest(void)
{
	static char raw[4096];
	struct redis_reply reply = REDIS(&server, "LINDEX i 0");
	struct message m;

	memcpy(raw, reply.str, reply.len);
	message_parse(&m, raw, reply.len);
	return m;
}

static int64_t server_ms(void)
{
	struct redis_reply reply = REDIS(&server, "TIME");

	return strtoll(redis_element(&reply, 0).str, NULL, 10) * 1000 + strtoll(redis_element(&reply, 1).str, NULL, 10) / 1000;
}

static void a_raw_message_is_marked_in_place(void **state)
{
	int64_t before = server_ms();
	struct message m;

	(void)state;
	queue_mark(&server.r, &keys, LINE, NULL);
	assert_int_equal(integer(), 0);
	assert_int_equal(REDIS_INT(&server, "DBSIZE"), 0);
	REDIS(&server, "RPUSH i %b older", "a\0\xff\n", (size_t)4);
	queue_mark(&server.r, &keys, LINE, NULL);
	assert_int_equal(integer(), 1);
	m = newest();
	assert_true(m.wrapper.mark_ms >= before && m.wrapper.mark_ms <= server_ms());
	assert_int_equal(m.wrapper.nonce, 0xaa);
	assert_int_equal(m.raw_len - m.wrapper_len, 4);
	assert_memory_equal(m.raw + m.wrapper_len, "a\0\xff\n", 4);
	assert_string_equal(REDIS(&server, "LINDEX i 1").str, "older");
	assert_int_equal(REDIS_INT(&server, "LLEN i"), 2);
}

static void what_has_a_wrapper_is_shown_first(void **state)
{
	const struct queue_seen seen = { "quredis/1 w=0000000000000001 own=7\n", 35, 35 }, gone = { "x", 1, 0 };
	struct redis_reply reply;
	struct message m;

	(void)state;
	REDIS(&server, "RPUSH i %s", "quredis/1 w=0000000000000001 own=7\nquredis/1 id=z\npayload");
	queue_mark(&server.r, &keys, LINE, NULL);
	reply = private_redis_answer(&server);
	assert_int_equal(reply.type, REDIS_STRING);
	message_parse(&m, reply.str, reply.len);
	assert_int_equal(m.wrapper.own_ms, 7);
	queue_mark(&server.r, &keys, LINE, &gone);
	assert_int_equal(integer(), 0);
	queue_mark(&server.r, &keys, LINE " own=7", &seen);
	assert_int_equal(integer(), 1);
	m = newest();
	assert_int_equal(m.wrapper.own_ms, 7);
	assert_true(m.wrapper.mark_ms > 0);
	assert_string_equal(m.id, "z");
	assert_int_equal(message_payload_len(&m), 7);
}

static void what_only_looks_like_a_wrapper_is_payload(void **state)
{
	const struct queue_seen seen = { "quredis/1 w=x\npay", 17, 0 };
	struct message m;

	(void)state;
	REDIS(&server, "RPUSH i %s", "quredis/1 w=x\npay");
	queue_mark(&server.r, &keys, LINE, &seen);
	assert_int_equal(integer(), 1);
	m = newest();
	assert_int_equal(m.raw_len - m.wrapper_len, 17);
	assert_memory_equal(m.raw + m.wrapper_len, "quredis/1 w=x\npay", 17);
}

static void a_line_has_all_but_the_mark(void **state)
{
	const struct wrapper w = { .attempts = INT32_MAX, .crashes = 2, .redelivered = 3, .solo = true, .own_ms = INT64_MAX, .mark_ms = 5,
		.first_failed_ms = INT64_MAX };
	char line[QUEUE_MARK_LINE_SIZE], raw[2 * QUEUE_MARK_LINE_SIZE];
	struct message m;

	(void)state;
	queue_mark_line(line, &w);
	assert_null(strstr(line, "mark"));
	assert_null(strchr(line, '\n'));
	snprintf(raw, sizeof(raw), "%s mark=%" PRId64 "\n", line, INT64_MAX);
	assert_true(strlen(raw) < QUEUE_MARK_LINE_SIZE);
	message_parse(&m, raw, strlen(raw));
	assert_int_equal(m.wrapper_len, strlen(raw));
	assert_true(m.wrapper.attempts == 1000000 && m.wrapper.crashes == 2 && m.wrapper.redelivered == 3 && m.wrapper.solo &&
		    m.wrapper.own_ms == INT64_MAX && m.wrapper.mark_ms == INT64_MAX && m.wrapper.first_failed_ms == INT64_MAX);
}

/* ---- looks ---- */

static void a_look_shows_lines_and_sizes(void **state)
{
	struct queue_glanced g;
	struct redis_reply reply;
	char *big = malloc(5000);

	(void)state;
	memset(big, 'x', 5000);
	memcpy(big, "quredis/1 ", 10);
	REDIS(&server, "RPUSH i newest %b %s raw", big, (size_t)5000, M "m");
	free(big);
	queue_glance(&server.r, "i", -3, -1);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_glanced(&reply, &g), 0);
	assert_int_equal(g.n, 3);
	assert_int_equal(g.bytes, 5000 + strlen(M "m") + 3);
	assert_true(g.server_ms > 0 && g.server_ms <= server_ms());
	queue_glance(&server.r, "i", -3, -1);
	reply = private_redis_answer(&server);
	assert_int_equal(redis_element(&reply, 0).len, 2048);
	assert_string_equal(redis_element(&reply, 1).str, M "m");
	assert_int_equal(redis_element(&reply, 2).len, 0);
	queue_glance(&server.r, "none", -3, -1);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_glanced(&reply, &g), 0);
	assert_int_equal(g.n, 0);
}

/* ---- expiry ---- */

static void ask(const char *raw, int64_t at, int64_t mark_at)
{
	const struct record record = { .queue = "q", .queue_from = "ingress", .error_class = "TTLExpired", .exit_code = -1,
		.duration_ms = -1, .payload_max = 100 };
	const struct queue_proof proof = { M, strlen(M), mark_at, at };
	struct message m;

	message_parse(&m, raw, strlen(raw));
	queue_expire(&server.r, &keys, &m, &proof, &record);
}

static int64_t expire(const char *raw, int64_t at, int64_t mark_at)
{
	ask(raw, at, mark_at);
	return integer();
}

static void one_to_the_right_of_its_mark_leaves(void **state)
{
	(void)state;
	REDIS(&server, "RPUSH i new %s b a", M "m");
	assert_int_equal(expire("a", -1, -3), 1);
	assert_int_equal(expire("b", -1, -2), 1);
	assert_int_equal(expire(M "m", -1, -1), 1);
	LIST("i", "new");
	LIST("e", "m", "b", "a");
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 3);
	assert_int_equal(expire("new", -1, -1), 0);
	LIST("i", "new");
}

/* An equal one that is not behind the mark is another message. */
static void what_has_moved_stays(void **state)
{
	(void)state;
	REDIS(&server, "RPUSH i a %s a", M "m");
	REDIS(&server, "RPOP i");
	assert_int_equal(expire("a", -1, -2), 0);
	REDIS(&server, "RPOP i");
	assert_int_equal(expire("a", -1, -2), 0);
	LIST("i", "a");
	assert_int_equal(REDIS_INT(&server, "EXISTS e e:log"), 0);
}

static void others_may_pop_meanwhile(void **state)
{
	(void)state;
	REDIS(&server, "RPUSH i new %s d c b a", M "m");
	REDIS(&server, "RPOP i");
	assert_int_equal(expire("b", -1, -5), 1);
	/* counted from the mark: d was at -4 */
	assert_int_equal(expire("c", -4, -5), 0);
	assert_int_equal(expire("d", -4, -5), 1);
	LIST("i", "new", M "m", "c");
	/* what was to the right of the mark and is gone is not looked for at the left end */
	REDIS(&server, "RPOP i");
	assert_int_equal(expire("new", -2, -5), 0);
	assert_int_equal(expire("new", -4, -5), 0);
	LIST("i", "new", M "m");
}

static void one_in_between_leaves_alone(void **state)
{
	(void)state;
	REDIS(&server, "RPUSH i new %s c b a", M "m");
	assert_int_equal(expire("b", -2, -4), 1);
	LIST("i", "new", M "m", "c", "a");
	assert_int_equal(expire("new", -5, -4), 0);
}

static void a_refused_copy_does_not_stay(void **state)
{
	struct redis_reply reply;

	(void)state;
	REDIS(&server, "RPUSH i %s a", M "m");
	REDIS(&server, "SET e x");
	ask("a", -1, -2);
	reply = private_redis_answer_or_error(&server);
	assert_int_equal(reply.type, REDIS_ERROR);
	assert_non_null(strstr(reply.str, "WRONGTYPE"));
	LIST("i", M "m", "a");
	REDIS(&server, "DEL e");
	REDIS(&server, "SET e:log x");
	assert_int_equal(expire("a", -1, -2), 2);
	LIST("e", "a");
}

static void it_works_at_maxmemory(void **state)
{
	(void)state;
	REDIS(&server, "RPUSH i new %s a", M "m");
	REDIS(&server, "CONFIG SET maxmemory 1");
	redis_appendf(&server.r, "LPUSH i x");
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	queue_mark(&server.r, &keys, LINE, NULL);
	assert_int_equal(integer(), 1);
	assert_int_equal(expire("a", -1, -2), 1);
	queue_glance(&server.r, "i", -1, -1);
	assert_int_equal(private_redis_answer(&server).type, REDIS_ARRAY);
}

#define T(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_raw_message_is_marked_in_place),
		T(what_has_a_wrapper_is_shown_first),
		T(what_only_looks_like_a_wrapper_is_payload),
		T(a_line_has_all_but_the_mark),
		T(a_look_shows_lines_and_sizes),
		T(one_to_the_right_of_its_mark_leaves),
		T(what_has_moved_stays),
		T(others_may_pop_meanwhile),
		T(one_in_between_leaves_alone),
		T(a_refused_copy_does_not_stay),
		T(it_works_at_maxmemory),
	};
	int failed;

	private_redis_start(&server, false);
	queue_keys_init(&keys, "q", "i", "t", "e");
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	queue_keys_free(&keys);
	private_redis_stop(&server);
	return failed;
}
