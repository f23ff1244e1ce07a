/* The rule of ages, with times that come in. */
#include <stdlib.h>
#include <string.h>

#include "common/message/age.h"
#include "tests/unit/sealed.h"
#include "tests/unit/unit.h"

#define W "quredis/1 w=0000000000000001"
#define NOW 1000000
#define SINCE 500000

static const struct age_clock clock_now = { .now_ms = NOW, .latest_ms = NOW + 10, .since_ms = SINCE };

static int64_t since(int64_t own)
{
	return age_since(&(struct wrapper){ .own_ms = own }, &clock_now);
}

TEST(only_its_own_time_counts)
{
	assert_int_equal(since(0), 0);
	assert_int_equal(since(900000), 900000);
}

/* From before the epoch, or from a clock that was put back since: both were there when it began. */
TEST(what_another_clock_wrote_counts_from_the_epoch)
{
	assert_int_equal(since(SINCE - 1), SINCE);
	assert_int_equal(since(SINCE), SINCE);
	assert_int_equal(since(NOW + 11), SINCE);
	assert_int_equal(since(NOW + 3600000), SINCE);
	/* what was written just now is not taken for that */
	assert_int_equal(since(NOW + 10), NOW + 10);
}

static struct message_keys keys;

/* The age, or -1 if it may stay. */
static int64_t expired(const char *raw, int64_t ttl, const struct age_clock *c)
{
	struct age_excess e = { -2, -2 };
	struct buffer sealed = {0};
	struct message m;
	bool is;

	if (strncmp(raw, W, strlen(W)) == 0)
		sealed_append(&sealed, &keys, raw, strlen(raw));
	else
		buffer_append(&sealed, raw, strlen(raw));
	message_parse(&m, &keys, sealed.data, sealed.len);
	is = age_expired(&m, ttl, c, &e);
	buffer_free(&sealed);
	return is ? e.age_ms : -1;
}

static int64_t now(const char *raw, int64_t ttl)
{
	return expired(raw, ttl, &clock_now);
}

TEST(a_queue_limits_what_is_known)
{
	assert_int_equal(now("m", 1), -1);
	assert_int_equal(now(W " own=999000\nm", -1), -1);
	assert_int_equal(now(W " own=999000\nm", 1000), 1000);
	assert_int_equal(now(W " own=999001\nm", 1000), -1);
	assert_int_equal(now(W " own=1\nm", NOW - SINCE), NOW - SINCE);
	assert_int_equal(now(W " own=1\nm", NOW - SINCE + 1), -1);
	/* as the server's clock may be a little ahead of what we think it is */
	assert_int_equal(now(W " own=1000005\nm", 0), -1);
}

TEST(a_header_limits_itself)
{
	assert_int_equal(now("quredis/1 ttl=1s enqueued=999000\nm", -1), 1000);
	assert_int_equal(now("quredis/1 ttl=1s enqueued=999001\nm", -1), -1);
	assert_int_equal(now("quredis/1 ttl=1s enqueued=1\nm", -1), NOW - 1);
	assert_int_equal(now("quredis/1 ttl=1s enqueued=1000001\nm", -1), -1);
	assert_int_equal(now("quredis/1 ttl=0s enqueued=9223372036854775807\nm", -1), -1);
	assert_int_equal(now("quredis/1 ttl=106751991167d enqueued=0\nm", -1), -1);
	assert_int_equal(now("quredis/1 enqueued=1\nm", 1000), -1);
	/* without enqueued as the queue's */
	assert_int_equal(now("quredis/1 ttl=1s\nm", 2000), -1);
	assert_int_equal(now(W " own=999000\nquredis/1 ttl=1s\nm", 2000), 1000);
	assert_int_equal(now(W " own=999000\nquredis/1 ttl=1s\nm", -1), 1000);
	assert_int_equal(now(W " own=999000\nquredis/1 ttl=1s\nm", 5000), 1000);
}

TEST(the_shorter_limit_counts)
{
	struct message m = { .ttl_ms = 3600000, .enqueued_ms = -1, .wrapper.own_ms = 990000 };
	struct age_excess e;

	assert_true(age_expired(&m, 2000, &clock_now, &e));
	assert_int_equal(e.limit_ms, 2000);
	m.ttl_ms = 1000;
	assert_true(age_expired(&m, 2000, &clock_now, &e));
	assert_int_equal(e.limit_ms, 1000);
	assert_int_equal(now(W " own=990000\nquredis/1 ttl=1h enqueued=999999\nm", 2000), 10000);
}

/* Redriven after it was over, it begins anew; a hand-back, and a time that it got later, do not prolong it. */
TEST(one_that_was_redriven_later_begins_anew)
{
	assert_int_equal(now(W " own=999500 redriven=999500\nquredis/1 ttl=1s enqueued=1\nm", -1), -1);
	assert_int_equal(now(W " own=999000 redriven=999000\nquredis/1 ttl=1s enqueued=1\nm", -1), 1000);
	assert_int_equal(now(W " redriven=999000 own=999900\nquredis/1 ttl=1s enqueued=1\nm", -1), 1000);
	assert_int_equal(now(W " own=999500 redriven=999500\nquredis/1 ttl=1s enqueued=999000\nm", -1), 1000);
	assert_int_equal(now(W " own=999500\nquredis/1 ttl=1s enqueued=1\nm", -1), NOW - 1);
}

TEST(a_header_counts_from_a_step_that_was_seen)
{
	const struct age_clock c = { .now_ms = NOW, .latest_ms = NOW, .since_ms = SINCE, .stepped_ms = 999500 };

	assert_int_equal(expired("quredis/1 ttl=1s enqueued=1\nm", -1, &c), -1);
	assert_int_equal(expired("quredis/1 ttl=500ms enqueued=1\nm", -1, &c), 500);
}

TEST(it_is_said_in_words)
{
	char text[AGE_TEXT_SIZE];

	assert_string_equal(age_describe(&(struct age_excess){ 2134, 2000 }, text),
	    "Worker queue TTL expired: waited 2134ms, limit 2s");
	assert_true(strlen(age_describe(&(struct age_excess){ INT64_MAX, INT64_MAX - 1 }, text)) < AGE_TEXT_SIZE);
}

int main(void)
{
	keys = sealed_learn("ingress:mail");
	return unit_run(NULL, NULL);
}
