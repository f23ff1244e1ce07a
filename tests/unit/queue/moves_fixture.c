/* What the tests of the moves share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/queue/moves_fixture.h"

struct private_redis server;
struct queue_keys keys;
struct queue_owner owner, next;
struct message message;
struct buffer wrapped, line;		/* what comes back, and what makes it of RAW */
const struct queue_change change = { &line, 0 };
const struct queue_entry by_value = { .raw = RAW, .len = RAW_LEN, .at = QUEUE_ANYWHERE };
const struct queue_entry last = { .raw = RAW, .len = RAW_LEN, .at = -1 }, first = { .raw = RAW, .len = RAW_LEN, .at = 0 };

struct record record = { .queue = "mail", .queue_from = "transit", .error_class = "HandlerExit",
	.error_message = "said no", .failed_at_ms = 1700000000123, .attempts = 3, .crashes = 1, .exit_code = 3,
	.stderr_tail = "a\0b", .stderr_len = 3, .duration_ms = 12, .node = "n", .worker = "n.00000000000000b0.4.1",
	.handler = "/bin/true", .payload_max = 100 };

bool moves_is_set(const char *key)
{
	return strcmp(key, "quredis:of:i:delayed") == 0;
}

void moves_put(const char *key, const void *data, size_t len)
{
	if (moves_is_set(key))
		REDIS(&server, "ZADD %s 1 %b", key, data, len);
	else
		REDIS(&server, "RPUSH %s %b", key, data, len);
}

int64_t moves_count(const char *key)
{
	return moves_is_set(key) ? REDIS_INT(&server, "ZCARD %s", key) : REDIS_INT(&server, "LLEN %s", key);
}

/* The only entry of key is these bytes. */
void moves_assert_holds(const char *name, const char *key, const void *data, size_t len)
{
	struct redis_reply reply = moves_is_set(key) ? REDIS(&server, "ZRANGE %s 0 -1", key) : REDIS(&server, "LRANGE %s 0 -1", key);

	if (reply.n != 1)
		fail_msg("%s: %zu entries in %s", name, reply.n, key);
	reply = redis_element(&reply, 0);
	assert_int_equal(reply.len, len);
	assert_memory_equal(reply.str, data, len);
}

int moves_setup_all(void **state)
{
	(void)state;
	private_redis_start(&server, false);
	queue_keys_init(&keys, NULL, "mail", "i", "t", "e");
	queue_owner_init(&owner, &keys, "n.00000000000000b0.4.1", 30000);
	queue_owner_init(&next, &keys, "n.00000000000000b0.4.2", 30000);
	message_parse(&message, &keys.lines, RAW, RAW_LEN);
	buffer_append(&line, "again ", 6);
	buffer_append(&wrapped, "again " RAW, 6 + RAW_LEN);
	return 0;
}

int moves_teardown_all(void **state)
{
	(void)state;
	private_redis_stop(&server);
	queue_owner_free(&owner);
	queue_owner_free(&next);
	queue_keys_free(&keys);
	buffer_free(&wrapped);
	buffer_free(&line);
	return 0;
}

int moves_setup(void **state)
{
	(void)state;
	REDIS(&server, "CONFIG SET maxmemory 0");
	REDIS(&server, "FLUSHALL");
	return 0;
}

/* Of `len` bytes, with these at their ends and in the middle. */
const char *moves_large(char first_byte, char middle, char last_byte)
{
	static char text[MOVES_LARGE];

	memset(text, 'x', sizeof(text));
	text[0] = first_byte;
	text[MOVES_LARGE / 2] = middle;
	text[MOVES_LARGE - 1] = last_byte;
	return text;
}

int64_t moves_escape_too_large(int64_t limit)
{
	struct redis_reply reply;

	queue_too_large(&server.r, &owner, 0, limit, NULL, &record, false);
	reply = private_redis_answer_or_error(&server);
	if (reply.type != REDIS_ARRAY)
		return -1;
	assert_int_equal(redis_element(&reply, 1).len, 0);
	return redis_element(&reply, 0).integer;
}
