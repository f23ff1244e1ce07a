/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c */
/* ldflags: -Wl,--wrap=clock_boottime_ms */
/*
 * A message that has waited longer than its TTL does not start. The worker believes that only if Redis, asked after the
 * message was fetched, confirms the clock by which its age was computed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/lone_worker.h"

/*
 * The clock of Redis as the sweeper measured it at BOOT: exactly OFFSET ahead, and even since SINCE. A millisecond of drift is
 * allowed for, so an age is 1 ms lower than it seems.
 */
#define BOOT INT64_C(1000000)
#define OFFSET INT64_C(1700000000000)
#define NOW (OFFSET + BOOT)
#define SINCE (NOW - 600000)
#define TTL INT64_C(5000)
#define DRIFT 1

static int64_t boottime_ms;
static int expired;
static char why[AGE_TEXT_SIZE];

int64_t __wrap_clock_boottime_ms(void);

int64_t __wrap_clock_boottime_ms(void)
{
	return boottime_ms;
}

void settle_expired(struct worker *w, struct place p, const char *message)
{
	expired++;
	snprintf(why, sizeof(why), "%s", message);
	tray_move(&w->trays, p, MOVE_ESCAPE);
}

static void publish(int64_t offset)
{
	const struct server_clock known = { .low_ms = offset, .high_ms = offset, .checked_ms = BOOT, .since_ms = SINCE };

	server_clock_publish(&known, &lone.board->sweeper.clock);
}

static int setup(void **state)
{
	(void)state;
	boottime_ms = BOOT;
	expired = 0;
	lone_worker_begin(false);
	lone_worker_connect();
	lone.queue.ttl_ms = TTL;
	publish(OFFSET);
	return 0;
}

/* A message that has waited since own_ms, by the clock of Redis, is the next to start. */
static struct place fetched(int tray, int64_t own_ms, const char *rest)
{
	struct place p = { tray, lone.w->trays.tray[tray].n };
	char raw[128];

	snprintf(raw, sizeof(raw), "quredis/1 w=00000000000000ab own=%" PRId64 "\n%s", own_ms, rest);
	lone_worker_add_sealed(tray, raw);
	if (lone.w->trays.tray[tray].state == TRAY_EMPTY)
		tray_filled(&lone.w->trays, tray);
	lone.w->starter.job.message = tray_message(&lone.w->trays, p);
	return p;
}

static struct place fetched_raw(const char *raw)
{
	lone_worker_add(0, raw);
	tray_filled(&lone.w->trays, 0);
	lone.w->starter.job.message = tray_message(&lone.w->trays, AT(0, 0));
	return AT(0, 0);
}

/* Redis answers to TIME with these two words; NULL: one is missing. */
static void answer_words(const char *seconds, const char *micros)
{
	struct redis_reply reply;

	REDIS(&lone_server, "DEL words");
	REDIS(&lone_server, "RPUSH words %s", seconds);
	if (micros != NULL)
		REDIS(&lone_server, "RPUSH words %s", micros);
	reply = REDIS(&lone_server, "LRANGE words 0 -1");
	expiry_time_answer(lone.w, (struct place){ -1, 0 }, &reply, 0);
}

static void answer(int64_t server_ms)
{
	char seconds[24], micros[24];

	snprintf(seconds, sizeof(seconds), "%" PRId64, server_ms / 1000);
	snprintf(micros, sizeof(micros), "%" PRId64, server_ms % 1000 * 1000);
	answer_words(seconds, micros);
}

static bool holds(struct place p)
{
	lone.w->starter.job.message = tray_message(&lone.w->trays, p);
	return expiry_holds(lone.w, p, 70);
}

/* ---- what is asked ---- */

TEST(without_a_ttl_the_worker_asks_nothing, setup, lone_worker_teardown)
{
	lone.queue.ttl_ms = -1;
	assert_false(holds(fetched(0, NOW - 500000, "a")));
	assert_int_equal(lone.expected, 0);
}

TEST(a_message_that_tells_no_time_starts, setup, lone_worker_teardown)
{
	assert_false(holds(fetched_raw("a")));
	assert_int_equal(lone.expected, 0);
}

/* Its producer wrote a wrapper with an age of years. No secret verifies it, so it is payload. */
TEST(a_forged_age_does_not_count, setup, lone_worker_teardown)
{
	assert_false(holds(fetched_raw("quredis/1 w=00000000000000ab own=1 mac=00000000000000000000000000000000\na")));
	assert_int_equal(lone.expected, 0);
}

TEST(an_age_equal_to_the_ttl_is_too_old, setup, lone_worker_teardown)
{
	struct place young, old;

	young = fetched(0, NOW - DRIFT - TTL + 1, "a");
	old = fetched(0, NOW - DRIFT - TTL, "b");
	assert_false(holds(young));
	assert_int_equal(lone.expected, 0);
	assert_true(holds(old));
	assert_int_equal(lone.expected, 1);
}

TEST(a_message_that_came_into_the_same_tray_after_the_question_is_asked_for_again, setup, lone_worker_teardown)
{
	struct place first = fetched(0, NOW - DRIFT - TTL, "a");

	assert_true(holds(first));
	answer(NOW);
	assert_true(holds(first));
	assert_int_equal(expired, 1);
	assert_true(holds(fetched(0, NOW - DRIFT - TTL, "b")));
	assert_int_equal(lone.expected, 2);
	assert_int_equal(expired, 1);
}

TEST(a_message_may_have_a_ttl_of_its_own, setup, lone_worker_teardown)
{
	char raw[96];

	lone.queue.ttl_ms = -1;
	snprintf(raw, sizeof(raw), "quredis/1 ttl=1s enqueued=%" PRId64 "\na", NOW - DRIFT - 1000);
	assert_true(holds(fetched_raw(raw)));
	assert_int_equal(lone.expected, 1);
}

TEST(while_the_clock_of_redis_is_not_known_nothing_expires, setup, lone_worker_teardown)
{
	static const struct server_clock unknown, vague = { .low_ms = OFFSET - 1001, .high_ms = OFFSET, .checked_ms = BOOT, .since_ms = SINCE };
	struct place p = fetched(0, NOW - 500000, "a");

	server_clock_publish(&unknown, &lone.board->sweeper.clock);
	assert_false(holds(p));
	server_clock_publish(&vague, &lone.board->sweeper.clock);
	assert_false(holds(p));
	publish(OFFSET);
	assert_true(holds(p));
}

/* ---- the question ---- */

TEST(an_old_message_waits_for_the_time_of_redis, setup, lone_worker_teardown)
{
	struct place p = fetched(2, NOW - 500000, "a");
	struct redis_reply reply;

	assert_true(holds(p));
	assert_true(lone.w->expiry.asking);
	assert_int_equal(lone.last.answer, ANSWER_TIME);
	assert_int_equal(lone.due_ms, 70 + REDIS_TIMEOUT_MS);
	reply = lone_worker_answer();
	assert_true(queue_time_parse(&reply) > 0);
	assert_int_equal(expired, 0);
	assert_int_equal(tray_item(&lone.w->trays, p)->state, ITEM_WAITING);
}

TEST(an_old_message_escapes_when_redis_confirms_the_clock, setup, lone_worker_teardown)
{
	struct place p = fetched(0, NOW - 500000 - DRIFT, "a");

	assert_true(holds(p));
	answer(NOW);
	assert_false(lone.w->expiry.asking);
	assert_true(holds(p));
	assert_int_equal(expired, 1);
	assert_int_equal(lone.expected, 1);
	assert_string_equal(why, "Worker queue TTL expired: waited 500s, limit 5s");
}

TEST(a_clock_that_was_set_lets_no_message_expire, setup, lone_worker_teardown)
{
	static const struct { int64_t off; bool agrees; } cases[] = {
		{ 0, true }, { 2, true }, { 3, false }, { -2, true }, { -3, false }, { 86400000, false }, { -86400000, false },
	};
	struct place p = fetched(0, NOW - 500000, "a");

	for (size_t i = 0; i < nitems(cases); i++) {
		lone.w->expiry.known_serial = 0;
		assert_true(holds(p));
		answer(NOW + cases[i].off);
		assert_int_equal(lone.w->expiry.agrees, cases[i].agrees);
		if (!cases[i].agrees)
			assert_false(holds(p));
	}
	assert_int_equal(expired, 0);
}

/* Redis read its clock at any time between the question and the answer. */
TEST(a_slow_answer_confirms_the_clock, setup, lone_worker_teardown)
{
	struct place p = fetched(0, NOW - 500000, "a");

	for (int64_t read_after = 0; read_after <= 400; read_after += 200) {
		lone.w->expiry.known_serial = 0;
		boottime_ms = BOOT;
		assert_true(holds(p));
		boottime_ms = BOOT + 400;
		answer(NOW + read_after);
		assert_true(lone.w->expiry.agrees);
	}
}

TEST(an_answer_that_is_no_time_lets_the_message_start, setup, lone_worker_teardown)
{
	static const struct redis_reply others[] = { { .type = REDIS_NIL }, { .type = REDIS_INTEGER, .integer = NOW / 1000 },
		{ .type = REDIS_ERROR, .str = "LOADING", .len = 7 }, { .type = REDIS_STRING, .str = "1700001000", .len = 10 }, { .type = REDIS_ARRAY } };
	struct place p = fetched(0, NOW - 500000, "a");

	for (size_t i = 0; i < nitems(others) + 2; i++) {
		lone.w->expiry.known_serial = 0;
		lone.w->expiry.agrees = true;
		assert_true(holds(p));
		if (i < nitems(others))
			expiry_time_answer(lone.w, (struct place){ -1, 0 }, &others[i], 0);
		else
			answer_words(i == nitems(others) ? "1700001000" : "x", i == nitems(others) ? NULL : "y");
		assert_false(lone.w->expiry.asking);
		assert_false(holds(p));
	}
	assert_int_equal(expired, 0);
}

TEST(one_answer_counts_for_all_messages_fetched_before_the_question, setup, lone_worker_teardown)
{
	struct place first = fetched(0, NOW - 500000, "a"), second = fetched(0, NOW - 500000, "b"), third = fetched(1, NOW - 500000, "c"), late;

	assert_true(holds(first));
	late = fetched(2, NOW - 500000, "d");
	answer(NOW);
	assert_true(holds(first) && holds(second) && holds(third));
	assert_int_equal(expired, 3);
	assert_int_equal(lone.expected, 1);
	assert_true(holds(late));
	assert_int_equal(expired, 3);
	assert_int_equal(lone.expected, 2);
}

TEST(a_lost_question_is_asked_again, setup, lone_worker_teardown)
{
	struct place p = fetched(0, NOW - 500000, "a");

	assert_true(holds(p));
	expiry_lost(lone.w);
	assert_false(lone.w->expiry.asking);
	assert_true(holds(p));
	assert_int_equal(lone.expected, 2);
	assert_int_equal(expired, 0);
}

UNIT_MAIN(lone_worker_start_server, lone_worker_stop_server)
