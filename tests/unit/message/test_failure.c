/* Why the last attempt of a message failed: what its wrapper keeps of it, and reads again. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/message/parsing.h"
#include "tests/unit/unit.h"

static struct buffer wrapped;

/* The wrapper of a message with this failure, as the next reader sees it. */
static struct wrapper read_again(const struct message_failure *f)
{
	struct wrapper w = { .attempts = 1, .failure = *f };
	struct message m = parse("body"), again;

	buffer_clear(&wrapped);
	message_wrap(&wrapped, &keys, &m, &w);
	message_parse(&again, &keys, wrapped.data, wrapped.len);
	assert_int_equal(message_payload_len(&again), 4);
	assert_int_equal(again.wrapper.attempts, 1);
	return again.wrapper;
}

static bool line_has(const char *text)
{
	return memmem(wrapped.data, wrapped.len, text, strlen(text)) != NULL;
}

static void assert_same(const struct message_failure *f)
{
	struct message_failure again = read_again(f).failure;

	assert_int_equal(again.at_ms, f->at_ms);
	assert_int_equal(again.exit_code, f->exit_code);
	assert_string_equal(again.class, f->class);
	assert_string_equal(again.signal, f->signal);
	assert_string_equal(again.text, f->text);
}

TEST(a_failure_is_read_again)
{
	struct message_failure f;

	message_failure_set(&f, 1700000000000, "HandlerExit", 1, NULL, "exit status 1: 450 4.2.1 <a@b.example>: try later");
	assert_same(&f);
	assert_true(line_has(" failed=1700000000000 class=HandlerExit exit=1 why=exit+20status+201:+20450+204.2.1+20+3ca+40b.example+3e:"));
	message_failure_set(&f, 1, "HandlerSignal", 0, "SIGKILL", "killed by SIGKILL");
	f.exit_code = -1;
	assert_same(&f);
	message_failure_set(&f, INT64_MAX, NULL, -7, NULL, NULL);
	assert_int_equal(f.exit_code, -1);
	assert_same(&f);
	message_failure_set(&f, 5, "", 255, "", "");
	assert_same(&f);
}

TEST(every_byte_of_a_text)
{
	struct message_failure f;
	char text[3] = "x?";

	for (int c = 1; c < 256; c++) {
		text[1] = (char)c;
		message_failure_set(&f, 1, "a", 0, NULL, text);
		assert_int_equal((unsigned char)f.text[1], c < ' ' || c == 127 ? ' ' : c);
		assert_same(&f);
	}
}

/* Names of classes come from handlers. */
TEST(a_name_keeps_only_bytes_of_values)
{
	struct message_failure f;
	char longest[200];

	message_failure_set(&f, 1, "a b=c\n\xff+/d", 0, "SIG KILL", "");
	assert_string_equal(f.class, "a_b_c____d");
	assert_string_equal(f.signal, "SIG_KILL");
	assert_same(&f);
	memset(longest, 'c', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	message_failure_set(&f, 1, longest, 0, longest, longest);
	assert_int_equal(strlen(f.class), MESSAGE_FAILURE_CLASS_MAX);
	assert_int_equal(strlen(f.signal), MESSAGE_FAILURE_SIGNAL_MAX);
	assert_int_equal(strlen(f.text), MESSAGE_FAILURE_TEXT_MAX);
	assert_same(&f);
}

TEST(a_long_text_ends_between_two_characters)
{
	struct message_failure f;
	char text[MESSAGE_FAILURE_TEXT_MAX + 8];

	memset(text, 'x', sizeof(text));
	memcpy(text + MESSAGE_FAILURE_TEXT_MAX - 2, "\xe2\x82\xac\xe2\x82", 5);
	text[sizeof(text) - 1] = '\0';
	message_failure_set(&f, 1, "a", 0, NULL, text);
	assert_int_equal(strlen(f.text), MESSAGE_FAILURE_TEXT_MAX - 2);
	memset(text, 0x80, sizeof(text) - 1);		/* no UTF-8 at all */
	message_failure_set(&f, 1, "a", 0, NULL, text);
	assert_true(strlen(f.text) <= MESSAGE_FAILURE_TEXT_MAX);
	assert_same(&f);
}

/* The longest line that quredis can write is still one line, with every other pair, also when Redis adds the time. */
TEST(the_longest_failure_fits_into_a_line)
{
	char text[MESSAGE_FAILURE_TEXT_MAX + 1], class[MESSAGE_FAILURE_CLASS_MAX + 1];
	struct wrapper w = { .attempts = INT32_MAX, .crashes = INT32_MAX, .redelivered = INT32_MAX, .outages = INT32_MAX, .solo = true, .own_ms = INT64_MAX,
		.redriven_ms = INT64_MAX, .first_failed_ms = INT64_MAX, .apart = true };
	struct message m = parse("x");
	struct message_stamp stamp;

	memset(text, 0xff, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	memset(class, 'c', sizeof(class));
	class[sizeof(class) - 1] = '\0';
	message_failure_set(&w.failure, INT64_MAX, class, INT32_MAX, "SIGVTALRMSIGVTALRM", text);
	buffer_clear(&wrapped);
	message_wrap(&wrapped, &keys, &m, &w);
	message_parse(&m, &keys, wrapped.data, wrapped.len);
	assert_int_equal(message_payload_len(&m), 1);
	assert_string_equal(m.wrapper.failure.text, text);
	message_stamp(&stamp, &keys, &w);
	assert_non_null(strstr(stamp.line, " apart=1"));
	assert_true(strlen(stamp.line) + strlen(" own=9223372036854775807 mac=") + SEAL_MAC_HEX + 1 <= MESSAGE_LINE_MAX);
}

/* Another version may write other values: the wrapper counts, and only the cause is not known. */
TEST(values_of_another_form)
{
	static const char *const lines[] = {
		" failed=-1", " failed=x class=a", " failed=99999999999999999999", " failed=1 exit=-1", " failed=1 exit=2147483648", " failed=1 exit=x",
		" failed=1 class=a+b", " failed=1 signal=SIG+KILL", " failed=1 class=ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
		" failed=1 why=+", " failed=1 why=+2", " failed=1 why=+zz", " failed=1 why=+2G", " failed=1 why=+00", " failed=1 why=+0a", " failed=1 why=+7f",
		" class=a why=b",
		" failed=1 why=1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char line[MESSAGE_LINE_MAX];
		struct message m;

		snprintf(line, sizeof(line), W " attempts=3%s\nbody", lines[i]);
		m = parse_sealed(line);
		assert_int_equal(message_payload_len(&m), 4);
		assert_int_equal(m.wrapper.attempts, 3);
		assert_int_equal(m.wrapper.failure.at_ms, 0);
		assert_string_equal(m.wrapper.failure.class, "");
		assert_string_equal(m.wrapper.failure.text, "");
	}
}

TEST(a_message_that_did_not_fail_has_none)
{
	struct wrapper w;

	w = read_again(&(struct message_failure){0});
	assert_int_equal(w.failure.at_ms, 0);
	assert_false(line_has(" failed="));
	assert_false(line_has(" exit="));
}

static int forget(void **state)
{
	buffer_free(&wrapped);
	return forget_sealed_bytes(state);
}

int main(void)
{
	keys = sealed_learn("ingress:mail");
	return unit_run(NULL, forget);
}
