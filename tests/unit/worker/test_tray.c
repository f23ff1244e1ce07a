/* Trays and their messages: which changes of state are legal, what is counted, and that each message is parsed once. */
#include <sys/wait.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "common/base/base.h"
#include "tests/unit/sealed.h"
#include "tests/unit/unit.h"
#include "worker/tray.h"
#include "worker/tray_find.h"

#define P(i) ((struct place){ 0, i })

static struct queue_keys keys;
static struct seal_secrets secrets = { .n = 1 };
static struct trays *ts;

static int setup(void **state)
{
	(void)state;
	queue_keys_init(&keys, NULL, "mail", "i", "t", "e");
	keys.lines.secrets = &secrets;
	ts = alloc_zero(1, sizeof(*ts));
	tray_init(ts, &keys);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tray_free_all(ts);
	free(ts);
	queue_keys_free(&keys);
	return 0;
}

static void add(const char *raw)
{
	tray_add(ts, 0, raw, strlen(raw), false);
}

static void add_wrapped(const char *line)
{
	struct buffer sealed = {0};

	sealed_append(&sealed, &keys.lines, line, strlen(line));
	tray_add(ts, 0, sealed.data, sealed.len, false);
	buffer_free(&sealed);
}

/* ---- states ---- */

static void bring_item_to(enum item_state state)
{
	static const char *const ways[ITEM_STATES] = { "", "r", "rd", "m", "g" };

	add("a");
	for (const char *way = ways[state]; *way != '\0'; way++) {
		if (*way == 'r')
			tray_start(ts, P(0));
		else if (*way == 'd')
			tray_done(ts, P(0), 0, 0);
		else if (*way == 'm')
			tray_move(ts, P(0), MOVE_RETRY);
		else
			tray_gone(ts, P(0));
	}
	assert_int_equal(tray_item(ts, P(0))->state, state);
}

static void change_item_to(enum item_state to)
{
	switch (to) {
	case ITEM_WAITING:
		tray_unstart(ts, P(0));
		break;
	case ITEM_RUNNING:
		tray_start(ts, P(0));
		break;
	case ITEM_DONE:
		tray_done(ts, P(0), 0, 0);
		break;
	case ITEM_MOVING:
		tray_move(ts, P(0), MOVE_RETRY);
		break;
	default:
		tray_gone(ts, P(0));
	}
}

static void change_tray_to(enum tray_state to)
{
	switch (to) {
	case TRAY_EMPTY:
		tray_empty(ts, 0);
		break;
	case TRAY_FETCHING:
		tray_ask(ts, 0, 1);
		break;
	case TRAY_FILLED:
		tray_filled(ts, 0);
		break;
	default:
		tray_close(ts, 0);
	}
}

/* Whether the process survives it. */
static bool is_legal(void (*change)(int to), int to)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		close(STDERR_FILENO);		/* the message of assert() */
		change(to);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status);
}

static void change_item(int to)
{
	change_item_to((enum item_state)to);
}

static void change_tray(int to)
{
	change_tray_to((enum tray_state)to);
}

TEST(an_illegal_change_of_a_message_aborts, setup, teardown)
{
	/* a column for each new state: WAITING RUNNING DONE MOVING GONE */
	static const char *const legal[ITEM_STATES] = { ".x.xx", "x.xxx", "...xx", "...xx", "....." };

	for (int from = 0; from < ITEM_STATES; from++)
		for (int to = 0; to < ITEM_STATES; to++) {
			bring_item_to((enum item_state)from);
			assert_int_equal(is_legal(change_item, to), legal[from][to] == 'x');
			teardown(state);
			setup(state);
		}
}

static void bring_tray_to(enum tray_state state)
{
	if (state == TRAY_EMPTY)
		return;
	tray_ask(ts, 0, 1);
	add("a");
	if (state == TRAY_FETCHING)
		return;
	tray_filled(ts, 0);
	tray_start(ts, P(0));
	tray_done(ts, P(0), 0, 0);
	if (state == TRAY_DELETING)
		tray_close(ts, 0);
	assert_int_equal(ts->tray[0].state, state);
}

TEST(an_illegal_change_of_a_tray_aborts, setup, teardown)
{
	/* EMPTY FETCHING FILLED; DELETING comes from tray_close(), which does nothing in other states */
	static const char *const legal[TRAY_STATES] = { ".xx", "..x", "xx.", "x.x" };

	for (int from = 0; from < TRAY_STATES; from++)
		for (int to = 0; to < TRAY_DELETING; to++) {
			bring_tray_to((enum tray_state)from);
			assert_int_equal(is_legal(change_tray, to), legal[from][to] == 'x');
			teardown(state);
			setup(state);
		}
}

TEST(a_tray_closes_when_nothing_is_left_to_do, setup, teardown)
{
	tray_ask(ts, 0, 3);
	add("a");
	add("b");
	assert_false(tray_answered(ts, 0));
	assert_false(tray_answered(ts, 0));
	assert_true(tray_answered(ts, 0));
	tray_filled(ts, 0);
	tray_start(ts, P(0));
	tray_move(ts, P(1), MOVE_HAND_BACK);
	tray_close(ts, 0);
	assert_int_equal(ts->tray[0].state, TRAY_FILLED);	/* one runs, one moves */
	tray_done(ts, P(0), 0, 0);
	tray_close(ts, 0);
	assert_int_equal(ts->tray[0].state, TRAY_FILLED);
	tray_gone(ts, P(1));
	tray_close(ts, 0);
	assert_int_equal(ts->tray[0].state, TRAY_DELETING);
	assert_false(tray_hold_nothing(ts));
	tray_empty(ts, 0);
	assert_true(tray_all_empty(ts) && tray_hold_nothing(ts));
}

TEST(a_fetch_that_brought_nothing_empties_its_tray, setup, teardown)
{
	tray_ask(ts, 0, 1);
	assert_true(tray_fetching(ts));
	assert_true(tray_answered(ts, 0));
	tray_filled(ts, 0);
	assert_true(tray_all_empty(ts) && !tray_fetching(ts));
}

/* ---- trays that take more while their messages run ---- */

static void fill_and_run(int tray, int n)
{
	tray_ask(ts, tray, n);
	for (int i = 0; i < n; i++)
		tray_add(ts, tray, "m", 1, false);
	tray_filled(ts, tray);
	for (int i = 0; i < n; i++)
		tray_start(ts, (struct place){ tray, i });
}

TEST(a_tray_is_open_only_while_messages_run_in_all_and_none_waits, setup, teardown)
{
	fill_and_run(0, 3);
	fill_and_run(1, 2);
	assert_int_equal(tray_find_open(ts, 1), -1);		/* one is empty */
	fill_and_run(2, 4);
	assert_int_equal(tray_find_open(ts, 1), 1);
	assert_int_equal(tray_find_open(ts, BATCH_MAX - 2), 1);
	assert_int_equal(tray_find_open(ts, BATCH_MAX - 1), -1);
	tray_unstart(ts, (struct place){ 2, 3 });
	assert_int_equal(tray_find_open(ts, 1), -1);		/* one waits */
	tray_start(ts, (struct place){ 2, 3 });
	for (int i = 0; i < 2; i++)
		tray_move(ts, (struct place){ 1, i }, MOVE_DONE);
	assert_int_equal(tray_find_open(ts, 1), 0);		/* nothing runs in it: it will be empty soon */
	tray_move(ts, (struct place){ 0, 0 }, MOVE_DONE);
	assert_int_equal(tray_find_open(ts, 1), 2);		/* its move might be in doubt together with the fetch */
	tray_gone(ts, (struct place){ 1, 0 });
	tray_gone(ts, (struct place){ 1, 1 });
	tray_close(ts, 1);
	assert_int_equal(tray_find_open(ts, 1), -1);
}

TEST(a_tray_that_is_never_empty_keeps_its_size, setup, teardown)
{
	struct place last = P(0);
	uint64_t filling;

	fill_and_run(0, 2);
	filling = ts->tray[0].serial;
	for (int i = 0; i < 1000; i++) {
		uint64_t serial = ts->messages;

		tray_ask(ts, 0, 1);
		tray_move(ts, last, MOVE_DONE);
		tray_gone(ts, last);
		add("another");
		tray_answered(ts, 0);
		tray_filled(ts, 0);
		last = tray_find_next(ts);
		tray_start(ts, last);
		assert_true(tray_item(ts, last)->serial > serial);
	}
	assert_int_equal(ts->tray[0].n, 2);
	assert_int_equal(ts->tray[0].count[ITEM_RUNNING], 2);
	assert_int_equal(ts->tray[0].serial, filling);		/* the first message is the oldest of all still */
	assert_string_equal(tray_raw(&ts->tray[0], tray_item(ts, last)), "another");
	assert_string_equal(tray_raw(&ts->tray[0], tray_item(ts, P(1))), "m");
}

/* ---- counts ---- */

TEST(refusals_are_counted_once_each, setup, teardown)
{
	tray_ask(ts, 0, 2);
	add("a");
	add("b");
	tray_filled(ts, 0);
	tray_move(ts, P(0), MOVE_RETRY);
	tray_move(ts, P(1), MOVE_RETRY);
	tray_move_refused(ts, P(0), true);
	tray_move_refused(ts, P(0), true);
	tray_move_refused(ts, P(1), true);
	assert_int_equal(ts->refusals, 2);
	tray_gone(ts, P(0));
	assert_int_equal(ts->refusals, 1);
	tray_move_refused(ts, P(1), false);
	assert_int_equal(ts->refusals, 0);
	for (int i = 1; i <= 300; i++)
		assert_int_equal(tray_count_refusal(ts, P(1)), i < UINT8_MAX ? i : UINT8_MAX);
}

TEST(a_message_that_did_not_start_is_the_next_again, setup, teardown)
{
	tray_ask(ts, 0, 2);
	add("a");
	add("b");
	tray_filled(ts, 0);
	assert_int_equal(tray_find_next(ts).item, 0);
	tray_start(ts, P(0));
	assert_int_equal(tray_find_next(ts).item, 1);
	tray_unstart(ts, P(0));
	assert_int_equal(tray_find_next(ts).item, 0);
	assert_int_equal(tray_count(ts, ITEM_WAITING), 2);
}

/* ---- messages ---- */

TEST(a_message_is_parsed_once, setup, teardown)
{
	struct message *m;

	add_wrapped("quredis/1 w=0000000000000001 attempts=2\nhello");
	assert_non_null(tray_item(ts, P(0))->parsed);	/* when it came, for its wrapper */
	m = tray_message(ts, P(0));
	assert_int_equal(m->wrapper.attempts, 2);
	assert_ptr_equal(tray_message(ts, P(0)), m);
	add("plain");
	assert_null(tray_item(ts, P(1))->parsed);	/* it has no wrapper, and nobody asked */
}

/* Its bytes move when more messages come into the tray. */
TEST(a_parsed_message_follows_its_bytes, setup, teardown)
{
	static const char filler[5000];
	struct message *m;

	add("hello");
	m = tray_message(ts, P(0));
	for (int i = 0; i < 100; i++)
		tray_add(ts, 0, filler, sizeof(filler), false);
	m = tray_message(ts, P(0));
	assert_ptr_equal(m->raw, tray_raw(&ts->tray[0], tray_item(ts, P(0))));
	assert_memory_equal(message_payload(m), "hello", 5);
}

/* A batch of fast messages needs the memory of one. */
TEST(a_message_that_is_done_gives_its_memory_to_the_next, setup, teardown)
{
	struct message *m;

	tray_ask(ts, 0, 2);
	add("a");
	add("b");
	tray_filled(ts, 0);
	m = tray_message(ts, P(0));
	tray_start(ts, P(0));
	tray_done(ts, P(0), 0, 0);
	assert_ptr_equal(tray_message(ts, P(1)), m);
	assert_memory_equal(message_payload(m), "b", 1);
}

TEST(history_still_needs_a_message_that_is_done, setup, teardown)
{
	add("a");
	tray_message(ts, P(0));
	tray_start(ts, P(0));
	tray_done(ts, P(0), 1, 5);
	assert_non_null(tray_item(ts, P(0))->parsed);
}

TEST(a_note_counts_as_if_the_message_had_brought_it, setup, teardown)
{
	const struct wrapper note = { .attempts = 1, .crashes = 1 };

	add("a");
	assert_int_equal(tray_message(ts, P(0))->wrapper.crashes, 0);
	tray_add_note(ts, P(0), &note);
	assert_int_equal(tray_message(ts, P(0))->wrapper.crashes, 1);
	assert_int_equal(ts->tray[0].solos, 1);
	tray_add_note(ts, P(0), &note);
	assert_int_equal(ts->tray[0].solos, 1);
}

TEST(a_message_that_reappeared_may_have_run, setup, teardown)
{
	tray_add(ts, 0, "a", 1, true);
	assert_int_equal(tray_message(ts, P(0))->wrapper.redelivered, 1);
	assert_int_equal(tray_message(ts, P(0))->wrapper.redelivered, 1);
}

/* In a tray that is never empty its item may stay unused for long. */
TEST(a_large_message_that_is_gone_keeps_no_memory, setup, teardown)
{
	static char payload[70000], head[] = "$70000\r\n";
	redisReader *reader = redisReaderCreate();
	redisReply *reply;
	struct redis r = { 0 };
	struct redis_reply large;

	memset(payload, 'a', sizeof(payload));
	redisReaderFeed(reader, head, strlen(head));
	redisReaderFeed(reader, payload, sizeof(payload));
	redisReaderFeed(reader, "\r\n", 2);
	assert_int_equal(redisReaderGetReply(reader, &r.last), REDIS_OK);
	reply = r.last;
	large = (struct redis_reply){ .type = REDIS_STRING, .str = reply->str, .len = reply->len };
	tray_ask(ts, 0, 1);
	assert_memory_equal(tray_raw(&ts->tray[0], tray_add_reply(ts, 0, &r, &large)), payload, sizeof(payload));
	assert_non_null(tray_item(ts, P(0))->kept);
	tray_gone(ts, P(0));
	assert_null(tray_item(ts, P(0))->kept);
	redisReaderFree(reader);
}

/* A batch of about 1 MiB follows another: its tray keeps the memory. When the worker waits for a message, it frees the memory. */
TEST(an_empty_tray_keeps_the_memory_of_a_batch, setup, teardown)
{
	static const char payload[16384];
	struct tray *t = &ts->tray[0];
	const char *memory;

	for (int i = 0; i < 64; i++)
		tray_add(ts, 0, payload, sizeof(payload), false);
	tray_filled(ts, 0);
	memory = t->bytes.data;
	tray_empty(ts, 0);
	assert_ptr_equal(t->bytes.data, memory);
	tray_add(ts, 0, payload, sizeof(payload), false);
	tray_filled(ts, 0);
	tray_free_memory(ts);
	assert_ptr_equal(t->bytes.data, memory);	/* a message lies there */
	tray_empty(ts, 0);
	tray_free_memory(ts);
	assert_int_equal(t->bytes.cap, 0);

	tray_add(ts, 0, payload, sizeof(payload), false);
	tray_filled(ts, 0);
	tray_empty(ts, 0);
	tray_free_memory(ts);
	assert_true(t->bytes.cap > 0);			/* it is small */
}

UNIT_MAIN(NULL, NULL)
