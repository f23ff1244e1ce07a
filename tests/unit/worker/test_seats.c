/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c */
/* The seats that a worker takes, keeps and gives back. tests/unit/queue/test_queue_seats.c: how many Redis gives. */
#include <limits.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/lone_worker.h"

#define KEY "quredis:of:i:seats"
#define FREE KEY ":free"
#define OTHER "n.00000000000000b0.5.1"
#define NOW_MS 1000000

static int room;
static int renewed;

bool session_usable(const struct worker *w)
{
	return w->session.registered;
}

void session_renew_incarnation(struct worker *w, const char *why)
{
	(void)why;
	w->session.registered = false;
	renewed++;
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

	if (lone.last.answer == ANSWER_SEAT_FREE)
		seats_woken(lone.w, AT(-1, 0), &reply, now_ms());
	else
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
	renewed = 0;
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

static bool asks(int wanted, bool from_ingress)
{
	bool asked = ask(wanted, from_ingress);
	take_answer();
	return asked;
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
	redis_appendf(&lone.w->session.redis, "HSET " KEY " " OTHER " %b", n == 1 ? "1 mail" : n == 2 ? "2 mail" : "3 mail", (size_t)6);
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

static uint64_t shown(void)
{
	return atomic_load(&lone.env->slot->seats);
}

TEST(a_queue_without_max_in_flight_asks_for_nothing, setup, lone_worker_teardown)
{
	int before = lone.expected;

	lone.queue.max_in_flight = -1;
	assert_int_equal(seats_free(lone.w), INT_MAX);
	assert_true(seats_let_fetch(lone.w));
	assert_false(ask(1, false));
	seats_adopted(lone.w);
	seats_give_back(lone.w, now_ms());
	seats_tick(lone.w, now_ms());
	assert_int_equal(lone.expected, before);
}

TEST(a_worker_asks_for_as_many_as_it_may_run, setup, lone_worker_teardown)
{
	assert_int_equal(seats_free(lone.w), 0);
	room = 2;
	assert_true(ask(9, false));
	assert_false(ask(9, false));		/* one question at a time */
	take_answer();
	assert_int_equal(seats_free(lone.w), 2);
	assert_string_equal(held_in_redis(), "2 mail");
}

/* Between two messages the worker keeps its seat, but asks before it uses it again after some time. */
TEST(a_seat_stays_for_the_next_message, setup, lone_worker_teardown)
{
	fill(2);
	room = 1;
	asks(1, false);
	run(0);
	assert_int_equal(seats_free(lone.w), 0);
	assert_true(seats_let_fetch(lone.w));
	end(0);
	assert_int_equal(seats_free(lone.w), 1);
	lone.w->now_us += 50001;
	assert_int_equal(seats_free(lone.w), 0);
	assert_false(seats_let_fetch(lone.w));
	assert_true(asks(1, false));
	assert_int_equal(seats_free(lone.w), 1);
	assert_string_equal(held_in_redis(), "1 mail");
}

TEST(seats_that_are_not_used_go_back, setup, lone_worker_teardown)
{
	asks(2, false);
	seats_tick(lone.w, now_ms());
	assert_int_equal(seats_deadline_ms(lone.w), NOW_MS + 101);
	lone.w->now_us += 99 * 1000;
	seats_tick(lone.w, now_ms());
	assert_string_equal(held_in_redis(), "2 mail");
	lone.w->now_us += 2 * 1000;
	seats_tick(lone.w, now_ms());
	take_answer();
	assert_string_equal(held_in_redis(), "");
	assert_int_equal(seats_deadline_ms(lone.w), INT64_MAX);
}

TEST(a_worker_gives_back_before_it_waits_for_a_message, setup, lone_worker_teardown)
{
	ask(1, false);
	seats_give_back(lone.w, now_ms());	/* also what is still under way */
	take_answer();
	assert_int_equal(seats_free(lone.w), 0);
	take_answer();
	assert_string_equal(held_in_redis(), "");
	seats_give_back(lone.w, now_ms());
	assert_int_equal(lone.w->session.redis.pending, 0);
}

TEST(a_worker_without_a_seat_waits_in_redis_and_asks_seldom, setup, lone_worker_teardown)
{
	others_take(3);
	asks(1, false);
	assert_true(shown() == ((uint64_t)3 << 32 | 3));
	for (int i = 0; i < 3; i++) {
		assert_false(ask(1, false));
		assert_true(i == 0 || now_ms() < NOW_MS + 6000);
		seats_await(lone.w, now_ms());
		assert_int_equal(lone.last.answer, ANSWER_SEAT_FREE);
		assert_non_null(strstr(lone.w->session.redis.context->obuf, "\r\n$1\r\n2\r\n"));	/* Redis 5 takes no fractions */
		assert_true(lone.w->seats.blocking);
		assert_false(ask(1, false));
		lone.w->now_us += 2000 * 1000;
		seats_woken(lone.w, AT(-1, 0), &(struct redis_reply){ .type = REDIS_NIL }, now_ms());
		lone_worker_answer();
		assert_false(lone.w->seats.blocking);
	}
	assert_true(asks(1, false));
}

TEST(a_seat_that_becomes_free_wakes_the_worker, setup, lone_worker_teardown)
{
	others_take(3);
	asks(1, false);
	redis_appendf(&lone.w->session.redis, "RPUSH " FREE " x");
	redis_answer();
	others_take(2);
	seats_await(lone.w, now_ms());
	take_answer();
	assert_true(asks(1, false));
	assert_int_equal(seats_free(lone.w), 1);
	assert_true(shown() != 0);		/* the queue has work for all: its state stays */
	lone.w->now_us += 50001;
	asks(1, false);
	assert_true(shown() == 0);
}

/* Redis would read none of its moves. */
TEST(a_worker_with_a_message_in_flight_does_not_wait_in_redis, setup, lone_worker_teardown)
{
	int before;

	fill(2);
	room = 2;
	others_take(2);
	asks(2, false);
	run(0);
	asks(1, false);
	assert_int_equal(seats_next_ms(lone.w, now_ms()), NOW_MS + 2000);
	before = lone.expected;
	seats_await(lone.w, now_ms());
	assert_int_equal(lone.expected, before);
	end(0);
	assert_true(seats_next_ms(lone.w, now_ms()) == INT64_MAX);
	assert_int_equal(seats_free(lone.w), 1);
}

/* Other workers may have a seat for them. */
TEST(messages_without_a_seat_are_not_fetched_for_a_handler_that_runs_several, setup, lone_worker_teardown)
{
	lone.queue.mode = CONF_MODE_PERSISTENT;
	lone.queue.window = 16;
	fill(3);
	others_take(1);
	asks(2, false);
	assert_int_equal(seats_fetches(lone.w), 1);	/* three wait already */
	run(0);
	assert_true(seats_let_fetch(lone.w));
	run(1);
	assert_false(seats_let_fetch(lone.w) || seats_keep_one(lone.w));
	asks(1, false);
	assert_false(seats_let_fetch(lone.w));
	assert_true(seats_keep_one(lone.w));
	end(0);
	assert_true(seats_let_fetch(lone.w));
	assert_false(seats_keep_one(lone.w));
}

/* The reply may be lost with the seats in it, and then the request is sent again under another name. */
TEST(an_answer_that_is_lost_gives_no_seat, setup, lone_worker_teardown)
{
	fill(1);
	asks(1, false);
	run(0);
	ask(2, false);
	lone_worker_answer();
	seats_lost(lone.w);
	assert_int_equal(lone.w->seats.n, 1);
	assert_int_equal(seats_free(lone.w), 0);
	assert_string_equal(held_in_redis(), "3 mail");
	seats_adopted(lone.w);
	assert_false(ask(1, false));
	take_answer();
	assert_string_equal(held_in_redis(), "1 mail");
	assert_int_equal(lone.w->seats.n, 1);
}

/* A message follows another one in the seat that the worker had before Redis went back. */
TEST(a_quiet_redis_lets_the_worker_use_what_it_had, setup, lone_worker_teardown)
{
	fill(2);
	room = 1;
	asks(1, false);
	run(0);
	seats_lost(lone.w);
	redis_appendf(&lone.w->session.redis, "DEL " KEY);
	redis_answer();
	lone.w->session.server = (struct redis_identity){ .run_id = "two", .up_ms = 1000 };
	end(0);
	seats_adopted(lone.w);
	take_answer();
	assert_string_equal(held_in_redis(), "1 mail");
	assert_int_equal(seats_free(lone.w), 1);
	room = 4;
	lone.w->now_us += 50001;
	asks(3, false);
	assert_int_equal(seats_free(lone.w), 1);
	run(1);
	asks(3, false);
	assert_true(shown() == 3);
	assert_int_equal(seats_next_ms(lone.w, now_ms()), now_ms() + 2000);	/* another worker may know the server for longer */
}

/* A sweeper may have given them to others. */
TEST(a_lease_that_ended_leaves_only_seats_in_which_messages_run, setup, lone_worker_teardown)
{
	fill(1);
	asks(2, false);
	run(0);
	lone.w->session.lease.until_ms = 0;
	lone.w->session.registered = false;
	seats_tick(lone.w, now_ms());
	assert_int_equal(lone.w->seats.n, 1);
}

TEST(another_server_in_the_hash_makes_the_worker_register_again, setup, lone_worker_teardown)
{
	redis_appendf(&lone.w->session.redis, "HSET " KEY " server %b", "other. 1", (size_t)8);
	redis_answer();
	asks(1, false);
	assert_int_equal(renewed, 1);
	assert_int_equal(seats_free(lone.w), 0);
	seats_lost(lone.w);
	lone.w->session.registered = true;
	seats_adopted(lone.w);
	take_answer();
	assert_int_equal(renewed, 1);
	assert_true(asks(1, false));
	assert_int_equal(seats_free(lone.w), 1);
}

/* Its next renewal, after a quarter of the lease, would be the first to see that. */
TEST(a_worker_without_a_lease_registers_again_and_asks_no_more_meanwhile, setup, lone_worker_teardown)
{
	redis_appendf(&lone.w->session.redis, "DEL %s", lone.w->session.owner.lease);
	redis_answer();
	asks(1, false);
	assert_int_equal(renewed, 1);
	assert_int_equal(seats_free(lone.w), 0);
	assert_false(ask(1, false));
}

/* After a day without seats the hash is gone, and what the server said of its start is as old. */
TEST(a_long_connection_shows_that_the_server_is_not_new, setup, lone_worker_teardown)
{
	lone.w->session.server = (struct redis_identity){ .run_id = "two", .up_ms = 1000, .promoted = true };
	seats_lost(lone.w);
	seats_adopted(lone.w);
	take_answer();
	assert_true(lone.w->seats.quiet);
	redis_appendf(&lone.w->session.redis, "DEL " KEY);
	redis_answer();
	lone.w->now_us += 40 * INT64_C(1000000);
	asks(1, false);
	assert_int_equal(seats_free(lone.w), 1);
}

/* Its clock may have been set: then the time since its start is wrong. */
TEST(a_worker_that_used_another_server_before_believes_only_its_own_clock, setup, lone_worker_teardown)
{
	lone.w->session.server = (struct redis_identity){ .run_id = "one", .up_ms = 1000 };
	seats_adopted(lone.w);
	take_answer();
	seats_lost(lone.w);
	lone.w->session.server = (struct redis_identity){ .run_id = "two", .up_ms = 3600000 };
	seats_adopted(lone.w);
	take_answer();
	for (int i = 0; i < 16; i++) {
		assert_true(lone.w->seats.quiet);
		lone.w->now_us += 2000000;
		asks(1, false);
	}
	assert_false(lone.w->seats.quiet);
}

/* The sweeper frees them after the rescue, when no handler of that process runs any more. */
TEST(seats_of_the_process_before_in_this_slot_stay, setup, lone_worker_teardown)
{
	static const char mine[] = "n.00000000000000b0.1.3";
	struct redis *r = &lone.w->session.redis;

	slot_next_generation(lone.env->slot);
	seats_init(lone.w);
	queue_owner_free(&lone.w->session.owner);
	queue_owner_init(&lone.w->session.owner, &lone.env->keys, mine, LONE_LEASE_MS);
	queue_renew(r, &lone.w->session.owner, NULL, "{}");
	redis_answer();
	redis_appendf(r, "HSET " KEY " " LONE_INCARNATION " %b", "2 mail", (size_t)6);
	redis_answer();
	asks(3, false);
	assert_string_equal(held_in_redis(), "2 mail");
	assert_int_equal(seats_free(lone.w), 1);
}

TEST(an_empty_ingress_is_told_once, setup, lone_worker_teardown)
{
	assert_false(seats_found_none(&lone.w->seats));
	asks(3, true);
	assert_true(seats_found_none(&lone.w->seats));
	assert_false(seats_found_none(&lone.w->seats));
	assert_true(shown() == 0);
}

TEST(a_key_of_another_type_is_reported_and_asked_again_later, setup, lone_worker_teardown)
{
	redis_appendf(&lone.w->session.redis, "DEL " KEY);
	redis_answer();
	redis_appendf(&lone.w->session.redis, "LPUSH " KEY " x");
	lone_worker_answer();
	asks(1, false);
	assert_int_equal(lone.reported, 1);
	assert_string_equal(lone.at, "seats");
	assert_int_equal(seats_free(lone.w), 0);
	assert_false(ask(1, false));
	redis_appendf(&lone.w->session.redis, "DEL " KEY);
	redis_answer();
	lone.w->now_us += 100 * 1000;
	assert_true(asks(1, false));
	assert_int_equal(lone.cleared, 1);
	assert_int_equal(seats_free(lone.w), 1);
}

UNIT_MAIN(lone_worker_start_server, lone_worker_stop_server)
