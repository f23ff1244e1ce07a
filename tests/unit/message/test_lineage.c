/* Which message this one descends from: the wrapper says it, and no line of another form does. */
#include <stdio.h>
#include <string.h>

#include "common/message/line.h"
#include "tests/unit/message/parsing.h"
#include "tests/unit/unit.h"

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static struct message_lineage read_line(const char *text)
{
	struct message_lineage l = { 7, "before", "" };
	struct message_line line;

	message_line_parse(&line, text, strlen(text));
	message_lineage_parse(&l, &line);
	return l;
}

TEST(a_lineage_is_read_again)
{
	struct wrapper w = { .attempts = 2, .lineage = { 3, "order-7", PARENT } };
	struct buffer wrapped = {0}, rewrapped = {0};
	struct message m = parse("body"), again;

	assert_null(message_traceparent(&m));
	message_wrap(&wrapped, &keys, &m, &w);
	message_parse(&again, &keys, wrapped.data, wrapped.len);
	message_wrap(&rewrapped, &keys, &again, &again.wrapper);		/* as a retry does */
	message_parse(&m, &keys, rewrapped.data, rewrapped.len);
	assert_string_equal(m.wrapper.lineage.root, "order-7");
	assert_int_equal(m.wrapper.lineage.depth, 3);
	assert_int_equal(m.wrapper.attempts, 2);
	assert_string_equal(message_traceparent(&m), PARENT);
	buffer_free(&wrapped);
	buffer_free(&rewrapped);
}

TEST(the_traceparent_of_its_header_counts)
{
	static const char own[] = "quredis/1 traceparent=00-11111111111111111111111111111111-2222222222222222-00\nbody";
	struct wrapper w = { .lineage = { 1, "order-7", PARENT } };
	struct buffer wrapped = {0};
	struct message m = parse(own), again;

	message_wrap(&wrapped, &keys, &m, &w);
	message_parse(&again, &keys, wrapped.data, wrapped.len);
	assert_string_equal(message_traceparent(&again), "00-11111111111111111111111111111111-2222222222222222-00");
	buffer_free(&wrapped);
}

TEST(other_forms_are_no_lineage)
{
	static const char *const lines[] = { "quredis/1 attempts=1\n", "quredis/1 depth=5\n", "quredis/1 root=a\n", "quredis/1 root=-x depth=5\n",
		"quredis/1 root= depth=5\n", "quredis/1 root=a depth=0\n", "quredis/1 root=a depth=-5\n", "quredis/1 root=a depth=1000001\n" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_equal(read_line(lines[i]).depth, 0);
		assert_string_equal(read_line(lines[i]).root, "");
	}
	assert_int_equal(read_line("quredis/1 root=a depth=5\n").depth, 5);
	assert_string_equal(read_line("quredis/1 root=a depth=5\n").root, "a");
	assert_string_equal(read_line("quredis/1 root=a depth=5 traceparent=x\n").traceparent, "");
}

/* Any program may have written a record. */
TEST(values_of_a_record_are_read)
{
	static const char *const others[][3] = { { "", "5", "" }, { "a", "", "" }, { "a", "0", "" }, { "a", "1000001", "" }, { "-a", "1", "" },
		{ "a depth=7", "1", "" }, { "a\n", "1", "" }, { "a", "1 root=b", "" } };
	struct message_lineage l;

	message_lineage_read(&l, "order-7", "3", PARENT);
	assert_string_equal(l.root, "order-7");
	assert_int_equal(l.depth, 3);
	assert_string_equal(l.traceparent, PARENT);
	message_lineage_read(&l, "order-7", "3", "");
	assert_int_equal(l.depth, 3);
	assert_string_equal(l.traceparent, "");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		l.depth = 9;
		message_lineage_read(&l, others[i][0], others[i][1], others[i][2]);
		assert_int_equal(l.depth, 0);
		assert_string_equal(l.root, "");
	}
}

static struct message_failure longest_failure(void)
{
	struct message_failure f = { .at_ms = INT64_MAX, .exit_code = INT32_MAX };

	memset(f.class, 'c', sizeof(f.class) - 1);
	memset(f.signal, 'S', sizeof(f.signal) - 1);
	memset(f.text, ' ', sizeof(f.text) - 1);
	return f;
}

/* A line that is too long would be payload. The first one is of a message that was emitted, the other one of a schedule. */
TEST(the_longest_line_leaves_room)
{
	struct wrapper w = { .attempts = 1000000, .crashes = 1000000, .redelivered = 1000000, .outages = 1000000, .solo = true,
		.fresh = true, .own_ms = INT64_MAX, .redriven_ms = INT64_MAX, .first_failed_ms = INT64_MAX, .apart = true,
		.lineage = { MESSAGE_DEPTH_MAX, "", PARENT }, .failure = longest_failure() };
	struct buffer line = {0};

	memset(w.lineage.root, 'r', sizeof(w.lineage.root) - 1);
	memset(w.schedule.name, 's', sizeof(w.schedule.name) - 1);
	w.schedule.at_ms = INT64_MAX;
	for (int i = 0; i < 2; i++) {
		buffer_clear(&line);
		message_wrapper(&line, &keys, &w);
		assert_in_range(line.len, 500, MESSAGE_LINE_MAX - 40);
		w.lineage.depth = 0;
	}
	buffer_free(&line);
}

int main(void)
{
	keys = sealed_learn("ingress:mail");
	return unit_run(NULL, forget_sealed_bytes);
}
