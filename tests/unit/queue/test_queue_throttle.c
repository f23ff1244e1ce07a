/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/*
 * The script that gives starts, against a real Redis. Its clock cannot be set, so the tests set the times in its key: to
 * move them into the past is to let time pass, or to set the clock forward; into the future is to set it back.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/queue.h"
#include "tests/unit/queue/moves_fixture.h"
#include "tests/unit/unit.h"

#define SECOND INT64_C(1000000)

static struct queue_throttle_answer ask_again(const struct queue_throttle_figures *f, int wanted, bool from_ingress,
    struct queue_throttle_unused unused)
{
	struct queue_throttle_text text;
	struct queue_throttle_answer a;
	struct redis_reply reply;

	queue_throttle_format(f, &text);
	queue_throttle(&server.r, &keys, &text, wanted, from_ingress, unused);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_throttle_parse(&reply, &a), 0);
	return a;
}

/* appointment: of a start that was kept; 0: none */
static struct queue_throttle_answer ask_as(const struct queue_throttle_figures *f, int wanted, bool from_ingress,
    int64_t appointment)
{
	return ask_again(f, wanted, from_ingress, (struct queue_throttle_unused){ appointment, appointment != 0 });
}

/* Redis gives a start each 100 s, so that the test itself takes no time; 3 at once. */
static const struct queue_throttle_figures slow = { .n = 1, .per_ms = 100000, .burst = 3, .loaded_ms = 1000, .node = "web1" };
/* Redis gives a start each second. */
static const struct queue_throttle_figures brisk = { .n = 60, .per_ms = 60000, .burst = 1, .loaded_ms = 1000, .node = "web1" };

static struct queue_throttle_answer ask(int wanted)
{
	return ask_as(&slow, wanted, false, 0);
}

/* Adds so many us to the times in the key. */
static void move_times(int64_t given_us, int64_t seen_us)
{
	struct redis_reply reply = REDIS(&server, "GET %s", keys.throttle);
	char text[256];
	int64_t given, seen;
	int rest;

	assert_int_equal(sscanf(reply.str, "%" SCNd64 " %" SCNd64 " %n", &given, &seen, &rest), 2);
	snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 " %s", given + given_us, seen + seen_us, reply.str + rest);
	REDIS(&server, "SET %s %s", keys.throttle, text);
}

static void pass(int64_t us)
{
	move_times(-us, -us);
}

TEST(a_burst_is_given_at_once_and_then_one_each, moves_setup)
{
	struct queue_throttle_answer a = ask(2);

	assert_int_equal(a.starts, 2);
	assert_int_equal(ask(2).starts, 1);
	a = ask(1);
	assert_int_equal(a.starts, 0);
	assert_in_range(a.wait_us, 90 * SECOND, 100 * SECOND);
	assert_int_equal(a.appointment, 0);		/* later than an idle worker asks */
	pass(100 * SECOND);
	assert_int_equal(ask(5).starts, 1);
	pass(100000 * SECOND);
	assert_int_equal(ask(5).starts, 3);
	assert_in_range(REDIS_INT(&server, "PTTL %s", keys.throttle), 86400000, 87000000);
}

TEST(no_more_is_given_than_messages_wait, moves_setup)
{
	assert_int_equal(ask_as(&slow, 3, true, 0).starts, -1);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s", keys.throttle), 0);
	REDIS(&server, "LPUSH %s x", keys.ingress);
	assert_int_equal(ask_as(&slow, 3, true, 0).starts, 1);
	assert_int_equal(ask_as(&slow, 3, true, 0).starts, 1);
}

/* Workers that wait come one after the other, each once. */
TEST(a_start_that_is_due_soon_is_kept_for_who_asked, moves_setup)
{
	struct queue_throttle_answer one, two, three;

	assert_int_equal(ask_as(&brisk, 1, false, 0).starts, 1);
	one = ask_as(&brisk, 1, false, 0);
	two = ask_as(&brisk, 1, false, 0);
	three = ask_as(&brisk, 1, false, 0);
	assert_int_equal(one.starts, 0);
	assert_int_equal(two.appointment - one.appointment, SECOND);
	assert_int_equal(three.starts, 0);
	assert_int_equal(three.appointment, 0);		/* in three seconds: that is not soon */
	pass(one.wait_us);
	assert_int_equal(ask_as(&brisk, 1, false, 0).starts, 0);	/* it is kept */
	/* the appointments are times of the key, which the test has moved */
	assert_int_equal(ask_as(&brisk, 1, false, one.appointment - one.wait_us).starts, 1);
}

TEST(a_start_that_was_kept_is_given_once_and_counts_once, moves_setup)
{
	struct queue_throttle_answer a;
	int64_t given;

	ask_as(&brisk, 1, false, 0);
	a = ask_as(&brisk, 1, false, 0);
	given = strtoll(REDIS(&server, "GET %s", keys.throttle).str, NULL, 10);
	assert_int_equal(ask_as(&brisk, 1, false, a.appointment - a.wait_us).starts, 1);
	assert_int_equal(strtoll(REDIS(&server, "GET %s", keys.throttle).str, NULL, 10), given);
}

TEST(a_clock_that_was_set_makes_an_appointment_void, moves_setup)
{
	struct queue_throttle_answer a;

	ask_as(&brisk, 1, false, 0);
	a = ask_as(&brisk, 1, false, 0);
	assert_int_equal(ask_as(&brisk, 1, false, a.appointment + 5 * SECOND).starts, 0);
	assert_int_equal(ask_as(&brisk, 1, false, a.appointment - 50 * SECOND).starts, 0);
}

/* Two starts that were kept for different times must not come together. */
TEST(a_start_that_is_late_is_lost_if_one_after_it_is_kept, moves_setup)
{
	struct queue_throttle_answer one, two;

	ask_as(&brisk, 1, false, 0);
	one = ask_as(&brisk, 1, false, 0);
	two = ask_as(&brisk, 1, false, 0);
	pass(two.wait_us);
	assert_int_equal(ask_as(&brisk, 1, false, two.appointment - two.wait_us).starts, 1);
	assert_int_equal(ask_as(&brisk, 1, false, one.appointment - two.wait_us).starts, 0);
}

TEST(a_start_that_is_late_moves_those_that_are_given_after_it, moves_setup)
{
	struct queue_throttle_answer a;
	int64_t late_us = SECOND / 2;

	ask_as(&brisk, 1, false, 0);
	a = ask_as(&brisk, 1, false, 0);
	pass(a.wait_us + late_us);
	assert_int_equal(ask_as(&brisk, 1, false, a.appointment - a.wait_us - late_us).starts, 1);
	assert_in_range(ask_as(&brisk, 1, false, 0).wait_us, SECOND * 9 / 10, SECOND);
}

TEST(a_worker_that_asks_early_keeps_its_start, moves_setup)
{
	struct queue_throttle_answer one, again;

	ask_as(&brisk, 1, false, 0);
	one = ask_as(&brisk, 1, false, 0);
	ask_as(&brisk, 1, false, 0);
	pass(SECOND / 2);
	again = ask_as(&brisk, 1, false, one.appointment - SECOND / 2);
	assert_int_equal(again.starts, 0);
	assert_int_equal(again.appointment, one.appointment - SECOND / 2);
	assert_in_range(again.wait_us, 1, SECOND / 2);
	pass(again.wait_us);
	assert_int_equal(ask_as(&brisk, 1, false, again.appointment - again.wait_us).starts, 1);
}

TEST(starts_that_were_not_used_are_taken_back_unless_others_were_given, moves_setup)
{
	struct queue_throttle_answer a = ask(2);

	a = ask_again(&slow, 3, false, (struct queue_throttle_unused){ a.appointment, 2 });
	assert_int_equal(a.starts, 3);
	a = ask_again(&slow, 3, false, (struct queue_throttle_unused){ a.appointment, 1 });
	assert_int_equal(a.starts, 1);
	pass(100 * SECOND);
	assert_int_equal(ask(1).starts, 1);
	assert_int_equal(ask_again(&slow, 3, false, (struct queue_throttle_unused){ a.appointment - 100 * SECOND, 1 }).starts, 0);
}

/* Redis went back to a time before it kept the start. */
TEST(a_start_that_redis_has_forgotten_is_given_anew, moves_setup)
{
	struct queue_throttle_answer a;

	ask_as(&brisk, 1, false, 0);
	a = ask_as(&brisk, 1, false, 0);
	REDIS(&server, "DEL %s", keys.throttle);
	assert_int_equal(ask_as(&brisk, 1, false, a.appointment - a.wait_us).starts, 1);
	assert_int_equal(ask_as(&brisk, 1, false, 0).starts, 0);
}

TEST(a_clock_set_back_costs_at_most_the_time_of_a_burst, moves_setup)
{
	struct queue_throttle_answer a;

	assert_int_equal(ask(3).starts, 3);
	move_times(7200 * SECOND, 7200 * SECOND);
	a = ask(1);
	assert_int_equal(a.starts, 0);
	assert_in_range(a.wait_us, 0, 100 * SECOND);
	pass(300 * SECOND);
	assert_int_equal(ask(3).starts, 3);
}

TEST(a_clock_set_forward_gives_one_burst, moves_setup)
{
	assert_int_equal(ask(3).starts, 3);
	move_times(-7200 * SECOND, -7200 * SECOND);
	assert_int_equal(ask(10).starts, 3);
	assert_int_equal(ask(10).starts, 0);
}

/* Within any stretch of time: the rate, and a burst. */
TEST(no_window_has_more_than_the_rate_and_a_burst, moves_setup)
{
	const struct queue_throttle_figures f = { .n = 1000, .per_ms = 1000000, .burst = 5, .loaded_ms = 1, .node = "n" };
	int64_t given = 0;

	/* a thousand seconds in steps of which some are longer than a burst */
	for (int at_s = 0, step = 1; at_s < 1000; at_s += step, step = step * 5 % 7 + 1) {
		for (struct queue_throttle_answer a; (a = ask_as(&f, 2, false, 0)).starts > 0;)
			given += a.starts;
		/* the last question kept a start, as if its worker had ended */
		assert_true(given <= at_s + 5);
		pass(step * SECOND);
	}
	assert_true(given > 500);
}

/* Workers that are late, use a part of their starts, or end. A start counts when it is used. */
#define RUNS 600
TEST(no_window_has_more_whatever_workers_do, moves_setup)
{
	const struct queue_throttle_figures f = { .n = 4, .per_ms = 1000, .burst = 3, .loaded_ms = 1, .node = "n" };
	static int64_t used[RUNS * 3];
	struct queue_throttle_unused held[4] = { 0 };	/* by times that do not move */
	int64_t passed = 0, due[4] = { 0 };
	int n = 0;

	srandom(7);
	for (int run = 0; run < RUNS; run++) {
		int who = (int)(random() % 4), wanted = 1 + (int)(random() % 3);
		int64_t now_us = clock_realtime_ms() * 1000 + passed, wait_us;
		struct queue_throttle_answer a;

		for (int i = 0; i < 4; i++)
			who = due[i] < due[who] ? i : who;
		wait_us = due[who] + (random() % 3 == 0 ? 100000 : 0) - now_us;
		if (wait_us > 0) {
			pass(wait_us);
			passed += wait_us;
		}
		held[who].appointment -= passed;
		a = ask_again(&f, wanted, false, held[who]);
		now_us = clock_realtime_ms() * 1000 + passed;
		held[who] = (struct queue_throttle_unused){ a.appointment + passed, a.appointment != 0 && a.starts == 0 };
		due[who] = a.starts == 0 ? now_us + (a.wait_us < 2 * SECOND ? a.wait_us : 2 * SECOND) : 0;
		if (a.starts > 0)
			held[who].starts = random() % (a.starts + 1);
		for (int64_t i = held[who].starts; i < a.starts; i++)
			used[n++] = now_us;
		if (random() % 8 == 0)
			held[who].starts = 0;		/* the worker has ended */
	}
	assert_in_range(n, RUNS / 4, nitems(used));
	for (int to = 0; to < n; to++)
		for (int from = 0; from <= to; from++)
			assert_true(to - from + 1 <= 3 + (used[to] - used[from] + 60000) * 4 / SECOND);
}

TEST(the_figures_that_were_loaded_last_count_on_all_hosts, moves_setup)
{
	struct queue_throttle_figures newer = { .n = 2, .per_ms = 100000, .burst = 10, .loaded_ms = 2000, .node = "web2" }, count;
	struct redis_reply reply;

	assert_int_equal(ask(10).starts, 3);
	assert_int_equal(ask_as(&newer, 10, false, 0).starts, 4);	/* 300 s are given: six of its ten */
	assert_int_equal(ask(10).starts, 0);				/* the older ones count no more */
	pass(100 * SECOND);
	assert_int_equal(ask(10).starts, 2);
	queue_throttle_figures(&server.r, &keys);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_throttle_figures_parse(&reply, &count), 0);
	assert_int_equal(count.n, 2);
	assert_int_equal(count.per_ms, 100000);
	assert_int_equal(count.burst, 10);
	assert_string_equal(count.node, "web2");
	/* of a host whose clock is years ahead */
	newer.loaded_ms = INT64_C(9000000000000);
	newer.burst = 1;
	ask_as(&newer, 1, false, 0);
	pass(100000 * SECOND);
	assert_int_equal(ask(10).starts, 3);
}

/* A host whose workers are idle has loaded figures: they count for the workers of others. */
TEST(announced_figures_count_and_take_no_start, moves_setup)
{
	struct queue_throttle_figures newer = { .n = 2, .per_ms = 100000, .burst = 10, .loaded_ms = 2000, .node = "web2" };
	struct queue_throttle_text text;
	struct redis_reply reply;
	struct queue_throttle_answer a;

	assert_int_equal(ask(10).starts, 3);
	queue_throttle_format(&newer, &text);
	for (int i = 0; i < 3; i++) {
		queue_throttle_announce(&server.r, &keys, &text);
		reply = private_redis_answer(&server);
		assert_int_equal(queue_throttle_parse(&reply, &a), 0);
		assert_int_equal(a.starts, 0);
		assert_int_equal(a.appointment, 0);
	}
	assert_int_equal(ask(10).starts, 4);		/* 300 s are given: six of the ten of web2 */
	queue_throttle_announce(&server.r, &keys, &text);
	reply = private_redis_answer(&server);
	assert_int_equal(ask_as(&slow, 10, false, 0).starts, 0);
}

TEST(a_rate_that_is_raised_counts_at_once, moves_setup)
{
	const struct queue_throttle_figures hourly = { .n = 1, .per_ms = 3600000, .burst = 1, .loaded_ms = 1, .node = "n" };

	assert_int_equal(ask_as(&hourly, 1, false, 0).starts, 1);
	assert_in_range(ask_as(&brisk, 1, false, 0).wait_us, 0, SECOND);
}

TEST(what_another_program_wrote_is_no_throttle, moves_setup)
{
	static const char *const texts[] = { "", "x", "1 2 3", "9 9 9 0 9 9 n", "1 1 1 1 1 1 1 1 1", "-1 -1 1 1 1 1 n" };
	struct queue_throttle_figures count;
	struct redis_reply reply;

	for (size_t i = 0; i < nitems(texts); i++) {
		REDIS(&server, "SET %s %s", keys.throttle, texts[i]);
		queue_throttle_figures(&server.r, &keys);
		reply = private_redis_answer(&server);
		if (i < 4)
			assert_int_equal(queue_throttle_figures_parse(&reply, &count), -1);
		assert_int_equal(ask(10).starts, 3);
	}
	REDIS(&server, "DEL %s", keys.throttle);
	REDIS(&server, "LPUSH %s x", keys.throttle);
	queue_throttle(&server.r, &keys, &(struct queue_throttle_text){ "1 1 1 1 n", "1.0", "1" }, 1, false,
	    (struct queue_throttle_unused){0});
	reply = private_redis_answer_or_error(&server);
	assert_true(redis_error_is(&reply, "WRONGTYPE"));
	assert_int_equal(REDIS_INT(&server, "LLEN %s", keys.throttle), 1);
}

/* Messages that are done free memory, so a queue must go on at maxmemory. */
TEST(a_full_redis_still_gives_starts, moves_setup)
{
	REDIS(&server, "CONFIG SET maxmemory 1");
	assert_int_equal(ask(1).starts, 1);
	REDIS(&server, "CONFIG SET maxmemory 0");
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
