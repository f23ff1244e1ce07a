/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c */
/*
 * What a worker reads before it starts a message: in a shared queue the notes beside its messages, and in any queue the secrets,
 * if a line before a message has a seal that it cannot verify.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "tests/unit/sealed.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/lone_worker.h"

#define NOTES "quredis:of:i:notes"
#define SECRET "quredis:secret"
#define SHA1_A "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"
#define SHA1_B "e9d71f5ee7c92d6dc9e92ffdad17b8bd49418f98"
#define FORGED "quredis/1 w=00000000000000ab crashes=1 mac=00000000000000000000000000000000\na"

static unsigned char strangers;		/* each test has a secret that this process does not know yet */

static int setup(void **state)
{
	(void)state;
	lone_worker_begin(false);
	lone_worker_connect();
	return 0;
}

static int setup_shared(void **state)
{
	(void)state;
	lone_worker_begin(true);
	lone_worker_connect();
	return 0;
}

static void fill(int tray, const char *a, const char *b)
{
	lone_worker_add(tray, a);
	if (b != NULL)
		lone_worker_add(tray, b);
	tray_filled(&lone.w->trays, tray);
}

/* A message behind a wrapper that another process sealed: its secret is in Redis, and this process does not know it. */
static void fill_sealed_by_stranger(const char *raw)
{
	struct seal_secrets secrets = { .n = 1 };
	struct message_keys keys = { .queue = "i", .secrets = &secrets, .headers = true };
	struct buffer sealed = {0};
	char hex[2 * SEAL_SECRET_BYTES + 1];

	memset(secrets.secret[0], ++strangers, SEAL_SECRET_BYTES);
	for (int i = 0; i < SEAL_SECRET_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", strangers);
	REDIS(&lone_server, "SET " SECRET " %s", hex);
	sealed_append(&sealed, &keys, raw, strlen(raw));
	tray_add(&lone.w->trays, 0, sealed.data, sealed.len, false);
	tray_filled(&lone.w->trays, 0);
	buffer_free(&sealed);
}

static void answer(int64_t now_ms)
{
	struct redis_reply reply = lone_worker_answer();

	if (lone.last.answer == ANSWER_SECRET)
		notes_secret_answer(lone.w, (struct place){ lone.last.tray, 0 }, &reply, now_ms);
	else
		notes_answer(lone.w, (struct place){ lone.last.tray, 0 }, &reply, now_ms);
}

static const struct wrapper *remembered(int tray, int item)
{
	return &tray_message(&lone.w->trays, AT(tray, item))->wrapper;
}

static bool may_start(void)
{
	return tray_find_next(&lone.w->trays).tray != -1;
}

/* ---- notes ---- */

TEST(a_queue_that_is_not_shared_has_no_notes, setup, lone_worker_teardown)
{
	REDIS(&lone_server, "HSET " NOTES " " SHA1_A " crashes=1");
	fill(0, "a", NULL);
	notes_tick(lone.w, 0);
	assert_int_equal(lone.expected, 0);
	assert_false(notes_wanted(lone.w));
	assert_true(may_start());
}

TEST(no_message_of_a_shared_queue_starts_before_its_note_is_known, setup_shared, lone_worker_teardown)
{
	fill(1, "a", NULL);
	assert_true(notes_wanted(lone.w));
	assert_false(may_start());
	notes_tick(lone.w, 40);
	assert_int_equal(lone.last.answer, ANSWER_NOTES);
	assert_int_equal(lone.last.tray, 1);
	assert_int_equal(lone.due_ms, 40 + REDIS_TIMEOUT_MS);
	assert_true(notes_wanted(lone.w));
	assert_false(may_start());
	notes_tick(lone.w, 50);
	assert_int_equal(lone.expected, 1);
	answer(50);
	assert_false(notes_wanted(lone.w));
	assert_true(may_start());
}

TEST(each_message_gets_its_own_note, setup_shared, lone_worker_teardown)
{
	REDIS(&lone_server, "HSET " NOTES " " SHA1_B " %s", "crashes=1 redelivered=2 outages=3");
	fill(0, "a", "b");
	notes_tick(lone.w, 0);
	answer(0);
	assert_int_equal(remembered(0, 0)->crashes, 0);
	assert_null(tray_item(&lone.w->trays, AT(0, 0))->note);
	assert_int_equal(remembered(0, 1)->crashes, 1);
	assert_int_equal(remembered(0, 1)->redelivered, 2);
	assert_int_equal(remembered(0, 1)->outages, 3);
	assert_int_equal(lone.w->trays.tray[0].solos, 1);
}

TEST(equal_messages_share_a_note, setup_shared, lone_worker_teardown)
{
	REDIS(&lone_server, "HSET " NOTES " " SHA1_A " solo=1");
	fill(0, "a", "a");
	notes_tick(lone.w, 0);
	answer(0);
	assert_true(remembered(0, 0)->solo && remembered(0, 1)->solo);
}

/* Any client of Redis may write there. */
TEST(a_note_in_another_form_is_none, setup_shared, lone_worker_teardown)
{
	static const char *const texts[] = { "", "crashes=x", "crashes=1 crashes=2", "crashes=-1", "crashes=1\n", "w=00000000000000ab",
		"crashes=99999999999999999999" };

	for (size_t i = 0; i < nitems(texts); i++) {
		REDIS(&lone_server, "HSET " NOTES " " SHA1_A " %s", texts[i]);
		fill(0, "a", NULL);
		notes_tick(lone.w, 0);
		answer(0);
		assert_int_equal(remembered(0, 0)->crashes, 0);
		assert_true(may_start());
		tray_gone(&lone.w->trays, AT(0, 0));
		tray_close(&lone.w->trays, 0);
	}
	assert_int_equal(lone.reported, 0);
}

/* It was started under an earlier name; its end must charge what its start knew. */
TEST(a_message_that_runs_keeps_the_note_of_its_start, setup_shared, lone_worker_teardown)
{
	fill(0, "a", "b");
	notes_tick(lone.w, 0);
	answer(0);
	tray_start(&lone.w->trays, AT(0, 0));
	REDIS(&lone_server, "HSET " NOTES " " SHA1_A " crashes=1 " SHA1_B " crashes=1");
	tray_set_notes(&lone.w->trays, 0, NOTES_WANTED);
	notes_tick(lone.w, 0);
	answer(0);
	assert_int_equal(remembered(0, 0)->crashes, 0);
	assert_int_equal(remembered(0, 1)->crashes, 1);
}

TEST(each_tray_has_its_own_question, setup_shared, lone_worker_teardown)
{
	struct redis_reply first;

	REDIS(&lone_server, "HSET " NOTES " " SHA1_B " crashes=1");
	fill(0, "a", NULL);
	fill(2, "b", NULL);
	notes_tick(lone.w, 0);
	assert_int_equal(lone.expected, 2);
	first = lone_worker_answer();
	notes_answer(lone.w, (struct place){ 0, 0 }, &first, 0);
	assert_int_equal(lone.w->trays.tray[0].notes, NOTES_KNOWN);
	assert_int_equal(lone.w->trays.tray[2].notes, NOTES_ASKED);
	answer(0);
	assert_int_equal(remembered(2, 0)->crashes, 1);
}

/* ---- errors ---- */

TEST(a_refused_question_is_asked_again_after_a_while, setup_shared, lone_worker_teardown)
{
	int64_t at;

	REDIS(&lone_server, "SET " NOTES " x");
	fill(0, "a", NULL);
	notes_tick(lone.w, 1000);
	answer(1000);
	assert_int_equal(lone.reported, 1);
	assert_string_equal(lone.at, "notes");
	assert_false(may_start());
	at = notes_deadline_ms(lone.w, 1000);
	assert_in_range(at, 1050, 1100);
	notes_tick(lone.w, at - 1);
	assert_int_equal(lone.expected, 1);
	REDIS(&lone_server, "DEL " NOTES);
	notes_tick(lone.w, at);
	assert_int_equal(lone.expected, 2);
	answer(at);
	assert_true(may_start());
	assert_int_equal(lone.cleared, 1);
	assert_int_equal(lone.w->notes.retry.errors, 0);
}

TEST(refusals_in_a_row_wait_at_most_ten_seconds, setup_shared, lone_worker_teardown)
{
	static const struct redis_reply readonly = { .type = REDIS_ERROR, .str = "READONLY", .len = 8 };

	fill(0, "a", NULL);
	for (int i = 0; i < 40; i++) {
		tray_set_notes(&lone.w->trays, 0, NOTES_ASKED);
		notes_answer(lone.w, (struct place){ 0, 0 }, &readonly, 0);
	}
	assert_in_range(lone.w->notes.retry.at_ms, 5000, 10000);
}

TEST(an_answer_for_another_number_of_messages_is_refused, setup_shared, lone_worker_teardown)
{
	struct redis_reply reply;

	fill(0, "a", "b");
	tray_set_notes(&lone.w->trays, 0, NOTES_ASKED);
	reply = REDIS(&lone_server, "HMGET " NOTES " " SHA1_A);
	notes_answer(lone.w, (struct place){ 0, 0 }, &reply, 0);
	assert_int_equal(lone.reported, 1);
	assert_int_equal(lone.w->trays.tray[0].notes, NOTES_WANTED);
}

TEST(success_does_not_clear_an_error_of_a_move, setup_shared, lone_worker_teardown)
{
	fill(0, "a", NULL);
	lone.w->notes.retry.errors = 1;
	lone.w->mover.retry.errors = 1;
	notes_tick(lone.w, 0);
	answer(0);
	assert_int_equal(lone.cleared, 0);
	assert_int_equal(lone.w->notes.retry.errors, 0);
}

TEST(without_an_error_before_success_clears_none, setup_shared, lone_worker_teardown)
{
	fill(0, "a", NULL);
	notes_tick(lone.w, 0);
	answer(0);
	assert_int_equal(lone.cleared, 0);
}

TEST(an_answer_for_a_tray_that_was_handed_back_changes_nothing, setup_shared, lone_worker_teardown)
{
	static const struct redis_reply readonly = { .type = REDIS_ERROR, .str = "READONLY", .len = 8 };

	fill(0, "a", NULL);
	notes_tick(lone.w, 0);
	tray_gone(&lone.w->trays, AT(0, 0));
	tray_close(&lone.w->trays, 0);
	notes_answer(lone.w, (struct place){ 0, 0 }, &readonly, 0);
	notes_secret_answer(lone.w, (struct place){ 0, 0 }, &readonly, 0);
	assert_int_equal(lone.reported, 0);
	assert_false(notes_wanted(lone.w));
}

TEST(a_lost_question_is_asked_again, setup_shared, lone_worker_teardown)
{
	fill(0, "a", NULL);
	fill(1, "b", NULL);
	notes_tick(lone.w, 0);
	tray_set_notes(&lone.w->trays, 1, NOTES_KNOWN);
	notes_lost(lone.w);
	notes_tick(lone.w, 0);
	assert_int_equal(lone.expected, 3);
	assert_int_equal(lone.last.tray, 0);
	assert_int_equal(lone.w->trays.tray[1].notes, NOTES_KNOWN);
}

TEST(nothing_is_asked_without_a_registration, setup_shared, lone_worker_teardown)
{
	fill(0, "a", NULL);
	lone.w->session.registered = false;
	notes_tick(lone.w, 0);
	lone.w->session.registered = true;
	lone.w->session.redis.state = REDIS_OPENING;
	notes_tick(lone.w, 0);
	lone.w->session.redis.state = REDIS_READY;
	assert_int_equal(lone.expected, 0);
}

TEST(only_a_wait_has_a_deadline, setup_shared, lone_worker_teardown)
{
	struct worker *w = lone.w;

	w->notes.retry.at_ms = 1000;
	assert_int_equal(notes_deadline_ms(w, 0), INT64_MAX);		/* nothing is wanted */
	fill(0, "a", NULL);
	assert_int_equal(notes_deadline_ms(w, 999), 1000);
	assert_int_equal(notes_deadline_ms(w, 1000), INT64_MAX);	/* it was asked in this turn */
	w->session.registered = false;
	assert_int_equal(notes_deadline_ms(w, 0), INT64_MAX);
}

/* ---- secrets ---- */

TEST(a_line_sealed_with_a_secret_of_redis_is_a_wrapper, setup, lone_worker_teardown)
{
	fill_sealed_by_stranger("quredis/1 w=00000000000000ab crashes=1\na");
	assert_false(may_start());
	notes_tick(lone.w, 0);
	assert_int_equal(lone.last.answer, ANSWER_SECRET);
	answer(0);
	assert_int_equal(remembered(0, 0)->crashes, 1);
	assert_true(tray_item(&lone.w->trays, AT(0, 0))->solo);
	assert_true(may_start());
}

TEST(a_forged_line_stays_doubtful_when_the_secrets_were_read, setup, lone_worker_teardown)
{
	fill(0, FORGED, NULL);
	assert_false(may_start());
	notes_tick(lone.w, 0);
	answer(0);
	assert_true(may_start());
	assert_int_equal(tray_message(&lone.w->trays, AT(0, 0))->wrapper_len, 0);
	assert_true(tray_message(&lone.w->trays, AT(0, 0))->doubtful);
	assert_int_equal(remembered(0, 0)->crashes, 0);
	notes_tick(lone.w, 0);
	assert_int_equal(lone.expected, 1);
}

/* Its message may be ours. It waits, however long the key is wrong. */
TEST(no_doubtful_message_starts_while_redis_refuses_the_secrets, setup, lone_worker_teardown)
{
	REDIS(&lone_server, "RPUSH " SECRET " x");
	fill(0, FORGED, NULL);
	notes_tick(lone.w, 1000);
	answer(1000);
	assert_int_equal(lone.reported, 1);
	assert_false(may_start());
	assert_in_range(notes_deadline_ms(lone.w, 1000), 1050, 1100);
	REDIS(&lone_server, "DEL " SECRET);
	notes_tick(lone.w, 1100);
	answer(1100);
	assert_true(may_start());
	assert_int_equal(lone.cleared, 1);
}

/* The note belongs to what the producer pushed, so the line must be known first. */
TEST(in_a_shared_queue_the_secrets_are_read_before_the_notes, setup_shared, lone_worker_teardown)
{
	REDIS(&lone_server, "HSET " NOTES " " SHA1_A " redelivered=3");
	fill_sealed_by_stranger("quredis/1 w=00000000000000ab redelivered=1\na");
	notes_tick(lone.w, 0);
	assert_int_equal(lone.last.answer, ANSWER_SECRET);
	answer(0);
	assert_false(may_start());
	notes_tick(lone.w, 0);
	assert_int_equal(lone.last.answer, ANSWER_NOTES);
	answer(0);
	assert_int_equal(remembered(0, 0)->redelivered, 3);
	assert_true(may_start());
}

UNIT_MAIN(lone_worker_start_server, lone_worker_stop_server)
