/* links: tests/unit/file_text.c tests/unit/handler/handler_faults.c tests/unit/handler/handler_loop.c */
/* ldflags: -Wl,--wrap=kill,--wrap=process_close_on_exec_from,--wrap=waitid,--wrap=waitpid */
/* Handlers: what they are given, and what they are not. */
#include <sys/resource.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/base/clock.h"
#include "tests/unit/file_text.h"
#include "tests/unit/handler/handler_faults.h"
#include "tests/unit/handler/handler_loop.h"
#include "tests/unit/under_valgrind.h"
#include "tests/unit/unit.h"

/* ---- what it is given ---- */

/* The line of a /proc file that begins with key. */
static void has_line(const char *key, const char *rest)
{
	const char *p = strstr(file_text(loop_file), key);
	char got[256], want[256];

	if (p == NULL)
		fail_msg("no %s in %s", key, file_bytes.data);
	snprintf(got, sizeof(got), "%.*s", (int)strcspn(p, "\n"), p);
	for (char *c = got; *c != '\0'; c++)
		if (*c == '\t')
			*c = ' ';
	snprintf(want, sizeof(want), "%s%s", key, rest);
	assert_string_equal(got, want);
}

TEST(done, loop_begin, loop_end)
{
	loop_run_shell("cat; echo; echo oops >&2");
	loop_exited_with(0);
	assert_int_equal(loop.result.error, 0);
	assert_true(loop.result.duration_ms >= 0 && loop.result.duration_ms < LOOP_HANG_MS);
	assert_int_equal(loop.result.stderr_len, 5);
	assert_memory_equal(loop.result.stderr_tail, "oops\n", 5);
	loop_logged(" event=handler_output ");
	loop_logged(" queue=mail worker=mail/2 id=m-1 stream=stdout line=hello\n");
	loop_logged(" stream=stderr line=oops\n");
}

TEST(exit_codes, loop_begin, loop_end)
{
	loop_run_shell("exit 3");
	loop_exited_with(3);
	loop_run_shell("exit 255");
	loop_exited_with(255);
	loop_run_shell("exit 126");
	loop_exited_with(126);
	loop_run_shell("kill -KILL $$");
	assert_int_equal(loop.result.end, HANDLER_SIGNALED);
	assert_int_equal(loop.result.signal, SIGKILL);
	assert_int_equal(loop.result.code, -1);
}

/* Its status is not taken for 0. */
TEST(exit_codes_of_interrupted_waits, loop_begin, loop_end)
{
	loop_set_handler("/bin/sh", "-c", "read line; exit 75", NULL);
	for (int n = 0; n < 3; n++) {
		assert_int_equal(loop_start(), 0);
		handler_faults.looks_interrupted = n;
		handler_faults.reaps_interrupted = 1;
		loop_finish();
		assert_int_equal(handler_faults.looks_interrupted + handler_faults.reaps_interrupted, 0);
		loop_exited_with(75);
	}
}

TEST(payload_arrives, loop_begin, loop_end)
{
	size_t len = 3 << 20;
	char *big = alloc_zero(1, len);

	for (size_t i = 0; i < len; i++)
		big[i] = (char)(i * 7 + i / 256);
	loop_set_payload(big, len);
	loop_set_handler("/bin/cp", "/dev/stdin", loop_file, NULL);
	loop_run();
	loop_exited_with(0);
	file_text(loop_file);
	assert_int_equal(file_bytes.len, len + 1);
	assert_memory_equal(file_bytes.data, big, len);
	free(big);
	loop.message.wrapper_len = 4;
	loop.message.header_len = 5;
	loop_set_payload("wrapheadrpayload", 16);
	loop_run();
	assert_string_equal(file_text(loop_file), "payload");
	loop_set_payload("", 0);
	loop.message.wrapper_len = loop.message.header_len = 0;
	loop_run();
	assert_string_equal(file_text(loop_file), "");
}

TEST(does_not_read, loop_begin, loop_end)
{
	char *big = alloc_zero(1, 1 << 20);

	loop_set_payload(big, 1 << 20);
	loop_run_shell("exit 0");
	loop_exited_with(0);
	loop_run_shell("exec <&-; exit 4");
	loop_exited_with(4);
	loop_run_shell("exec <&-; sleep 0.2; exit 5");
	loop_exited_with(5);
	assert_true(loop.turns < 50);
	loop_run_shell("head -c 1000 >/dev/null");
	loop_exited_with(0);
	free(big);
}

TEST(argument, loop_begin, loop_end)
{
	loop.conf.input = CONF_INPUT_ARGV;
	loop_set_payload("a 'b' \"$HOME\" *\n", 16);
	loop_run_shell("printf '<%s>' \"$0\"; readlink /proc/self/fd/0");
	loop_exited_with(0);
	loop_logged("line=\"<a 'b' \\\"$HOME\\\" *\"\n");
	loop_logged("line=>/dev/null\n");
}

TEST(unrepresentable, loop_begin, loop_end)
{
	size_t max = 100 * 1024;
	char *big = alloc_zero(1, max + 1);

	loop.conf.input = CONF_INPUT_ARGV;
	memset(big, 'x', max + 1);
	loop_set_payload(big, max);
	loop_run_shell("[ ${#0} = 102400 ]");
	loop_exited_with(0);
	loop_set_payload(big, max + 1);
	loop_run();
	assert_int_equal(loop.result.end, HANDLER_UNREPRESENTABLE);
	assert_int_equal(loop.turns, 0);
	assert_int_equal(loop.result.stderr_len, 0);
	big[5] = '\0';
	loop_set_payload(big, 6);
	loop_run();
	assert_int_equal(loop.result.end, HANDLER_UNREPRESENTABLE);
	loop.conf.input = CONF_INPUT_STDIN;
	loop_run();
	free(big);
}

/* name=... stands in the environment of the run that copied it to loop_file. NULL: not at all. */
static void variable(const char *name, const char *value)
{
	size_t len = strlen(name);
	const char *found = NULL;
	size_t n = 0;

	file_text(loop_file);
	for (size_t i = 0; i + 1 < file_bytes.len; i += strlen(file_bytes.data + i) + 1) {
		if (strncmp(file_bytes.data + i, name, len) != 0 || file_bytes.data[i + len] != '=')
			continue;
		found = file_bytes.data + i + len + 1;
		n++;
	}
	assert_true(n <= 1);
	if (value == NULL && found != NULL)
		fail_msg("%s is set: %s", name, found);
	if (value != NULL && (found == NULL || strcmp(found, value) != 0))
		fail_msg("%s is %s, not %s", name, found == NULL ? "absent" : found, value);
}

TEST(environment, loop_begin, loop_end)
{
	static char *env[] = { (char *)"A=1 2", (char *)"PASSED", (char *)"ABSENT", (char *)"TZ=Mars", (char *)"QUREDIS_ID=evil",
		(char *)"NOTIFY_SOCKET", NULL };
	int64_t deadline_ms, before_ms = clock_realtime_ms();

	setenv("LANG", "de_DE.UTF-8", 1);
	setenv("LC_CTYPE", "C", 1);
	setenv("TZ", "UTC", 1);
	setenv("PASSED", "yes", 1);
	setenv("SECRET", "no", 1);
	setenv("NOTIFY_SOCKET", "/run/x", 1);
	setenv("CREDENTIALS_DIRECTORY", "/run/c", 1);
	unsetenv("PATH");
	loop.conf.env = env;
	loop.job.timeout_ms = 50000;
	loop.job.redelivered = true;
	strcpy(loop.message.request_id, "req:7");
	strcpy(loop.message.traceparent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
	loop.message.wrapper.schedule = (struct message_schedule){ "nightly", 1764205200000 };
	loop_set_handler("/bin/cp", "/proc/self/environ", loop_file, NULL);
	loop_run();
	loop_exited_with(0);
	variable("QUREDIS_QUEUE", "mail");
	variable("QUREDIS_EMIT", NULL);
	variable("QUREDIS_ID", "m-1");
	variable("QUREDIS_ATTEMPT", "2");
	variable("QUREDIS_MAX_ATTEMPTS", "5");
	variable("QUREDIS_REDELIVERED", "1");
	variable("QUREDIS_REQUEST_ID", "req:7");
	variable("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
	variable("QUREDIS_SCHEDULE", "nightly");
	variable("QUREDIS_SCHEDULED_AT", "2025-11-27T01:00:00.000Z");
	variable("QUREDIS_INCARNATION", "web1.00.1.1");
	variable("LANG", "de_DE.UTF-8");
	variable("LC_CTYPE", "C");
	variable("TZ", "Mars");
	variable("A", "1 2");
	variable("PASSED", "yes");
	variable("PATH", "/usr/local/bin:/usr/bin:/bin");
	variable("ABSENT", NULL);
	variable("SECRET", NULL);
	variable("NOTIFY_SOCKET", NULL);
	variable("CREDENTIALS_DIRECTORY", NULL);
	deadline_ms = strtoll(strstr(memmem(file_bytes.data, file_bytes.len, "QUREDIS_DEADLINE=", 17), "=") + 1, NULL, 10);
	assert_true(deadline_ms >= before_ms + 50000 && deadline_ms <= clock_realtime_ms() + 50000);
	loop.job.timeout_ms = -1;
	loop.job.attempt = 13;
	loop.job.redelivered = false;
	loop_set_payload("hello, world", 12);
	loop.message.request_id[0] = loop.message.traceparent[0] = '\0';
	loop.message.wrapper.schedule.name[0] = '\0';
	loop_run();
	variable("QUREDIS_SIZE", "12");
	variable("QUREDIS_ATTEMPT", "13");
	variable("QUREDIS_MAX_ATTEMPTS", "5");
	variable("QUREDIS_REDELIVERED", "0");
	variable("QUREDIS_DEADLINE", NULL);
	variable("QUREDIS_REQUEST_ID", NULL);
	variable("TRACEPARENT", NULL);
	variable("QUREDIS_SCHEDULE", NULL);
	variable("QUREDIS_SCHEDULED_AT", NULL);
	setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
}

TEST(limits_of_emit_are_in_the_environment, loop_begin, loop_end)
{
	static const struct conf_queue thumbs = { .message_max = 4096 }, old = { .shared = true };
	const struct conf_queue *targets[] = { &thumbs, &old, NULL };
	char one[] = "thumbs", two[] = "old", *names[] = { one, two, NULL };

	loop.conf.emit = (struct conf_emit){ .queues = names, .targets = targets, .max = 10, .max_bytes = CONF_EMIT_BYTES_MAX, .max_depth = 16 };
	loop_set_handler("/bin/cp", "/proc/self/environ", loop_file, NULL);
	loop_run();
	loop_exited_with(0);
	variable("QUREDIS_EMIT", "10 67108864 16 thumbs=4096 old=0,shared");
}

static void has_0_to_2_only(void)
{
	int leaky = fcntl(STDOUT_FILENO, F_DUPFD, 57), low = dup(STDOUT_FILENO);

	loop_set_handler("/bin/ls", "/proc/self/fd", NULL);
	loop_run();
	close(leaky);
	close(low);
	loop_exited_with(0);
	for (int fd = 0; fd <= 3; fd++) {	/* 3: the directory itself */
		char want[32];

		snprintf(want, sizeof(want), "line=%d\n", fd);
		loop_logged(want);
	}
	assert_int_equal(loop_logged_times("event=handler_output"), 4);
}

TEST(descriptors, loop_begin, loop_end)
{
	has_0_to_2_only();
}

TEST(descriptors_on_an_old_kernel, loop_begin, loop_end)
{
	handler_faults.old_kernel = true;
	has_0_to_2_only();
	loop_set_handler("/nonexistent", NULL);	/* and failures are heard of */
	loop_run();
	assert_int_equal(loop.result.end, HANDLER_UNRUNNABLE);
	assert_int_equal(loop.result.error, ENOENT);
}

/* The worker started with descriptors 0-2 closed: the pipes must not land there. */
TEST(without_standard_descriptors, loop_begin, loop_end)
{
	int saved[3];

	for (int fd = 0; fd < 3; fd++)
		saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	loop_run_shell("cat; echo; echo err >&2");
	for (int fd = 0; fd < 3; fd++) {
		dup2(saved[fd], fd);
		close(saved[fd]);
	}
	loop_exited_with(0);
	loop_logged("stream=stdout line=hello\n");
	loop_logged("stream=stderr line=err\n");
}

TEST(clean_state, loop_begin, loop_end)
{
	sigset_t some, old;
	char session[64];
	pid_t leader;

	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	sigprocmask(SIG_BLOCK, &some, &old);
	loop.conf.run_as.umask = 027;
	loop_set_handler("/bin/cp", "/proc/self/status", loop_file, NULL);
	loop_run();
	sigprocmask(SIG_SETMASK, &old, NULL);
	loop_exited_with(0);
	has_line("SigBlk:", " 0000000000000000");
	has_line("SigIgn:", " 0000000000000000");
	has_line("SigCgt:", " 0000000000000000");
	has_line("NoNewPrivs:", " 1");
	has_line("Umask:", " 0027");
	loop.conf.run_as.no_new_privs = false;
	unlink(loop_file);
	loop_run();
	has_line("NoNewPrivs:", " 0");
	unlink(loop_file);
	loop_set_handler("/bin/cp", "/proc/self/stat", loop_file, NULL);
	assert_int_equal(loop_start(), 0);
	leader = handler_pgid(loop.h);
	loop_finish();
	snprintf(session, sizeof(session), "%d (cp) R %d %d %d ", (int)leader, (int)getpid(), (int)leader, (int)leader);
	assert_memory_equal(file_text(loop_file), session, strlen(session));
}

TEST(limits, loop_begin, loop_end)
{
	char line[32];

	if (under_valgrind())
		skip();
	loop.conf.limits.memory = 512 << 20;
	loop.conf.limits.open_files = 64;
	loop.conf.limits.file_size = 1 << 20;
	loop.conf.limits.cpu_ms = 1500;
	loop.conf.limits.processes = 100;
	loop.conf.limits.oom_score_adj = 555;
	loop.conf.limits.oom_score_adj_set = true;
	loop.conf.run_as.nice = 3;
	loop_set_handler("/bin/sh", "-c", "cat /proc/self/limits /proc/self/oom_score_adj >\"$0\"; nice", loop_file, NULL);
	loop_run();
	loop_exited_with(0);
	has_line("Max data size", "             536870912            536870912            bytes     ");
	has_line("Max open files", "            64                   64                   files     ");
	has_line("Max file size", "             1048576              1048576              bytes     ");
	has_line("Max cpu time", "              2                    22                   seconds   ");
	has_line("Max processes", "             100                  100                  processes ");
	has_line("555", "");
	snprintf(line, sizeof(line), "line=%d\n", getpriority(PRIO_PROCESS, 0) + 3);
	loop_logged(line);
	loop.conf.limits.oom_score_adj = 1001;
	loop_run();
	assert_int_equal(loop.result.end, HANDLER_UNRUNNABLE);
	assert_int_equal(loop.result.error, EINVAL);
	assert_string_equal(loop.result.stage, "oom_score_adj");
	loop.conf.limits.oom_score_adj_set = false;
	loop.conf.limits.open_files = INT64_MAX / 2;	/* above fs.nr_open */
	loop_run();
	assert_int_equal(loop.result.end, HANDLER_UNRUNNABLE);
	assert_int_equal(loop.result.error, EPERM);
	assert_string_equal(loop.result.stage, "limits.open_files");
}

TEST(cpu_limit, loop_begin, loop_end)
{
	loop.conf.limits.cpu_ms = 1000;
	loop_run_shell("while :; do :; done");
	assert_int_equal(loop.result.end, HANDLER_SIGNALED);
	assert_int_equal(loop.result.signal, SIGXCPU);
}

/* ---- another user ---- */

TEST(another_user, loop_begin, loop_end)
{
	loop_become_nobody();
	setenv("HOME", "/root", 1);
	loop_set_handler("/bin/cp", "/proc/self/status", loop_file, NULL);
	loop_run();
	loop_exited_with(0);
	has_line("Uid:", " 65534 65534 65534 65534");
	has_line("Gid:", " 65534 65534 65534 65534");
	has_line("Groups:", " 12345 65534 ");
	has_line("CapEff:", " 0000000000000000");
	unlink(loop_file);
	loop_set_handler("/bin/cp", "/proc/self/environ", loop_file, NULL);
	loop_run();
	variable("HOME", "/nonexistent");
	variable("USER", "nobody");
	variable("LOGNAME", "nobody");
	variable("SHELL", "/bin/sh");
	variable("PATH", "/usr/local/bin:/usr/bin:/bin");
}

UNIT_MAIN(loop_setup, loop_teardown)
