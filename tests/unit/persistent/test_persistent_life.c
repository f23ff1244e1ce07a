/* links: tests/unit/file_text.c tests/unit/persistent/persistent_loop.c tests/unit/persistent/scripted_handler.c */
/* How long a handler stays: the time its messages may take, when another takes its place, and what it is ordered to do. */
#include <sys/wait.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "tests/unit/persistent/persistent_loop.h"
#include "tests/unit/persistent/scripted_handler.h"
#include "tests/unit/unit.h"

/* ---- time ---- */

TEST(timed_out, loop_begin, loop_end)
{
	loop.conf.window = 8;
	loop.job.timeout_ms = 300;
	loop_start();
	loop_give("say OK @");
	loop_give("spawn\nsay words\nstuck");
	loop_give("say OK @");
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_TIMED_OUT);
	assert_int_equal(loop.end.signal, SIGTERM);
	assert_int_equal(loop.end.oldest, 2);
	assert_int_equal(loop.end.unanswered, 2);
	assert_true(loop.end.answered_any);
	assert_true(loop.end.duration_ms >= 300 && loop.end.duration_ms < LOOP_HANG_MS);
	loop_got_ok(0, 1);
	loop_logged("event=handler_left_processes");
	loop_logged(" queue=mail worker=mail/2 id=sha1:");
	loop_logged(" processes=1\n");
}

TEST(ignores_term, loop_begin, loop_end)
{
	loop.job.timeout_ms = 200;
	loop.conf.kill_grace_ms = 200;
	loop_start();
	loop_give("deaf\nstuck");
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_TIMED_OUT);
	assert_int_equal(loop.end.signal, SIGKILL);
}

/* Its own answer comes too late, those of the others count. */
TEST(answers_after_its_time, loop_begin, loop_end)
{
	loop.conf.window = 2;
	loop.job.timeout_ms = 300;
	loop_start();
	loop_give("deaf\nsay deaf now\nnap 1000\nsay OK @");
	loop_give("say OK @\nexit 0");
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_TIMED_OUT);
	assert_int_equal(loop.ngot, 1);
	loop_got_ok(0, 2);
	assert_int_equal(loop.end.unanswered, 1);
	assert_int_equal(loop.end.oldest, 1);
}

/* What one waits behind others is not its own time. */
TEST(time_counts_from_the_front, loop_begin, loop_end)
{
	int64_t first;

	loop.conf.window = 3;
	loop.job.timeout_ms = LOOP_HANG_MS;
	loop_start();
	assert_int_equal(persistent_timeout_at_ms(loop.p), INT64_MAX);
	loop_give("nap 30\nsay OK @");
	first = persistent_timeout_at_ms(loop.p);
	assert_int_equal(first, loop.now_ms + LOOP_HANG_MS);
	loop_give("hold");
	loop_give("nap 30\nsay OK @");
	assert_int_equal(persistent_timeout_at_ms(loop.p), first);
	loop_until_answers(1);
	assert_true(persistent_timeout_at_ms(loop.p) >= first + 30);
	first = persistent_timeout_at_ms(loop.p);
	loop_until_answers(2);			/* the third: the second is still the oldest */
	loop_got_ok(1, 3);
	assert_int_equal(persistent_timeout_at_ms(loop.p), first);
	loop_give("release\nsay OK @");
	loop_until_answers(4);
	assert_int_equal(persistent_timeout_at_ms(loop.p), INT64_MAX);
	loop_drain();
}

TEST(beats, loop_begin, loop_end)
{
	int64_t first, before;

	loop.conf.window = 2;
	loop_start();
	loop_give("nap 20\nsay BEAT @\nsay beaten @\nnap 20\nsay BEAT 2\nsay BEAT 1000\nsay other\nhold");
	first = persistent_timeout_at_ms(loop.p);
	loop_until_logged("line=\"beaten ");
	before = persistent_timeout_at_ms(loop.p);
	assert_true(before >= first + 20);
	loop_until_logged("line=other");
	assert_int_equal(persistent_timeout_at_ms(loop.p), before);
	loop_give("nap 20\nsay BEAT @\nsay second\nnap 20\nsay BEAT 1\nsay OK @\nrelease");
	loop_until_logged("line=second");
	assert_int_equal(persistent_timeout_at_ms(loop.p), before);
	loop_until_answers(2);
	assert_int_equal(loop.got[0].serial, 2);
	assert_int_equal(loop.got[1].serial, 1);
	loop_give("say OK @\nsay BEAT @\nsay late");
	loop_until_answers(3);
	loop_until_logged("line=late");
	assert_true(persistent_alive(loop.p));	/* a BEAT too late is no desync */
	loop_drain();
}

TEST(progress, loop_begin, loop_end)
{
	const struct handler_reply *seen;

	loop.conf.window = 2;
	loop_start();
	loop_give("nap 20\nsay PROGRESS @ 10 first\nsay PROGRESS @ 20 page 2\nsay PROGRESS 99 30\nsay PROGRESS @ 101\nsay beaten @\nhold");
	loop_until_logged("line=\"beaten ");
	loop_logged(" 101\"");
	seen = persistent_progress(loop.p);
	assert_non_null(seen);
	assert_int_equal(seen->serial, 1);		/* 99 is no job */
	assert_int_equal(seen->percent, 20);
	assert_int_equal(seen->reason_len, 6);
	assert_memory_equal(seen->reason, "page 2", 6);
	assert_null(persistent_progress(loop.p));
	assert_true(persistent_timeout_at_ms(loop.p) >= loop.now_ms);
	loop_give("say PROGRESS @ 5\nsay OK @\nrelease");
	loop_until_answers(2);
	loop_drain();
}

/* A handler that works for ever, and says so. */
TEST(max_duration, loop_begin, loop_end)
{
	static char commands[8192];

	loop.conf.max_duration_ms = 400;
	loop.job.timeout_ms = LOOP_HANG_MS;
	for (int i = 0; i < 200; i++)
		strcat(commands, "nap 20\nsay BEAT @\n");
	strcat(commands, "stuck");
	loop_start();
	loop_give(commands);
	assert_int_equal(persistent_timeout_at_ms(loop.p), loop.now_ms + 400);
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_TIMED_OUT);
	assert_true(loop.end.duration_ms >= 400);
}

/* A worker that was held up itself sees the deadline before the answer. */
TEST(an_answer_in_the_pipe_is_in_time, loop_begin, loop_end)
{
	struct pollfd p[PERSISTENT_POLLFDS];
	size_t n;

	loop.job.timeout_ms = 5000;
	loop.argv[2] = (char *)"ok";
	loop_start();
	loop_give("x");
	persistent_flush(loop.p);
	n = persistent_pollfds(loop.p, p);
	for (size_t i = 0; i < n; i++)
		p[i].fd = p[i].events == POLLIN ? p[i].fd : -1;
	assert_int_equal(poll(p, n, LOOP_HANG_MS), 1);
	persistent_tick(loop.p, loop.now_ms + 6000);
	n = persistent_pollfds(loop.p, p);
	assert_true(poll(p, n, 0) > 0);
	persistent_io(loop.p, p, n, loop.now_ms + 6001);
	loop_take_all();
	persistent_tick(loop.p, loop.now_ms + 6001);
	assert_int_equal(loop.ngot, 1);
	assert_true(persistent_alive(loop.p));
	loop_give("x");
	persistent_tick(loop.p, loop.now_ms + 12002);
	persistent_tick(loop.p, loop.now_ms + 12003);		/* but only one turn */
	assert_false(persistent_alive(loop.p));
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_TIMED_OUT);
}

TEST(floods_and_never_answers, loop_begin, loop_end)
{
	loop.job.timeout_ms = 500;
	loop_start();
	loop_give("flood");
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_TIMED_OUT);
	loop_logged("event=handler_output_dropped");
}

/* ---- recycling ---- */

static void was_recycled(const char *why)
{
	char want[128];

	loop_until_end();
	assert_true(loop.end.asked);
	assert_int_equal(loop.end.unanswered, 0);
	snprintf(want, sizeof(want), " queue=mail worker=mail/2 reason=%s", why);
	loop_logged("event=handler_recycled");
	loop_logged(want);
}

TEST(recycled_by_jobs, loop_begin, loop_end)
{
	loop.conf.window = 8;
	loop.conf.recycle.jobs = 3;
	for (int round = 0; round < 3; round++) {
		int before = loop.ngot;

		loop_start();
		assert_int_equal(persistent_room(loop.p), 3);
		loop_give("say OK @");
		loop_until_answers(before + 1);
		assert_int_equal(persistent_room(loop.p), 2);
		loop_give("nap 30\nsay OK @");
		loop_give("say OK @");
		assert_int_equal(persistent_room(loop.p), 0);
		was_recycled("jobs jobs=3");
		assert_int_equal(loop.ngot, before + 3);
		assert_int_equal(loop.end.how, PERSISTENT_EXITED);
		assert_int_equal(loop.end.code, 0);
	}
}

TEST(recycled_by_rss, loop_begin, loop_end)
{
	loop.conf.recycle.rss = 1 << 20;
	loop_start();
	loop_give("say OK @");
	loop_until_answers(1);
	assert_true(persistent_alive(loop.p));
	while (persistent_alive(loop.p)) {
		loop_give("nap 50\nsay OK @");
		loop_until_answers(loop.ngot + 1);
	}
	was_recycled("rss");
}

TEST(recycled_by_age, loop_begin, loop_end)
{
	loop.conf.recycle.age_ms = 300;
	loop.conf.window = 2;
	loop_start();
	loop_give("nap 500\nsay OK @");	/* but not in the middle of a job */
	was_recycled("age jobs=1");
	assert_int_equal(loop.ngot, 1);
	loop_start();			/* and one that has nothing to do */
	was_recycled("age jobs=0");
	assert_false(loop.end.answered_any);
}

TEST(recycle_waits_while_the_process_is_kept, loop_begin, loop_end)
{
	loop.conf.window = 1;
	loop.conf.recycle.jobs = 1;
	loop.conf.recycle.age_ms = 1;
	loop_start();
	persistent_keep(loop.p, true);
	for (int i = 1; i <= 3; i++) {
		loop_give("nap 5\nsay OK @");
		loop_until_answers(i);
		persistent_tick(loop.p, clock_monotonic_ms());
		assert_int_equal(persistent_room(loop.p), 1);
	}
	assert_true(persistent_deadline_ms(loop.p) > clock_monotonic_ms());	/* it does not turn without pause */
	loop_logged("event=recycle_waits");
	persistent_keep(loop.p, false);
	was_recycled("jobs jobs=3");
}

/* What it holds it would answer at the end of the file: that does not come before. */
TEST(recycled_between_jobs, loop_begin, loop_end)
{
	loop.conf.window = 2;
	loop.conf.recycle.jobs = 2;
	loop.job.timeout_ms = 300;
	loop_start();
	loop_give("hold");
	loop_give("hold");
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_TIMED_OUT);
	assert_int_equal(loop.ngot, 0);
	assert_int_equal(loop.end.unanswered, 2);
}

TEST(lingers_after_eof, loop_begin, loop_end)
{
	loop.argv[0] = (char *)"/bin/sleep";
	loop.argv[1] = (char *)"1000";
	loop.argv[2] = NULL;
	loop.conf.kill_grace_ms = 100;
	loop_start();
	persistent_drain(loop.p, loop.now_ms);
	assert_false(persistent_alive(loop.p));
	loop_until_end();
	assert_true(loop.end.asked);
	assert_int_equal(loop.end.how, PERSISTENT_SIGNALED);
	assert_int_equal(loop.end.signal, SIGTERM);
	assert_true(loop.end.lived_ms >= 100);
}

/* ---- orders ---- */

TEST(drains, loop_begin, loop_end)
{
	char *big = alloc_zero(1, 1 << 20);

	loop.conf.window = 8;
	loop_start_with("sum");
	for (int i = 0; i < 3; i++)
		loop_give("x");
	loop_give_bytes(big, 1 << 20);
	loop_drain();			/* also what was not written yet */
	assert_int_equal(loop.ngot, 4);
	free(big);
}

TEST(stopped, loop_begin, loop_end)
{
	loop.conf.window = 2;
	loop_start();
	loop_give("say OK @");
	loop_until_answers(1);
	loop_give("say words\nstuck");
	loop_give("say OK @");
	loop_until_logged("line=words");
	persistent_stop(loop.p, loop.now_ms);
	persistent_stop(loop.p, loop.now_ms);
	assert_int_equal(persistent_room(loop.p), 0);
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_STOPPED);
	assert_int_equal(loop.end.signal, SIGTERM);
	assert_int_equal(loop.end.unanswered, 2);
	assert_int_equal(loop.end.oldest, 2);
}

TEST(finishes_when_stopped, loop_begin, loop_end)
{
	loop_start();
	loop_give("deaf\nsay words\nnap 200\nsay OK @\nexit 0");
	loop_until_logged("line=words");
	persistent_stop(loop.p, loop.now_ms);
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_STOPPED);
	assert_int_equal(loop.end.code, 0);
	assert_int_equal(loop.end.unanswered, 0);
	loop_got_ok(0, 1);
}

TEST(killed, loop_begin, loop_end)
{
	loop_start();
	loop_give("deaf\nspawn\nsay words\nstuck");
	loop_until_logged("line=words");
	persistent_kill(loop.p);
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_STOPPED);
	assert_int_equal(loop.end.signal, SIGKILL);
}

TEST(freed_while_it_runs, loop_begin, loop_end)
{
	pid_t leader;
	int status;

	loop_start();
	loop_give("deaf\nsay words\nstuck");
	loop_until_logged("line=words");
	leader = persistent_pgid(loop.p);
	persistent_free(loop.p);
	loop.p = NULL;
	assert_int_equal(waitpid(leader, &status, 0), leader);
	assert_int_equal(status, SIGKILL);
}

/* kill() returns before the handler stands still: it could still read what comes right after. */
static void stop_handler(void)
{
	siginfo_t stopped;

	assert_int_equal(kill(persistent_pgid(loop.p), SIGSTOP), 0);
	assert_int_equal(waitid(P_PID, (id_t)persistent_pgid(loop.p), &stopped, WSTOPPED), 0);
}

/* Nothing is answered: that it takes bytes out of its pipe is enough. */
TEST(is_ready_when_it_reads, loop_begin, loop_end)
{
	loop_start();
	stop_handler();
	loop_give("stuck");
	for (int i = 0; i < 20; i++)
		loop_turn();
	assert_false(persistent_ready(loop.p));
	assert_int_equal(kill(persistent_pgid(loop.p), SIGCONT), 0);
	while (!persistent_ready(loop.p))
		loop_turn();
	assert_int_equal(loop.ngot, 0);
	persistent_kill(loop.p);
	loop_until_end();
	assert_true(loop.end.read_any);
	assert_false(loop.end.answered_any);
	assert_false(persistent_ready(loop.p));
}

TEST(dies_before_it_reads, loop_begin, loop_end)
{
	loop_start();
	stop_handler();
	loop_give("say OK @");
	loop_turn();
	persistent_kill(loop.p);
	loop_until_end();
	assert_false(loop.end.read_any);
	assert_int_equal(loop.end.unread_from, 1);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "handler") == 0)
		return scripted_handler(argv[2]);
	return unit_run(loop_setup, loop_teardown);
}
