/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c */
/* ldflags: -Wl,--wrap=log_write */
/*
 * How messages that are done leave their tray: which write acknowledges them, what it adds to the history, which notes it deletes, and
 * that it removes nothing else, whatever Redis has there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/lone_worker.h"

#define HISTORY "quredis:of:i:done"
#define NOTES "quredis:of:i:notes"
#define SHA1_A "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"
#define SHA1_B "e9d71f5ee7c92d6dc9e92ffdad17b8bd49418f98"
#define DONE_MS INT64_C(1700000000123)

static struct kind { bool shared; int64_t keep; } plain, keeping = { .keep = 10 }, shared = { .shared = true };
static int logged;

void __wrap_log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n);

void __wrap_log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	(void)fields, (void)n;
	if (strcmp(event, "history_failed") != 0)
		return;
	assert_int_equal(level, LOG_LEVEL_WARNING);
	logged++;
}

/* state: the kind of queue */
static int setup(void **state)
{
	const struct kind *kind = *state;

	logged = 0;
	lone_worker_begin(kind->shared);
	lone_worker_connect();
	lone.queue.done.keep = kind->keep;
	lone.queue.done.payload = 100;
	return 0;
}

static const char *tray_key(int tray)
{
	return lone.w->session.owner.trays[tray];
}

/* A message of tray 0, in Redis and here. */
static struct place fetched(const char *raw, size_t len)
{
	struct trays *ts = &lone.w->trays;

	tray_add(ts, 0, raw, len, false);
	REDIS(&lone_server, "LPUSH %s %b", tray_key(0), raw, len);
	if (ts->tray[0].state == TRAY_EMPTY)
		tray_filled(ts, 0);
	return AT(0, ts->tray[0].n - 1);
}

static struct place done(const char *raw, size_t len)
{
	struct place p = fetched(raw, len);

	tray_start(&lone.w->trays, p);
	tray_done(&lone.w->trays, p, DONE_MS, 42);
	return p;
}

/* A message that left the tray by a move; counted: also the lease knows. */
static void moved(const char *raw, bool counted)
{
	tray_gone(&lone.w->trays, fetched(raw, strlen(raw)));
	REDIS(&lone_server, "LPOP %s", tray_key(0));
	queue_owner_count_moved(&lone.w->session.owner, 0);
	if (counted)
		REDIS(&lone_server, "HINCRBY %s %s 1", lone.w->session.owner.lease, tray_key(0));
}

static int64_t left(void)
{
	return REDIS_INT(&lone_server, "LLEN %s", tray_key(0));
}

static int64_t acknowledged(void)
{
	history_done(lone.w, 0);
	return lone_worker_answer().integer;
}

/* Only this message, found by its value. */
static int64_t acknowledged_one(struct place p, const char *raw)
{
	history_done_one(lone.w, p, &(struct queue_entry){ .raw = raw, .len = strlen(raw), .at = QUEUE_ANYWHERE });
	return lone_worker_answer().integer;
}

static int64_t entries(void)
{
	return REDIS_INT(&lone_server, "XLEN " HISTORY);
}

/* The value of a field of the newest entry. */
static const char *field(const char *name)
{
	static char value[256];
	struct redis_reply all = REDIS(&lone_server, "XREVRANGE " HISTORY " + - COUNT 1"), entry = redis_element(&all, 0), fields = redis_element(&entry, 1);

	for (size_t i = 0; i + 1 < fields.n; i += 2)
		if (strcmp(redis_element(&fields, i).str, name) == 0) {
			snprintf(value, sizeof(value), "%s", redis_element(&fields, i + 1).str);
			return value;
		}
	fail_msg("no field %s", name);
	return NULL;
}

/* ---- without a history ---- */

/* Most queues have neither history nor notes: for them no script runs for each batch. */
TEST(a_tray_of_done_messages_is_deleted_without_a_script, setup, lone_worker_teardown, &plain)
{
	REDIS(&lone_server, "CONFIG RESETSTAT");
	done("a", 1);
	done("b", 1);
	assert_int_equal(acknowledged(), 1);
	assert_int_equal(left(), 0);
	assert_null(strstr(REDIS(&lone_server, "INFO commandstats").str, "evalsha"));
	assert_int_equal(entries(), 0);
}

TEST(a_tray_that_is_missing_is_a_lost_claim, setup, lone_worker_teardown, &plain)
{
	done("a", 1);
	REDIS(&lone_server, "DEL %s", tray_key(0));
	assert_int_equal(acknowledged(), 0);
}

TEST(after_a_move_the_tray_is_deleted_if_redis_counted_it_too, setup, lone_worker_teardown, &plain)
{
	moved("x", true);
	done("a", 1);
	done("b", 1);
	assert_int_equal(acknowledged(), 1);
	assert_int_equal(left(), 0);
}

/* Redis went back in time: x may lie in the tray again. */
TEST(after_a_move_that_redis_does_not_know_nothing_is_deleted, setup, lone_worker_teardown, &plain)
{
	moved("x", false);
	done("a", 1);
	done("b", 1);
	REDIS(&lone_server, "RPUSH %s x", tray_key(0));
	assert_int_equal(acknowledged(), QUEUE_CANNOT_TELL);
	assert_int_equal(left(), 3);
}

TEST(the_last_message_beside_moved_ones_is_removed_by_its_value, setup, lone_worker_teardown, &plain)
{
	moved("x", false);
	done("a", 1);
	REDIS(&lone_server, "RPUSH %s x", tray_key(0));
	assert_int_equal(acknowledged(), 1);
	assert_int_equal(left(), 1);
	assert_string_equal(REDIS(&lone_server, "LINDEX %s 0", tray_key(0)).str, "x");
}

/* From this size on, comparing the counts is cheaper than sending the message back. */
TEST(a_large_last_message_is_not_sent_back, setup, lone_worker_teardown, &plain)
{
	static char raw[QUEUE_BY_VALUE_MAX + 1];

	memset(raw, 'a', sizeof(raw));
	moved("x", false);
	done(raw, sizeof(raw) - 1);
	assert_int_equal(acknowledged(), 1);
	lone_worker_teardown(state);
	setup(state);
	moved("x", false);
	done(raw, sizeof(raw));
	assert_int_equal(acknowledged(), QUEUE_CANNOT_TELL);
	assert_int_equal(left(), 1);
}

/* Also an equal one, which another producer pushed. */
TEST(one_message_leaves_the_others, setup, lone_worker_teardown, &plain)
{
	struct place p = done("a", 1);

	fetched("b", 1);
	fetched("a", 1);
	assert_int_equal(acknowledged_one(p, "a"), 1);
	assert_int_equal(left(), 2);
	assert_string_equal(REDIS(&lone_server, "LINDEX %s -1", tray_key(0)).str, "b");
	REDIS(&lone_server, "DEL %s", tray_key(0));
	assert_int_equal(acknowledged_one(p, "a"), 0);
}

TEST(one_message_can_be_named_by_its_place, setup, lone_worker_teardown, &plain)
{
	struct queue_entry a = { .raw = "aa", .len = 2, .at = -1, .of = 2, .moved = 1 };
	struct place p = done("aa", 2);

	fetched("bb", 2);
	history_done_one(lone.w, p, &a);
	assert_int_equal(lone_worker_answer().integer, QUEUE_CANNOT_TELL);	/* the lease has counted no move */
	a.moved = 0;
	history_done_one(lone.w, p, &a);
	assert_int_equal(lone_worker_answer().integer, 1);
	assert_int_equal(left(), 1);
}

/* ---- the history ---- */

TEST(each_done_message_gets_an_entry, setup, lone_worker_teardown, &keeping)
{
	static const char header[] = "quredis/1 id=job-1\nbb";

	done("a", 1);
	moved("x", true);
	done(header, strlen(header));
	assert_int_equal(acknowledged(), 1);
	assert_int_equal(left(), 0);
	assert_int_equal(entries(), 2);
	assert_string_equal(field("id"), "job-1");
	assert_string_equal(field("finished_at"), "2023-11-14T22:13:20.123Z");
	assert_string_equal(field("duration_ms"), "42");
	assert_string_equal(field("attempts"), "1");
	assert_string_equal(field("worker"), LONE_INCARNATION);
	assert_string_equal(field("node"), "n");
	assert_string_equal(field("size"), "21");
	assert_string_equal(field("message"), header);
}

TEST(an_entry_has_the_message_of_the_producer, setup, lone_worker_teardown, &keeping)
{
	struct tray *t = &lone.w->trays.tray[0];

	lone_worker_add_sealed(0, "quredis/1 w=00000000000000ab attempts=2\na");
	tray_filled(&lone.w->trays, 0);
	tray_start(&lone.w->trays, AT(0, 0));
	tray_done(&lone.w->trays, AT(0, 0), DONE_MS, 42);
	REDIS(&lone_server, "LPUSH %s %b", tray_key(0), tray_raw(t, &t->items[0]), t->items[0].len);
	assert_int_equal(acknowledged(), 1);
	assert_string_equal(field("message"), "a");
	assert_string_equal(field("size"), "1");
	assert_string_equal(field("sha1"), SHA1_A);
	assert_string_equal(field("attempts"), "3");
}

TEST(a_message_longer_than_done_payload_is_left_out, setup, lone_worker_teardown, &keeping)
{
	static char raw[101];

	memset(raw, 'a', sizeof(raw));
	done(raw, 100);
	acknowledged();
	assert_int_equal(strlen(field("message")), 100);
	tray_gone(&lone.w->trays, AT(0, 0));
	done(raw, 101);
	acknowledged();
	assert_string_equal(field("message"), "");
	assert_string_equal(field("size"), "101");
}

TEST(nothing_that_was_not_acknowledged_gets_into_the_history, setup, lone_worker_teardown, &keeping)
{
	struct place p = done("a", 1);

	REDIS(&lone_server, "DEL %s", tray_key(0));
	assert_int_equal(acknowledged(), 0);
	assert_int_equal(acknowledged_one(p, "a"), 0);
	REDIS(&lone_server, "LPUSH %s a", tray_key(0));
	queue_owner_count_moved(&lone.w->session.owner, 0);
	assert_int_equal(acknowledged(), QUEUE_CANNOT_TELL);
	assert_int_equal(left(), 1);
	assert_int_equal(entries(), 0);
}

TEST(one_message_of_a_tray_gets_its_entry, setup, lone_worker_teardown, &keeping)
{
	struct place p = done("a", 1);

	done("b", 1);
	assert_int_equal(acknowledged_one(p, "a"), 1);
	assert_int_equal(left(), 1);
	assert_int_equal(entries(), 1);
	assert_string_equal(field("sha1"), SHA1_A);
}

/* ---- its errors ---- */

static void answer_2(void)
{
	static const struct redis_reply failed = { .type = REDIS_INTEGER, .integer = 2 };

	history_answer(lone.w, &failed);
}

TEST(a_message_is_acknowledged_although_its_history_cannot_be_written, setup, lone_worker_teardown, &keeping)
{
	struct redis_reply reply;

	REDIS(&lone_server, "SET " HISTORY " x");
	done("a", 1);
	history_done(lone.w, 0);
	reply = lone_worker_answer();
	assert_int_equal(reply.integer, 2);
	assert_int_equal(left(), 0);
	history_answer(lone.w, &reply);
	assert_int_equal(logged, 1);
}

TEST(a_failure_is_logged_again_only_after_a_success, setup, lone_worker_teardown, &keeping)
{
	static const struct redis_reply success = { .type = REDIS_INTEGER, .integer = 1 };

	answer_2();
	answer_2();
	assert_int_equal(logged, 1);
	history_answer(lone.w, &success);
	answer_2();
	assert_int_equal(logged, 2);
}

/* The claim was lost, or the counts differ: the history was not tried. */
TEST(an_answer_that_wrote_no_history_is_no_success, setup, lone_worker_teardown, &keeping)
{
	static const struct redis_reply lost = { .type = REDIS_INTEGER }, doubt = { .type = REDIS_INTEGER, .integer = -1 };

	answer_2();
	history_answer(lone.w, &lost);
	history_answer(lone.w, &doubt);
	answer_2();
	assert_int_equal(logged, 1);
}

TEST(without_a_history_no_failure_is_logged, setup, lone_worker_teardown, &plain)
{
	answer_2();
	assert_int_equal(logged, 0);
}

/* ---- notes ---- */

static struct place noted(const char *raw)
{
	const struct wrapper note = { .redelivered = 1 };
	struct place p = fetched(raw, 1);

	tray_add_note(&lone.w->trays, p, &note);
	return p;
}

TEST(a_note_is_deleted_with_its_message, setup, lone_worker_teardown, &shared)
{
	struct place a, b;

	REDIS(&lone_server, "HSET " NOTES " " SHA1_A " redelivered=1 " SHA1_B " redelivered=1");
	a = noted("a");
	b = noted("b");
	tray_start(&lone.w->trays, a);
	tray_done(&lone.w->trays, a, 0, 0);
	tray_gone(&lone.w->trays, b);		/* it was handed back, with its note */
	REDIS(&lone_server, "LPOP %s", tray_key(0));
	assert_int_equal(acknowledged(), 1);
	assert_int_equal(REDIS_INT(&lone_server, "HEXISTS " NOTES " " SHA1_A), 0);
	assert_int_equal(REDIS_INT(&lone_server, "HEXISTS " NOTES " " SHA1_B), 1);
	assert_int_equal(REDIS_INT(&lone_server, "EXISTS " HISTORY), 0);
}

TEST(a_note_stays_if_its_message_was_not_there, setup, lone_worker_teardown, &shared)
{
	struct place a;

	REDIS(&lone_server, "HSET " NOTES " " SHA1_A " redelivered=1");
	a = noted("a");
	tray_start(&lone.w->trays, a);
	tray_done(&lone.w->trays, a, 0, 0);
	REDIS(&lone_server, "DEL %s", tray_key(0));
	assert_int_equal(acknowledged(), 0);
	assert_int_equal(acknowledged_one(a, "a"), 0);
	assert_int_equal(REDIS_INT(&lone_server, "HLEN " NOTES), 1);
	REDIS(&lone_server, "LPUSH %s a", tray_key(0));
	assert_int_equal(acknowledged_one(a, "a"), 1);
	assert_int_equal(REDIS_INT(&lone_server, "HLEN " NOTES), 0);
}

UNIT_MAIN(lone_worker_start_server, lone_worker_stop_server)
