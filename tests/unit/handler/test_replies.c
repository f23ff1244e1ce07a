/* links: tests/unit/file_text.c tests/unit/handler/handler_faults.c tests/unit/handler/handler_loop.c */
/* ldflags: -Wl,--wrap=kill,--wrap=process_close_on_exec_from,--wrap=waitid,--wrap=waitpid */
/* What exec handlers reply on a descriptor of their own, and how it combines with their end. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/file_text.h"
#include "tests/unit/handler/handler_loop.h"
#include "tests/unit/unit.h"

static void run(const char *script)
{
	loop.conf.reply_fd = 3;
	loop_run_shell(script);
}

static void replied(enum handler_verb verb, int64_t delay_ms, const char *class, const char *reason)
{
	const struct handler_reply *r = loop.result.verdict;

	assert_int_equal(loop.result.end, HANDLER_EXITED);
	assert_non_null(r);
	assert_int_equal(r->verb, verb);
	assert_int_equal(r->delay_ms, delay_ms);
	assert_int_equal(r->class_len, strlen(class));
	assert_memory_equal(r->class, class, r->class_len);
	assert_int_equal(r->reason_len, strlen(reason));
	assert_memory_equal(r->reason, reason, r->reason_len);
}

TEST(verdicts, loop_begin, loop_end)
{
	run("echo REJECT class=json no mail >&$QUREDIS_REPLY_FD");
	replied(VERB_REJECT, -1, "json", "no mail");
	run("echo RETRY 30s busy >&3; exit 3");
	replied(VERB_RETRY, 30000, "", "busy");
	assert_int_equal(loop.result.code, 3);
}

TEST(the_next_run_has_none, loop_begin, loop_end)
{
	char script[256];

	snprintf(script, sizeof(script), "[ -e %s ] || { touch %s; echo REJECT >&3; }", loop_file, loop_file);
	run(script);
	replied(VERB_REJECT, -1, "", "");
	loop_run();		/* the same struct handler */
	assert_null(loop.result.verdict);
}

TEST(the_last_one_counts, loop_begin, loop_end)
{
	run("echo REJECT no mail >&3; echo RETRY >&3");
	replied(VERB_RETRY, -1, "", "");
	loop_logged("level=warning event=handler_verdict_replaced ");
	loop_logged(" queue=mail worker=mail/2 id=m-1 verdict=\"REJECT: no mail\" by=RETRY\n");
}

TEST(a_flood_of_verdicts_is_one_line_in_the_log, loop_begin, loop_end)
{
	for (int i = 1; i <= 2; i++) {
		run("yes REJECT no mail | head -n 100000 >&3; echo RETRY >&3");
		replied(VERB_RETRY, -1, "", "");
		assert_int_equal(loop_logged_times("event=handler_verdict_replaced "), i);
	}
}

TEST(the_last_newline_may_be_missing, loop_begin, loop_end)
{
	run("printf 'FAIL half a' >&3; sleep 0.1; printf ' line' >&3");
	replied(VERB_FAIL, -1, "", "half a line");
}

TEST(an_unknown_verb_is_a_failure, loop_begin, loop_end)
{
	run("echo REJCT no mail >&3; echo RETRY >&3");
	replied(VERB_FAIL, -1, "", "unknown verb: expected RETRY, FAIL, REJECT, HOLD, BEAT or PROGRESS (did you mean REJECT?): REJCT no mail");
	loop_logged(" stream=reply line=RETRY\n");		/* it may be one of the bytes of that verb */
	run("echo OK >&3");
	replied(VERB_FAIL, -1, "", "unknown verb: expected RETRY, FAIL, REJECT, HOLD, BEAT or PROGRESS: OK");
}

TEST(other_lines_are_logged, loop_begin, loop_end)
{
	run("echo it works >&3; printf '\\000\\377\\n' >&3; printf 'no end' >&3; echo REJECT >&1");
	assert_null(loop.result.verdict);
	loop_logged(" stream=reply line=\"it works\"\n");
	loop_logged(" stream=reply line=\"no end\"\n");
	loop_logged(" stream=stdout line=REJECT\n");
}

/* The worker always reads, and keeps little. */
TEST(floods, loop_begin, loop_end)
{
	run("yes words | head -c 10000000 >&3; head -c 10000000 /dev/zero >&3; echo >&3; echo REJECT at last >&3");
	replied(VERB_REJECT, -1, "", "at last");
	loop_logged("level=warning event=handler_output_dropped");
}

TEST(a_long_verdict_is_cut, loop_begin, loop_end)
{
	run("(printf 'REJECT '; head -c 1048576 /dev/zero | tr '\\0' x; echo) >&3");
	assert_int_equal(loop.result.verdict->verb, VERB_REJECT);
	assert_int_equal(loop.result.verdict->reason_len, HANDLER_REASON_SHOWN);
	assert_int_equal(loop_logged_times("stream=reply"), 0);
}

TEST(any_other_end_decides, loop_begin, loop_end)
{
	run("echo REJECT >&3; kill -KILL $$");
	assert_int_equal(loop.result.end, HANDLER_SIGNALED);
	loop.job.timeout_ms = 200;
	run("trap 'exit 0' TERM; echo REJECT >&3; sleep 100 & wait");
	assert_int_equal(loop.result.end, HANDLER_TIMED_OUT);
	loop.job.timeout_ms = -1;
	loop.stop_after_ms = 300;
	run("trap 'exit 0' TERM; echo REJECT >&3; sleep 100 & wait");
	assert_int_equal(loop.result.end, HANDLER_STOPPED);	/* although 0 means done: it said that it is not */
	assert_false(loop.result.exit_after_stop);
}

/* Its timeout is 1 s; it works for 2 s, and says so each 100 ms. */
TEST(signs_of_life, loop_begin, loop_end)
{
	static const char beats[] = "for i in $(seq 20); do echo \"PROGRESS ${i} step $i\" >&3; sleep 0.1; done; exit 7";

	loop.job.timeout_ms = 1000;
	run(beats);
	assert_int_equal(loop.result.end, HANDLER_TIMED_OUT);		/* without max_duration they extend nothing */
	assert_string_equal(loop.result.limit, "");
	assert_int_equal(handler_progress(loop.h)->verb, VERB_PROGRESS);
	assert_null(handler_progress(loop.h));
	loop.conf.max_duration_ms = 60000;
	run(beats);
	loop_exited_with(7);
	assert_null(loop.result.verdict);
	assert_int_equal(handler_progress(loop.h)->percent, 20);
	run("echo BEAT >&3; sleep 100");
	assert_int_equal(loop.result.end, HANDLER_TIMED_OUT);
	assert_string_equal(loop.result.limit, " (no sign of life within timeout)");
	loop.conf.max_duration_ms = 500;
	run(beats);
	assert_int_equal(loop.result.end, HANDLER_TIMED_OUT);
	assert_string_equal(loop.result.limit, " (max_duration)");
	assert_true(loop.result.duration_ms >= 500 && loop.result.duration_ms < 5000);
}

TEST(a_grandchild_cannot_reply_later, loop_begin, loop_end)
{
	run("(sleep 1000; echo REJECT >&3) & exit 0");
	assert_null(loop.result.verdict);
	run("closed=$(ls /proc/self/fd | tr '\\n' ' '); echo \"$closed\" >&2");
	loop_logged("line=\"0 1 2 3 4 \"\n");		/* 4 is the directory itself */
}

TEST(without_a_descriptor, loop_begin, loop_end)
{
	loop.conf.reply_fd = -1;
	loop_run_shell("echo REJECT >&3 || exit 9; env");
	loop_exited_with(9);
	assert_null(loop.result.verdict);
	loop.conf.reply_fd = -1;
	loop_run_shell("env | grep REPLY_FD; true");
	loop_exited_with(0);
}

UNIT_MAIN(loop_setup, loop_teardown)
