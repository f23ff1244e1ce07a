/* links: tests/unit/file_text.c tests/unit/persistent/persistent_loop.c tests/unit/persistent/scripted_handler.c */
/* Handlers that stay print beside their answers: of which message is it? */
#include <poll.h>
#include <stdio.h>

#include "tests/unit/persistent/persistent_loop.h"
#include "tests/unit/persistent/scripted_handler.h"
#include "tests/unit/unit.h"

TEST(stderr_of_the_job, loop_begin, loop_end)
{
	loop_start();
	loop_give("err ready\nsay OK @");
	loop_until_answers(1);
	loop_give("err no such user\nsay FAIL @");
	loop_until_answers(2);
	assert_string_equal(loop.got[1].stderr_tail, "no such user\n");
	loop_give("say FAIL @");
	loop_until_answers(3);
	assert_string_equal(loop.got[2].stderr_tail, "");
	loop_give("err oops\nexit 1");
	loop_until_end();
	assert_string_equal(loop.end_stderr, "oops\n");
	loop_logged("id=sha1:");
	loop_logged("stream=stderr line=ready\n");
}

/* The handler writes to stderr before it answers, so that is in the pipe when the answer is. */
TEST(stderr_comes_with_the_answer, loop_begin, loop_end)
{
	struct pollfd p[PERSISTENT_POLLFDS], replies;
	size_t n;

	loop_start();
	loop_give("err no such user\nsay FAIL @");
	persistent_flush(loop.p);
	n = persistent_pollfds(loop.p, p);
	assert_int_equal(n, 3);
	replies = p[1];
	assert_int_equal(poll(&replies, 1, LOOP_HANG_MS), 1);
	persistent_io(loop.p, &replies, 1, loop.now_ms);
	loop_take_all();
	assert_int_equal(loop.ngot, 1);
	assert_string_equal(loop.got[0].stderr_tail, "no such user\n");
	loop_drain();
}

static void said(uint64_t serial, const char *line)
{
	char want[256];

	snprintf(want, sizeof(want), "id=%s stream=stderr line=%s\n", message_id(&loop.messages[serial]), line);
	loop_logged(want);
}

/* The answers, and no other descriptor, until there are n. */
static void read_answers(int n)
{
	struct pollfd p[PERSISTENT_POLLFDS];

	persistent_flush(loop.p);
	while (loop.ngot < n) {
		persistent_pollfds(loop.p, p);
		assert_int_equal(poll(&p[1], 1, LOOP_HANG_MS), 1);
		assert_true(persistent_read(loop.p, loop.now_ms));
		loop_take_all();
	}
}

TEST(output_of_one_job_after_the_other, loop_begin, loop_end)
{
	loop_start();
	loop_give("err first\nerrpart half\nsay OK @");
	read_answers(1);
	loop_give("err second\nsay FAIL @");
	read_answers(2);
	assert_string_equal(loop.got[1].stderr_tail, "second\n");
	loop_give("errpart third\nsay FAIL @");
	read_answers(3);
	assert_string_equal(loop.got[2].stderr_tail, "third");
	said(1, "first");
	said(1, "half");
	said(2, "second");
	said(3, "third");
	loop_drain();
}

TEST(output_of_several_jobs_is_of_none, loop_begin, loop_end)
{
	loop.conf.window = 2;
	loop_start();
	loop_give("err first\nhold");
	loop_give("err second\nsay FAIL @");
	loop_until_answers(1);
	assert_string_equal(loop.got[0].stderr_tail, "");
	loop_give("errpart third\nsay FAIL @\nrelease");
	loop_until_answers(3);
	assert_string_equal(loop.got[1].stderr_tail, "");
	loop_give("err fourth\nsay FAIL @");
	loop_until_answers(4);
	assert_string_equal(loop.got[3].stderr_tail, "fourth\n");
	loop_logged(" worker=mail/2 stream=stderr line=first\n");
	loop_logged(" worker=mail/2 stream=stderr line=second\n");
	loop_logged(" worker=mail/2 stream=stderr line=third\n");
	said(4, "fourth");
	loop_drain();
}

/* The process had read one message, so no other can be the one that it spoke of. */
TEST(last_words_before_the_other_job_was_read, loop_begin, loop_end)
{
	loop.conf.window = 2;
	loop_start();
	loop_give("err oops\nexit 1");
	loop_give("say OK @");
	loop_until_end();
	assert_string_equal(loop.end_stderr, "oops\n");
}

/* A handler that works on several jobs at once says of which one it speaks. */
TEST(a_line_of_the_log_names_its_job, loop_begin, loop_end)
{
	loop.conf.window = 3;
	loop_start();
	loop_give("err first\nhold");
	loop_give("err second\nsay LOG @ Trace:\nsay LOG @   line 1\nsay FAIL @");
	loop_give("say FAIL @\nrelease\nsay LOG @ late");
	loop_until_answers(3);
	assert_string_equal(loop.got[0].stderr_tail, "Trace:\n  line 1\n");
	assert_string_equal(loop.got[1].stderr_tail, "");
	said(2, "Trace:");
	said(2, "\"  line 1\"");
	loop_drain();
	loop_not_logged("late");
}

/* Two jobs speak in turn, and are answered in one order or the other. Each record has what was said about its job. */
TEST(jobs_that_speak_in_turn_keep_their_lines, loop_begin, loop_end)
{
	loop.conf.window = 2;
	loop_start();
	loop_give("say LOG @ a1\nsay LOG @ a2\nhold");
	loop_give("say LOG @ b1\nsay LOG @ b2\nhold\nrefuse");
	loop_until_answers(2);
	loop_got(0, 1, VERB_FAIL, -1, "");
	assert_string_equal(loop.got[0].stderr_tail, "a1\na2\n");
	assert_string_equal(loop.got[1].stderr_tail, "b1\nb2\n");
	loop_give("say LOG @ c\nhold");
	loop_give("say LOG @ d\nsay FAIL @\nrefuse");
	loop_until_answers(4);
	loop_got(2, 4, VERB_FAIL, -1, "");
	assert_string_equal(loop.got[2].stderr_tail, "d\n");
	assert_string_equal(loop.got[3].stderr_tail, "c\n");
	loop_give("say LOG @ lost\nsay OK @");
	loop_give("say FAIL @");
	loop_until_answers(6);
	assert_string_equal(loop.got[5].stderr_tail, "");
	loop_drain();
}

/* The handler prints a line of an unknown job behind a LOG, and the record of that job keeps its own line. */
TEST(stderr_between_takes_no_line_from_a_job, loop_begin, loop_end)
{
	loop.conf.window = 3;
	loop_start();
	loop_give("say LOG @ Trace:\nhold");
	loop_until_logged("line=Trace:\n");
	loop_give("err noise\nhold");
	loop_until_logged("line=noise\n");
	loop_give("hold\nrefuse");
	loop_until_answers(3);
	assert_string_equal(loop.got[0].stderr_tail, "Trace:\n");
	assert_string_equal(loop.got[1].stderr_tail, "");
	assert_string_equal(loop.got[2].stderr_tail, "");
	loop_drain();
}

TEST(a_job_alone_keeps_stderr_beside_its_lines, loop_begin, loop_end)
{
	loop_start();
	loop_give("err before\nsay LOG @ Trace:\nerr after\nsay FAIL @");
	loop_until_answers(1);
	assert_non_null(strstr(loop.got[0].stderr_tail, "before\n"));
	assert_non_null(strstr(loop.got[0].stderr_tail, "Trace:\n"));
	assert_non_null(strstr(loop.got[0].stderr_tail, "after\n"));
	loop_drain();
}

/* A trace is as long as its writer likes. Of one without an end the record has the end, as of stderr. */
static void keeps(int64_t stderr_tail, const char *want)
{
	loop_end(NULL);
	loop_begin(NULL);
	loop.conf.window = 2;
	loop.conf.stderr_tail = stderr_tail;
	loop_start();
	loop_give("say LOG @ 0\nsay LOG @ 123456789abc\nsay LOG @ def\nhold");
	loop_give("say LOG @ other\nhold\nrefuse");
	loop_until_answers(2);
	assert_string_equal(loop.got[0].stderr_tail, want);
	loop_drain();
}

TEST(of_many_lines_a_job_keeps_the_last_bytes, loop_begin, loop_end)
{
	keeps(10, "89abc\ndef\n");
	keeps(3, "ef\n");
	keeps(0, "");
}

/* The process ends before it has answered the job that it spoke of. */
TEST(last_lines_of_the_oldest_job, loop_begin, loop_end)
{
	loop.conf.window = 2;
	loop_start();
	loop_give("say LOG @ why\nhold");
	loop_give("say OK @");
	loop_until_answers(1);
	loop_give("err noise\nexit 1");
	loop_until_end();
	assert_string_equal(loop.end_stderr, "why\n");
	loop_start();
	loop_give("say FAIL @");
	loop_until_answers(2);
	assert_string_equal(loop.got[1].stderr_tail, "");
	loop_drain();
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "handler") == 0)
		return scripted_handler(argv[2]);
	return unit_run(loop_setup, loop_teardown);
}
