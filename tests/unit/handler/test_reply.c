/* What is a reply, and what only looks like one, in both modes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "common/base/nitems.h"
#include "common/handler/reply.h"
#include "tests/unit/unit.h"

#define YEAR_MS (INT64_C(365) * 24 * 3600 * 1000)

static struct handler_reply reply;
static struct conf_queue conf = { .mode = CONF_MODE_PERSISTENT };
static const struct conf_queue exec = { .mode = CONF_MODE_EXEC }, stays = { .mode = CONF_MODE_PERSISTENT };

/* A number where the token of a job stands becomes a token, as lines with short numbers are easier to read. */
static const char *with_token(const char *line)
{
	static char out[8192];
	size_t word = strcspn(line, " "), digits = line[word] == '\0' ? 0 : strspn(line + word + 1, "0123456789");
	const char *behind = line + word + 1 + digits;

	if (conf.mode == CONF_MODE_EXEC || digits == 0 || digits > HANDLER_TOKEN_LEN || strchr(" \r", *behind) == NULL)
		return line;
	snprintf(out, sizeof(out), "%.*s %0*llu%s", (int)word, line, HANDLER_TOKEN_LEN, strtoull(line + word + 1, NULL, 10), behind);
	return out;
}

static unsigned long long token_of(const struct handler_reply *r)
{
	char text[HANDLER_TOKEN_LEN + 1] = "";

	if (r->token != NULL)
		memcpy(text, r->token, HANDLER_TOKEN_LEN);
	return strtoull(text, NULL, 10);
}

static enum handler_line parse(const char *short_line)
{
	const char *line = with_token(short_line);
	size_t len = strlen(line);
	char *exact = malloc(len == 0 ? 1 : len);	/* so that a sanitizer sees a byte too far */
	static char reason[4096], token[HANDLER_TOKEN_LEN];
	enum handler_line what;

	memcpy(exact, line, len);
	what = handler_reply_parse(&reply, &conf, exact, len);
	if (what == HANDLER_LINE_REPLY) {
		memcpy(reason, reply.reason, reply.reason_len);
		reason[reply.reason_len] = '\0';
		reply.reason = reason;
	}
	if (what != HANDLER_LINE_OUTPUT && reply.token != NULL)
		reply.token = memcpy(token, reply.token, sizeof(token));
	free(exact);
	return what;
}

static void is(const char *line, enum handler_verb verb, uint64_t serial, int64_t delay_ms, const char *reason)
{
	if (parse(line) != HANDLER_LINE_REPLY)
		fail_msg("no reply: %s", line);
	if (reply.verb != verb || token_of(&reply) != serial || reply.delay_ms != delay_ms || strcmp(reply.reason, reason) != 0)
		fail_msg("%s: verb %d serial %llu delay %lld reason %s", line, reply.verb, token_of(&reply),
		    (long long)reply.delay_ms, reply.reason);
}

static int begin_persistent(void **state)
{
	(void)state;
	conf.mode = CONF_MODE_PERSISTENT;
	return 0;
}

static int begin_exec(void **state)
{
	(void)state;
	conf.mode = CONF_MODE_EXEC;
	return 0;
}

TEST(verdicts, begin_persistent)
{
	is("OK 1", VERB_OK, 1, -1, "");
	is("OK 0", VERB_OK, 0, -1, "");
	is("OK 007", VERB_OK, 7, -1, "");
	is("OK 9007199254740991", VERB_OK, 9007199254740991, -1, "");
	is("BEAT 12", VERB_BEAT, 12, -1, "");
	is("FAIL 3", VERB_FAIL, 3, -1, "");
	is("FAIL 3 no such user", VERB_FAIL, 3, -1, "no such user");
	is("FAIL 3 5s late", VERB_FAIL, 3, -1, "5s late");
	is("REJECT 3", VERB_REJECT, 3, -1, "");
	is("REJECT 3 no mail", VERB_REJECT, 3, -1, "no mail");
	is("HOLD 4", VERB_HOLD, 4, -1, "");
	is("HOLD 4 30s too many requests", VERB_HOLD, 4, 30000, "too many requests");
	is("HOLD 4 class=Busy", VERB_HOLD, 4, -1, "class=Busy");
	is("RETRY 4", VERB_RETRY, 4, -1, "");
	is("RETRY 4 mail server away", VERB_RETRY, 4, -1, "mail server away");
}

TEST(delays, begin_persistent)
{
	is("RETRY 4 5s", VERB_RETRY, 4, 5000, "");
	is("RETRY 4 250ms", VERB_RETRY, 4, 250, "");
	is("RETRY 4 2m greylisted, they say", VERB_RETRY, 4, 120000, "greylisted, they say");
	is("RETRY 4 0", VERB_RETRY, 4, 0, "");
	is("RETRY 4 30", VERB_RETRY, 4, 30000, "");
	is("RETRY 4 30   why", VERB_RETRY, 4, 30000, "why");
	is("RETRY 4 3h", VERB_RETRY, 4, 3 * 3600 * 1000, "");
	is("RETRY 4 9999d", VERB_RETRY, 4, YEAR_MS, "");
	is("RETRY 4 18446744073709551615", VERB_RETRY, 4, YEAR_MS, "");
	is("RETRY 4 18446744073709551616", VERB_RETRY, 4, YEAR_MS, "");
	is("RETRY 4 99999999999999999999999999 x", VERB_RETRY, 4, YEAR_MS, "x");
	is("RETRY 4 18446744073709551616y", VERB_RETRY, 4, -1, "18446744073709551616y");
	is("RETRY 4 -1", VERB_RETRY, 4, -1, "-1");
	is("RETRY 4 5x", VERB_RETRY, 4, -1, "5x");
	is("RETRY 4 1.55s", VERB_RETRY, 4, -1, "1.55s");
	is("RETRY 4 5s5s", VERB_RETRY, 4, -1, "5s5s");
}

TEST(ends_and_blanks, begin_persistent)
{
	is("OK 1\r", VERB_OK, 1, -1, "");
	is("OK 1  ", VERB_OK, 1, -1, "");
	is("FAIL 1 why \r", VERB_FAIL, 1, -1, "why");
	is("FAIL 1   why", VERB_FAIL, 1, -1, "why");
	is("RETRY 1 5s\r", VERB_RETRY, 1, 5000, "");
}

static void has_class(const char *line, const char *class, const char *reason)
{
	if (parse(line) != HANDLER_LINE_REPLY)
		fail_msg("no reply: %s", line);
	if (reply.class_len != strlen(class) || strcmp(reply.reason, reason) != 0)
		fail_msg("%s: a class of %zu bytes, reason %s", line, reply.class_len, reason);
}

TEST(classes, begin_persistent)
{
	static const char most[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
	static const char line[] = "FAIL 1234567890123456 class=smtp.Server:Gone_9-x away";
	char longest[128];

	assert_int_equal(handler_reply_parse(&reply, &conf, line, strlen(line)), HANDLER_LINE_REPLY);
	assert_memory_equal(reply.class, "smtp.Server:Gone_9-x", 20);
	has_class("FAIL 1 class=a", "a", "");
	has_class("FAIL 1 class=a  why class=b", "a", "why class=b");
	has_class("REJECT 1 class=a why", "a", "why");
	has_class("RETRY 1 5s class=a why", "a", "why");
	has_class("RETRY 1 class=a 5s", "a", "5s");
	has_class("FAIL 1 why class=a", "", "why class=a");
	has_class("FAIL 1 class= why", "", "class= why");
	has_class("FAIL 1 class=--all why", "", "class=--all why");
	has_class("FAIL 1 class=.. why", "", "class=.. why");
	has_class("FAIL 1 class", "", "class");
	has_class("FAIL 1 classy", "", "classy");
	has_class("FAIL 1 class=a/b why", "", "class=a/b why");
	has_class("FAIL 1 class=\xc3\xa9 why", "", "class=\xc3\xa9 why");
	has_class("FAIL 1 class=a\tb", "", "class=a\tb");
	has_class("FAIL 1 class=a\x1b[2J", "", "class=a\x1b[2J");
	snprintf(longest, sizeof(longest), "FAIL 1 class=%s", most);
	has_class(longest, most, "");
	snprintf(longest, sizeof(longest), "FAIL 1 class=%sx", most);
	has_class(longest, "", longest + strlen("FAIL 1 "));
	assert_int_equal(handler_reply_parse(&reply, &conf, "FAIL 1234567890123456 class=a\0b", 31), HANDLER_LINE_REPLY);
	assert_int_equal(reply.class_len, 0);
}

/* A handler tells how the process of one message ended. */
TEST(told_ends, begin_persistent)
{
	static const struct { const char *line; bool ended; int signal, code; const char *reason; } cases[] = {
		{ "FAIL 1 signal=SIGSEGV", true, SIGSEGV, -1, "" },
		{ "FAIL 1 signal=SIGKILL  out of memory", true, SIGKILL, -1, "out of memory" },
		{ "FAIL 1 class=a signal=SIGKILL", false, 0, 0, "signal=SIGKILL" },
		{ "FAIL 1 exit_code=3 why", true, 0, 3, "why" },
		{ "FAIL 1 exit_code=0", true, 0, 0, "" },
		{ "FAIL 1 exit_code=256", false, 0, 0, "exit_code=256" },
		{ "FAIL 1 exit_code= why", false, 0, 0, "exit_code= why" },
		{ "FAIL 1 exit_code=3x", false, 0, 0, "exit_code=3x" },
		{ "FAIL 1 signal=SEGV", false, 0, 0, "signal=SEGV" },
		{ "FAIL 1 why signal=SIGSEGV", false, 0, 0, "why signal=SIGSEGV" },
		{ "REJECT 1 signal=SIGSEGV", false, 0, 0, "signal=SIGSEGV" },
	};

	for (size_t i = 0; i < nitems(cases); i++) {
		assert_int_equal(parse(cases[i].line), HANDLER_LINE_REPLY);
		assert_int_equal(reply.ended, cases[i].ended);
		assert_string_equal(reply.reason, cases[i].reason);
		if (!reply.ended)
			continue;
		assert_int_equal(reply.signal, cases[i].signal);
		assert_int_equal(reply.code, cases[i].code);
	}
}

TEST(ready, begin_persistent)
{
	assert_int_equal(parse("READY"), HANDLER_LINE_READY);
	assert_int_equal(parse("READY \r"), HANDLER_LINE_READY);
	assert_int_equal(parse("READY now"), HANDLER_LINE_OUTPUT);
	assert_int_equal(parse("ready"), HANDLER_LINE_OUTPUT);
}

TEST(progress, begin_persistent)
{
	static const char *const bad[] = { "PROGRESS 1", "PROGRESS 1 ", "PROGRESS 1 x", "PROGRESS 1 101", "PROGRESS 1 -1", "PROGRESS 1 4x",
		"PROGRESS 1 40%%",
		"PROGRESS 1 18446744073709551657", "PROGRESS 1 1e1" };

	is("PROGRESS 1 40", VERB_PROGRESS, 1, -1, "");
	assert_int_equal(reply.percent, 40);
	is("PROGRESS 1 0 class=a begun", VERB_PROGRESS, 1, -1, "class=a begun");
	assert_int_equal(reply.percent, 0);
	is("PROGRESS 1 100% done", VERB_PROGRESS, 1, -1, "done");
	assert_int_equal(reply.percent, 100);
	for (size_t i = 0; i < nitems(bad); i++)
		if (parse(bad[i]) != HANDLER_LINE_OUTPUT)
			fail_msg("no output: %s", bad[i]);
	assert_int_equal(handler_reply_parse(&reply, &exec, "PROGRESS 7 of 9", 15), HANDLER_LINE_REPLY);
	assert_int_equal(reply.percent, 7);
}

TEST(any_bytes_in_a_reason, begin_persistent)
{
	static const char line[] = "FAIL 1234567890123456 a\0b\xff %n\t\x1b[2J";

	assert_int_equal(handler_reply_parse(&reply, &conf, line, sizeof(line) - 1), HANDLER_LINE_REPLY);
	assert_int_equal(token_of(&reply), 1234567890123456);
	assert_int_equal(reply.reason_len, sizeof(line) - 1 - 22);
	assert_memory_equal(reply.reason, line + 22, reply.reason_len);
	assert_int_equal(handler_reply_parse(&reply, &conf, "RETRY 1234567890123456 5\0s", 26), HANDLER_LINE_REPLY);
	assert_int_equal(reply.delay_ms, -1);
}

/* Chatter must not acknowledge a message. */
TEST(no_replies, begin_persistent)
{
	static const char *const lines[] = { "", "O", "OK", "OK ", "OK x", "OK 1x", "OK 1 done", "OK 200 requests served", "OK-1", "OK  1",
		" OK 1", "ok 1", "Ok 1", "OK +1", "OK -1", "OK 0x1", "OK 1.0", "OK 1,2", "OK 18446744073709551616",
		"OK 99999999999999999999999999", "BEAT", "BEAT 1 x", "RETRY", "RETRY ", "RETRY x", "RETRY 1x 5s", "FAIL", "FAIL why",
		"FAIL1", "FAIL 1why", "REJECT", "REJECT why", "\n", "OK 1\n", "OK\t1", "OK 1\t", "DEBUG it works", "A 1",
		"ABCDEFGHIJKLMNOPQ 1", "EMIT" };

	for (size_t i = 0; i < nitems(lines); i++)
		if (parse(lines[i]) != HANDLER_LINE_OUTPUT)
			fail_msg("no output: %s", lines[i]);
	assert_int_equal(handler_reply_parse(&reply, &conf, "OK 1234567890123456\0", 20), HANDLER_LINE_OUTPUT);
	assert_int_equal(handler_reply_parse(&reply, &conf, "OK\0001", 4), HANDLER_LINE_OUTPUT);
}

/* A verb of a later version, whose bytes may follow. */
TEST(unknown_verbs, begin_persistent)
{
	static const char *const lines[] = { "EMIT 1 mail 300", "DONE 1", "JOB 1 1 0", "FAILED 1", "OKAY 1", "EMIT 1", "EMIT 1\r", "ABCDEFGHIJKLMNOP 1" };

	for (size_t i = 0; i < nitems(lines); i++)
		if (parse(lines[i]) != HANDLER_LINE_UNKNOWN)
			fail_msg("not unknown: %s", lines[i]);
}

static const struct conf_queue *no_targets[] = { NULL };

static void emits(const char *line, const char *queue, int64_t length, int64_t delay_ms)
{
	assert_int_equal(parse(line), HANDLER_LINE_REPLY);
	if (reply.verb != VERB_EMIT || reply.queue_len != strlen(queue) || reply.length != length || reply.delay_ms != delay_ms)
		fail_msg("%s: %zu %lld %lld", line, reply.queue_len, (long long)reply.length, (long long)reply.delay_ms);
}

TEST(emissions, begin_persistent)
{
	conf.emit.targets = no_targets;
	emits("EMIT 1 mail 300", "mail", 300, -1);
	emits("EMIT 1 mail 0\r", "mail", 0, -1);
	emits("EMIT 1  mail   67108864  delay=250ms ", "mail", CONF_EMIT_BYTES_MAX, 250);
	emits("EMIT 1 mail 7 delay=30", "mail", 7, 30000);
	emits("EMIT 1 mail 67108865", "mail", -1, -1);
	emits("EMIT 1 mail", "mail", -1, -1);
	emits("EMIT 1", "", -1, -1);
	assert_int_equal(parse("EMIT mail 300"), HANDLER_LINE_OUTPUT);		/* of no job */
	assert_int_equal(parse("DONE 1"), HANDLER_LINE_UNKNOWN);
	conf.mode = CONF_MODE_EXEC;
	emits("EMIT mail 300", "mail", 300, -1);
	emits("EMIT 300", "300", -1, -1);
	conf.emit.targets = NULL;
	assert_int_equal(parse("EMIT mail 300"), HANDLER_LINE_UNKNOWN);
}

TEST(lines_of_the_log, begin_persistent)
{
	is("LOG 1", VERB_LOG, 1, -1, "");
	is("LOG 1   indented class=a  ", VERB_LOG, 1, -1, "  indented class=a");
	conf.mode = CONF_MODE_EXEC;
	assert_int_equal(parse("LOG text"), HANDLER_LINE_UNKNOWN);
}

/* ---- exec mode: no serial ---- */

TEST(verbs_of_exec, begin_exec)
{
	is("RETRY", VERB_RETRY, 0, -1, "");
	is("RETRY\r", VERB_RETRY, 0, -1, "");
	is("RETRY 30s", VERB_RETRY, 0, 30000, "");
	is("RETRY 30s mail server away", VERB_RETRY, 0, 30000, "mail server away");
	is("RETRY mail server away", VERB_RETRY, 0, -1, "mail server away");
	is("FAIL", VERB_FAIL, 0, -1, "");
	is("FAIL  7 of 8 sent ", VERB_FAIL, 0, -1, "7 of 8 sent");
	is("REJECT no mail", VERB_REJECT, 0, -1, "no mail");
	is("BEAT", VERB_BEAT, 0, -1, "");
	has_class("FAIL class=a why", "a", "why");
	has_class("RETRY 30s class=a", "a", "");
}

TEST(other_lines_of_exec, begin_exec)
{
	static const char *const unknown[] = { "OK", "OK 1", "EMIT mail 300", "REJCT no mail", "DONE" };
	static const char *const output[] = { "", "reject", "Reject it", "BEAT 1", "REJECT:", "REJECT\tno mail", " REJECT", "X", "\xff" };

	for (size_t i = 0; i < nitems(unknown); i++)
		if (parse(unknown[i]) != HANDLER_LINE_UNKNOWN)
			fail_msg("not unknown: %s", unknown[i]);
	for (size_t i = 0; i < nitems(output); i++)
		if (parse(output[i]) != HANDLER_LINE_OUTPUT)
			fail_msg("no output: %s", output[i]);
	assert_int_equal(handler_reply_parse(&reply, &conf, "FAIL\0", 5), HANDLER_LINE_OUTPUT);
}

/* ---- hostile lines ---- */

TEST(a_nul_does_not_end_a_reason)
{
	static const char line[] = "FAIL 1234567890123456 class=A\0B no such user";
	char text[HANDLER_REASON_SHOWN + 16], narrow[8];

	assert_int_equal(handler_reply_parse(&reply, &stays, line, sizeof(line) - 1), HANDLER_LINE_REPLY);
	assert_int_equal(reply.class_len, 0);
	handler_reply_describe(&reply, text, sizeof(text));
	assert_string_equal(text, "FAIL: class=A?B no such user");
	handler_reply_describe(&reply, narrow, sizeof(narrow));
	assert_string_equal(narrow, "FAIL: c");
}

TEST(a_line_of_a_mebibyte)
{
	size_t len = 1 << 20;
	char *line = malloc(len);
	char text[HANDLER_REASON_SHOWN + 16];

	memset(line, 'x', len);
	memcpy(line, "FAIL 1234567890123456 ", 22);
	assert_int_equal(handler_reply_parse(&reply, &stays, line, len), HANDLER_LINE_REPLY);
	assert_int_equal(reply.reason_len, len - 22);
	handler_reply_describe(&reply, text, sizeof(text));
	assert_int_equal(strlen(text), strlen("FAIL: ") + HANDLER_REASON_SHOWN);
	memset(line, 'A', len);
	assert_int_equal(handler_reply_parse(&reply, &exec, line, len), HANDLER_LINE_OUTPUT);
	memset(line, '9', len);
	memcpy(line, "RETRY ", 6);
	assert_int_equal(handler_reply_parse(&reply, &exec, line, len), HANDLER_LINE_REPLY);
	assert_int_equal(reply.delay_ms, YEAR_MS);
	free(line);
}

/* Nothing a handler says reads too far or is taken for more than it is. */
/* The mistakes of first handlers, and what looks like an answer. */
TEST(lines_that_are_no_answers)
{
	static const struct {
		const char *line, *mistake;
		bool like;
	} of[] = {
		{ "ok 4", " (answers are in capitals)", false },
		{ "Ok", " (answers are in capitals)", false },
		{ "OK 4", " (it names no unanswered job, or is malformed)", true },
		{ "REJECT 1234567890123456 why", " (it names no unanswered job, or is malformed)", true },
		{ "DONE 7", "", true },
		{ "OK", " (it names no unanswered job, or is malformed)", false },
		{ "OK x", " (it names no unanswered job, or is malformed)", false },
		{ "OK 4x", " (it names no unanswered job, or is malformed)", false },
		{ "sent", "", false },
		{ "", "", false },
	};

	for (size_t i = 0; i < nitems(of); i++) {
		assert_string_equal(handler_reply_mistake(of[i].line, strlen(of[i].line)), of[i].mistake);
		assert_int_equal(handler_reply_is_like(of[i].line, strlen(of[i].line)), of[i].like);
	}
}

TEST(an_unknown_verb_is_a_failure)
{
	char reason[HANDLER_REASON_SHOWN];
	const char *line = "REJCT 1234567890123456 no mail";

	handler_reply_unknown(&reply, &stays, line, strlen(line), reason);
	assert_int_equal(reply.verb, VERB_FAIL);
	assert_int_equal(reply.class_len, 0);
	assert_string_equal(reply.reason, "unknown verb: expected OK, RETRY, FAIL, REJECT, HOLD, BEAT, PROGRESS or LOG (did you mean REJECT?): "
	    "REJCT 1234567890123456 no mail");
	assert_int_equal(reply.reason_len, strlen(reply.reason));
}

TEST(random_lines)
{
	static const char *const pieces[] = { "OK ", "RETRY ", "FAIL ", "REJECT ", "BEAT ", "EMIT ",
		"1", "23", " ", "5s", "ms", "\r", "\xff", "x", "-", "999999999999" };

	for (int round = 0; round < 20000; round++) {
		char line[128] = "";

		for (uint32_t n = arc4random_uniform(7); n > 0; n--)
			strcat(line, pieces[arc4random_uniform(nitems(pieces))]);
		conf.mode = round % 2 == 0 ? CONF_MODE_PERSISTENT : CONF_MODE_EXEC;
		if (parse(line) != HANDLER_LINE_REPLY)
			continue;
		assert_true(reply.delay_ms >= -1 && reply.delay_ms <= YEAR_MS);
		assert_true(strlen(reply.reason) < strlen(line));
		if (reply.verb == VERB_OK || reply.verb == VERB_BEAT)
			assert_string_equal(reply.reason, "");
	}
}

UNIT_MAIN(NULL, NULL)
