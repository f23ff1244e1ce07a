/* links: tests/unit/redis/redis_peer.c */
/* When a connection gives its peer up: slow links, large commands and answers, a peer that stands still. The server is this test. */
#include <sys/socket.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "tests/unit/redis/redis_peer.h"
#include "tests/unit/unit.h"

/* The server reads n bytes of what was sent; returns how many there were. */
static size_t hear(const struct redis_peer *s, size_t n)
{
	static char bytes[256 * 1024];
	ssize_t got = recv(s->fd, bytes, n < sizeof(bytes) ? n : sizeof(bytes), MSG_DONTWAIT);

	return got > 0 ? (size_t)got : 0;
}

static void push(struct redis_peer *s, size_t len)
{
	char *message = alloc_zero(1, len);

	redis_appendf(&s->r, "LPUSH l %b", message, len);
	redis_expect_by(&s->r, REDIS_TIMEOUT_MS);
	free(message);
}

/* It takes much longer than REDIS_TIMEOUT_MS by the clock that the connection is told. */
TEST(a_large_command_over_a_slow_link, redis_peer_setup, redis_peer_teardown)
{
	const size_t len = 8 << 20;
	struct redis_peer *s = *state;
	size_t heard = 0;
	int64_t now = 0;

	redis_peer_greet(s);
	while (hear(s, SIZE_MAX) > 0)
		;			/* what was sent for the opening */
	push(s, len);
	for (size_t got = 1; got > 0; now += 1000) {
		assert_int_equal(redis_pump(&s->r, now), 0);
		got = hear(s, 64 * 1024);
		heard += got;
	}
	assert_true(now > 4 * REDIS_TIMEOUT_MS);
	assert_int_equal(heard, len + strlen("*3\r\n$5\r\nLPUSH\r\n$1\r\nl\r\n$8388608\r\n\r\n"));
	assert_int_equal(s->r.output.total - heard, strlen("*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n*1\r\n$4\r\nROLE\r\n"));
}

/* The kernel holds the end of a large command: that the peer reads it is progress, too. */
TEST(bytes_that_the_kernel_holds, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	int64_t now = 0;

	redis_peer_greet(s);
	push(s, 128 * 1024);		/* fits into the socket's buffer */
	assert_int_equal(redis_pump(&s->r, now), 0);
	assert_true(s->r.output.queued > 0);
	for (int i = 0; i < 3; i++) {
		now += REDIS_TIMEOUT_MS + 1;
		assert_true(hear(s, 40 * 1024) > 0);	/* a whole one of the pieces in which the kernel keeps them */
		assert_int_equal(redis_pump(&s->r, now), 0);
	}
	assert_int_equal(redis_pump(&s->r, now + REDIS_TIMEOUT_MS + 1), -1);
	assert_non_null(strstr(s->r.error, "no answer in time"));
}

TEST(a_write_that_fails_says_why, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;

	redis_peer_greet(s);
	close(s->fd);
	s->fd = -1;
	redis_appendf(&s->r, "PING");
	assert_int_equal(redis_flush(&s->r), -1);
	assert_non_null(strstr(s->r.error, strerror(EPIPE)));
}

TEST(a_peer_that_stands_still, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;

	redis_peer_greet(s);
	push(s, 8 << 20);
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_pump(&s->r, REDIS_TIMEOUT_MS), 0);
	assert_int_equal(redis_pump(&s->r, REDIS_TIMEOUT_MS + 1), -1);
	assert_non_null(strstr(s->r.error, "no answer in time"));
}

/* A worker renews its lease every quarter of it: what it sends to a peer that stands still is no sign of life. */
TEST(a_peer_that_is_still_spoken_to, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	int64_t now = 0;

	redis_peer_greet(s);
	redis_appendf(&s->r, "GET k");
	redis_expect_by(&s->r, REDIS_TIMEOUT_MS);
	for (; now <= REDIS_TIMEOUT_MS; now += 500) {
		assert_int_equal(redis_pump(&s->r, now), 0);
		redis_appendf(&s->r, "PEXPIRE lease 2000");
		redis_expect_by(&s->r, now + REDIS_TIMEOUT_MS);
	}
	assert_int_equal(redis_pump(&s->r, now), -1);
	assert_non_null(strstr(s->r.error, "no answer in time"));
}

/* The same while a command that is larger than the kernel's buffer waits for room. */
TEST(a_peer_that_is_spoken_to_behind_a_large_command, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	int64_t now = 0;

	redis_peer_greet(s);
	push(s, 8 << 20);
	for (; now <= REDIS_TIMEOUT_MS; now += 500) {
		assert_int_equal(redis_pump(&s->r, now), 0);
		redis_appendf(&s->r, "PEXPIRE lease 2000");
		redis_expect_by(&s->r, now + REDIS_TIMEOUT_MS);
	}
	assert_int_equal(redis_pump(&s->r, now), -1);
}

/* A fetch that blocks has its own time from when the answer before it came. */
TEST(a_command_behind_another, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	struct redis_reply reply;

	redis_peer_greet(s);
	redis_appendf(&s->r, "DEL k");
	redis_expect_by(&s->r, REDIS_TIMEOUT_MS);
	redis_appendf(&s->r, "BRPOPLPUSH a b 60");
	redis_expect_by(&s->r, 60000 + REDIS_TIMEOUT_MS);
	assert_int_equal(redis_pump(&s->r, REDIS_TIMEOUT_MS), 0);
	redis_peer_say(s, ":1\r\n");
	assert_int_equal(redis_pump(&s->r, REDIS_TIMEOUT_MS + 1), 0);	/* our poll came late, not the answer */
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_int_equal(redis_pump(&s->r, 60000 + REDIS_TIMEOUT_MS), 0);
	assert_int_equal(redis_pump(&s->r, 60001 + REDIS_TIMEOUT_MS), -1);
}

TEST(a_large_answer_over_a_slow_link, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	struct redis_reply reply;
	int64_t now = 0;

	redis_peer_greet(s);
	redis_appendf(&s->r, "GET k");
	redis_expect_by(&s->r, REDIS_TIMEOUT_MS);
	redis_peer_say(s, "$20\r\n");
	for (int i = 0; i < 20; i++, now += REDIS_TIMEOUT_MS) {
		redis_peer_say(s, "x");
		assert_int_equal(redis_pump(&s->r, now), 0);
		assert_int_equal(redis_take(&s->r, &reply), 0);
	}
	redis_peer_say(s, "\r\n");
	assert_int_equal(redis_pump(&s->r, now), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_int_equal(reply.len, 20);
}

/* It sends a byte now and then, and never completes an answer: the next address may be better. */
TEST(an_opening_has_an_end, redis_peer_setup, redis_peer_teardown)
{
	struct redis_peer *s = *state;
	int64_t now = 0;

	redis_peer_say(s, "+");
	for (; redis_pump(&s->r, now) == 0 && now < 100 * REDIS_TIMEOUT_MS; now += REDIS_TIMEOUT_MS - 1)
		redis_peer_say(s, "x");
	assert_int_equal(s->r.state, REDIS_CLOSED);
	assert_non_null(strstr(s->r.error, "no answer in time"));
	assert_in_range(now, 4 * REDIS_TIMEOUT_MS, 14 * REDIS_TIMEOUT_MS);
}

UNIT_MAIN(NULL, NULL)
