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

#include "common/queue/queue.h"
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
	assert_int_equal(queue_registered_parse(&k, NULL, "mail", json.str, json.len), 0);
	assert_string_equal(k.transit, "t");
	queue_keys_free(&k);
	assert_int_equal(queue_registered_parse(&k, NULL, "mail", "{}", 2), -1);
	assert_int_equal(queue_registered_parse(&k, NULL, "mail", "{\"ingress\":\"a\",\"transit\":\"a\",\"escape\":\"c\"}", 42), -1);
	assert_int_equal(queue_registered_parse(&k, NULL, "mail", "{\"ingress\":\"\",\"transit\":\"b\",\"escape\":\"c\"}", 41), -1);
	assert_int_equal(queue_registered_parse(&k, NULL, "mail", "[", 1), -1);
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

/* Answers that are there: not 0, not nothing. */
static void assert_answers(int n)
{
	for (int i = 0; i < n; i++) {
		struct redis_reply reply = private_redis_answer(&server);

		if (reply.type == REDIS_NIL || (reply.type == REDIS_INTEGER && reply.integer == 0) || (reply.type == REDIS_ARRAY && reply.n == 0))
			fail_msg("answer %d of %d", i + 1, n);
	}
}

static void write_all(struct redis *r, const struct queue_keys *k)
{
	queue_register(r, k, false);
	queue_secret(r, true);
	queue_node_write(r, "n", "{}");
	queue_node_clock_write(r, "n", "1");
	queue_health_write(r, "mail", "{}", 60000);
	assert_answers(7);
}

static void the_keys_of_quredis_begin_with_the_prefix_of_the_connection(void **state)
{
	char *mail = (char *)"mail";
	struct redis *r = &server.r;
	struct redis_reply all;
	struct queue_keys k;

	(void)state;
	queue_keys_init(&k, "{p}", "mail", "{p}i", "{p}t", "{p}e");
	redis_target_use_prefix(&server.target, "{p}");
	write_all(r, &k);
	all = REDIS(&server, "KEYS *");
	assert_int_equal(all.n, 7);
	for (size_t i = 0; i < all.n; i++)
		assert_memory_equal(redis_element(&all, i).str, "{p}quredis:", strlen("{p}quredis:"));

	queue_registry_page(r, 0, 10);
	queue_registry_is_there(r);
	queue_registered(r, "mail");
	queue_registered_all(r, &mail, 1);
	queue_is_registered(r, &k);
	queue_node_read(r, "n");
	queue_node_clock_read(r, "n");
	queue_health_read(r);
	queue_health_read_one(r, "mail");
	queue_health_drop(r, "mail");
	queue_node_drop(r, "n");
	queue_destroy_registration(r, &k);	/* of three keys the hash of workers was not there */
	assert_answers(11);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_answers(2);

	redis_target_use_prefix(&server.target, NULL);
	REDIS(&server, "DEL {p}quredis:secret {p}quredis:schema {p}quredis:node:n:clock");
	assert_int_equal(REDIS_INT(&server, "DBSIZE"), 0);
	queue_keys_free(&k);
}

static void a_queue_of_a_prefix_is_unregistered_there(void **state)
{
	(void)state;
	REDIS(&server, "ZADD {p}quredis:queues 7 mail");
	REDIS(&server, "ZADD quredis:queues 7 mail");
	redis_target_use_prefix(&server.target, "{p}");
	assert_int_equal(unregister("7", NULL), 1);
	redis_target_use_prefix(&server.target, NULL);
	assert_int_equal(REDIS_INT(&server, "EXISTS {p}quredis:queues"), 0);
	assert_int_equal(REDIS_INT(&server, "ZCARD quredis:queues"), 1);
}

static void without_a_prefix_all_names_are_as_they_always_were(void **state)
{
	static const char *const names[] = {
		"quredis:health", "quredis:node:n", "quredis:node:n:clock", "quredis:queue:mail", "quredis:queues", "quredis:secret", "quredis:schema",
	};

	(void)state;
	write_all(&server.r, &keys);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s %s %s %s %s %s %s", names[0], names[1], names[2], names[3], names[4], names[5], names[6]),
	    nitems(names));
	assert_int_equal(REDIS_INT(&server, "DBSIZE"), nitems(names));
}

#define T(f) cmocka_unit_test_setup(f, moves_setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_queue_of_a_prefix_is_unregistered_there),
		T(again_the_registry_is_only_filled_up),
		T(out_of_the_registry_goes_only_what_was_seen),
		T(the_keys_of_quredis_begin_with_the_prefix_of_the_connection),
		T(the_registry_is_as_the_gem_keeps_it),
		T(without_a_prefix_all_names_are_as_they_always_were),
	};

	return cmocka_run_group_tests(tests, moves_setup_all, moves_teardown_all);
}
