/* Wrapper, header, payload: what is ours is understood, everything else is payload, byte for byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "common/base/alloc.h"
#include "common/base/encode.h"
#include "tests/unit/message/parsing.h"
#include "tests/unit/unit.h"

/* ---- lines that are ours ---- */

TEST(a_header_is_read_and_not_part_of_the_payload)
{
	struct message m = parse("quredis/1 id=order-17 ttl=5m enqueued=1700000000000 timeout=30s max_attempts=3 request_id=r:1\nbody\n");

	assert_string_equal(message_id(&m), "order-17");
	assert_string_equal(m.request_id, "r:1");
	assert_int_equal(m.ttl_ms, 300000);
	assert_int_equal(m.timeout_ms, 30000);
	assert_int_equal(m.enqueued_ms, 1700000000000);
	assert_int_equal(m.max_attempts, 3);
	assert_int_equal(m.wrapper_len, 0);
	assert_int_equal(message_payload_len(&m), 5);
	assert_memory_equal(message_payload(&m), "body\n", 5);
	assert_false(m.unknown_version);
}

TEST(a_wrapper_is_read_and_dropped)
{
	struct message m = parse_sealed(W " attempts=2 crashes=1 redelivered=4 solo=1 own=5 redriven=6 mark=8 first_failed=7\nquredis/1 id=a\nb");

	assert_int_equal(m.wrapper.nonce, 0xff);
	assert_int_equal(m.wrapper.attempts, 2);
	assert_int_equal(m.wrapper.crashes, 1);
	assert_int_equal(m.wrapper.redelivered, 4);
	assert_true(m.wrapper.solo);
	assert_int_equal(m.wrapper.own_ms, 5);
	assert_int_equal(m.wrapper.redriven_ms, 6);	/* and a key that is not known is passed over */
	assert_int_equal(m.wrapper.first_failed_ms, 7);
	assert_string_equal(m.raw + m.wrapper_len, "quredis/1 id=a\nb");
	assert_string_equal(message_id(&m), "a");
	assert_string_equal(message_payload(&m), "b");
}

TEST(the_smallest_lines)
{
	struct message m = parse("quredis/1 id=a\n");

	assert_int_equal(message_payload_len(&m), 0);
	m = parse_sealed(W "\n");
	assert_int_equal(m.wrapper_len, strlen(W) + strlen(" mac=") + SEAL_MAC_HEX + 1);
	assert_int_equal(message_payload_len(&m), 0);
	m = parse("");
	assert_int_equal(m.raw_len, 0);
	assert_string_equal(message_id(&m), "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709");
	m = parse("quredis/1 id=\nx");	/* an empty id is none */
	assert_int_equal(m.header_len, 0);
}

TEST(unknown_keys_are_the_producers_own)
{
	struct message m = parse("quredis/1 colour=red id=x\nb");

	assert_string_equal(message_id(&m), "x");
	m = parse_sealed(W " colour=red attempts=1\nb");
	assert_int_equal(m.wrapper.attempts, 1);
	assert_string_equal(message_payload(&m), "b");
}

/* Only one wrapper is ever ours: a producer's text that looks like one stays. */
TEST(a_second_wrapper_is_payload)
{
	struct message m = parse_sealed(W " attempts=1\n" W " attempts=9\nb");

	assert_int_equal(m.wrapper.attempts, 1);
	assert_string_equal(message_payload(&m), W " attempts=9\nb");
}

/* ---- lines that are not ---- */

TEST(malformed_lines_are_payload)
{
	static const char *const raw[] = {
		"q", "quredis", "quredis/", "quredis/1", "quredis/1\n", "quredis/1 ", "quredis/1 id=a", "quredis/1  id=a\n",
		"quredis/1 id\n", "quredis/1 =a\n", "quredis/1 id=a \n", "quredis/1 id=a\tx=y\n", "quredis/1 ID=a\n",
		"quredis/1 id=a id=b\n", "quredis/1 id=a=b\n", "quredis/1 id=a/b\n", "quredis/1 id=--all\nx", "quredis/1 id=-y\n",
		    "quredis/1 id=..\n", "quredis/1 id=.\n",
		"quredis/1 id=:a\n", "quredis/1 id=+1\n", "quredis/1 id=_a\n", "quredis/1 id=a request_id=--all\n", "quredis/1 request_id=..\n",
		    "quredis/1 id=\xc3\xa9\n", "quredis/1 id=a\r\n",
		"quredis/1\tid=a\n", " quredis/1 id=a\n", "\nquredis/1 id=a\n", "Quredis/1 id=a\n",
		"quredis/1 ttl=5\n", "quredis/1 ttl=-5m\n", "quredis/1 ttl=99999999999999999999d\n", "quredis/1 ttl=\n",
		"quredis/1 max_attempts=0\n", "quredis/1 max_attempts=-1\n", "quredis/1 max_attempts=1000001\n",
		"quredis/1 max_attempts=+3\n", "quredis/1 max_attempts=0x3\n", "quredis/1 enqueued=9223372036854775808\n",
		"quredis/1 enqueued=1e3\n",
		"quredis/1 w=ff\n", "quredis/1 w=00000000000000FF\n", "quredis/1 w=00000000000000ff0\n", "quredis/1 w=\n",
		W " attempts=-1\n", W " attempts=x\n", W " solo=2\n", W " own=99999999999999999999\n", W " w=00000000000000ff\n",
		"%n%s%s%s%n\n", "quredis/1 id=%n\n",
	};

	for (size_t i = 0; i < sizeof(raw) / sizeof(raw[0]); i++)
		assert_raw(raw[i], strlen(raw[i]));
	for (size_t i = 0; i < sizeof(raw) / sizeof(raw[0]); i++)
		if (strncmp(raw[i], "quredis/1 w=", 12) == 0 && strchr(raw[i], '\n') != NULL)
			assert_int_equal(parse_sealed(raw[i]).wrapper_len, 0);
	assert_raw("quredis/1 id=a\0b\n", 17);
	assert_raw("\0\0\0", 3);
}

/* A header is what comes behind a good wrapper, so a bad one there is payload, and the wrapper still counts. */
TEST(a_malformed_header_behind_a_wrapper)
{
	struct message m = parse_sealed(W " crashes=1\nquredis/1 id=a id=b\nx");

	assert_int_equal(m.wrapper.crashes, 1);
	assert_int_equal(m.header_len, 0);
	assert_string_equal(message_payload(&m), "quredis/1 id=a id=b\nx");
}

TEST(lines_at_their_limits)
{
	char raw[3 * MESSAGE_LINE_MAX];
	struct message m;

	for (size_t len = MESSAGE_LINE_MAX - 2; len <= MESSAGE_LINE_MAX + 2; len++) {
		memset(raw, 'a', sizeof(raw));
		memcpy(raw, "quredis/1 x=", 12);
		raw[len - 1] = '\n';
		message_parse(&m, &keys, raw, sizeof(raw));
		assert_int_equal(m.header_len, len <= MESSAGE_LINE_MAX ? len : 0);
	}
	memset(raw, 'a', sizeof(raw));		/* no newline at all */
	memcpy(raw, "quredis/1 x=", 12);
	assert_raw(raw, sizeof(raw));
	/* an id as long as may be, and longer */
	for (int n = MESSAGE_ID_MAX; n <= MESSAGE_ID_MAX + 1; n++) {
		char *line = alloc_format("quredis/1 id=%.*s\n", n, raw + 100);

		message_parse(&m, &keys, line, strlen(line));
		assert_int_equal(m.header_len != 0, n <= MESSAGE_ID_MAX);
		free(line);
	}
	/* a key that is too long, too many keys */
	assert_raw("quredis/1 abcdefghijklmnopqrstuvwxyzabcdefg=1\n", 46);
	strcpy(raw, "quredis/1");
	for (int i = 0; i < 65; i++)
		snprintf(raw + strlen(raw), 16, " %c%c=1", 'a' + i / 26, 'a' + i % 26);
	strcat(raw, "\n");
	assert_raw(raw, strlen(raw));
}

TEST(other_versions_are_known_as_such)
{
	assert_true(parse("quredis/2 id=a\nb").unknown_version);
	assert_true(parse("quredis/10 x\n").unknown_version);
	assert_true(parse_sealed(W "\nquredis/2 id=a\nb").unknown_version);
	assert_false(parse("quredis/1 id=a\nb").unknown_version);
	assert_false(parse("quredis/1 broken line\nb").unknown_version);
	assert_false(parse("quredis/2").unknown_version);
	assert_false(parse("quredis/2 no newline").unknown_version);
	assert_false(parse("quredis/ 2\n").unknown_version);
	assert_false(parse("quredis/x \n").unknown_version);
	assert_raw("quredis/2 id=a\nb", 16);
}

/* ---- wrapping ---- */

/* A sum over every message would cost more than all else that is done with it. */
TEST(an_id_is_worked_out_when_it_is_asked_for)
{
	struct message m = parse("body");

	assert_string_equal(m.id, "");
	assert_string_equal(message_id(&m), "sha1:02083f4579e08a612425c0c1a17ee47add783b94");
	assert_ptr_equal(message_id(&m), m.id);
	m = parse("quredis/1 id=a\nbody");
	assert_string_equal(m.id, "a");
}

TEST(wrapping_keeps_the_producers_bytes)
{
	const char original[] = "quredis/1 id=a ttl=1s\nbo\0dy\n%n \xff";
	struct wrapper w = { .attempts = 1, .crashes = 2, .redelivered = 3, .outages = 4, .solo = true, .own_ms = 4, .redriven_ms = 5, .first_failed_ms = 6 };
	struct buffer once = {0}, twice = {0};
	struct message m, again;

	message_parse(&m, &keys, original, sizeof(original) - 1);
	message_wrap(&once, &keys, &m, &w);
	message_parse(&again, &keys, once.data, once.len);
	assert_int_equal(again.raw_len - again.wrapper_len, sizeof(original) - 1);
	assert_memory_equal(again.raw + again.wrapper_len, original, sizeof(original) - 1);
	assert_string_equal(message_id(&again), "a");
	w.nonce = again.wrapper.nonce;
	assert_memory_equal(&again.wrapper.attempts, &w.attempts, sizeof(int) * 4);
	assert_true(again.wrapper.solo && again.wrapper.own_ms == 4 && again.wrapper.redriven_ms == 5 && again.wrapper.first_failed_ms == 6);
	w.attempts = 0;
	message_wrap(&twice, &keys, &again, &w);
	message_parse(&m, &keys, twice.data, twice.len);
	assert_int_equal(m.wrapper.attempts, 0);
	assert_true(m.wrapper.nonce != again.wrapper.nonce);	/* equal messages stay distinct */
	assert_int_equal(m.raw_len - m.wrapper_len, sizeof(original) - 1);
	buffer_free(&once);
	buffer_free(&twice);
}

TEST(the_largest_wrapper_parses_again)
{
	struct wrapper w = { .attempts = INT32_MAX, .crashes = 1000000, .redelivered = 1000001, .outages = INT32_MAX, .solo = true,
		.own_ms = INT64_MAX, .first_failed_ms = INT64_MAX };
	struct buffer b = {0};
	struct message m = parse("x");

	message_wrap(&b, &keys, &m, &w);
	message_parse(&m, &keys, b.data, b.len);
	assert_int_equal(m.wrapper.own_ms, INT64_MAX);
	assert_int_equal(m.wrapper.redelivered, 1000000);
	assert_int_equal(message_payload_len(&m), 1);
	buffer_free(&b);
}

static void assert_recalled(const struct wrapper *w)
{
	char text[MESSAGE_MEMORY_SIZE];
	struct wrapper again;

	message_memory(w, text);
	assert_int_equal(message_recall(&again, text, strlen(text)), 0);
	assert_memory_equal(&again.attempts, &w->attempts, sizeof(again) - offsetof(struct wrapper, attempts));
}

/* What lies beside a message of a shared queue. */
TEST(what_a_wrapper_says_without_a_line)
{
	static const char *const not_so[] = { "", " ", "crashes", "crashes=", "crashes=-1", "crashes=1000001", "crashes=1 ", " crashes=1", "crashes=1\n",
		"crashes=1  solo=1", "crashes=1 crashes=1", "solo=2", "Crashes=1", "own=99999999999999999999", "crashes=1=1" };
	struct wrapper w = { .attempts = 1000000, .crashes = 1000000, .redelivered = 1000000, .outages = 1000000, .solo = true,
		.own_ms = INT64_MAX, .first_failed_ms = INT64_MAX };
	char text[MESSAGE_MEMORY_SIZE], too_long[MESSAGE_LINE_MAX + 1];

	assert_recalled(&w);
	assert_recalled(&(struct wrapper){ .redelivered = 1 });
	assert_string_equal(message_memory(&(struct wrapper){ .crashes = 2, .redelivered = 3, .solo = true }, text), "crashes=2 redelivered=3 solo=1");
	assert_string_equal(message_memory(&(struct wrapper){0}, text), "");
	for (size_t i = 0; i < sizeof(not_so) / sizeof(not_so[0]); i++) {
		assert_int_equal(message_recall(&w, not_so[i], strlen(not_so[i])), -1);
		assert_int_equal(w.crashes + w.redelivered + w.solo, 0);
	}
	assert_int_equal(message_recall(&w, "solo=1\0", 7), -1);
	memset(too_long, 'x', sizeof(too_long));
	too_long[1] = '=';
	assert_int_equal(message_recall(&w, too_long, sizeof(too_long)), -1);
	/* what a later version may say, too */
	assert_int_equal(message_recall(&w, "crashes=1 colour=red", 20), 0);
	assert_int_equal(w.crashes, 1);
}

TEST(headers_are_made_or_refused)
{
	struct buffer b = {0};
	struct message m;

	assert_int_equal(message_header(&b, "a.b", "r", 300000, 5, 1500, 2), 0);
	buffer_append(&b, "body", 5);
	m = parse(b.data);
	assert_string_equal(message_id(&m), "a.b");
	assert_string_equal(m.request_id, "r");
	assert_int_equal(m.ttl_ms, 300000);
	assert_int_equal(m.enqueued_ms, 5);
	assert_int_equal(m.timeout_ms, 1500);
	assert_int_equal(m.max_attempts, 2);
	buffer_clear(&b);
	assert_int_equal(message_header(&b, "a b", NULL, -1, -1, -1, -1), -1);
	buffer_clear(&b);
	assert_int_equal(message_header(&b, "", NULL, -1, -1, -1, -1), -1);
	buffer_clear(&b);
	assert_int_equal(message_header(&b, "a\n", NULL, -1, -1, -1, -1), -1);
	buffer_free(&b);
}

TEST(a_trace_of_another_form_is_ignored)
{
	static const char trace[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", *const not_so[] = {
		"", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0", "00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "00.0af7651916cd43dd8448eb211c80319c.b7ad6b7169203331.01" };
	struct buffer b = {0};
	struct message m;

	buffer_format(&b, "quredis/1 id=a traceparent=%s\nbody%c", trace, '\0');
	m = parse(b.data);
	assert_string_equal(message_traceparent(&m), trace);
	for (size_t i = 0; i < sizeof(not_so) / sizeof(not_so[0]); i++) {
		buffer_clear(&b);
		buffer_format(&b, "quredis/1 id=a traceparent=%s\nbody%c", not_so[i], '\0');
		m = parse(b.data);
		assert_null(message_traceparent(&m));
		assert_string_equal(message_id(&m), "a");
	}
	m = parse("body");
	assert_null(message_traceparent(&m));
	buffer_free(&b);
}

/* ---- anything at all ---- */

static void assert_consistent(const char *raw, size_t len)
{
	struct buffer b = {0};
	struct message m, again;

	message_parse(&m, &keys, raw, len);
	assert_true(m.wrapper_len + m.header_len <= len);
	assert_int_equal(message_payload_len(&m) + m.wrapper_len + m.header_len, len);
	assert_true(message_id(&m)[0] != '\0');
	message_wrap(&b, &keys, &m, &m.wrapper);
	message_parse(&again, &keys, b.data, b.len);
	assert_int_equal(again.raw_len - again.wrapper_len, len - m.wrapper_len);
	assert_memory_equal(again.raw + again.wrapper_len, raw + m.wrapper_len, len - m.wrapper_len);
	assert_int_equal(again.header_len, m.header_len);
	assert_string_equal(message_id(&again), message_id(&m));
	buffer_free(&b);
}

/* Pieces that nearly make lines, in any order, in exactly sized memory (so that a sanitizer sees a byte too far). */
TEST(any_bytes)
{
	static const char *const pieces[] = { "quredis/1 ", "quredis/1", "quredis/2 ", "w=00000000000000aa", " ", "=", "\n", "id=x", "attempts=3",
		"ttl=5m", "a", "0", "\xff", "%n", "solo=1", "max_attempts=2", "own=12345678901234567890" };

	srandom(4711);
	for (int round = 0; round < 200000; round++) {
		char text[256] = "", *raw;
		size_t len;

		for (long i = random() % 12; i > 0; i--)
			strcat(text, pieces[(size_t)random() % (sizeof(pieces) / sizeof(pieces[0]))]);
		len = strlen(text);
		if (len > 0 && random() % 8 == 0)
			text[(size_t)random() % len] = '\0';
		raw = malloc(len == 0 ? 1 : len);
		memcpy(raw, text, len);
		assert_consistent(raw, len);
		free(raw);
	}
}

TEST(a_megabyte)
{
	size_t len = 1 << 20;
	char *raw = malloc(len);

	arc4random_buf(raw, len);
	assert_consistent(raw, len);
	memcpy(raw, "quredis/1 id=a\n", 15);
	assert_consistent(raw, len);
	free(raw);
}

TEST(sha1_is_sha1)
{
	char hex[ENCODE_SHA1_SIZE];

	encode_sha1("abc", 3, hex);
	assert_string_equal(hex, "a9993e364706816aba3e25717850c26c9cd0d89d");
}

UNIT_MAIN(learn_keys, forget_sealed_bytes)
