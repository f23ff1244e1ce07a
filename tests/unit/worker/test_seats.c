/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c tests/unit/worker/seats_fixture.c */
/* The seats that a worker takes, keeps and gives back. tests/unit/queue/test_queue_seats.c: how many Redis gives. */
#include <limits.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/seats_fixture.h"

static uint64_t shown(void)
{
	return atomic_load(&lone.env->slot->seats);
}

TEST(a_queue_without_max_in_flight_asks_for_nothing, seats_setup, lone_worker_teardown)
{
	int before = lone.expected;

	lone.queue.max_in_flight = -1;
	assert_int_equal(seats_free(lone.w), INT_MAX);
	assert_true(seats_let_fetch(lone.w));
	assert_false(seats_asked(1, false));
	seats_adopted(lone.w);
	seats_give_back(lone.w, seats_now_ms());
	seats_tick(lone.w, seats_now_ms());
	assert_int_equal(lone.expected, before);
}

TEST(a_worker_asks_for_as_many_as_it_may_run, seats_setup, lone_worker_teardown)
{
	assert_int_equal(seats_free(lone.w), 0);
	seats_room = 2;
	assert_true(seats_asked(9, false));
	assert_false(seats_asked(9, false));		/* one question at a time */
	seats_take_answer();
	assert_int_equal(seats_free(lone.w), 2);
	assert_string_equal(seats_in_redis(), "2 mail");
}

/* Between two messages the worker keeps its seat, but asks before it uses it again after some time. */
TEST(a_seat_stays_for_the_next_message, seats_setup, lone_worker_teardown)
{
	seats_fill(2);
	seats_room = 1;
	seats_asked_and_answered(1, false);
	seats_run(0);
	assert_int_equal(seats_free(lone.w), 0);
	assert_true(seats_let_fetch(lone.w));
	seats_end(0);
	assert_int_equal(seats_free(lone.w), 1);
	lone.w->now_us += 50001;
	assert_int_equal(seats_free(lone.w), 0);
	assert_false(seats_let_fetch(lone.w));
	assert_true(seats_asked_and_answered(1, false));
	assert_int_equal(seats_free(lone.w), 1);
	assert_string_equal(seats_in_redis(), "1 mail");
}

TEST(seats_that_are_not_used_go_back, seats_setup, lone_worker_teardown)
{
	seats_asked_and_answered(2, false);
	seats_tick(lone.w, seats_now_ms());
	assert_int_equal(seats_deadline_ms(lone.w), SEATS_NOW_MS + 101);
	lone.w->now_us += 99 * 1000;
	seats_tick(lone.w, seats_now_ms());
	assert_string_equal(seats_in_redis(), "2 mail");
	lone.w->now_us += 2 * 1000;
	seats_tick(lone.w, seats_now_ms());
	seats_take_answer();
	assert_string_equal(seats_in_redis(), "");
	assert_int_equal(seats_deadline_ms(lone.w), INT64_MAX);
}

TEST(a_worker_gives_back_before_it_waits_for_a_message, seats_setup, lone_worker_teardown)
{
	seats_asked(1, false);
	seats_give_back(lone.w, seats_now_ms());	/* also what is still under way */
	seats_take_answer();
	assert_int_equal(seats_free(lone.w), 0);
	seats_take_answer();
	assert_string_equal(seats_in_redis(), "");
	seats_give_back(lone.w, seats_now_ms());
	assert_int_equal(lone.w->session.redis.pending, 0);
}

TEST(a_worker_without_a_seat_waits_in_redis_and_asks_seldom, seats_setup, lone_worker_teardown)
{
	seats_others_take(3);
	seats_asked_and_answered(1, false);
	assert_true(shown() == ((uint64_t)3 << 32 | 3));
	for (int i = 0; i < 3; i++) {
		assert_false(seats_asked(1, false));
		assert_true(i == 0 || seats_now_ms() < SEATS_NOW_MS + 6000);
		seats_await(lone.w, seats_now_ms());
		assert_int_equal(lone.last.answer, ANSWER_SEAT_FREE);
		assert_non_null(strstr(lone.w->session.redis.context->obuf, "\r\n$1\r\n2\r\n"));	/* Redis 5 takes no fractions */
		assert_true(lone.w->seats.blocking);
		assert_false(seats_asked(1, false));
		lone.w->now_us += 2000 * 1000;
		seats_woken(lone.w, AT(-1, 0), &(struct redis_reply){ .type = REDIS_NIL }, seats_now_ms());
		lone_worker_answer();
		assert_false(lone.w->seats.blocking);
	}
	assert_true(seats_asked_and_answered(1, false));
}

TEST(a_seat_that_becomes_free_wakes_the_worker, seats_setup, lone_worker_teardown)
{
	seats_others_take(3);
	seats_asked_and_answered(1, false);
	redis_appendf(&lone.w->session.redis, "RPUSH " SEATS_FREE " x");
	lone_worker_answer();
	seats_others_take(2);
	seats_await(lone.w, seats_now_ms());
	seats_take_answer();
	assert_true(seats_asked_and_answered(1, false));
	assert_int_equal(seats_free(lone.w), 1);
	assert_true(shown() != 0);		/* the queue has work for all: its state stays */
	lone.w->now_us += 50001;
	seats_asked_and_answered(1, false);
	assert_true(shown() == 0);
}

/* Redis would read none of its moves. */
TEST(a_worker_with_a_message_in_flight_does_not_wait_in_redis, seats_setup, lone_worker_teardown)
{
	int before;

	seats_fill(2);
	seats_room = 2;
	seats_others_take(2);
	seats_asked_and_answered(2, false);
	seats_run(0);
	seats_asked_and_answered(1, false);
	assert_int_equal(seats_next_ms(lone.w, seats_now_ms()), SEATS_NOW_MS + 2000);
	before = lone.expected;
	seats_await(lone.w, seats_now_ms());
	assert_int_equal(lone.expected, before);
	seats_end(0);
	assert_true(seats_next_ms(lone.w, seats_now_ms()) == INT64_MAX);
	assert_int_equal(seats_free(lone.w), 1);
}

/* Other workers may have a seat for them. */
TEST(messages_without_a_seat_are_not_fetched_for_a_handler_that_runs_several, seats_setup, lone_worker_teardown)
{
	lone.queue.mode = CONF_MODE_PERSISTENT;
	lone.queue.window = 16;
	seats_fill(3);
	seats_others_take(1);
	seats_asked_and_answered(2, false);
	assert_int_equal(seats_fetches(lone.w), 1);	/* three wait already */
	seats_run(0);
	assert_true(seats_let_fetch(lone.w));
	seats_run(1);
	assert_false(seats_let_fetch(lone.w) || seats_keep_one(lone.w));
	seats_asked_and_answered(1, false);
	assert_false(seats_let_fetch(lone.w));
	assert_true(seats_keep_one(lone.w));
	seats_end(0);
	assert_true(seats_let_fetch(lone.w));
	assert_false(seats_keep_one(lone.w));
}

/* The reply may be lost with the seats in it, and then the request is sent again under another name. */
TEST(an_answer_that_is_lost_gives_no_seat, seats_setup, lone_worker_teardown)
{
	seats_fill(1);
	seats_asked_and_answered(1, false);
	seats_run(0);
	seats_asked(2, false);
	lone_worker_answer();
	seats_lost(lone.w);
	assert_int_equal(lone.w->seats.n, 1);
	assert_int_equal(seats_free(lone.w), 0);
	assert_string_equal(seats_in_redis(), "3 mail");
	seats_adopted(lone.w);
	assert_false(seats_asked(1, false));
	seats_take_answer();
	assert_string_equal(seats_in_redis(), "1 mail");
	assert_int_equal(lone.w->seats.n, 1);
}

/* A message follows another one in the seat that the worker had before Redis went back. */
TEST(a_quiet_redis_lets_the_worker_use_what_it_had, seats_setup, lone_worker_teardown)
{
	seats_fill(2);
	seats_room = 1;
	seats_asked_and_answered(1, false);
	seats_run(0);
	seats_lost(lone.w);
	redis_appendf(&lone.w->session.redis, "DEL " SEATS);
	lone_worker_answer();
	lone.w->session.server = (struct redis_identity){ .run_id = "two", .up_ms = 1000 };
	seats_end(0);
	seats_adopted(lone.w);
	seats_take_answer();
	assert_string_equal(seats_in_redis(), "1 mail");
	assert_int_equal(seats_free(lone.w), 1);
	seats_room = 4;
	lone.w->now_us += 50001;
	seats_asked_and_answered(3, false);
	assert_int_equal(seats_free(lone.w), 1);
	seats_run(1);
	seats_asked_and_answered(3, false);
	assert_true(shown() == 3);
	assert_int_equal(seats_next_ms(lone.w, seats_now_ms()), seats_now_ms() + 2000);	/* another worker may know the server for longer */
}

/* A sweeper may have given them to others. */
TEST(a_lease_that_ended_leaves_only_seats_in_which_messages_run, seats_setup, lone_worker_teardown)
{
	seats_fill(1);
	seats_asked_and_answered(2, false);
	seats_run(0);
	lone.w->session.lease.until_ms = 0;
	lone.w->session.registered = false;
	seats_tick(lone.w, seats_now_ms());
	assert_int_equal(lone.w->seats.n, 1);
}

TEST(another_server_in_the_hash_makes_the_worker_register_again, seats_setup, lone_worker_teardown)
{
	redis_appendf(&lone.w->session.redis, "HSET " SEATS " server %b", "other. 1", (size_t)8);
	lone_worker_answer();
	seats_asked_and_answered(1, false);
	assert_int_equal(seats_renewed, 1);
	assert_int_equal(seats_free(lone.w), 0);
	seats_lost(lone.w);
	lone.w->session.registered = true;
	seats_adopted(lone.w);
	seats_take_answer();
	assert_int_equal(seats_renewed, 1);
	lone.w->now_us += (LONE_LEASE_MS + 1000) * INT64_C(1000);
	assert_true(seats_asked_and_answered(1, false));
	assert_int_equal(seats_free(lone.w), 1);
}

/* Its next renewal, after a quarter of the lease, would be the first to see that. */
TEST(a_worker_without_a_lease_registers_again_and_asks_no_more_meanwhile, seats_setup, lone_worker_teardown)
{
	redis_appendf(&lone.w->session.redis, "DEL %s", lone.w->session.owner.lease);
	lone_worker_answer();
	seats_asked_and_answered(1, false);
	assert_int_equal(seats_renewed, 1);
	assert_int_equal(seats_free(lone.w), 0);
	assert_false(seats_asked(1, false));
}

/* After a day without seats the hash is gone, and what the server said of its start is as old. */
TEST(a_long_connection_shows_that_the_server_is_not_new, seats_setup, lone_worker_teardown)
{
	lone.w->session.server = (struct redis_identity){ .run_id = "two", .up_ms = 1000, .promoted = true };
	seats_lost(lone.w);
	seats_adopted(lone.w);
	seats_take_answer();
	assert_true(lone.w->seats.quiet);
	redis_appendf(&lone.w->session.redis, "DEL " SEATS);
	lone_worker_answer();
	lone.w->now_us += 40 * INT64_C(1000000);
	seats_asked_and_answered(1, false);
	assert_int_equal(seats_free(lone.w), 1);
}

/* Its clock may have been set: then the time since its start is wrong. */
TEST(a_worker_that_used_another_server_before_believes_only_its_own_clock, seats_setup, lone_worker_teardown)
{
	lone.w->session.server = (struct redis_identity){ .run_id = "one", .up_ms = 1000 };
	seats_adopted(lone.w);
	seats_take_answer();
	seats_lost(lone.w);
	lone.w->session.server = (struct redis_identity){ .run_id = "two", .up_ms = 3600000 };
	seats_adopted(lone.w);
	seats_take_answer();
	for (int i = 0; i < 16; i++) {
		assert_true(lone.w->seats.quiet);
		lone.w->now_us += 2000000;
		seats_asked_and_answered(1, false);
	}
	assert_false(lone.w->seats.quiet);
}

/* The sweeper frees them after the rescue, when no handler of that process runs any more. */
TEST(seats_of_the_process_before_in_this_slot_stay, seats_setup, lone_worker_teardown)
{
	static const char mine[] = "n.00000000000000b0.1.3";
	struct redis *r = &lone.w->session.redis;

	slot_next_generation(lone.env->slot);
	seats_init(lone.w);
	queue_owner_free(&lone.w->session.owner);
	queue_owner_init(&lone.w->session.owner, &lone.env->keys, mine, LONE_LEASE_MS);
	queue_renew(r, &lone.w->session.owner, NULL, "{}");
	lone_worker_answer();
	redis_appendf(r, "HSET " SEATS " " LONE_INCARNATION " %b", "2 mail", (size_t)6);
	lone_worker_answer();
	seats_asked_and_answered(3, false);
	assert_string_equal(seats_in_redis(), "2 mail");
	assert_int_equal(seats_free(lone.w), 1);
}

TEST(an_empty_ingress_is_told_once, seats_setup, lone_worker_teardown)
{
	assert_false(seats_found_none(&lone.w->seats));
	seats_asked_and_answered(3, true);
	assert_true(seats_found_none(&lone.w->seats));
	assert_false(seats_found_none(&lone.w->seats));
	assert_true(shown() == 0);
}

TEST(a_key_of_another_type_is_reported_and_asked_again_later, seats_setup, lone_worker_teardown)
{
	redis_appendf(&lone.w->session.redis, "DEL " SEATS);
	lone_worker_answer();
	redis_appendf(&lone.w->session.redis, "LPUSH " SEATS " x");
	lone_worker_answer();
	seats_asked_and_answered(1, false);
	assert_int_equal(lone.reported, 1);
	assert_string_equal(lone.at, "seats");
	assert_int_equal(seats_free(lone.w), 0);
	assert_false(seats_asked(1, false));
	redis_appendf(&lone.w->session.redis, "DEL " SEATS);
	lone_worker_answer();
	lone.w->now_us += 100 * 1000;
	assert_true(seats_asked_and_answered(1, false));
	assert_int_equal(lone.cleared, 1);
	assert_int_equal(seats_free(lone.w), 1);
}

static void run_one_of_two(void)
{
	seats_fill(2);
	seats_room = 1;
	seats_asked(1, false);
	seats_take_answer();
	seats_run(0);
}

/* ---- seats that others may have got, since the worker was cut off while its messages ran ---- */

TEST(a_seat_above_the_limit_takes_no_further_message, seats_setup, lone_worker_teardown)
{
	run_one_of_two();
	seats_lost(lone.w);
	seats_others_take(3);
	seats_adopted(lone.w);
	seats_take_answer();
	assert_string_equal(seats_in_redis(), "1 mail");
	seats_end(0);
	assert_int_equal(seats_free(lone.w), 0);
	assert_true(seats_asked(1, false));
	seats_take_answer();
	assert_string_equal(seats_in_redis(), "");
	assert_int_equal(seats_free(lone.w), 0);
}

/* Others may have got its seat, but a server that went back in time does not know that. */
TEST(what_ran_when_the_lease_ended_has_no_seat_in_a_quiet_redis, seats_setup, lone_worker_teardown)
{
	run_one_of_two();
	lone.w->session.lease.until_ms = 0;
	seats_tick(lone.w, seats_now_ms());
	lone.w->session.lease.until_ms = INT64_MAX;
	seats_lost(lone.w);
	redis_appendf(&lone.w->session.redis, "DEL " SEATS);
	lone_worker_answer();
	lone.w->session.server = (struct redis_identity){ .run_id = "two", .up_ms = 1000 };
	seats_adopted(lone.w);
	seats_take_answer();
	assert_string_equal(seats_in_redis(), "1 mail");
	seats_end(0);
	assert_int_equal(seats_free(lone.w), 0);
	assert_true(seats_asked(1, false));
	seats_take_answer();
	assert_string_equal(seats_in_redis(), "");
	assert_false(seats_asked(1, false));
}

UNIT_MAIN(lone_worker_start_server, lone_worker_stop_server)
