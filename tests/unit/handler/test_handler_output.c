/* links: tests/unit/file_text.c tests/unit/handler/handler_faults.c tests/unit/handler/handler_loop.c */
/* ldflags: -Wl,--wrap=kill,--wrap=process_close_on_exec_from,--wrap=waitid,--wrap=waitpid */
/* What handlers say: it is logged, line by line, and none hangs the loop by it. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/handler/output.h"
#include "tests/unit/file_text.h"
#include "tests/unit/handler/handler_loop.h"
#include "tests/unit/unit.h"

TEST(floods, loop_begin, loop_end)
{
	loop_run_shell("yes out | head -c 10000000 & yes err | head -c 10000000 >&2; wait; echo last >&2; exit 6");
	loop_exited_with(6);
	assert_int_equal(loop.result.stderr_len, 8192);
	assert_memory_equal(loop.result.stderr_tail + 8192 - 9, "err\nlast\n", 9);
	assert_true(loop_logged_times("event=handler_output ") >= 1000);
	assert_true(loop_logged_times("event=handler_output ") < 100000);
	loop_logged("level=warning event=handler_output_dropped");
}

TEST(floods_without_lines, loop_begin, loop_end)
{
	loop_run_shell("head -c 10000000 /dev/zero; head -c 10000000 /dev/zero | tr '\\0' x >&2");
	loop_exited_with(0);
	assert_int_equal(loop.result.stderr_len, 8192);
	assert_memory_equal(loop.result.stderr_tail, "xxxxxxxx", 8);
}

TEST(dropped_are_counted, loop_begin, loop_end)
{
	size_t lines, dropped = 0;

	loop_run_shell("seq 20000");
	loop_exited_with(0);
	lines = loop_logged_times("event=handler_output ");
	for (const char *p = file_bytes.data; (p = strstr(p, "handler_output_dropped")) != NULL; p++)
		dropped += strtoul(strstr(p, "count=") + 6, NULL, 10);
	assert_int_equal(lines + dropped, 20000);
	assert_true(lines >= HANDLER_OUTPUT_BURST);
}

static void print(struct handler_output *o, const char *raw, uint64_t serial, int lines)
{
	const struct message_keys keys = message_keys_of("ingress:mail", true);
	static struct message m;

	message_parse(&m, &keys, raw, strlen(raw));
	handler_output_show(o, serial, &m);
	for (int i = 0; i < lines; i++)
		handler_output_take(o, &o->streams[HANDLER_STREAM_STDERR], "line\n", 5);
	handler_output_show(o, HANDLER_SPEAKER_UNKNOWN, NULL);
}

/* A handler that stays goes on with other messages before its lines are logged again. */
TEST(dropped_are_of_the_message_that_lost_them, loop_begin, loop_end)
{
	struct handler_output o;

	handler_output_init(&o, 0);
	handler_output_begin(&o, -1, -1, NULL, 1000);
	print(&o, "quredis/1 id=first\n", 1, HANDLER_OUTPUT_BURST + 7);
	handler_output_credit(&o, 10000);
	print(&o, "quredis/1 id=second\n", 2, 1);
	loop_logged(" id=first count=7\n");
	print(&o, "quredis/1 id=third\n", 3, HANDLER_OUTPUT_BURST);
	print(&o, "quredis/1 id=fourth\n", 4, 1);
	handler_output_end(&o);
	loop_logged(" count=2\n");
	assert_int_equal(loop_logged_times("id=third count") + loop_logged_times("id=fourth count"), 0);
	handler_output_free(&o);
}

TEST(lines, loop_begin, loop_end)
{
	loop_run_shell("head -c 2500 /dev/zero | tr '\\0' a; echo; echo; printf '%01024d\\n' 5; printf end");
	loop_exited_with(0);
	assert_int_equal(loop_logged_times("event=handler_output "), 6);
	loop_logged("line=aaaa");
	loop_logged("line=\"\"\n");
	loop_logged("0005\n");
	loop_logged("line=end\n");
	assert_int_equal(loop_logged_times("aaaaaaaaaa"), 2 * (1024 - 9) + 2500 - 2048 - 9);
}

TEST(tail, loop_begin, loop_end)
{
	loop.conf.stderr_tail = 10;
	loop_set_handler("/bin/sh", "-c", "[ -e \"$0\" ] && exec printf new >&2; : >\"$0\"; seq 100000 >&2; printf 0123456789abc >&2",
	    loop_file, NULL);
	loop_run();
	assert_int_equal(loop.result.stderr_len, 10);
	assert_memory_equal(loop.result.stderr_tail, "3456789abc", 10);
	loop_run();						/* nothing of the last run */
	assert_int_equal(loop.result.stderr_len, 3);
	assert_memory_equal(loop.result.stderr_tail, "new", 3);
	loop.conf.stderr_tail = 0;
	loop_run_shell("seq 1000 >&2");
	assert_int_equal(loop.result.stderr_len, 0);
}

TEST(closes_outputs, loop_begin, loop_end)
{
	loop_run_shell("exec >&- 2>&-; sleep 0.3; exit 4");
	loop_exited_with(4);
	assert_true(loop.turns < 50);
}

/* libuv makes its outputs non-blocking: the next run's are not. */
TEST(outputs_are_as_new, loop_begin, loop_end)
{
	loop_set_handler("/usr/bin/perl", "-e", "use Fcntl; fcntl(STDOUT, F_GETFL, 0) & O_NONBLOCK and exit 9; fcntl(STDOUT, F_SETFL, O_NONBLOCK)",
	    NULL);
	if (access(loop.argv[0], X_OK) == -1)
		skip();
	for (int i = 0; i < 3; i++) {
		loop_run();
		loop_exited_with(0);
	}
}

UNIT_MAIN(loop_setup, loop_teardown)
