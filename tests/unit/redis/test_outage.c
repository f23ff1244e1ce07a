/* Which errors of an outage are logged. */
#include <stdio.h>
#include <string.h>

#include "common/base/base.h"
#include "common/redis/redis.h"
#include "tests/unit/unit.h"

static struct redis_outage outage;
static int64_t now_ms;

static int begin(void **state)
{
	(void)state;
	outage = (struct redis_outage){0};
	now_ms = 1000000;
	return 0;
}

static bool news(const char *why)
{
	return redis_outage_is_news(&outage, "connection", why, REDIS_OUTAGE_LEAST_MS, now_ms);
}

TEST(two_addresses_with_two_reasons_are_logged_once_each, begin)
{
	int logged = 0;

	for (int i = 0; i < 1000; i++) {
		logged += news("Connection refused");
		logged += news("no answer in time");
		now_ms += 500;
		assert_int_equal(logged, i < 120 ? 1 : 2);	/* the second one a minute after the first */
	}
}

TEST(an_error_that_needs_an_operator_does_not_wait, begin)
{
	assert_true(news("Connection refused"));
	assert_true(redis_outage_is_news(&outage, "connection", "NOAUTH Authentication required.", 0, now_ms));
	assert_false(redis_outage_is_news(&outage, "connection", "NOAUTH Authentication required.", 0, now_ms));
	assert_true(redis_outage_is_news(&outage, "fetch", "NOAUTH Authentication required.", 0, now_ms));
}

TEST(numbers_make_no_new_kind, begin)
{
	assert_true(redis_outage_is_news(&outage, "connection", "MOVED 866 10.0.0.7:7001", 0, now_ms));
	assert_false(redis_outage_is_news(&outage, "connection", "MOVED 7 10.0.0.12:7002", 0, now_ms));
	assert_true(redis_outage_is_news(&outage, "connection", "", 0, now_ms));
	assert_true(redis_outage_is_news(&outage, "connectio", "n", 0, now_ms));
}

/* Of two long texts that differ at their end both are logged. */
TEST(the_whole_text_counts, begin)
{
	char text[1000];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_true(redis_outage_is_news(&outage, "fetch", text, 0, now_ms));
	text[sizeof(text) - 2] = 'y';
	assert_true(redis_outage_is_news(&outage, "fetch", text, 0, now_ms));
	assert_false(redis_outage_is_news(&outage, "fetch", text, 0, now_ms));
}

TEST(each_outage_is_logged, begin)
{
	assert_false(redis_outage_end(&outage));
	assert_true(news("Connection refused"));
	assert_true(redis_outage_logged(&outage));
	assert_true(redis_outage_end(&outage));
	assert_false(redis_outage_end(&outage));
	assert_true(news("Connection refused"));
}

TEST(a_server_that_invents_errors_does_not_fill_the_log, begin)
{
	int logged = 0;

	for (int i = 0; i < 1000; i++) {
		char text[8] = { (char)('a' + i % 26), (char)('a' + i / 26 % 26), (char)('a' + i / 676) };

		logged += redis_outage_is_news(&outage, "fetch", text, 0, now_ms);
	}
	assert_int_equal(logged, REDIS_OUTAGE_KINDS);
	assert_true(redis_outage_end(&outage));
	assert_true(news("Connection refused"));
}

UNIT_MAIN(NULL, NULL)
