/* Lines as they come out: both formats, hostile bytes, full disks, stalled and vanished readers. */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#define LIBBSD_NETBSD_VIS 1
#include <bsd/stdlib.h>
#include <bsd/vis.h>

#include "common/log/log.h"

static char dir[] = "/tmp/test_log.XXXXXX";
static char path[64], out[1 << 20];

/* Everything in the file, which is emptied. */
static const char *taken(void)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	assert_int_not_equal(fd, -1);
	n = read(fd, out, sizeof(out) - 1);
	assert_true(n >= 0);
	out[n] = '\0';
	close(fd);
	assert_int_equal(truncate(path, 0), 0);
	return out;
}

static int begin(void **unused)
{
	(void)unused;
	snprintf(path, sizeof(path), "%s/log", dir);
	unlink(path);
	assert_int_equal(log_open(path, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO), 0);
	log_process("worker mail/0");
	return 0;
}

static void contains(const char *want)
{
	if (strstr(out, want) == NULL)
		fail_msg("%s is not in: %s", want, out);
}

static void logfmt_line(void **unused)
{
	char pid[32];

	(void)unused;
	log_info("message_done", log_str("queue", "mail"), log_int("attempt", -3), log_str("absent", NULL));
	taken();
	snprintf(pid, sizeof(pid), "pid=%d queue=mail attempt=-3\n", (int)getpid());
	assert_memory_equal(out, "time=20", 7);
	contains("Z level=info event=message_done process=\"worker mail/0\" ");
	contains(pid);
	assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
}

/* What stands behind pid in the only line of the log. */
static const char *behind_pid(void)
{
	const char *pid = strstr(taken(), " pid=");

	assert_non_null(pid);
	return strchr(pid + 1, ' ') != NULL ? strchr(pid + 1, ' ') : "\n";
}

/* The fields of log_bind() stand before those of the event, which may replace or leave out each of them. */
static void bound_fields(void **unused)
{
	(void)unused;
	log_bind("mail", "mail/0");
	log_info("plain");
	assert_string_equal(behind_pid(), " queue=mail worker=mail/0\n");
	log_info("other", log_int("n", 1), log_str("queue", "news"));
	assert_string_equal(behind_pid(), " worker=mail/0 n=1 queue=news\n");
	log_info("without", log_str("queue", NULL));
	assert_string_equal(behind_pid(), " worker=mail/0\n");
	log_bind("news", NULL);
	log_info("rebound");
	assert_string_equal(behind_pid(), " queue=news\n");
	log_bind(NULL, NULL);
	log_info("unbound");
	assert_string_equal(behind_pid(), "\n");
}

static void logfmt_quotes(void **unused)
{
	static const char hostile[] = "a b\"\\\n\t\0" "1\xff\x1b[m\xc2\x9b";

	(void)unused;
	log_info("e", log_bytes("v", hostile, sizeof(hostile) - 1), log_str("w", ""), log_str("x", "a=b"),
	    log_str("y", "Käse"), log_str("z", "x\xe2\x80\xaey"));
	taken();
	contains(" v=\"a b\\\"\\\\\\n\\t\\0001\\377\\033[m\\302\\233\" w=\"\" x=\"a=b\" y=Käse z=\"x\\342\\200\\256y\"\n");
}

/* What was escaped reads back as it was, whatever it was. */
static void logfmt_any_bytes(void **unused)
{
	unsigned char bytes[600];
	char back[700];

	(void)unused;
	for (int round = 0; round < 2000; round++) {
		size_t len = arc4random_uniform(sizeof(bytes));
		char *begin_of, *end_of;

		for (size_t i = 0; i < len; i++)	/* many of those that matter */
			bytes[i] = arc4random_uniform(3) == 0 ? (unsigned char)arc4random() :
			    (unsigned char)("\0\0017\\\"\n\xc3\xa4 x="[arc4random_uniform(11)]);
		log_info("e", log_bytes("v", bytes, len), log_str("after", ""));
		taken();
		begin_of = strstr(out, " v=") + 3;
		end_of = strstr(begin_of, " after=\"\"\n");
		assert_non_null(end_of);
		if (*begin_of == '"') {
			begin_of++;
			end_of--;
		}
		*end_of = '\0';
		assert_int_equal(strnunvisx(back, sizeof(back), begin_of, 0), len);
		assert_memory_equal(back, bytes, len);
	}
}

static void caps_values(void **unused)
{
	static char big[300000];
	struct log_field fields[40];

	(void)unused;
	memset(big, 'x', sizeof(big));
	log_info("e", log_bytes("v", big, 1025));
	taken();
	contains("x...(+1 bytes)\"\n");
	memset(big, 1, sizeof(big));
	for (size_t i = 0; i < 40; i++)
		fields[i] = log_bytes("k", big, sizeof(big));
	log_write(LOG_LEVEL_INFO, "e", fields, 40);
	taken();
	contains(" truncated=true\n");
	assert_true(strlen(out) > 20000 && strlen(out) < 30000);
}

static json_t *parsed(void)
{
	json_error_t error;
	json_t *json;

	taken();
	json = json_loads(out, JSON_ALLOW_NUL, &error);
	if (json == NULL)
		fail_msg("%s: %s", error.text, out);
	return json;
}

static const char *field(json_t *json, const char *key)
{
	return json_string_value(json_object_get(json, key));
}

static void json_line(void **unused)
{
	json_t *json;

	(void)unused;
	log_open(path, LOG_FORMAT_JSON, LOG_LEVEL_INFO);
	log_warning("e", log_bytes("v", "a\"\\\n\x01\xff\xed\xa0\x80\xc3\xa4\xf0\x9f\x98\x80", 15), log_int("n", INT64_MIN));
	json = parsed();
	assert_string_equal(field(json, "level"), "warning");
	assert_string_equal(field(json, "process"), "worker mail/0");
	assert_int_equal(json_integer_value(json_object_get(json, "n")), INT64_MIN);
	assert_string_equal(field(json, "v"), "a\"\\\n\x01\\xff\\xed\\xa0\\x80\xc3\xa4\xf0\x9f\x98\x80");
	json_decref(json);
}

static void json_any_bytes(void **unused)
{
	unsigned char bytes[1500];
	struct log_field fields[30];

	(void)unused;
	log_open(path, LOG_FORMAT_JSON, LOG_LEVEL_INFO);
	for (int round = 0; round < 500; round++) {
		size_t n = arc4random_uniform(30);

		arc4random_buf(bytes, sizeof(bytes));
		for (size_t i = 0; i < n; i++)
			fields[i] = log_bytes("k", bytes, arc4random_uniform(sizeof(bytes)));
		log_write(LOG_LEVEL_INFO, "e", fields, n);
		json_decref(parsed());
	}
}

static void level_counts(void **unused)
{
	(void)unused;
	log_open(path, LOG_FORMAT_LOGFMT, LOG_LEVEL_WARNING);
	assert_false(log_enabled(LOG_LEVEL_INFO));
	log_info("no", log_int("n", 1));
	log_error("yes", log_int("n", 1));
	assert_null(strstr(taken(), "event=no"));
	contains("event=yes");
}

static void errno_survives(void **unused)
{
	(void)unused;
	errno = ENOTTY;
	log_info("e", log_int("n", 1));
	assert_int_equal(errno, ENOTTY);
}

static void bad_target_keeps_old(void **unused)
{
	(void)unused;
	assert_int_equal(log_open("/nowhere/at/all", LOG_FORMAT_JSON, LOG_LEVEL_ERROR), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(log_open("relative", LOG_FORMAT_JSON, LOG_LEVEL_ERROR), -1);
	log_info("still", log_int("n", 1));
	taken();
	contains("event=still");
}

/* Nothing is written where another user could lead it, or reads it. */
static void what_others_put_there_is_refused(void **unused)
{
	char other[80], target[80];

	(void)unused;
	snprintf(other, sizeof(other), "%s.other", path);
	snprintf(target, sizeof(target), "%s.target", path);
	assert_int_equal(symlink(other, target), 0);
	assert_int_equal(log_open(target, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO), -1);
	assert_non_null(strstr(log_open_error(), "is a link"));
	assert_int_equal(access(other, F_OK), -1);
	assert_int_equal(unlink(target), 0);
	assert_int_equal(link(path, target), 0);
	assert_int_equal(log_open(target, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO), -1);
	assert_non_null(strstr(log_open_error(), "second name"));
	assert_int_equal(log_reopen(), -1);		/* ours has it too, by now */
	log_info("still", log_int("n", 1));
	taken();
	contains("event=still");
	assert_int_equal(unlink(target), 0);
	assert_int_equal(log_reopen(), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 65534, 65534), 0);
		assert_int_equal(log_reopen(), -1);
		assert_non_null(strstr(log_open_error(), "belongs to another user"));
		assert_int_equal(chown(path, 0, 0), 0);
	}
	assert_int_equal(log_open("/dev/null", LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO), 0);
}

static void reopens(void **unused)
{
	char old[80];

	(void)unused;
	log_info("first", log_int("n", 1));
	snprintf(old, sizeof(old), "%s.1", path);
	assert_int_equal(rename(path, old), 0);
	assert_int_equal(log_reopen(), 0);
	log_info("second", log_int("n", 1));
	assert_null(strstr(taken(), "event=first"));
	contains("event=second");
	unlink(old);
}

/* A file may grow to `limit`: the write that crosses it is short, the next fails with EFBIG. */
static void set_room(rlim_t limit)
{
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ limit, RLIM_INFINITY }), 0);
}

static void full_disk(void **unused)
{
	(void)unused;
	set_room(10);
	for (int i = 0; i < 5; i++)
		log_info("lost", log_int("n", i));
	set_room(RLIM_INFINITY);
	log_info("healed", log_int("n", 1));
	taken();
	assert_memory_equal(out, "time=20", 7);
	assert_int_equal(out[10], '\n');		/* the torn line is ended first */
	contains("level=warning event=log_lines_lost process=\"worker mail/0\" ");
	contains(" count=5\n");
	assert_true(strstr(out, "count=5") < strstr(out, "event=healed"));
	assert_null(strstr(out, "event=lost"));
}

/* Descriptor 2 becomes fd while body runs. */
static void with_stderr(int fd, void (*body)(void))
{
	int old = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

	dup2(fd, STDERR_FILENO);
	log_open("stderr", LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
	body();
	log_open(path, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
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
	while (read(stalled_fd, out, sizeof(out) - 1) == sizeof(out) - 1)
		;
	log_info("healed", log_int("n", 1));
	out[read(stalled_fd, out, sizeof(out) - 1)] = '\0';
}

static void stalled(int rd, int wr)
{
	stalled_fd = rd;
	with_stderr(wr, flood_then_read);
	assert_false(fcntl(wr, F_GETFL) & O_NONBLOCK);	/* it is shared */
	contains("event=log_lines_lost");
	contains("event=healed");
	close(rd);
	close(wr);
}

static void stalled_pipe(void **unused)
{
	int p[2];

	(void)unused;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	stalled(p[0], p[1]);
}

static void stalled_socket(void **unused)
{
	int p[2];

	(void)unused;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	stalled(p[0], p[1]);
}

static void vanished_reader(void **unused)
{
	int p[2];

	(void)unused;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	close(p[0]);
	with_stderr(p[1], flood);		/* neither a signal nor a wait */
	close(p[1]);
}

static void journal_body(void)
{
	log_error("e", log_int("n", 1));
}

static void journal_priorities(void **unused)
{
	char stream[64];
	struct stat st;
	int p[2];

	(void)unused;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	fstat(p[1], &st);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	with_stderr(p[1], journal_body);
	setenv("JOURNAL_STREAM", "1:1", 1);
	with_stderr(p[1], journal_body);
	unsetenv("JOURNAL_STREAM");
	out[read(p[0], out, sizeof(out) - 1)] = '\0';
	assert_memory_equal(out, "<3>level=error event=e ", 23);
	contains("\ntime=20");
	close(p[0]);
	close(p[1]);
}

/* Lines of several processes on one file stay whole. */
static void many_writers(void **unused)
{
	size_t lines = 0, len = strlen("time=2026-11-20T14:31:07.123Z level=info event=");

	(void)unused;
	for (int i = 0; i < 4; i++) {
		if (fork() == 0) {
			for (int n = 0; n < 500; n++)
				log_info("e", log_str("long", "0123456789012345678901234567890123456789"));
			_exit(0);
		}
	}
	while (wait(NULL) != -1)
		;
	taken();
	for (char *p = out; *p != '\0'; p = strchr(p, '\n') + 1, lines++) {
		assert_memory_equal(p, "time=20", 7);
		assert_memory_equal(p + len, "e process=", 10);
	}
	assert_int_equal(lines, 2000);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(logfmt_line, begin),
		cmocka_unit_test_setup(bound_fields, begin),
		cmocka_unit_test_setup(logfmt_quotes, begin),
		cmocka_unit_test_setup(logfmt_any_bytes, begin),
		cmocka_unit_test_setup(caps_values, begin),
		cmocka_unit_test_setup(json_line, begin),
		cmocka_unit_test_setup(json_any_bytes, begin),
		cmocka_unit_test_setup(level_counts, begin),
		cmocka_unit_test_setup(errno_survives, begin),
		cmocka_unit_test_setup(bad_target_keeps_old, begin),
		cmocka_unit_test_setup(what_others_put_there_is_refused, begin),
		cmocka_unit_test_setup(reopens, begin),
		cmocka_unit_test_setup(full_disk, begin),
		cmocka_unit_test_setup(stalled_pipe, begin),
		cmocka_unit_test_setup(stalled_socket, begin),
		cmocka_unit_test_setup(vanished_reader, begin),
		cmocka_unit_test_setup(journal_priorities, begin),
		cmocka_unit_test_setup(many_writers, begin),
	};
	int failed;

	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (mkdtemp(dir) == NULL)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	rmdir(dir);
	return failed;
}
