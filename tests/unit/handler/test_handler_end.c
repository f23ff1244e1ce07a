/* links: tests/unit/descriptors.c tests/unit/file_text.c tests/unit/handler/handler_faults.c tests/unit/handler/handler_loop.c */
/* ldflags: -Wl,--wrap=kill,--wrap=process_close_on_exec_from,--wrap=waitid,--wrap=waitpid */
/* The end of handlers of every nasty kind: none hangs the loop, none leaves a process or a descriptor. */
#include <sys/wait.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/process.h"
#include "common/handler/process.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/file_text.h"
#include "tests/unit/handler/handler_faults.h"
#include "tests/unit/handler/handler_loop.h"
#include "tests/unit/unit.h"

/* ---- what it leaves ---- */

static void leaves(const char *script)
{
	size_t before;

	handler_free(loop.h);
	loop.h = NULL;
	before = descriptors_open();
	loop_run_shell(script);
	loop_exited_with(0);
	handler_free(loop.h);
	loop.h = NULL;
	assert_int_equal(descriptors_open(), before);
}

TEST(leaves_processes, loop_begin, loop_end)
{
	leaves("sleep 600 & exit 0");				/* holds stdout open */
	leaves("setsid sleep 600 & exit 0");
	leaves("setsid sh -c 'exec </dev/null >/dev/null 2>&1; setsid sleep 600 & setsid sleep 600 & wait' & sleep 0.1");
	leaves("trap '' TERM HUP; setsid sleep 600 & setsid sh -c 'kill -STOP $$' & sleep 0.1; exit 0");
	leaves("i=0; while [ $i -lt 200 ]; do setsid sleep 600 & i=$((i+1)); done");
	assert_true(loop_logged_times("event=handler_left_processes") >= 4);
}

/* One that makes new ones all the time is outrun. */
TEST(leaves_a_breeder, loop_begin, loop_end)
{
	leaves("setsid sh -c 'while :; do setsid sleep 600 & sleep 0.005; done' & sleep 0.1; exit 0");
}

TEST(reaps_while_running, loop_begin, loop_end)
{
	loop_set_handler("/bin/sh", "-c",
	    "for i in 1 2 3 4 5 6 7 8 9; do (setsid true &); done; : >\"$0\"; read x </dev/tty; sleep 600", loop_file, NULL);
	assert_int_equal(loop_start(), 0);
	loop_until_ready();
	for (int i = 0; i < 20; i++)
		loop_one_turn(10);
	assert_int_equal(process_kill_children(NULL, NULL), 1);	/* it alone, no zombies */
	loop_finish();
	assert_int_equal(loop.result.end, HANDLER_SIGNALED);
}

/* ---- its end ---- */

static void timed_out_with(int code, int sig)
{
	assert_int_equal(loop.result.end, HANDLER_TIMED_OUT);
	assert_int_equal(loop.result.code, code);
	assert_int_equal(loop.result.signal, sig);
	assert_true(loop.result.duration_ms >= loop.job.timeout_ms);
}

TEST(times_out, loop_begin, loop_end)
{
	loop.job.timeout_ms = 200;
	loop_run_shell("sleep 600");
	timed_out_with(-1, SIGTERM);
	loop_run_shell("trap 'exit 5' TERM; sleep 600 & wait");
	timed_out_with(5, 0);
	loop_run_shell("kill -STOP $$; sleep 600");
	timed_out_with(-1, SIGTERM);
	loop.conf.kill_grace_ms = 100;
	loop_run_shell("trap '' TERM; sleep 600; sleep 600");
	timed_out_with(-1, SIGKILL);
	loop_run_shell("trap 'kill -STOP $$' TERM; while :; do sleep 0.01; done");
	timed_out_with(-1, SIGKILL);
	loop_run_shell("trap '' TERM; setsid sleep 600 & exec >&- 2>&-; while :; do sleep 600; done");
	timed_out_with(-1, SIGKILL);
}

/* Time in which the worker stood still is none of the handler's, neither of its timeout nor of its grace. */
TEST(time_that_is_forgiven, loop_begin, loop_end)
{
	int64_t at;

	loop.job.timeout_ms = 20000;
	loop.conf.kill_grace_ms = 1000;
	loop_set_handler("/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done", NULL);
	assert_int_equal(loop_start(), 0);
	at = handler_deadline_ms(loop.h);
	handler_forgive(loop.h, 5000);
	assert_int_equal(handler_deadline_ms(loop.h), at + 5000);
	handler_tick(loop.h, at + 4999);
	assert_int_equal(handler_deadline_ms(loop.h), at + 5000);
	handler_tick(loop.h, at + 5000);
	assert_int_equal(handler_deadline_ms(loop.h), at + 6000);
	handler_forgive(loop.h, 3000);
	handler_tick(loop.h, at + 8999);
	assert_int_equal(handler_deadline_ms(loop.h), at + 9000);
	handler_kill(loop.h);
	loop_finish();
	assert_int_equal(loop.result.end, HANDLER_TIMED_OUT);
	loop.job.timeout_ms = -1;
	assert_int_equal(loop_start(), 0);
	handler_forgive(loop.h, 5000);
	assert_int_equal(handler_deadline_ms(loop.h), INT64_MAX);
	handler_kill(loop.h);
	loop_finish();
}

/* A handler with the user of its worker may send that SIGSTOP and SIGCONT for ever. */
TEST(not_all_time_is_forgiven, loop_begin, loop_end)
{
	int64_t at;

	loop.job.timeout_ms = 20000;
	loop_set_handler("/bin/sleep", "600", NULL);
	for (int run = 0; run < 2; run++) {		/* each run has its own count */
		assert_int_equal(loop_start(), 0);
		at = handler_deadline_ms(loop.h);
		for (int i = 0; i < 100; i++)
			handler_forgive(loop.h, 2000);
		assert_int_equal(handler_deadline_ms(loop.h), at + HANDLER_FORGIVEN_MAX * 2000);
		handler_kill(loop.h);
		loop_finish();
	}
}

/* What came first counts. */
TEST(stopped_after_its_timeout, loop_begin, loop_end)
{
	loop.job.timeout_ms = 100;
	loop.stop_after_ms = 200;
	loop_run_shell("trap 'sleep 0.3; exit 5' TERM; while :; do sleep 0.01; done");
	timed_out_with(5, 0);
	assert_false(loop.result.exit_after_stop);
}

TEST(no_early_timeout, loop_begin, loop_end)
{
	loop.job.timeout_ms = 30000;
	loop_run_shell("sleep 0.2");
	loop_exited_with(0);
}

TEST(dumps_core, loop_begin, loop_end)
{
	loop_run_shell("ulimit -c unlimited 2>/dev/null; kill -ABRT $$");
	assert_int_equal(loop.result.end, HANDLER_SIGNALED);
	assert_int_equal(loop.result.signal, SIGABRT);
}

static void stop_when_ready(const char *script)
{
	unlink(loop_file);
	loop_set_handler("/bin/sh", "-c", script, loop_file, NULL);
	assert_int_equal(loop_start(), 0);
	loop_until_ready();
	handler_stop(loop.h, clock_monotonic_ms());
	handler_stop(loop.h, clock_monotonic_ms());
	loop_finish();
}

TEST(stopped, loop_begin, loop_end)
{
	stop_when_ready("trap 'exit 0' TERM; : >\"$0\"; while :; do sleep 0.01; done");
	loop_exited_with(0);
	assert_true(loop.result.exit_after_stop);
	stop_when_ready("trap 'exit 9' TERM; : >\"$0\"; while :; do sleep 0.01; done");
	assert_int_equal(loop.result.end, HANDLER_STOPPED);
	assert_int_equal(loop.result.code, 9);
	assert_true(loop.result.exit_after_stop);
	stop_when_ready(": >\"$0\"; sleep 600");
	assert_int_equal(loop.result.end, HANDLER_STOPPED);
	assert_int_equal(loop.result.signal, SIGTERM);
	assert_false(loop.result.exit_after_stop);
	loop.conf.kill_grace_ms = 100;
	loop.stop_after_ms = 0;			/* told at every turn: the grace is not made longer by it */
	stop_when_ready("trap '' TERM; : >\"$0\"; while :; do sleep 0.01; done");
	assert_int_equal(loop.result.end, HANDLER_STOPPED);
	assert_int_equal(loop.result.signal, SIGKILL);
	loop.stop_after_ms = -1;
	loop_run_shell("exit 0");
	loop_exited_with(0);
	assert_false(loop.result.exit_after_stop);
}

TEST(killed, loop_begin, loop_end)
{
	loop_set_handler("/bin/sh", "-c", "trap '' TERM; setsid sleep 600 & : >\"$0\"; sleep 600", loop_file, NULL);
	assert_int_equal(loop_start(), 0);
	loop_until_ready();
	handler_kill(loop.h);
	loop_finish();
	assert_int_equal(loop.result.end, HANDLER_STOPPED);
	assert_int_equal(loop.result.signal, SIGKILL);
	handler_kill(loop.h);			/* too late: nothing */
	assert_int_equal(handler_deadline_ms(loop.h), INT64_MAX);
}

/* As in uninterruptible sleep: SIGKILL changes nothing. It is given up, logged, and reaped when it does die. */
TEST(unkillable, loop_begin, loop_end)
{
	int64_t now_ms;
	pid_t leader;

	loop_set_handler("/bin/sh", "-c", "[ -e \"$0\" ] && exit; trap '' TERM; : >\"$0\"; while :; do sleep 0.01; done",
	    loop_file, NULL);
	loop.job.timeout_ms = 0;
	assert_int_equal(loop_start(), 0);
	leader = handler_pgid(loop.h);
	while (access(loop_file, F_OK) == -1)
		poll(NULL, 0, 5);
	handler_faults.deaf = true;
	now_ms = clock_monotonic_ms();
	for (int i = 0; i < 10 && !handler_finished(loop.h, &loop.result); i++) {
		handler_tick(loop.h, now_ms);
		now_ms = handler_deadline_ms(loop.h);
	}
	assert_int_equal(loop.result.end, HANDLER_TIMED_OUT);
	assert_int_equal(handler_pgid(loop.h), 0);
	loop_logged("level=error event=handler_unkillable ");
	handler_faults.deaf = false;
	loop.job.timeout_ms = -1;
	assert_int_equal(loop_start(), 0);		/* the next run is not held up by it */
	while (!handler_finished(loop.h, &loop.result))
		loop_one_turn(loop_wait_of(handler_deadline_ms(loop.h), clock_monotonic_ms()));
	loop_exited_with(0);
	assert_int_equal(loop_logged_times("event=handler_unkillable "), 1);
	assert_int_equal(__real_kill(leader, 0), 0);
	__real_kill(leader, SIGKILL);
	while (__real_kill(leader, 0) == 0)	/* reaped between runs, too */
		handler_tick(loop.h, clock_monotonic_ms());
	loop_run();
	loop_exited_with(0);
}

/* The same for one that it left. */
TEST(unkillable_orphan, loop_begin, loop_end)
{
	int64_t now_ms;

	loop_set_handler("/bin/sh", "-c", "setsid sleep 600 & exit 7", NULL);
	assert_int_equal(loop_start(), 0);
	handler_faults.deaf = true;
	while (handler_pgid(loop.h) != 0)
		loop_one_turn(5);
	now_ms = clock_monotonic_ms();
	for (int i = 0; i < 1000 && !handler_finished(loop.h, &loop.result); i++) {
		handler_tick(loop.h, now_ms);
		now_ms = handler_deadline_ms(loop.h);
	}
	loop_exited_with(7);
	loop_logged("level=error event=handler_unkillable ");
	loop_logged("processes=1\n");
}

/* ---- the worker's death ---- */

/* A worker that starts a handler and is killed: the handler dies at once. */
TEST(follows_the_worker, loop_begin, loop_end)
{
	pid_t worker, leader = 0;
	int p[2], status;

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	loop_set_handler("/bin/sh", "-c", "trap '' TERM HUP; : >\"$0\"; while :; do sleep 1; done", loop_file, NULL);
	worker = fork();
	if (worker == 0) {
		if (loop_start() == -1)
			abort();
		loop_until_ready();
		leader = handler_pgid(loop.h);
		if (write(p[1], &leader, sizeof(leader)) != sizeof(leader))
			abort();
		for (;;)
			pause();
	}
	close(p[1]);
	assert_int_equal(read(p[0], &leader, sizeof(leader)), sizeof(leader));
	close(p[0]);
	kill(worker, SIGKILL);
	assert_int_equal(waitpid(worker, &status, 0), worker);
	assert_int_equal(waitpid(leader, &status, 0), leader);	/* adopted by us */
	assert_int_equal(status, SIGKILL);
}

/* ---- another user ---- */

TEST(another_user_follows, loop_begin, loop_end)
{
	loop_become_nobody();
	follows_the_worker(state);
}

TEST(another_user_is_killed, loop_begin, loop_end)
{
	loop_become_nobody();
	leaves("setsid sleep 600 & setsid sleep 600 & exit 0");
}

/* ---- many ---- */

static long resident_kb(void)
{
	return strtol(strstr(file_text("/proc/self/status"), "VmRSS:") + 6, NULL, 10);
}

/* TEST_RUNS: fewer where every run is slow. */
TEST(many_runs, loop_begin, loop_end)
{
	const char *wanted = getenv("TEST_RUNS");
	long runs = wanted == NULL ? 2000 : strtol(wanted, NULL, 10), before_kb = 0;
	size_t before = 0;

	loop_set_handler("/bin/true", NULL);
	for (long i = 0; i < runs; i++) {
		loop_run();
		loop_exited_with(0);
		if (i == runs / 10) {
			before = descriptors_open();
			before_kb = resident_kb();
		}
	}
	assert_int_equal(descriptors_open(), before);
	assert_true(resident_kb() - before_kb < 100);	/* 56 bytes a run */
}

/* The signal that ends a process which asks this of a handler that is in this phase. */
static int signal_of(enum handler_phase phase, void (*ask)(struct handler_process *p, int64_t now_ms))
{
	struct handler_process p = { .conf = &loop.conf, .phase = phase, .failure_pipe = { -1, -1 } };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		close(STDERR_FILENO);		/* what assert() prints */
		signal(SIGABRT, SIG_DFL);
		ask(&p, 0);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* A phase that cannot follow the present one ends the worker: a signal sent to the group of a process that is gone could hit another one. */
TEST(refuses_illegal_phases, loop_begin, loop_end)
{
	static const struct {
		enum handler_phase phase;
		int on_term, on_kill;
	} known[] = {
		{ HANDLER_IDLE, SIGABRT, SIGABRT }, { HANDLER_RUNNING, 0, 0 }, { HANDLER_TERMINATING, SIGABRT, 0 },
		{ HANDLER_KILLING, SIGABRT, SIGABRT }, { HANDLER_CLEARING, SIGABRT, SIGABRT }, { HANDLER_GONE, SIGABRT, SIGABRT },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_int_equal(signal_of(known[i].phase, handler_process_terminate), known[i].on_term);
		assert_int_equal(signal_of(known[i].phase, handler_process_force), known[i].on_kill);
	}
}

UNIT_MAIN(loop_setup, loop_teardown)
