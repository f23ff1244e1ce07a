/* links: tests/unit/private_redis.c tests/unit/private_queue.c */

/*
 * What is remembered beside the messages of a shared queue, against a real server: it is written, and forgotten, with the
 * move it belongs to or not at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/admin.h"
#include "common/queue/history.h"
#include "common/queue/notes.h"
#include "common/queue/records.h"
#include "common/queue/waiting.h"
#include "tests/unit/sealed.h"
#include "tests/unit/private_queue.h"
#include "tests/unit/unit.h"

#define RAW "bytes\0and\nmore \xff"
#define RAW_LEN (sizeof(RAW) - 1)
#define TRAY "t:" PRIVATE_OWNER ":0"
#define RESCUE "t:" PRIVATE_OWNER ":rescue"
#define NOTES "quredis:of:i:notes"
#define OTHER "0000000000000000000000000000000000000000"

static struct message message;
static struct buffer nothing_before;
static const struct queue_change change = { &nothing_before, 0 };
static const struct queue_entry entry = { .raw = RAW, .len = RAW_LEN, .at = QUEUE_ANYWHERE };
static struct queue_note note, nothing;

static int setup_all(void **state)
{
	(void)state;
	private_queue_start();
	keys.shared = true;
	message_parse(&message, &keys.lines, RAW, RAW_LEN);
	queue_note_of(&note, &message, &(struct wrapper){ .crashes = 1, .redelivered = 2, .solo = true });
	queue_note_of(&nothing, &message, NULL);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	REDIS(&server, "CONFIG SET maxmemory 0");
	REDIS(&server, "FLUSHALL");
	REDIS(&server, "HSET " NOTES " " OTHER " %s", "solo=1");
	return 0;
}

/* ---- moves that put a message back ---- */

static void hand_back(void)
{
	queue_hand_back(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &entry, .change = &change, .note = &note }, false);
}

static void give_back(void)
{
	queue_return(&server.r, owner.incarnation, &(struct queue_move){ .keys = &keys, .from = RESCUE,
	    .entry = &entry, .change = &change, .note = &note });
}

static const struct back {
	const char *from;
	void (*append)(void);
	const char *removes;		/* the command, for access lists */
	bool placed;			/* names its message by place */
} backs[] = { { TRAY, hand_back, "-lrem", false }, { RESCUE, give_back, "-lrem", true } };
#define EACH_BACK(b) const struct back *b = backs; b < backs + sizeof(backs) / sizeof(backs[0]); b++

static struct redis_reply run(const struct back *b)
{
	b->append();
	return private_redis_answer_or_error(&server);
}

static void assert_note(const char *text)
{
	struct redis_reply reply = REDIS(&server, "HGET " NOTES " %s", note.field);

	if (text == NULL) {
		assert_int_equal(reply.type, REDIS_NIL);
	} else {
		assert_int_equal(reply.type, REDIS_STRING);
		assert_string_equal(reply.str, text);
	}
	assert_string_equal(REDIS(&server, "HGET " NOTES " " OTHER).str, "solo=1");
}

static void put(const char *key)
{
	REDIS(&server, "RPUSH %s %b", key, RAW, RAW_LEN);
}

static void assert_where(const char *from, int64_t n, int64_t waiting)
{
	assert_int_equal(REDIS_INT(&server, "LLEN %s", from), n);
	assert_int_equal(REDIS_INT(&server, "LLEN i"), waiting);
}

TEST(a_note_is_written_with_the_move_and_kept_for_a_week, setup)
{
	for (EACH_BACK(b)) {
		setup(NULL);
		put(b->from);
		assert_int_equal(run(b).integer, 1);
		assert_where(b->from, 0, 1);
		assert_note("crashes=1 redelivered=2 solo=1");
		assert_in_range(REDIS_INT(&server, "PTTL " NOTES), QUEUE_NOTES_KEEP_MS - 60000, QUEUE_NOTES_KEEP_MS);
		assert_int_equal(REDIS(&server, "LINDEX i 0").len, RAW_LEN);
	}
}

/* Whatever was noted before, nothing moves, and that stays. */
static void each_leaves_all_as_it_was(void (*fails)(const struct back *))
{
	for (int before = 0; before < 2; before++)
		for (EACH_BACK(b)) {
			setup(NULL);
			if (before)
				REDIS(&server, "HSET " NOTES " %s %s", note.field, "own=7");
			fails(b);
			assert_where(b->from, 1, 0);
			assert_note(before ? "own=7" : NULL);
		}
}

static void another_is_there(const struct back *b)
{
	REDIS(&server, "RPUSH %s x", b->from);
	assert_int_equal(run(b).integer, b->placed ? QUEUE_CANNOT_TELL : 0);
}

TEST(what_did_not_move_is_not_noted, setup)
{
	each_leaves_all_as_it_was(another_is_there);
}

static void may_not_be_removed(const struct back *b)
{
	put(b->from);
	REDIS(&server, "ACL SETUSER default +@all %s", b->removes);
	assert_int_equal(run(b).type, REDIS_ERROR);
	REDIS(&server, "ACL SETUSER default +@all");
}

/* Else it would be charged again at the next try. */
TEST(what_is_refused_is_noted_as_before, setup)
{
	each_leaves_all_as_it_was(may_not_be_removed);
}

TEST(without_its_note_nothing_moves, setup)
{
	for (EACH_BACK(b)) {
		setup(NULL);
		put(b->from);
		REDIS(&server, "ACL SETUSER default +@all -hset");
		assert_int_equal(run(b).type, REDIS_ERROR);
		REDIS(&server, "ACL SETUSER default +@all");
		assert_where(b->from, 1, 0);
		assert_note(NULL);
		REDIS(&server, "SET " NOTES " x");
		assert_int_equal(run(b).type, REDIS_ERROR);
		assert_where(b->from, 1, 0);
		REDIS(&server, "DEL " NOTES);
		assert_int_equal(run(b).integer, 1);
		assert_where(b->from, 0, 1);
	}
}

TEST(notes_are_written_at_maxmemory, setup)
{
	for (EACH_BACK(b)) {
		setup(NULL);
		put(b->from);
		REDIS(&server, "CONFIG SET maxmemory 1");
		assert_int_equal(run(b).integer, 1);
		assert_note("crashes=1 redelivered=2 solo=1");
	}
}

/* ---- moves that end it ---- */

static void escape(void)
{
	static const struct record record = { .queue = "mail", .error_class = "HandlerExit", .exit_code = 3, .duration_ms = -1 };
	struct message m = message;

	queue_escape(&server.r, &(struct queue_move){ .keys = &keys, .lease = owner.lease, .lease_ms = owner.lease_ms, .from = TRAY, .count = -1,
	    .entry = &entry, .message = &m, .note = &note, .record = &record });
}

static void done(const struct queue_entry *one)
{
	struct queue_history *h = queue_history_new(1);

	queue_history_forget(h, &message);
	queue_history_done(&server.r, &owner, 0, one, h, 0, "n");
	queue_history_free(h);
}

static void done_all(void)
{
	done(NULL);
}

static void done_one(void)
{
	done(&entry);
}

static void redrive(void)
{
	queue_redrive(&server.r, &(struct queue_move){ .keys = &keys,
	    .entry = &entry, .change = &change, .note = &nothing }, NULL);
}

static const struct back ends[] = { { .from = TRAY, .append = escape }, { .from = TRAY, .append = done_all },
	{ .from = TRAY, .append = done_one }, { .from = "e", .append = redrive } };

TEST(what_is_over_is_forgotten, setup)
{
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		setup(NULL);
		REDIS(&server, "HSET %s %s 0", owner.lease, TRAY);
		REDIS(&server, "HSET " NOTES " %s crashes=1", note.field);
		put(ends[i].from);
		assert_int_equal(run(&ends[i]).integer, 1);
		assert_int_equal(REDIS_INT(&server, "LLEN %s", ends[i].from), 0);
		assert_note(NULL);
		assert_int_equal(REDIS_INT(&server, "EXISTS quredis:of:i:done"), 0);
	}
}

/* Another has it: what is known of it is his to know. */
TEST(what_was_another_s_is_not_forgotten, setup)
{
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		setup(NULL);
		REDIS(&server, "HSET %s %s 0", owner.lease, TRAY);
		REDIS(&server, "HSET " NOTES " %s crashes=1", note.field);
		assert_int_equal(run(&ends[i]).integer, 0);
		assert_note("crashes=1");
	}
}

TEST(history_and_notes_together, setup)
{
	struct queue_history *h = queue_history_new(2);
	struct message m = message;

	REDIS(&server, "HSET " NOTES " %s crashes=1", note.field);
	put(TRAY);
	queue_history_add(h, &m, 1700000000000, 5, 100);
	queue_history_forget(h, &m);
	queue_history_add(h, &m, 1700000000001, 6, 100);
	queue_history_done(&server.r, &owner, 0, NULL, h, 10, "n");
	queue_history_free(h);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS_INT(&server, "XLEN quredis:of:i:done"), 2);
	assert_note(NULL);
}

TEST(a_dead_letter_may_be_put_back_with_a_note, setup)
{
	put("e");
	queue_redrive(&server.r, &(struct queue_move){ .keys = &keys,
	    .entry = &entry, .change = &change, .note = &note }, NULL);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_note("crashes=1 redelivered=2 solo=1");
	assert_true(REDIS_INT(&server, "PTTL " NOTES) > 0);
}

/* ---- what goes back ---- */

TEST(what_is_remembered_is_before_a_message_or_beside_it, setup)
{
	static const char line[] = "quredis/1 w=0000000000000001 redelivered=9\n" RAW;
	struct buffer wrapped = {0};
	const struct wrapper w = { .crashes = 1 };
	struct buffer before = {0}, alone = {0};
	struct queue_note n = {0};
	struct queue_keys own = keys;
	struct message m, back;

	sealed_append(&wrapped, &keys.lines, line, sizeof(line) - 1);
	message_parse(&m, &keys.lines, wrapped.data, wrapped.len);
	own.shared = false;
	assert_null(queue_remember(&own, &m, &w, &before, &n));
	buffer_append(&before, m.raw + m.wrapper_len, m.raw_len - m.wrapper_len);
	message_parse(&back, &keys.lines, before.data, before.len);
	assert_int_equal(back.wrapper.crashes, 1);
	assert_int_equal(back.wrapper.redelivered, 0);
	assert_memory_equal(back.raw + back.wrapper_len, RAW, RAW_LEN);
	assert_string_equal(n.field, "");
	assert_ptr_equal(queue_remember(&keys, &m, &w, &alone, &n), &n);
	assert_int_equal(alone.len, 0);
	assert_string_equal(n.field, note.field);
	assert_string_equal(n.text, "crashes=1");
	buffer_free(&before);
	buffer_free(&alone);
	buffer_free(&wrapped);
}

/* ---- reading ---- */

TEST(notes_are_read_by_what_the_producer_pushed, setup)
{
	static const char line[] = "quredis/1 w=0000000000000001 redelivered=9\n" RAW;
	struct queue_bytes asked[] = { { "none", 4 }, { RAW, RAW_LEN }, { NULL, 0 }, { "", 0 }, { "bad", 3 } };
	struct buffer wrapped = {0};
	struct redis_reply answer;
	struct queue_note bad;
	struct wrapper w;
	struct message m;

	sealed_append(&wrapped, &keys.lines, line, sizeof(line) - 1);
	asked[2] = (struct queue_bytes){ wrapped.data, wrapped.len };
	message_parse(&m, &keys.lines, "bad", 3);
	queue_note_of(&bad, &m, NULL);
	REDIS(&server, "HSET " NOTES " %s %s", note.field, note.text);
	REDIS(&server, "HSET " NOTES " %s %s", bad.field, "crashes=many");
	queue_notes(&server.r, &keys, asked, 5);
	buffer_free(&wrapped);
	answer = private_redis_answer(&server);
	assert_int_equal(answer.n, 5);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(queue_note_read(&answer, i, &w), i == 1 || i == 2);
		assert_int_equal(w.crashes, i == 1 || i == 2 ? 1 : 0);
		assert_int_equal(w.redelivered, i == 1 || i == 2 ? 2 : 0);
	}
}

/* What was delayed before the queue was shared; and what a producer made up to look like that. */
TEST(what_is_due_leaves_its_wrapper_behind, setup)
{
	static const char *const delayed[] = { "quredis/1 w=0000000000000001 attempts=1\nquredis/1 id=a\nbody", "as it was",
		"quredis/1 w=not a line of ours", "quredis/1 w=0000000000000002\n", "quredis/1 w=0000000000000003 attempts=1\nforged" };
	static const char *const due[] = { "quredis/1 id=a\nbody", "as it was", "quredis/1 w=not a line of ours", "",
		"quredis/1 w=0000000000000003 attempts=1\nforged" };

	for (int hurried = 0; hurried < 2; hurried++) {
		struct redis_reply first;
		void *kept;

		setup(NULL);
		for (int64_t i = 0; i < 5; i++) {
			struct buffer b = {0};

			if (i == 0 || i == 3)
				sealed_append(&b, &keys.lines, delayed[i], strlen(delayed[i]));
			else
				buffer_append(&b, delayed[i], strlen(delayed[i]));
			REDIS(&server, "ZADD quredis:of:i:delayed %d %b", i + 1, b.data, b.len);
			buffer_free(&b);
		}
		queue_glance_delayed(&server.r, &keys, 0, 3);
		first = private_redis_answer(&server);
		kept = redis_keep(&server.r);
		for (int pass = 0; pass < 2; pass++) {
			/* the last one was not looked at, so it stays */
			queue_due(&server.r, &keys, hurried, 10, &first);
			struct redis_reply moved = private_redis_answer(&server);
			assert_int_equal(moved.n, pass == 0 ? 4 + 1 : 1);	/* and QUEUE_DUE_UNREAD */
			assert_int_equal(REDIS_INT(&server, "ZCARD quredis:of:i:delayed"), pass == 0 ? 1 : 0);
			redis_let_go(kept);
			queue_glance_delayed(&server.r, &keys, 0, 9);
			first = private_redis_answer(&server);
			kept = redis_keep(&server.r);
		}
		redis_let_go(kept);
		for (int64_t i = 0; i < 5; i++)
			assert_string_equal(REDIS(&server, "LINDEX i %d", -1 - i).str, due[i]);
	}
}

TEST(who_is_registered_says_that_it_is_shared, setup)
{
	char *json = queue_registration("lock", "n", 7, 9, 30000, true);
	struct queue_worker *w;
	struct redis_reply all;
	struct queue_keys known;

	REDIS(&server, "HSET t:workers n.00000000000000b0.4.1 %s", json);
	free(json);
	all = REDIS(&server, "HGETALL t:workers");
	assert_int_equal(queue_workers_parse(&all, &w), 1);
	assert_true(w[0].shared && queue_workers_share(w, 1) && !queue_workers_share(w, 0));
	queue_workers_free(w, 1);
	/* marked as dead by a script it still says so */
	queue_mark_dead(&server.r, &keys, "n.00000000000000b0.4.1");
	assert_int_equal(private_redis_answer(&server).integer, 1);
	all = REDIS(&server, "HGETALL t:workers");
	assert_int_equal(queue_workers_parse(&all, &w), 1);
	assert_true(w[0].shared && w[0].died_at_ms > 0);
	queue_workers_free(w, 1);
	queue_register(&server.r, &keys, false);
	private_redis_answer(&server);
	private_redis_answer(&server);
	all = REDIS(&server, "GET quredis:queue:mail");
	assert_string_equal(all.str, "{\"name\":\"mail\",\"ingress\":\"i\",\"transit\":\"t\",\"escape\":\"e\",\"shared\":true}");
	assert_int_equal(queue_registered_parse(&known, NULL, "mail", all.str, all.len), 0);
	assert_true(known.shared);
	queue_keys_free(&known);
}

UNIT_MAIN(setup_all, private_queue_stop)
