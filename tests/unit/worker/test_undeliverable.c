/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c */

/* A message on which the connection breaks each time: what convicts it, and which other suspects are left alone. */
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/lone_worker.h"

#define LARGE 60000
#define MOST 100000

static size_t adopted[QUEUE_TRAYS];
static struct undeliverable *u;

void adopt_tray(struct worker *w, int tray, const struct adopted *all, size_t n)
{
	(void)w, (void)all;
	adopted[tray] = n;
}

void adopt_read_trays(struct worker *w)
{
	(void)w;
}

void mover_record_failed(void)
{
}

static int setup(void **state)
{
	(void)state;
	memset(adopted, 0, sizeof(adopted));
	lone_worker_begin(false);
	lone_worker_connect();
	lone.queue.message_max = MOST;
	lone.queue.dead_letter.enabled = true;
	lone.w->session.server = (struct redis_identity){ .run_id = "a run", .replid = "a history" };
	u = &lone.w->undeliverable;
	return 0;
}

static int teardown(void **state)
{
	undeliverable_free(lone.w);
	return lone_worker_teardown(state);
}

static const char *tray_key(int tray)
{
	return lone.w->session.owner.trays[tray];
}

static void put(int tray, char c, size_t len)
{
	char *raw = alloc_zero(1, len);

	memset(raw, c, len);
	REDIS(&lone_server, "LPUSH %s %b", tray_key(tray), raw, len);
	free(raw);
}

/* Until only the bytes of a message are awaited: then true, and no answer is read. False: every tray was read. */
static bool walk(void)
{
	if (!undeliverable_reads_singly(lone.w))
		u->losses = 3;
	undeliverable_read_trays(lone.w);
	for (int taken = 0; !u->requested && taken < lone.expected; taken++) {
		struct redis_reply reply = lone_worker_answer();

		/* The answers come in the order of the requests: the limit first, then one step after the other. */
		undeliverable_answer(lone.w, (struct place){ 0, taken == 0 ? 0 : lone.last.item }, &reply, 0);
	}
	return u->requested;
}

#define CLOSED "Server closed the connection"

static void lose(const char *why)
{
	lone.w->session.renewing = true;
	redis_close(&lone.w->session.redis, why);
	lone.w->session.redis.closed_by_peer = strcmp(why, CLOSED) == 0;
	undeliverable_lost(lone.w);
	lone.expected = 0;
	lone_worker_connect();
}

TEST(trays_are_read_singly_after_three_losses, setup, teardown)
{
	for (int i = 0; i < 3; i++) {
		assert_false(undeliverable_reads_singly(lone.w));
		lose(CLOSED);
	}
	assert_true(undeliverable_reads_singly(lone.w));
	assert_non_null(lone.w->errors.of_connection);
	undeliverable_adopted(lone.w);
	assert_false(undeliverable_reads_singly(lone.w));
	lose(CLOSED);
	assert_null(lone.w->errors.of_connection);
}

/* lone_worker_connect() empties the server. */
static void fill(void)
{
	put(0, 'a', 10);
	put(0, 'b', LARGE);
	put(0, 'c', 10);
	put(2, 'd', 10);
}

static bool walks_over_it(void)
{
	fill();
	return walk();
}

static void breaks(int times, const char *why)
{
	for (int i = 0; i < times; i++) {
		assert_true(walks_over_it());
		lose(why);
	}
}

TEST(one_message_after_three_lone_failures_escapes, setup, teardown)
{
	breaks(3, CLOSED);
	assert_false(walks_over_it());
	assert_int_equal(REDIS_INT(&lone_server, "LLEN %s", lone.env->keys.escape), 1);
	assert_int_equal(REDIS(&lone_server, "LINDEX %s 0", lone.env->keys.escape).len, LARGE);
	assert_int_equal(adopted[0], 2);
	assert_int_equal(adopted[1], 0);
	assert_int_equal(adopted[2], 1);
	assert_int_equal(lone.w->session.owner.moved[0], 1);
	/* The next one of this size on this server needs one failure. */
	breaks(1, CLOSED);
	assert_false(walks_over_it());
	assert_int_equal(REDIS_INT(&lone_server, "LLEN %s", lone.env->keys.escape), 1);
}

static void assert_spared(void)
{
	assert_true(walks_over_it());
	assert_int_equal(REDIS_INT(&lone_server, "EXISTS %s", lone.env->keys.escape), 0);
}

/* The server restarted in between, so each restart may have broken the connection. */
TEST(a_restart_convicts_nothing, setup, teardown)
{
	breaks(2, CLOSED);
	lone.w->session.server = (struct redis_identity){ .run_id = "another run", .replid = "a history" };
	breaks(2, CLOSED);
	assert_spared();
	lose(CLOSED);
	lone.w->session.server = (struct redis_identity){ .run_id = "a third run", .replid = "a history" };
	assert_spared();
}

TEST(a_server_without_a_name_convicts_nothing, setup, teardown)
{
	lone.w->session.server = (struct redis_identity){0};
	breaks(5, CLOSED);
	assert_spared();
}

TEST(a_timeout_convicts_nothing, setup, teardown)
{
	breaks(2, CLOSED);
	breaks(1, "no answer in 5 s");
	breaks(2, CLOSED);
	assert_spared();
}

/* It arrives after all. */
TEST(what_arrives_is_innocent, setup, teardown)
{
	struct redis_reply reply;

	breaks(2, CLOSED);
	assert_true(walks_over_it());
	reply = lone_worker_answer();
	undeliverable_answer(lone.w, (struct place){ 0, lone.last.item }, &reply, 0);
	assert_int_equal(u->suspect.times, 0);
	assert_int_equal(u->nread, 2);
	lose(CLOSED);
	breaks(2, CLOSED);
	assert_spared();
}

/* A limit that Redis tells, and that the message exceeds, proves most of it. */
TEST(a_known_limit_needs_one_failure, setup, teardown)
{
	breaks(1, CLOSED);
	fill();
	REDIS(&lone_server, "CONFIG SET client-output-buffer-limit %s", "normal 59999 0 0");
	assert_false(walk());
	REDIS(&lone_server, "CONFIG SET client-output-buffer-limit %s", "normal 0 0 0");
	assert_int_equal(REDIS_INT(&lone_server, "LLEN %s", lone.env->keys.escape), 1);
}

#define LINE "quredis/1 w=00000000000000ab attempts=2 mac=00000000000000000000000000000000\n"

static void assert_class(const char *class)
{
	assert_false(walk());
	assert_string_equal(u->class, class);
	assert_int_equal(REDIS_INT(&lone_server, "LLEN %s", lone.env->keys.escape), 1);
	lose(CLOSED);
}

/* Longer than message_max: a line whose seal nobody can verify is kept, and the class says how to go on with it. */
TEST(what_is_too_long_keeps_a_line_that_is_not_verified, setup, teardown)
{
	put(0, 'b', MOST + 1);
	assert_class("TooLarge");
	put(0, 'b', MOST + MESSAGE_LINE_MAX + 1);
	REDIS(&lone_server, "EVAL %s 1 %s %s", "return redis.call('LPUSH', KEYS[1], ARGV[1] .. redis.call('LPOP', KEYS[1]))", tray_key(0), LINE);
	assert_class(MESSAGE_UNKNOWN_SEAL);
}

UNIT_MAIN(lone_worker_start_server, lone_worker_stop_server)
