/* What a test of handlers runs them in. */
#include <sys/stat.h>
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

#include "tests/unit/handler/handler_loop.h"

#include "common/base/clock.h"
#include "common/log/log.h"
#include "common/base/process.h"
#include "tests/unit/file_text.h"
#include "tests/unit/handler/handler_faults.h"

struct loop loop;
char loop_dir[] = "/tmp/test_handler.XXXXXX";
char loop_log[64], loop_file[64];

static char core_path[64];

/* ---- the program ---- */

static void on_sigchld(int sig)
{
	(void)sig;
}

int loop_setup(void **unused)
{
	struct sigaction action = { .sa_handler = on_sigchld };
	sigset_t blocked;

	(void)unused;
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGCHLD, &action, NULL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	if (process_become_subreaper() == -1 || mkdtemp(loop_dir) == NULL)
		return -1;
	snprintf(loop_log, sizeof(loop_log), "%s/log", loop_dir);
	snprintf(loop_file, sizeof(loop_file), "%s/file", loop_dir);
	snprintf(core_path, sizeof(core_path), "%s/core", loop_dir);
	return 0;
}

int loop_teardown(void **unused)
{
	(void)unused;
	buffer_free(&file_bytes);
	unlink(loop_log);
	return rmdir(loop_dir);
}

/* ---- a test ---- */

void loop_set_payload(const void *data, size_t len)
{
	loop.message.raw = data;
	loop.message.raw_len = len;
}

int loop_begin(void **unused)
{
	(void)unused;
	memset(&loop, 0, sizeof(loop));
	loop.conf.name = (char *)"mail";
	loop.conf.handler = loop.argv;
	loop.conf.timeout_ms = -1;
	loop.conf.kill_grace_ms = 20000;
	loop.conf.stderr_tail = 8192;
	loop.conf.run_as.no_new_privs = true;
	loop.conf.run_as.umask = 022;
	loop.conf.run_as.directory = loop_dir;
	loop.conf.limits.memory = loop.conf.limits.open_files = loop.conf.limits.processes = -1;
	loop.conf.limits.cpu_ms = loop.conf.limits.file_size = -1;
	loop.conf.exit_codes[0] = CONF_OUTCOME_DONE;
	loop.conf.exit_codes[75] = CONF_OUTCOME_RETRY;
	strcpy(loop.message.id, "m-1");
	loop_set_payload("hello", 5);
	loop.job = (struct handler_job){ .message = &loop.message, .incarnation = "web1.00.1.1", .attempt = 2, .max_attempts = 5,
		.timeout_ms = -1 };
	loop.stop_after_ms = -1;
	log_bind("mail", "mail/2");
	return log_open(loop_log, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
}

int loop_end(void **unused)
{
	(void)unused;
	handler_free(loop.h);
	handler_faults.deaf = handler_faults.old_kernel = false;
	if (truncate(loop_log, 0) == -1)
		return -1;
	unlink(loop_file);
	unlink(core_path);
	return process_kill_children_wait(NULL, NULL, 10000);
}

void loop_one_turn(int64_t wait_ms)
{
	struct pollfd p[HANDLER_POLLFDS];
	size_t n = handler_pollfds(loop.h, p);
	struct timespec wait = { .tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000 };
	sigset_t none;

	sigemptyset(&none);
	assert_true(n <= HANDLER_POLLFDS);
	if (ppoll(p, n, &wait, &none) > 0)
		handler_io(loop.h, p, n);
	handler_tick(loop.h, clock_monotonic_ms());
	loop.turns++;
}

int loop_start(void)
{
	if (loop.h == NULL)
		loop.h = handler_new(&loop.conf);
	loop.turns = 0;
	return handler_start(loop.h, &loop.job, clock_monotonic_ms());
}

int64_t loop_wait_of(int64_t due_ms, int64_t now_ms)
{
	int64_t wait_ms = due_ms - now_ms;

	return wait_ms < 0 ? 0 : wait_ms > 1000 ? 1000 : wait_ms;
}

void loop_finish(void)
{
	int64_t begun_ms = clock_monotonic_ms(), now_ms = begun_ms;

	while (!handler_finished(loop.h, &loop.result)) {
		int64_t due_ms = handler_deadline_ms(loop.h);

		if (loop.stop_after_ms != -1 && now_ms - begun_ms >= loop.stop_after_ms)
			handler_stop(loop.h, now_ms);
		else if (loop.stop_after_ms != -1 && due_ms > begun_ms + loop.stop_after_ms)
			due_ms = begun_ms + loop.stop_after_ms;
		loop_one_turn(loop_wait_of(due_ms, now_ms));
		now_ms = clock_monotonic_ms();
		if (now_ms - begun_ms > LOOP_HANG_MS)
			fail_msg("hangs");
	}
	assert_int_equal(handler_pgid(loop.h), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);	/* nothing is left */
	assert_int_equal(errno, ECHILD);
}

void loop_run(void)
{
	pid_t leader;

	assert_int_equal(loop_start(), 0);
	leader = handler_pgid(loop.h);
	loop_finish();
	assert_true(leader == 0 || handler_faults.group_killed == leader);	/* while its number was still its own */
}

void loop_set_handler(const char *arg, ...)
{
	size_t n = 0;
	va_list ap;

	va_start(ap, arg);
	for (; arg != NULL; arg = va_arg(ap, const char *))
		loop.argv[n++] = (char *)(uintptr_t)arg;
	va_end(ap);
	loop.argv[n] = NULL;
	handler_free(loop.h);
	loop.h = NULL;
}

void loop_run_shell(const char *script)
{
	loop_set_handler("/bin/sh", "-c", script, NULL);
	loop_run();
}

void loop_until_ready(void)
{
	int64_t begun_ms = clock_monotonic_ms();

	while (access(loop_file, F_OK) == -1) {
		loop_one_turn(5);
		if (clock_monotonic_ms() - begun_ms > LOOP_HANG_MS)
			fail_msg("does not get ready");
	}
}

void loop_exited_with(int code)
{
	assert_int_equal(loop.result.end, HANDLER_EXITED);
	assert_int_equal(loop.result.code, code);
	assert_int_equal(loop.result.signal, 0);
}

void loop_become_nobody(void)
{
	static gid_t groups[] = { 65534, 12345 };

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(loop_dir, 0777), 0);
	loop.conf.run_as.switch_user = true;
	loop.conf.run_as.uid = 65534;
	loop.conf.run_as.gid = 65534;
	loop.conf.run_as.groups = groups;
	loop.conf.run_as.ngroups = 2;
	loop.conf.run_as.home = (char *)"/nonexistent";
	loop.conf.run_as.login = (char *)"nobody";
}

void loop_logged(const char *want)
{
	file_contains(loop_log, want);
}

size_t loop_logged_times(const char *what)
{
	size_t n = 0;

	for (const char *p = file_text(loop_log); (p = strstr(p, what)) != NULL; p++)
		n++;
	return n;
}
