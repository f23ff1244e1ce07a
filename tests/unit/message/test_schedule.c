/* The schedule in a wrapper: it is read again, and no line of another form has one. */
#include <stdio.h>
#include <string.h>

#include "common/message/line.h"
#include "tests/unit/message/parsing.h"
#include "tests/unit/unit.h"

static struct message_schedule read_line(const char *text)
{
	struct message_schedule s = { "before", 7 };
	struct message_line line;

	message_line_parse(&line, text, strlen(text));
	message_schedule_parse(&s, &line);
	return s;
}

TEST(a_schedule_is_read_again)
{
	struct wrapper w = { .attempts = 2, .schedule = { "nightly", 1764205200000 } };
	struct buffer wrapped = {0}, rewrapped = {0};
	struct message m = parse("body"), again;

	message_wrap(&wrapped, &keys, &m, &w);
	message_parse(&again, &keys, wrapped.data, wrapped.len);
	assert_string_equal(again.wrapper.schedule.name, "nightly");
	assert_int_equal(again.wrapper.schedule.at_ms, 1764205200000);
	assert_int_equal(again.wrapper.attempts, 2);
	message_wrap(&rewrapped, &keys, &again, &again.wrapper);		/* as a retry does */
	message_parse(&m, &keys, rewrapped.data, rewrapped.len);
	assert_string_equal(m.wrapper.schedule.name, "nightly");
	buffer_free(&wrapped);
	buffer_free(&rewrapped);
}

TEST(other_forms_are_no_schedule)
{
	static const char *const lines[] = { "quredis/1 attempts=1\n", "quredis/1 scheduled=5\n", "quredis/1 schedule=-x scheduled=5\n",
		"quredis/1 schedule= scheduled=5\n", "quredis/1 schedule=a scheduled=-5\n", "quredis/1 schedule=a scheduled=x\n" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_string_equal(read_line(lines[i]).name, "");
	assert_string_equal(read_line("quredis/1 schedule=a scheduled=5\n").name, "a");
	assert_int_equal(read_line("quredis/1 schedule=a scheduled=5\n").at_ms, 5);
}

int main(void)
{
	keys = sealed_learn("ingress:mail");
	return unit_run(NULL, forget_sealed_bytes);
}
