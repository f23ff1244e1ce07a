/* One connection whose server is this test, and says what no server should. */
#include <sys/socket.h>
#include <sys/un.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/alloc.h"
#include "common/redis/redis.h"

#define GREETINGS ":1\r\n*1\r\n$6\r\nmaster\r\n"

struct server {
	char dir[32], url[64];
	int listening, fd;
	struct redis_target target;
	struct redis r;
};

static void say(const struct server *s, const char *text)
{
	assert_int_equal(write(s->fd, text, strlen(text)), (int)strlen(text));
}

static int setup(void **state)
{
	struct server *s = alloc_zero(1, sizeof(*s));
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char error[128];

	strcpy(s->dir, "/tmp/qu.XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	snprintf(s->url, sizeof(s->url), "unix://%s/s", s->dir);
	assert_int_equal(redis_target_parse(&s->target, s->url, NULL, NULL, error, sizeof(error)), 0);
	strcpy(sa.sun_path, s->target.unix_path);
	s->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listening, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(s->listening, 1), 0);
	redis_init(&s->r, &s->target, NULL);
	assert_int_equal(redis_open(&s->r, 0), 0);
	s->fd = accept(s->listening, NULL, NULL);
	assert_int_not_equal(s->fd, -1);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct server *s = *state;

	redis_close(&s->r, NULL);
	close(s->fd);
	close(s->listening);
	unlink(s->target.unix_path);
	rmdir(s->dir);
	redis_target_free(&s->target);
	free(s);
	return 0;
}

static void greet(struct server *s)
{
	say(s, GREETINGS);
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(s->r.state, REDIS_READY);
}

/* What it was told arrives, and the connection is closed because of it. */
static void assert_closed(struct server *s, const char *why)
{
	struct redis_reply reply;

	if (redis_pump(&s->r, 0) == 0)
		assert_int_equal(redis_take(&s->r, &reply), -1);
	assert_int_equal(s->r.state, REDIS_CLOSED);
	if (strstr(s->r.error, why) == NULL)
		fail_msg("%s", s->r.error);
}

static void a_role_that_is_none(void **state)
{
	struct server *s = *state;

	say(s, ":1\r\n*1\r\n:1\r\n");
	assert_closed(s, "replica");
}

static void an_array_too_large(void **state)
{
	static const char *const heads[] = { "*1048577\r\n", "*2147483647\r\n", "*1\r\n*2147483647\r\n" };
	struct server *s = *state;

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		if (i > 0) {
			teardown(state);
			setup(state);
			s = *state;
		}
		greet(s);
		redis_appendf(&s->r, "LRANGE l 0 -1");
		say(s, heads[i]);
		assert_closed(s, "too large");
	}
}

static void a_large_array(void **state)
{
	struct server *s = *state;
	struct redis_reply reply;

	greet(s);
	redis_appendf(&s->r, "LRANGE l 0 -1");
	say(s, "*1048576\r\n");
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 0);
}

static void an_answer_without_an_end(void **state)
{
	struct server *s = *state;
	struct redis_reply reply;

	greet(s);
	redis_appendf(&s->r, "GET k");
	say(s, "$9000000000000000000\r\nab");
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 0);
	assert_int_equal(s->r.received, 24);
	s->r.received = INT64_C(4) << 30;	/* as if so much of it had come */
	say(s, "c");
	assert_closed(s, "too large");
}

static void answers_are_counted_each(void **state)
{
	struct server *s = *state;
	struct redis_reply reply;

	greet(s);
	redis_appendf(&s->r, "GET a");
	redis_appendf(&s->r, "GET b");
	say(s, "$3\r\nabc\r\n$5\r\nd");
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_int_equal(s->r.received, 5);
	assert_int_equal(redis_take(&s->r, &reply), 0);
	say(s, "efgh\r\n");
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_string_equal(reply.str, "defgh");
	assert_int_equal(s->r.received, 0);
}

/* It would be taken for the answer to what is asked next. */
static void an_answer_to_nothing(void **state)
{
	struct server *s = *state;

	greet(s);
	say(s, ":1\r\n");
	assert_closed(s, "nothing that was asked");
}

static void an_answer_behind_the_greetings(void **state)
{
	struct server *s = *state;

	say(s, GREETINGS ":1\r\n");
	assert_closed(s, "nothing that was asked");
}

static void one_answer_too_many(void **state)
{
	struct server *s = *state;

	greet(s);
	redis_appendf(&s->r, "DEL k");
	say(s, ":1\r\n:1\r\n");
	assert_closed(s, "nothing that was asked");
}

/* Who asks several things at a time need not look between them. */
static void asking_a_closed_connection(void **state)
{
	struct server *s = *state;
	struct redis_command ping = {0};
	struct redis_reply reply;

	greet(s);
	redis_close(&s->r, "gone");
	redis_appendf(&s->r, "GET %s", "k");
	redis_format(&ping, "PING");
	redis_append_command(&s->r, &ping, 2);
	redis_command_free(&ping);
	redis_expect_by(&s->r, 5);
	assert_int_equal(s->r.pending, 0);
	assert_int_equal(redis_wait(&s->r, &reply, 1000, NULL), -1);
	assert_string_equal(s->r.error, "gone");
}

static bool are_strings(struct server *s, const char *answer)
{
	struct redis_reply reply;

	redis_appendf(&s->r, "LRANGE l 0 -1");
	say(s, answer);
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	return redis_is_strings(&reply);
}

static void strings(void **state)
{
	struct server *s = *state;

	greet(s);
	assert_true(are_strings(s, "*0\r\n"));
	assert_true(are_strings(s, "*2\r\n$1\r\na\r\n$0\r\n\r\n"));
	assert_false(are_strings(s, "*2\r\n$1\r\na\r\n$-1\r\n"));
	assert_false(are_strings(s, "*1\r\n*0\r\n"));
	assert_false(are_strings(s, "*1\r\n:1\r\n"));
	assert_false(are_strings(s, "*-1\r\n"));
	assert_false(are_strings(s, "$1\r\na\r\n"));
}

/* The server reads n bytes of what was sent; returns how many there were. */
static size_t hear(const struct server *s, size_t n)
{
	static char bytes[256 * 1024];
	ssize_t got = recv(s->fd, bytes, n < sizeof(bytes) ? n : sizeof(bytes), MSG_DONTWAIT);

	return got > 0 ? (size_t)got : 0;
}

static void push(struct server *s, size_t len)
{
	char *message = alloc_zero(1, len);

	redis_appendf(&s->r, "LPUSH l %b", message, len);
	redis_expect_by(&s->r, REDIS_TIMEOUT_MS);
	free(message);
}

/* It takes much longer than REDIS_TIMEOUT_MS by the clock that the connection is told. */
static void a_large_command_over_a_slow_link(void **state)
{
	const size_t len = 8 << 20;
	struct server *s = *state;
	size_t heard = 0;
	int64_t now = 0;

	greet(s);
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
static void bytes_that_the_kernel_holds(void **state)
{
	struct server *s = *state;
	int64_t now = 0;

	greet(s);
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

static void a_write_that_fails_says_why(void **state)
{
	struct server *s = *state;

	greet(s);
	close(s->fd);
	s->fd = -1;
	redis_appendf(&s->r, "PING");
	assert_int_equal(redis_flush(&s->r), -1);
	assert_non_null(strstr(s->r.error, strerror(EPIPE)));
}

static void a_peer_that_stands_still(void **state)
{
	struct server *s = *state;

	greet(s);
	push(s, 8 << 20);
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_pump(&s->r, REDIS_TIMEOUT_MS), 0);
	assert_int_equal(redis_pump(&s->r, REDIS_TIMEOUT_MS + 1), -1);
	assert_non_null(strstr(s->r.error, "no answer in time"));
}

/* A worker renews its lease every quarter of it: what it sends to a peer that stands still is no sign of life. */
static void a_peer_that_is_still_spoken_to(void **state)
{
	struct server *s = *state;
	int64_t now = 0;

	greet(s);
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
static void a_peer_that_is_spoken_to_behind_a_large_command(void **state)
{
	struct server *s = *state;
	int64_t now = 0;

	greet(s);
	push(s, 8 << 20);
	for (; now <= REDIS_TIMEOUT_MS; now += 500) {
		assert_int_equal(redis_pump(&s->r, now), 0);
		redis_appendf(&s->r, "PEXPIRE lease 2000");
		redis_expect_by(&s->r, now + REDIS_TIMEOUT_MS);
	}
	assert_int_equal(redis_pump(&s->r, now), -1);
}

/* A fetch that blocks has its own time from when the answer before it came. */
static void a_command_behind_another(void **state)
{
	struct server *s = *state;
	struct redis_reply reply;

	greet(s);
	redis_appendf(&s->r, "DEL k");
	redis_expect_by(&s->r, REDIS_TIMEOUT_MS);
	redis_appendf(&s->r, "BRPOPLPUSH a b 60");
	redis_expect_by(&s->r, 60000 + REDIS_TIMEOUT_MS);
	assert_int_equal(redis_pump(&s->r, REDIS_TIMEOUT_MS), 0);
	say(s, ":1\r\n");
	assert_int_equal(redis_pump(&s->r, REDIS_TIMEOUT_MS + 1), 0);	/* our poll came late, not the answer */
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_int_equal(redis_pump(&s->r, 60000 + REDIS_TIMEOUT_MS), 0);
	assert_int_equal(redis_pump(&s->r, 60001 + REDIS_TIMEOUT_MS), -1);
}

static void a_large_answer_over_a_slow_link(void **state)
{
	struct server *s = *state;
	struct redis_reply reply;
	int64_t now = 0;

	greet(s);
	redis_appendf(&s->r, "GET k");
	redis_expect_by(&s->r, REDIS_TIMEOUT_MS);
	say(s, "$20\r\n");
	for (int i = 0; i < 20; i++, now += REDIS_TIMEOUT_MS) {
		say(s, "x");
		assert_int_equal(redis_pump(&s->r, now), 0);
		assert_int_equal(redis_take(&s->r, &reply), 0);
	}
	say(s, "\r\n");
	assert_int_equal(redis_pump(&s->r, now), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_int_equal(reply.len, 20);
}

static const char *begin;
static size_t arrived;

static int64_t arriving_after(struct server *s, const char *text)
{
	struct redis_reply reply;

	say(s, text);
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 0);
	return redis_arriving(&s->r, &begin, &arrived);
}

static void the_length_of_what_arrives(void **state)
{
	struct server *s = *state;
	struct redis_reply reply;

	greet(s);
	redis_appendf(&s->r, "GET k");
	redis_appendf(&s->r, "LRANGE l 0 -1");
	assert_int_equal(redis_take(&s->r, &reply), 0);
	assert_int_equal(redis_arriving(&s->r, &begin, &arrived), -1);
	assert_int_equal(arriving_after(s, "$"), -1);
	assert_int_equal(arriving_after(s, "4"), -1);
	assert_int_equal(arriving_after(s, "\r\n"), 4);
	assert_int_equal(arrived, 0);
	assert_int_equal(arriving_after(s, "ab"), 4);
	assert_int_equal(arrived, 2);
	assert_memory_equal(begin, "ab", 2);
	say(s, "cd\r\n");
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(redis_take(&s->r, &reply), 1);
	assert_int_equal(redis_arriving(&s->r, &begin, &arrived), -1);
	assert_int_equal(arriving_after(s, "*2\r\n$1\r\na\r\n"), -1);
	assert_int_equal(arriving_after(s, "$300000000\r\nx"), 300000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_role_that_is_none),
		TEST(an_array_too_large),
		TEST(a_large_array),
		TEST(an_answer_without_an_end),
		TEST(answers_are_counted_each),
		TEST(an_answer_to_nothing),
		TEST(an_answer_behind_the_greetings),
		TEST(one_answer_too_many),
		TEST(asking_a_closed_connection),
		TEST(strings),
		TEST(a_large_command_over_a_slow_link),
		TEST(bytes_that_the_kernel_holds),
		TEST(a_write_that_fails_says_why),
		TEST(a_peer_that_stands_still),
		TEST(a_peer_that_is_still_spoken_to),
		TEST(a_peer_that_is_spoken_to_behind_a_large_command),
		TEST(a_command_behind_another),
		TEST(a_large_answer_over_a_slow_link),
		TEST(the_length_of_what_arrives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
