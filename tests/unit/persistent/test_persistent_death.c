/* links: tests/unit/file_text.c tests/unit/persistent/persistent_loop.c tests/unit/persistent/scripted_handler.c */
/* A handler that stays dies: what is known of the messages it had. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "tests/unit/persistent/persistent_loop.h"
#include "tests/unit/persistent/scripted_handler.h"
#include "tests/unit/unit.h"

TEST(dies_idle, loop_begin, loop_end)
{
	loop_start();
	loop_give("say OK @\nexit 4");
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_EXITED);
	assert_int_equal(loop.end.code, 4);
	assert_int_equal(loop.end.unanswered, 0);
	assert_false(loop.end.asked);
	assert_true(loop.end.answered_any);
	loop_start();
	loop_give("say OK @");
	loop_until_answers(2);
	loop_drain();
}

TEST(dies_of_one, loop_begin, loop_end)
{
	loop_start();
	loop_give("die");
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_SIGNALED);
	assert_int_equal(loop.end.signal, SIGKILL);
	assert_int_equal(loop.end.code, -1);
	assert_int_equal(loop.end.unanswered, 1);
	assert_int_equal(loop.end.unread_from, UINT64_MAX);
	assert_false(loop.end.answered_any);
}

/* Which ones it cannot have begun, as far as can be seen: here it reads no byte ahead. */
TEST(dies_with_many, loop_begin, loop_end)
{
	loop.conf.window = 8;
	loop_start_with("bytewise");
	loop_give("say OK @");
	loop_give("nap 100\ndie");
	for (int i = 0; i < 6; i++)
		loop_give("say OK @");
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_SIGNALED);
	loop_got_ok(0, 1);
	assert_int_equal(loop.end.unanswered, 7);
	assert_int_equal(loop.end.oldest, 2);
	assert_int_equal(loop.end.unread_from, 3);
}

TEST(dies_having_read_all, loop_begin, loop_end)
{
	loop.conf.window = 3;
	loop_start();
	loop_give("nap 0");
	loop_give("nap 0");
	loop_give("die");
	loop_until_end();
	assert_int_equal(loop.end.unanswered, 3);
	assert_int_equal(loop.end.unread_from, UINT64_MAX);
}

/* With a large payload half written. */
TEST(dies_while_it_is_fed, loop_begin, loop_end)
{
	char *big = alloc_zero(1, 4 << 20);

	loop.conf.window = 3;
	loop_start_with("bytewise");
	loop_give("nap 100\ndie");
	loop_give_bytes(big, 4 << 20);
	assert_int_equal(persistent_room(loop.p), 0);	/* as long as that one is not written */
	loop_until_end();
	assert_int_equal(loop.end.unanswered, 2);
	assert_int_equal(loop.end.unread_from, 2);
	loop_start_with("ok");			/* nothing is left over for the next */
	loop_give("x");
	loop_until_answers(1);
	loop_got_ok(0, 3);
	loop_drain();
	free(big);
}

/* What is not in its pipe may be taken back; the rest of a job that is in part must follow. */
TEST(takes_back_what_was_not_written, loop_begin, loop_end)
{
	char *big = alloc_zero(1, 4 << 20);
	uint64_t first;

	loop.conf.window = 4;
	loop.conf.recycle.jobs = 5;
	loop_start_with("ok");
	assert_int_equal(persistent_recall(loop.p), UINT64_MAX);
	first = loop_give("a");
	loop_give("b");
	assert_true(persistent_unwritten(loop.p));
	assert_int_equal(persistent_recall(loop.p), first);
	assert_false(persistent_unwritten(loop.p));
	assert_int_equal(persistent_unanswered(loop.p), 0);
	assert_int_equal(persistent_timeout_at_ms(loop.p), INT64_MAX);
	loop.serial = first - 1;
	loop_give("c");
	persistent_flush(loop.p);
	loop_give_bytes(big, 4 << 20);
	assert_int_equal(persistent_recall(loop.p), first + 1);
	loop.serial = first;
	loop_give_bytes(big, 4 << 20);
	persistent_flush(loop.p);
	assert_true(persistent_unwritten(loop.p));
	assert_int_equal(persistent_recall(loop.p), UINT64_MAX);	/* some of it is there */
	loop_until_answers(2);
	loop_give("d");
	loop_until_answers(3);
	for (int i = 0; i < 3; i++)
		loop_got_ok(i, first + (uint64_t)i);
	assert_int_equal(persistent_room(loop.p), 2);	/* of five only what it got counts */
	loop_drain();
	free(big);
}

TEST(dies_before_it_reads, loop_begin, loop_end)
{
	loop.argv[0] = (char *)"/bin/false";
	loop.argv[1] = NULL;
	loop_start();
	loop_give("x");
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_EXITED);
	assert_int_equal(loop.end.code, 1);
	assert_false(loop.end.answered_any);
	assert_int_equal(loop.end.unanswered, 1);
	assert_int_equal(loop.end.unread_from, 1);
}

TEST(unrunnable, loop_begin, loop_end)
{
	char *self = loop.argv[0];

	loop.argv[0] = (char *)"/nonexistent";
	loop_start();
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_UNRUNNABLE);
	assert_int_equal(loop.end.error, ENOENT);
	assert_string_equal(loop.end.stage, "execve");
	assert_int_equal(loop.end.code, -1);
	assert_int_equal(loop.end.signal, 0);
	assert_false(loop.end.answered_any);
	loop.argv[0] = self;
	loop_start();
	loop_give("say OK @");
	loop_until_answers(1);
	loop_drain();
}

/* It is to be replaced, but has not been asked to exit yet. */
TEST(dies_of_a_job_when_it_is_to_be_recycled, loop_begin, loop_end)
{
	loop.conf.recycle.age_ms = 1;
	loop_start();
	loop_give("nap 100\ndie");
	loop_until_end();
	loop_logged("event=handler_recycled");
	assert_false(loop.end.asked);
	assert_int_equal(loop.end.suspects, 1);
}

TEST(leaves_a_process, loop_begin, loop_end)
{
	loop_start();
	loop_give("spawn\nsay OK @");
	loop_until_answers(1);
	loop_drain();
	loop_logged(" queue=mail worker=mail/2 processes=1\n");
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "handler") == 0)
		return scripted_handler(argv[2]);
	return unit_run(loop_setup, loop_teardown);
}
