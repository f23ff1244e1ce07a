/* links: tests/unit/file_text.c tests/unit/persistent/persistent_loop.c tests/unit/persistent/scripted_handler.c */
/* A handler that stays says what is no answer, or closes an end: what it is told of, and what ends it. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/handler/lines.h"
#include "tests/unit/persistent/persistent_loop.h"
#include "tests/unit/persistent/scripted_handler.h"
#include "tests/unit/unit.h"

/* ---- what is no answer ---- */

TEST(chatter_is_logged, loop_begin, loop_end)
{
	static const char header[] = "quredis/1 id=order-7\nsay OK 200 requests served\nsay OK @";

	loop_start();
	loop_give_bytes(header, sizeof(header) - 1);
	loop_until_answers(1);
	loop_give("say BEAT\nsay \x1b[2J %n\nsay OK @");
	loop_until_answers(2);
	loop_logged(" queue=mail worker=mail/2 id=order-7 stream=stdout line=\"OK 200 requests served\"\n");
	loop_logged(" queue=mail worker=mail/2 id=sha1:");
	loop_logged("line=BEAT\n");
	loop_drain();
}

TEST(huge_lines, loop_begin, loop_end)
{
	loop_start();
	loop_give("fill 300000\nsay \nsay OK @");
	loop_until_answers(1);
	loop_got_ok(0, 1);
	loop_give("fill 65536\nsay OK @\nsay FAIL @ why");	/* what stands there in the middle of a line is no answer */
	loop_until_answers(2);
	loop_got(1, 2, VERB_FAIL, -1, "why");
	loop_drain();
}

TEST(huge_answers, loop_begin, loop_end)
{
	loop_start();
	loop_give("part FAIL @ \nfill 300000\nsay \nsay chatter");
	loop_until_answers(1);
	assert_int_equal(loop.got[0].verb, VERB_FAIL);
	assert_int_equal(loop.got[0].serial, 1);
	assert_true(loop.got[0].reason_len > 60000 && loop.got[0].reason_len < 65536);
	assert_memory_equal(loop.got[0].reason, "xxxx", 4);
	loop_give("say OK @");
	loop_until_answers(2);
	loop_got_ok(1, 2);
	loop_drain();
	loop_logged("line=chatter\n");
	loop_not_logged("xxxx");
}

/* A part of a line that was read behind a whole one. */
TEST(lines_in_parts, loop_begin, loop_end)
{
	struct handler_lines l;
	const char *line;
	size_t len;
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
	handler_lines_init(&l);
	handler_lines_begin(&l, p[0]);
	assert_false(handler_lines_read(&l));
	assert_int_equal(write(p[1], "one\n\ntw", 7), 7);
	assert_true(handler_lines_read(&l));
	assert_int_equal(handler_lines_next(&l, &line, &len), HANDLER_LINES_WHOLE);
	assert_int_equal(len, 3);
	assert_memory_equal(line, "one\n", 4);
	assert_int_equal(handler_lines_next(&l, &line, &len), HANDLER_LINES_WHOLE);
	assert_int_equal(len, 0);
	assert_int_equal(handler_lines_next(&l, &line, &len), HANDLER_LINES_NONE);
	assert_int_equal(write(p[1], "o\n", 2), 2);
	assert_true(handler_lines_read(&l));
	assert_int_equal(handler_lines_next(&l, &line, &len), HANDLER_LINES_WHOLE);
	assert_int_equal(len, 3);
	assert_memory_equal(line, "two\n", 4);
	close(p[1]);
	assert_false(handler_lines_read(&l));
	assert_int_equal(l.fd, -1);
	handler_lines_free(&l);
}

static void is_desync(const char *error)
{
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_DESYNC);
	loop_logged("event=handler_desync");
	loop_logged(" queue=mail worker=mail/2 error=\"");
	loop_logged(error);
}

/* Lines that only look like answers settle nothing, end nothing, and are counted. */
TEST(an_answer_to_nothing, loop_begin, loop_end)
{
	loop.conf.window = 2;
	loop_start();
	loop_give("hold");
	loop_give("say OK 77\nsay OK 1\nsay REJECT 1234567890123456 why\nsay DONE 7\nsay RETRY 2 365d\nsay OK @");
	loop_until_answers(1);
	loop_got_ok(0, 2);
	assert_int_equal(persistent_strays(loop.p), 5);
	assert_int_equal(persistent_strays(loop.p), 0);
	loop_logged("stream=stdout line=\"OK 77\"\n");
	loop_logged("stream=stdout line=\"REJECT 1234567890123456 why\"\n");
	loop_give("say OK @\nrelease");
	loop_until_answers(3);
	loop_got_ok(1, 3);
	loop_got_ok(2, 1);
	loop_drain();
	loop_not_logged("handler_desync");
}

/* The second answer settles nothing. The log names the message that it was about, once. */
TEST(two_answers_to_one, loop_begin, loop_end)
{
	static const char header[] = "quredis/1 id=order-7\nsay OK @\nsay FAIL @ after all\nsay OK @\nsay BEAT @";

	loop.conf.window = 2;
	loop_start();
	loop_give_bytes(header, sizeof(header) - 1);
	loop_give("say OK @");
	loop_until_answers(2);
	loop_got_ok(0, 1);
	loop_got_ok(1, 2);
	loop_drain();
	loop_logged("event=handler_answered_twice");
	loop_logged(" queue=mail worker=mail/2 id=order-7 line=\"FAIL ");
	loop_logged(" stream=stdout line=\"OK ");
	loop_not_logged("BEAT");
	assert_int_equal(persistent_strays(loop.p), 1);
}

/* Its id is the digest of its payload, which is computed from what was kept of it. */
TEST(a_second_answer_about_a_raw_message, loop_begin, loop_end)
{
	loop_start();
	loop_give("say OK @\nsay OK @");
	loop_until_answers(1);
	loop_drain();
	loop_logged(message_id(&loop.messages[1]));
}

/* More than is kept of it: only a header has its id. */
TEST(a_second_answer_about_a_long_message, loop_begin, loop_end)
{
	static char raw[70000], header[70000];

	memset(raw, '\n', sizeof(raw));
	memcpy(raw, "say OK @\nsay FAIL @ raw", 24);
	memset(header, '\n', sizeof(header));
	memcpy(header, "quredis/1 id=order-7\nsay OK @\nsay FAIL @ long", 46);
	loop_start();
	loop_give_bytes(raw, sizeof(raw));
	loop_until_answers(1);
	loop_give_bytes(header, sizeof(header));
	loop_until_answers(2);
	loop_drain();
	loop_logged("id=order-7 line=\"FAIL ");
	loop_logged("worker=mail/2 line=\"FAIL ");
}

/* It fails its job, and no other. What follows it is no part of it. */
TEST(an_unknown_verb, loop_begin, loop_end)
{
	loop.conf.reply_fd = 3;
	loop.conf.window = 2;
	loop_start();
	loop_give("say EMIT 1234567890123456 mail 5\nsay REJCT @ no mail");
	loop_give("say OK @");
	loop_until_answers(2);
	assert_int_equal(loop.got[0].verb, VERB_FAIL);
	assert_int_equal(loop.got[0].serial, 1);
	assert_memory_equal(loop.got[0].reason,
	    "unknown verb: expected OK, RETRY, FAIL, REJECT, HOLD, BEAT, PROGRESS or LOG (did you mean REJECT?): REJCT ", 105);
	loop_got_ok(1, 2);
	loop_drain();
	loop_logged("stream=reply line=\"EMIT 1234567890123456 mail 5\"\n");
}

TEST(an_unknown_verb_on_stdout, loop_begin, loop_end)
{
	loop_start();
	loop_give("say EMITS @ mail 5\nsay REJECT @ no mail");
	loop_until_answers(1);
	loop_got(0, 1, VERB_REJECT, -1, "no mail");
	loop_drain();
	loop_logged("stream=stdout line=\"EMITS ");
	loop_not_logged("handler_desync");
}

/* ---- closed ends ---- */

TEST(closes_stdin_when_idle, loop_begin, loop_end)
{
	loop.conf.window = 2;
	loop_start();
	loop_give("closein\nsay OK @\nnap 50\nexit 5");
	loop_until_end();
	loop_got_ok(0, 1);
	assert_int_equal(loop.end.how, PERSISTENT_EXITED);
	assert_int_equal(loop.end.code, 5);
	assert_int_equal(loop.end.unanswered, 0);
}

/* It takes no more, finishes what it has, and goes: the rest was never begun. */
TEST(closes_stdin_and_finishes, loop_begin, loop_end)
{
	loop.conf.window = 4;
	loop.conf.kill_grace_ms = 100;
	loop_start_with("bytewise");
	loop_give("nap 50\nclosein\nnap 500\nsay OK @\nexit 0");
	loop_give("say OK @");
	loop_give("say OK @");
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_EXITED);
	loop_got_ok(0, 1);
	assert_int_equal(loop.end.unanswered, 2);
	assert_int_equal(loop.end.unread_from, 2);
}

TEST(closes_stdin_and_stays, loop_begin, loop_end)
{
	loop.conf.window = 2;
	loop.conf.kill_grace_ms = 100;
	loop_start_with("bytewise");
	loop_give("nap 50\nclosein\nsay OK @\nstuck");
	loop_give("say OK @");
	loop_until_end();
	loop_got_ok(0, 1);
	assert_int_equal(loop.end.how, PERSISTENT_DESYNC);
	assert_int_equal(loop.end.unanswered, 1);
	assert_int_equal(loop.end.unread_from, 2);
}

TEST(closes_stdout_and_goes_on, loop_begin, loop_end)
{
	loop.conf.window = 2;
	loop.conf.kill_grace_ms = 100;
	loop_start();
	loop_give("say OK @\ncloseout\nstuck");
	loop_give("say OK @");
	is_desync("error=\"it closed its end while jobs were unanswered, and stayed\"");
	loop_got_ok(0, 1);
	assert_int_equal(loop.end.unanswered, 1);
}

TEST(closes_stdout_when_idle, loop_begin, loop_end)
{
	loop.conf.kill_grace_ms = 100;
	loop_start();
	loop_give("say OK @\ncloseout\nstuck");
	loop_until_answers(1);
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_SIGNALED);
	assert_int_equal(loop.end.unanswered, 0);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "handler") == 0)
		return scripted_handler(argv[2]);
	return unit_run(loop_setup, loop_teardown);
}
