/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c tests/unit/queue/seats_fixture.c */

/* The scripts that take and free seats, against a real Redis. Its clock cannot be set, so the tests set the times in the hash. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/queue/seats_fixture.h"
#include "tests/unit/unit.h"

static int64_t waking(void)
{
	return REDIS_INT(&server, "LLEN %s", keys.seats_free);
}

TEST(no_more_than_the_limit_are_given, seats_setup)
{
	struct queue_seats_answer a = seats_ask(&owner, 0, 2);

	assert_int_equal(a.has, 2);
	assert_int_equal(a.max, SEATS_LIMIT);
	assert_string_equal(seats_field(owner.incarnation), "2 mail");
	assert_int_equal(seats_ask(&other, 0, 2).has, 1);
	a = seats_ask(&third, 0, 1);
	assert_int_equal(a.has, 0);
	assert_int_equal(a.taken, SEATS_LIMIT);
	assert_string_equal(seats_field(SEATS_THIRD), "");
}

/* As after a reply that was lost. */
TEST(a_request_that_is_executed_again_changes_nothing, seats_setup)
{
	assert_int_equal(seats_ask(&owner, 0, 2).has, 2);
	assert_int_equal(seats_ask(&owner, 0, 2).has, 2);
	assert_int_equal(seats_ask(&owner, 0, 2).taken, 2);
	assert_int_equal(seats_ask(&owner, 0, 0).has, 0);
	assert_int_equal(seats_ask(&owner, 0, 0).has, 0);
	assert_string_equal(seats_field(owner.incarnation), "");
}

TEST(what_a_worker_holds_counts_even_above_the_limit, seats_setup)
{
	seats_ask(&owner, 0, 3);
	limit.max = 1;
	limit.loaded_ms = 2000;
	assert_int_equal(seats_ask(&owner, 2, 3).has, 2);
	assert_int_equal(seats_ask(&other, 0, 1).has, 0);
	assert_int_equal(seats_ask(&owner, 1, 2).has, 1);
	assert_int_equal(seats_ask(&owner, 0, 0).has, 0);
	assert_string_equal(seats_field(owner.incarnation), "");
	assert_int_equal(seats_ask(&other, 0, 2).has, 1);
}

TEST(the_limit_that_was_loaded_last_counts, seats_setup)
{
	seats_ask(&owner, 0, 1);
	limit = (struct queue_seats_limit){ .max = 5, .loaded_ms = 500, .node = "old" };
	assert_int_equal(seats_ask(&other, 0, 9).has, SEATS_LIMIT - 1);
	assert_string_equal(seats_field("limit"), "1000 3 web1");
	limit.loaded_ms = 1001;
	assert_int_equal(seats_ask(&other, 0, 9).has, 4);
	assert_string_equal(seats_field("limit"), "1001 5 old");
	REDIS(&server, "HSET %s limit %s", keys.seats, "99999999999999999 9 future");
	assert_int_equal(seats_ask(&other, 0, 9).has, 4);
}

/* An answer that looks at no other name has no limit. */
TEST(hosts_with_the_same_limit_all_stay_cheaply, seats_setup)
{
	limit.loaded_ms = 2000;
	REDIS(&server, "HSET %s server %s", keys.seats, "one. 1000");
	seats_ask(&owner, 0, 1);
	limit = (struct queue_seats_limit){ .max = SEATS_LIMIT, .loaded_ms = 1000, .node = "web2" };
	assert_int_equal(seats_ask(&other, 0, 1).max, SEATS_LIMIT);
	assert_int_equal(seats_ask(&other, 0, 1).max, 0);
	limit.max = SEATS_LIMIT + 1;
	assert_int_equal(seats_ask(&other, 0, 1).max, SEATS_LIMIT);
	limit = (struct queue_seats_limit){ .max = SEATS_LIMIT, .loaded_ms = 3000, .node = "web2" };
	assert_int_equal(seats_ask(&other, 0, 1).max, SEATS_LIMIT);
	assert_string_equal(seats_field("limit"), "3000 3 web2");
	assert_int_equal(seats_ask(&owner, 0, 1).max, 0);
}

TEST(a_refused_worker_makes_others_give_back, seats_setup)
{
	seats_ask(&owner, 0, 3);
	assert_int_equal(seats_ask(&other, 0, 1).has, 0);
	assert_int_equal(seats_ask(&owner, 2, 3).has, 2);	/* one message has ended */
	assert_int_equal(waking(), 1);
	assert_int_equal(seats_ask(&other, 0, 1).has, 1);
	/* nobody else waits: its own mark does not make it give back */
	assert_int_equal(seats_ask(&other, 0, 1).has, 1);
}

TEST(a_worker_that_gives_all_back_waits_for_the_next, seats_setup)
{
	limit.max = 1;
	seats_ask(&owner, 0, 1);
	assert_int_equal(seats_ask(&other, 0, 1).has, 0);
	assert_int_equal(seats_ask(&owner, 0, 1).has, 0);
	assert_int_equal(waking(), 1);
	assert_int_equal(seats_ask(&other, 0, 1).has, 1);
	assert_int_equal(seats_ask(&other, 0, 1).has, 0);	/* the first one waits now */
	assert_int_equal(seats_ask(&owner, 0, 1).has, 1);
}

/* The mark names only the worker that was refused last. */
TEST(the_worker_that_was_refused_last_wakes_those_before_it, seats_setup)
{
	limit.max = 2;
	seats_ask(&owner, 0, 2);
	assert_int_equal(seats_ask(&third, 0, 1).has, 0);
	assert_int_equal(seats_ask(&other, 0, 1).has, 0);
	seats_ask(&owner, 0, 0);
	assert_int_equal(seats_ask(&other, 0, 2).has, 2);
	REDIS(&server, "DEL %s", keys.seats_free);
	assert_int_equal(seats_ask(&other, 1, 1).has, 1);
	assert_int_equal(waking(), 1);
	assert_int_equal(seats_ask(&third, 0, 1).has, 1);
}

/* The worker that left it has ended, or went on long ago. */
TEST(an_old_mark_makes_nobody_give_back, seats_setup)
{
	char mark[200];

	seats_ask(&owner, 0, 3);
	seats_ask(&other, 0, 1);
	snprintf(mark, sizeof(mark), "%" PRId64 " %s", (int64_t)strtoll(seats_field("refused"), NULL, 10) - 9000, SEATS_OTHER);
	REDIS(&server, "HSET %s refused %s", keys.seats, mark);
	assert_int_equal(seats_ask(&owner, 0, 3).has, 3);
	assert_int_equal(seats_ask(&owner, 0, 2).has, 2);
	assert_string_equal(seats_field("refused"), "");
	assert_int_equal(waking(), 0);
}

TEST(what_tells_of_free_seats_goes_with_them, seats_setup)
{
	REDIS(&server, "RPUSH %s x y", keys.seats_free);
	seats_ask(&owner, 0, 3);
	seats_ask(&other, 0, 1);
	assert_int_equal(waking(), 0);
}

TEST(no_more_are_given_than_messages_wait, seats_setup)
{
	struct queue_seats_wish wish = { .first = 1, .wanted = 3, .from_ingress = true, .server = &one, .up_ms = SEATS_LONG_UP, .limit = &limit };
	struct queue_seats_answer a = seats_wish(&owner, &wish);

	assert_int_equal(a.has, 0);
	assert_int_equal(a.waiting, 0);
	assert_string_equal(seats_field("refused"), "");
	REDIS(&server, "LPUSH %s a b", keys.ingress);
	a = seats_wish(&owner, &wish);
	assert_int_equal(a.has, 2);
	assert_int_equal(a.waiting, 2);
}

/* A late request of an old connection, or of a worker that a sweeper took for dead. */
TEST(a_name_without_a_lease_gets_nothing, seats_setup)
{
	REDIS(&server, "DEL %s", owner.lease);
	assert_int_equal(seats_ask(&owner, 1, 2).has, QUEUE_SEATS_NO_LEASE);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s", keys.seats), 0);
}

TEST(a_new_name_takes_the_seats_of_the_earlier_ones_of_its_process, seats_setup)
{
	REDIS(&server, "SET %s 1", next.lease);
	seats_ask(&owner, 0, 2);
	REDIS(&server, "HSET %s n.00000000000000b0.4.0 %s", keys.seats, "1 mail");	/* another process in that place of the board */
	assert_int_equal(seats_ask(&next, 2, 2).taken, 3);
	assert_string_equal(seats_field(owner.incarnation), "");
	assert_string_equal(seats_field("n.00000000000000b0.4.0"), "1 mail");
}

/* ---- a server that may have gone back in time ---- */

static struct queue_seats_answer ask_of(const struct queue_owner *o, struct redis_identity *is, bool known, int64_t up_ms, int64_t held,
    int64_t wanted)
{
	return seats_wish(o, &(struct queue_seats_wish){ .first = 1, .held = held, .wanted = wanted, .server = is, .up_ms = up_ms,
		.watched_ms = up_ms, .known = known, .limit = &limit });
}

TEST(another_server_gives_none_until_all_could_tell_what_they_have, seats_setup)
{
	struct queue_seats_answer a;

	seats_ask(&owner, 0, 2);
	REDIS(&server, "HDEL %s %s", keys.seats, owner.incarnation);	/* it went back */
	a = ask_of(&other, &two, true, 1000, 0, 1);
	assert_int_equal(a.has, 0);
	assert_in_range(a.quiet_ms, 29000, 30000);
	assert_int_equal(ask_of(&owner, &two, true, 1000, 2, 2).has, 2);
	assert_int_equal(ask_of(&owner, &two, false, 1000, 1, 3).has, 1);
	assert_string_equal(seats_field("refused"), "");
	assert_int_equal(ask_of(&other, &two, false, 30999, 0, 3).has, 0);
	assert_int_equal(ask_of(&other, &two, false, 31000, 0, 3).has, 2);	/* it has known the server for so long */
}

/* It may be that of an earlier version, or of a longer lease; and no clock of Redis counts, which may be set. */
TEST(the_time_in_the_hash_is_how_long_a_worker_must_have_known_the_server, seats_setup)
{
	static const struct { const char *value; int64_t up_ms, has; } rows[] = { { "one. 1000", 1000, 0 }, { "one. 1764205200000", 30999, 0 },
		{ "one. 1764205200000", 31000, 1 }, { "one. 60000", 59999, 0 }, { "one. 60000", 60000, 1 }, { "one. 0", 0, 1 } };

	for (size_t i = 0; i < nitems(rows); i++) {
		REDIS(&server, "DEL %s", keys.seats);
		REDIS(&server, "HSET %s server %s", keys.seats, rows[i].value);
		assert_int_equal(ask_of(&other, &one, false, rows[i].up_ms, 0, 1).has, rows[i].has);
	}
}

TEST(a_server_that_is_up_for_long_gives_them_at_once, seats_setup)
{
	seats_ask(&owner, 0, 1);
	assert_int_equal(ask_of(&other, &two, true, 31000, 0, 1).has, 1);
	REDIS(&server, "DEL %s", keys.seats);
	assert_int_equal(ask_of(&other, &one, false, 0, 0, 1).has, 0);	/* a replica that was promoted, perhaps now */
}

TEST(a_worker_that_asked_long_ago_which_server_it_is_asks_again, seats_setup)
{
	seats_ask(&owner, 0, 1);
	assert_int_equal(ask_of(&other, &two, false, SEATS_LONG_UP, 0, 1).has, QUEUE_SEATS_OTHER_SERVER);
	assert_int_equal(strncmp(seats_field("server"), "one. ", 5), 0);
}

/* A master gets a new one with its first replica; one that was a replica has another one after each promotion. */
TEST(a_replication_id_counts_only_after_a_promotion, seats_setup)
{
	struct redis_identity same = { .run_id = "one", .replid = "s" }, promoted = { .run_id = "one", .replid = "s", .promoted = true };

	REDIS(&server, "SET %s 1", next.lease);
	seats_ask(&owner, 0, 1);
	assert_int_equal(ask_of(&other, &same, false, SEATS_LONG_UP, 0, 1).has, 1);
	assert_int_equal(ask_of(&next, &promoted, false, 0, 0, 1).has, QUEUE_SEATS_OTHER_SERVER);
	assert_string_equal(seats_field(owner.incarnation), "1 mail");		/* nothing has changed */
	assert_int_equal(ask_of(&other, &promoted, true, 0, 1, 2).has, 1);
	assert_int_equal(strncmp(seats_field("server"), "one.s ", 6), 0);
}

/* ---- the life of the keys, and what others write ---- */

/* A queue that no host has any more has no leader either. */
TEST(the_hash_goes_a_day_after_the_last_request_or_look_of_a_leader, seats_setup)
{
	seats_ask(&owner, 0, 1);
	assert_in_range(REDIS_INT(&server, "PTTL %s", keys.seats), 86000000, 86400000);
	REDIS(&server, "PEXPIRE %s 50000", keys.seats);
	queue_seats_keep(&server.r, &keys);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_in_range(REDIS_INT(&server, "PTTL %s", keys.seats), 86000000, 86400000);
}

TEST(fields_of_others_take_and_give_nothing, seats_setup)
{
	struct queue_seats_seen seen;
	struct redis_reply reply;

	REDIS(&server, "HSET %s %s %s %s %s %s %s %s %s", keys.seats, "stranger", "3 mail", SEATS_OTHER, "-5 mail", SEATS_THIRD, "x", "a.b.c.1", "2 mail");
	assert_int_equal(seats_ask(&owner, 0, 3).has, 3);
	queue_seats_read(&server.r, &keys);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_seats_each(&reply, &seen, NULL, NULL), 0);
	assert_int_equal(seen.taken, 3);
	assert_int_equal(seen.limit.max, SEATS_LIMIT);
	assert_true(seen.foreign);
}

TEST(what_quredis_writes_is_not_foreign, seats_setup)
{
	struct queue_seats_seen seen;
	struct redis_reply reply;

	seats_ask(&owner, 0, 3);
	seats_ask(&other, 0, 1);
	queue_seats_read(&server.r, &keys);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_seats_each(&reply, &seen, NULL, NULL), 0);
	assert_false(seen.foreign);
	assert_int_equal(seen.taken, 3);
	reply = (struct redis_reply){ .type = REDIS_ERROR };
	assert_int_equal(queue_seats_each(&reply, &seen, NULL, NULL), -1);
}

TEST(a_key_of_another_type_is_an_error_and_stays, seats_setup)
{
	struct redis_reply reply;

	REDIS(&server, "LPUSH %s x", keys.seats);
	queue_seats(&server.r, &owner, &(struct queue_seats_wish){ .wanted = 1, .server = &one, .limit = &limit });
	reply = private_redis_answer_or_error(&server);
	assert_true(redis_error_is(&reply, "WRONGTYPE"));
	assert_int_equal(REDIS_INT(&server, "LLEN %s", keys.seats), 1);
}

TEST(a_stranger_in_place_of_the_list_stays_as_it_was, seats_setup)
{
	REDIS(&server, "SET %s x", keys.seats_free);
	seats_ask(&owner, 0, 3);
	assert_int_equal(seats_ask(&other, 0, 1).has, 0);
	assert_int_equal(REDIS_INT(&server, "STRLEN %s", keys.seats_free), 1);
	assert_int_equal(seats_ask(&owner, 2, 3).has, 2);
	assert_int_equal(REDIS_INT(&server, "PTTL %s", keys.seats_free), -1);
	REDIS(&server, "DEL %s", keys.seats_free);
}

TEST(memory_that_is_full_stops_no_seat, seats_setup)
{
	REDIS(&server, "CONFIG SET maxmemory 1");
	assert_int_equal(seats_ask(&owner, 0, 3).has, 3);
	assert_int_equal(seats_ask(&other, 0, 1).has, 0);
	assert_int_equal(seats_ask(&owner, 0, 0).has, 0);
	REDIS(&server, "CONFIG SET maxmemory 0");
}

/* ---- owners that end ---- */

static void enrol(const struct queue_owner *o)
{
	queue_renew(&server.r, o, NULL, "{}");
	private_redis_answer(&server);
}

TEST(a_worker_that_leaves_gives_its_seats_back, seats_setup)
{
	REDIS(&server, "DEL %s", owner.lease);
	enrol(&owner);
	seats_ask(&owner, 0, 3);
	seats_ask(&other, 0, 1);
	queue_deregister(&server.r, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_string_equal(seats_field(owner.incarnation), "");
	assert_int_equal(waking(), 3);
	assert_true(REDIS_INT(&server, "PTTL %s", keys.seats) > 0);
}

TEST(who_marks_a_worker_dead_frees_its_seats, seats_setup)
{
	REDIS(&server, "DEL %s", owner.lease);
	enrol(&owner);
	limit.max = 2;
	seats_ask(&owner, 0, 2);
	seats_ask(&other, 0, 1);
	queue_mark_dead(&server.r, &keys, owner.incarnation);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_string_equal(seats_field(owner.incarnation), "");
	assert_int_equal(waking(), 2);
	queue_mark_dead(&server.r, &keys, owner.incarnation);		/* again */
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_int_equal(waking(), 2);
}

TEST(seats_of_another_type_hold_up_no_rescue, seats_setup)
{
	REDIS(&server, "DEL %s", owner.lease);
	enrol(&owner);
	REDIS(&server, "LPUSH %s x", keys.seats);
	queue_mark_dead(&server.r, &keys, owner.incarnation);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	queue_deregister(&server.r, &owner);
	assert_int_equal(private_redis_answer(&server).integer, 1);
}

/* The living worker says soon what it has under its new name. */
TEST(a_name_that_its_process_has_left_keeps_its_seats, seats_setup)
{
	REDIS(&server, "DEL %s", owner.lease);
	enrol(&owner);
	seats_ask(&owner, 0, 2);
	queue_renew(&server.r, &next, &owner, "{}");
	private_redis_answer(&server);
	queue_mark_dead(&server.r, &keys, owner.incarnation);
	private_redis_answer(&server);
	assert_string_equal(seats_field(owner.incarnation), "2 mail");
}

static int64_t leave(int64_t died_ms, const char *value)
{
	queue_seats_leave(&server.r, &keys, keys.workers, owner.incarnation, died_ms, value);
	return private_redis_answer(&server).integer;
}

TEST(only_a_death_that_is_registered_frees_seats_later, seats_setup)
{
	seats_ask(&owner, 0, 2);
	assert_int_equal(leave(INT64_MAX, "2 mail"), 0);		/* it is in no registry */
	REDIS(&server, "HSET %s %s {}", keys.workers, owner.incarnation);
	assert_int_equal(leave(INT64_MAX, "2 mail"), 0);
	REDIS(&server, "HSET %s %s {\"died_at\":5000}", keys.workers, owner.incarnation);
	assert_int_equal(leave(5001, "2 mail"), 0);		/* another death than the caller saw */
	assert_int_equal(leave(5000, "1 mail"), 0);
	assert_int_equal(leave(5000, "2 mail"), 1);
	assert_string_equal(seats_field(owner.incarnation), "");
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
