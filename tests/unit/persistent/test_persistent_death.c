/* links: tests/unit/file_text.c tests/unit/persistent/persistent_loop.c tests/unit/persistent/scripted_handler.c */
/* A handler that stays dies: what is known of the messages it had. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/alloc.h"
#include "tests/unit/persistent/persistent_loop.h"
#include "tests/unit/persistent/scripted_handler.h"

static void dies_idle(void **unused)
{
	(void)unused;
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

static void dies_of_one(void **unused)
{
	(void)unused;
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
static void dies_with_many(void **unused)
{
	(void)unused;
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

static void dies_having_read_all(void **unused)
{
	(void)unused;
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
static void dies_while_it_is_fed(void **unused)
{
	char *big = alloc_zero(1, 4 << 20);

	(void)unused;
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
static void takes_back_what_was_not_written(void **unused)
{
	char *big = alloc_zero(1, 4 << 20);
	uint64_t first;

	(void)unused;
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

static void dies_before_it_reads(void **unused)
{
	(void)unused;
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

static void unrunnable(void **unused)
{
	char *self = loop.argv[0];

	(void)unused;
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
static void dies_of_a_job_when_it_is_to_be_recycled(void **unused)
{
	(void)unused;
	loop.conf.recycle.age_ms = 1;
	loop_start();
	loop_give("nap 100\ndie");
	loop_until_end();
	loop_logged("event=handler_recycled");
	assert_false(loop.end.asked);
	assert_int_equal(loop.end.suspects, 1);
}

static void leaves_a_process(void **unused)
{
	(void)unused;
	loop_start();
	loop_give("spawn\nsay OK @");
	loop_until_answers(1);
	loop_drain();
	loop_logged(" queue=mail worker=mail/2 processes=1\n");
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, loop_begin, loop_end)
	static const struct CMUnitTest tests[] = {
		TEST(dies_idle), TEST(dies_of_one), TEST(dies_with_many), TEST(dies_having_read_all), TEST(dies_while_it_is_fed),
		TEST(takes_back_what_was_not_written), TEST(dies_before_it_reads), TEST(unrunnable),
		TEST(dies_of_a_job_when_it_is_to_be_recycled), TEST(leaves_a_process),
	};

	if (argc == 3 && strcmp(argv[1], "handler") == 0)
		return scripted_handler(argv[2]);
	return cmocka_run_group_tests(tests, loop_setup, loop_teardown);
}
