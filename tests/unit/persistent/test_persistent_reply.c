
/* What is an answer, and what only looks like one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <cmocka.h>

#include "common/base/nitems.h"
#include "common/handler/persistent_reply.h"

#define YEAR_MS (INT64_C(365) * 24 * 3600 * 1000)

static struct persistent_reply reply;

static bool parse(const char *line)
{
	size_t len = strlen(line);
	char *exact = malloc(len == 0 ? 1 : len);	/* so that a sanitizer sees a byte too far */
	static char reason[4096];
	bool is_reply;

	memcpy(exact, line, len);
	is_reply = persistent_reply_parse(&reply, exact, len);
	if (is_reply) {
		memcpy(reason, reply.reason, reply.reason_len);
		reason[reply.reason_len] = '\0';
		reply.reason = reason;
	}
	free(exact);
	return is_reply;
}

static void is(const char *line, enum persistent_verdict verdict, uint64_t serial, int64_t delay_ms, const char *reason)
{
	if (!parse(line))
		fail_msg("no answer: %s", line);
	if (reply.verdict != verdict || reply.serial != serial || reply.delay_ms != delay_ms || strcmp(reply.reason, reason) != 0)
		fail_msg("%s: verdict %d serial %llu delay %lld reason %s", line, reply.verdict, (unsigned long long)reply.serial,
		    (long long)reply.delay_ms, reply.reason);
}

static void verdicts(void **state)
{
	(void)state;
	is("OK 1", PERSISTENT_OK, 1, -1, "");
	is("OK 0", PERSISTENT_OK, 0, -1, "");
	is("OK 007", PERSISTENT_OK, 7, -1, "");
	is("OK 18446744073709551615", PERSISTENT_OK, UINT64_MAX, -1, "");
	is("BEAT 12", PERSISTENT_BEAT, 12, -1, "");
	is("FAIL 3", PERSISTENT_FAIL, 3, -1, "");
	is("FAIL 3 no such user", PERSISTENT_FAIL, 3, -1, "no such user");
	is("FAIL 3 5s late", PERSISTENT_FAIL, 3, -1, "5s late");
	is("RETRY 4", PERSISTENT_RETRY, 4, -1, "");
	is("RETRY 4 mail server away", PERSISTENT_RETRY, 4, -1, "mail server away");
}

static void delays(void **state)
{
	(void)state;
	is("RETRY 4 5s", PERSISTENT_RETRY, 4, 5000, "");
	is("RETRY 4 250ms", PERSISTENT_RETRY, 4, 250, "");
	is("RETRY 4 2m greylisted, they say", PERSISTENT_RETRY, 4, 120000, "greylisted, they say");
	is("RETRY 4 0", PERSISTENT_RETRY, 4, 0, "");
	is("RETRY 4 30", PERSISTENT_RETRY, 4, 30000, "");
	is("RETRY 4 30   why", PERSISTENT_RETRY, 4, 30000, "why");
	is("RETRY 4 3h", PERSISTENT_RETRY, 4, 3 * 3600 * 1000, "");
	is("RETRY 4 9999d", PERSISTENT_RETRY, 4, YEAR_MS, "");
	is("RETRY 4 18446744073709551615", PERSISTENT_RETRY, 4, YEAR_MS, "");
	is("RETRY 4 18446744073709551616", PERSISTENT_RETRY, 4, -1, "18446744073709551616");
	is("RETRY 4 -1", PERSISTENT_RETRY, 4, -1, "-1");
	is("RETRY 4 5x", PERSISTENT_RETRY, 4, -1, "5x");
	is("RETRY 4 1.5s", PERSISTENT_RETRY, 4, -1, "1.5s");
	is("RETRY 4 5s5s", PERSISTENT_RETRY, 4, -1, "5s5s");
}

static void ends_and_blanks(void **state)
{
	(void)state;
	is("OK 1\r", PERSISTENT_OK, 1, -1, "");
	is("OK 1  ", PERSISTENT_OK, 1, -1, "");
	is("FAIL 1 why \r", PERSISTENT_FAIL, 1, -1, "why");
	is("FAIL 1   why", PERSISTENT_FAIL, 1, -1, "why");
	is("RETRY 1 5s\r", PERSISTENT_RETRY, 1, 5000, "");
}

static void any_bytes_in_a_reason(void **state)
{
	static const char line[] = "FAIL 9 a\0b\xff %n\t\x1b[2J";

	(void)state;
	assert_true(persistent_reply_parse(&reply, line, sizeof(line) - 1));
	assert_int_equal(reply.serial, 9);
	assert_int_equal(reply.reason_len, sizeof(line) - 1 - 7);
	assert_memory_equal(reply.reason, line + 7, reply.reason_len);
	assert_true(persistent_reply_parse(&reply, "RETRY 9 5\0s", 11));
	assert_int_equal(reply.delay_ms, -1);
}

/* Chatter must not acknowledge a message. */
static void no_answers(void **state)
{
	static const char *const lines[] = { "", "O", "OK", "OK ", "OK x", "OK 1x", "OK 1 done", "OK 200 requests served", "OK-1", "OK  1",
		" OK 1", "ok 1", "Ok 1", "OKAY 1", "OK +1", "OK -1", "OK 0x1", "OK 1.0", "OK 1,2", "OK 18446744073709551616",
		"OK 99999999999999999999999999", "BEAT", "BEAT 1 x", "RETRY", "RETRY ", "RETRY x", "RETRY 1x 5s", "FAIL", "FAIL why",
		"FAILED 1", "FAIL1", "FAIL 1why", "JOB 1 1 0", "DONE 1", "\n", "OK 1\n", "OK\t1", "OK 1\t" };

	(void)state;
	for (size_t i = 0; i < nitems(lines); i++)
		if (parse(lines[i]))
			fail_msg("taken for an answer: %s", lines[i]);
	assert_false(persistent_reply_parse(&reply, "OK 1\0", 5));
	assert_false(persistent_reply_parse(&reply, "OK\0001", 4));
}

/* Nothing a handler says reads too far or is taken for more than it is. */
static void random_lines(void **state)
{
	static const char *const pieces[] = { "OK ", "RETRY ", "FAIL ", "BEAT ", "1", "23", " ", "5s", "ms", "\r", "\xff", "x", "-", "999999999999" };

	(void)state;
	for (int round = 0; round < 20000; round++) {
		char line[128] = "";

		for (uint32_t n = arc4random_uniform(7); n > 0; n--)
			strcat(line, pieces[arc4random_uniform(nitems(pieces))]);
		if (!parse(line))
			continue;
		assert_true(reply.delay_ms >= -1 && reply.delay_ms <= YEAR_MS);
		assert_true(strlen(reply.reason) < strlen(line));
		if (reply.verdict == PERSISTENT_OK || reply.verdict == PERSISTENT_BEAT)
			assert_string_equal(reply.reason, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdicts),
		cmocka_unit_test(delays),
		cmocka_unit_test(ends_and_blanks),
		cmocka_unit_test(any_bytes_in_a_reason),
		cmocka_unit_test(no_answers),
		cmocka_unit_test(random_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
