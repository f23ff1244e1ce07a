/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c */
/* The seats of a worker that others may have got, since it was cut off while its messages ran. */
#include <limits.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/lone_worker.h"

#define KEY "quredis:of:i:seats"
#define OTHER "n.00000000000000b0.5.1"
#define NOW_MS 1000000

static int room;

bool session_usable(const struct worker *w)
{
	return w->session.registered;
}

void session_renew_incarnation(struct worker *w, const char *why)
{
	(void)why;
	w->session.registered = false;
}

static int room_of(const struct worker *w)
{
	(void)w;
	return room;
}

static const struct runner runner = { .room = room_of };

static int64_t now_ms(void)
{
	return lone.w->now_us / 1000;
}

static struct redis_reply redis_answer(void)
{
	return lone_worker_answer();
}

static void take_answer(void)
{
	struct redis_reply reply = redis_answer();

	seats_answer(lone.w, AT(-1, 0), &reply, now_ms());
}

static int setup(void **state)
{
	(void)state;
	lone_worker_begin(false);
	queue_keys_use_seats(&lone.env->keys, NULL, NULL);
	lone_worker_connect();
	lone.queue.max_in_flight = 3;
	lone.w->session.server = (struct redis_identity){ .run_id = "one", .up_ms = 100000000 };
	lone.w->session.lease.until_ms = INT64_MAX;
	lone.w->starter.runner = &runner;
	lone.w->now_us = NOW_MS * INT64_C(1000);
	room = 4;
	seats_init(lone.w);
	seats_adopted(lone.w);
	take_answer();
	return 0;
}

static bool ask(int wanted, bool from_ingress)
{
	int before = lone.expected;

	seats_ask(lone.w, wanted, from_ingress, now_ms());
	assert_true(lone.expected == before || lone.last.answer == ANSWER_SEATS);
	return lone.expected > before;
}

static const char *held_in_redis(void)
{
	struct redis_reply reply;

	redis_appendf(&lone.w->session.redis, "HGET " KEY " " LONE_INCARNATION);
	reply = redis_answer();
	return reply.type == REDIS_STRING ? reply.str : "";
}

static void others_take(int n)
{
	redis_appendf(&lone.w->session.redis, "HSET " KEY " " OTHER " %b", n == 2 ? "2 mail" : "3 mail", (size_t)6);
	redis_answer();
}

static void run(int item)
{
	tray_start(&lone.w->trays, AT(0, item));
}

static void end(int item)
{
	tray_done(&lone.w->trays, AT(0, item), 0, 0);
}

static void fill(int n)
{
	tray_ask(&lone.w->trays, 0, n);
	for (int i = 0; i < n; i++) {
		lone_worker_add(0, "m");
		tray_answered(&lone.w->trays, 0);
	}
	tray_filled(&lone.w->trays, 0);
}

/* The worker was cut off while its message ran, and others have got all seats. */
TEST(a_seat_above_the_limit_takes_no_further_message, setup, lone_worker_teardown)
{
	fill(2);
	room = 1;
	ask(1, false);
	take_answer();
	run(0);
	seats_lost(lone.w);
	others_take(3);
	seats_adopted(lone.w);
	take_answer();
	assert_string_equal(held_in_redis(), "1 mail");
	end(0);
	assert_int_equal(seats_free(lone.w), 0);
	assert_true(ask(1, false));
	take_answer();
	assert_string_equal(held_in_redis(), "");
	assert_int_equal(seats_free(lone.w), 0);
}

/* Others may have got its seat, but a server that went back in time does not know that. */
TEST(what_ran_when_the_lease_ended_has_no_seat_in_a_quiet_redis, setup, lone_worker_teardown)
{
	fill(2);
	room = 1;
	ask(1, false);
	take_answer();
	run(0);
	lone.w->session.lease.until_ms = 0;
	seats_tick(lone.w, now_ms());
	lone.w->session.lease.until_ms = INT64_MAX;
	seats_lost(lone.w);
	redis_appendf(&lone.w->session.redis, "DEL " KEY);
	redis_answer();
	lone.w->session.server = (struct redis_identity){ .run_id = "two", .up_ms = 1000 };
	seats_adopted(lone.w);
	take_answer();
	assert_string_equal(held_in_redis(), "1 mail");
	end(0);
	assert_int_equal(seats_free(lone.w), 0);
	assert_true(ask(1, false));
	take_answer();
	assert_string_equal(held_in_redis(), "");
	assert_false(ask(1, false));
}

UNIT_MAIN(lone_worker_start_server, lone_worker_stop_server)
