/* links: tests/unit/log/log_fixture.c */
/* Where lines go: files that others changed, full disks, stalled and vanished readers, the journal, several writers. */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log/log.h"
#include "tests/unit/log/log_fixture.h"
#include "tests/unit/unit.h"

TEST(bad_target_keeps_old, log_fixture_setup)
{
	assert_int_equal(log_open("/nowhere/at/all", LOG_FORMAT_JSON, LOG_LEVEL_ERROR), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(log_open("relative", LOG_FORMAT_JSON, LOG_LEVEL_ERROR), -1);
	log_info("still", log_int("n", 1));
	log_taken();
	log_assert_holds("event=still");
}

/* Nothing is written where another user could lead it, or reads it. */
TEST(what_others_put_there_is_refused, log_fixture_setup)
{
	char other[80], target[80];

	snprintf(other, sizeof(other), "%s.other", log_path);
	snprintf(target, sizeof(target), "%s.target", log_path);
	assert_int_equal(symlink(other, target), 0);
	assert_int_equal(log_open(target, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO), -1);
	assert_non_null(strstr(log_open_error(), "is a link"));
	assert_int_equal(access(other, F_OK), -1);
	assert_int_equal(unlink(target), 0);
	assert_int_equal(link(log_path, target), 0);
	assert_int_equal(log_open(target, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO), -1);
	assert_non_null(strstr(log_open_error(), "second name"));
	assert_int_equal(log_reopen(), -1);		/* ours has it too, by now */
	log_info("still", log_int("n", 1));
	log_taken();
	log_assert_holds("event=still");
	assert_int_equal(unlink(target), 0);
	assert_int_equal(log_reopen(), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(log_path, 65534, 65534), 0);
		assert_int_equal(log_reopen(), -1);
		assert_non_null(strstr(log_open_error(), "belongs to another user"));
		assert_int_equal(chown(log_path, 0, 0), 0);
	}
	assert_int_equal(log_open("/dev/null", LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO), 0);
}

TEST(reopens, log_fixture_setup)
{
	char old[80];

	log_info("first", log_int("n", 1));
	snprintf(old, sizeof(old), "%s.1", log_path);
	assert_int_equal(rename(log_path, old), 0);
	assert_int_equal(log_reopen(), 0);
	log_info("second", log_int("n", 1));
	assert_null(strstr(log_taken(), "event=first"));
	log_assert_holds("event=second");
	unlink(old);
}

/* The order comes after the fork, and before the first look of the child: as its master did, the child had followed the epoch before. */
TEST(child_follows_an_order_before_its_first_look, log_fixture_setup)
{
	char old[80], byte;
	int go[2];
	pid_t pid;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(log_follow(7), 0);
	pid = fork();
	if (pid == 0) {
		if (read(go[0], &byte, 1) == 1 && log_follow(8) == 0)
			log_info("child", log_int("n", 1));
		_exit(0);
	}
	snprintf(old, sizeof(old), "%s.1", log_path);
	assert_int_equal(rename(log_path, old), 0);
	assert_int_equal(log_follow(8), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	log_taken();
	log_assert_holds("event=child");
	unlink(old);
	close(go[0]);
	close(go[1]);
}

/* A file may grow to `limit`: the write that crosses it is short, the next fails with EFBIG. */
static void set_room(rlim_t limit)
{
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ limit, RLIM_INFINITY }), 0);
}

TEST(full_disk, log_fixture_setup)
{
	struct log_losses before, l;

	log_losses(&before);
	set_room(10);
	for (int i = 0; i < 5; i++)
		log_info("lost", log_int("n", i));
	log_losses(&l);
	assert_true(l.lines > before.lines && l.since_ms > 0);
	assert_int_equal(l.error, EFBIG);
	set_room(RLIM_INFINITY);
	log_info("healed", log_int("n", 1));
	log_losses(&l);
	assert_int_equal(l.since_ms, 0);
	log_taken();
	assert_memory_equal(log_text, "time=20", 7);
	assert_int_equal(log_text[10], '\n');		/* the torn line is ended first */
	log_assert_holds("level=warning event=log_lines_lost process=\"worker mail/0\" ");
	log_assert_holds(" count=5\n");
	assert_true(strstr(log_text, "count=5") < strstr(log_text, "event=healed"));
	assert_null(strstr(log_text, "event=lost"));
}

/* The writer of the next line is another process, or a later supervisor. */
TEST(a_torn_line_of_another_process_is_ended, log_fixture_setup)
{
	pid_t pid = fork();

	if (pid == 0) {
		set_room(10);
		log_info("lost", log_int("n", 1));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	log_info("next", log_int("n", 1));
	log_taken();
	assert_memory_equal(log_text, "time=20", 7);
	assert_memory_equal(log_text + 10, "\ntime=20", 8);
}

TEST(a_torn_end_of_a_file_is_ended, log_fixture_setup)
{
	int fd = open(log_path, O_WRONLY | O_APPEND | O_CLOEXEC);

	assert_int_equal(write(fd, "time=2", 6), 6);
	close(fd);
	assert_int_equal(log_open(log_path, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO), 0);
	log_info("next", log_int("n", 1));
	log_info("more", log_int("n", 1));
	log_taken();
	assert_memory_equal(log_text, "time=2\ntime=20", 14);
	assert_null(strstr(log_text, "\n\n"));
}

/* Descriptor 2 becomes fd while body runs. */
static void with_stderr(int fd, void (*body)(void))
{
	int old = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

	dup2(fd, STDERR_FILENO);
	log_open("stderr", LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
	body();
	log_open(log_path, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
	dup2(old, STDERR_FILENO);
	close(old);
}

static void flood(void)
{
	for (int i = 0; i < 5000; i++)
		log_info("flood", log_int("n", i));
}

static int stalled_fd;

static void flood_then_read(void)
{
	flood();
	while (read(stalled_fd, log_text, sizeof(log_text) - 1) == sizeof(log_text) - 1)
		;
	log_info("healed", log_int("n", 1));
	log_text[read(stalled_fd, log_text, sizeof(log_text) - 1)] = '\0';
}

static void stalled(int rd, int wr)
{
	stalled_fd = rd;
	with_stderr(wr, flood_then_read);
	assert_false(fcntl(wr, F_GETFL) & O_NONBLOCK);	/* it is shared */
	log_assert_holds("event=log_lines_lost");
	log_assert_holds("event=healed");
	close(rd);
	close(wr);
}

TEST(stalled_pipe, log_fixture_setup)
{
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	stalled(p[0], p[1]);
}

TEST(stalled_socket, log_fixture_setup)
{
	int p[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	stalled(p[0], p[1]);
}

TEST(vanished_reader, log_fixture_setup)
{
	int p[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	close(p[0]);
	with_stderr(p[1], flood);		/* neither a signal nor a wait */
	close(p[1]);
}

static void journal_body(void)
{
	log_error("e", log_int("n", 1));
}

TEST(journal_priorities, log_fixture_setup)
{
	char stream[64];
	struct stat st;
	int p[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	fstat(p[1], &st);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	with_stderr(p[1], journal_body);
	setenv("JOURNAL_STREAM", "1:1", 1);
	with_stderr(p[1], journal_body);
	unsetenv("JOURNAL_STREAM");
	log_text[read(p[0], log_text, sizeof(log_text) - 1)] = '\0';
	assert_memory_equal(log_text, "<3>level=error event=e ", 23);
	log_assert_holds("\ntime=20");
	close(p[0]);
	close(p[1]);
}

/* Lines of several processes on one file stay whole. */
TEST(many_writers, log_fixture_setup)
{
	size_t lines = 0, len = strlen("time=2026-11-20T14:31:07.123Z level=info event=");

	for (int i = 0; i < 4; i++) {
		if (fork() == 0) {
			for (int n = 0; n < 500; n++)
				log_info("e", log_str("long", "0123456789012345678901234567890123456789"));
			_exit(0);
		}
	}
	while (wait(NULL) != -1)
		;
	log_taken();
	for (char *p = log_text; *p != '\0'; p = strchr(p, '\n') + 1, lines++) {
		assert_memory_equal(p, "time=20", 7);
		assert_memory_equal(p + len, "e process=", 10);
	}
	assert_int_equal(lines, 2000);
}

UNIT_MAIN(log_fixture_setup_all, log_fixture_teardown_all)
