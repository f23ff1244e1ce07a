/* links: common/redis.c common/redis_command.c common/redis_reply.c common/redis_wait.c common/redis_target.c common/alloc.c common/clock.c */
/* One connection whose server is this test, and says what no server should. */
#include <sys/socket.h>
#include <sys/un.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/redis.h"

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
	struct redis_reply reply;

	greet(s);
	redis_close(&s->r, "gone");
	redis_appendf(&s->r, "GET %s", "k");
	redis_append_times(&s->r, 2, 1, (const char *[]){ "PING" });
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
