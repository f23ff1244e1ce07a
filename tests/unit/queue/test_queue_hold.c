/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/* Holds, against a real server: the message is delayed and the queue is paused with an end, or neither; a pause of an operator stays. */
#include <stdlib.h>
#include <string.h>

#include "common/queue/admin.h"
#include "common/queue/hold.h"
#include "tests/unit/queue/moves_fixture.h"
#include "tests/unit/unit.h"

#define PAUSED "quredis:of:i:paused"

static int64_t hold(int64_t ms, const char *text)
{
	queue_hold(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0), .entry = &by_value, .change = &change }, ms, text);
	return private_redis_answer(&server).integer;
}

static int64_t left(void)
{
	return REDIS_INT(&server, "PTTL " PAUSED);
}

TEST(a_hold_delays_its_message_and_pauses_the_queue, moves_setup)
{
	moves_put(TRAY, RAW, RAW_LEN);
	assert_int_equal(hold(60000, "why"), 1);
	assert_string_equal(REDIS(&server, "GET " PAUSED).str, "why");
	assert_in_range(left(), 1, 60000);
	assert_int_equal(moves_count("quredis:of:i:delayed"), 1);
	assert_int_equal(moves_count(TRAY), 0);
}

TEST(a_message_that_is_gone_holds_nothing, moves_setup)
{
	assert_int_equal(hold(60000, "why"), 0);
	assert_int_equal(left(), -2);
}

TEST(of_two_holds_the_later_end_counts, moves_setup)
{
	moves_put(TRAY, RAW, RAW_LEN);
	REDIS(&server, "SET " PAUSED " long PX 600000");
	assert_int_equal(hold(60000, "short"), 1);
	assert_string_equal(REDIS(&server, "GET " PAUSED).str, "long");
	REDIS(&server, "DEL quredis:of:i:delayed");
	moves_put(TRAY, RAW, RAW_LEN);
	assert_int_equal(hold(6000000, "longer"), 1);
	assert_string_equal(REDIS(&server, "GET " PAUSED).str, "longer");
	assert_in_range(left(), 600001, 6000000);
}

TEST(a_pause_of_an_operator_stays, moves_setup)
{
	queue_pause(&server.r, &keys, "{}");
	assert_int_equal(private_redis_answer(&server).integer, 1);
	moves_put(TRAY, RAW, RAW_LEN);
	assert_int_equal(hold(60000, "why"), 1);
	assert_string_equal(REDIS(&server, "GET " PAUSED).str, "{}");
	assert_int_equal(left(), -1);
	queue_pause(&server.r, &keys, "{1}");
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_string_equal(REDIS(&server, "GET " PAUSED).str, "{}");
}

TEST(a_pause_takes_the_place_of_a_hold, moves_setup)
{
	REDIS(&server, "SET " PAUSED " why PX 600000");
	queue_pause(&server.r, &keys, "{}");
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_string_equal(REDIS(&server, "GET " PAUSED).str, "{}");
	assert_int_equal(left(), -1);
}

TEST(a_refused_hold_still_moves_the_message, moves_setup)
{
	moves_put(TRAY, RAW, RAW_LEN);
	assert_int_equal(hold(0, "why"), QUEUE_MOVED_WITHOUT_HOLD);	/* Redis refuses an expiry of 0 */
	assert_int_equal(moves_count("quredis:of:i:delayed"), 1);
	assert_int_equal(left(), -2);
}

TEST(the_text_says_who_holds_and_until_when, moves_setup)
{
	char *text = queue_hold_format("web1", "429 \"x\"", 60000);
	struct queue_hold h, none = {0};

	assert_true(queue_hold_parse(&h, text, strlen(text)));
	assert_string_equal(h.reason, "429 \"x\"");
	assert_string_equal(h.node, "web1");
	assert_in_range(clock_rfc3339_parse(h.until), clock_realtime_ms() + 1, clock_realtime_ms() + 60000);
	free(text);
	assert_false(queue_hold_parse(&none, "{\"user\":\"ann\"}", 14));
	assert_false(queue_hold_parse(&none, "by hand", 7));
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
