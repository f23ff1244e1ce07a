/* What a test of handlers that stay runs them in. */
#include <sys/wait.h>

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/persistent/persistent_loop.h"

#include "common/base/clock.h"
#include "common/log/log.h"
#include "common/base/process.h"
#include "tests/unit/file_text.h"

struct loop loop;

static char dir[] = "/tmp/test_persistent.XXXXXX";
static char log_path[64], self_path[512];

/* ---- the program ---- */

static void on_sigchld(int sig)
{
	(void)sig;
}

int loop_setup(void **unused)
{
	struct sigaction chld = { .sa_handler = on_sigchld };
	ssize_t n = readlink("/proc/self/exe", self_path, sizeof(self_path) - 1);
	sigset_t all;

	(void)unused;
	if (n == -1 || mkdtemp(dir) == NULL)
		return -1;
	self_path[n] = '\0';
	snprintf(log_path, sizeof(log_path), "%s/log", dir);
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGCHLD, &chld, NULL);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	return process_become_subreaper();
}

int loop_teardown(void **unused)
{
	(void)unused;
	buffer_free(&file_bytes);
	unlink(log_path);
	return rmdir(dir);
}

/* ---- a test ---- */

void loop_logged(const char *want)
{
	file_contains(log_path, want);
}

void loop_not_logged(const char *what)
{
	if (strstr(file_text(log_path), what) != NULL)
		fail_msg("%s is in: %.4000s", what, file_bytes.data);
}

int loop_begin(void **unused)
{
	(void)unused;
	memset(&loop, 0, sizeof(loop));
	loop.conf.headers = true;
	loop.conf.name = (char *)"mail";
	loop.conf.handler = loop.argv;
	loop.argv[0] = self_path;
	loop.argv[1] = (char *)"handler";
	loop.argv[2] = (char *)"told";
	loop.conf.mode = CONF_MODE_PERSISTENT;
	loop.conf.window = 1;
	loop.conf.reply_fd = -1;
	loop.conf.kill_grace_ms = 20000;
	loop.conf.stderr_tail = 8192;
	loop.conf.recycle.jobs = loop.conf.recycle.rss = loop.conf.recycle.age_ms = -1;
	loop.conf.run_as.no_new_privs = true;
	loop.conf.run_as.umask = 022;
	loop.conf.run_as.directory = dir;
	loop.conf.limits.memory = loop.conf.limits.open_files = loop.conf.limits.processes = -1;
	loop.conf.limits.cpu_ms = loop.conf.limits.file_size = -1;
	loop.job = (struct handler_job){ .attempt = 1, .max_attempts = 1, .timeout_ms = LOOP_HANG_MS };
	loop.now_ms = clock_monotonic_ms();
	log_bind("mail", "mail/2");
	return log_open(log_path, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
}

int loop_end(void **unused)
{
	(void)unused;
	persistent_free(loop.p);
	loop.p = NULL;
	if (truncate(log_path, 0) == -1)
		return -1;
	return process_kill_children_wait(NULL, NULL, 10000);
}

void loop_start(void)
{
	if (loop.p == NULL)
		loop.p = persistent_new(&loop.conf);
	loop.ended = false;
	assert_int_equal(persistent_start(loop.p, "web1.00.1.1", loop.now_ms), 0);
}

void loop_start_with(const char *how)
{
	loop.argv[2] = (char *)(uintptr_t)how;
	loop_start();
}

uint64_t loop_give_bytes(const void *data, size_t len)
{
	struct message *m = &loop.messages[++loop.serial % LOOP_GOT_MAX];

	message_parse(m, &(struct message_keys){ .queue = "q", .secrets = seal_known(), .headers = true }, data, len);
	loop.job.message = m;
	persistent_give(loop.p, loop.serial, &loop.job, loop.now_ms);
	return loop.serial;
}

uint64_t loop_give(const char *commands)
{
	return loop_give_bytes(commands, strlen(commands));
}

static void note(const struct handler_reply *r)
{
	struct loop_got *g = &loop.got[loop.ngot++];

	assert_true(loop.ngot < LOOP_GOT_MAX);
	*g = (struct loop_got){ .serial = r->serial, .verb = r->verb, .delay_ms = r->delay_ms, .reason_len = r->reason_len };
	memcpy(g->reason, r->reason, r->reason_len < sizeof(g->reason) ? r->reason_len : sizeof(g->reason) - 1);
	memcpy(g->stderr_tail, r->stderr_tail == NULL ? "" : r->stderr_tail,
	    r->stderr_len < sizeof(g->stderr_tail) ? r->stderr_len : sizeof(g->stderr_tail) - 1);
	assert_true(r->duration_ms >= 0 && r->duration_ms < LOOP_HANG_MS);
}

void loop_take_all(void)
{
	struct handler_reply r;

	while (persistent_reply(loop.p, &r)) {
		if (loop.count_only) {
			assert_int_equal(r.verb, VERB_OK);
			loop.counted++;
		} else {
			note(&r);
		}
	}
}

static int64_t wait_ms(void)
{
	int64_t left_ms = persistent_deadline_ms(loop.p) - loop.now_ms;

	return left_ms < 0 ? 0 : left_ms > 1000 ? 1000 : left_ms;
}

void loop_turn(void)
{
	struct pollfd p[PERSISTENT_POLLFDS];
	int64_t wait = wait_ms();
	struct timespec ts = { .tv_sec = wait / 1000, .tv_nsec = wait % 1000 * 1000000 };
	sigset_t none;
	size_t n;
	int ready;

	sigemptyset(&none);
	persistent_flush(loop.p);
	n = persistent_pollfds(loop.p, p);
	assert_true(n <= PERSISTENT_POLLFDS);
	ready = ppoll(p, n, &ts, &none);
	loop.now_ms = clock_monotonic_ms();
	if (ready > 0)
		persistent_io(loop.p, p, n, loop.now_ms);
	else
		persistent_quiet(loop.p);
	loop_take_all();
	persistent_tick(loop.p, loop.now_ms);
	loop_take_all();
	if (persistent_ended(loop.p, &loop.end)) {
		loop.ended = true;
		memset(loop.end_stderr, 0, sizeof(loop.end_stderr));
		memcpy(loop.end_stderr, loop.end.stderr_tail, loop.end.stderr_len < 255 ? loop.end.stderr_len : 255);
	}
}

void loop_until_answers(int n)
{
	int64_t begun_ms = clock_monotonic_ms();

	while (loop.ngot < n && !loop.ended) {
		loop_turn();
		if (loop.now_ms - begun_ms > LOOP_HANG_MS)
			fail_msg("hangs after %d answers of %d", loop.ngot, n);
	}
	assert_true(loop.ngot >= n);
	assert_false(loop.ended);
}

void loop_until_end(void)
{
	int64_t begun_ms = clock_monotonic_ms();

	while (!loop.ended) {
		loop_turn();
		if (loop.now_ms - begun_ms > LOOP_HANG_MS)
			fail_msg("hangs");
	}
	assert_int_equal(persistent_pgid(loop.p), 0);
	assert_false(persistent_running(loop.p));
	assert_int_equal(persistent_room(loop.p), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);	/* nothing is left */
	assert_int_equal(errno, ECHILD);
}

void loop_until_logged(const char *want)
{
	int64_t begun_ms = clock_monotonic_ms();

	while (strstr(file_text(log_path), want) == NULL) {
		loop_turn();
		if (loop.now_ms - begun_ms > LOOP_HANG_MS)
			fail_msg("%s is never logged: %.2000s", want, file_bytes.data);
	}
}

void loop_got(int i, uint64_t serial, enum handler_verb verb, int64_t delay_ms, const char *reason)
{
	assert_true(i < loop.ngot);
	assert_int_equal(loop.got[i].serial, serial);
	assert_int_equal(loop.got[i].verb, verb);
	assert_int_equal(loop.got[i].delay_ms, delay_ms);
	assert_string_equal(loop.got[i].reason, reason);
}

void loop_got_ok(int i, uint64_t serial)
{
	loop_got(i, serial, VERB_OK, -1, "");
}

void loop_drain(void)
{
	persistent_drain(loop.p, loop.now_ms);
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_EXITED);
	assert_int_equal(loop.end.code, 0);
	assert_true(loop.end.asked);
	assert_int_equal(loop.end.unanswered, 0);
}
