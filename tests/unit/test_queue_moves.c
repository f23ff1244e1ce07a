/* links: common/digest.c tests/unit/private_redis.c common/queue_secret.c common/alloc.c common/buffer.c common/clock.c common/duration.c common/message.c common/message_line.c common/seal.c common/queue_admin.c common/queue_keys.c common/queue_moves.c common/queue_too_large.c common/queue_waiting.c common/queue_notes.c common/queue_records.c common/queue_registry.c common/queue_look.c common/queue_scripts.c common/queue_watch.c common/redis.c common/redis_command.c common/redis_output.c common/redis_reply.c common/redis_wait.c common/redis_target.c */

/*
 * Every move against a real server: what it does, and that a message that is not there, keys of other
 * types, a full server and equal messages lose and double nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/queue.h"
#include "common/queue_admin.h"
#include "common/queue_look.h"
#include "common/queue_notes.h"
#include "common/queue_watch.h"
#include "tests/unit/private_redis.h"
#include "tests/unit/sealed.h"

#define RAW "bytes\0and\nmore \xff"
#define RAW_LEN (sizeof(RAW) - 1)
#define TRAY "t:n.00000000000000b0.4.1:0"
#define LEASE "t:lease:n.00000000000000b0.4.1"
#define RESCUE "t:n.00000000000000b0.4.1:rescue"

static struct private_redis server;
static struct queue_keys keys;
static struct queue_owner owner, next;
static struct message message;
static struct buffer wrapped, line;		/* what comes back, and what makes it of RAW */
static const struct queue_change change = { &line, 0 };
static const struct queue_entry by_value = { .raw = RAW, .len = RAW_LEN, .at = QUEUE_ANYWHERE };
static const struct queue_entry last = { .raw = RAW, .len = RAW_LEN, .at = -1 }, first = { .raw = RAW, .len = RAW_LEN, .at = 0 };

static struct record record = { .queue = "mail", .queue_from = "transit", .error_class = "HandlerExit",
	.error_message = "said no", .failed_at_ms = 1700000000123, .attempts = 3, .crashes = 1, .exit_code = 3,
	.stderr_tail = "a\0b", .stderr_len = 3, .duration_ms = 12, .node = "n", .worker = "n.00000000000000b0.4.1",
	.handler = "/bin/true", .payload_max = 100 };

/* ---- the moves under test, each with the places it takes from and puts to ---- */

static void do_retry(void)
{
	queue_retry(&server.r, &owner, 0, &by_value, &change, 1000);
}

static void do_hand_back(void)
{
	queue_hand_back(&server.r, &owner, 0, &by_value, &change, NULL);
}

static void do_escape(void)
{
	queue_escape(&server.r, &keys, owner.lease, owner.lease_ms, owner.trays[0], -1, &by_value, &message, NULL, &record);
}

static void do_escape_from_head(void)
{
	queue_escape(&server.r, &keys, owner.lease, owner.lease_ms, RESCUE, 1, &by_value, &message, NULL, &record);
}

static void do_return(void)
{
	queue_return(&server.r, &keys, owner.incarnation, RESCUE, &by_value, &change, NULL);
}

static void do_redrive(void)
{
	queue_redrive(&server.r, &keys, &by_value, &change, NULL, NULL);
}

/* The same in a shared queue. */
static const struct queue_note *a_note(void)
{
	static struct queue_note note;

	queue_note_of(&note, &message, &(struct wrapper){ .redelivered = 1 });
	return &note;
}

static void do_hand_back_noted(void)
{
	queue_hand_back(&server.r, &owner, 0, &by_value, &change, a_note());
}

static void do_escape_noted(void)
{
	queue_escape(&server.r, &keys, owner.lease, owner.lease_ms, owner.trays[0], -1, &by_value, &message, a_note(), &record);
}

static void do_return_noted(void)
{
	queue_return(&server.r, &keys, owner.incarnation, RESCUE, &by_value, &change, a_note());
}

static void do_redrive_noted(void)
{
	queue_redrive(&server.r, &keys, &by_value, &change, a_note(), NULL);
}

/* The same for a message that is named by its place. */
static void do_retry_placed(void)
{
	queue_retry(&server.r, &owner, 0, &last, &change, 1000);
}

static void do_hand_back_placed(void)
{
	queue_hand_back(&server.r, &owner, 0, &last, &change, NULL);
}

static void do_escape_placed(void)
{
	queue_escape(&server.r, &keys, owner.lease, owner.lease_ms, owner.trays[0], -1, &last, &message, NULL, &record);
}

static void do_escape_from_head_placed(void)
{
	queue_escape(&server.r, &keys, owner.lease, owner.lease_ms, RESCUE, 1, &first, &message, NULL, &record);
}

static void do_redrive_placed(void)
{
	queue_redrive(&server.r, &keys, &last, &change, NULL, NULL);
}

static void do_due(void)
{
	queue_due(&server.r, &keys, false, 10, NULL);
}

static const struct move {
	const char *name, *from, *to;
	void (*append)(void);
	bool unwraps;		/* puts the producer's bytes, else `wrapped` */
	bool names_it;		/* the message: 0 when it is not there */
} moves[] = {
	{ "retry", TRAY, "i:delayed", do_retry, false, true },
	{ "hand back", TRAY, "i", do_hand_back, false, true },
	{ "escape", TRAY, "e", do_escape, true, true },
	{ "escape from rescue", RESCUE, "e", do_escape_from_head, true, true },
	{ "return", RESCUE, "i", do_return, false, true },
	{ "redrive", "e", "i", do_redrive, false, true },
	{ "due", "i:delayed", "i", do_due, false, false },
	{ "hand back noted", TRAY, "i", do_hand_back_noted, false, true },
	{ "escape noted", TRAY, "e", do_escape_noted, true, true },
	{ "return noted", RESCUE, "i", do_return_noted, false, true },
	{ "redrive noted", "e", "i", do_redrive_noted, false, true },
	{ "retry placed", TRAY, "i:delayed", do_retry_placed, false, true },
	{ "hand back placed", TRAY, "i", do_hand_back_placed, false, true },
	{ "escape placed", TRAY, "e", do_escape_placed, true, true },
	{ "escape from rescue placed", RESCUE, "e", do_escape_from_head_placed, true, true },
	{ "redrive placed", "e", "i", do_redrive_placed, false, true },
};
#define EACH_MOVE(m) const struct move *m = moves; m < moves + sizeof(moves) / sizeof(moves[0]); m++

static struct redis_reply run(const struct move *m)
{
	struct redis_reply reply;

	m->append();
	reply = private_redis_answer_or_error(&server);
	if (reply.type == REDIS_ARRAY)		/* of due: one of each */
		reply.integer = (int64_t)reply.n;
	return reply;
}

static bool is_set(const char *key)
{
	return strcmp(key, "i:delayed") == 0;
}

static void put(const char *key, const void *data, size_t len)
{
	if (is_set(key))
		REDIS(&server, "ZADD %s 1 %b", key, data, len);
	else
		REDIS(&server, "RPUSH %s %b", key, data, len);
}

static int64_t count(const char *key)
{
	return is_set(key) ? REDIS_INT(&server, "ZCARD %s", key) : REDIS_INT(&server, "LLEN %s", key);
}

/* The only entry of key is these bytes. */
static void assert_holds(const char *name, const char *key, const void *data, size_t len)
{
	struct redis_reply reply = is_set(key) ? REDIS(&server, "ZRANGE %s 0 -1", key) : REDIS(&server, "LRANGE %s 0 -1", key);

	if (reply.n != 1)
		fail_msg("%s: %zu entries in %s", name, reply.n, key);
	reply = redis_element(&reply, 0);
	assert_int_equal(reply.len, len);
	assert_memory_equal(reply.str, data, len);
}

static int setup_all(void **state)
{
	(void)state;
	private_redis_start(&server, false);
	queue_keys_init(&keys, "mail", "i", "t", "e");
	queue_owner_init(&owner, &keys, "n.00000000000000b0.4.1", 30000);
	queue_owner_init(&next, &keys, "n.00000000000000b0.4.2", 30000);
	message_parse(&message, &keys.lines, RAW, RAW_LEN);
	buffer_append(&line, "again ", 6);
	buffer_append(&wrapped, "again " RAW, 6 + RAW_LEN);
	return 0;
}

static int teardown_all(void **state)
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

static int setup(void **state)
{
	(void)state;
	REDIS(&server, "CONFIG SET maxmemory 0");
	REDIS(&server, "FLUSHALL");
	return 0;
}

/* ---- every move ---- */

static void a_move_takes_and_puts(void **state)
{
	(void)state;
	for (EACH_MOVE(m)) {
		setup(NULL);
		put(m->from, RAW, RAW_LEN);
		assert_int_equal(run(m).integer, 1);
		assert_int_equal(count(m->from), 0);
		if (m->unwraps || m->append == do_due)
			assert_holds(m->name, m->to, RAW, RAW_LEN);
		else
			assert_holds(m->name, m->to, wrapped.data, wrapped.len);
	}
}

static void what_is_not_there_is_not_moved(void **state)
{
	(void)state;
	for (EACH_MOVE(m)) {
		if (!m->names_it)
			continue;
		setup(NULL);
		put(m->from, "something else", 14);
		assert_int_equal(run(m).integer, 0);
		assert_int_equal(count(m->from), 1);
		assert_int_equal(count(m->to), 0);
		assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 0);
	}
}

/* What was at the destination before is not taken for what an undone move put there. */
static void undoing_takes_only_its_own(void **state)
{
	(void)state;
	for (EACH_MOVE(m)) {
		if (!m->names_it)
			continue;
		setup(NULL);
		put(m->to, wrapped.data, wrapped.len);
		assert_int_equal(run(m).integer, 0);
		assert_holds(m->name, m->to, wrapped.data, wrapped.len);
	}
}

static void a_destination_of_another_type_loses_nothing(void **state)
{
	(void)state;
	for (EACH_MOVE(m)) {
		setup(NULL);
		put(m->from, RAW, RAW_LEN);
		REDIS(&server, "SET %s x", m->to);
		assert_int_equal(run(m).type, REDIS_ERROR);
		assert_holds(m->name, m->from, RAW, RAW_LEN);
		REDIS(&server, "DEL %s", m->to);
		assert_int_equal(run(m).integer, 1);
		assert_int_equal(count(m->to), 1);
	}
}

/* The copy came first, and is undone: else there would be one more each time it is tried. */
static void a_source_of_another_type_makes_no_copies(void **state)
{
	(void)state;
	for (EACH_MOVE(m)) {
		setup(NULL);
		REDIS(&server, "SET %s x", m->from);
		assert_int_equal(run(m).type, REDIS_ERROR);
		assert_string_equal(REDIS(&server, "GET %s", m->from).str, "x");
		assert_int_equal(count(m->to), 0);
	}
}

/* The same where the server does not let us remove. */
static void without_the_right_to_remove_no_copies_are_made(void **state)
{
	static const char *const without[] = { "-lrem", "-zrem", "-lpop", "-rpop" };

	(void)state;
	for (EACH_MOVE(m)) {
		for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
			bool failed;

			setup(NULL);
			put(m->from, RAW, RAW_LEN);
			REDIS(&server, "ACL SETUSER default +@all %s", without[i]);
			failed = run(m).type == REDIS_ERROR;
			REDIS(&server, "ACL SETUSER default +@all");
			if (failed)
				assert_holds(m->name, m->from, RAW, RAW_LEN);
			assert_int_equal(count(m->from) + count(m->to), 1);
		}
	}
}

static void every_move_runs_at_maxmemory(void **state)
{
	(void)state;
	for (EACH_MOVE(m)) {
		setup(NULL);
		put(m->from, RAW, RAW_LEN);
		REDIS(&server, "CONFIG SET maxmemory 1");
		assert_int_equal(run(m).integer, 1);
		assert_int_equal(count(m->from), 0);
		assert_int_equal(count(m->to), 1);
	}
}

static void of_equal_messages_one_is_moved(void **state)
{
	(void)state;
	for (EACH_MOVE(m)) {
		if (is_set(m->from))
			continue;
		setup(NULL);
		for (int i = 0; i < 3; i++)
			put(m->from, RAW, RAW_LEN);
		assert_int_equal(run(m).integer, 1);
		assert_int_equal(count(m->from), 2);
		assert_int_equal(count(m->to), 1);
	}
}

/* ---- messages named by their place ---- */

#define LARGE 10000

/* Of `len` bytes, with these at their ends and in the middle. */
static const char *large(char first_byte, char middle, char last_byte)
{
	static char text[LARGE];

	memset(text, 'x', sizeof(text));
	text[0] = first_byte;
	text[LARGE / 2] = middle;
	text[LARGE - 1] = last_byte;
	return text;
}

static int64_t move_placed(const char *raw, size_t len, int64_t at)
{
	queue_hand_back(&server.r, &owner, 0, &(struct queue_entry){ .raw = raw, .len = len, .at = at }, &change, NULL);
	return private_redis_answer(&server).integer;
}

static void a_place_must_hold_what_is_named(void **state)
{
	(void)state;
	put(TRAY, large('a', 'b', 'c'), LARGE);
	put(TRAY, "other", 5);
	assert_int_equal(move_placed(large('z', 'b', 'c'), LARGE, -2), 0);
	assert_int_equal(move_placed(large('a', 'b', 'z'), LARGE, -2), 0);
	assert_int_equal(move_placed(large('a', 'b', 'c'), LARGE - 1, -2), 0);
	assert_int_equal(move_placed(large('a', 'b', 'c'), LARGE, -1), 0);
	assert_int_equal(move_placed(large('a', 'b', 'c'), LARGE, -3), 0);
	assert_int_equal(count(TRAY), 2);
	assert_int_equal(count("i"), 0);
	/* The same entry at the same place, but in a list that is not the one in which the place was counted. */
	for (int64_t of = 1; of < 4; of++) {
		if (of == 2)
			continue;
		queue_hand_back(&server.r, &owner, 0, &(struct queue_entry){ .raw = large('a', 'b', 'c'), .len = LARGE, .at = -2, .of = of }, &change, NULL);
		assert_int_equal(private_redis_answer(&server).integer, 0);
		assert_int_equal(count(TRAY), 2);
	}
	assert_int_equal(move_placed(large('a', 'b', 'c'), LARGE, -2), 1);
	assert_holds("the other", TRAY, "other", 5);
	assert_int_equal(REDIS(&server, "LINDEX i 0").len, LARGE + line.len);
}

/* Its line is dropped, the one that comes instead is put before it, and no byte of its payload leaves Redis. */
static void only_the_line_of_a_large_message_is_sent(void **state)
{
	const char *old = "quredis/1 w=0000000000000001 attempts=1\n";
	struct buffer raw = {0};
	struct queue_change another = { &line, strlen(old) };
	struct redis_reply there;
	uint64_t before;

	(void)state;
	buffer_append(&raw, old, strlen(old));
	buffer_append(&raw, large('a', 'b', 'c'), LARGE);
	put(TRAY, raw.data, raw.len);
	before = server.r.output.total;
	queue_hand_back(&server.r, &owner, 0, &(struct queue_entry){ .raw = raw.data, .len = raw.len, .at = -1 }, &another, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_true(server.r.output.total - before < LARGE / 2);
	there = REDIS(&server, "LINDEX i 0");
	assert_int_equal(there.len, line.len + LARGE);
	assert_memory_equal(there.str, line.data, line.len);
	assert_memory_equal(there.str + line.len, raw.data + strlen(old), LARGE);
	buffer_free(&raw);
}

static int64_t escape_too_large(int64_t limit)
{
	struct redis_reply reply;

	queue_too_large(&server.r, &owner, 0, limit, NULL, &record, false);
	reply = private_redis_answer_or_error(&server);
	if (reply.type != REDIS_ARRAY)
		return -1;
	assert_int_equal(redis_element(&reply, 1).len, 0);
	return redis_element(&reply, 0).integer;
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
static void what_is_too_large_escapes_unread(void **state)
{
	(void)state;
	put(TRAY, "a", 1);
	put(TRAY, large('a', 'b', 'c'), LARGE);
	put(TRAY, "bb", 2);
	put(TRAY, large('a', 'b', 'd'), LARGE);
	put(TRAY, "dddd", 4);
	put(TRAY, large('a', 'b', 'e'), LARGE);
	assert_int_equal(escape_too_large(LARGE), 0);
	assert_tray("1 10000 2 10000 4 10000 ");
	assert_int_equal(escape_too_large(LARGE - 1), LARGE);
	assert_tray("1 10000 2 10000 4 ");
	assert_holds("too large", "e", large('a', 'b', 'e'), LARGE);
	assert_int_equal(escape_too_large(LARGE - 1), LARGE);
	assert_tray("1 10000 2 4 ");
	assert_int_equal(escape_too_large(LARGE - 1), LARGE);
	assert_tray("1 2 4 ");
	assert_int_equal(escape_too_large(LARGE - 1), 0);
	assert_int_equal(count("e"), 3);
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 3);
}

/* The tray is as it was, in its order. */
static void what_is_too_large_stays_where_escape_is_no_list(void **state)
{
	(void)state;
	put(TRAY, "a", 1);
	put(TRAY, "bb", 2);
	put(TRAY, large('a', 'b', 'c'), LARGE);
	put(TRAY, "dddd", 4);
	REDIS(&server, "SET e no-list");
	assert_int_equal(escape_too_large(LARGE - 1), -1);
	assert_tray("1 2 10000 4 ");
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 0);
}

static int64_t peak_memory(void)
{
	return strtoll(strstr(REDIS(&server, "INFO memory").str, "used_memory_peak:") + strlen("used_memory_peak:"), NULL, 10);
}

/* What its owner saw arrive is not copied, however long it is: other clients would wait for that. */
static void what_is_very_large_becomes_escape(void **state)
{
	const int64_t len = 20 << 20, limit = 8 << 20;
	char *raw = malloc((size_t)len);
	struct redis_reply reply;
	int64_t peak;

	(void)state;
	memset(raw, 'x', (size_t)len);
	REDIS(&server, "RPUSH e newer older");
	REDIS(&server, "HSET %s " TRAY " 0", owner.lease);
	put(TRAY, raw, (size_t)len);
	peak = peak_memory();
	queue_too_large_seen(&server.r, &owner, 0, limit, len, &record);
	reply = private_redis_answer(&server);
	assert_int_equal(redis_element(&reply, 0).integer, len);
	assert_in_range(peak_memory() - peak, 0, len / 4);
	assert_int_equal(count(TRAY), 0);
	assert_int_equal(count("e"), 3);
	assert_string_equal(REDIS(&server, "LINDEX e -1").str, "older");
	assert_string_equal(REDIS(&server, "LINDEX e -2").str, "newer");
	reply = REDIS(&server, "LINDEX e 0");
	assert_int_equal(reply.len, len);
	assert_memory_equal(reply.str, raw, len);
	assert_string_equal(REDIS(&server, "HGET %s " TRAY, owner.lease).str, "1");
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 1);
	free(raw);
}

/* Redis went back in time: in the tray is another one than was seen. */
static void what_was_seen_is_no_longer_there(void **state)
{
	const int64_t len = 20 << 20;
	struct redis_reply reply;

	(void)state;
	put(TRAY, large('a', 'b', 'c'), LARGE);
	queue_too_large_seen(&server.r, &owner, 0, LARGE - 1, len, &record);
	reply = private_redis_answer(&server);
	assert_int_equal(redis_element(&reply, 0).integer, 0);
	assert_tray("10000 ");
	assert_int_equal(count("e"), 0);
}

/* Else dead letters would return to ingress with the tray, and stay in escape. */
static void a_refused_rename_leaves_no_dead_letter_in_the_tray(void **state)
{
	const size_t len = 1 << 20;
	char *raw = malloc(len);

	(void)state;
	memset(raw, 'x', len);
	put(TRAY, raw, len);
	REDIS(&server, "RPUSH e d1 d2 d3");
	REDIS(&server, "ACL SETUSER default -rename");
	queue_too_large_seen(&server.r, &owner, 0, LARGE, (int64_t)len, &record);
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	REDIS(&server, "ACL SETUSER default +@all");
	assert_int_equal(count(TRAY), 1);
	assert_int_equal(REDIS(&server, "LINDEX " TRAY " 0").len, len);
	assert_int_equal(count("e"), 3);
	free(raw);
}

/* Redis cannot tell whether a line is ours: its caller can, and is asked. */
static void a_wrapper_does_not_get_into_escape_with_what_is_too_large(void **state)
{
	const char *lines[] = { "quredis/1 w=0000000000000001 attempts=1\n", "quredis/1 w=0000000000000002 attempts=1\n" };
	struct redis_reply reply;
	struct message head = {0};
	struct buffer raw = {0};
	char begin[1024];
	int64_t limit;

	(void)state;
	buffer_append(&raw, lines[0], strlen(lines[0]));
	buffer_append(&raw, large('a', 'b', 'c'), LARGE);
	limit = (int64_t)raw.len - MESSAGE_LINE_MAX - 1;
	put(TRAY, raw.data, raw.len);
	put(TRAY, "z", 1);
	queue_too_large(&server.r, &owner, 0, (int64_t)raw.len - MESSAGE_LINE_MAX, NULL, &record, false);
	reply = private_redis_answer(&server);
	assert_int_equal(redis_element(&reply, 0).integer, 0);		/* without its wrapper it may not be longer */
	queue_too_large(&server.r, &owner, 0, limit, NULL, &record, false);
	reply = private_redis_answer(&server);
	assert_int_equal(redis_element(&reply, 0).integer, (int64_t)raw.len);
	assert_int_equal(redis_element(&reply, 1).len, sizeof(begin));
	memcpy(begin, redis_element(&reply, 1).str, sizeof(begin));
	assert_memory_equal(begin, raw.data, sizeof(begin));
	assert_int_equal(count("e"), 0);
	for (int is_it = 0; is_it < 2; is_it++) {
		memcpy(begin, lines[1 - is_it], strlen(lines[0]));
		head = (struct message){ .raw = begin, .raw_len = sizeof(begin), .wrapper_len = strlen(lines[0]) };
		queue_too_large(&server.r, &owner, 0, limit, &head, &record, false);
		reply = private_redis_answer(&server);
		assert_int_equal(redis_element(&reply, 1).len, is_it ? 0 : sizeof(begin));
		assert_int_equal(redis_element(&reply, 0).integer, is_it ? LARGE : (int64_t)raw.len);
	}
	assert_holds("too large", "e", large('a', 'b', 'c'), LARGE);
	assert_tray("1 ");
	buffer_free(&raw);
}

/* ---- rescue, of what nobody reads ---- */

#define MIB (1 << 20)

static void put_of(size_t len, char byte)
{
	char *text = alloc_bytes(len);

	memset(text, byte, len);
	put(RESCUE, text, len);
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
	assert_int_equal(weight.entries, count(RESCUE));		/* the list is as before */
	return weight;
}

static struct queue_weight weigh(void)
{
	return weigh_end(QUEUE_END_LEFT);
}

static void the_right_end_is_weighed(void **state)
{
	struct queue_weight w;

	(void)state;
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
	assert_in_range(w.first, 40 * MIB - 1000, 52 * MIB);
	REDIS(&server, "LTRIM " RESCUE " -1 -1");
	w = weigh_end(QUEUE_END_RIGHT);
	assert_in_range(w.first, 40 * MIB - 1000, 52 * MIB);
	REDIS(&server, "LPUSH " RESCUE " a");
	w = weigh_end(QUEUE_END_RIGHT);
	assert_true(w.page == 1);
	assert_in_range(w.first, 40 * MIB - 1000, 52 * MIB);
}

static void a_list_is_weighed_and_not_read(void **state)
{
	struct queue_weight w = weigh();

	(void)state;
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
	setup(NULL);
	for (int i = 0; i < 5; i++)
		put_of(400 * 1024, 'x');
	w = weigh();
	assert_in_range(w.page, 1, 2);
	setup(NULL);
	for (int i = 0; i < 3000; i++)
		put_of(1000, 'x');
	w = weigh();
	assert_true(w.page == 100 && w.first == 0);
	setup(NULL);
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
static void a_scale_leaves_nothing_in_the_aof(void **state)
{
	int64_t before;

	(void)state;
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

static void a_list_is_weighed_at_maxmemory_and_without_the_right(void **state)
{
	struct queue_weight w;

	(void)state;
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
	assert_int_equal(count(RESCUE), 2);
}

static void an_answer_that_is_no_weight(void **state)
{
	static const char *const answers[] = { "return {}", "return 'x'", "return { 1, 2 }", "return { 1, 2, 'x' }", "return { -1, 2, 3 }" };
	struct queue_weight w;

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct redis_reply reply = REDIS(&server, "EVAL %s 0", answers[i]);

		if (queue_weighed(&reply, &w) != -1)
			fail_msg("%s", answers[i]);
	}
}

static void what_is_held_in_part_is_moved_whole(void **state)
{
	const char *raw = large('a', 'b', 'c');
	struct queue_entry part = { .raw = "", .len = LARGE, .of = 2, .tail = raw + LARGE - QUEUE_ENTRY_ENDS };
	const size_t from[] = { 0, 1 };
	struct redis_reply sums, fields;
	char head[QUEUE_ENTRY_ENDS], sha1[DIGEST_HEX_SIZE];
	struct message m;

	(void)state;
	memcpy(head, raw, sizeof(head));
	part.raw = head;
	put(RESCUE, raw, LARGE);
	put(RESCUE, "other", 5);
	queue_digest(&server.r, "t:lease:none", RESCUE, &part, from, 2);
	sums = private_redis_answer(&server);
	digest_sha1(raw, LARGE, sha1);
	assert_string_equal(redis_element(&sums, 0).str, sha1);
	digest_sha1(raw + 1, LARGE - 1, sha1);
	assert_string_equal(redis_element(&sums, 1).str, sha1);
	part.of = 3;			/* another list */
	queue_digest(&server.r, "t:lease:none", RESCUE, &part, from, 1);
	sums = private_redis_answer(&server);
	assert_string_equal(redis_element(&sums, 0).str, "");
	queue_return(&server.r, &keys, owner.incarnation, RESCUE, &part, &change, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	part.of = 2;
	queue_return(&server.r, &keys, owner.incarnation, RESCUE, &part, &change, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS(&server, "LINDEX i 0").len, line.len + LARGE);
	assert_holds("the other", RESCUE, "other", 5);

	setup(NULL);
	put(RESCUE, raw, LARGE);
	part.of = 1;
	message_parse(&m, &keys.lines, head, sizeof(head));
	m.raw_len = LARGE;
	digest_sha1(raw, LARGE, m.sha1);
	strcpy(m.id, "id");
	record.payload_max = LARGE;
	queue_escape(&server.r, &keys, "t:lease:none", 1, RESCUE, 1, &part, &m, NULL, &record);
	record.payload_max = 100;
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_holds("escape", "e", raw, LARGE);
	fields = REDIS(&server, "XRANGE e:log - +");
	fields = redis_element(&fields, 0);
	fields = redis_element(&fields, 1);
	assert_string_equal(redis_element(&fields, 37).str, m.sha1);
	assert_string_equal(redis_element(&fields, 39).str, "10000");
	assert_int_equal(redis_element(&fields, 41).len, LARGE);
	assert_memory_equal(redis_element(&fields, 41).str, raw, LARGE);
}

/* The length of what escaped; -1: it may begin with a wrapper. */
static int64_t escape_first(int64_t limit, const struct message *head)
{
	struct redis_reply reply;

	queue_too_large_first(&server.r, &keys, "t:lease:none", RESCUE, limit, head, &record);
	reply = private_redis_answer(&server);
	return redis_element(&reply, 1).len > 0 ? -1 : redis_element(&reply, 0).integer;
}

static void the_left_end_escapes_if_it_is_too_large(void **state)
{
	(void)state;
	assert_int_equal(escape_first(0, NULL), 0);
	put(RESCUE, large('a', 'b', 'c'), LARGE);
	put(RESCUE, "other", 5);
	assert_int_equal(escape_first(LARGE, NULL), 0);
	assert_int_equal(count(RESCUE), 2);
	assert_int_equal(count("e"), 0);
	assert_int_equal(escape_first(LARGE - 1, NULL), LARGE);
	assert_holds("too large", "e", large('a', 'b', 'c'), LARGE);
	assert_int_equal(escape_first(5, NULL), 0);
	assert_holds("the other", RESCUE, "other", 5);
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 1);
	assert_int_equal(escape_first(4, NULL), 5);
	assert_int_equal(count("e"), 2);
	assert_int_equal(REDIS_INT(&server, "EXISTS " RESCUE), 0);
	REDIS(&server, "DEL e");			/* now it is alone, and there is no other */
	put(RESCUE, large('a', 'b', 'd'), LARGE);
	assert_int_equal(escape_first(5, NULL), LARGE);
	assert_holds("too large", "e", large('a', 'b', 'd'), LARGE);
	assert_int_equal(REDIS_INT(&server, "EXISTS " RESCUE), 0);
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 3);
}

static void where_it_cannot_escape_it_stays(void **state)
{
	static const char *const without[] = { "-lpush", "-ltrim", "-rename" };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		setup(NULL);
		put(RESCUE, "longer", 6);
		if (i < 2)
			put(RESCUE, "other", 5);
		REDIS(&server, i == 3 ? "SET e x" : "ACL SETUSER default %s", i == 3 ? "" : without[i]);
		queue_too_large_first(&server.r, &keys, "t:lease:none", RESCUE, 1, NULL, &record);
		assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
		REDIS(&server, "ACL SETUSER default +@all");
		assert_string_equal(REDIS(&server, "LINDEX " RESCUE " 0").str, "longer");
		assert_int_equal(i == 3 ? 0 : count("e"), 0);
	}
}

/* Whether a line is ours only the caller can tell. */
static void no_line_of_ours_goes_into_escape(void **state)
{
	char raw[2000];
	struct message head;

	(void)state;
	memset(raw, 'x', sizeof(raw));
	memcpy(raw, "quredis/1 w=\n", 13);
	for (int ours = 0; ours <= 1; ours++) {
		setup(NULL);
		put(RESCUE, raw, sizeof(raw));
		assert_int_equal(escape_first(sizeof(raw) - MESSAGE_LINE_MAX, NULL), 0);
		assert_int_equal(escape_first(sizeof(raw) - MESSAGE_LINE_MAX - 1, NULL), -1);
		assert_int_equal(count(RESCUE), 1);
		message_parse(&head, &keys.lines, raw, 1024);
		head.wrapper_len = ours ? 13 : 0;
		assert_int_equal(escape_first(1, &head), sizeof(raw) - head.wrapper_len);
		assert_holds("too large", "e", raw + head.wrapper_len, sizeof(raw) - head.wrapper_len);
	}
}

/* ---- fetch, done ---- */

static void fetch_moves_the_oldest_into_the_tray(void **state)
{
	(void)state;
	REDIS(&server, "LPUSH i a b");
	queue_fetch(&server.r, &owner, 0, 0);
	assert_string_equal(private_redis_answer(&server).str, "a");
	assert_holds("fetch", TRAY, "a", 1);
	queue_fetch(&server.r, &owner, 1, 1500);
	assert_string_equal(private_redis_answer(&server).str, "b");
	queue_fetch(&server.r, &owner, 2, 10);
	assert_int_equal(private_redis_answer(&server).type, REDIS_NIL);
	queue_done(&server.r, &owner, 0);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	queue_done(&server.r, &owner, 0);
	assert_int_equal(private_redis_answer(&server).integer, 0);
}

static void a_batch_is_fetched_in_order_and_answered_one_by_one(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		owner.blmove = i == 1;
		REDIS(&server, "LPUSH i a b");
		queue_fetch_batch(&server.r, &owner, 0, 3);
		assert_string_equal(private_redis_answer(&server).str, "a");
		assert_string_equal(private_redis_answer(&server).str, "b");
		assert_int_equal(private_redis_answer(&server).type, REDIS_NIL);
		assert_int_equal(count("i"), 0);
		queue_done(&server.r, &owner, 0);
		assert_int_equal(private_redis_answer(&server).integer, 1);
	}
	owner.blmove = false;
}

static void fetch_at_maxmemory(void **state)
{
	(void)state;
	REDIS(&server, "LPUSH i a");
	REDIS(&server, "CONFIG SET maxmemory 1");
	queue_fetch(&server.r, &owner, 0, 0);
	assert_true(redis_error_is(&(struct redis_reply){ .type = REDIS_ERROR, .str = private_redis_answer_or_error(&server).str },
	    "OOM"));
	assert_int_equal(count("i"), 1);
	queue_fetch_oom(&server.r, &owner, 0);
	assert_string_equal(private_redis_answer(&server).str, "a");
	assert_holds("fetch", TRAY, "a", 1);
	queue_fetch_oom(&server.r, &owner, 1);
	assert_int_equal(private_redis_answer(&server).type, REDIS_NIL);
}

static void a_tray_of_another_type_stops_the_fetch_before_the_pop(void **state)
{
	(void)state;
	REDIS(&server, "LPUSH i a");
	REDIS(&server, "SET " TRAY " x");
	queue_fetch(&server.r, &owner, 0, 0);
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	queue_fetch_oom(&server.r, &owner, 0);
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	assert_holds("fetch", "i", "a", 1);
}

/* ---- details of single moves ---- */

static void a_retry_is_due_after_its_delay_by_the_servers_clock(void **state)
{
	struct redis_reply score;
	int64_t due, now;

	(void)state;
	put(TRAY, RAW, RAW_LEN);
	do_retry();
	assert_int_equal(private_redis_answer(&server).integer, 1);
	score = REDIS(&server, "ZSCORE i:delayed %b", wrapped.data, wrapped.len);
	due = strtoll(score.str, NULL, 10);
	score = REDIS(&server, "TIME");
	now = queue_time_parse(&score);
	assert_in_range(due, now - 60000, now + 1000);
}

/* A wrapper's nonce makes members distinct; should one come twice nevertheless, undoing must not take the first. */
static void an_undone_retry_leaves_an_equal_member_alone(void **state)
{
	(void)state;
	REDIS(&server, "ZADD i:delayed 5 %b", wrapped.data, wrapped.len);
	do_retry();
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_int_equal(count("i:delayed"), 1);
}

static void only_what_is_due_and_only_so_many(void **state)
{
	struct redis_reply time = REDIS(&server, "TIME"), late;
	int64_t now = queue_time_parse(&time);

	(void)state;
	for (int64_t i = 0; i < 25; i++)
		REDIS(&server, "ZADD i:delayed %d %d", now - 100 + i, i);
	REDIS(&server, "ZADD i:delayed %d later", now + 60000);
	do_due();
	late = private_redis_answer(&server);
	assert_int_equal(late.n, 10);
	for (size_t i = 0; i < 10; i++)
		assert_in_range(redis_element(&late, i).integer, 100 - (int64_t)i, 60000);
	assert_string_equal(REDIS(&server, "LINDEX i -1").str, "0");	/* the one due first is fetched first */
	assert_string_equal(REDIS(&server, "LINDEX i 0").str, "9");
	REDIS(&server, "ZADD i:delayed -inf long");
	do_due();
	late = private_redis_answer(&server);
	assert_true(late.n == 10 && redis_element(&late, 0).integer == 1000000000000000);
	do_due();
	assert_int_equal(private_redis_answer(&server).n, 6);
	do_due();
	assert_int_equal(private_redis_answer(&server).n, 0);
	assert_int_equal(count("i:delayed"), 1);
}

/* Redis copies each several times: a hundred large ones would keep it from everybody else for seconds. */
static void large_ones_are_due_one_by_one(void **state)
{
	static char large[600000];

	(void)state;
	for (int64_t i = 0; i < 5; i++) {
		large[0] = (char)('a' + i);
		REDIS(&server, "ZADD i:delayed %d %b", i, large, sizeof(large));
	}
	for (int64_t left = 5; left > 0; left -= 2) {
		do_due();
		assert_int_equal(private_redis_answer(&server).n, left < 2 ? left : 2);
	}
	assert_int_equal(count("i"), 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(REDIS(&server, "LINDEX i %d", (int64_t)(-1 - i)).str[0], 'a' + i);
}

static void escape_keeps_the_producers_bytes_and_writes_the_record(void **state)
{
	static const char *const want[RECORD_FIELDS][2] = { { "id", NULL }, { "queue", "mail" }, { "queue_from", "transit" },
		{ "error_class", "HandlerExit" }, { "error_message", "said no" }, { "failed_at", "2023-11-14T22:13:20.123Z" },
		{ "retry_count", "2" }, { "attempts", "3" }, { "crashes", "1" }, { "exit_code", "3" }, { "signal", "" },
		{ "stderr", NULL }, { "duration_ms", "12" }, { "node", "n" }, { "worker", "n.00000000000000b0.4.1" },
		{ "handler", "/bin/true" }, { "first_failed_at", "2023-11-14T22:13:20.123Z" }, { "request_id", "r.1" },
		{ "sha1", NULL }, { "size", "40" }, { "message", "quredis/1 id=order-1 request_id=r.1\nbody" } };
	const char *text = "quredis/1 w=00000000000000aa attempts=2\nquredis/1 id=order-1 request_id=r.1\nbody";
	struct buffer raw = {0};
	struct redis_reply entries, fields;
	struct message m;

	(void)state;
	sealed_append(&raw, &keys.lines, text, strlen(text));
	message_parse(&m, &keys.lines, raw.data, raw.len);
	assert_string_equal(message_id(&m), "order-1");
	put(TRAY, raw.data, raw.len);
	queue_escape(&server.r, &keys, owner.lease, owner.lease_ms, TRAY, -1,
	    &(struct queue_entry){ .raw = m.raw, .len = m.raw_len, .at = QUEUE_ANYWHERE }, &m, NULL, &record);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_holds("escape", "e", raw.data + m.wrapper_len, raw.len - m.wrapper_len);
	entries = REDIS(&server, "XRANGE e:log - +");
	assert_int_equal(entries.n, 1);
	fields = redis_element(&entries, 0);
	fields = redis_element(&fields, 1);
	assert_int_equal(fields.n, 2 * RECORD_FIELDS);
	for (size_t i = 0; i < RECORD_FIELDS; i++) {
		struct redis_reply field = redis_element(&fields, 2 * i), value = redis_element(&fields, 2 * i + 1);

		assert_string_equal(field.str, want[i][0]);
		if (want[i][1] != NULL)
			assert_string_equal(value.str, want[i][1]);
	}
	fields = redis_element(&fields, 23);
	assert_int_equal(fields.len, 3);	/* stderr: a NUL in it */
	buffer_free(&raw);
}

static void a_big_message_is_left_out_of_its_record(void **state)
{
	char big[200];
	struct redis_reply entries, fields;
	struct message m;

	(void)state;
	memset(big, 'x', sizeof(big));
	message_parse(&m, &keys.lines, big, sizeof(big));
	put(TRAY, big, sizeof(big));
	queue_escape(&server.r, &keys, owner.lease, owner.lease_ms, TRAY, -1,
	    &(struct queue_entry){ .raw = m.raw, .len = m.raw_len, .at = QUEUE_ANYWHERE }, &m, NULL, &record);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_holds("escape", "e", big, sizeof(big));
	entries = REDIS(&server, "XRANGE e:log - +");
	fields = redis_element(&entries, 0);
	fields = redis_element(&fields, 1);
	assert_int_equal(redis_element(&fields, 41).len, 0);
	assert_string_equal(redis_element(&fields, 39).str, "200");
}

static void a_record_that_cannot_be_written_does_not_hold_the_message(void **state)
{
	(void)state;
	put(TRAY, RAW, RAW_LEN);
	REDIS(&server, "SET e:log x");
	do_escape();
	assert_int_equal(private_redis_answer(&server).integer, 2);
	assert_holds("escape", "e", RAW, RAW_LEN);
	assert_int_equal(count(TRAY), 0);
}

static void return_takes_the_left_end_only(void **state)
{
	(void)state;
	put(RESCUE, "other", 5);
	put(RESCUE, RAW, RAW_LEN);
	do_return();
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_int_equal(count(RESCUE), 2);
	REDIS(&server, "LPOP " RESCUE);
	REDIS(&server, "LPUSH i waiting");
	do_return();
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS(&server, "LINDEX i -1").len, wrapped.len);	/* popped next */
}

static void what_is_handed_back_is_fetched_next(void **state)
{
	(void)state;
	put("i", "waiting", 7);
	put(TRAY, RAW, RAW_LEN);
	do_hand_back();
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS(&server, "LINDEX i -1").len, wrapped.len);
}

static void redrive_takes_the_record_along(void **state)
{
	struct redis_reply id = REDIS(&server, "XADD e:log * a b");
	char text[64];

	(void)state;
	snprintf(text, sizeof(text), "%s", id.str);
	put("e", RAW, RAW_LEN);
	queue_redrive(&server.r, &keys, &by_value, &change, NULL, text);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 0);
	put("e", RAW, RAW_LEN);			/* an equal letter: who had this record is in an archive */
	queue_redrive(&server.r, &keys, &by_value, &change, NULL, text);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_int_equal(count("e"), 1);
	assert_int_equal(count("i"), 1);
}

static void discard_takes_the_record_along(void **state)
{
	struct redis_reply id = REDIS(&server, "XADD e:log * a b");
	char text[64];

	(void)state;
	snprintf(text, sizeof(text), "%s", id.str);
	put("e", RAW, RAW_LEN);
	queue_discard(&server.r, &keys, &by_value, text);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 0);
	put("e", RAW, RAW_LEN);			/* an equal letter: who had this record was deleted by another command */
	queue_discard(&server.r, &keys, &by_value, text);
	assert_int_equal(private_redis_answer(&server).integer, -1);
	assert_int_equal(count("e"), 1);
}

/* ---- fence ---- */

static void fence(void)
{
	queue_fence(&server.r, &keys, owner.incarnation, TRAY, RESCUE);
}

static void a_fence_takes_tray_and_lease_and_remembers_how_many(void **state)
{
	(void)state;
	REDIS(&server, "SET " LEASE " 1");
	fence();
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS " LEASE), 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS t:workers"), 0);
	REDIS(&server, "RPUSH " TRAY " a b c");
	fence();
	assert_int_equal(private_redis_answer(&server).integer, 3);
	assert_int_equal(REDIS_INT(&server, "EXISTS " TRAY), 0);
	assert_int_equal(count(RESCUE), 3);
	queue_rescue_size(&server.r, &keys, owner.incarnation);
	assert_string_equal(private_redis_answer(&server).str, "3");
	/* what the owner still sends finds nothing */
	queue_done(&server.r, &owner, 0);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	message_parse(&message, &keys.lines, "b", 1);
	do_hand_back();
	assert_int_equal(private_redis_answer(&server).integer, 0);
	message_parse(&message, &keys.lines, RAW, RAW_LEN);
	assert_int_equal(count("i"), 0);
}

/* Two trays with one message each: neither is known to be the one. */
static void a_fence_counts_what_lies_in_all_trays(void **state)
{
	(void)state;
	REDIS(&server, "RPUSH " TRAY " a");
	REDIS(&server, "RPUSH t:n.00000000000000b0.4.1:1 b");
	REDIS(&server, "SET t:n.00000000000000b0.4.1:2 x");
	fence();
	assert_int_equal(private_redis_answer(&server).integer, 1);
	queue_rescue_size(&server.r, &keys, owner.incarnation);
	assert_string_equal(private_redis_answer(&server).str, "2");
	REDIS(&server, "DEL " RESCUE);
	queue_fence(&server.r, &keys, owner.incarnation, "t:n.00000000000000b0.4.1:1", RESCUE);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	queue_rescue_size(&server.r, &keys, owner.incarnation);
	assert_string_equal(private_redis_answer(&server).str, "2");
}

static void a_fence_leaves_what_is_being_rescued_alone(void **state)
{
	(void)state;
	REDIS(&server, "RPUSH " RESCUE " old");
	REDIS(&server, "RPUSH " TRAY " new");
	fence();
	assert_int_equal(private_redis_answer(&server).integer, -1);
	assert_holds("fence", RESCUE, "old", 3);
	assert_holds("fence", TRAY, "new", 3);
}

static void a_fence_among_keys_of_other_types(void **state)
{
	(void)state;
	REDIS(&server, "SET " TRAY " x");
	fence();
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	assert_int_equal(REDIS_INT(&server, "EXISTS " TRAY), 1);
	REDIS(&server, "DEL " TRAY);
	REDIS(&server, "SET t:workers x");
	REDIS(&server, "RPUSH " TRAY " a");
	fence();
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	assert_holds("fence", TRAY, "a", 1);
}

static void a_fence_at_maxmemory(void **state)
{
	(void)state;
	REDIS(&server, "RPUSH " TRAY " a");
	REDIS(&server, "CONFIG SET maxmemory 1");
	fence();
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_holds("fence", RESCUE, "a", 1);
}

/* ---- incarnations ---- */

static void renew(const struct queue_owner *o, const struct queue_owner *old)
{
	char *json = queue_registration("lock", "n", 7, 9, 30000, false);

	queue_renew(&server.r, o, old, json);
	free(json);
}

static int64_t died_at(const char *incarnation)
{
	struct redis_reply all = REDIS(&server, "HGETALL t:workers");
	struct queue_worker *w;
	size_t n = queue_workers_parse(&all, &w);
	int64_t at = -1;

	for (size_t i = 0; i < n; i++)
		if (strcmp(w[i].incarnation, incarnation) == 0) {
			at = w[i].died_at_ms;
			assert_string_equal(w[i].lock, "lock");
			assert_int_equal(w[i].pid, 7);
			assert_int_equal(w[i].since_ms, 9);
			assert_int_equal(w[i].lease_ms, 30000);
		}
	queue_workers_free(w, n);
	return at;
}

static void a_new_incarnation_takes_the_trays_over(void **state)
{
	(void)state;
	renew(&owner, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_in_range(REDIS_INT(&server, "PTTL " LEASE), 1, 30000);
	assert_int_equal(died_at(owner.incarnation), 0);
	REDIS(&server, "RPUSH %s a", owner.trays[0]);
	REDIS(&server, "RPUSH %s c", owner.trays[2]);
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 2);
	assert_holds("renew", next.trays[0], "a", 1);
	assert_holds("renew", next.trays[2], "c", 1);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s %s %s", owner.trays[0], owner.trays[2], owner.lease), 0);
	assert_in_range(REDIS_INT(&server, "PTTL %s", next.lease), 1, 30000);
	assert_true(died_at(owner.incarnation) > 1600000000000);
	assert_int_equal(died_at(next.incarnation), 0);
	/* told again, because its answer was lost: nothing changes */
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_holds("renew", next.trays[0], "a", 1);
}

/* Its answer was lost. Until it is told again, a command of the connection before last may still arrive. */
static void a_late_arrival_does_not_hide_what_was_taken_over(void **state)
{
	(void)state;
	renew(&owner, NULL);
	private_redis_answer(&server);
	REDIS(&server, "RPUSH %s a", owner.trays[0]);
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	REDIS(&server, "RPUSH %s late", owner.trays[0]);
	REDIS(&server, "RPUSH %s late", owner.trays[1]);
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_holds("renew", next.trays[0], "a", 1);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s", next.trays[1]), 0);	/* the worker may have begun to fill it */
	assert_holds("renew", owner.trays[0], "late", 4);	/* for the watch of the dead */
	assert_holds("renew", owner.trays[1], "late", 4);
}

/* While nobody renewed it, another host may have begun to rescue what it holds. */
static void a_lease_that_ran_out_is_never_given_again(void **state)
{
	(void)state;
	renew(&owner, NULL);
	private_redis_answer(&server);
	REDIS(&server, "RPUSH %s a", owner.trays[1]);
	renew(&next, &owner);
	private_redis_answer(&server);
	REDIS(&server, "DEL %s", next.lease);
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, -1);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s", next.lease), 0);
	assert_holds("renew", next.trays[1], "a", 1);		/* for the incarnation after it */
}

/* They were two when their owner died, and are that still. */
static void nothing_is_taken_from_a_rescue(void **state)
{
	(void)state;
	renew(&owner, NULL);
	private_redis_answer(&server);
	REDIS(&server, "RPUSH %s a", owner.trays[0]);
	REDIS(&server, "RPUSH %s b", owner.trays[1]);
	fence();
	assert_int_equal(private_redis_answer(&server).integer, 1);
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_holds("renew", owner.trays[1], "b", 1);
	assert_true(died_at(owner.incarnation) > 1600000000000);
	queue_rescue_size(&server.r, &keys, owner.incarnation);
	assert_string_equal(private_redis_answer(&server).str, "2");
}

static void renew_at_maxmemory_and_lease(void **state)
{
	(void)state;
	REDIS(&server, "CONFIG SET maxmemory 1");
	renew(&owner, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	queue_lease_renew(&server.r, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	REDIS(&server, "DEL " LEASE);
	queue_lease_renew(&server.r, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 0);
}

/* The owner counts the same, and places in the tray hold only while both agree (entry.lua). */
static void a_lease_counts_what_was_too_large(void **state)
{
	(void)state;
	renew(&owner, NULL);
	private_redis_answer(&server);
	put(TRAY, large('a', 'b', 'c'), LARGE);
	put(TRAY, "a", 1);
	put(TRAY, large('a', 'b', 'd'), LARGE);
	for (int i = 0; i < 2; i++)
		assert_int_equal(escape_too_large(LARGE - 1), LARGE);
	assert_int_equal(escape_too_large(LARGE - 1), 0);
	assert_string_equal(REDIS(&server, "HGET " LEASE " " TRAY).str, "2");
	REDIS(&server, "DEL " LEASE);
	put(TRAY, large('a', 'b', 'e'), LARGE);
	assert_int_equal(escape_too_large(LARGE - 1), LARGE);
	assert_int_equal(REDIS_INT(&server, "EXISTS " LEASE), 0);	/* nor does it come back */
}

static int64_t annotated(const struct queue_owner *o, const char *key, const char *value)
{
	queue_annotate(&server.r, o, key, value);
	return private_redis_answer(&server).integer;
}

/* Only of an owner that is registered and not marked dead; at maxmemory, too. Nothing else in its registration changes. */
static void evidence_is_written_into_a_registration(void **state)
{
	struct queue_worker *w;
	struct redis_reply all;

	(void)state;
	assert_int_equal(annotated(&owner, QUEUE_STOPPING, "1"), 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS t:workers " LEASE), 0);
	REDIS(&server, "CONFIG SET maxmemory 1");
	renew(&owner, NULL);
	private_redis_answer(&server);
	assert_int_equal(annotated(&owner, QUEUE_STOPPING, "1"), 1);
	assert_int_equal(annotated(&owner, QUEUE_TRIAL, "x"), 1);
	assert_int_equal(annotated(&owner, QUEUE_TRIAL, "y"), 1);
	assert_int_equal(died_at(owner.incarnation), 0);
	all = REDIS(&server, "HGETALL t:workers");
	assert_int_equal(queue_workers_parse(&all, &w), 1);
	assert_true(w[0].stopping);
	assert_string_equal(w[0].trial, "y");
	queue_workers_free(w, 1);
	/* the name that replaces it says nothing yet; and the dead one stays as it is */
	renew(&next, &owner);
	private_redis_answer(&server);
	assert_int_equal(annotated(&owner, QUEUE_TRIAL, "z"), 0);
	all = REDIS(&server, "HGETALL t:workers");
	assert_int_equal(queue_workers_parse(&all, &w), 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(w[i].stopping, w[i].died_at_ms != 0);
		assert_string_equal(w[i].trial, w[i].died_at_ms != 0 ? "y" : "");
	}
	queue_workers_free(w, 2);
}

static void who_holds_something_does_not_leave(void **state)
{
	(void)state;
	renew(&owner, NULL);
	private_redis_answer(&server);
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		REDIS(&server, "RPUSH %s a", owner.trays[i]);
		queue_deregister(&server.r, &owner);
		assert_int_equal(private_redis_answer(&server).integer, 0);
		assert_int_equal(died_at(owner.incarnation), 0);
		REDIS(&server, "DEL %s", owner.trays[i]);
	}
	REDIS(&server, "RPUSH " RESCUE " a");		/* some of it is on its way back */
	queue_deregister(&server.r, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	REDIS(&server, "DEL " RESCUE);
	queue_deregister(&server.r, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS_INT(&server, "DBSIZE"), 0);
}

static void mark(int64_t want)
{
	queue_mark_dead(&server.r, &keys, owner.incarnation);
	assert_int_equal(private_redis_answer(&server).integer, want);
}

static void forget(int64_t want)
{
	queue_forget(&server.r, &keys, owner.incarnation);
	assert_int_equal(private_redis_answer(&server).integer, want);
}

static void the_dead_are_marked_once_and_forgotten_late(void **state)
{
	char json[128];

	(void)state;
	mark(0);
	assert_int_equal(REDIS_INT(&server, "EXISTS t:workers"), 0);
	renew(&owner, NULL);
	private_redis_answer(&server);
	forget(0);			/* not dead */
	mark(1);
	assert_int_equal(REDIS_INT(&server, "EXISTS " LEASE), 0);
	mark(0);
	forget(0);			/* not for an hour yet */
	snprintf(json, sizeof(json), "{\"lock\":\"lock\",\"died_at\":%lld}", (long long)(clock_realtime_ms() - 3601000));
	REDIS(&server, "HSET t:workers %s %s", owner.incarnation, json);
	REDIS(&server, "HSET t:workers n.00000000000000b0.4.1:rescue 3");
	REDIS(&server, "RPUSH " RESCUE " a");
	forget(0);			/* something is left */
	REDIS(&server, "DEL " RESCUE);
	REDIS(&server, "RPUSH %s a", owner.trays[2]);
	forget(0);
	REDIS(&server, "DEL %s", owner.trays[2]);
	forget(1);
	assert_int_equal(REDIS_INT(&server, "DBSIZE"), 0);
}

static void registrations_nobody_can_read(void **state)
{
	struct redis_reply all;
	struct queue_worker *w;

	(void)state;
	REDIS(&server, "HSET t:workers %s garbage none:rescue 3 x y", owner.incarnation);
	all = REDIS(&server, "HGETALL t:workers");
	assert_int_equal(queue_workers_parse(&all, &w), 1);
	assert_string_equal(w[0].incarnation, owner.incarnation);
	assert_string_equal(w[0].lock, "");
	queue_workers_free(w, 1);
	mark(0);
	REDIS(&server, "RPUSH " TRAY " a");
	forget(0);
	REDIS(&server, "DEL " TRAY);
	forget(1);
}

/* died_at is a number or none; whatever else it is, its owner can be marked, and then forgotten. */
static void times_of_death_nobody_can_read(void **state)
{
	static const char *const wrong[] = { "{\"died_at\":\"yesterday\"}", "{\"died_at\":[1]}", "{\"died_at\":{}}", "{\"since\":1e999}", "[1,2]" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct redis_reply all;
		struct queue_worker *w;

		REDIS(&server, "HSET t:workers %s %s", owner.incarnation, wrong[i]);
		forget(0);
		mark(1);
		all = REDIS(&server, "HGETALL t:workers");
		assert_int_equal(queue_workers_parse(&all, &w), 1);
		assert_true(w[0].died_at_ms > 1600000000000);
		queue_workers_free(w, 1);
		mark(0);
	}
	REDIS(&server, "HSET t:workers %s %s", owner.incarnation, "{\"died_at\":-5,\"lease\":1e300}");
	for (int i = 0; i < 2; i++) {
		struct redis_reply all = REDIS(&server, "HGETALL t:workers");
		struct queue_worker *w;

		assert_int_equal(queue_workers_parse(&all, &w), 1);
		assert_int_equal(w[0].died_at_ms, i == 0 ? 0 : INT64_C(253402300799999));
		assert_int_equal(w[0].lease_ms, i == 0 ? INT64_C(253402300799999) : 0);
		queue_workers_free(w, 1);
		REDIS(&server, "HSET t:workers %s %s", owner.incarnation, "{\"died_at\":1e300,\"lease\":-1}");
	}
}

static void whose_rescue_is_noted(void **state)
{
	struct redis_reply all;
	char **names;

	(void)state;
	REDIS(&server, "HSET t:workers %s {} none:rescue 3 x:rescue 1 rescue 1 :rescue 1 n.00000000000000b0.4.7:rescue 2",
	    owner.incarnation);
	all = REDIS(&server, "HGETALL t:workers");
	assert_int_equal(queue_rescues_parse(&all, &names), 2);
	assert_string_equal(names[0], "");
	assert_string_equal(names[1], "n.00000000000000b0.4.7");
	queue_rescues_free(names, 2);
	all = REDIS(&server, "GET nothing");
	assert_int_equal(queue_rescues_parse(&all, &names), 0);
	queue_rescues_free(names, 0);
}

/* ---- registry ---- */

static void the_registry_is_as_the_gem_keeps_it(void **state)
{
	struct redis_reply json;
	struct queue_keys k;

	(void)state;
	queue_register(&server.r, &keys, false);
	private_redis_answer(&server);
	private_redis_answer(&server);
	assert_string_equal(REDIS(&server, "GET quredis:queue:mail").str,
	    "{\"name\":\"mail\",\"ingress\":\"i\",\"transit\":\"t\",\"escape\":\"e\"}");
	json = REDIS(&server, "ZRANGE quredis:queues 0 -1");
	assert_string_equal(redis_element(&json, 0).str, "mail");
	queue_registered(&server.r, "mail");
	json = private_redis_answer(&server);
	assert_int_equal(queue_registered_parse(&k, "mail", json.str, json.len), 0);
	assert_string_equal(k.transit, "t");
	queue_keys_free(&k);
	assert_int_equal(queue_registered_parse(&k, "mail", "{}", 2), -1);
	assert_int_equal(queue_registered_parse(&k, "mail", "{\"ingress\":\"a\",\"transit\":\"a\",\"escape\":\"c\"}", 42), -1);
	assert_int_equal(queue_registered_parse(&k, "mail", "{\"ingress\":\"\",\"transit\":\"b\",\"escape\":\"c\"}", 41), -1);
	assert_int_equal(queue_registered_parse(&k, "mail", "[", 1), -1);
}

static void again_the_registry_is_only_filled_up(void **state)
{
	struct redis_reply all;
	char *names[] = { (char *)"none", (char *)"mail", (char *)"odd" };

	(void)state;
	REDIS(&server, "SET quredis:queue:mail theirs");
	REDIS(&server, "ZADD quredis:queues 7 mail");
	REDIS(&server, "LPUSH quredis:queue:odd x");
	queue_register(&server.r, &keys, true);
	private_redis_answer(&server);
	private_redis_answer(&server);
	assert_string_equal(REDIS(&server, "GET quredis:queue:mail").str, "theirs");
	assert_string_equal(REDIS(&server, "ZSCORE quredis:queues mail").str, "7");
	REDIS(&server, "DEL quredis:queue:mail quredis:queues");
	queue_register(&server.r, &keys, true);
	private_redis_answer(&server);
	private_redis_answer(&server);
	assert_non_null(strstr(REDIS(&server, "GET quredis:queue:mail").str, "\"transit\":\"t\""));

	REDIS(&server, "ZADD quredis:queues 0 q0 1 q1 2 q2 3 q3 4 q4");
	queue_registry_page(&server.r, 1, 3);
	all = private_redis_answer(&server);
	assert_int_equal(all.n, 6);
	assert_string_equal(redis_element(&all, 0).str, "q1");
	assert_string_equal(redis_element(&all, 1).str, "1");
	queue_registered_all(&server.r, names, 3);
	all = private_redis_answer(&server);
	assert_int_equal(all.n, 3);
	assert_int_equal(redis_element(&all, 0).type, REDIS_NIL);
	assert_int_equal(redis_element(&all, 1).type, REDIS_STRING);
	assert_int_equal(redis_element(&all, 2).type, REDIS_NIL);
}

static int64_t unregister(const char *score, const char *entry)
{
	queue_unregister(&server.r, "mail", score, entry);
	return private_redis_answer(&server).integer;
}

static void out_of_the_registry_goes_only_what_was_seen(void **state)
{
	const char *shown[] = { "mail", "news" };

	(void)state;
	REDIS(&server, "SET quredis:queue:mail theirs");
	REDIS(&server, "ZADD quredis:queues 7 mail 7 other");
	assert_int_equal(unregister("8", "theirs"), 0);
	assert_int_equal(unregister("7", "ours"), 0);
	assert_int_equal(unregister("7", NULL), 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS quredis:queue:mail"), 1);
	assert_int_equal(unregister("7", "theirs"), 1);
	assert_int_equal(REDIS_INT(&server, "EXISTS quredis:queue:mail"), 0);
	assert_int_equal(REDIS_INT(&server, "ZCARD quredis:queues"), 1);
	assert_int_equal(unregister("7", NULL), 0);
	REDIS(&server, "ZADD quredis:queues 1.5 mail");
	assert_int_equal(unregister("1.5", NULL), 1);

	REDIS(&server, "ZADD quredis:queues 7 mail");
	queue_registry_show(&server.r, shown, 2);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_true(strtod(REDIS(&server, "ZSCORE quredis:queues mail").str, NULL) > 1e9);
}

/* ---- incarnation names ---- */

static void incarnations_parse_again(void **state)
{
	static const char *const wrong[] = { "", "n", "n.1.2.3", "n.00000000000000b0.1", ".00000000000000b0.1.2",
		"n.00000000000000B0.1.2", "n.00000000000000b0.x.2", "n.00000000000000b0.1.", "n.00000000000000b0..2",
		"n.00000000000000b0.1.2:rescue" };
	struct incarnation i = { .node = "web.example.org", .boot = UINT64_C(0xfedcba9876543210), .slot = 17,
		.generation = 12345678901 }, again;
	char text[INCARNATION_SIZE];

	(void)state;
	incarnation_format(&i, text);
	assert_string_equal(text, "web.example.org.fedcba9876543210.17.12345678901");
	assert_int_equal(incarnation_parse(&again, text), 0);
	assert_string_equal(again.node, i.node);
	assert_true(again.boot == i.boot && again.slot == i.slot && again.generation == i.generation);
	for (size_t n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++)
		assert_int_equal(incarnation_parse(&again, wrong[n]), -1);
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_move_takes_and_puts),
		T(what_is_not_there_is_not_moved),
		T(undoing_takes_only_its_own),
		T(a_destination_of_another_type_loses_nothing),
		T(a_source_of_another_type_makes_no_copies),
		T(without_the_right_to_remove_no_copies_are_made),
		T(every_move_runs_at_maxmemory),
		T(of_equal_messages_one_is_moved),
		T(a_place_must_hold_what_is_named),
		T(only_the_line_of_a_large_message_is_sent),
		T(what_is_too_large_escapes_unread),
		T(what_is_too_large_stays_where_escape_is_no_list),
		T(what_is_very_large_becomes_escape),
		T(what_was_seen_is_no_longer_there),
		T(a_refused_rename_leaves_no_dead_letter_in_the_tray),
		T(a_wrapper_does_not_get_into_escape_with_what_is_too_large),
		T(a_list_is_weighed_and_not_read),
		T(the_right_end_is_weighed),
		T(a_scale_leaves_nothing_in_the_aof),
		T(a_list_is_weighed_at_maxmemory_and_without_the_right),
		T(an_answer_that_is_no_weight),
		T(what_is_held_in_part_is_moved_whole),
		T(the_left_end_escapes_if_it_is_too_large),
		T(where_it_cannot_escape_it_stays),
		T(no_line_of_ours_goes_into_escape),
		T(fetch_moves_the_oldest_into_the_tray),
		T(a_batch_is_fetched_in_order_and_answered_one_by_one),
		T(fetch_at_maxmemory),
		T(a_tray_of_another_type_stops_the_fetch_before_the_pop),
		T(a_retry_is_due_after_its_delay_by_the_servers_clock),
		T(an_undone_retry_leaves_an_equal_member_alone),
		T(only_what_is_due_and_only_so_many),
		T(large_ones_are_due_one_by_one),
		T(escape_keeps_the_producers_bytes_and_writes_the_record),
		T(a_big_message_is_left_out_of_its_record),
		T(a_record_that_cannot_be_written_does_not_hold_the_message),
		T(return_takes_the_left_end_only),
		T(what_is_handed_back_is_fetched_next),
		T(redrive_takes_the_record_along),
		T(discard_takes_the_record_along),
		T(a_fence_takes_tray_and_lease_and_remembers_how_many),
		T(a_fence_counts_what_lies_in_all_trays),
		T(a_fence_leaves_what_is_being_rescued_alone),
		T(a_fence_among_keys_of_other_types),
		T(a_fence_at_maxmemory),
		T(a_new_incarnation_takes_the_trays_over),
		T(a_late_arrival_does_not_hide_what_was_taken_over),
		T(a_lease_that_ran_out_is_never_given_again),
		T(nothing_is_taken_from_a_rescue),
		T(renew_at_maxmemory_and_lease),
		T(a_lease_counts_what_was_too_large),
		T(evidence_is_written_into_a_registration),
		T(who_holds_something_does_not_leave),
		T(the_dead_are_marked_once_and_forgotten_late),
		T(registrations_nobody_can_read),
		T(times_of_death_nobody_can_read),
		T(whose_rescue_is_noted),
		T(again_the_registry_is_only_filled_up),
		T(out_of_the_registry_goes_only_what_was_seen),
		T(the_registry_is_as_the_gem_keeps_it),
		T(incarnations_parse_again),
	};

	return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
