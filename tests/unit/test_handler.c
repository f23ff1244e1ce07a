/* links: common/handler.c common/handler_env.c common/handler_family.c common/handler_input.c common/handler_limits.c common/handler_output.c common/handler_pipes.c common/handler_process.c common/handler_spawn.c common/handler_user.c common/process.c common/log.c common/log_line.c common/clock.c common/message.c common/duration.c common/alloc.c common/buffer.c */
/* ldflags: -Wl,--wrap=kill,--wrap=process_close_on_exec_from,--wrap=waitid,--wrap=waitpid */
/* Handlers of every nasty kind, driven by a loop like the worker's: none hangs it, none leaves a process or a descriptor. */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/buffer.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/process.h"
#include "common/handler.h"
#include "common/handler_output.h"

#define HANG_MS 60000		/* a test that takes so long hangs */

static char dir[] = "/tmp/test_handler.XXXXXX";
static char log_path[64], file_path[64], core_path[64];
static struct buffer text;	/* of the file read last */

/* ---- SIGKILL that does not work ---- */

int __real_kill(pid_t pid, int sig);
int __wrap_kill(pid_t pid, int sig);
static bool deaf;
static pid_t group_killed;	/* the last one that was sent SIGKILL as a group */

int __wrap_kill(pid_t pid, int sig)
{
	if (sig == SIGKILL && pid < 0)
		group_killed = -pid;
	return deaf && sig == SIGKILL ? 0 : __real_kill(pid, sig);
}

/* ---- waits that are interrupted ---- */

int __real_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
static int looks_interrupted, reaps_interrupted;	/* so many are still to come */

static bool interrupted(int *times)
{
	if (*times == 0)
		return false;
	--*times;
	errno = EINTR;
	return true;
}

int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	return interrupted(&looks_interrupted) ? -1 : __real_waitid(type, id, info, options);
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
	return interrupted(&reaps_interrupted) ? -1 : __real_waitpid(pid, status, options);
}

/* ---- a kernel before 5.11 ---- */

int __real_process_close_on_exec_from(int from);
int __wrap_process_close_on_exec_from(int from);
static bool old_kernel;

int __wrap_process_close_on_exec_from(int from)
{
	return old_kernel ? -1 : __real_process_close_on_exec_from(from);
}

/* valgrind executes and limits in its own way. */
static void not_under_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");

	if (preload != NULL && strstr(preload, "vgpreload") != NULL)
		skip();
}

/* ---- files ---- */

static const char *file_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char chunk[65536];
	ssize_t n;

	buffer_clear(&text);
	if (fd == -1)
		fail_msg("%s: %s", path, strerror(errno));
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		buffer_append(&text, chunk, (size_t)n);
	close(fd);
	buffer_append(&text, "", 1);
	return text.data;
}

static void contains(const char *where, const char *want)
{
	if (strstr(where, want) == NULL)
		fail_msg("%s is not in: %.4000s", want, where);
}

static void logged(const char *want)
{
	contains(file_text(log_path), want);
}

static size_t count_of(const char *where, const char *what)
{
	size_t n = 0;

	for (const char *p = where; (p = strstr(p, what)) != NULL; p++)
		n++;
	return n;
}

/* The line of a /proc file that begins with key. */
static void has_line(const char *key, const char *rest)
{
	const char *p = strstr(file_text(file_path), key);
	char got[256], want[256];

	if (p == NULL)
		fail_msg("no %s in %s", key, text.data);
	snprintf(got, sizeof(got), "%.*s", (int)strcspn(p, "\n"), p);
	for (char *c = got; *c != '\0'; c++)
		if (*c == '\t')
			*c = ' ';
	snprintf(want, sizeof(want), "%s%s", key, rest);
	assert_string_equal(got, want);
}

static size_t open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/* ---- the loop ---- */

/* What a test varies. Cleared before each. */
static struct {
	struct conf_queue conf;
	char *argv[16];
	struct message message;
	struct handler_job job;
	struct handler *h;
	struct handler_result result;
	int64_t stop_after_ms;		/* -1: never */
	bool kill_when_ready;
	size_t turns;
} t;

static volatile sig_atomic_t sigchld;

static void on_sigchld(int sig)
{
	(void)sig;
	sigchld = 1;
}

static void set_payload(const void *data, size_t len)
{
	t.message.raw = data;
	t.message.raw_len = len;
}

static int begin(void **unused)
{
	(void)unused;
	memset(&t, 0, sizeof(t));
	t.conf.name = (char *)"mail";
	t.conf.handler = t.argv;
	t.conf.timeout_ms = -1;
	t.conf.kill_grace_ms = 20000;
	t.conf.stderr_tail = 8192;
	t.conf.run_as.no_new_privs = true;
	t.conf.run_as.umask = 022;
	t.conf.run_as.directory = dir;
	t.conf.limits.memory = t.conf.limits.open_files = t.conf.limits.processes = -1;
	t.conf.limits.cpu_ms = t.conf.limits.file_size = -1;
	t.conf.exit_codes[0] = CONF_OUTCOME_DONE;
	t.conf.exit_codes[75] = CONF_OUTCOME_RETRY;
	strcpy(t.message.id, "m-1");
	set_payload("hello", 5);
	t.job = (struct handler_job){ .message = &t.message, .incarnation = "web1.00.1.1", .attempt = 2, .max_attempts = 5,
		.timeout_ms = -1 };
	t.stop_after_ms = -1;
	return log_open(log_path, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
}

static int end(void **unused)
{
	(void)unused;
	handler_free(t.h);
	deaf = old_kernel = false;
	if (truncate(log_path, 0) == -1)
		return -1;
	unlink(file_path);
	unlink(core_path);
	return process_kill_children_wait(NULL, NULL, 10000);
}

static void one_turn(int64_t wait_ms)
{
	struct pollfd p[HANDLER_POLLFDS];
	size_t n = handler_pollfds(t.h, p);
	struct timespec wait = { .tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000 };
	sigset_t none;

	sigemptyset(&none);
	assert_true(n <= HANDLER_POLLFDS);
	if (ppoll(p, n, &wait, &none) > 0)
		handler_io(t.h, p, n);
	handler_tick(t.h, clock_monotonic_ms());
	t.turns++;
}

static int start(void)
{
	if (t.h == NULL)
		t.h = handler_new(&t.conf, "mail/2");
	t.turns = 0;
	return handler_start(t.h, &t.job, clock_monotonic_ms());
}

static int64_t wait_of(int64_t due_ms, int64_t now_ms)
{
	int64_t wait_ms = due_ms - now_ms;

	return wait_ms < 0 ? 0 : wait_ms > 1000 ? 1000 : wait_ms;
}

static void finish(void)
{
	int64_t begun_ms = clock_monotonic_ms(), now_ms = begun_ms;

	while (!handler_finished(t.h, &t.result)) {
		int64_t due_ms = handler_deadline_ms(t.h);

		if (t.stop_after_ms != -1 && now_ms - begun_ms >= t.stop_after_ms)
			handler_stop(t.h, now_ms);
		else if (t.stop_after_ms != -1 && due_ms > begun_ms + t.stop_after_ms)
			due_ms = begun_ms + t.stop_after_ms;
		one_turn(wait_of(due_ms, now_ms));
		now_ms = clock_monotonic_ms();
		if (now_ms - begun_ms > HANG_MS)
			fail_msg("hangs");
	}
	assert_int_equal(handler_pgid(t.h), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);	/* nothing is left */
	assert_int_equal(errno, ECHILD);
}

static void run(void)
{
	pid_t leader;

	assert_int_equal(start(), 0);
	leader = handler_pgid(t.h);
	finish();
	assert_true(leader == 0 || group_killed == leader);	/* while its number was still its own */
}

/* As a queue's `handler`: absolute, no shell but the one named. */
static void set_handler(const char *arg, ...)
{
	size_t n = 0;
	va_list ap;

	va_start(ap, arg);
	for (; arg != NULL; arg = va_arg(ap, const char *))
		t.argv[n++] = (char *)(uintptr_t)arg;
	va_end(ap);
	t.argv[n] = NULL;
	handler_free(t.h);
	t.h = NULL;
}

static void run_shell(const char *script)
{
	set_handler("/bin/sh", "-c", script, NULL);
	run();
}

/* Waits until the handler has made file_path: it is as far as it says. */
static void until_ready(void)
{
	int64_t begun_ms = clock_monotonic_ms();

	while (access(file_path, F_OK) == -1) {
		one_turn(5);
		if (clock_monotonic_ms() - begun_ms > HANG_MS)
			fail_msg("does not get ready");
	}
}

static void exited_with(int code)
{
	assert_int_equal(t.result.end, HANDLER_EXITED);
	assert_int_equal(t.result.code, code);
	assert_int_equal(t.result.signal, 0);
}

/* ---- what it is given ---- */

static void done(void **unused)
{
	(void)unused;
	run_shell("cat; echo; echo oops >&2");
	exited_with(0);
	assert_int_equal(t.result.error, 0);
	assert_true(t.result.duration_ms >= 0 && t.result.duration_ms < HANG_MS);
	assert_int_equal(t.result.stderr_len, 5);
	assert_memory_equal(t.result.stderr_tail, "oops\n", 5);
	logged(" event=handler_output ");
	logged(" queue=mail id=m-1 worker=mail/2 stream=stdout line=hello\n");
	logged(" stream=stderr line=oops\n");
}

static void exit_codes(void **unused)
{
	(void)unused;
	run_shell("exit 3");
	exited_with(3);
	run_shell("exit 255");
	exited_with(255);
	run_shell("exit 126");
	exited_with(126);
	run_shell("kill -KILL $$");
	assert_int_equal(t.result.end, HANDLER_SIGNALED);
	assert_int_equal(t.result.signal, SIGKILL);
	assert_int_equal(t.result.code, -1);
}

/* Its status is not taken for 0. */
static void exit_codes_of_interrupted_waits(void **unused)
{
	(void)unused;
	set_handler("/bin/sh", "-c", "read line; exit 75", NULL);
	for (int n = 0; n < 3; n++) {
		assert_int_equal(start(), 0);
		looks_interrupted = n;
		reaps_interrupted = 1;
		finish();
		assert_int_equal(looks_interrupted + reaps_interrupted, 0);
		exited_with(75);
	}
}

static void payload_arrives(void **unused)
{
	size_t len = 3 << 20;
	char *big = alloc_zero(1, len);

	(void)unused;
	for (size_t i = 0; i < len; i++)
		big[i] = (char)(i * 7 + i / 256);
	set_payload(big, len);
	set_handler("/bin/cp", "/dev/stdin", file_path, NULL);
	run();
	exited_with(0);
	file_text(file_path);
	assert_int_equal(text.len, len + 1);
	assert_memory_equal(text.data, big, len);
	free(big);
	t.message.wrapper_len = 4;
	t.message.header_len = 5;
	set_payload("wrapheadrpayload", 16);
	run();
	assert_string_equal(file_text(file_path), "payload");
	set_payload("", 0);
	t.message.wrapper_len = t.message.header_len = 0;
	run();
	assert_string_equal(file_text(file_path), "");
}

static void does_not_read(void **unused)
{
	char *big = alloc_zero(1, 1 << 20);

	(void)unused;
	set_payload(big, 1 << 20);
	run_shell("exit 0");
	exited_with(0);
	run_shell("exec <&-; exit 4");
	exited_with(4);
	run_shell("exec <&-; sleep 0.2; exit 5");
	exited_with(5);
	assert_true(t.turns < 50);
	run_shell("head -c 1000 >/dev/null");
	exited_with(0);
	free(big);
}

static void argument(void **unused)
{
	(void)unused;
	t.conf.input = CONF_INPUT_ARGV;
	set_payload("a 'b' \"$HOME\" *\n", 16);
	run_shell("printf '<%s>' \"$0\"; readlink /proc/self/fd/0");
	exited_with(0);
	logged("line=\"<a 'b' \\\"$HOME\\\" *\"\n");
	logged("line=>/dev/null\n");
}

static void unrepresentable(void **unused)
{
	size_t max = 100 * 1024;
	char *big = alloc_zero(1, max + 1);

	(void)unused;
	t.conf.input = CONF_INPUT_ARGV;
	memset(big, 'x', max + 1);
	set_payload(big, max);
	run_shell("[ ${#0} = 102400 ]");
	exited_with(0);
	set_payload(big, max + 1);
	run();
	assert_int_equal(t.result.end, HANDLER_UNREPRESENTABLE);
	assert_int_equal(t.turns, 0);
	assert_int_equal(t.result.stderr_len, 0);
	big[5] = '\0';
	set_payload(big, 6);
	run();
	assert_int_equal(t.result.end, HANDLER_UNREPRESENTABLE);
	t.conf.input = CONF_INPUT_STDIN;
	run();
	free(big);
}

/* name=... stands in the environment of the run that copied it to file_path. NULL: not at all. */
static void variable(const char *name, const char *value)
{
	size_t len = strlen(name);
	const char *found = NULL;
	size_t n = 0;

	file_text(file_path);
	for (size_t i = 0; i + 1 < text.len; i += strlen(text.data + i) + 1) {
		if (strncmp(text.data + i, name, len) != 0 || text.data[i + len] != '=')
			continue;
		found = text.data + i + len + 1;
		n++;
	}
	assert_true(n <= 1);
	if (value == NULL && found != NULL)
		fail_msg("%s is set: %s", name, found);
	if (value != NULL && (found == NULL || strcmp(found, value) != 0))
		fail_msg("%s is %s, not %s", name, found == NULL ? "absent" : found, value);
}

static void environment(void **unused)
{
	static char *env[] = { (char *)"A=1 2", (char *)"PASSED", (char *)"ABSENT", (char *)"TZ=Mars", (char *)"QUREDIS_ID=evil",
		(char *)"NOTIFY_SOCKET", NULL };
	int64_t deadline_ms, before_ms = clock_realtime_ms();

	(void)unused;
	setenv("LANG", "de_DE.UTF-8", 1);
	setenv("LC_CTYPE", "C", 1);
	setenv("TZ", "UTC", 1);
	setenv("PASSED", "yes", 1);
	setenv("SECRET", "no", 1);
	setenv("NOTIFY_SOCKET", "/run/x", 1);
	setenv("CREDENTIALS_DIRECTORY", "/run/c", 1);
	unsetenv("PATH");
	t.conf.env = env;
	t.job.timeout_ms = 50000;
	t.job.redelivered = true;
	strcpy(t.message.request_id, "req:7");
	set_handler("/bin/cp", "/proc/self/environ", file_path, NULL);
	run();
	exited_with(0);
	variable("QUREDIS_QUEUE", "mail");
	variable("QUREDIS_ID", "m-1");
	variable("QUREDIS_ATTEMPT", "2");
	variable("QUREDIS_MAX_ATTEMPTS", "5");
	variable("QUREDIS_REDELIVERED", "1");
	variable("QUREDIS_REQUEST_ID", "req:7");
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
	deadline_ms = strtoll(strstr(memmem(text.data, text.len, "QUREDIS_DEADLINE=", 17), "=") + 1, NULL, 10);
	assert_true(deadline_ms >= before_ms + 50000 && deadline_ms <= clock_realtime_ms() + 50000);
	t.job.timeout_ms = -1;
	t.job.redelivered = false;
	t.message.request_id[0] = '\0';
	run();
	variable("QUREDIS_REDELIVERED", "0");
	variable("QUREDIS_DEADLINE", NULL);
	variable("QUREDIS_REQUEST_ID", NULL);
	setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
}

static void has_0_to_2_only(void)
{
	int leaky = fcntl(STDOUT_FILENO, F_DUPFD, 57), low = dup(STDOUT_FILENO);

	set_handler("/bin/ls", "/proc/self/fd", NULL);
	run();
	close(leaky);
	close(low);
	exited_with(0);
	for (int fd = 0; fd <= 3; fd++) {	/* 3: the directory itself */
		char want[32];

		snprintf(want, sizeof(want), "line=%d\n", fd);
		logged(want);
	}
	assert_int_equal(count_of(text.data, "event=handler_output"), 4);
}

static void descriptors(void **unused)
{
	(void)unused;
	has_0_to_2_only();
}

static void descriptors_on_an_old_kernel(void **unused)
{
	(void)unused;
	old_kernel = true;
	has_0_to_2_only();
	set_handler("/nonexistent", NULL);	/* and failures are heard of */
	run();
	assert_int_equal(t.result.end, HANDLER_UNRUNNABLE);
	assert_int_equal(t.result.error, ENOENT);
}

/* The worker started with descriptors 0-2 closed: the pipes must not land there. */
static void without_standard_descriptors(void **unused)
{
	int saved[3];

	(void)unused;
	for (int fd = 0; fd < 3; fd++)
		saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	run_shell("cat; echo; echo err >&2");
	for (int fd = 0; fd < 3; fd++) {
		dup2(saved[fd], fd);
		close(saved[fd]);
	}
	exited_with(0);
	logged("stream=stdout line=hello\n");
	logged("stream=stderr line=err\n");
}

static void clean_state(void **unused)
{
	sigset_t some, old;
	char session[64];
	pid_t leader;

	(void)unused;
	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	sigprocmask(SIG_BLOCK, &some, &old);
	t.conf.run_as.umask = 027;
	set_handler("/bin/cp", "/proc/self/status", file_path, NULL);
	run();
	sigprocmask(SIG_SETMASK, &old, NULL);
	exited_with(0);
	has_line("SigBlk:", " 0000000000000000");
	has_line("SigIgn:", " 0000000000000000");
	has_line("SigCgt:", " 0000000000000000");
	has_line("NoNewPrivs:", " 1");
	has_line("Umask:", " 0027");
	t.conf.run_as.no_new_privs = false;
	unlink(file_path);
	run();
	has_line("NoNewPrivs:", " 0");
	unlink(file_path);
	set_handler("/bin/cp", "/proc/self/stat", file_path, NULL);
	assert_int_equal(start(), 0);
	leader = handler_pgid(t.h);
	finish();
	snprintf(session, sizeof(session), "%d (cp) R %d %d %d ", (int)leader, (int)getpid(), (int)leader, (int)leader);
	assert_memory_equal(file_text(file_path), session, strlen(session));
}

static void limits(void **unused)
{
	char line[32];

	(void)unused;
	not_under_valgrind();
	t.conf.limits.memory = 512 << 20;
	t.conf.limits.open_files = 64;
	t.conf.limits.file_size = 1 << 20;
	t.conf.limits.cpu_ms = 1500;
	t.conf.limits.processes = 100;
	t.conf.limits.oom_score_adj = 555;
	t.conf.limits.oom_score_adj_set = true;
	t.conf.run_as.nice = 3;
	set_handler("/bin/sh", "-c", "cat /proc/self/limits /proc/self/oom_score_adj >\"$0\"; nice", file_path, NULL);
	run();
	exited_with(0);
	has_line("Max data size", "             536870912            536870912            bytes     ");
	has_line("Max open files", "            64                   64                   files     ");
	has_line("Max file size", "             1048576              1048576              bytes     ");
	has_line("Max cpu time", "              2                    22                   seconds   ");
	has_line("Max processes", "             100                  100                  processes ");
	has_line("555", "");
	snprintf(line, sizeof(line), "line=%d\n", getpriority(PRIO_PROCESS, 0) + 3);
	logged(line);
	t.conf.limits.oom_score_adj = 1001;
	run();
	assert_int_equal(t.result.end, HANDLER_UNRUNNABLE);
	assert_int_equal(t.result.error, EINVAL);
	assert_string_equal(t.result.stage, "oom_score_adj");
	t.conf.limits.oom_score_adj_set = false;
	t.conf.limits.open_files = INT64_MAX / 2;	/* above fs.nr_open */
	run();
	assert_int_equal(t.result.end, HANDLER_UNRUNNABLE);
	assert_int_equal(t.result.error, EPERM);
	assert_string_equal(t.result.stage, "limits.open_files");
}

static void cpu_limit(void **unused)
{
	(void)unused;
	t.conf.limits.cpu_ms = 1000;
	run_shell("while :; do :; done");
	assert_int_equal(t.result.end, HANDLER_SIGNALED);
	assert_int_equal(t.result.signal, SIGXCPU);
}

/* ---- what cannot be executed ---- */

static void unrunnable_with(int error, const char *stage)
{
	run();
	assert_int_equal(t.result.end, HANDLER_UNRUNNABLE);
	assert_int_equal(t.result.error, error);
	assert_string_equal(t.result.stage, stage);
	assert_int_equal(t.result.code, -1);
	assert_int_equal(t.result.signal, 0);
	assert_true(t.turns < 20);
}

static void unrunnable(void **unused)
{
	int fd;

	(void)unused;
	not_under_valgrind();
	set_handler("/nowhere/at/all", NULL);
	unrunnable_with(ENOENT, "execve");
	set_handler("/etc/passwd", NULL);
	unrunnable_with(EACCES, "execve");
	fd = open(file_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_int_equal(write(fd, "echo no shell\n", 14), 14);
	set_handler(file_path, NULL);
	unrunnable_with(ETXTBSY, "execve");
	close(fd);
	unrunnable_with(ENOEXEC, "execve");
	set_handler("/bin/true", NULL);
	t.conf.run_as.directory = (char *)"/nowhere";
	unrunnable_with(ENOENT, "chdir");
	t.conf.run_as.directory = dir;
	run();					/* and mending it heals */
	exited_with(0);
}

static void starts_with_less_than(rlim_t needed)
{
	struct rlimit old;
	int spare;

	getrlimit(RLIMIT_NOFILE, &old);
	spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (rlim_t n = 0; n <= needed; n++) {	/* one is spare */
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ (rlim_t)spare + n, old.rlim_max });
		assert_int_equal(start(), -1);
		assert_int_equal(errno, EMFILE);
		assert_false(handler_finished(t.h, &t.result));
		assert_int_equal(handler_deadline_ms(t.h), INT64_MAX);
	}
	setrlimit(RLIMIT_NOFILE, &old);
	close(spare);
}

static void no_descriptors(void **unused)
{
	size_t before = open_descriptors();

	(void)unused;
	if (getenv("QUREDIS_VALGRIND") != NULL)
		skip();			/* it has a limit of its own */
	set_handler("/bin/true", NULL);
	starts_with_less_than(6);	/* two each for outputs and stdin */
	run();
	exited_with(0);
	handler_free(t.h);
	t.h = NULL;
	assert_int_equal(open_descriptors(), before);
	run();
	before = open_descriptors();
	starts_with_less_than(2);	/* the outputs' are still there */
	assert_int_equal(open_descriptors(), before);
	run();
	exited_with(0);
}

/* libuv makes its outputs non-blocking: the next run's are not. */
static void outputs_are_as_new(void **unused)
{
	(void)unused;
	set_handler("/usr/bin/perl", "-e", "use Fcntl; fcntl(STDOUT, F_GETFL, 0) & O_NONBLOCK and exit 9; fcntl(STDOUT, F_SETFL, O_NONBLOCK)",
	    NULL);
	if (access(t.argv[0], X_OK) == -1)
		skip();
	for (int i = 0; i < 3; i++) {
		run();
		exited_with(0);
	}
}

static void no_process(void **unused)
{
	pid_t pid = fork();
	int status;

	(void)unused;
	if (pid == 0) {
		setrlimit(RLIMIT_NPROC, &(struct rlimit){ 0, 0 });
		if (setgid(65534) == -1 || setuid(65534) == -1)
			status = 0;	/* not root: the limit holds for us as we are */
		set_handler("/bin/true", NULL);
		status = start();
		_exit(status == -1 && errno == EAGAIN ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- output ---- */

static void floods(void **unused)
{
	(void)unused;
	run_shell("yes out | head -c 10000000 & yes err | head -c 10000000 >&2; wait; echo last >&2; exit 6");
	exited_with(6);
	assert_int_equal(t.result.stderr_len, 8192);
	assert_memory_equal(t.result.stderr_tail + 8192 - 9, "err\nlast\n", 9);
	assert_true(count_of(file_text(log_path), "event=handler_output ") >= 1000);
	assert_true(count_of(text.data, "event=handler_output ") < 100000);
	logged("level=warning event=handler_output_dropped");
}

static void floods_without_lines(void **unused)
{
	(void)unused;
	run_shell("head -c 10000000 /dev/zero; head -c 10000000 /dev/zero | tr '\\0' x >&2");
	exited_with(0);
	assert_int_equal(t.result.stderr_len, 8192);
	assert_memory_equal(t.result.stderr_tail, "xxxxxxxx", 8);
}

static void dropped_are_counted(void **unused)
{
	size_t lines, dropped = 0;

	(void)unused;
	run_shell("seq 20000");
	exited_with(0);
	lines = count_of(file_text(log_path), "event=handler_output ");
	for (const char *p = text.data; (p = strstr(p, "handler_output_dropped")) != NULL; p++)
		dropped += strtoul(strstr(p, "count=") + 6, NULL, 10);
	assert_int_equal(lines + dropped, 20000);
	assert_true(lines >= HANDLER_OUTPUT_BURST);
}

static void lines(void **unused)
{
	(void)unused;
	run_shell("head -c 2500 /dev/zero | tr '\\0' a; echo; echo; printf '%01024d\\n' 5; printf end");
	exited_with(0);
	file_text(log_path);
	assert_int_equal(count_of(text.data, "event=handler_output "), 6);
	contains(text.data, "line=aaaa");
	contains(text.data, "line=\"\"\n");
	contains(text.data, "0005\n");
	contains(text.data, "line=end\n");
	assert_int_equal(count_of(text.data, "aaaaaaaaaa"), 2 * (1024 - 9) + 2500 - 2048 - 9);
}

static void tail(void **unused)
{
	(void)unused;
	t.conf.stderr_tail = 10;
	set_handler("/bin/sh", "-c", "[ -e \"$0\" ] && exec printf new >&2; : >\"$0\"; seq 100000 >&2; printf 0123456789abc >&2",
	    file_path, NULL);
	run();
	assert_int_equal(t.result.stderr_len, 10);
	assert_memory_equal(t.result.stderr_tail, "3456789abc", 10);
	run();						/* nothing of the last run */
	assert_int_equal(t.result.stderr_len, 3);
	assert_memory_equal(t.result.stderr_tail, "new", 3);
	t.conf.stderr_tail = 0;
	run_shell("seq 1000 >&2");
	assert_int_equal(t.result.stderr_len, 0);
}

static void closes_outputs(void **unused)
{
	(void)unused;
	run_shell("exec >&- 2>&-; sleep 0.3; exit 4");
	exited_with(4);
	assert_true(t.turns < 50);
}

/* ---- what it leaves ---- */

static void leaves(const char *script)
{
	size_t before;

	handler_free(t.h);
	t.h = NULL;
	before = open_descriptors();
	run_shell(script);
	exited_with(0);
	handler_free(t.h);
	t.h = NULL;
	assert_int_equal(open_descriptors(), before);
}

static void leaves_processes(void **unused)
{
	(void)unused;
	leaves("sleep 600 & exit 0");				/* holds stdout open */
	leaves("setsid sleep 600 & exit 0");
	leaves("setsid sh -c 'exec </dev/null >/dev/null 2>&1; setsid sleep 600 & setsid sleep 600 & wait' & sleep 0.1");
	leaves("trap '' TERM HUP; setsid sleep 600 & setsid sh -c 'kill -STOP $$' & sleep 0.1; exit 0");
	leaves("i=0; while [ $i -lt 200 ]; do setsid sleep 600 & i=$((i+1)); done");
	assert_true(count_of(file_text(log_path), "event=handler_left_processes") >= 4);
}

/* One that makes new ones all the time is outrun. */
static void leaves_a_breeder(void **unused)
{
	(void)unused;
	leaves("setsid sh -c 'while :; do setsid sleep 600 & sleep 0.005; done' & sleep 0.1; exit 0");
}

static void reaps_while_running(void **unused)
{
	(void)unused;
	set_handler("/bin/sh", "-c",
	    "for i in 1 2 3 4 5 6 7 8 9; do (setsid true &); done; : >\"$0\"; read x </dev/tty; sleep 600", file_path, NULL);
	assert_int_equal(start(), 0);
	until_ready();
	for (int i = 0; i < 20; i++)
		one_turn(10);
	assert_int_equal(process_kill_children(NULL, NULL), 1);	/* it alone, no zombies */
	finish();
	assert_int_equal(t.result.end, HANDLER_SIGNALED);
}

/* ---- its end ---- */

static void timed_out_with(int code, int sig)
{
	assert_int_equal(t.result.end, HANDLER_TIMED_OUT);
	assert_int_equal(t.result.code, code);
	assert_int_equal(t.result.signal, sig);
	assert_true(t.result.duration_ms >= t.job.timeout_ms);
}

static void times_out(void **unused)
{
	(void)unused;
	t.job.timeout_ms = 200;
	run_shell("sleep 600");
	timed_out_with(-1, SIGTERM);
	run_shell("trap 'exit 5' TERM; sleep 600 & wait");
	timed_out_with(5, 0);
	run_shell("kill -STOP $$; sleep 600");
	timed_out_with(-1, SIGTERM);
	t.conf.kill_grace_ms = 100;
	run_shell("trap '' TERM; sleep 600; sleep 600");
	timed_out_with(-1, SIGKILL);
	run_shell("trap 'kill -STOP $$' TERM; while :; do sleep 0.01; done");
	timed_out_with(-1, SIGKILL);
	run_shell("trap '' TERM; setsid sleep 600 & exec >&- 2>&-; while :; do sleep 600; done");
	timed_out_with(-1, SIGKILL);
}

/* What came first counts. */
static void stopped_after_its_timeout(void **unused)
{
	(void)unused;
	t.job.timeout_ms = 100;
	t.stop_after_ms = 200;
	run_shell("trap 'sleep 0.3; exit 5' TERM; while :; do sleep 0.01; done");
	timed_out_with(5, 0);
	assert_false(t.result.exit_after_stop);
}

static void no_early_timeout(void **unused)
{
	(void)unused;
	t.job.timeout_ms = 30000;
	run_shell("sleep 0.2");
	exited_with(0);
}

static void dumps_core(void **unused)
{
	(void)unused;
	run_shell("ulimit -c unlimited 2>/dev/null; kill -ABRT $$");
	assert_int_equal(t.result.end, HANDLER_SIGNALED);
	assert_int_equal(t.result.signal, SIGABRT);
}

static void stop_when_ready(const char *script)
{
	unlink(file_path);
	set_handler("/bin/sh", "-c", script, file_path, NULL);
	assert_int_equal(start(), 0);
	until_ready();
	handler_stop(t.h, clock_monotonic_ms());
	handler_stop(t.h, clock_monotonic_ms());
	finish();
}

static void stopped(void **unused)
{
	(void)unused;
	stop_when_ready("trap 'exit 0' TERM; : >\"$0\"; while :; do sleep 0.01; done");
	exited_with(0);
	assert_true(t.result.exit_after_stop);
	stop_when_ready("trap 'exit 9' TERM; : >\"$0\"; while :; do sleep 0.01; done");
	assert_int_equal(t.result.end, HANDLER_STOPPED);
	assert_int_equal(t.result.code, 9);
	assert_true(t.result.exit_after_stop);
	stop_when_ready(": >\"$0\"; sleep 600");
	assert_int_equal(t.result.end, HANDLER_STOPPED);
	assert_int_equal(t.result.signal, SIGTERM);
	assert_false(t.result.exit_after_stop);
	t.conf.kill_grace_ms = 100;
	t.stop_after_ms = 0;			/* told at every turn: the grace is not made longer by it */
	stop_when_ready("trap '' TERM; : >\"$0\"; while :; do sleep 0.01; done");
	assert_int_equal(t.result.end, HANDLER_STOPPED);
	assert_int_equal(t.result.signal, SIGKILL);
	t.stop_after_ms = -1;
	run_shell("exit 0");
	exited_with(0);
	assert_false(t.result.exit_after_stop);
}

static void killed(void **unused)
{
	(void)unused;
	set_handler("/bin/sh", "-c", "trap '' TERM; setsid sleep 600 & : >\"$0\"; sleep 600", file_path, NULL);
	assert_int_equal(start(), 0);
	until_ready();
	handler_kill(t.h);
	finish();
	assert_int_equal(t.result.end, HANDLER_STOPPED);
	assert_int_equal(t.result.signal, SIGKILL);
	handler_kill(t.h);			/* too late: nothing */
	assert_int_equal(handler_deadline_ms(t.h), INT64_MAX);
}

/* As in uninterruptible sleep: SIGKILL changes nothing. It is given up, logged, and reaped when it does die. */
static void unkillable(void **unused)
{
	int64_t now_ms;
	pid_t leader;

	(void)unused;
	set_handler("/bin/sh", "-c", "[ -e \"$0\" ] && exit; trap '' TERM; : >\"$0\"; while :; do sleep 0.01; done",
	    file_path, NULL);
	t.job.timeout_ms = 0;
	assert_int_equal(start(), 0);
	leader = handler_pgid(t.h);
	while (access(file_path, F_OK) == -1)
		poll(NULL, 0, 5);
	deaf = true;
	now_ms = clock_monotonic_ms();
	for (int i = 0; i < 10 && !handler_finished(t.h, &t.result); i++) {
		handler_tick(t.h, now_ms);
		now_ms = handler_deadline_ms(t.h);
	}
	assert_int_equal(t.result.end, HANDLER_TIMED_OUT);
	assert_int_equal(handler_pgid(t.h), 0);
	logged("level=error event=handler_unkillable ");
	deaf = false;
	t.job.timeout_ms = -1;
	assert_int_equal(start(), 0);		/* the next run is not held up by it */
	while (!handler_finished(t.h, &t.result))
		one_turn(wait_of(handler_deadline_ms(t.h), clock_monotonic_ms()));
	exited_with(0);
	assert_int_equal(count_of(file_text(log_path), "event=handler_unkillable "), 1);
	assert_int_equal(__real_kill(leader, 0), 0);
	__real_kill(leader, SIGKILL);
	while (__real_kill(leader, 0) == 0)	/* reaped between runs, too */
		handler_tick(t.h, clock_monotonic_ms());
	run();
	exited_with(0);
}

/* The same for one that it left. */
static void unkillable_orphan(void **unused)
{
	int64_t now_ms;

	(void)unused;
	set_handler("/bin/sh", "-c", "setsid sleep 600 & exit 7", NULL);
	assert_int_equal(start(), 0);
	deaf = true;
	while (handler_pgid(t.h) != 0)
		one_turn(5);
	now_ms = clock_monotonic_ms();
	for (int i = 0; i < 1000 && !handler_finished(t.h, &t.result); i++) {
		handler_tick(t.h, now_ms);
		now_ms = handler_deadline_ms(t.h);
	}
	exited_with(7);
	logged("level=error event=handler_unkillable ");
	contains(text.data, "processes=1\n");
}

/* ---- the worker's death ---- */

/* A worker that starts a handler and is killed: the handler dies at once. */
static void follows_the_worker(void **unused)
{
	pid_t worker, leader = 0;
	int p[2], status;

	(void)unused;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	set_handler("/bin/sh", "-c", "trap '' TERM HUP; : >\"$0\"; while :; do sleep 1; done", file_path, NULL);
	worker = fork();
	if (worker == 0) {
		if (start() == -1)
			abort();
		until_ready();
		leader = handler_pgid(t.h);
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

static void become_nobody(void)
{
	static gid_t groups[] = { 65534, 12345 };

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(dir, 0777), 0);
	t.conf.run_as.switch_user = true;
	t.conf.run_as.uid = 65534;
	t.conf.run_as.gid = 65534;
	t.conf.run_as.groups = groups;
	t.conf.run_as.ngroups = 2;
	t.conf.run_as.home = (char *)"/nonexistent";
	t.conf.run_as.login = (char *)"nobody";
}

static void another_user(void **unused)
{
	(void)unused;
	become_nobody();
	setenv("HOME", "/root", 1);
	set_handler("/bin/cp", "/proc/self/status", file_path, NULL);
	run();
	exited_with(0);
	has_line("Uid:", " 65534 65534 65534 65534");
	has_line("Gid:", " 65534 65534 65534 65534");
	has_line("Groups:", " 12345 65534 ");
	has_line("CapEff:", " 0000000000000000");
	unlink(file_path);
	set_handler("/bin/cp", "/proc/self/environ", file_path, NULL);
	run();
	variable("HOME", "/nonexistent");
	variable("USER", "nobody");
	variable("LOGNAME", "nobody");
	variable("SHELL", "/bin/sh");
	variable("PATH", "/usr/local/bin:/usr/bin:/bin");
}

static void another_user_follows(void **unused)
{
	become_nobody();
	follows_the_worker(unused);
}

static void another_user_is_killed(void **unused)
{
	(void)unused;
	become_nobody();
	leaves("setsid sleep 600 & setsid sleep 600 & exit 0");
}

static void may_not_switch(void **unused)
{
	pid_t pid;
	int status;

	(void)unused;
	if (getenv("QUREDIS_VALGRIND") != NULL)
		skip();			/* fails under it only */
	become_nobody();
	t.conf.run_as.uid = 1;
	pid = fork();
	if (pid == 0) {
		if (setgid(65534) == -1 || setuid(65534) == -1)
			_exit(2);
		set_handler("/bin/true", NULL);
		run();
		_exit(t.result.end == HANDLER_UNRUNNABLE && t.result.error == EPERM && strcmp(t.result.stage, "setgroups") == 0
			? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* A worker that hides its memory from its own user can still adjust its handler. */
static void not_dumpable(void **unused)
{
	pid_t pid;
	int status;

	(void)unused;
	if (getenv("QUREDIS_VALGRIND") != NULL)
		skip();			/* fails under it only */
	become_nobody();
	t.conf.run_as.switch_user = false;
	t.conf.limits.oom_score_adj = 555;
	t.conf.limits.oom_score_adj_set = true;
	pid = fork();
	if (pid == 0) {
		if (setgid(65534) == -1 || setuid(65534) == -1 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
			_exit(2);
		run_shell("until [ $(cat /proc/self/oom_score_adj) = 555 ]; do sleep 0.01; done");
		_exit(t.result.end == HANDLER_EXITED && t.result.code == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- many ---- */

static long resident_kb(void)
{
	return strtol(strstr(file_text("/proc/self/status"), "VmRSS:") + 6, NULL, 10);
}

/* TEST_RUNS: fewer where every run is slow. */
static void many_runs(void **unused)
{
	const char *wanted = getenv("TEST_RUNS");
	long runs = wanted == NULL ? 10000 : strtol(wanted, NULL, 10), before_kb = 0;
	size_t before = 0;

	(void)unused;
	set_handler("/bin/true", NULL);
	for (long i = 0; i < runs; i++) {
		run();
		exited_with(0);
		if (i == runs / 10) {
			before = open_descriptors();
			before_kb = resident_kb();
		}
	}
	assert_int_equal(open_descriptors(), before);
	assert_true(resident_kb() - before_kb < 300);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	static const struct CMUnitTest tests[] = {
		TEST(done), TEST(exit_codes), TEST(exit_codes_of_interrupted_waits), TEST(payload_arrives), TEST(does_not_read), TEST(argument), TEST(unrepresentable),
		TEST(environment), TEST(descriptors), TEST(descriptors_on_an_old_kernel), TEST(without_standard_descriptors), TEST(clean_state), TEST(limits),
		TEST(cpu_limit), TEST(unrunnable), TEST(no_descriptors), TEST(outputs_are_as_new), TEST(no_process), TEST(floods), TEST(floods_without_lines),
		TEST(dropped_are_counted), TEST(lines), TEST(tail), TEST(closes_outputs), TEST(leaves_processes),
		TEST(leaves_a_breeder), TEST(reaps_while_running), TEST(times_out), TEST(stopped_after_its_timeout), TEST(no_early_timeout), TEST(dumps_core),
		TEST(stopped), TEST(killed), TEST(unkillable), TEST(unkillable_orphan), TEST(follows_the_worker),
		TEST(another_user), TEST(another_user_follows), TEST(another_user_is_killed), TEST(may_not_switch), TEST(not_dumpable), TEST(many_runs),
	};
	struct sigaction action = { .sa_handler = on_sigchld };
	sigset_t blocked;
	int failed;

	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGCHLD, &action, NULL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	if (process_become_subreaper() == -1 || mkdtemp(dir) == NULL)
		return 1;
	snprintf(log_path, sizeof(log_path), "%s/log", dir);
	snprintf(file_path, sizeof(file_path), "%s/file", dir);
	snprintf(core_path, sizeof(core_path), "%s/core", dir);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	buffer_free(&text);
	unlink(log_path);
	rmdir(dir);
	return failed;
}
