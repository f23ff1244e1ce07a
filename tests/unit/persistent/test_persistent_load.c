/* links: tests/unit/descriptors.c tests/unit/file_text.c tests/unit/persistent/persistent_loop.c tests/unit/persistent/scripted_handler.c */
/* Handlers that stay, with much at once, and often: nothing is stuck, and nothing is left. */
#include <sys/resource.h>

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/base/clock.h"
#include "common/handler/persistent_input.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/persistent/persistent_loop.h"
#include "tests/unit/persistent/scripted_handler.h"
#include "tests/unit/under_valgrind.h"
#include "tests/unit/unit.h"

/* It writes more than a pipe holds before it reads on, and so do we. */
TEST(both_write_at_once, loop_begin, loop_end)
{
	static const char commands[] = "nap 30\nfill 1000000\nsay \nsay OK @\npad ";
	size_t len = 1 << 20;
	char *payload = alloc_zero(1, len + 1);
	int given = 0;

	memset(payload, 'p', len);
	memcpy(payload, commands, sizeof(commands) - 1);
	loop.conf.window = 8;
	loop_start();
	while (loop.ngot < 16) {
		while (given < 16 && persistent_room(loop.p) > 0) {
			loop_give_bytes(payload, len);
			given++;
		}
		loop_turn();
		assert_false(loop.ended);
	}
	loop_drain();
	free(payload);
}

/* The buffer of frames is limited however wide the window is. */
TEST(room_is_bounded, loop_begin, loop_end)
{
	size_t len = 60000;
	char *payload = alloc_zero(1, len);
	int n = 0;

	memset(payload, 'p', len);
	loop.conf.window = 1000;
	loop.argv[0] = (char *)"/bin/sleep";
	loop.argv[1] = (char *)"1000";
	loop.argv[2] = NULL;
	loop_start();
	while (persistent_room(loop.p) > 0) {
		loop_give_bytes(payload, len);
		persistent_flush(loop.p);
		n++;
	}
	assert_true(n < 10);
	persistent_kill(loop.p);
	loop_until_end();
	assert_int_equal(loop.end.unread_from, 1);
	assert_int_equal(loop.end.unanswered, n);
	free(payload);
}

/* Written to, but never empty: what was written does not stay in the buffer. */
TEST(always_behind, loop_begin, loop_end)
{
	struct persistent_input in;
	struct message m;
	const struct token token = { "1234567890123456" };
	char payload[1000] = "", sink[sizeof(payload)];
	int p[2];

	message_parse(&m, &(struct message_keys){ .queue = "q", .secrets = seal_known(), .headers = true }, payload, sizeof(payload));
	loop.job.message = &m;
	assert_int_equal(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
	persistent_input_init(&in);
	persistent_input_begin(&in, p[1]);
	for (uint64_t i = 0; i < 150; i++)
		persistent_input_add(&in, &token, &loop.job, -1);
	for (uint64_t i = 150; i < 5000; i++) {
		persistent_input_add(&in, &token, &loop.job, -1);
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

	loop.counted = *given = 0;
	while (loop.counted < n) {
		for (int room = persistent_room(loop.p); room > 0 && *given < n; room = persistent_room(loop.p), ++*given)
			loop_give_bytes(payload, len);
		loop_turn();
		assert_false(loop.ended);
		if (loop.now_ms - begun_ms > 4 * LOOP_HANG_MS)
			fail_msg("hangs after %ld of %ld", loop.counted, n);
	}
}

TEST(many, loop_begin, loop_end)
{
	const char *wanted = getenv("TEST_JOBS");
	long n = wanted != NULL ? strtol(wanted, NULL, 10) : under_valgrind() ? 2000 : 100000, given;
	char *big = alloc_zero(1, 1 << 20);
	size_t memory, descriptors;
	int64_t begun_us;

	loop.conf.window = 64;
	loop.count_only = true;
	loop_start_with("ok");
	feed(1000, &given, big, 100);
	memory = allocated();
	descriptors = descriptors_open();
	begun_us = clock_monotonic_us();
	feed(n, &given, big, 100);
	print_message("             %.0f a second\n", (double)n * 1e6 / (double)(clock_monotonic_us() - begun_us));
	assert_int_equal(given, n);
	feed(20, &given, big, 1 << 20);
	feed(100, &given, big, 60000);
	feed(1000, &given, big, 100);
	assert_true(allocated() <= memory + 100000);
	assert_int_equal(descriptors_open(), descriptors);
	loop_drain();
	loop_not_logged("handler_output");
	free(big);
}

TEST(many_starts, loop_begin, loop_end)
{
	size_t descriptors = 0, memory = 0;

	loop.argv[0] = (char *)"/bin/true";
	loop.argv[1] = NULL;
	for (int i = 0; i < 300; i++) {
		loop_start();
		loop_give("x");
		loop_until_end();
		assert_int_equal(loop.end.unanswered, 1);
		if (i == 30) {
			descriptors = descriptors_open();
			memory = allocated();
		}
	}
	assert_int_equal(descriptors_open(), descriptors);
	assert_true(allocated() <= memory + 1000);
}

TEST(no_descriptors, loop_begin, loop_end)
{
	struct rlimit old;
	size_t before;

	loop_start();
	loop_drain();
	before = descriptors_open();
	getrlimit(RLIMIT_NOFILE, &old);
	for (rlim_t n = 3; n < 30; n++) {
		int result;

		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ n, old.rlim_max });
		result = persistent_start(loop.p, "web1.00.1.1", loop.now_ms);
		setrlimit(RLIMIT_NOFILE, &old);
		if (result == 0)
			break;
		assert_int_equal(errno, EMFILE);
		assert_false(persistent_running(loop.p));
		assert_false(persistent_alive(loop.p));
		assert_int_equal(descriptors_open(), before);
	}
	assert_true(persistent_running(loop.p));
	loop.ended = false;
	loop_drain();
	assert_int_equal(descriptors_open(), before);
}

/* It says BEAT so often that there is one in each turn of the worker, of 100 ms here. */
TEST(beats_in_each_turn_beyond_max_duration, loop_begin, loop_end)
{
	struct pollfd p[PERSISTENT_POLLFDS];
	static char commands[2048];

	for (int i = 0; i < 50; i++)
		strcat(commands, "nap 5\nsay BEAT @\n");
	strcat(commands, "stuck");
	loop.conf.max_duration_ms = 400;
	loop.job.timeout_ms = LOOP_HANG_MS;
	loop_start();
	loop_give(commands);
	for (int turn = 1; turn <= 5; turn++) {
		size_t n;

		assert_true(persistent_alive(loop.p));
		persistent_flush(loop.p);
		n = persistent_pollfds(loop.p, p);
		assert_int_equal(poll(p, n, LOOP_HANG_MS), 1);
		loop.now_ms += 100;
		persistent_io(loop.p, p, n, loop.now_ms);
		loop_take_all();
		persistent_tick(loop.p, loop.now_ms);
	}
	assert_false(persistent_alive(loop.p));		/* one turn of grace, for an answer that is in the pipe */
	loop_until_end();
	assert_int_equal(loop.end.how, PERSISTENT_TIMED_OUT);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "handler") == 0)
		return scripted_handler(argv[2]);
	return unit_run(loop_setup, loop_teardown);
}
