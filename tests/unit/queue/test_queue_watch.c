/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/*
 * Leases and registrations of workers: who owns a tray, and who takes it over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/queue/moves_fixture.h"
#include "tests/unit/unit.h"

/* ---- incarnations ---- */

static void renew(const struct queue_owner *o, const struct queue_owner *old)
{
	char *json = queue_registration("lock", "n", 7, 9, 30000, false);

	queue_renew(&server.r, o, old, json);
	free(json);
}

static int64_t died_at(const char *incarnation)
{
	struct redis_reply all = REDIS(&server, "HGETALL t:workers");
	struct queue_worker *w;
	size_t n = queue_workers_parse(&all, &w);
	int64_t at = -1;

	for (size_t i = 0; i < n; i++)
		if (strcmp(w[i].incarnation, incarnation) == 0) {
			at = w[i].died_at_ms;
			assert_string_equal(w[i].lock, "lock");
			assert_int_equal(w[i].pid, 7);
			assert_int_equal(w[i].since_ms, 9);
			assert_int_equal(w[i].lease_ms, 30000);
		}
	queue_workers_free(w, n);
	return at;
}

TEST(a_new_incarnation_takes_the_trays_over, moves_setup)
{
	renew(&owner, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_in_range(REDIS_INT(&server, "PTTL " LEASE), 1, 30000);
	assert_int_equal(died_at(owner.incarnation), 0);
	REDIS(&server, "RPUSH %s a", owner.trays[0]);
	REDIS(&server, "RPUSH %s c", owner.trays[2]);
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 1);	/* nobody has taken anything */
	moves_assert_holds("renew", next.trays[0], "a", 1);
	moves_assert_holds("renew", next.trays[2], "c", 1);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s %s %s", owner.trays[0], owner.trays[2], owner.lease), 0);
	assert_in_range(REDIS_INT(&server, "PTTL %s", next.lease), 1, 30000);
	assert_true(died_at(owner.incarnation) > 1600000000000);
	assert_int_equal(died_at(next.incarnation), 0);
	/* told again, because its answer was lost: nothing changes */
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	moves_assert_holds("renew", next.trays[0], "a", 1);
}

/* Its answer was lost. Until it is told again, a command of the connection before last may still arrive. */
TEST(a_late_arrival_does_not_hide_what_was_taken_over, moves_setup)
{
	renew(&owner, NULL);
	private_redis_answer(&server);
	REDIS(&server, "RPUSH %s a", owner.trays[0]);
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	REDIS(&server, "RPUSH %s late", owner.trays[0]);
	REDIS(&server, "RPUSH %s late", owner.trays[1]);
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	moves_assert_holds("renew", next.trays[0], "a", 1);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s", next.trays[1]), 0);	/* the worker may have begun to fill it */
	moves_assert_holds("renew", owner.trays[0], "late", 4);	/* for the watch of the dead */
	moves_assert_holds("renew", owner.trays[1], "late", 4);
}

/* A sweeper has been there: its trays may hold anything by now. */
TEST(trays_of_a_name_that_was_marked_dead_are_taken_over_without_a_promise, moves_setup)
{
	renew(&owner, NULL);
	private_redis_answer(&server);
	REDIS(&server, "RPUSH %s a", owner.trays[1]);
	queue_mark_dead(&server.r, &keys, owner.incarnation);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	moves_assert_holds("renew", next.trays[1], "a", 1);
}

/* While nobody renewed it, another host may have begun to rescue what it holds. */
TEST(a_lease_that_ran_out_is_never_given_again, moves_setup)
{
	renew(&owner, NULL);
	private_redis_answer(&server);
	REDIS(&server, "RPUSH %s a", owner.trays[1]);
	renew(&next, &owner);
	private_redis_answer(&server);
	REDIS(&server, "DEL %s", next.lease);
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, -1);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s", next.lease), 0);
	moves_assert_holds("renew", next.trays[1], "a", 1);		/* for the incarnation after it */
}

/* They were two when their owner died, and are that still. */
TEST(nothing_is_taken_from_a_rescue, moves_setup)
{
	renew(&owner, NULL);
	private_redis_answer(&server);
	REDIS(&server, "RPUSH %s a", owner.trays[0]);
	REDIS(&server, "RPUSH %s b", owner.trays[1]);
	queue_fence(&server.r, &keys, owner.incarnation, TRAY, RESCUE);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	renew(&next, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	moves_assert_holds("renew", owner.trays[1], "b", 1);
	assert_true(died_at(owner.incarnation) > 1600000000000);
	queue_rescue_size(&server.r, &keys, owner.incarnation);
	assert_string_equal(private_redis_answer(&server).str, "2");
}

TEST(renew_at_maxmemory_and_lease, moves_setup)
{
	REDIS(&server, "CONFIG SET maxmemory 1");
	renew(&owner, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	queue_lease_renew(&server.r, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	REDIS(&server, "DEL " LEASE);
	queue_lease_renew(&server.r, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 0);
}

/* The owner counts the same, and places in the tray hold only while both agree (entry.lua). */
TEST(a_lease_counts_what_was_too_large, moves_setup)
{
	renew(&owner, NULL);
	private_redis_answer(&server);
	moves_put(TRAY, moves_large('a', 'b', 'c'), MOVES_LARGE);
	moves_put(TRAY, "a", 1);
	moves_put(TRAY, moves_large('a', 'b', 'd'), MOVES_LARGE);
	for (int i = 0; i < 2; i++)
		assert_int_equal(moves_escape_too_large(MOVES_LARGE - 1), MOVES_LARGE);
	assert_int_equal(moves_escape_too_large(MOVES_LARGE - 1), 0);
	assert_string_equal(REDIS(&server, "HGET " LEASE " " TRAY).str, "2");
	REDIS(&server, "DEL " LEASE);
	moves_put(TRAY, moves_large('a', 'b', 'e'), MOVES_LARGE);
	assert_int_equal(moves_escape_too_large(MOVES_LARGE - 1), MOVES_LARGE);
	assert_int_equal(REDIS_INT(&server, "EXISTS " LEASE), 0);	/* nor does it come back */
}

static int64_t annotated(const struct queue_owner *o, const char *key, const char *value)
{
	queue_annotate(&server.r, o, key, value);
	return private_redis_answer(&server).integer;
}

/* Only of an owner that is registered and not marked dead; at maxmemory, too. Nothing else in its registration changes. */
TEST(evidence_is_written_into_a_registration, moves_setup)
{
	struct queue_worker *w;
	struct redis_reply all;

	assert_int_equal(annotated(&owner, QUEUE_STOPPING, "1"), 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS t:workers " LEASE), 0);
	REDIS(&server, "CONFIG SET maxmemory 1");
	renew(&owner, NULL);
	private_redis_answer(&server);
	assert_int_equal(annotated(&owner, QUEUE_STOPPING, "1"), 1);
	assert_int_equal(annotated(&owner, QUEUE_TRIAL, "x"), 1);
	assert_int_equal(annotated(&owner, QUEUE_TRIAL, "y"), 1);
	assert_int_equal(died_at(owner.incarnation), 0);
	all = REDIS(&server, "HGETALL t:workers");
	assert_int_equal(queue_workers_parse(&all, &w), 1);
	assert_true(w[0].stopping);
	assert_string_equal(w[0].trial, "y");
	queue_workers_free(w, 1);
	/* the name that replaces it says nothing yet; and the dead one stays as it is */
	renew(&next, &owner);
	private_redis_answer(&server);
	assert_int_equal(annotated(&owner, QUEUE_TRIAL, "z"), 0);
	all = REDIS(&server, "HGETALL t:workers");
	assert_int_equal(queue_workers_parse(&all, &w), 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(w[i].stopping, w[i].died_at_ms != 0);
		assert_string_equal(w[i].trial, w[i].died_at_ms != 0 ? "y" : "");
	}
	queue_workers_free(w, 2);
}

TEST(who_holds_something_does_not_leave, moves_setup)
{
	renew(&owner, NULL);
	private_redis_answer(&server);
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		REDIS(&server, "RPUSH %s a", owner.trays[i]);
		queue_deregister(&server.r, &owner);
		assert_int_equal(private_redis_answer(&server).integer, 0);
		assert_int_equal(died_at(owner.incarnation), 0);
		REDIS(&server, "DEL %s", owner.trays[i]);
	}
	REDIS(&server, "RPUSH " RESCUE " a");		/* some of it is on its way back */
	queue_deregister(&server.r, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	REDIS(&server, "DEL " RESCUE);
	queue_deregister(&server.r, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS_INT(&server, "DBSIZE"), 0);
}

static void mark(int64_t want)
{
	queue_mark_dead(&server.r, &keys, owner.incarnation);
	assert_int_equal(private_redis_answer(&server).integer, want);
}

static void forget(int64_t want)
{
	queue_forget(&server.r, &keys, owner.incarnation);
	assert_int_equal(private_redis_answer(&server).integer, want);
}

TEST(the_dead_are_marked_once_and_forgotten_late, moves_setup)
{
	char json[128];

	mark(0);
	assert_int_equal(REDIS_INT(&server, "EXISTS t:workers"), 0);
	renew(&owner, NULL);
	private_redis_answer(&server);
	forget(0);			/* not dead */
	mark(1);
	assert_int_equal(REDIS_INT(&server, "EXISTS " LEASE), 0);
	mark(0);
	forget(0);			/* not for an hour yet */
	snprintf(json, sizeof(json), "{\"lock\":\"lock\",\"died_at\":%lld}", (long long)(clock_realtime_ms() - 3601000));
	REDIS(&server, "HSET t:workers %s %s", owner.incarnation, json);
	REDIS(&server, "HSET t:workers n.00000000000000b0.4.1:rescue 3");
	REDIS(&server, "RPUSH " RESCUE " a");
	forget(0);			/* something is left */
	REDIS(&server, "DEL " RESCUE);
	REDIS(&server, "RPUSH %s a", owner.trays[2]);
	forget(0);
	REDIS(&server, "DEL %s", owner.trays[2]);
	forget(1);
	assert_int_equal(REDIS_INT(&server, "DBSIZE"), 0);
}

TEST(registrations_nobody_can_read, moves_setup)
{
	struct redis_reply all;
	struct queue_worker *w;

	REDIS(&server, "HSET t:workers %s garbage none:rescue 3 x y", owner.incarnation);
	all = REDIS(&server, "HGETALL t:workers");
	assert_int_equal(queue_workers_parse(&all, &w), 1);
	assert_string_equal(w[0].incarnation, owner.incarnation);
	assert_string_equal(w[0].lock, "");
	queue_workers_free(w, 1);
	mark(0);
	REDIS(&server, "RPUSH " TRAY " a");
	forget(0);
	REDIS(&server, "DEL " TRAY);
	forget(1);
}

/* died_at is a number or none; whatever else it is, its owner can be marked, and then forgotten. */
TEST(times_of_death_nobody_can_read, moves_setup)
{
	static const char *const wrong[] = { "{\"died_at\":\"yesterday\"}", "{\"died_at\":[1]}", "{\"died_at\":{}}", "{\"since\":1e999}", "[1,2]" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct redis_reply all;
		struct queue_worker *w;

		REDIS(&server, "HSET t:workers %s %s", owner.incarnation, wrong[i]);
		forget(0);
		mark(1);
		all = REDIS(&server, "HGETALL t:workers");
		assert_int_equal(queue_workers_parse(&all, &w), 1);
		assert_true(w[0].died_at_ms > 1600000000000);
		queue_workers_free(w, 1);
		mark(0);
	}
	REDIS(&server, "HSET t:workers %s %s", owner.incarnation, "{\"died_at\":-5,\"lease\":1e300}");
	for (int i = 0; i < 2; i++) {
		struct redis_reply all = REDIS(&server, "HGETALL t:workers");
		struct queue_worker *w;

		assert_int_equal(queue_workers_parse(&all, &w), 1);
		assert_int_equal(w[0].died_at_ms, i == 0 ? 0 : INT64_C(253402300799999));
		assert_int_equal(w[0].lease_ms, i == 0 ? INT64_C(253402300799999) : 0);
		queue_workers_free(w, 1);
		REDIS(&server, "HSET t:workers %s %s", owner.incarnation, "{\"died_at\":1e300,\"lease\":-1}");
	}
}

TEST(whose_rescue_is_noted, moves_setup)
{
	struct redis_reply all;
	char **names;

	REDIS(&server, "HSET t:workers %s {} none:rescue 3 x:rescue 1 rescue 1 :rescue 1 n.00000000000000b0.4.7:rescue 2",
	    owner.incarnation);
	all = REDIS(&server, "HGETALL t:workers");
	assert_int_equal(queue_rescues_parse(&all, &names), 2);
	assert_string_equal(names[0], "");
	assert_string_equal(names[1], "n.00000000000000b0.4.7");
	queue_rescues_free(names, 2);
	all = REDIS(&server, "GET nothing");
	assert_int_equal(queue_rescues_parse(&all, &names), 0);
	queue_rescues_free(names, 0);
}

/* ---- incarnation names ---- */

TEST(incarnations_parse_again, moves_setup)
{
	static const char *const wrong[] = { "", "n", "n.1.2.3", "n.00000000000000b0.1", ".00000000000000b0.1.2",
		"n.00000000000000B0.1.2", "n.00000000000000b0.x.2", "n.00000000000000b0.1.", "n.00000000000000b0..2",
		"n.00000000000000b0.1.2:rescue" };
	struct incarnation i = { .node = "web.example.org", .boot = UINT64_C(0xfedcba9876543210), .slot = 17,
		.generation = 12345678901 }, again;
	char text[INCARNATION_SIZE];

	incarnation_format(&i, text);
	assert_string_equal(text, "web.example.org.fedcba9876543210.17.12345678901");
	assert_int_equal(incarnation_parse(&again, text), 0);
	assert_string_equal(again.node, i.node);
	assert_true(again.boot == i.boot && again.slot == i.slot && again.generation == i.generation);
	for (size_t n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++)
		assert_int_equal(incarnation_parse(&again, wrong[n]), -1);
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
