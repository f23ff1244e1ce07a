/* links: tests/unit/private_redis.c */

/*
 * What a worker believes to lie in a tray, and what really lies there after a doubt: each message is found again, gone,
 * lost, or new to it; and only what was found and is done is deleted later.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/alloc.h"
#include "tests/unit/private_redis.h"
#include "tests/unit/sealed.h"
#include "worker/worker.h"

static struct private_redis server;
static struct conf_queue conf = { .name = (char *)"mail" };
static struct slot slot;
static struct board_queue board;
static struct env env = { .conf = &conf, .slot = &slot, .board = &board };
static struct worker *w;

/* ---- the rest of a worker ---- */

void session_drop(struct worker *worker, const struct redis_reply *error, int64_t now_ms)
{
	(void)worker, (void)error, (void)now_ms;
	fail();
}

void session_renew_incarnation(struct worker *worker, const char *why)
{
	(void)why;
	worker->session.registered = false;
}

void session_report_error(struct worker *worker, const char *what, const struct redis_reply *error)
{
	(void)worker, (void)what, (void)error;
}

void session_clear_error(struct worker *worker)
{
	(void)worker;
}

void session_expect(struct worker *worker, enum answer answer, int tray, int item, int64_t due_ms)
{
	(void)worker, (void)answer, (void)tray, (void)item, (void)due_ms;
}

void session_adopted(struct worker *worker)
{
	worker->session.registered = true;
}

void settle_hand_back(struct worker *worker, struct place p, enum settle_back how)
{
	(void)worker, (void)p, (void)how;
}

static int set_aside;

void settle_set_aside(struct worker *worker, struct place p, const char *error)
{
	(void)error;
	set_aside++;
	tray_move(&worker->trays, p, MOVE_ASIDE);
}

void fetcher_received(struct worker *worker, size_t len)
{
	(void)worker, (void)len;
}

void fence_claim_lost(struct fence *f)
{
	f->claim_gone = true;
}

void history_done(struct worker *worker, int tray)
{
	queue_done(&server.r, &worker->session.owner, tray);
}

void history_done_one(struct worker *worker, struct place p, const struct queue_entry *entry)
{
	(void)worker, (void)p, (void)entry;
}

void history_answer(struct worker *worker, const struct redis_reply *reply)
{
	(void)worker, (void)reply;
}

/* ---- */

static int setup_all(void **state)
{
	(void)state;
	private_redis_start(&server, false);
	return 0;
}

static int teardown_all(void **state)
{
	(void)state;
	private_redis_stop(&server);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	REDIS(&server, "FLUSHALL");
	w = alloc_zero(1, sizeof(*w));
	w->env = &env;
	tray_init(&w->trays, &env.keys);
	memset(&slot, 0, sizeof(slot));
	queue_keys_init(&env.keys, "mail", "i", "t", "e");
	queue_owner_init(&w->session.owner, &w->env->keys, "n.00000000000000b0.4.1", 30000);
	w->adoption.server = w->adoption.server_now = (struct redis_identity){ "a run", "a history" };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tray_free_all(&w->trays);
	queue_owner_free(&w->session.owner);
	queue_keys_free(&env.keys);
	free(w);
	return 0;
}

/*
 * A tray as a string: a letter and a state for each message, oldest first. w waiting, r running, d done, m its move was sent, u it
 * was not sent yet, g gone. Afterwards also: l running and lost, W waiting and told that it may have run before.
 */
static void become(struct place p, char c)
{
	if (c == 'r' || c == 'd')
		tray_start(&w->trays, p);
	if (c == 'd')
		tray_done(&w->trays, p, 0, 0);
	if (c == 'm' || c == 'u')
		tray_move(&w->trays, p, MOVE_RETRY);
	if (c == 'm')
		tray_move_sent(&w->trays, p, true);
	if (c == 'g')
		tray_gone(&w->trays, p);
}

static void believe(enum tray_state state, const char *items)
{
	struct tray *t = &w->trays.tray[0];

	for (const char *p = items; *p != '\0'; p += 2) {
		tray_add(&w->trays, 0, p, 1, false);
		become((struct place){ 0, t->n - 1 }, p[1]);
	}
	if (t->n > 0)
		tray_filled(&w->trays, 0);
	t->state = state;
}

static const char *believed(void)
{
	static char out[64];
	const struct tray *t = &w->trays.tray[0];
	char *p = out;

	for (int i = 0; i < t->n; i++) {
		const struct item *item = &t->items[i];

		*p++ = tray_raw(t, item)[0];
		*p++ = item->state == ITEM_WAITING ? item->again ? 'W' : 'w' : item->state == ITEM_RUNNING ? item->lost ? 'l' : 'r'
		     : item->state == ITEM_DONE ? 'd' : item->state == ITEM_GONE ? 'g' : item->sent ? 'm' : 'u';
	}
	*p = '\0';
	return out;
}

static uint64_t lost(void)
{
	return atomic_load(&slot.counters[COUNT_CLAIM_LOST]);
}

static void adopt_list(void)
{
	struct redis_reply reply;

	queue_list(&server.r, w->session.owner.trays[0], 0, -1);
	reply = private_redis_answer(&server);
	adopt_answer(w, 0, &reply, 0);
}

/* there: letters, oldest first */
static void adopt(const char *there)
{
	for (const char *p = there; *p != '\0'; p++)
		REDIS(&server, "LPUSH %s %b", w->session.owner.trays[0], p, (size_t)1);
	adopt_list();
}

static const struct {
	const char *what;
	enum tray_state state;
	bool sent;			/* DELETING */
	int unanswered;			/* FETCHING */
	const char *before, *there, *after;
	enum tray_state then;
	uint64_t lost;
} cases[] = {
	{ "nothing happened", TRAY_FILLED, false, 0, "adbrcw", "abc", "adbrcw", TRAY_FILLED, 0 },
	{ "another took all", TRAY_FILLED, false, 0, "adbrcw", "", "agblcg", TRAY_FILLED, 3 },
	{ "a move worked", TRAY_FILLED, false, 0, "ambr", "b", "agbr", TRAY_FILLED, 0 },
	{ "a move did not", TRAY_FILLED, false, 0, "ambr", "ab", "aubr", TRAY_FILLED, 0 },
	{ "all of it was acknowledged", TRAY_DELETING, true, 0, "adbd", "", "", TRAY_EMPTY, 0 },
	{ "it was not", TRAY_DELETING, true, 0, "adbd", "ab", "adbd", TRAY_DELETING, 0 },
	{ "it was never asked to be", TRAY_DELETING, false, 0, "adbd", "ab", "adbd", TRAY_DELETING, 0 },
	{ "another took it", TRAY_DELETING, false, 0, "adbd", "", "", TRAY_EMPTY, 2 },
	{ "a move was undone, with an acknowledgement under way", TRAY_DELETING, true, 0, "agbd", "ab", "agbdaW", TRAY_FILLED, 0 },
	{ "the same, and what was done is not there any more", TRAY_DELETING, true, 0, "agbd", "a", "agbgaW", TRAY_FILLED, 0 },
	{ "the same, with the acknowledgement not sent", TRAY_DELETING, false, 0, "agbd", "a", "agbgaW", TRAY_FILLED, 1 },
	{ "one of an earlier filling, with an acknowledgement under way", TRAY_DELETING, true, 0, "bd", "ab", "bdaW", TRAY_FILLED, 0 },
	{ "only that", TRAY_DELETING, true, 0, "bd", "a", "bgaW", TRAY_FILLED, 0 },
	{ "its equal", TRAY_DELETING, true, 0, "agad", "aa", "agadaW", TRAY_FILLED, 0 },
	{ "a move was undone beside what runs", TRAY_FILLED, false, 0, "agbrcw", "abc", "agbrcwaW", TRAY_FILLED, 0 },
	{ "of two that are equal", TRAY_FILLED, false, 0, "agar", "aa", "agaraW", TRAY_FILLED, 0 },
	{ "a move is in doubt, and one of its equal was undone", TRAY_FILLED, false, 0, "agam", "aa", "agauaW", TRAY_FILLED, 0 },
	{ "what was fetched, answer lost", TRAY_FETCHING, false, 2, "", "ab", "awbw", TRAY_FILLED, 0 },
	{ "some answers were not lost", TRAY_FETCHING, false, 1, "aw", "ab", "awbw", TRAY_FILLED, 0 },
	{ "an older one came back, too", TRAY_FETCHING, false, 1, "", "ab", "aWbw", TRAY_FILLED, 0 },
	{ "one came back where nothing was asked for", TRAY_EMPTY, false, 0, "", "a", "aW", TRAY_FILLED, 0 },
	{ "nothing did", TRAY_EMPTY, false, 0, "", "", "", TRAY_EMPTY, 0 },
};

static void a_tray_is_held_against_what_is_there(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		print_message("  %s\n", cases[i].what);
		believe(cases[i].state, cases[i].before);
		w->trays.tray[0].sent = cases[i].sent;
		w->trays.tray[0].asked = cases[i].unanswered;
		adopt(cases[i].there);
		assert_string_equal(believed(), cases[i].after);
		assert_int_equal(w->trays.tray[0].state, cases[i].then);
		assert_int_equal(lost(), cases[i].lost);
		assert_false(w->trays.tray[0].sent);
		assert_int_equal(w->trays.tray[0].mixed, strchr(cases[i].after, 'W') != NULL);
		teardown(state);
		setup(state);
	}
}

/* The message that a fetch would explain may be one that was done: the server restarted from an older copy, was promoted, or tells nothing. */
static void on_another_server_what_was_fetched_may_have_come_back(void **state)
{
	static const struct redis_identity others[] = { { "another run", "a history" }, { "a run", "another history" }, { "", "" } };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		believe(TRAY_FETCHING, "aw");
		w->trays.tray[0].asked = 2;
		w->trays.tray[0].answered = 1;
		w->adoption.server_now = others[i];
		adopt("ab");
		assert_string_equal(believed(), "awbW");
		assert_false(w->trays.tray[0].mixed);
		teardown(state);
		setup(state);
	}
}

/* What it does next takes nothing but what is done. */
static void what_came_back_is_not_deleted(void **state)
{
	(void)state;
	believe(TRAY_DELETING, "agbd");
	w->trays.tray[0].sent = true;
	adopt("ab");
	w->session.redis.state = REDIS_READY;
	w->session.registered = true;
	mover_tick(w, 0);
	assert_false(w->trays.tray[0].sent);
	tray_start(&w->trays, (struct place){ 0, 2 });
	tray_done(&w->trays, (struct place){ 0, 2 }, 0, 0);
	tray_close(&w->trays, 0);
	mover_tick(w, 0);
	assert_true(w->trays.tray[0].sent);
	private_redis_answer(&server);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s", w->session.owner.trays[0]), 0);
}

/* Its handler reads it from there until it ends, however much comes back beside it meanwhile. */
static void what_runs_stays_where_it_is(void **state)
{
	struct tray *t = &w->trays.tray[0];
	char there[201] = "a";
	const char *runs;

	(void)state;
	memset(there + 1, 'b', sizeof(there) - 2);
	believe(TRAY_FILLED, "ar");
	runs = tray_raw(t, &t->items[0]);
	adopt(there);
	assert_int_equal(t->n, sizeof(there) - 1);
	assert_int_equal(t->noutgrown, 1);
	assert_ptr_equal(t->outgrown[0].data, runs);
	assert_string_equal(runs, "a");
	for (int i = 0; i < t->n; i++)
		assert_string_equal(tray_raw(t, &t->items[i]), i == 0 ? "a" : "b");
	tray_empty(&w->trays, 0);
	assert_int_equal(t->noutgrown, 0);
}

/* It may be ours: no message of the tray starts before the secrets were read again. */
static void a_line_sealed_by_nobody_we_know_waits_for_the_secrets(void **state)
{
	static const char line[] = "quredis/1 w=0000000000000001 crashes=1\na";
	struct seal_secrets other = { .n = 1 };
	struct message_keys lines = { .queue = w->env->keys.ingress, .secrets = &other, .headers = true };
	struct buffer sealed = {0};

	(void)state;
	believe(TRAY_FILLED, "br");
	assert_int_equal(w->trays.tray[0].notes, NOTES_KNOWN);
	sealed_append(&sealed, &lines, line, strlen(line));
	REDIS(&server, "RPUSH %s b %b", w->session.owner.trays[0], sealed.data, sealed.len);
	adopt_list();
	assert_int_equal(w->trays.tray[0].notes, NOTES_WANTED);
	assert_true(w->trays.tray[0].doubtful);
	env.keys.lines.secrets = &other;
	tray_secrets_learnt(&w->trays, 0);
	assert_true(w->trays.tray[0].items[1].solo);
	assert_int_equal(w->trays.tray[0].solos, 1);
	assert_false(w->trays.tray[0].doubtful);
	buffer_free(&sealed);
}

/* Redis counted other moves than we know of: the tray is not deleted, and looked into under a new name. */
static void a_refused_acknowledgement_is_a_doubt(void **state)
{
	struct redis_reply reply = { .type = REDIS_INTEGER, .integer = -1 };

	(void)state;
	believe(TRAY_DELETING, "agbd");
	w->trays.tray[0].sent = w->session.registered = true;
	mover_delete_answer(w, 0, &reply, 0);
	assert_false(w->session.registered);
	assert_int_equal(w->trays.tray[0].state, TRAY_DELETING);
	assert_string_equal(believed(), "agbd");
	adopt("ab");
	assert_string_equal(believed(), "agbdaW");
	assert_int_equal(lost(), 0);
}

/* Redis refused the moves, then went back in time or another owner took the messages: nothing is left to be asked for again. */
static void a_refused_move_that_is_gone_holds_nothing_up(void **state)
{
	static const struct redis_reply readonly = { .type = REDIS_ERROR, .str = (char *)"READONLY", .len = 8 };

	(void)state;
	believe(TRAY_FILLED, "ambm");
	for (int i = 0; i < 2; i++)
		mover_answer(w, (struct place){ 0, i }, &readonly, 0);
	assert_int_equal(w->mover.retry.errors, 1);
	adopt("b");
	assert_int_equal(w->mover.retry.errors, 1);
	REDIS(&server, "DEL %s", w->session.owner.trays[0]);
	adopt("");
	assert_int_equal(w->trays.refusals, 0);
	assert_int_equal(w->mover.retry.errors, 0);

	believe(TRAY_DELETING, "ad");
	w->trays.tray[0].sent = true;
	mover_delete_answer(w, 0, &readonly, 0);
	assert_int_equal(w->mover.retry.errors, 1);
	adopt("");
	assert_int_equal(w->mover.retry.errors, 0);
}

/* Redis as a whole may refuse for as long as it likes. What is done never leaves unacknowledged. */
static void what_is_refused_too_often_is_set_aside(void **state)
{
	static const char *const of_redis[] = { "READONLY x", "OOM x", "MISCONF x", "BUSY x", "LOADING x" };
	static const char *const of_the_message[] = { "WRONGTYPE x", "NOPERM x", "ERR a script failed" };
	struct redis_reply refusal = { .type = REDIS_ERROR }, moved = { .type = REDIS_INTEGER, .integer = 1 };
	struct place first = { 0, 0 }, second = { 0, 1 }, third = { 0, 2 };

	(void)state;
	believe(TRAY_FILLED, "amamamam");
	set_aside = 0;
	for (int i = 0; i < 4; i++)
		w->trays.tray[0].items[i].move = i == 3 ? MOVE_DONE : MOVE_RETRY;
	for (int i = 0; i < 5 * MOVE_ATTEMPTS; i++) {
		refusal.str = (char *)(uintptr_t)of_redis[i % 5];
		mover_answer(w, first, &refusal, 0);
	}
	assert_int_equal(set_aside, 0);
	for (int i = 0; i < MOVE_ATTEMPTS; i++) {
		assert_int_equal(set_aside, 0);
		refusal.str = (char *)(uintptr_t)of_the_message[i % 3];
		mover_answer(w, first, &refusal, 0);
		mover_answer(w, (struct place){ 0, 3 }, &refusal, 0);
	}
	assert_int_equal(set_aside, 1);
	mover_answer(w, first, &refusal, 0);		/* that is refused, too */
	assert_int_equal(set_aside, 1);
	mover_answer(w, first, &moved, 0);
	assert_int_equal(w->trays.tray[0].items[0].state, ITEM_GONE);
	mover_answer(w, second, &refusal, 0);		/* the next one of the same fate */
	assert_int_equal(set_aside, 2);
	w->trays.tray[0].items[2].move = MOVE_RETRY;
	w->mover.hopeless[MOVE_RETRY] = true;
	mover_answer(w, third, &moved, 0);
	assert_false(w->mover.hopeless[MOVE_RETRY]);
	w->mover.hopeless[MOVE_RETRY] = false;
}

static void what_leaves_a_tray_alive_is_counted(void **state)
{
	struct redis_reply reply = { .type = REDIS_INTEGER, .integer = 1 };
	static const int64_t counted[] = { [MOVE_DONE] = 0, [MOVE_RETRY] = 1, [MOVE_ESCAPE] = 2, [MOVE_HAND_BACK] = 3, [MOVE_PUT_OFF] = 4,
		[MOVE_ASIDE] = 5 };

	(void)state;
	believe(TRAY_FILLED, "amamamamamam");
	for (int i = 0; i < MOVES; i++) {
		struct outcome *o = alloc_zero(1, sizeof(*o));

		w->trays.tray[0].items[i].outcome = o;
		o->record.error_class = "HandlerExit";
		w->trays.tray[0].items[i].move = (enum move)i;
		mover_answer(w, (struct place){ 0, i }, &reply, 0);
		assert_int_equal(w->session.owner.moved[0], counted[i]);
		assert_int_equal(w->session.owner.moved[1], 0);
	}
}

/* The worker asks twice a turn whether a hand-back waits to be sent. In a tray in which nothing moves it must not read all messages. */
static void a_tray_without_moves_is_not_searched(void **state)
{
	struct tray *t = &w->trays.tray[0];
	struct item *items;

	(void)state;
	believe(TRAY_FILLED, "adbrcw");
	items = t->items;
	t->items = NULL;		/* a read of an item crashes */
	assert_false(mover_hand_back_waits(w));
	t->items = items;
	tray_move(&w->trays, (struct place){ 0, 2 }, MOVE_HAND_BACK);
	assert_true(mover_hand_back_waits(w));
	items[2].refused = true;
	assert_false(mover_hand_back_waits(w));
	items[2].refused = false;
	items[2].sent = 1;
	assert_false(mover_hand_back_waits(w));
}

/* A batch of about 1 MiB follows another: its tray keeps the memory. When the worker waits for a message, it frees the memory. */
static void an_empty_tray_keeps_the_memory_of_a_batch(void **state)
{
	static const char payload[16384];
	struct tray *t = &w->trays.tray[0];
	const char *memory;

	(void)state;
	for (int i = 0; i < 64; i++)
		tray_add(&w->trays, 0, payload, sizeof(payload), false);
	tray_filled(&w->trays, 0);
	memory = t->bytes.data;
	tray_empty(&w->trays, 0);
	assert_ptr_equal(t->bytes.data, memory);
	tray_add(&w->trays, 0, payload, sizeof(payload), false);
	tray_filled(&w->trays, 0);
	tray_free_memory(&w->trays);
	assert_ptr_equal(t->bytes.data, memory);	/* a message lies there */
	tray_empty(&w->trays, 0);
	tray_free_memory(&w->trays);
	assert_int_equal(t->bytes.cap, 0);

	tray_add(&w->trays, 0, payload, sizeof(payload), false);
	tray_filled(&w->trays, 0);
	tray_empty(&w->trays, 0);
	tray_free_memory(&w->trays);
	assert_true(t->bytes.cap > 0);			/* it is small */
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_tray_is_held_against_what_is_there),
		T(on_another_server_what_was_fetched_may_have_come_back),
		T(what_came_back_is_not_deleted),
		T(what_runs_stays_where_it_is),
		T(a_line_sealed_by_nobody_we_know_waits_for_the_secrets),
		T(a_refused_acknowledgement_is_a_doubt),
		T(a_refused_move_that_is_gone_holds_nothing_up),
		T(what_is_refused_too_often_is_set_aside),
		T(what_leaves_a_tray_alive_is_counted),
		T(a_tray_without_moves_is_not_searched),
		T(an_empty_tray_keeps_the_memory_of_a_batch),
	};

	return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
