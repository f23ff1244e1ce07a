/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/*
 * Moves one by one, against a real server: what a fetch, a retry, an escape and the others do beyond what all of them promise.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/admin.h"
#include "common/queue/watch.h"
#include "tests/unit/sealed.h"
#include "tests/unit/queue/moves_fixture.h"
#include "tests/unit/unit.h"

/* ---- fetch, done ---- */

TEST(fetch_moves_the_oldest_into_the_tray, moves_setup)
{
	REDIS(&server, "LPUSH i a b");
	queue_fetch(&server.r, &owner, 0, 0);
	assert_string_equal(private_redis_answer(&server).str, "a");
	moves_assert_holds("fetch", TRAY, "a", 1);
	queue_fetch(&server.r, &owner, 1, 1500);
	assert_string_equal(private_redis_answer(&server).str, "b");
	queue_fetch(&server.r, &owner, 2, 10);
	assert_int_equal(private_redis_answer(&server).type, REDIS_NIL);
	queue_done(&server.r, &owner, 0);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	queue_done(&server.r, &owner, 0);
	assert_int_equal(private_redis_answer(&server).integer, 0);
}

TEST(a_batch_is_fetched_in_order_and_answered_one_by_one, moves_setup)
{
	struct queue_owner own;		/* what one of all cases learns here, the others would use */
	char lmove[128];
	struct redis_reply stats;

	queue_owner_init(&own, &keys, "n.00000000000000b0.4.1", 30000);
	for (int i = 0; i < 2; i++) {
		if (i == 1)
			queue_owner_use_blmove(&own);
		REDIS(&server, "LPUSH i a b");
		queue_fetch_batch(&server.r, &own, 0, 3);
		assert_string_equal(private_redis_answer(&server).str, "a");
		assert_string_equal(private_redis_answer(&server).str, "b");
		assert_int_equal(private_redis_answer(&server).type, REDIS_NIL);
		assert_int_equal(moves_count("i"), 0);
		queue_done(&server.r, &own, 0);
		assert_int_equal(private_redis_answer(&server).integer, 1);
	}
	queue_owner_free(&own);
	stats = REDIS(&server, "INFO commandstats");
	assert_true(redis_info_value(stats.str, stats.len, "cmdstat_lmove", lmove, sizeof(lmove)));
	assert_ptr_equal(strstr(lmove, "calls=3,"), lmove);
}

TEST(fetch_at_maxmemory, moves_setup)
{
	REDIS(&server, "LPUSH i a");
	REDIS(&server, "CONFIG SET maxmemory 1");
	queue_fetch(&server.r, &owner, 0, 0);
	assert_true(redis_error_is(&(struct redis_reply){ .type = REDIS_ERROR, .str = private_redis_answer_or_error(&server).str },
	    "OOM"));
	assert_int_equal(moves_count("i"), 1);
	queue_fetch_oom(&server.r, &owner, 0);
	assert_string_equal(private_redis_answer(&server).str, "a");
	moves_assert_holds("fetch", TRAY, "a", 1);
	queue_fetch_oom(&server.r, &owner, 1);
	assert_int_equal(private_redis_answer(&server).type, REDIS_NIL);
}

TEST(a_tray_of_another_type_stops_the_fetch_before_the_pop, moves_setup)
{
	REDIS(&server, "LPUSH i a");
	REDIS(&server, "SET " TRAY " x");
	queue_fetch(&server.r, &owner, 0, 0);
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	queue_fetch_oom(&server.r, &owner, 0);
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	moves_assert_holds("fetch", "i", "a", 1);
}

/* ---- details of single moves ---- */

TEST(a_retry_is_due_after_its_delay_by_the_servers_clock, moves_setup)
{
	struct redis_reply score;
	int64_t due, now;

	moves_put(TRAY, RAW, RAW_LEN);
	queue_retry(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &by_value, .change = &change }, 1000);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	score = REDIS(&server, "ZSCORE quredis:of:i:delayed %b", wrapped.data, wrapped.len);
	due = strtoll(score.str, NULL, 10);
	score = REDIS(&server, "TIME");
	now = queue_time_parse(&score);
	assert_in_range(due, now - 60000, now + 1000);
}

/* A wrapper's nonce makes members distinct; should one come twice nevertheless, undoing must not take the first. */
TEST(an_undone_retry_leaves_an_equal_member_alone, moves_setup)
{
	REDIS(&server, "ZADD quredis:of:i:delayed 5 %b", wrapped.data, wrapped.len);
	queue_retry(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &by_value, .change = &change }, 1000);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_int_equal(moves_count("quredis:of:i:delayed"), 1);
}

TEST(only_what_is_due_and_only_so_many, moves_setup)
{
	struct redis_reply time = REDIS(&server, "TIME"), late;
	int64_t now = queue_time_parse(&time);
	struct queue_due_moved due;

	for (int64_t i = 0; i < 25; i++)
		REDIS(&server, "ZADD quredis:of:i:delayed %d %d", now - 100 + i, i);
	REDIS(&server, "ZADD quredis:of:i:delayed %d later", now + 60000);
	queue_due(&server.r, &keys, false, 10, NULL);
	late = private_redis_answer(&server);
	assert_int_equal(late.n, 10);
	for (size_t i = 0; i < 10; i++)
		assert_in_range(redis_element(&late, i).integer, 100 - (int64_t)i, 60000);
	assert_string_equal(REDIS(&server, "LINDEX i -1").str, "0");	/* the one due first is fetched first */
	assert_string_equal(REDIS(&server, "LINDEX i 0").str, "9");
	REDIS(&server, "ZADD quredis:of:i:delayed -inf long");
	queue_due(&server.r, &keys, false, 10, NULL);
	late = private_redis_answer(&server);
	assert_true(late.n == 10 && redis_element(&late, 0).integer == 1000000000000000);
	queue_due(&server.r, &keys, false, 10, NULL);
	late = private_redis_answer(&server);
	assert_int_equal(late.n, 6 + 1);
	assert_int_equal(queue_due_moved(&late, &due), 0);
	assert_int_equal(due.moved, 6);
	assert_in_range(due.next_ms, 30000, 60000);		/* "later" */
	queue_due(&server.r, &keys, false, 10, NULL);
	late = private_redis_answer(&server);
	assert_int_equal(queue_due_moved(&late, &due), 0);
	assert_int_equal(due.moved, 0);
	assert_int_equal(moves_count("quredis:of:i:delayed"), 1);
	REDIS(&server, "DEL quredis:of:i:delayed");
	queue_due(&server.r, &keys, false, 10, NULL);
	late = private_redis_answer(&server);
	assert_int_equal(queue_due_moved(&late, &due), 0);
	assert_true(due.next_ms == INT64_MAX);
}

/* Redis copies each several times: a hundred large ones would keep it from everybody else for seconds. */
TEST(large_ones_are_due_one_by_one, moves_setup)
{
	static char large[600000];

	for (int64_t i = 0; i < 5; i++) {
		large[0] = (char)('a' + i);
		REDIS(&server, "ZADD quredis:of:i:delayed %d %b", i, large, sizeof(large));
	}
	for (int64_t left = 5; left > 0; left -= 2) {
		queue_due(&server.r, &keys, false, 10, NULL);
		assert_int_equal(private_redis_answer(&server).n, left < 2 ? left : 2);
	}
	assert_int_equal(moves_count("i"), 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(REDIS(&server, "LINDEX i %d", (int64_t)(-1 - i)).str[0], 'a' + i);
}

TEST(escape_keeps_the_producers_bytes_and_writes_the_record, moves_setup)
{
	static const char *const want[][2] = { { "id", NULL }, { "queue", "mail" }, { "queue_from", "transit" },
		{ "error_class", "HandlerExit" }, { "error_message", "said no" }, { "failed_at", "2023-11-14T22:13:20.123Z" },
		{ "retry_count", "2" }, { "attempts", "3" }, { "crashes", "1" }, { "exit_code", "3" }, { "signal", "" },
		{ "stderr", NULL }, { "duration_ms", "12" }, { "node", "n" }, { "worker", "n.00000000000000b0.4.1" },
		{ "handler", "/bin/true" }, { "first_failed_at", "2023-11-14T22:13:20.123Z" }, { "request_id", "r.1" },
		{ "root", "order-0" }, { "depth", "2" }, { "sha1", NULL }, { "size", "40" }, { "message", "quredis/1 id=order-1 request_id=r.1\nbody" } };
	const char *text = "quredis/1 w=00000000000000aa attempts=2 root=order-0 depth=2\nquredis/1 id=order-1 request_id=r.1\nbody";
	struct buffer raw = {0};
	struct redis_reply entries, fields;
	struct message m;

	sealed_append(&raw, &keys.lines, text, strlen(text));
	message_parse(&m, &keys.lines, raw.data, raw.len);
	assert_string_equal(message_id(&m), "order-1");
	moves_put(TRAY, raw.data, raw.len);
	queue_escape(&server.r, &(struct queue_move){ .keys = &keys, .lease = owner.lease, .lease_ms = owner.lease_ms, .from = TRAY, .count = -1,
	    .entry = &(struct queue_entry){ .raw = m.raw, .len = m.raw_len, .at = QUEUE_ANYWHERE }, .message = &m, .record = &record });
	assert_int_equal(private_redis_answer(&server).integer, 1);
	moves_assert_holds("escape", "e", raw.data + m.wrapper_len, raw.len - m.wrapper_len);
	entries = REDIS(&server, "XRANGE e:log - +");
	assert_int_equal(entries.n, 1);
	fields = redis_element(&entries, 0);
	fields = redis_element(&fields, 1);
	assert_int_equal(fields.n, 2 * nitems(want));
	for (size_t i = 0; i < nitems(want); i++) {
		struct redis_reply field = redis_element(&fields, 2 * i), value = redis_element(&fields, 2 * i + 1);

		assert_string_equal(field.str, want[i][0]);
		if (want[i][1] != NULL)
			assert_string_equal(value.str, want[i][1]);
	}
	fields = redis_element(&fields, 23);
	assert_int_equal(fields.len, 3);	/* stderr: a NUL in it */
	buffer_free(&raw);
}

#define FIELD "0123456789012345678901234567890123456789"
#define CANCELS "quredis:of:i:cancels"

static const struct queue_cancel_end cancelled = { FIELD, "wanted x", "ended escaped" };

static void escape_cancelled(void)
{
	queue_escape(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0), .entry = &by_value, .message = &message, .record = &record,
	    .cancel = &cancelled });
	private_redis_answer_or_error(&server);
}

static void hand_back_cancelled(void)
{
	queue_hand_back(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0), .entry = &by_value, .cancel = &cancelled }, false);
	private_redis_answer_or_error(&server);
}

/* So no death in between leaves an order whose message has moved. */
TEST(the_move_of_a_cancelled_message_writes_its_result, moves_setup)
{
	static const struct {
		void (*move)(void);
		const char *to;
	} moves[] = { { escape_cancelled, "e" }, { hand_back_cancelled, "i" } };

	for (size_t i = 0; i < nitems(moves); i++) {
		const char *text;

		REDIS(&server, "HSET " CANCELS " " FIELD " %s", "1 wanted x");
		moves_put(TRAY, RAW, RAW_LEN);
		REDIS(&server, "SET %s x", moves[i].to);
		moves[i].move();			/* refused: nothing has changed */
		assert_int_equal(moves_count(TRAY), 1);
		assert_string_equal(REDIS(&server, "HGET " CANCELS " " FIELD).str, "1 wanted x");
		REDIS(&server, "DEL %s", moves[i].to);
		moves[i].move();
		assert_int_equal(moves_count(moves[i].to), 1);
		text = REDIS(&server, "HGET " CANCELS " " FIELD).str;
		assert_string_equal(strchr(text, ' '), " ended escaped");
		assert_true(strtoll(text, NULL, 10) > 1);

		moves_put(TRAY, RAW, RAW_LEN);
		REDIS(&server, "HSET " CANCELS " " FIELD " %s", "1 wanted y");
		moves[i].move();			/* another order stands there */
		assert_string_equal(REDIS(&server, "HGET " CANCELS " " FIELD).str, "1 wanted y");
		moves_put(TRAY, RAW, RAW_LEN);
		REDIS(&server, "SET " CANCELS " x");
		moves[i].move();			/* a key of another type does not hold up the message */
		assert_int_equal(moves_count(TRAY), 0);
		REDIS(&server, "DEL " CANCELS " %s", moves[i].to);
	}
}

TEST(a_big_message_is_left_out_of_its_record, moves_setup)
{
	char big[200];
	struct redis_reply entries, fields;
	struct message m;

	memset(big, 'x', sizeof(big));
	message_parse(&m, &keys.lines, big, sizeof(big));
	moves_put(TRAY, big, sizeof(big));
	queue_escape(&server.r, &(struct queue_move){ .keys = &keys, .lease = owner.lease, .lease_ms = owner.lease_ms, .from = TRAY, .count = -1,
	    .entry = &(struct queue_entry){ .raw = m.raw, .len = m.raw_len, .at = QUEUE_ANYWHERE }, .message = &m, .record = &record });
	assert_int_equal(private_redis_answer(&server).integer, 1);
	moves_assert_holds("escape", "e", big, sizeof(big));
	entries = REDIS(&server, "XRANGE e:log - +");
	fields = redis_element(&entries, 0);
	fields = redis_element(&fields, 1);
	assert_int_equal(redis_element(&fields, 41).len, 0);
	assert_string_equal(redis_element(&fields, 39).str, "200");
}

TEST(a_record_that_cannot_be_written_does_not_hold_the_message, moves_setup)
{
	moves_put(TRAY, RAW, RAW_LEN);
	REDIS(&server, "SET e:log x");
	queue_escape(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &by_value, .message = &message, .record = &record });
	assert_int_equal(private_redis_answer(&server).integer, 2);
	moves_assert_holds("escape", "e", RAW, RAW_LEN);
	assert_int_equal(moves_count(TRAY), 0);
}

TEST(return_takes_the_left_end_only, moves_setup)
{
	moves_put(RESCUE, "other", 5);
	moves_put(RESCUE, RAW, RAW_LEN);
	queue_return(&server.r, owner.incarnation, &(struct queue_move){ .keys = &keys, .from = RESCUE,
	    .entry = &by_value, .change = &change });
	assert_int_equal(private_redis_answer(&server).integer, QUEUE_CANNOT_TELL);
	assert_int_equal(moves_count(RESCUE), 2);
	REDIS(&server, "LPOP " RESCUE);
	REDIS(&server, "LPUSH i waiting");
	queue_return(&server.r, owner.incarnation, &(struct queue_move){ .keys = &keys, .from = RESCUE,
	    .entry = &by_value, .change = &change });
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS(&server, "LINDEX i -1").len, wrapped.len);	/* popped next */
}

TEST(what_is_handed_back_is_fetched_next, moves_setup)
{
	moves_put("i", "waiting", 7);
	moves_put(TRAY, RAW, RAW_LEN);
	queue_hand_back(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &by_value, .change = &change }, false);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS(&server, "LINDEX i -1").len, wrapped.len);
}

TEST(redrive_takes_the_record_along, moves_setup)
{
	struct redis_reply id = REDIS(&server, "XADD e:log * a b");
	char text[64];

	snprintf(text, sizeof(text), "%s", id.str);
	moves_put("e", RAW, RAW_LEN);
	queue_redrive(&server.r, &(struct queue_move){ .keys = &keys,
	    .entry = &by_value, .change = &change }, text);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 0);
	moves_put("e", RAW, RAW_LEN);			/* an equal letter: who had this record is in an archive */
	queue_redrive(&server.r, &(struct queue_move){ .keys = &keys,
	    .entry = &by_value, .change = &change }, text);
	assert_int_equal(private_redis_answer(&server).integer, 0);
	assert_int_equal(moves_count("e"), 1);
	assert_int_equal(moves_count("i"), 1);
}

TEST(discard_takes_the_record_along, moves_setup)
{
	struct redis_reply id = REDIS(&server, "XADD e:log * a b");
	char text[64];

	snprintf(text, sizeof(text), "%s", id.str);
	moves_put("e", RAW, RAW_LEN);
	queue_discard(&server.r, &keys, &by_value, text);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS_INT(&server, "XLEN e:log"), 0);
	moves_put("e", RAW, RAW_LEN);			/* an equal letter: who had this record was deleted by another command */
	queue_discard(&server.r, &keys, &by_value, text);
	assert_int_equal(private_redis_answer(&server).integer, -1);
	assert_int_equal(moves_count("e"), 1);
}

UNIT_MAIN(moves_setup_all, moves_teardown_all)
