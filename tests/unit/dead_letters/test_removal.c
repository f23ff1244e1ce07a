/* links: tests/unit/private_redis.c */

/* The old end of escape on a private Redis: what leaves, and what must not. */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/base/alloc.h"
#include "common/base/nitems.h"
#include "common/dead_letters/removal.h"
#include "tests/unit/private_redis.h"
#include "tests/unit/unit.h"

static struct private_redis server;
static struct queue_keys keys;

static int setup(void **state)
{
	(void)state;
	REDIS(&server, "FLUSHALL");
	return 0;
}

static int setup_all(void **state)
{
	(void)state;
	private_redis_start(&server, false);
	queue_keys_init(&keys, NULL, "q", "i", "t", "e");
	return 0;
}

static int teardown_all(void **state)
{
	(void)state;
	queue_keys_free(&keys);
	private_redis_stop(&server);
	return 0;
}

/* A dead letter with its record. */
static void fail_with(const char *message, const char *id)
{
	REDIS(&server, "LPUSH e %s", message);
	REDIS(&server, "XADD e:log %s sha1 x message %s", id, message);
}

static int64_t answer(void)
{
	struct redis_reply reply = private_redis_answer(&server);

	assert_int_equal(reply.type, REDIS_INTEGER);
	return reply.integer;
}

static int64_t leave(const char *message, const char *id, int64_t depth)
{
	const struct queue_dead_letter letter = { { message, strlen(message) }, id, NULL };

	queue_dead_letters_remove(&server.r, &keys, depth, &letter, 1);
	return answer();
}

static void assert_left(int64_t entries, int64_t records)
{
	assert_int_equal(REDIS_INT(&server, "LLEN e"), entries);
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), records);
}

TEST(a_dead_letter_leaves_with_its_record_once, setup)
{
	fail_with("same", "1-1");
	fail_with("same", "2-1");
	assert_int_equal(leave("same", "1-1", 5), 1);
	assert_left(1, 1);
	assert_int_equal(leave("same", "1-1", 5), 0);	/* its neighbour stays */
	assert_left(1, 1);
	assert_int_equal(leave("other", "2-1", 5), 0);
	assert_left(1, 1);
}

TEST(nobody_is_looked_for_far_from_the_end, setup)
{
	fail_with("a", "1-1");
	fail_with("b", "2-1");
	fail_with("c", "3-1");
	assert_int_equal(leave("c", "3-1", 2), 0);
	assert_int_equal(leave("c", "3-1", 3), 1);
	assert_left(2, 2);
}

TEST(many_at_once, setup)
{
	const struct queue_dead_letter letters[] = { { { "a", 1 }, "1-1", NULL }, { { "gone", 4 }, "9-9", NULL }, { { "a", 1 }, "3-1", NULL },
		{ { "", 0 }, "4-1", NULL } };

	fail_with("a", "1-1");
	fail_with("b", "2-1");
	fail_with("a", "3-1");
	fail_with("", "4-1");
	queue_dead_letters_remove(&server.r, &keys, 4, letters, 4);
	assert_int_equal(answer(), 3);
	assert_left(1, 1);
	assert_string_equal(REDIS(&server, "LINDEX e 0").str, "b");
}

static size_t claim(bool fresh, const struct queue_dead_letter *letters, size_t n)
{
	const struct queue_claimer web1 = { .lead = "web1.1", .node = "web1" };
	struct redis_reply reply;

	queue_dead_letters_claim(&server.r, &keys, &web1, fresh, 10, letters, n);
	reply = private_redis_answer(&server);
	assert_true(redis_is_strings(&reply));
	return reply.n;
}

/* Who is not there is not claimed, of equal messages no more than there are; a claim goes with its letter. */
TEST(claims, setup)
{
	const struct queue_dead_letter letters[] = { { { "a", 1 }, "1-1", "x" }, { { "gone", 4 }, "9-9", "y" }, { { "a", 1 }, "3-1", "x" } };
	struct queue_dead_letters_glance glance;
	struct redis_reply reply;

	REDIS(&server, "SET quredis:of:i:sweeper web1.1");
	fail_with("a", "1-1");
	fail_with("b", "2-1");
	REDIS(&server, "XADD e:log 3-1 sha1 x message a");
	assert_int_equal(claim(true, letters, 3), 1);
	assert_int_equal(REDIS_INT(&server, "HEXISTS e:claimed 1-1"), 1);
	queue_dead_letters_glance(&server.r, &keys);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_dead_letters_glanced(&reply, &glance), 0);
	assert_string_equal(glance.claimed_by, "web1");
	assert_int_equal(leave("a", "1-1", 10), 1);
	assert_int_equal(REDIS_INT(&server, "HEXISTS e:claimed 1-1"), 0);
	assert_int_equal(claim(true, letters, 3), 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS e:claimed"), 0);
	REDIS(&server, "RPUSH e a");
	assert_int_equal(claim(true, letters + 2, 1), 1);
	fail_with("c", "4-1");
	assert_int_equal(claim(false, &(struct queue_dead_letter){ { "c", 1 }, "4-1", "z" }, 1), 1);
	assert_int_equal(REDIS_INT(&server, "HLEN e:claimed"), 3);
	queue_dead_letters_release(&server.r, &keys, "web1");
	assert_int_equal(answer(), 1);
	assert_int_equal(REDIS_INT(&server, "EXISTS e:claimed"), 0);
	queue_dead_letters_release(&server.r, &keys, "web1");
	assert_int_equal(answer(), 0);
}

/* Another host has taken the lead meanwhile, and has claims of its own: they are neither dropped nor added to. */
TEST(claims_of_the_next_leader_stay, setup)
{
	const struct queue_dead_letter letters[] = { { { "a", 1 }, "1-1", "x" }, { { "b", 1 }, "2-1", "x" } };

	fail_with("a", "1-1");
	fail_with("b", "2-1");
	REDIS(&server, "SET quredis:of:i:sweeper web2.1");
	REDIS(&server, "HSET e:claimed 1-1 x owner web2");
	assert_int_equal(claim(true, letters, 2), 0);
	assert_int_equal(claim(false, letters, 2), 0);
	queue_dead_letters_release(&server.r, &keys, "web1");
	assert_int_equal(answer(), 0);
	assert_string_equal(REDIS(&server, "HGET e:claimed owner").str, "web2");
	assert_int_equal(REDIS_INT(&server, "HLEN e:claimed"), 2);
	REDIS(&server, "DEL quredis:of:i:sweeper");		/* nobody leads: its lease ran out */
	assert_int_equal(claim(true, letters, 2), 0);
	REDIS(&server, "SET quredis:of:i:sweeper web1.1");
	assert_int_equal(claim(true, letters + 1, 1), 1);
	assert_string_equal(REDIS(&server, "HGET e:claimed owner").str, "web1");
	assert_int_equal(REDIS_INT(&server, "HEXISTS e:claimed 1-1"), 0);
}

TEST(what_is_refused_stays, setup)
{
	const struct queue_dead_letter letter = { { "a", 1 }, "1-1", NULL };

	fail_with("a", "1-1");
	REDIS(&server, "RENAME e:log aside");
	REDIS(&server, "SET e:log x");
	queue_dead_letters_remove(&server.r, &keys, 5, &letter, 1);
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	assert_int_equal(REDIS_INT(&server, "LLEN e"), 1);
}

static bool adopt(const char *message, int64_t depth, const char *newest)
{
	const struct record record = { .queue = "q", .error_class = "Unrecorded", .exit_code = -1, .duration_ms = -1, .payload_max = 100 };
	struct message m;

	message_parse(&m, &keys.lines, message, strlen(message));
	m.wrapper_len = 0;
	queue_dead_letters_adopt(&server.r, &keys, depth, &m, newest, &record);
	return private_redis_answer(&server).len > 0;
}

TEST(one_without_a_record_becomes_the_newest_with_it, setup)
{
	REDIS(&server, "LPUSH e %s", "foreign");
	fail_with("a", "1-1");
	assert_true(adopt("foreign", 1, "1-1"));
	assert_left(2, 2);
	assert_string_equal(REDIS(&server, "LINDEX e 0").str, "foreign");
	REDIS(&server, "XADD e:log 99999999999999-1 id x");
	assert_false(adopt("foreign", 1, "99999999999999-1"));	/* it is not among the oldest any more */
	assert_left(2, 3);
}

/* Redis may execute the first call after the second one, if its connection was lost meanwhile. */
TEST(one_gets_no_second_record, setup)
{
	REDIS(&server, "LPUSH e %s", "foreign");
	fail_with("a", "1-1");
	assert_true(adopt("foreign", 2, "1-1"));
	assert_false(adopt("foreign", 2, "1-1"));
	assert_left(2, 2);
}

static void twenty_fail(void)
{
	for (int i = 1; i <= 20; i++) {
		char *id = alloc_format("%d-1", i);

		fail_with("0123456789", id);
		free(id);
	}
}

TEST(a_page_is_as_large_as_it_may_be, setup)
{
	struct queue_dead_letters_page page;
	struct redis_reply reply;

	twenty_fail();
	queue_dead_letters_page(&server.r, &keys, 8, 8, 1 << 20);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_dead_letters_paged(&reply, &page), 0);
	assert_int_equal(page.entry_list.n, 8);
	assert_int_equal(page.record_list.n, 8);
	assert_true(page.entries == 20 && page.records == 20 && page.server_ms > 0);
	queue_dead_letters_page(&server.r, &keys, 8, 8, 25);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_dead_letters_paged(&reply, &page), 0);
	assert_int_equal(page.entry_list.n, 3);
	assert_int_equal(page.record_list.n, 2);	/* with their fields' names */
	queue_dead_letters_page(&server.r, &keys, 8, 8, 1);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_dead_letters_paged(&reply, &page), 0);
	assert_true(page.entry_list.n == 1 && page.record_list.n == 1);
}

static void assert_record(const struct queue_dead_letters_page *page, size_t i, const char *id)
{
	struct redis_reply record = redis_element(&page->record_list, i);

	assert_string_equal(redis_element(&record, 0).str, id);
}

TEST(a_page_as_if_some_were_gone, setup)
{
	const char *stay[] = { "2-1", "5-1", "7-9" };
	struct queue_dead_letters_page page;
	struct redis_reply reply;

	twenty_fail();
	queue_dead_letters_page_of(&server.r, &keys, 4, 4, 1 << 20, "9-0", stay, nitems(stay));
	reply = private_redis_answer(&server);
	assert_int_equal(queue_dead_letters_paged(&reply, &page), 0);
	assert_int_equal(page.record_list.n, 4);
	assert_record(&page, 0, "2-1");
	assert_record(&page, 1, "5-1");		/* 7-9 went meanwhile */
	assert_record(&page, 2, "9-1");
	assert_record(&page, 3, "10-1");
}

TEST(the_next_id)
{
	char next[QUEUE_RECORD_ID_SIZE];

	assert_true(queue_record_id_next("10-1", next));
	assert_string_equal(next, "10-2");
	assert_true(queue_record_id_next("10-18446744073709551615", next));
	assert_string_equal(next, "11-0");
	assert_true(queue_record_id_next("18446744073709551615-0", next));
	assert_string_equal(next, "18446744073709551615-1");
	assert_false(queue_record_id_next("18446744073709551615-18446744073709551615", next));
	assert_string_equal(next, "18446744073709551615-18446744073709551615");
}

/* Ids beyond what a number of Lua holds exactly. */
TEST(strange_ids_end_a_page, setup)
{
	struct queue_dead_letters_page page;
	struct redis_reply reply;

	fail_with("a", "1-18446744073709551615");
	fail_with("b", "2-1");
	fail_with("c", "18446744073709551615-1");
	queue_dead_letters_page(&server.r, &keys, 8, 8, 1 << 20);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_dead_letters_paged(&reply, &page), 0);
	assert_int_equal(page.record_list.n, 3);
}

static size_t to_forward(void)
{
	struct redis_reply reply;

	queue_forward_page(&server.r, &keys, 10, 1 << 20);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_forward_paged(&reply), 0);
	return reply.n - 1;
}

/* What is the last one after this attempt to say that it is `last`. */
static const char *forwarded_is(const char *before, const char *last)
{
	static char position[QUEUE_RECORD_ID_SIZE];
	struct redis_reply reply;

	if (before == NULL)
		queue_forwarded(&server.r, &keys);
	else
		queue_forward_done(&server.r, &keys, before, last);
	reply = private_redis_answer(&server);
	assert_int_equal(queue_forward_paged(&reply), 0);
	assert_int_equal(reply.n, 1);
	strlcpy(position, redis_element(&reply, 0).str, sizeof(position));
	return position;
}

TEST(forwarding_goes_on_where_it_was, setup)
{
	assert_int_equal(to_forward(), 0);
	fail_with("a", "1-1");
	fail_with("b", "2-1");
	assert_int_equal(to_forward(), 2);
	assert_string_equal(forwarded_is("0-0", "1-1"), "1-1");
	assert_int_equal(to_forward(), 1);
	REDIS(&server, "SET e:forwarded %s", "2-1");
	assert_int_equal(to_forward(), 0);
	REDIS(&server, "XDEL e:log %s", "2-1");		/* the newest was taken: that is no new log */
	assert_int_equal(to_forward(), 0);
	REDIS(&server, "SET e:forwarded rubbish");
	assert_int_equal(to_forward(), 1);
	REDIS(&server, "SET e:forwarded %s", "2-2");	/* of a log before this one */
	assert_int_equal(to_forward(), 1);
	assert_string_equal(forwarded_is(NULL, NULL), "0-0");
}

/* Between the copies and the word that they were made Redis returns to an earlier state, or another host goes on. */
TEST(nothing_is_passed_over_when_redis_went_back, setup)
{
	for (int i = 1; i <= 4; i++)
		fail_with("a", i == 1 ? "1-0" : i == 2 ? "2-0" : i == 3 ? "3-0" : "4-0");
	assert_string_equal(forwarded_is("0-0", "2-0"), "2-0");
	assert_string_equal(forwarded_is("0-0", "1-0"), "2-0");		/* another was faster */
	REDIS(&server, "DEL e:forwarded");				/* back to before that: 1-0 and 2-0 are not forwarded */
	assert_string_equal(forwarded_is("2-0", "4-0"), "0-0");
	assert_int_equal(to_forward(), 4);
	assert_string_equal(forwarded_is("0-0", "3-0"), "3-0");
	REDIS(&server, "DEL e:log e:forwarded");			/* back to before all of them */
	assert_string_equal(forwarded_is("0-0", "3-0"), "0-0");
	fail_with("b", "3-0");						/* the id again, for another letter */
	assert_int_equal(to_forward(), 1);
}

UNIT_MAIN(setup_all, teardown_all)
