/* links: tests/unit/descriptors.c tests/unit/file_text.c tests/unit/handler/handler_faults.c tests/unit/handler/handler_loop.c */
/* ldflags: -Wl,--wrap=kill,--wrap=process_close_on_exec_from,--wrap=waitid,--wrap=waitpid */
/* Handlers that cannot be started: the reason is told, and what is mended heals. */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/base.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/handler/handler_loop.h"
#include "tests/unit/under_valgrind.h"
#include "tests/unit/unit.h"

/* ---- what cannot be executed ---- */

static void unrunnable_with(int error, const char *stage)
{
	loop_run();
	assert_int_equal(loop.result.end, HANDLER_UNRUNNABLE);
	assert_int_equal(loop.result.error, error);
	assert_string_equal(loop.result.stage, stage);
	assert_int_equal(loop.result.code, -1);
	assert_int_equal(loop.result.signal, 0);
	assert_true(loop.turns < 20);
}

TEST(unrunnable, loop_begin, loop_end)
{
	int fd;

	if (under_valgrind())
		skip();
	loop_set_handler("/nowhere/at/all", NULL);
	unrunnable_with(ENOENT, "execve");
	loop_set_handler("/etc/passwd", NULL);
	unrunnable_with(EACCES, "execve");
	fd = open(loop_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_int_equal(write(fd, "echo no shell\n", 14), 14);
	loop_set_handler(loop_file, NULL);
	unrunnable_with(ETXTBSY, "execve");
	close(fd);
	unrunnable_with(ENOEXEC, "execve");
	loop_set_handler("/bin/true", NULL);
	loop.conf.run_as.directory = (char *)"/nowhere";
	unrunnable_with(ENOENT, "chdir");
	loop.conf.run_as.directory = loop_dir;
	loop_run();					/* and mending it heals */
	loop_exited_with(0);
}

static void write_file(const char *text, mode_t mode)
{
	int fd = open(loop_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	fchmod(fd, mode);
	close(fd);
}

/* The program is there: then the error is of the interpreter that it names. */
TEST(interpreter_missing, loop_begin, loop_end)
{
	char file[HANDLER_FILE_SIZE];

	if (under_valgrind())
		skip();
	loop_set_handler(loop_file, NULL);
	write_file("#! /usr/bin/python9 -u\n", 0755);
	unrunnable_with(ENOENT, "interpreter");
	assert_string_equal(handler_file_of("interpreter", loop.argv, file), "/usr/bin/python9");
	write_file("#!/etc/passwd\n", 0755);
	unrunnable_with(EACCES, "interpreter");
	write_file("#!/bin/sh\n", 0644);
	unrunnable_with(EACCES, "execve");
	assert_string_equal(handler_file_of("execve", loop.argv, file), loop_file);
	unlink(loop_file);
	unrunnable_with(ENOENT, "execve");
	assert_null(handler_file_of("interpreter", loop.argv, file));
	assert_null(handler_file_of("answer", loop.argv, file));
}

/*
 * The interpreter is there, and its script is not, or not for the handler's user. Status 127 of a shell that runs is an
 * answer of the handler.
 */
TEST(script_missing, loop_begin, loop_end)
{
	char file[HANDLER_FILE_SIZE];

	loop_set_handler("/bin/sh", "-e", loop_file, NULL);
	unrunnable_with(ENOENT, "script");
	assert_string_equal(handler_file_of("script", loop.argv, file), loop_file);
	write_file("/nowhere/at/all\n", 0644);
	loop_run();
	loop_exited_with(127);
	loop_become_nobody();
	write_file("exit 0\n", 0600);
	unrunnable_with(EACCES, "script");
	write_file("exit 0\n", 0644);
	loop_run();
	loop_exited_with(0);
}

/*
 * 200 KiB in one string are too much for the kernel. A short message cannot be the reason, and one on standard input
 * never is.
 */
TEST(environment_too_large, loop_begin, loop_end)
{
	char *big = alloc_zero(1, 200 * 1024), *text;

	if (under_valgrind())
		skip();
	memset(big, 'x', 200 * 1024 - 1);
	loop_set_handler("/bin/true", big, NULL);
	unrunnable_with(E2BIG, "execve");
	loop.conf.input = CONF_INPUT_ARGV;
	loop_set_payload("short", 5);
	unrunnable_with(E2BIG, "execve");
	text = alloc_zero(1, 90 * 1024);
	memset(text, 'x', 90 * 1024);
	loop_set_payload(text, 90 * 1024);
	loop_run();
	assert_int_equal(loop.result.end, HANDLER_UNREPRESENTABLE);
	loop_set_payload("", 0);
	free(text);
	free(big);
}

static void starts_with_less_than(rlim_t needed)
{
	struct rlimit old;
	int spare;

	getrlimit(RLIMIT_NOFILE, &old);
	spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (rlim_t n = 0; n <= needed; n++) {	/* one is spare */
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ (rlim_t)spare + n, old.rlim_max });
		assert_int_equal(loop_start(), -1);
		assert_int_equal(errno, EMFILE);
		assert_false(handler_finished(loop.h, &loop.result));
		assert_int_equal(handler_deadline_ms(loop.h), INT64_MAX);
	}
	setrlimit(RLIMIT_NOFILE, &old);
	close(spare);
}

TEST(no_descriptors, loop_begin, loop_end)
{
	size_t before = descriptors_open();

	if (getenv("QUREDIS_VALGRIND") != NULL)
		skip();			/* it has a limit of its own */
	loop_set_handler("/bin/true", NULL);
	starts_with_less_than(6);	/* two each for outputs and stdin */
	loop_run();
	loop_exited_with(0);
	handler_free(loop.h);
	loop.h = NULL;
	assert_int_equal(descriptors_open(), before);
	loop_run();
	before = descriptors_open();
	starts_with_less_than(2);	/* the outputs' are still there */
	assert_int_equal(descriptors_open(), before);
	loop_run();
	loop_exited_with(0);
}

TEST(no_process, loop_begin, loop_end)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		setrlimit(RLIMIT_NPROC, &(struct rlimit){ 0, 0 });
		if (setgid(65534) == -1 || setuid(65534) == -1)
			status = 0;	/* not root: the limit holds for us as we are */
		loop_set_handler("/bin/true", NULL);
		status = loop_start();
		_exit(status == -1 && errno == EAGAIN ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- another user ---- */

/* In a process that is nobody's. */
static void holds_for_nobody(bool (*holds)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(setgid(65534) == -1 || setuid(65534) == -1 ? 2 : holds() ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static bool is_refused_its_groups(void)
{
	loop_set_handler("/bin/true", NULL);
	loop_run();
	return loop.result.end == HANDLER_UNRUNNABLE && loop.result.error == EPERM && strcmp(loop.result.stage, "setgroups") == 0;
}

TEST(may_not_switch, loop_begin, loop_end)
{
	if (getenv("QUREDIS_VALGRIND") != NULL)
		skip();			/* fails under it only */
	loop_become_nobody();
	loop.conf.run_as.uid = 1;
	holds_for_nobody(is_refused_its_groups);
}

static bool adjusts_its_handler(void)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
		return false;
	loop_run_shell("until [ $(cat /proc/self/oom_score_adj) = 555 ]; do sleep 0.01; done");
	return loop.result.end == HANDLER_EXITED && loop.result.code == 0;
}

/* A worker that hides its memory from its own user can still adjust its handler. */
TEST(not_dumpable, loop_begin, loop_end)
{
	if (getenv("QUREDIS_VALGRIND") != NULL)
		skip();			/* fails under it only */
	loop_become_nobody();
	loop.conf.run_as.switch_user = false;
	loop.conf.limits.oom_score_adj = 555;
	loop.conf.limits.oom_score_adj_set = true;
	holds_for_nobody(adjusts_its_handler);
}

UNIT_MAIN(loop_setup, loop_teardown)
