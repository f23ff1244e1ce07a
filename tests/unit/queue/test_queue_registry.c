/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/*
 * The registry of queues, as the gem keeps it, and the registrations of a queue.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/queue/queue.h"
#include "tests/unit/queue/moves_fixture.h"
#include "tests/unit/unit.h"

TEST(the_registry_is_as_the_gem_keeps_it, moves_setup)
{
	struct redis_reply json;
	struct queue_keys k;

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

/* The table of types is the list of all keys: one that destroy forgot would meet the next queue of that name. */
TEST(destroy_deletes_each_key_of_the_table, moves_setup)
{
	struct queue_types all = {0};

	queue_types_add_queue(&all, &keys, 0);
	for (size_t i = 0; i < all.n; i++)
		REDIS(&server, "SET %s x", all.of[i].key);
	assert_int_equal(REDIS(&server, "EXISTS quredis:of:i:schedules").integer, 1);
	queue_destroy_lists(&server.r, &keys);
	private_redis_answer(&server);
	private_redis_answer(&server);
	for (size_t i = 0; i < all.n; i++)
		assert_int_equal(REDIS(&server, "EXISTS %s", all.of[i].key).integer,
		    strcmp(all.of[i].key, keys.workers) == 0 || strcmp(all.of[i].key, keys.registered) == 0);
	queue_destroy_registration(&server.r, &keys);
	for (int i = 0; i < 3; i++)
		private_redis_answer(&server);
	assert_int_equal(REDIS(&server, "DBSIZE").integer, 0);
	queue_types_free(&all);
}

TEST(again_the_registry_is_only_filled_up, moves_setup)
{
	struct redis_reply all;
	char *names[] = { (char *)"none", (char *)"mail", (char *)"odd" };

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

TEST(out_of_the_registry_goes_only_what_was_seen, moves_setup)
{
	const char *shown[] = { "mail", "news" };

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

TEST(the_keys_of_quredis_begin_with_the_prefix_of_the_connection, moves_setup)
{
	char *mail = (char *)"mail";
	struct redis *r = &server.r;
	struct redis_reply all;
	struct queue_keys k;

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

TEST(a_queue_of_a_prefix_is_unregistered_there, moves_setup)
{
	REDIS(&server, "ZADD {p}quredis:queues 7 mail");
	REDIS(&server, "ZADD quredis:queues 7 mail");
	redis_target_use_prefix(&server.target, "{p}");
	assert_int_equal(unregister("7", NULL), 1);
	redis_target_use_prefix(&server.target, NULL);
	assert_int_equal(REDIS_INT(&server, "EXISTS {p}quredis:queues"), 0);
	assert_int_equal(REDIS_INT(&server, "ZCARD quredis:queues"), 1);
}

TEST(without_a_prefix_all_names_are_as_they_always_were, moves_setup)
{
	static const char *const names[] = {
		"quredis:health", "quredis:node:n", "quredis:node:n:clock", "quredis:queue:mail", "quredis:queues", "quredis:secret", "quredis:schema",
	};

	write_all(&server.r, &keys);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s %s %s %s %s %s %s", names[0], names[1], names[2], names[3], names[4], names[5], names[6]),
	    nitems(names));
	assert_int_equal(REDIS_INT(&server, "DBSIZE"), nitems(names));
}

/* ---- the registrations of a queue ---- */

/* Two processes of one slot register names in turn; the younger process has one name that is marked dead. */
TEST(a_younger_name_of_the_same_process_supersedes, moves_setup)
{
	static const struct {
		const char *field, *json;
		bool superseded;
	} names[] = {
		{ "n.00000000000000b0.4.1", "{\"pid\":7}", true },
		{ "n.00000000000000b0.4.2", "{\"pid\":8}", true },
		{ "n.00000000000000b0.4.3", "{\"pid\":7,\"died_at\":5}", false },
		{ "n.00000000000000b0.4.9", "{\"pid\":8}", true },
		{ "n.00000000000000b0.4.10", "{\"pid\":8}", false },
		{ "n.00000000000000b0.4.4", "{\"pid\":8,\"died_at\":5}", false },
		{ "n.00000000000000b0.5.1", "{\"pid\":7}", false },
		{ "n.00000000000000b1.4.1", "{\"pid\":7}", false },
		{ "m.00000000000000b0.4.1", "{\"pid\":7}", false },
		{ "n.00000000000000b0.6.1", "{}", false },
		{ "n.00000000000000b0.6.2", "{}", false },
	};
	struct redis_reply all;
	struct queue_worker *w;

	for (size_t i = 0; i < nitems(names); i++)
		REDIS(&server, "HSET t:workers %s %s", names[i].field, names[i].json);
	all = REDIS(&server, "HGETALL t:workers");
	assert_int_equal(queue_workers_parse(&all, &w), nitems(names));
	for (size_t i = 0; i < nitems(names); i++)
		for (size_t j = 0; j < nitems(names); j++)
			if (strcmp(w[i].incarnation, names[j].field) == 0)
				assert_int_equal(w[i].superseded, names[j].superseded);
	queue_workers_free(w, nitems(names));
}

static int64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The least time of some runs: a run that was disturbed counts for nothing. */
static int64_t time_of_registrations(int n)
{
	int64_t least = INT64_MAX;
	struct redis_reply all;

	REDIS(&server, "DEL t:workers");
	REDIS(&server, "EVAL %s 0 %d", "for i = 1, ARGV[1] do redis.call('HSET', 't:workers',"
	    "'n.00000000000000b0.' .. math.fmod(i, 4) .. '.' .. i, '{\"lock\":\"l\",\"node\":\"n\",\"pid\":7}') end", n);
	all = REDIS(&server, "HGETALL t:workers");
	for (int run = 0; run < 5; run++) {
		int64_t begun = cpu_ns(), took;
		struct queue_worker *w;

		assert_int_equal(queue_workers_parse(&all, &w), n);
		queue_workers_free(w, (size_t)n);
		took = cpu_ns() - begun;
		least = took < least ? took : least;
	}
	return least;
}

/* A worker that loses its connection again and again leaves a registration each time, and every look reads all of them. */
TEST(ten_times_the_registrations_take_about_ten_times_as_long, moves_setup)
{
	int64_t few, many;

	few = time_of_registrations(1000);
	many = time_of_registrations(10000);
	print_message("1,000 registrations: %lld us, 10,000: %lld us\n", (long long)few / 1000, (long long)many / 1000);
	assert_in_range(many, 0, 50 * few);      /* a square of them would take a hundred times as long */
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
