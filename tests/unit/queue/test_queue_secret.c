/* links: tests/unit/private_redis.c */
/* ldflags: -Wl,--wrap=seal_list */

/*
 * The question for the secrets, while several connections of one process ask it. This process never gives back a secret that it has learnt, so each
 * connection finds a Redis that lost it.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/base.h"
#include "common/conf/conf.h"
#include "common/queue/queue.h"
#include "tests/unit/private_redis.h"
#include "tests/unit/unit.h"

#define OPEN_MS 20000

static struct private_redis server;
static struct redis first, second;

void __wrap_seal_list(char out[SEAL_LIST_SIZE]);
void __wrap_seal_list(char out[SEAL_LIST_SIZE])
{
	out[0] = '\0';
}

static int start(void **state)
{
	(void)state;
	private_redis_start(&server, false);
	redis_init(&first, &server.target, "first");
	redis_init(&second, &server.target, "second");
	REDIS(&server, "FLUSHALL");
	return 0;
}

static int stop(void **state)
{
	(void)state;
	redis_close(&first, NULL);
	redis_close(&second, NULL);
	private_redis_stop(&server);
	return 0;
}

/* Both send their first request before either takes an answer. */
static void open_at_once(void)
{
	int64_t until_ms = clock_monotonic_ms() + OPEN_MS;

	assert_int_equal(redis_open(&first, clock_monotonic_ms()), 0);
	assert_int_equal(redis_open(&second, clock_monotonic_ms()), 0);
	while (first.state == REDIS_OPENING || second.state == REDIS_OPENING) {
		int64_t now_ms = clock_monotonic_ms();

		assert_true(now_ms < until_ms);
		if (first.state == REDIS_OPENING)
			redis_pump(&first, now_ms);
		if (second.state == REDIS_OPENING)
			redis_pump(&second, now_ms);
	}
}

static void assert_lost(const struct redis *r, const char *trace)
{
	assert_int_equal(r->state, REDIS_CLOSED);
	assert_int_equal(r->error_class, REDIS_ERROR_SECRET);
	if (strstr(r->error, trace) == NULL)
		fail_msg("%s", r->error);
}

TEST(each_of_two_connections_takes_its_own_answers, start, stop)
{
	REDIS(&server, "ZADD quredis:queues 7 mail 7 news");
	queue_greets(&first, true, NULL);
	queue_greets(&second, true, NULL);
	open_at_once();
	assert_string_equal(first.error, "");
	assert_string_equal(second.error, "");
	assert_int_equal(first.state, REDIS_READY);
	assert_int_equal(second.state, REDIS_READY);
	assert_int_equal(REDIS(&server, "GET quredis:secret").len, 2 * SEAL_SECRET_BYTES);
}

/* The first one serves a queue that left a trace; the second one knows no queue, and opens later. */
TEST(each_of_two_connections_asks_about_its_own_queues, start, stop)
{
	struct conf_queue mail = { .name = (char *)"mail", .ingress = (char *)"i", .transit = (char *)"t", .escape = (char *)"e" }, *queues[] = { &mail };
	struct conf conf = { .queues = queues, .nqueues = 1 };

	REDIS(&server, "HSET t:workers n.00000000000000b0.4.1 {}");
	queue_greets(&first, true, &conf);
	queue_greets(&second, true, NULL);
	assert_int_equal(redis_connect(&first, OPEN_MS, NULL), -1);
	assert_lost(&first, "quredis was here (t:workers)");
	assert_int_equal(REDIS_INT(&server, "EXISTS quredis:secret"), 0);
	assert_int_equal(redis_connect(&second, OPEN_MS, NULL), 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS quredis:secret"), 1);
}

#define MANY 200

/* Of each queue there are some ten traces; only the last queue left one. */
TEST(a_trace_of_one_of_many_queues_is_found, start, stop)
{
	for (int i = 0; i < MANY; i++) {
		char name[16];

		snprintf(name, sizeof(name), "q%d", i);
		REDIS(&server, "ZADD quredis:queues %d %s", (int64_t)i, name);
	}
	REDIS(&server, "HSET transit:q199:workers n.00000000000000b0.4.1 {}");
	queue_greets(&first, true, NULL);
	queue_greets(&second, true, NULL);
	open_at_once();
	assert_lost(&first, "transit:q199:workers");
	assert_lost(&second, "transit:q199:workers");
}

UNIT_MAIN(NULL, NULL)
