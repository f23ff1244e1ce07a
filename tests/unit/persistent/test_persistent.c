/* links: tests/unit/file_text.c tests/unit/persistent/persistent_loop.c tests/unit/persistent/scripted_handler.c */
/*
 * Handlers that stay: what they are given, and what they answer. The handler is this program: a payload is what it is to do, one
 * command a line, or bytes to take the sum of.
 */
#include <sys/wait.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/base/buffer.h"
#include "common/base/clock.h"
#include "common/base/nitems.h"
#include "tests/unit/file_text.h"
#include "tests/unit/sealed.h"
#include "tests/unit/persistent/persistent_loop.h"
#include "tests/unit/persistent/scripted_handler.h"
#include "tests/unit/unit.h"

/* ---- answers ---- */

TEST(all_verdicts, loop_begin, loop_end)
{
	struct pollfd p[PERSISTENT_POLLFDS];

	loop_start();
	assert_true(persistent_alive(loop.p));
	assert_int_equal(persistent_room(loop.p), 1);
	loop_give("say OK @");
	assert_int_equal(persistent_room(loop.p), 0);
	assert_int_equal(persistent_unanswered(loop.p), 1);
	loop_until_answers(1);
	assert_int_equal(persistent_room(loop.p), 1);
	assert_int_equal(persistent_pollfds(loop.p, p), 3);
	assert_int_equal(p[2].events, 0);	/* a pipe with room is always writable */
	loop_give("say RETRY @ 250ms server away");
	loop_until_answers(2);
	loop_give("say RETRY @");
	loop_until_answers(3);
	loop_give("say FAIL @ no such user: 100%n");
	loop_until_answers(4);
	loop_got_ok(0, 1);
	loop_got(1, 2, VERB_RETRY, 250, "server away");
	loop_got(2, 3, VERB_RETRY, -1, "");
	loop_got(3, 4, VERB_FAIL, -1, "no such user: 100%n");
	loop_drain();
	assert_true(loop.end.answered_any);
	assert_int_equal(loop.end.unread_from, UINT64_MAX);
	loop_not_logged("handler_output");
}

static void any_order(int window)
{
	loop.conf.window = window;
	loop_start();
	assert_int_equal(persistent_room(loop.p), window);
	for (int round = 0; round < 3; round++) {
		uint64_t first = loop.serial + 1;
		int before = loop.ngot;

		for (int i = 0; i < window; i++)
			loop_give(i < window - 1 ? "hold" : "hold\nrelease");
		assert_int_equal(persistent_room(loop.p), 0);
		loop_until_answers(before + window);
		assert_int_equal(persistent_room(loop.p), window);
		for (int i = 0; i < window; i++)
			loop_got_ok(before + i, first + (uint64_t)(window - 1 - i));
	}
	loop_drain();
}

TEST(any_order_1, loop_begin, loop_end)
{
	any_order(1);
}

TEST(any_order_8, loop_begin, loop_end)
{
	any_order(8);
}

TEST(any_order_64, loop_begin, loop_end)
{
	any_order(64);
}

/* One that is never answered does not stop the others, whatever their number. */
TEST(one_is_left, loop_begin, loop_end)
{
	loop.conf.window = 4;
	loop_start();
	loop_give("nap 0");
	for (int i = 0; i < 200; i++) {
		while (persistent_room(loop.p) > 0)
			loop_give("say OK @");
		loop_until_answers(loop.ngot + 1);
	}
	assert_int_equal(loop.got[0].serial, 2);
	persistent_stop(loop.p, loop.now_ms);
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_STOPPED);
	assert_int_equal(loop.end.oldest, 1);
	assert_true(loop.end.unanswered >= 1);
}

TEST(in_pieces, loop_begin, loop_end)
{
	loop_start();
	loop_give("part O\nnap 20\npart K\nnap 20\npart  @\nnap 20\nsay ");
	loop_until_answers(1);
	loop_got_ok(0, 1);
	loop_give("say words\nsay RETRY @ 1s a\nout more");
	loop_until_answers(2);
	loop_got(1, 2, VERB_RETRY, 1000, "a");
	loop_drain();
	loop_logged(" stream=stdout line=words\n");
	loop_logged(" stream=stdout line=more\n");
}

TEST(half_an_answer_is_none, loop_begin, loop_end)
{
	loop_start();
	loop_give("part OK @\nexit 0");
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_EXITED);
	assert_int_equal(loop.end.unanswered, 1);
	assert_int_equal(loop.end.oldest, 1);
	assert_false(loop.end.answered_any);
	assert_int_equal(loop.ngot, 0);
	loop_logged("line=\"OK ");
}

/* What it said is read even if nobody looked before it was gone. */
TEST(last_words_are_in_the_pipe, loop_begin, loop_end)
{
	siginfo_t info;

	loop_start();
	loop_give("say OK @\nexit 0");
	persistent_flush(loop.p);
	assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
	persistent_quiet(loop.p);
	persistent_tick(loop.p, loop.now_ms);
	loop_take_all();
	assert_int_equal(loop.ngot, 1);
	assert_true(persistent_ended(loop.p, &loop.end));
	assert_int_equal(loop.end.unanswered, 0);
}

TEST(last_words_count, loop_begin, loop_end)
{
	loop.conf.window = 8;
	loop_start();
	for (int i = 0; i < 7; i++)
		loop_give("hold");
	loop_give("hold\nrelease\nexit 3");
	loop_until_end();
	assert_int_equal(loop.ngot, 8);
	assert_int_equal(loop.end.how, PERSISTENT_EXITED);
	assert_int_equal(loop.end.code, 3);
	assert_int_equal(loop.end.unanswered, 0);
	assert_true(loop.end.answered_any);
	assert_false(loop.end.asked);
}

/* ---- what it is given ---- */

static uint32_t sum_of_test(size_t len, size_t seed, char *out)
{
	for (size_t i = 0; i < len; i++)
		out[i] = (char)(i * 7 + i / 256 + seed * 31);
	if (len > 2)
		memcpy(out, "\n\0", 2);
	return scripted_sum(out, len);
}

static void any_bytes(int window)
{
	static const size_t sizes[] = { 0, 1, 2, 100, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, 3 << 20, 0, 5, 1 << 20, 7 };
	char *payloads[nitems(sizes)], sum[16], rest[32];
	size_t given = 0;

	loop.conf.window = window;
	loop_start_with("sum");
	for (size_t i = 0; i < nitems(sizes); i++)
		payloads[i] = alloc_zero(1, sizes[i] + 1);
	while ((size_t)loop.ngot < nitems(sizes)) {
		while (given < nitems(sizes) && persistent_room(loop.p) > 0) {
			sum_of_test(sizes[given], given, payloads[given]);
			loop_give_bytes(payloads[given], sizes[given]);
			given++;
		}
		loop_until_answers(loop.ngot + 1);
	}
	for (size_t i = 0; i < nitems(sizes); i++) {
		snprintf(sum, sizeof(sum), "%08x JOB ", sum_of_test(sizes[i], i, payloads[i]));
		snprintf(rest, sizeof(rest), " 1 %zu deadline=", sizes[i]);
		assert_memory_equal(loop.got[i].reason, sum, strlen(sum));
		assert_memory_equal(loop.got[i].reason + strlen(sum) + HANDLER_TOKEN_LEN, rest, strlen(rest));
		free(payloads[i]);
	}
	loop_drain();
}

TEST(any_bytes_1, loop_begin, loop_end)
{
	any_bytes(1);
}

TEST(any_bytes_8, loop_begin, loop_end)
{
	any_bytes(8);
}

TEST(keys, loop_begin, loop_end)
{
	static const char header[] = "quredis/1 id=order-7 request_id=r:1 timeout=3s traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\nbody",
	    head[] = " 3 4 id=order-7 request_id=r:1 traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 "
	    "max_attempts=5 redelivered=1 schedule=nightly scheduled_at=2025-11-27T01:00:00.000Z deadline=";
	struct wrapper wrapper = { .schedule = { "nightly", INT64_C(1764205200000) } };
	struct message_keys sealing = sealed_learn("q");
	struct buffer raw = {0};
	int64_t deadline_ms, now_ms;
	const char *at;

	loop_start_with("sum");
	loop.job.timeout_ms = -1;
	loop_give("x");
	loop_until_answers(1);
	assert_memory_equal(loop.got[0].reason + 9, "JOB ", 4);
	assert_int_equal(strspn(loop.got[0].reason + 13, "0123456789"), HANDLER_TOKEN_LEN);
	assert_string_equal(loop.got[0].reason + 13 + HANDLER_TOKEN_LEN, " 1 1");
	loop.job = (struct handler_job){ .attempt = 3, .max_attempts = 5, .redelivered = true, .timeout_ms = 30000 };
	message_wrapper(&raw, &sealing, &wrapper);
	buffer_append(&raw, header, sizeof(header) - 1);
	loop_give_bytes(raw.data, raw.len);
	now_ms = clock_realtime_ms();
	loop_until_answers(2);
	at = loop.got[1].reason + 13 + HANDLER_TOKEN_LEN;
	assert_memory_equal(at, head, sizeof(head) - 1);
	deadline_ms = strtoll(at + sizeof(head) - 1, NULL, 10);
	assert_true(deadline_ms > now_ms + 30000 - LOOP_HANG_MS && deadline_ms < now_ms + 30000 + LOOP_HANG_MS);
	loop_drain();
	buffer_free(&raw);
}

TEST(the_longest_head, loop_begin, loop_end)
{
	struct buffer raw = {0};
	char id[MESSAGE_ID_MAX + 1];
	struct wrapper wrapper = { .schedule.at_ms = INT64_C(253402300799999) };
	struct message_keys keys = sealed_learn("q");

	memset(id, 'i', sizeof(id) - 1);
	id[sizeof(id) - 1] = '\0';
	memset(wrapper.schedule.name, 's', QUEUE_NAME_MAX);
	message_wrapper(&raw, &keys, &wrapper);
	assert_int_equal(message_header(&raw, id, id, -1, -1, -1, -1), 0);
	raw.len--;
	buffer_format(&raw, " traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n");
	loop_start_with("sum");
	loop.serial = UINT64_MAX - 1;
	loop.job.attempt = loop.job.max_attempts = INT32_MAX;
	loop.job.redelivered = true;
	loop.job.timeout_ms = INT64_C(365) * 24 * 3600 * 1000;
	loop_give_bytes(raw.data, raw.len);
	loop_until_answers(1);
	assert_int_equal(loop.got[0].serial, UINT64_MAX);
	loop_drain();
	buffer_free(&raw);
}

/* It reads the head, answers, and reads the rest when the message is gone. The next frame must begin where it expects it. */
TEST(answered_before_it_was_read, loop_begin, loop_end)
{
	char path[] = "/tmp/persistent-answered-XXXXXX", script[128];
	const size_t len = 4 << 20;
	char *payload = alloc_zero(len, 1);
	int fd = mkstemp(path);

	assert_int_not_equal(fd, -1);
	close(fd);
	snprintf(script, sizeof(script), "read -r _ serial _; echo OK $serial; exec /bin/cat >%s", path);
	loop.argv[0] = (char *)"/bin/sh";
	loop.argv[1] = (char *)"-c";
	loop.argv[2] = script;
	memset(payload, 'm', len);
	loop_start();
	loop_give_bytes(payload, len);
	loop_until_answers(1);
	assert_true(persistent_unwritten(loop.p));
	memset(payload, 'x', len);
	loop_drain();
	file_text(path);
	unlink(path);
	assert_int_equal(file_bytes.len, len + 2);
	assert_int_equal(strspn(file_bytes.data, "m"), len);
	assert_string_equal(file_bytes.data + len, "\n");
	free(payload);
}

TEST(environment, loop_begin, loop_end)
{
	loop.argv[0] = (char *)"/bin/sh";
	loop.argv[1] = (char *)"-c";
	loop.argv[2] = (char *)"env >&2; ls /proc/self/fd >&2; umask >&2; cat >/dev/null";
	loop.conf.reply_fd = 7;
	setenv("LEAK", "1", 1);
	loop_start();
	loop_until_logged("line=0022\n");
	loop_drain();
	loop_logged("stream=stderr line=\"QUREDIS_QUEUE=mail\"");
	loop_logged("line=\"QUREDIS_INCARNATION=web1.00.1.1\"");
	loop_logged("line=\"QUREDIS_REPLY_FD=7\"");
	loop_logged("line=7\n");
	loop_logged("line=2\n");
	loop_not_logged("QUREDIS_ID");
	loop_not_logged("LEAK");
	loop_not_logged("line=4\n");		/* 3 is the directory itself */
}

/* ---- reply_fd ---- */

static void replies_on(int fd)
{
	loop.conf.reply_fd = fd;
	loop.conf.window = 2;
	loop_start();
	loop_give("out OK @\nout OK 99\nsay OK @");
	loop_until_answers(1);
	loop_give("say not an answer\nerr words\nsay FAIL @ why");
	loop_until_answers(2);
	loop_got_ok(0, 1);
	loop_got(1, 2, VERB_FAIL, -1, "why");
	assert_string_equal(loop.got[1].stderr_tail, "words\n");
	loop_drain();
	loop_logged("stream=stdout line=\"OK ");
	loop_logged("stream=stdout line=\"OK 99\"\n");
	loop_logged("stream=reply line=\"not an answer\"\n");
}

TEST(reply_fd, loop_begin, loop_end)
{
	for (int fd = 3; fd <= 9; fd += 3) {
		replies_on(fd);
		loop_end(NULL);
		loop_begin(NULL);
	}
}

TEST(closes_stdout_but_answers_elsewhere, loop_begin, loop_end)
{
	loop.conf.reply_fd = 3;
	loop_start();
	loop_give("out bye\nsay OK @");
	loop_until_answers(1);
	assert_true(persistent_alive(loop.p));
	loop_drain();
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "handler") == 0)
		return scripted_handler(argv[2]);
	return unit_run(loop_setup, loop_teardown);
}
