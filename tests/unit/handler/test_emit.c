/* A handler emits any bytes, which arrive in any pieces, and whatever there is a reason to refuse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/handler/emit.h"
#include "tests/unit/unit.h"

static const struct conf_queue thumbs = { .name = "thumbs", .message_max = 8 }, mail = { .name = "mail", .shared = true, .message_max = 1000 };
static const struct conf_queue *targets[] = { &thumbs, &mail, NULL };
static char *names[] = { "thumbs", "mail", NULL };
static struct conf_queue conf;
static struct handler_emissions *e;
static struct handler_intake in;

static int begin(void **unused)
{
	(void)unused;
	conf = (struct conf_queue){ .mode = CONF_MODE_EXEC, .emit = { names, 3, 16, 20, targets } };
	in = (struct handler_intake){0};
	e = NULL;
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	handler_emissions_free(e);
	return 0;
}

static bool line(const char *text)
{
	struct handler_reply r;

	assert_int_equal(handler_reply_parse(&r, &conf, text, strlen(text)), HANDLER_LINE_REPLY);
	assert_int_equal(r.verb, VERB_EMIT);
	return handler_emit_begin(&e, &in, &conf, &r);
}

/* Returns how many bytes were taken. */
static size_t bytes(const char *data, size_t len)
{
	bool broken = false;
	size_t n = handler_emit_take(&in, e, data, len, &broken);

	assert_int_equal(broken, e->refused[0] != '\0' && strstr(e->refused, "newline") != NULL && !in.open);
	return n;
}

static void refused(const char *text, const char *why)
{
	begin(NULL);
	line(text);
	if (e->refused[0] == '\0' && in.open)
		bytes("0123456789012345\n", (size_t)in.left + 1);
	if (strcmp(e->refused, why) != 0)
		fail_msg("%s: %s", text, e->refused);
	assert_int_equal(e->n, 0);
	end(NULL);
	e = NULL;
}

TEST(bytes_arrive_in_pieces, begin, end)
{
	assert_true(line("EMIT thumbs 5"));
	assert_int_equal(bytes("ab", 2), 2);
	assert_int_equal(bytes("\n\0c\nEMIT", 8), 4);
	assert_false(in.open);
	assert_true(line("EMIT mail 0"));
	assert_int_equal(bytes("\n", 1), 1);
	assert_int_equal(e->n, 2);
	assert_int_equal(e->bytes.len, 5);
	assert_memory_equal(e->bytes.data, "ab\n\0c", 5);
	assert_int_equal(e->list[1].target, 1);
	assert_int_equal(e->list[1].len, 0);
	assert_string_equal(e->refused, "");
}

TEST(the_newline_may_come_alone, begin, end)
{
	assert_true(line("EMIT thumbs 2 delay=3s"));
	assert_int_equal(bytes("ab", 2), 2);
	assert_true(in.open);
	assert_int_equal(bytes("\nx", 2), 1);
	assert_false(in.open);
	assert_int_equal(e->list[0].delay_ms, 3000);
}

TEST(other_bytes_than_the_newline_stay, begin, end)
{
	assert_true(line("EMIT thumbs 2"));
	assert_int_equal(bytes("abcd\n", 5), 2);
	assert_false(in.open);
	assert_string_equal(e->refused, "EMIT: expected a newline behind the bytes of the message");
	assert_null(e->bytes.data);
}

TEST(each_reason)
{
	refused("EMIT tumbs 1", "EMIT: queue \"tumbs\" is not in emit.queues");
	refused("EMIT thumbs 9", "EMIT: a message of 9 bytes is longer than message_max = \"8\" of queue thumbs");
	refused("EMIT mail 1 delay=1s", "EMIT: queue mail is shared with other programs, so it has no delayed messages");
	refused("EMIT mail 21", "EMIT: more than emit.max_bytes = \"20\" in all");
	refused("EMIT", "EMIT: expected QUEUE LENGTH [delay=DURATION], not \"\"");
	refused("EMIT thumbs", "EMIT: expected QUEUE LENGTH [delay=DURATION], not \"thumbs\"");
	refused("EMIT thumbs -1", "EMIT: expected QUEUE LENGTH [delay=DURATION], not \"thumbs -1\"");
	refused("EMIT thumbs 1x", "EMIT: expected QUEUE LENGTH [delay=DURATION], not \"thumbs 1x\"");
	refused("EMIT thumbs 1 delay=soon", "EMIT: expected QUEUE LENGTH [delay=DURATION], not \"thumbs 1 delay=soon\"");
	refused("EMIT thumbs 1 delay=1s more", "EMIT: expected QUEUE LENGTH [delay=DURATION], not \"thumbs 1 delay=1s more\"");
	refused("EMIT thumbs 99999999999999999999", "EMIT: expected QUEUE LENGTH [delay=DURATION], not \"thumbs 99999999999999999999\"");
	refused("EMIT thumbs 536870913", "EMIT: expected QUEUE LENGTH [delay=DURATION], not \"thumbs 536870913\"");
}

TEST(what_follows_a_line_of_another_form_is_not_known, begin, end)
{
	assert_false(line("EMIT thumbs five"));
	assert_false(in.open);
}

TEST(what_is_refused_is_skipped, begin, end)
{
	assert_true(line("EMIT thumbs 1"));
	bytes("a\n", 2);
	assert_true(line("EMIT thumbs 10"));
	assert_null(e->bytes.data);
	assert_int_equal(bytes("OK 1234\nab\nEMIT", 15), 11);
	assert_true(line("EMIT thumbs 1"));
	assert_int_equal(bytes("a\n", 2), 2);
	assert_int_equal(e->n, 0);
	assert_non_null(strstr(e->refused, "10 bytes"));
}

TEST(no_more_than_max, begin, end)
{
	for (int i = 0; i < 3; i++) {
		assert_true(line("EMIT thumbs 6"));
		bytes("abcdef\n", 7);
	}
	assert_int_equal(e->n, 3);
	assert_true(line("EMIT thumbs 0"));
	assert_string_equal(e->refused, "EMIT: more than emit.max = 3 messages");
}

TEST(no_more_than_max_bytes, begin, end)
{
	for (int i = 0; i < 2; i++) {
		assert_true(line("EMIT thumbs 8"));
		bytes("abcdefgh\n", 9);
	}
	assert_true(line("EMIT thumbs 5"));
	assert_string_equal(e->refused, "EMIT: more than emit.max_bytes = \"20\" in all");
}

TEST(an_end_within_the_bytes_is_refused, begin, end)
{
	assert_true(line("EMIT thumbs 5"));
	bytes("ab", 2);
	handler_emit_end(&in, e);
	assert_string_equal(e->refused, "EMIT: the handler ended before the last byte of the message");
	assert_false(in.open);
}

TEST(the_contents_can_be_taken, begin, end)
{
	struct handler_emissions *taken;

	assert_true(line("EMIT thumbs 1"));
	bytes("a\n", 2);
	taken = handler_emissions_take(e);
	assert_int_equal(taken->n, 1);
	assert_int_equal(e->n, 0);
	assert_null(e->list);
	handler_emissions_free(taken);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
