/* links: common/persistent.c common/persistent_answers.c common/persistent_life.c common/persistent_input.c common/persistent_lines.c common/persistent_reply.c common/persistent_window.c common/handler_env.c common/handler_family.c common/handler_limits.c common/handler_output.c common/handler_pipes.c common/handler_process.c common/handler_spawn.c common/handler_user.c common/process.c common/log.c common/log_line.c common/clock.c common/message.c common/duration.c common/alloc.c common/buffer.c */
/*
 * Handlers that stay, good and bad, driven by a loop like the worker's. The handler is this program: a payload
 * is what it is to do, one command a line, or bytes to take the sum of.
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
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
#include "common/nitems.h"
#include "common/process.h"
#include "common/persistent.h"
#include "common/persistent_input.h"
#include "common/persistent_lines.h"

#define HANG_MS 60000		/* a test that takes so long hangs */

static char dir[] = "/tmp/test_persistent.XXXXXX";
static char log_path[64], self_path[512];

/* ---- the handler ---- */

static FILE *answers;
static unsigned long held[1024];
static int nheld;

static void say(FILE *out, const char *text, unsigned long serial, bool newline)
{
	for (; *text != '\0'; text++)
		if (*text == '@')
			fprintf(out, "%lu", serial);
		else
			putc(*text, out);
	if (newline)
		putc('\n', out);
	fflush(out);
}

static void fill(FILE *out, long n)
{
	while (n-- > 0)
		putc('x', out);
	fflush(out);
}

static void release(void)
{
	while (nheld > 0)
		fprintf(answers, "OK %lu\n", held[--nheld]);
	fflush(answers);
}

static void leave_a_process(void)
{
	if (fork() == 0) {
		setsid();
		for (;;)
			pause();
	}
}

static void obey_word(const char *word, const char *rest, unsigned long serial)
{
	if (strcmp(word, "say") == 0)
		say(answers, rest, serial, true);
	else if (strcmp(word, "part") == 0)
		say(answers, rest, serial, false);
	else if (strcmp(word, "out") == 0)
		say(stdout, rest, serial, true);
	else if (strcmp(word, "err") == 0)
		say(stderr, rest, serial, true);
	else if (strcmp(word, "fill") == 0)
		fill(answers, atol(rest));
	else if (strcmp(word, "nap") == 0)
		poll(NULL, 0, atoi(rest));
	else if (strcmp(word, "hold") == 0)
		held[nheld++] = serial;
	else if (strcmp(word, "release") == 0)
		release();
	else if (strcmp(word, "closein") == 0)
		close(0);
	else if (strcmp(word, "closeout") == 0)
		close(fileno(answers));
	else if (strcmp(word, "deaf") == 0)
		signal(SIGTERM, SIG_IGN);
	else if (strcmp(word, "spawn") == 0)
		leave_a_process();
	else if (strcmp(word, "die") == 0)
		kill(getpid(), SIGKILL);
	else if (strcmp(word, "exit") == 0)
		_exit(atoi(rest));
	else if (strcmp(word, "stuck") == 0)
		for (;;)
			pause();
	else if (strcmp(word, "flood") == 0)
		for (;;)
			fprintf(answers, "line after line\n");
}

static void obey(char *commands, unsigned long serial)
{
	char *line;

	while ((line = strsep(&commands, "\n")) != NULL) {
		char *rest = line, *word = strsep(&rest, " ");

		obey_word(word, rest == NULL ? "" : rest, serial);
	}
}

static uint32_t sum_of(const char *data, size_t len)
{
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < len; i++)
		sum = (sum ^ (unsigned char)data[i]) * 16777619u;
	return sum;
}

/* How it reads, and whether it does what it is told, is in argv. */
static int be_handler(const char *how)
{
	bool only_ok = strcmp(how, "ok") == 0, sums = strcmp(how, "sum") == 0;
	const char *reply_fd = getenv("QUREDIS_REPLY_FD");
	unsigned long serial, attempt, bytes;
	char head[1024], *payload = NULL;

	answers = reply_fd == NULL ? stdout : fdopen(atoi(reply_fd), "w");
	if (strcmp(how, "bytewise") == 0)
		setvbuf(stdin, NULL, _IONBF, 0);
	while (fgets(head, sizeof(head), stdin) != NULL) {
		if (sscanf(head, "JOB %lu %lu %lu", &serial, &attempt, &bytes) != 3)
			_exit(99);
		payload = alloc_resize(payload, bytes + 1, 1);
		if (fread(payload, 1, bytes + 1, stdin) != bytes + 1 || payload[bytes] != '\n')
			_exit(98);
		payload[bytes] = '\0';
		if (only_ok)
			say(answers, "OK @", serial, true);
		else if (sums)
			fprintf(answers, "FAIL %lu %08x %s", serial, sum_of(payload, bytes), head), fflush(answers);
		else
			obey(payload, serial);
	}
	release();
	free(payload);
	return 0;
}

/* ---- the loop ---- */

#define GOT_MAX 4096

/* What a test varies, and what came of it. Cleared before each. */
static struct {
	struct conf_queue conf;
	char *argv[8];
	struct persistent *p;
	uint64_t serial;		/* of the last job */
	struct message messages[GOT_MAX];	/* by serial */
	struct handler_job job;
	struct got {
		uint64_t serial;
		enum persistent_verdict verdict;
		int64_t delay_ms;
		char reason[256];
		size_t reason_len;
		char stderr_tail[256];
	} got[GOT_MAX];
	int ngot;
	bool count_only;		/* answers, which are all OK */
	long counted;
	bool ended;
	struct persistent_end end;
	char end_stderr[256];
	int64_t now_ms;
} t;

static struct buffer text;	/* of the log */

static void on_sigchld(int sig)
{
	(void)sig;
}

static const char *log_text(void)
{
	int fd = open(log_path, O_RDONLY | O_CLOEXEC);
	char chunk[65536];
	ssize_t n;

	buffer_clear(&text);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		buffer_append(&text, chunk, (size_t)n);
	close(fd);
	buffer_append(&text, "", 1);
	return text.data;
}

static void logged(const char *want)
{
	if (strstr(log_text(), want) == NULL)
		fail_msg("%s is not in: %.4000s", want, text.data);
}

static void not_logged(const char *what)
{
	if (strstr(log_text(), what) != NULL)
		fail_msg("%s is in: %.4000s", what, text.data);
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

static bool under_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload != NULL && strstr(preload, "vgpreload") != NULL;
}

static int begin(void **unused)
{
	(void)unused;
	memset(&t, 0, sizeof(t));
	t.conf.name = (char *)"mail";
	t.conf.handler = t.argv;
	t.argv[0] = self_path;
	t.argv[1] = (char *)"handler";
	t.argv[2] = (char *)"told";
	t.conf.mode = CONF_MODE_PERSISTENT;
	t.conf.window = 1;
	t.conf.reply_fd = -1;
	t.conf.kill_grace_ms = 20000;
	t.conf.stderr_tail = 8192;
	t.conf.recycle.jobs = t.conf.recycle.rss = t.conf.recycle.age_ms = -1;
	t.conf.run_as.no_new_privs = true;
	t.conf.run_as.umask = 022;
	t.conf.run_as.directory = dir;
	t.conf.limits.memory = t.conf.limits.open_files = t.conf.limits.processes = -1;
	t.conf.limits.cpu_ms = t.conf.limits.file_size = -1;
	t.job = (struct handler_job){ .attempt = 1, .max_attempts = 1, .timeout_ms = HANG_MS };
	t.now_ms = clock_monotonic_ms();
	return log_open(log_path, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
}

static int end(void **unused)
{
	(void)unused;
	persistent_free(t.p);
	t.p = NULL;
	if (truncate(log_path, 0) == -1)
		return -1;
	return process_kill_children_wait(NULL, NULL, 10000);
}

static void start(void)
{
	if (t.p == NULL)
		t.p = persistent_new(&t.conf, "mail/2");
	t.ended = false;
	assert_int_equal(persistent_start(t.p, "web1.00.1.1", t.now_ms), 0);
}

static void start_with(const char *how)
{
	t.argv[2] = (char *)(uintptr_t)how;
	start();
}

/* Must live until it is answered: data is the test's. */
static uint64_t give_bytes(const void *data, size_t len)
{
	struct message *m = &t.messages[++t.serial % GOT_MAX];

	message_parse(m, data, len);
	t.job.message = m;
	persistent_give(t.p, t.serial, &t.job, t.now_ms);
	return t.serial;
}

static uint64_t give(const char *commands)
{
	return give_bytes(commands, strlen(commands));
}

static void note(const struct persistent_reply *r)
{
	struct got *g = &t.got[t.ngot++];

	assert_true(t.ngot < GOT_MAX);
	*g = (struct got){ .serial = r->serial, .verdict = r->verdict, .delay_ms = r->delay_ms, .reason_len = r->reason_len };
	memcpy(g->reason, r->reason, r->reason_len < sizeof(g->reason) ? r->reason_len : sizeof(g->reason) - 1);
	memcpy(g->stderr_tail, r->stderr_tail == NULL ? "" : r->stderr_tail,
	    r->stderr_len < sizeof(g->stderr_tail) ? r->stderr_len : sizeof(g->stderr_tail) - 1);
	assert_true(r->duration_ms >= 0 && r->duration_ms < HANG_MS);
}

static void take_all(void)
{
	struct persistent_reply r;

	while (persistent_reply(t.p, &r)) {
		if (t.count_only) {
			assert_int_equal(r.verdict, PERSISTENT_OK);
			t.counted++;
		} else {
			note(&r);
		}
	}
}

static int64_t wait_ms(void)
{
	int64_t left_ms = persistent_deadline_ms(t.p) - t.now_ms;

	return left_ms < 0 ? 0 : left_ms > 1000 ? 1000 : left_ms;
}

static void turn(void)
{
	struct pollfd p[PERSISTENT_POLLFDS];
	int64_t wait = wait_ms();
	struct timespec ts = { .tv_sec = wait / 1000, .tv_nsec = wait % 1000 * 1000000 };
	sigset_t none;
	size_t n;
	int ready;

	sigemptyset(&none);
	persistent_flush(t.p);
	n = persistent_pollfds(t.p, p);
	assert_true(n <= PERSISTENT_POLLFDS);
	ready = ppoll(p, n, &ts, &none);
	t.now_ms = clock_monotonic_ms();
	if (ready > 0)
		persistent_io(t.p, p, n, t.now_ms);
	else
		persistent_quiet(t.p);
	take_all();
	persistent_tick(t.p, t.now_ms);
	take_all();
	if (persistent_ended(t.p, &t.end)) {
		t.ended = true;
		memset(t.end_stderr, 0, sizeof(t.end_stderr));
		memcpy(t.end_stderr, t.end.stderr_tail, t.end.stderr_len < 255 ? t.end.stderr_len : 255);
	}
}

static void until_answers(int n)
{
	int64_t begun_ms = clock_monotonic_ms();

	while (t.ngot < n && !t.ended) {
		turn();
		if (t.now_ms - begun_ms > HANG_MS)
			fail_msg("hangs after %d answers of %d", t.ngot, n);
	}
	assert_true(t.ngot >= n);
	assert_false(t.ended);
}

static void until_end(void)
{
	int64_t begun_ms = clock_monotonic_ms();

	while (!t.ended) {
		turn();
		if (t.now_ms - begun_ms > HANG_MS)
			fail_msg("hangs");
	}
	assert_int_equal(persistent_pgid(t.p), 0);
	assert_false(persistent_running(t.p));
	assert_int_equal(persistent_room(t.p), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);	/* nothing is left */
	assert_int_equal(errno, ECHILD);
}

static void until_logged(const char *want)
{
	int64_t begun_ms = clock_monotonic_ms();

	while (strstr(log_text(), want) == NULL) {
		turn();
		if (t.now_ms - begun_ms > HANG_MS)
			fail_msg("%s is never logged: %.2000s", want, text.data);
	}
}

static void got(int i, uint64_t serial, enum persistent_verdict verdict, int64_t delay_ms, const char *reason)
{
	assert_true(i < t.ngot);
	assert_int_equal(t.got[i].serial, serial);
	assert_int_equal(t.got[i].verdict, verdict);
	assert_int_equal(t.got[i].delay_ms, delay_ms);
	assert_string_equal(t.got[i].reason, reason);
}

static void got_ok(int i, uint64_t serial)
{
	got(i, serial, PERSISTENT_OK, -1, "");
}

static void drain(void)
{
	persistent_drain(t.p, t.now_ms);
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_EXITED);
	assert_int_equal(t.end.code, 0);
	assert_true(t.end.asked);
	assert_int_equal(t.end.unanswered, 0);
}

/* ---- answers ---- */

static void all_verdicts(void **unused)
{
	struct pollfd p[PERSISTENT_POLLFDS];

	(void)unused;
	start();
	assert_true(persistent_alive(t.p));
	assert_int_equal(persistent_room(t.p), 1);
	give("say OK @");
	assert_int_equal(persistent_room(t.p), 0);
	assert_int_equal(persistent_unanswered(t.p), 1);
	until_answers(1);
	assert_int_equal(persistent_room(t.p), 1);
	assert_int_equal(persistent_pollfds(t.p, p), 3);
	assert_int_equal(p[2].events, 0);	/* a pipe with room is always writable */
	give("say RETRY @ 250ms server away");
	until_answers(2);
	give("say RETRY @");
	until_answers(3);
	give("say FAIL @ no such user: 100%n");
	until_answers(4);
	got_ok(0, 1);
	got(1, 2, PERSISTENT_RETRY, 250, "server away");
	got(2, 3, PERSISTENT_RETRY, -1, "");
	got(3, 4, PERSISTENT_FAIL, -1, "no such user: 100%n");
	drain();
	assert_true(t.end.answered_any);
	assert_int_equal(t.end.unread_from, UINT64_MAX);
	not_logged("handler_output");
}

static void any_order(int window)
{
	t.conf.window = window;
	start();
	assert_int_equal(persistent_room(t.p), window);
	for (int round = 0; round < 3; round++) {
		uint64_t first = t.serial + 1;
		int before = t.ngot;

		for (int i = 0; i < window; i++)
			give(i < window - 1 ? "hold" : "hold\nrelease");
		assert_int_equal(persistent_room(t.p), 0);
		until_answers(before + window);
		assert_int_equal(persistent_room(t.p), window);
		for (int i = 0; i < window; i++)
			got_ok(before + i, first + (uint64_t)(window - 1 - i));
	}
	drain();
}

static void any_order_1(void **unused)
{
	(void)unused;
	any_order(1);
}

static void any_order_8(void **unused)
{
	(void)unused;
	any_order(8);
}

static void any_order_64(void **unused)
{
	(void)unused;
	any_order(64);
}

/* One that is never answered does not stop the others, whatever their number. */
static void one_is_left(void **unused)
{
	(void)unused;
	t.conf.window = 4;
	start();
	give("nap 0");
	for (int i = 0; i < 200; i++) {
		while (persistent_room(t.p) > 0)
			give("say OK @");
		until_answers(t.ngot + 1);
	}
	assert_int_equal(t.got[0].serial, 2);
	persistent_stop(t.p, t.now_ms);
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_STOPPED);
	assert_int_equal(t.end.oldest, 1);
	assert_true(t.end.unanswered >= 1);
}

static void in_pieces(void **unused)
{
	(void)unused;
	start();
	give("part O\nnap 20\npart K\nnap 20\npart  @\nnap 20\nsay ");
	until_answers(1);
	got_ok(0, 1);
	give("say words\nsay RETRY @ 1s a\nout more");
	until_answers(2);
	got(1, 2, PERSISTENT_RETRY, 1000, "a");
	drain();
	logged(" stream=stdout line=words\n");
	logged(" stream=stdout line=more\n");
}

static void half_an_answer_is_none(void **unused)
{
	(void)unused;
	start();
	give("part OK @\nexit 0");
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_EXITED);
	assert_int_equal(t.end.unanswered, 1);
	assert_int_equal(t.end.oldest, 1);
	assert_false(t.end.answered_any);
	assert_int_equal(t.ngot, 0);
	logged("line=\"OK 1\"");
}

/* What it said is read even if nobody looked before it was gone. */
static void last_words_are_in_the_pipe(void **unused)
{
	siginfo_t info;

	(void)unused;
	start();
	give("say OK @\nexit 0");
	persistent_flush(t.p);
	assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
	persistent_quiet(t.p);
	persistent_tick(t.p, t.now_ms);
	take_all();
	assert_int_equal(t.ngot, 1);
	assert_true(persistent_ended(t.p, &t.end));
	assert_int_equal(t.end.unanswered, 0);
}

static void last_words_count(void **unused)
{
	(void)unused;
	t.conf.window = 8;
	start();
	for (int i = 0; i < 7; i++)
		give("hold");
	give("hold\nrelease\nexit 3");
	until_end();
	assert_int_equal(t.ngot, 8);
	assert_int_equal(t.end.how, PERSISTENT_EXITED);
	assert_int_equal(t.end.code, 3);
	assert_int_equal(t.end.unanswered, 0);
	assert_true(t.end.answered_any);
	assert_false(t.end.asked);
}

/* ---- what is no answer ---- */

static void chatter_is_logged(void **unused)
{
	static const char header[] = "quredis/1 id=order-7\nsay OK 200 requests served\nsay OK @";

	(void)unused;
	start();
	give_bytes(header, sizeof(header) - 1);
	until_answers(1);
	give("say BEAT\nsay \x1b[2J %n\nsay OK @");
	until_answers(2);
	logged(" queue=mail id=order-7 worker=mail/2 stream=stdout line=\"OK 200 requests served\"\n");
	logged(" queue=mail id=sha1:");
	logged("line=BEAT\n");
	drain();
}

static void huge_lines(void **unused)
{
	(void)unused;
	start();
	give("fill 300000\nsay \nsay OK @");
	until_answers(1);
	got_ok(0, 1);
	give("fill 65536\nsay OK @\nsay FAIL @ why");	/* what stands there in the middle of a line is no answer */
	until_answers(2);
	got(1, 2, PERSISTENT_FAIL, -1, "why");
	drain();
}

static void huge_answers(void **unused)
{
	(void)unused;
	start();
	give("part FAIL @ \nfill 300000\nsay \nsay chatter");
	until_answers(1);
	assert_int_equal(t.got[0].verdict, PERSISTENT_FAIL);
	assert_int_equal(t.got[0].serial, 1);
	assert_true(t.got[0].reason_len > 60000 && t.got[0].reason_len < 65536);
	assert_memory_equal(t.got[0].reason, "xxxx", 4);
	give("say OK @");
	until_answers(2);
	got_ok(1, 2);
	drain();
	logged("line=chatter\n");
	not_logged("xxxx");
}

/* A part of a line that was read behind a whole one. */
static void lines_in_parts(void **unused)
{
	struct persistent_lines l;
	const char *line;
	size_t len;
	int p[2];

	(void)unused;
	assert_int_equal(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
	persistent_lines_init(&l);
	persistent_lines_begin(&l, p[0]);
	assert_false(persistent_lines_read(&l));
	assert_int_equal(write(p[1], "one\n\ntw", 7), 7);
	assert_true(persistent_lines_read(&l));
	assert_int_equal(persistent_lines_next(&l, &line, &len), PERSISTENT_LINE_WHOLE);
	assert_int_equal(len, 3);
	assert_memory_equal(line, "one\n", 4);
	assert_int_equal(persistent_lines_next(&l, &line, &len), PERSISTENT_LINE_WHOLE);
	assert_int_equal(len, 0);
	assert_int_equal(persistent_lines_next(&l, &line, &len), PERSISTENT_LINE_NONE);
	assert_int_equal(write(p[1], "o\n", 2), 2);
	assert_true(persistent_lines_read(&l));
	assert_int_equal(persistent_lines_next(&l, &line, &len), PERSISTENT_LINE_WHOLE);
	assert_int_equal(len, 3);
	assert_memory_equal(line, "two\n", 4);
	close(p[1]);
	assert_false(persistent_lines_read(&l));
	assert_int_equal(l.fd, -1);
	persistent_lines_free(&l);
}

static void is_desync(const char *error)
{
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_DESYNC);
	logged("event=handler_desync");
	logged(" queue=mail worker=mail/2 error=\"");
	logged(error);
}

static void an_answer_to_nothing(void **unused)
{
	(void)unused;
	start();
	give("say OK 77\nsay OK @\nstuck");
	is_desync("line=\"OK 77\"");
	assert_int_equal(t.end.unanswered, 1);
	assert_int_equal(t.ngot, 0);		/* what it says then counts for nothing */
	assert_false(t.end.answered_any);
	assert_int_equal(t.end.signal, SIGTERM);
}

static void two_answers_to_one(void **unused)
{
	(void)unused;
	t.conf.window = 2;
	start();
	give("say OK @\nsay FAIL @ after all\nstuck");
	give("say OK @");
	is_desync("line=\"FAIL 1 after all\"");
	got_ok(0, 1);
	assert_int_equal(t.ngot, 1);
	assert_int_equal(t.end.unanswered, 1);
	assert_int_equal(t.end.oldest, 2);
}

/* ---- what it is given ---- */

static uint32_t sum_of_test(size_t len, size_t seed, char *out)
{
	for (size_t i = 0; i < len; i++)
		out[i] = (char)(i * 7 + i / 256 + seed * 31);
	if (len > 2)
		memcpy(out, "\n\0", 2);
	return sum_of(out, len);
}

static void any_bytes(int window)
{
	static const size_t sizes[] = { 0, 1, 2, 100, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, 3 << 20, 0, 5, 1 << 20, 7 };
	char *payloads[nitems(sizes)], want[64];
	size_t given = 0;

	t.conf.window = window;
	start_with("sum");
	for (size_t i = 0; i < nitems(sizes); i++)
		payloads[i] = alloc_zero(1, sizes[i] + 1);
	while ((size_t)t.ngot < nitems(sizes)) {
		while (given < nitems(sizes) && persistent_room(t.p) > 0) {
			sum_of_test(sizes[given], given, payloads[given]);
			give_bytes(payloads[given], sizes[given]);
			given++;
		}
		until_answers(t.ngot + 1);
	}
	for (size_t i = 0; i < nitems(sizes); i++) {
		snprintf(want, sizeof(want), "%08x JOB %zu 1 %zu ", sum_of_test(sizes[i], i, payloads[i]), i + 1, sizes[i]);
		assert_int_equal(strncmp(t.got[i].reason, want, strlen(want)), 0);
		free(payloads[i]);
	}
	drain();
}

static void any_bytes_1(void **unused)
{
	(void)unused;
	any_bytes(1);
}

static void any_bytes_8(void **unused)
{
	(void)unused;
	any_bytes(8);
}

static void keys(void **unused)
{
	static const char header[] = "quredis/1 id=order-7 request_id=r:1 timeout=3s\nbody";
	int64_t deadline_ms, now_ms;
	const char *at;

	(void)unused;
	start_with("sum");
	t.job.timeout_ms = -1;
	give("x");
	until_answers(1);
	assert_string_equal(t.got[0].reason + 9, "JOB 1 1 1");
	t.job = (struct handler_job){ .attempt = 3, .max_attempts = 5, .redelivered = true, .timeout_ms = 30000 };
	give_bytes(header, sizeof(header) - 1);
	now_ms = clock_realtime_ms();
	until_answers(2);
	at = t.got[1].reason + 9;
	assert_int_equal(strncmp(at, "JOB 2 3 4 id=order-7 request_id=r:1 max_attempts=5 redelivered=1 deadline=", 74), 0);
	deadline_ms = strtoll(at + 74, NULL, 10);
	assert_true(deadline_ms > now_ms + 30000 - HANG_MS && deadline_ms < now_ms + 30000 + HANG_MS);
	drain();
}

static void the_longest_head(void **unused)
{
	struct buffer raw = {0};
	char id[MESSAGE_ID_MAX + 1];

	(void)unused;
	memset(id, 'i', sizeof(id) - 1);
	id[sizeof(id) - 1] = '\0';
	assert_int_equal(message_header(&raw, id, id, -1, -1, -1, -1), 0);
	start_with("sum");
	t.serial = UINT64_MAX - 1;
	t.job.attempt = t.job.max_attempts = INT32_MAX;
	t.job.redelivered = true;
	t.job.timeout_ms = INT64_C(365) * 24 * 3600 * 1000;
	give_bytes(raw.data, raw.len);
	until_answers(1);
	assert_int_equal(t.got[0].serial, UINT64_MAX);
	drain();
	buffer_free(&raw);
}

static void environment(void **unused)
{
	(void)unused;
	t.argv[0] = (char *)"/bin/sh";
	t.argv[1] = (char *)"-c";
	t.argv[2] = (char *)"env >&2; ls /proc/self/fd >&2; umask >&2; cat >/dev/null";
	t.conf.reply_fd = 7;
	setenv("LEAK", "1", 1);
	start();
	until_logged("line=0022\n");
	drain();
	logged("stream=stderr line=\"QUREDIS_QUEUE=mail\"");
	logged("line=\"QUREDIS_INCARNATION=web1.00.1.1\"");
	logged("line=\"QUREDIS_REPLY_FD=7\"");
	logged("line=7\n");
	logged("line=2\n");
	not_logged("QUREDIS_ID");
	not_logged("LEAK");
	not_logged("line=4\n");		/* 3 is the directory itself */
}

/* ---- reply_fd ---- */

static void replies_on(int fd)
{
	t.conf.reply_fd = fd;
	t.conf.window = 2;
	start();
	give("out OK @\nout OK 99\nsay OK @");
	give("say not an answer\nerr words\nsay FAIL @ why");
	until_answers(2);
	got_ok(0, 1);
	got(1, 2, PERSISTENT_FAIL, -1, "why");
	assert_string_equal(t.got[1].stderr_tail, "words\n");
	drain();
	logged("stream=stdout line=\"OK 1\"\n");
	logged("stream=stdout line=\"OK 99\"\n");
	logged("stream=reply line=\"not an answer\"\n");
}

static void reply_fd(void **unused)
{
	(void)unused;
	for (int fd = 3; fd <= 9; fd += 3) {
		replies_on(fd);
		end(NULL);
		begin(NULL);
	}
}

static void closes_stdout_but_answers_elsewhere(void **unused)
{
	(void)unused;
	t.conf.reply_fd = 3;
	start();
	give("out bye\nsay OK @");
	until_answers(1);
	assert_true(persistent_alive(t.p));
	drain();
}

/* ---- standard error ---- */

static void stderr_of_the_job(void **unused)
{
	(void)unused;
	start();
	give("err ready\nsay OK @");
	until_answers(1);
	give("err no such user\nsay FAIL @");
	until_answers(2);
	assert_string_equal(t.got[1].stderr_tail, "no such user\n");
	give("say FAIL @");
	until_answers(3);
	assert_string_equal(t.got[2].stderr_tail, "");
	give("err oops\nexit 1");
	until_end();
	assert_string_equal(t.end_stderr, "oops\n");
	logged("id=sha1:");
	logged("stream=stderr line=ready\n");
}

/* What stderr said before the answer is in the pipe at the latest when the answer is. */
static void stderr_comes_with_the_answer(void **unused)
{
	struct pollfd p[PERSISTENT_POLLFDS], replies;
	size_t n;

	(void)unused;
	start();
	give("err no such user\nsay FAIL @");
	persistent_flush(t.p);
	n = persistent_pollfds(t.p, p);
	assert_int_equal(n, 3);
	replies = p[1];
	assert_int_equal(poll(&replies, 1, HANG_MS), 1);
	persistent_io(t.p, &replies, 1, t.now_ms);
	take_all();
	assert_int_equal(t.ngot, 1);
	assert_string_equal(t.got[0].stderr_tail, "no such user\n");
	drain();
}

/* ---- time ---- */

static void timed_out(void **unused)
{
	(void)unused;
	t.conf.window = 8;
	t.job.timeout_ms = 300;
	start();
	give("say OK @");
	give("spawn\nsay words\nstuck");
	give("say OK @");
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_TIMED_OUT);
	assert_int_equal(t.end.signal, SIGTERM);
	assert_int_equal(t.end.oldest, 2);
	assert_int_equal(t.end.unanswered, 2);
	assert_true(t.end.answered_any);
	assert_true(t.end.duration_ms >= 300 && t.end.duration_ms < HANG_MS);
	got_ok(0, 1);
	logged("event=handler_left_processes");
	logged(" queue=mail id=sha1:");
	logged(" worker=mail/2 processes=1\n");
}

static void ignores_term(void **unused)
{
	(void)unused;
	t.job.timeout_ms = 200;
	t.conf.kill_grace_ms = 200;
	start();
	give("deaf\nstuck");
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_TIMED_OUT);
	assert_int_equal(t.end.signal, SIGKILL);
}

/* Its own answer comes too late, those of the others count. */
static void answers_after_its_time(void **unused)
{
	(void)unused;
	t.conf.window = 2;
	t.job.timeout_ms = 300;
	start();
	give("deaf\nsay deaf now\nnap 1000\nsay OK @");
	give("say OK @\nexit 0");
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_TIMED_OUT);
	assert_int_equal(t.ngot, 1);
	got_ok(0, 2);
	assert_int_equal(t.end.unanswered, 1);
	assert_int_equal(t.end.oldest, 1);
}

/* What one waits behind others is not its own time. */
static void time_counts_from_the_front(void **unused)
{
	int64_t first;

	(void)unused;
	t.conf.window = 3;
	t.job.timeout_ms = HANG_MS;
	start();
	assert_int_equal(persistent_timeout_at_ms(t.p), INT64_MAX);
	give("nap 30\nsay OK @");
	first = persistent_timeout_at_ms(t.p);
	assert_int_equal(first, t.now_ms + HANG_MS);
	give("hold");
	give("nap 30\nsay OK @");
	assert_int_equal(persistent_timeout_at_ms(t.p), first);
	until_answers(1);
	assert_true(persistent_timeout_at_ms(t.p) >= first + 30);
	first = persistent_timeout_at_ms(t.p);
	until_answers(2);			/* the third: the second is still the oldest */
	got_ok(1, 3);
	assert_int_equal(persistent_timeout_at_ms(t.p), first);
	give("release\nsay OK @");
	until_answers(4);
	assert_int_equal(persistent_timeout_at_ms(t.p), INT64_MAX);
	drain();
}

static void beats(void **unused)
{
	int64_t first, before;

	(void)unused;
	t.conf.window = 2;
	start();
	give("nap 20\nsay BEAT @\nsay beaten @\nnap 20\nsay BEAT 2\nsay BEAT 1000\nsay other\nhold");
	first = persistent_timeout_at_ms(t.p);
	until_logged("line=\"beaten 1\"");
	before = persistent_timeout_at_ms(t.p);
	assert_true(before >= first + 20);
	until_logged("line=other");
	assert_int_equal(persistent_timeout_at_ms(t.p), before);
	give("nap 20\nsay BEAT @\nsay second\nnap 20\nsay BEAT 1\nsay OK @\nrelease");
	until_logged("line=second");
	assert_int_equal(persistent_timeout_at_ms(t.p), before);
	until_answers(2);
	assert_int_equal(t.got[0].serial, 2);
	assert_int_equal(t.got[1].serial, 1);
	give("say OK @\nsay BEAT @\nsay late");
	until_answers(3);
	until_logged("line=late");
	assert_true(persistent_alive(t.p));	/* a BEAT too late is no desync */
	drain();
}

/* A worker that was held up itself sees the deadline before the answer. */
static void an_answer_in_the_pipe_is_in_time(void **unused)
{
	struct pollfd p[PERSISTENT_POLLFDS];
	size_t n;

	(void)unused;
	t.job.timeout_ms = 5000;
	t.argv[2] = (char *)"ok";
	start();
	give("x");
	persistent_flush(t.p);
	n = persistent_pollfds(t.p, p);
	for (size_t i = 0; i < n; i++)
		p[i].fd = p[i].events == POLLIN ? p[i].fd : -1;
	assert_int_equal(poll(p, n, HANG_MS), 1);
	persistent_tick(t.p, t.now_ms + 6000);
	n = persistent_pollfds(t.p, p);
	assert_true(poll(p, n, 0) > 0);
	persistent_io(t.p, p, n, t.now_ms + 6001);
	take_all();
	persistent_tick(t.p, t.now_ms + 6001);
	assert_int_equal(t.ngot, 1);
	assert_true(persistent_alive(t.p));
	give("x");
	persistent_tick(t.p, t.now_ms + 12002);
	persistent_tick(t.p, t.now_ms + 12003);		/* but only one turn */
	assert_false(persistent_alive(t.p));
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_TIMED_OUT);
}

static void floods_and_never_answers(void **unused)
{
	(void)unused;
	t.job.timeout_ms = 500;
	start();
	give("flood");
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_TIMED_OUT);
	logged("event=handler_output_dropped");
}

/* ---- recycling ---- */

static void was_recycled(const char *why)
{
	char want[128];

	until_end();
	assert_true(t.end.asked);
	assert_int_equal(t.end.unanswered, 0);
	snprintf(want, sizeof(want), " queue=mail worker=mail/2 reason=%s", why);
	logged("event=handler_recycled");
	logged(want);
}

static void recycled_by_jobs(void **unused)
{
	(void)unused;
	t.conf.window = 8;
	t.conf.recycle.jobs = 3;
	for (int round = 0; round < 3; round++) {
		int before = t.ngot;

		start();
		assert_int_equal(persistent_room(t.p), 3);
		give("say OK @");
		until_answers(before + 1);
		assert_int_equal(persistent_room(t.p), 2);
		give("nap 30\nsay OK @");
		give("say OK @");
		assert_int_equal(persistent_room(t.p), 0);
		was_recycled("jobs jobs=3");
		assert_int_equal(t.ngot, before + 3);
		assert_int_equal(t.end.how, PERSISTENT_EXITED);
		assert_int_equal(t.end.code, 0);
	}
}

static void recycled_by_rss(void **unused)
{
	(void)unused;
	t.conf.recycle.rss = 1 << 20;
	start();
	give("say OK @");
	until_answers(1);
	assert_true(persistent_alive(t.p));
	while (persistent_alive(t.p)) {
		give("nap 50\nsay OK @");
		until_answers(t.ngot + 1);
	}
	was_recycled("rss");
}

static void recycled_by_age(void **unused)
{
	(void)unused;
	t.conf.recycle.age_ms = 300;
	t.conf.window = 2;
	start();
	give("nap 500\nsay OK @");	/* but not in the middle of a job */
	was_recycled("age jobs=1");
	assert_int_equal(t.ngot, 1);
	start();			/* and one that has nothing to do */
	was_recycled("age jobs=0");
	assert_false(t.end.answered_any);
}

/* What it holds it would answer at the end of the file: that does not come before. */
static void recycled_between_jobs(void **unused)
{
	(void)unused;
	t.conf.window = 2;
	t.conf.recycle.jobs = 2;
	t.job.timeout_ms = 300;
	start();
	give("hold");
	give("hold");
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_TIMED_OUT);
	assert_int_equal(t.ngot, 0);
	assert_int_equal(t.end.unanswered, 2);
}

static void lingers_after_eof(void **unused)
{
	(void)unused;
	t.argv[0] = (char *)"/bin/sleep";
	t.argv[1] = (char *)"1000";
	t.argv[2] = NULL;
	t.conf.kill_grace_ms = 100;
	start();
	persistent_drain(t.p, t.now_ms);
	assert_false(persistent_alive(t.p));
	until_end();
	assert_true(t.end.asked);
	assert_int_equal(t.end.how, PERSISTENT_SIGNALED);
	assert_int_equal(t.end.signal, SIGTERM);
	assert_true(t.end.lived_ms >= 100);
}

/* ---- orders ---- */

static void drains(void **unused)
{
	char *big = alloc_zero(1, 1 << 20);

	(void)unused;
	t.conf.window = 8;
	start_with("sum");
	for (int i = 0; i < 3; i++)
		give("x");
	give_bytes(big, 1 << 20);
	drain();			/* also what was not written yet */
	assert_int_equal(t.ngot, 4);
	free(big);
}

static void stopped(void **unused)
{
	(void)unused;
	t.conf.window = 2;
	start();
	give("say OK @");
	until_answers(1);
	give("say words\nstuck");
	give("say OK @");
	until_logged("line=words");
	persistent_stop(t.p, t.now_ms);
	persistent_stop(t.p, t.now_ms);
	assert_int_equal(persistent_room(t.p), 0);
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_STOPPED);
	assert_int_equal(t.end.signal, SIGTERM);
	assert_int_equal(t.end.unanswered, 2);
	assert_int_equal(t.end.oldest, 2);
}

static void finishes_when_stopped(void **unused)
{
	(void)unused;
	start();
	give("deaf\nsay words\nnap 200\nsay OK @\nexit 0");
	until_logged("line=words");
	persistent_stop(t.p, t.now_ms);
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_STOPPED);
	assert_int_equal(t.end.code, 0);
	assert_int_equal(t.end.unanswered, 0);
	got_ok(0, 1);
}

static void killed(void **unused)
{
	(void)unused;
	start();
	give("deaf\nspawn\nsay words\nstuck");
	until_logged("line=words");
	persistent_kill(t.p);
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_STOPPED);
	assert_int_equal(t.end.signal, SIGKILL);
}

static void freed_while_it_runs(void **unused)
{
	pid_t leader;
	int status;

	(void)unused;
	start();
	give("deaf\nsay words\nstuck");
	until_logged("line=words");
	leader = persistent_pgid(t.p);
	persistent_free(t.p);
	t.p = NULL;
	assert_int_equal(waitpid(leader, &status, 0), leader);
	assert_int_equal(status, SIGKILL);
}

/* ---- deaths ---- */

static void dies_idle(void **unused)
{
	(void)unused;
	start();
	give("say OK @\nexit 4");
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_EXITED);
	assert_int_equal(t.end.code, 4);
	assert_int_equal(t.end.unanswered, 0);
	assert_false(t.end.asked);
	assert_true(t.end.answered_any);
	start();
	give("say OK @");
	until_answers(2);
	drain();
}

static void dies_of_one(void **unused)
{
	(void)unused;
	start();
	give("die");
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_SIGNALED);
	assert_int_equal(t.end.signal, SIGKILL);
	assert_int_equal(t.end.code, -1);
	assert_int_equal(t.end.unanswered, 1);
	assert_int_equal(t.end.unread_from, UINT64_MAX);
	assert_false(t.end.answered_any);
}

/* Which ones it cannot have begun, as far as can be seen: here it reads no byte ahead. */
static void dies_with_many(void **unused)
{
	(void)unused;
	t.conf.window = 8;
	start_with("bytewise");
	give("say OK @");
	give("nap 100\ndie");
	for (int i = 0; i < 6; i++)
		give("say OK @");
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_SIGNALED);
	got_ok(0, 1);
	assert_int_equal(t.end.unanswered, 7);
	assert_int_equal(t.end.oldest, 2);
	assert_int_equal(t.end.unread_from, 3);
}

static void dies_having_read_all(void **unused)
{
	(void)unused;
	t.conf.window = 3;
	start();
	give("nap 0");
	give("nap 0");
	give("die");
	until_end();
	assert_int_equal(t.end.unanswered, 3);
	assert_int_equal(t.end.unread_from, UINT64_MAX);
}

/* With a large payload half written. */
static void dies_while_it_is_fed(void **unused)
{
	char *big = alloc_zero(1, 4 << 20);

	(void)unused;
	t.conf.window = 3;
	start_with("bytewise");
	give("nap 100\ndie");
	give_bytes(big, 4 << 20);
	assert_int_equal(persistent_room(t.p), 0);	/* as long as that one is not written */
	until_end();
	assert_int_equal(t.end.unanswered, 2);
	assert_int_equal(t.end.unread_from, 2);
	start_with("ok");			/* nothing is left over for the next */
	give("x");
	until_answers(1);
	got_ok(0, 3);
	drain();
	free(big);
}

/* What is not in its pipe may be taken back; the rest of a job that is in part must follow. */
static void takes_back_what_was_not_written(void **unused)
{
	char *big = alloc_zero(1, 4 << 20);
	uint64_t first;

	(void)unused;
	t.conf.window = 4;
	t.conf.recycle.jobs = 5;
	start_with("ok");
	assert_int_equal(persistent_recall(t.p), UINT64_MAX);
	first = give("a");
	give("b");
	assert_true(persistent_unwritten(t.p));
	assert_int_equal(persistent_recall(t.p), first);
	assert_false(persistent_unwritten(t.p));
	assert_int_equal(persistent_unanswered(t.p), 0);
	assert_int_equal(persistent_timeout_at_ms(t.p), INT64_MAX);
	t.serial = first - 1;
	give("c");
	persistent_flush(t.p);
	give_bytes(big, 4 << 20);
	assert_int_equal(persistent_recall(t.p), first + 1);
	t.serial = first;
	give_bytes(big, 4 << 20);
	persistent_flush(t.p);
	assert_true(persistent_unwritten(t.p));
	assert_int_equal(persistent_recall(t.p), UINT64_MAX);	/* some of it is there */
	until_answers(2);
	give("d");
	until_answers(3);
	for (int i = 0; i < 3; i++)
		got_ok(i, first + (uint64_t)i);
	assert_int_equal(persistent_room(t.p), 2);	/* of five only what it got counts */
	drain();
	free(big);
}

static void dies_before_it_reads(void **unused)
{
	(void)unused;
	t.argv[0] = (char *)"/bin/false";
	t.argv[1] = NULL;
	start();
	give("x");
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_EXITED);
	assert_int_equal(t.end.code, 1);
	assert_false(t.end.answered_any);
	assert_int_equal(t.end.unanswered, 1);
	assert_int_equal(t.end.unread_from, 1);
}

static void unrunnable(void **unused)
{
	(void)unused;
	t.argv[0] = (char *)"/nonexistent";
	start();
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_UNRUNNABLE);
	assert_int_equal(t.end.error, ENOENT);
	assert_string_equal(t.end.stage, "execve");
	assert_int_equal(t.end.code, -1);
	assert_int_equal(t.end.signal, 0);
	assert_false(t.end.answered_any);
	t.argv[0] = self_path;
	start();
	give("say OK @");
	until_answers(1);
	drain();
}

static void leaves_a_process(void **unused)
{
	(void)unused;
	start();
	give("spawn\nsay OK @");
	until_answers(1);
	drain();
	logged(" queue=mail worker=mail/2 processes=1\n");
}

/* ---- closed ends ---- */

static void closes_stdin_when_idle(void **unused)
{
	(void)unused;
	t.conf.window = 2;
	start();
	give("closein\nsay OK @\nnap 50\nexit 5");
	until_end();
	got_ok(0, 1);
	assert_int_equal(t.end.how, PERSISTENT_EXITED);
	assert_int_equal(t.end.code, 5);
	assert_int_equal(t.end.unanswered, 0);
}

/* It takes no more, finishes what it has, and goes: the rest was never begun. */
static void closes_stdin_and_finishes(void **unused)
{
	(void)unused;
	t.conf.window = 4;
	t.conf.kill_grace_ms = 100;
	start_with("bytewise");
	give("nap 50\nclosein\nnap 500\nsay OK @\nexit 0");
	give("say OK @");
	give("say OK @");
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_EXITED);
	got_ok(0, 1);
	assert_int_equal(t.end.unanswered, 2);
	assert_int_equal(t.end.unread_from, 2);
}

static void closes_stdin_and_stays(void **unused)
{
	(void)unused;
	t.conf.window = 2;
	t.conf.kill_grace_ms = 100;
	start_with("bytewise");
	give("nap 50\nclosein\nsay OK @\nstuck");
	give("say OK @");
	until_end();
	got_ok(0, 1);
	assert_int_equal(t.end.how, PERSISTENT_DESYNC);
	assert_int_equal(t.end.unanswered, 1);
	assert_int_equal(t.end.unread_from, 2);
}

static void closes_stdout_and_goes_on(void **unused)
{
	(void)unused;
	t.conf.window = 2;
	t.conf.kill_grace_ms = 100;
	start();
	give("say OK @\ncloseout\nstuck");
	give("say OK @");
	is_desync("error=\"it closed its end while jobs were unanswered, and stayed\"");
	got_ok(0, 1);
	assert_int_equal(t.end.unanswered, 1);
}

static void closes_stdout_when_idle(void **unused)
{
	(void)unused;
	t.conf.kill_grace_ms = 100;
	start();
	give("say OK @\ncloseout\nstuck");
	until_answers(1);
	until_end();
	assert_int_equal(t.end.how, PERSISTENT_SIGNALED);
	assert_int_equal(t.end.unanswered, 0);
}

/* ---- pressure ---- */

/* It writes more than a pipe holds before it reads on, and so do we. */
static void both_write_at_once(void **unused)
{
	static const char commands[] = "nap 30\nfill 1000000\nsay \nsay OK @\npad ";
	size_t len = 1 << 20;
	char *payload = alloc_zero(1, len + 1);
	int given = 0;

	(void)unused;
	memset(payload, 'p', len);
	memcpy(payload, commands, sizeof(commands) - 1);
	t.conf.window = 8;
	start();
	while (t.ngot < 16) {
		while (given < 16 && persistent_room(t.p) > 0) {
			give_bytes(payload, len);
			given++;
		}
		turn();
		assert_false(t.ended);
	}
	drain();
	free(payload);
}

/* The buffer of frames is limited however wide the window is. */
static void room_is_bounded(void **unused)
{
	size_t len = 60000;
	char *payload = alloc_zero(1, len);
	int n = 0;

	(void)unused;
	memset(payload, 'p', len);
	t.conf.window = 1000;
	t.argv[0] = (char *)"/bin/sleep";
	t.argv[1] = (char *)"1000";
	t.argv[2] = NULL;
	start();
	while (persistent_room(t.p) > 0) {
		give_bytes(payload, len);
		persistent_flush(t.p);
		n++;
	}
	assert_true(n < 10);
	persistent_kill(t.p);
	until_end();
	assert_int_equal(t.end.unread_from, 1);
	assert_int_equal(t.end.unanswered, n);
	free(payload);
}

/* Written to, but never empty: what was written does not stay in the buffer. */
static void always_behind(void **unused)
{
	struct persistent_input in;
	struct message m;
	char payload[1000] = "", sink[sizeof(payload)];
	int p[2];

	(void)unused;
	message_parse(&m, payload, sizeof(payload));
	t.job.message = &m;
	assert_int_equal(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
	persistent_input_init(&in);
	persistent_input_begin(&in, p[1]);
	for (uint64_t i = 0; i < 150; i++)
		persistent_input_add(&in, i, &t.job, -1);
	for (uint64_t i = 150; i < 5000; i++) {
		persistent_input_add(&in, i, &t.job, -1);
		assert_true(persistent_input_flush(&in));
		assert_true(read(p[0], sink, sizeof(sink)) > 0);
		assert_true(persistent_input_pending(&in) > 0);
	}
	assert_true(in.out.cap < 2 << 20);		/* of 5 MB that went through it */
	close(p[0]);
	assert_false(persistent_input_flush(&in));
	assert_int_equal(in.fd, -1);
	persistent_input_free(&in);
}

static size_t allocated(void)
{
	return mallinfo2().uordblks;
}

static void feed(long n, long *given, const char *payload, size_t len)
{
	int64_t begun_ms = clock_monotonic_ms();

	t.counted = *given = 0;
	while (t.counted < n) {
		for (int room = persistent_room(t.p); room > 0 && *given < n; room = persistent_room(t.p), ++*given)
			give_bytes(payload, len);
		turn();
		assert_false(t.ended);
		if (t.now_ms - begun_ms > 4 * HANG_MS)
			fail_msg("hangs after %ld of %ld", t.counted, n);
	}
}

static void many(void **unused)
{
	const char *wanted = getenv("TEST_JOBS");
	long n = wanted != NULL ? strtol(wanted, NULL, 10) : under_valgrind() ? 2000 : 100000, given;
	char *big = alloc_zero(1, 1 << 20);
	size_t memory, descriptors;
	int64_t begun_us;

	(void)unused;
	t.conf.window = 64;
	t.count_only = true;
	start_with("ok");
	feed(1000, &given, big, 100);
	memory = allocated();
	descriptors = open_descriptors();
	begun_us = clock_monotonic_us();
	feed(n, &given, big, 100);
	print_message("             %.0f a second\n", (double)n * 1e6 / (double)(clock_monotonic_us() - begun_us));
	assert_int_equal(given, n);
	feed(20, &given, big, 1 << 20);
	feed(100, &given, big, 60000);
	feed(1000, &given, big, 100);
	assert_true(allocated() <= memory + 100000);
	assert_int_equal(open_descriptors(), descriptors);
	drain();
	not_logged("handler_output");
	free(big);
}

static void many_starts(void **unused)
{
	size_t descriptors = 0, memory = 0;

	(void)unused;
	t.argv[0] = (char *)"/bin/true";
	t.argv[1] = NULL;
	for (int i = 0; i < 300; i++) {
		start();
		give("x");
		until_end();
		assert_int_equal(t.end.unanswered, 1);
		if (i == 30) {
			descriptors = open_descriptors();
			memory = allocated();
		}
	}
	assert_int_equal(open_descriptors(), descriptors);
	assert_true(allocated() <= memory + 1000);
}

static void no_descriptors(void **unused)
{
	struct rlimit old;
	size_t before;

	(void)unused;
	start();
	drain();
	before = open_descriptors();
	getrlimit(RLIMIT_NOFILE, &old);
	for (rlim_t n = 3; n < 30; n++) {
		int result;

		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ n, old.rlim_max });
		result = persistent_start(t.p, "web1.00.1.1", t.now_ms);
		setrlimit(RLIMIT_NOFILE, &old);
		if (result == 0)
			break;
		assert_int_equal(errno, EMFILE);
		assert_false(persistent_running(t.p));
		assert_false(persistent_alive(t.p));
		assert_int_equal(open_descriptors(), before);
	}
	assert_true(persistent_running(t.p));
	t.ended = false;
	drain();
	assert_int_equal(open_descriptors(), before);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	static const struct CMUnitTest tests[] = {
		TEST(all_verdicts), TEST(any_order_1), TEST(any_order_8), TEST(any_order_64), TEST(one_is_left), TEST(in_pieces),
		TEST(half_an_answer_is_none), TEST(last_words_are_in_the_pipe), TEST(last_words_count), TEST(chatter_is_logged), TEST(huge_lines), TEST(huge_answers), TEST(lines_in_parts),
		TEST(an_answer_to_nothing), TEST(two_answers_to_one), TEST(any_bytes_1), TEST(any_bytes_8), TEST(keys),
		TEST(the_longest_head), TEST(environment), TEST(reply_fd), TEST(closes_stdout_but_answers_elsewhere),
		TEST(stderr_of_the_job), TEST(stderr_comes_with_the_answer), TEST(timed_out), TEST(ignores_term), TEST(answers_after_its_time),
		TEST(time_counts_from_the_front), TEST(beats), TEST(an_answer_in_the_pipe_is_in_time),
		TEST(floods_and_never_answers), TEST(recycled_by_jobs), TEST(recycled_by_rss), TEST(recycled_by_age), TEST(recycled_between_jobs),
		TEST(lingers_after_eof), TEST(drains), TEST(stopped), TEST(finishes_when_stopped), TEST(killed), TEST(freed_while_it_runs), TEST(dies_idle),
		TEST(dies_of_one), TEST(dies_with_many), TEST(dies_having_read_all), TEST(dies_while_it_is_fed),
		TEST(takes_back_what_was_not_written), TEST(dies_before_it_reads), TEST(unrunnable), TEST(leaves_a_process), TEST(closes_stdin_when_idle),
		TEST(closes_stdin_and_finishes), TEST(closes_stdin_and_stays), TEST(closes_stdout_and_goes_on),
		TEST(closes_stdout_when_idle), TEST(both_write_at_once), TEST(room_is_bounded), TEST(always_behind), TEST(many), TEST(many_starts),
		TEST(no_descriptors),
	};
	struct sigaction chld = { .sa_handler = on_sigchld };
	sigset_t all;
	ssize_t n;
	int failed;

	if (argc == 3 && strcmp(argv[1], "handler") == 0)
		return be_handler(argv[2]);
	n = readlink("/proc/self/exe", self_path, sizeof(self_path) - 1);
	if (n == -1 || mkdtemp(dir) == NULL)
		return 1;
	self_path[n] = '\0';
	snprintf(log_path, sizeof(log_path), "%s/log", dir);
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGCHLD, &chld, NULL);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	process_become_subreaper();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	buffer_free(&text);
	unlink(log_path);
	rmdir(dir);
	return failed;
}
