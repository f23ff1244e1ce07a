/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/*
 * The registry of queues, as the gem keeps it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/queue/watch.h"
#include "tests/unit/queue/moves_fixture.h"

static void the_registry_is_as_the_gem_keeps_it(void **state)
{
	struct redis_reply json;
	struct queue_keys k;

	(void)state;
	queue_register(&server.r, &keys, false);
	private_redis_answer(&server);
	private_redis_answer(&server);
	assert_string_equal(REDIS(&server, "GET quredis:queue:mail").str,
	    "{\"name\":\"mail\",\"ingress\":\"i\",\"transit\":\"t\",\"escape\":\"e\"}");
	json = REDIS(&server, "ZRANGE quredis:queues 0 -1");
	assert_string_equal(redis_element(&json, 0).str, "mail");
	queue_registered(&server.r, "mail");
	json = private_redis_answer(&server);
	assert_int_equal(queue_registered_parse(&k, "mail", json.str, json.len), 0);
	assert_string_equal(k.transit, "t");
	queue_keys_free(&k);
	assert_int_equal(queue_registered_parse(&k, "mail", "{}", 2), -1);
	assert_int_equal(queue_registered_parse(&k, "mail", "{\"ingress\":\"a\",\"transit\":\"a\",\"escape\":\"c\"}", 42), -1);
	assert_int_equal(queue_registered_parse(&k, "mail", "{\"ingress\":\"\",\"transit\":\"b\",\"escape\":\"c\"}", 41), -1);
	assert_int_equal(queue_registered_parse(&k, "mail", "[", 1), -1);
}

static void again_the_registry_is_only_filled_up(void **state)
{
	struct redis_reply all;
	char *names[] = { (char *)"none", (char *)"mail", (char *)"odd" };

	(void)state;
	REDIS(&server, "SET quredis:queue:mail theirs");
	REDIS(&server, "ZADD quredis:queues 7 mail");
	REDIS(&server, "LPUSH quredis:queue:odd x");
	queue_register(&server.r, &keys, true);
	private_redis_answer(&server);
	private_redis_answer(&server);
	assert_string_equal(REDIS(&server, "GET quredis:queue:mail").str, "theirs");
	assert_string_equal(REDIS(&server, "ZSCORE quredis:queues mail").str, "7");
	REDIS(&server, "DEL quredis:queue:mail quredis:queues");
	queue_register(&server.r, &keys, true);
	private_redis_answer(&server);
	private_redis_answer(&server);
	assert_non_null(strstr(REDIS(&server, "GET quredis:queue:mail").str, "\"transit\":\"t\""));

	REDIS(&server, "ZADD quredis:queues 0 q0 1 q1 2 q2 3 q3 4 q4");
	queue_registry_page(&server.r, 1, 3);
	all = private_redis_answer(&server);
	assert_int_equal(all.n, 6);
	assert_string_equal(redis_element(&all, 0).str, "q1");
	assert_string_equal(redis_element(&all, 1).str, "1");
	queue_registered_all(&server.r, names, 3);
	all = private_redis_answer(&server);
	assert_int_equal(all.n, 3);
	assert_int_equal(redis_element(&all, 0).type, REDIS_NIL);
	assert_int_equal(redis_element(&all, 1).type, REDIS_STRING);
	assert_int_equal(redis_element(&all, 2).type, REDIS_NIL);
}

static int64_t unregister(const char *score, const char *entry)
{
	queue_unregister(&server.r, "mail", score, entry);
	return private_redis_answer(&server).integer;
}

static void out_of_the_registry_goes_only_what_was_seen(void **state)
{
	const char *shown[] = { "mail", "news" };

	(void)state;
	REDIS(&server, "SET quredis:queue:mail theirs");
	REDIS(&server, "ZADD quredis:queues 7 mail 7 other");
	assert_int_equal(unregister("8", "theirs"), 0);
	assert_int_equal(unregister("7", "ours"), 0);
	assert_int_equal(unregister("7", NULL), 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS quredis:queue:mail"), 1);
	assert_int_equal(unregister("7", "theirs"), 1);
	assert_int_equal(REDIS_INT(&server, "EXISTS quredis:queue:mail"), 0);
	assert_int_equal(REDIS_INT(&server, "ZCARD quredis:queues"), 1);
	assert_int_equal(unregister("7", NULL), 0);
	REDIS(&server, "ZADD quredis:queues 1.5 mail");
	assert_int_equal(unregister("1.5", NULL), 1);

	REDIS(&server, "ZADD quredis:queues 7 mail");
	queue_registry_show(&server.r, shown, 2);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_true(strtod(REDIS(&server, "ZSCORE quredis:queues mail").str, NULL) > 1e9);
}

#define T(f) cmocka_unit_test_setup(f, moves_setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(again_the_registry_is_only_filled_up),
		T(out_of_the_registry_goes_only_what_was_seen),
		T(the_registry_is_as_the_gem_keeps_it),
	};

	return cmocka_run_group_tests(tests, moves_setup_all, moves_teardown_all);
}
