/* Only a line that this installation sealed counts as ours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "common/base/alloc.h"
#include "common/base/encode.h"
#include "tests/unit/message/parsing.h"
#include "tests/unit/unit.h"

static void assert_forged(const char *raw, bool doubtful)
{
	struct message m = parse(raw);

	assert_raw(raw, strlen(raw));
	assert_int_equal(m.doubtful, doubtful);
}

TEST(a_line_without_a_seal_is_payload)
{
	static const char *const raw[] = {
		W "\nb", W " attempts=7\nb", "quredis/1 w=0123456789abcdef own=1\nb", W " mac=\nb", W " mac=0\nb",
		W " mac=0123456789abcdef0123456789abcdef0\nb", W " mac=0123456789abcdef0123456789abcdef attempts=7\nb",
		W " mac=0123456789ABCDEF0123456789ABCDEF\nb", W " mac=0123456789abcdef0123456789abcdeg\nb",
		W "\nquredis/1 id=a ttl=1s\nb",
	};

	for (size_t i = 0; i < sizeof(raw) / sizeof(raw[0]); i++)
		assert_forged(raw[i], false);
	assert_forged(W " mac=0123456789abcdef0123456789abcdef\nb", true);
	assert_forged(W " attempts=7 mac=0123456789abcdef0123456789abcdef\nb", true);
	assert_forged(W " own=1 mac=0123456789abcdef0123456789abcdef\nb", true);
}

/* Each byte of the line counts, and nothing may be moved from one line, or one kind of line, to another. */
TEST(a_sealed_line_holds_only_as_it_was_sealed)
{
	static const char *const lines[] = { W " own=55 attempts=1\nbody", W " attempts=1 own=55\nbody", W "\nbody" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct message m = parse_sealed(lines[i]);
		size_t len = m.wrapper_len;
		char *copy;

		assert_true(len > 0 && !m.doubtful);
		for (size_t at = 0; at < len; at++) {
			copy = alloc_string(sealed_bytes.data);
			copy[at] ^= 1;
			if (parse(copy).wrapper_len != 0)
				fail_msg("byte %zu does not count: %s", at, copy);
			free(copy);
		}
		copy = alloc_string(sealed_bytes.data);
		copy[len] ^= 1;			/* the payload is the producer's */
		assert_int_equal(parse(copy).wrapper_len, len);
		free(copy);
	}
	/* the seal of a line of ours does for none that Redis completed, and the other way round */
	parse_sealed(W " own=5 solo=1\nb");
	char *forged = alloc_format(W " solo=1 own=5%s", strstr(sealed_bytes.data, " mac="));
	assert_raw(forged, strlen(forged));
	free(forged);
	parse_sealed(W " solo=1 own=5\nb");
	forged = alloc_format(W " own=5 solo=1%s", strstr(sealed_bytes.data, " mac="));
	assert_raw(forged, strlen(forged));
	free(forged);
}

TEST(a_seal_counts_in_its_queue_only)
{
	struct message_keys other = keys;
	struct message m = parse_sealed(W " attempts=1\nb");

	other.queue = "ingress:other";
	assert_int_equal(m.wrapper.attempts, 1);
	message_parse(&m, &other, sealed_bytes.data, sealed_bytes.len - 1);
	assert_int_equal(m.wrapper_len, 0);
	assert_true(m.doubtful);
}

/* HMAC-SHA256, as any other program reckons it: printf 'line\0ingress:mail\0%s' LINE | openssl mac -digest SHA256 … */
TEST(a_seal_is_an_hmac)
{
	struct message m = parse_sealed(W " attempts=1\nb");

	assert_int_equal(m.wrapper.attempts, 1);
	assert_memory_equal(strstr(sealed_bytes.data, " mac=") + 5, "3f69e0642ad38eaefc9128d9d47ef704", SEAL_MAC_HEX);
}

TEST(every_secret_verifies_and_the_first_one_seals)
{
	struct seal_secrets two = *seal_known();
	struct message_keys rotated = { .queue = keys.queue, .secrets = &two, .headers = true };
	struct message m = parse_sealed(W " attempts=1\nb");
	struct buffer b = {0};

	memcpy(two.secret[1], two.secret[0], SEAL_SECRET_BYTES);
	two.secret[0][0] ^= 1;
	two.n = 2;
	message_parse(&m, &rotated, sealed_bytes.data, sealed_bytes.len - 1);
	assert_int_equal(m.wrapper.attempts, 1);		/* by the older one */
	m = parse("b");
	message_wrap(&b, &rotated, &m, &(struct wrapper){ .attempts = 2 });
	message_parse(&m, &rotated, b.data, b.len);
	assert_int_equal(m.wrapper.attempts, 2);
	message_parse(&m, &keys, b.data, b.len);		/* who knows only the older one */
	assert_true(m.wrapper_len == 0 && m.doubtful);
	two.n = 0;
	message_parse(&m, &rotated, sealed_bytes.data, sealed_bytes.len - 1);
	assert_true(m.wrapper_len == 0 && m.doubtful);
	buffer_free(&b);
}

/* A process wrote its line before one whose secret it did not know, so that both are the wrapper once the secret is back. */
TEST(all_lines_of_ours_are_the_wrapper)
{
	struct message m = parse_sealed(W " attempts=2 first_failed=7 own=5\nb");
	struct seal_secrets none = {0};
	struct message_keys lost = { .queue = keys.queue, .secrets = &none, .headers = true };
	char *inner = alloc_string(sealed_bytes.data), *both;
	size_t inner_len = m.wrapper_len, outer_len;

	message_parse(&m, &lost, inner, strlen(inner));
	assert_true(m.doubtful && m.wrapper_len == 0);
	both = alloc_format(W " crashes=1 redriven=9 own=8\n%s", inner);
	m = parse_sealed(both);
	assert_int_equal(message_payload_len(&m), 1);
	outer_len = m.wrapper_len - inner_len;
	assert_true(!m.doubtful && m.wrapper.attempts == 2 && m.wrapper.crashes == 1);
	assert_true(m.wrapper.own_ms == 8 && m.wrapper.redriven_ms == 9 && m.wrapper.first_failed_ms == 7);
	free(both);
	both = alloc_string(sealed_bytes.data);
	both[outer_len + inner_len - 2] ^= 1;		/* in the seal of the inner line */
	m = parse(both);
	assert_true(m.doubtful && m.wrapper_len == outer_len && m.wrapper.attempts == 0 && m.wrapper.crashes == 1);
	free(both);
	free(inner);
}

TEST(secrets_are_learnt_in_their_order)
{
	char list[SEAL_LIST_SIZE], many[SEAL_LIST_SIZE + 200] = "";
	const char *fourth = SEALED_SECRET;

	seal_list(list);
	assert_string_equal(list, fourth);
	assert_int_equal(seal_learn(""), -1);
	assert_int_equal(seal_learn("nonsense " SEALED_SECRET "0 ABCD"), -1);
	seal_list(list);
	assert_string_equal(list, fourth);		/* nothing was forgotten */
	assert_int_equal(seal_learn("x " SEALED_OTHER "  " SEALED_OTHER), 0);
	seal_list(list);
	assert_string_equal(list, SEALED_OTHER " " SEALED_SECRET);
	assert_int_equal(seal_learn(SEALED_SECRET), 0);	/* another server, which has the old one first */
	seal_list(list);
	assert_string_equal(list, SEALED_SECRET " " SEALED_OTHER);
	for (int i = 0; i < SEAL_SECRETS_MAX + 1; i++)
		snprintf(many + strlen(many), 80, "%s%c%s", i == 0 ? "" : " ", 'a' + i % 6, &SEALED_SECRET[1]);
	many[2 * SEAL_SECRET_BYTES * 3 + 2] = '\0';		/* three */
	assert_int_equal(seal_learn(many), 0);
	assert_int_equal(seal_known()->n, 5);
	assert_int_equal(seal_learn(SEALED_SECRET), 0);
	assert_int_equal(seal_known()->n, 5);
}

TEST(without_headers_a_producer_says_nothing)
{
	struct message_keys deaf = keys;
	struct message m;

	deaf.headers = false;
	message_parse(&m, &deaf, "quredis/1 id=a ttl=1s\nb", 23);
	assert_int_equal(m.header_len, 0);
	assert_int_equal(m.ttl_ms, -1);
	assert_int_equal(message_payload_len(&m), 23);
	assert_int_equal(strncmp(message_id(&m), "sha1:", 5), 0);
	message_parse(&m, &deaf, "quredis/2 id=a\nb", 16);
	assert_false(m.unknown_version);
	parse_sealed(W " attempts=1\nquredis/1 id=a\nb");
	message_parse(&m, &deaf, sealed_bytes.data, sealed_bytes.len - 1);
	assert_int_equal(m.wrapper.attempts, 1);
	assert_string_equal(message_payload(&m), "quredis/1 id=a\nb");
}

UNIT_MAIN(learn_keys, forget_sealed_bytes)
