/* Which address the next connection goes to, after failures, MOVED errors and answers of a Sentinel. */
#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "common/base/base.h"
#include "common/redis/redis.h"
#include "common/redis/reply.h"
#include "common/redis/route.h"
#include "tests/unit/unit.h"

static struct redis_address addresses[] = { { (char *)(uintptr_t)"a", 1 }, { (char *)(uintptr_t)"b", 2 }, { (char *)(uintptr_t)"c", 3 } };
static const struct redis_target servers = { .addresses = addresses, .naddresses = 3 };
static const struct redis_target one = { .addresses = addresses, .naddresses = 1 };
static const struct redis_target local = { .unix_path = (char *)(uintptr_t)"/s" };
static const struct redis_target watched = { .addresses = addresses, .naddresses = 3, .master = (char *)(uintptr_t)"mail" };

static void assert_goes_to(const struct redis_route *route, const struct redis_target *t, const char *host, int port)
{
	int found;

	assert_string_equal(route_host(route, t, &found), host);
	assert_int_equal(found, port);
}

TEST(after_a_failure_comes_the_next_address)
{
	struct redis_route route = {0};

	route_begin(&route, &servers);
	assert_false(route.asks);
	assert_goes_to(&route, &servers, "a", 1);
	route_failed(&route, &servers, "connection refused");
	route_begin(&route, &servers);
	assert_goes_to(&route, &servers, "b", 2);
	route_begin(&route, &servers);			/* it answered: it is the first to try again */
	assert_goes_to(&route, &servers, "b", 2);
	route_failed(&route, &servers, "connection refused");
	route_failed(&route, &servers, "connection refused");
	assert_goes_to(&route, &servers, "a", 1);
	route = (struct redis_route){0};
	route_failed(&route, &one, "connection refused");
	assert_goes_to(&route, &one, "a", 1);
	route_failed(&route, &local, "connection refused");			/* has no address at all */
}

TEST(a_peer_is_shown_as_its_address)
{
	char text[REDIS_ENDPOINT_SIZE];

	assert_string_equal(redis_endpoint_format(&(struct redis_endpoint){ 0, UINT64_C(0xffff0a000007), 6379 }, text), "10.0.0.7:6379");
	assert_string_equal(redis_endpoint_format(&(struct redis_endpoint){ UINT64_C(0xfe80) << 48, 1, 7000 }, text), "[fe80::1]:7000");
}

TEST(moved_names_a_node_until_it_fails)
{
	struct redis_route route = { .at = 1 };

	route_heed(&route, &servers, "MOVED 866 10.0.0.7:7001");
	route_begin(&route, &servers);
	assert_goes_to(&route, &servers, "10.0.0.7", 7001);
	route_heed(&route, &servers, "MOVED 866 :7002");	/* the same host */
	assert_goes_to(&route, &servers, "10.0.0.7", 7002);
	route_heed(&route, &servers, "MOVED 866 2001:db8::7:7003");
	assert_goes_to(&route, &servers, "2001:db8::7", 7003);
	route_failed(&route, &servers, "connection refused");
	assert_goes_to(&route, &servers, "b", 2);
}

/* The nodes of a Cluster may name each other for a moment: an opening follows a few of them. */
TEST(an_opening_follows_some_nodes)
{
	struct redis_route route = { .at = 1 };
	int hops = 0;

	route_begin(&route, &servers);
	while (hops < 100 && route_follow(&route, &servers, hops % 2 == 0 ? "MOVED 866 h:7001" : "MOVED 866 h:7002"))
		hops++;
	assert_int_equal(hops, 4);
	assert_goes_to(&route, &servers, "h", 7002);
	route_begin(&route, &servers);
	assert_false(route_follow(&route, &servers, "ASK 866 h:7001"));
	assert_true(route_follow(&route, &servers, "MOVED 866 h:7003"));
	assert_goes_to(&route, &servers, "h", 7003);
	assert_false(route_follow(&route, &watched, "MOVED 866 h:7001"));
}

TEST(other_errors_move_nothing)
{
	static const char *const errors[] = { "MOVED", "MOVED ", "MOVED 1", "MOVED 1 ", "MOVED 1 host", "MOVED 1 host:", "MOVED 1 host:x",
		"MOVED 1 host:0", "MOVED 1 host:65536", "MOVEDX 1 host:1", "ASK 1 host:1", "ERR MOVED 1 host:1", "" };
	struct redis_route route = {0};
	char long_host[400];

	for (size_t i = 0; i < nitems(errors); i++) {
		route_heed(&route, &servers, errors[i]);
		assert_int_equal(route.port, 0);
	}
	snprintf(long_host, sizeof(long_host), "MOVED 1 %0300d:1", 7);
	route_heed(&route, &servers, long_host);
	route_heed(&route, &local, "MOVED 1 host:1");
	route_heed(&route, &watched, "MOVED 1 host:1");
	assert_int_equal(route.port, 0);
}

/* route_take_master() of a reply as it comes from the network. */
static const char *take(struct redis_route *route, const char *bytes)
{
	redisReader *reader = redisReaderCreate();
	struct redis_reply view;
	const char *why;
	void *reply;

	assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
	view = redis_reply_view(reply);
	why = route_take_master(route, &view);
	freeReplyObject(reply);
	redisReaderFree(reader);
	return why;
}

TEST(a_sentinel_is_asked_for_each_connection)
{
	struct redis_route route = {0};

	route_begin(&route, &watched);
	assert_true(route.asks);
	assert_goes_to(&route, &watched, "a", 1);
	assert_null(take(&route, "*2\r\n$8\r\n10.0.0.7\r\n$4\r\n6380\r\n"));
	assert_false(route.asks);
	assert_goes_to(&route, &watched, "10.0.0.7", 6380);
	route_begin(&route, &watched);			/* the connection was lost; the Sentinel that answered is asked first */
	assert_true(route.asks);
	assert_goes_to(&route, &watched, "a", 1);
	assert_null(take(&route, "*2\r\n$8\r\n10.0.0.7\r\n$4\r\n6380\r\n"));
	route_failed(&route, &watched, "connection refused");			/* it named a server that is down: ask another one */
	route_begin(&route, &watched);
	assert_goes_to(&route, &watched, "b", 2);
	route_failed(&route, &watched, "connection refused");
	route_begin(&route, &watched);
	assert_goes_to(&route, &watched, "c", 3);
}

TEST(a_senseless_answer_names_no_master)
{
	static const char *const answers[] = { "*-1\r\n", "$-1\r\n", ":1\r\n", "*0\r\n", "*1\r\n$1\r\na\r\n", "*2\r\n$1\r\na\r\n:1\r\n",
		"*2\r\n$0\r\n\r\n$1\r\n1\r\n", "*2\r\n$1\r\na\r\n$1\r\n0\r\n", "*2\r\n$1\r\na\r\n$5\r\n65536\r\n", "*2\r\n$1\r\na\r\n$2\r\n1x\r\n" };
	struct redis_route route = {0};

	route_begin(&route, &watched);
	for (size_t i = 0; i < nitems(answers); i++) {
		assert_non_null(take(&route, answers[i]));
		assert_true(route.asks);
		assert_int_equal(route.port, 0);
	}
	assert_string_equal(take(&route, "*-1\r\n"), "this Sentinel does not know redis.master");
}

UNIT_MAIN(NULL, NULL)
