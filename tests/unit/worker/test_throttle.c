/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c */
/* The starts that a worker gets from Redis, and how long it keeps them. tests/unit/queue/test_queue_throttle.c: how many Redis gives. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/lone_worker.h"

#define KEY "quredis:of:i:throttle"
#define NOW_MS 1000000

bool session_usable(const struct worker *w)
{
	return w->session.registered;
}

void session_renew_incarnation(struct worker *w, const char *why)
{
	(void)w, (void)why;
}

static int setup(void **state)
{
	(void)state;
	lone_worker_begin(false);
	lone_worker_connect();
	lone.queue.rate = (struct conf_rate){ .n = 1, .per_ms = 3600000 };
	lone.queue.burst = 3;
	lone.w->now_us = NOW_MS * INT64_C(1000);
	throttle_init(lone.w);
	return 0;
}

static int64_t now_ms(void)
{
	return lone.w->now_us / 1000;
}

static bool ask(int wanted, bool from_ingress)
{
	int before = lone.expected;

	throttle_ask(lone.w, wanted, from_ingress, now_ms());
	assert_true(lone.expected == before || lone.last.answer == ANSWER_THROTTLE);
	return lone.expected > before;
}

static void take_answer(void)
{
	struct redis_reply reply = lone_worker_answer();

	throttle_answer(lone.w, AT(-1, 0), &reply, now_ms());
}

static void start(int n)
{
	assert_int_equal(throttle_starts(lone.w), n);
	while (n-- > 0)
		throttle_started(lone.w);
}

static int64_t shown(void)
{
	return atomic_load(&lone.env->slot->throttled_ms);
}

TEST(a_queue_without_a_rate_asks_for_nothing, setup, lone_worker_teardown)
{
	lone.queue.rate.n = 0;
	throttle_init(lone.w);
	throttle_started(lone.w);
	assert_int_equal(throttle_starts(lone.w), INT_MAX);
}

TEST(each_message_that_starts_uses_one, setup, lone_worker_teardown)
{
	assert_int_equal(throttle_starts(lone.w), 0);
	assert_true(ask(2, false));
	assert_false(ask(2, false));		/* one question at a time */
	take_answer();
	assert_int_equal(throttle_starts(lone.w), 2);
	throttle_started(lone.w);
	throttle_started(lone.w);
	assert_int_equal(throttle_starts(lone.w), 0);
	assert_int_equal(shown(), 0);
}

/* An idle worker must not start at once with what was given long ago. */
TEST(a_start_that_is_not_used_ends, setup, lone_worker_teardown)
{
	ask(3, false);
	take_answer();
	lone.w->now_us += 50000;
	assert_int_equal(throttle_starts(lone.w), 3);
	lone.w->now_us++;
	assert_int_equal(throttle_starts(lone.w), 0);
}

/* Redis gave them when it was asked: with those that it gave meanwhile they would be more than the rate allows. */
TEST(an_answer_that_comes_late_brings_no_starts, setup, lone_worker_teardown)
{
	ask(3, false);
	lone.w->now_us += 50001;
	take_answer();
	assert_int_equal(throttle_starts(lone.w), 0);
	assert_int_equal(throttle_next_ms(lone.w, now_ms()), INT64_MAX);
	ask(3, false);				/* gives them back: Redis has given none since */
	take_answer();
	assert_int_equal(throttle_starts(lone.w), 3);
}

TEST(an_answer_in_time_leaves_what_is_left_of_it, setup, lone_worker_teardown)
{
	ask(3, false);
	lone.w->now_us += 30000;
	take_answer();
	assert_int_equal(throttle_starts(lone.w), 3);
	lone.w->now_us += 20001;
	assert_int_equal(throttle_starts(lone.w), 0);
}

TEST(a_start_that_was_used_does_not_go_back, setup, lone_worker_teardown)
{
	ask(3, false);
	take_answer();
	throttle_started(lone.w);
	lone.w->now_us += 50001;
	ask(3, false);
	take_answer();
	start(2);
	ask(3, false);
	take_answer();
	assert_int_equal(throttle_starts(lone.w), 0);
}

/* So many starts of three may be used, if their answer comes so long after the question, and `way_us` after the script. */
static int starts_of(int64_t took_us, int64_t way_us)
{
	struct redis_reply reply;
	char script[64];

	assert_true(ask(3, false));
	lone_worker_answer();
	lone.w->now_us += took_us;
	snprintf(script, sizeof(script), "return { 3, 0, 1, %" PRId64 " }", INT64_C(1000000000000) + lone.w->now_us - way_us);
	redis_appendf(&lone.w->session.redis, "EVAL %s 0", script);
	reply = lone_worker_answer();
	throttle_answer(lone.w, AT(-1, 0), &reply, now_ms());
	return throttle_starts(lone.w);
}

/* Behind a slow link every answer is late, and messages must start all the same; one that is held up there brings nothing. */
TEST(a_worker_gets_to_know_a_slow_link, setup, lone_worker_teardown)
{
	const struct { int64_t took_ms, way_ms; int starts; } answers[] = {
		{ 300, 150, 0 },		/* nothing is known yet */
		{ 300, 150, 3 },
		{ 300, 190, 3 },
		{ 300, 250, 0 },		/* held up for 100 ms on its way back */
		{ 900, 150, 3 },		/* on its way there, or Redis was busy */
		{ 30, 150, 3 },
		{ 30, 3600150, 3 },		/* the clock of Redis was set back */
		{ 300, 3600150, 3 },
		{ 300, 3600250, 0 },
		{ 300, 150, 3 },		/* and forward */
		{ 300, 3600150, 0 },		/* and back */
	};

	for (size_t i = 0; i < nitems(answers); i++)
		assert_int_equal(starts_of(answers[i].took_ms * 1000, answers[i].way_ms * 1000), answers[i].starts);
	lone.w->now_us += 60000000;
	assert_int_equal(starts_of(300000, 3600150000), 0);
	assert_int_equal(starts_of(300000, 3600150000), 3);
}

/* Nothing shows that it was prompt, also long after another one. */
TEST(a_slow_first_answer_is_no_measure_of_the_others, setup, lone_worker_teardown)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(starts_of(400000, 400000), 0);
		assert_int_equal(starts_of(300000, 300000), 0);
		assert_int_equal(starts_of(20000, 10000), 3);
		assert_int_equal(starts_of(300000, 300000), 0);
		lone.w->now_us += 60000000;
	}
}

/* Each test has 3 starts of the hour. */
static int left(void)
{
	throttle_lost(lone.w);
	ask(3, false);
	take_answer();
	return throttle_starts(lone.w);
}

TEST(a_worker_without_messages_gives_back_what_it_has_not_used, setup, lone_worker_teardown)
{
	assert_true(ask(3, false));
	take_answer();
	throttle_started(lone.w);
	lone.w->now_us += 1000000;
	throttle_rests(lone.w);
	assert_int_equal(throttle_starts(lone.w), 0);
	take_answer();
	assert_int_equal(throttle_next_ms(lone.w, now_ms()), INT64_MAX);
	assert_int_equal(shown(), 0);
	assert_false(throttle_found_none(lone.w));
	throttle_rests(lone.w);			/* nothing is left to give back */
	assert_int_equal(left(), 2);
}

TEST(what_was_given_for_messages_that_others_took_goes_back, setup, lone_worker_teardown)
{
	REDIS(&lone_server, "LPUSH i m m m");
	assert_true(ask(3, true));
	take_answer();
	assert_int_equal(throttle_starts(lone.w), 3);
	REDIS(&lone_server, "DEL i");
	assert_true(ask(3, true));
	take_answer();
	assert_true(throttle_found_none(lone.w));
	assert_int_equal(left(), 3);
}

TEST(a_start_that_is_kept_goes_back_too, setup, lone_worker_teardown)
{
	lone.queue.rate.per_ms = 1000;
	lone.queue.burst = 1;
	throttle_init(lone.w);
	ask(1, false);
	take_answer();
	start(1);
	ask(1, false);
	take_answer();
	assert_true(lone.w->throttle.kept);
	throttle_rests(lone.w);
	take_answer();
	assert_false(lone.w->throttle.kept);
	lone.w->throttle.at_ms = 0;
	ask(1, false);
	take_answer();
	assert_in_range(throttle_next_ms(lone.w, now_ms()) - NOW_MS, 1, 1001);		/* the same, not the one after it */
}

/* The script's time began before the answer set out. */
TEST(a_late_answer_makes_no_appointment_late, setup, lone_worker_teardown)
{
	int64_t asked_ms;

	lone.queue.rate.per_ms = 1000;
	lone.queue.burst = 1;
	throttle_init(lone.w);
	ask(1, false);
	take_answer();
	start(1);
	asked_ms = now_ms();
	ask(1, false);
	lone.w->now_us += 500000;
	take_answer();
	assert_in_range(throttle_next_ms(lone.w, now_ms()) - asked_ms, 501, 1026);
}

TEST(a_worker_that_must_wait_asks_as_seldom_as_an_idle_one, setup, lone_worker_teardown)
{
	ask(3, false);
	take_answer();
	start(3);
	assert_true(ask(1, false));
	take_answer();
	assert_int_equal(throttle_next_ms(lone.w, now_ms()), NOW_MS + 2000);
	assert_in_range(shown() - NOW_MS, 3590000, 3600001);
	lone.w->now_us += 1999 * 1000;
	assert_false(ask(1, false));
	lone.w->now_us += 1000;
	assert_true(throttle_next_ms(lone.w, now_ms()) == INT64_MAX);
	assert_true(ask(1, false));
	throttle_rests(lone.w);
	assert_int_equal(shown(), 0);
}

/* A start that is due soon is kept for this worker, and the queue stays throttled while it goes from one to the next. */
TEST(a_worker_sleeps_until_its_start_and_asks_once, setup, lone_worker_teardown)
{
	lone.queue.rate.per_ms = 1000;
	lone.queue.burst = 1;
	throttle_init(lone.w);
	ask(1, false);
	take_answer();
	assert_int_equal(shown(), 0);
	start(1);
	ask(1, false);
	take_answer();
	assert_in_range(throttle_next_ms(lone.w, now_ms()) - NOW_MS, 1, 1001);
	assert_true(lone.w->throttle.kept);
	/* as if the clock of Redis went to that time */
	lone.w->throttle.appointment -= throttle_next_ms(lone.w, now_ms()) * 1000 - lone.w->now_us;
	lone.w->now_us = throttle_next_ms(lone.w, now_ms()) * 1000;
	assert_true(ask(1, false));
	take_answer();
	assert_int_equal(throttle_starts(lone.w), 1);
	assert_true(shown() != 0);
}

TEST(an_answer_that_is_lost_takes_its_starts_along, setup, lone_worker_teardown)
{
	ask(3, false);
	lone_worker_answer();
	throttle_lost(lone.w);
	assert_int_equal(throttle_starts(lone.w), 0);
	assert_false(lone.w->throttle.kept);
	assert_true(ask(3, false));
	take_answer();
	assert_int_equal(throttle_starts(lone.w), 0);		/* Redis has given them */
}

TEST(an_empty_ingress_is_told_once, setup, lone_worker_teardown)
{
	assert_false(throttle_found_none(lone.w));
	ask(3, true);
	take_answer();
	assert_true(throttle_found_none(lone.w));
	assert_false(throttle_found_none(lone.w));
	assert_int_equal(throttle_starts(lone.w), 0);
}

TEST(a_key_of_another_type_is_reported_and_asked_again_later, setup, lone_worker_teardown)
{
	redis_appendf(&lone.w->session.redis, "LPUSH " KEY " x");
	lone_worker_answer();
	ask(1, false);
	take_answer();
	assert_int_equal(lone.reported, 1);
	assert_string_equal(lone.at, "throttle");
	assert_int_equal(throttle_starts(lone.w), 0);
	assert_false(ask(1, false));
	redis_appendf(&lone.w->session.redis, "DEL " KEY);
	lone_worker_answer();
	lone.w->now_us += 100 * 1000;
	assert_true(ask(1, false));
	take_answer();
	assert_int_equal(lone.cleared, 1);
	assert_int_equal(throttle_starts(lone.w), 1);
}

/* A worker that still has the rate before a change is not made newer by it. */
TEST(a_reload_loads_the_rate_of_workers_that_stay, setup, lone_worker_teardown)
{
	struct queue_master *words = &lone.board->queues[0].master;
	struct redis_reply reply;

	lone.conf.loaded_ms = 1000;
	atomic_store(&words->rate_loaded_ms, 2000);
	atomic_store(&words->rate_changed_ms, 1500);
	ask(1, false);
	take_answer();
	redis_appendf(&lone.w->session.redis, "GET " KEY);
	reply = lone_worker_answer();
	assert_non_null(strstr(reply.str, " 1000 1 "));
	atomic_store(&words->rate_changed_ms, 1000);
	ask(1, false);
	take_answer();
	redis_appendf(&lone.w->session.redis, "GET " KEY);
	reply = lone_worker_answer();
	assert_non_null(strstr(reply.str, " 2000 1 "));
}

TEST(nothing_is_asked_without_a_lease, setup, lone_worker_teardown)
{
	lone.w->session.registered = false;
	assert_false(ask(1, false));
}

UNIT_MAIN(lone_worker_start_server, lone_worker_stop_server)
