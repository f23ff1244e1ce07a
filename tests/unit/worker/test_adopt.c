/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c tests/unit/worker/adopt_fixture.c */

/*
 * What a worker believes to lie in a tray, and what really lies there after a doubt: each message is found again, gone,
 * lost, or new to it; and only what was found and is done is deleted later.
 */
#include <string.h>

#include "tests/unit/sealed.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/adopt_fixture.h"

static const struct {
	const char *what;
	enum tray_state state;
	bool sent;			/* DELETING */
	int unanswered;			/* FETCHING */
	const char *before, *there, *after;
	enum tray_state then;
	uint64_t lost;
	bool refilled, robbed;		/* robbed: a sweeper may have taken messages meanwhile */
} cases[] = {
	{ "nothing happened", TRAY_FILLED, false, 0, "adbrcw", "abc", "adbrcw", TRAY_FILLED, 0, false, false },
	{ "another took all", TRAY_FILLED, false, 0, "adbrcw", "", "agblcg", TRAY_FILLED, 3, false, false },
	{ "a move worked", TRAY_FILLED, false, 0, "ambr", "b", "agbr", TRAY_FILLED, 0, false, false },
	{ "a move did not", TRAY_FILLED, false, 0, "ambr", "ab", "aubr", TRAY_FILLED, 0, false, false },
	{ "all of it was acknowledged", TRAY_DELETING, true, 0, "adbd", "", "", TRAY_EMPTY, 0, false, false },
	{ "it was not", TRAY_DELETING, true, 0, "adbd", "ab", "adbd", TRAY_DELETING, 0, false, false },
	{ "it was never asked to be", TRAY_DELETING, false, 0, "adbd", "ab", "adbd", TRAY_DELETING, 0, false, false },
	{ "another took it", TRAY_DELETING, false, 0, "adbd", "", "", TRAY_EMPTY, 2, false, false },
	{ "a move was undone, with an acknowledgement under way", TRAY_DELETING, true, 0, "agbd", "ab", "agbdaW", TRAY_FILLED, 0, false, false },
	{ "the same, and what was done is not there any more", TRAY_DELETING, true, 0, "agbd", "a", "agbgaW", TRAY_FILLED, 0, false, false },
	{ "the same, with the acknowledgement not sent", TRAY_DELETING, false, 0, "agbd", "a", "agbgaW", TRAY_FILLED, 1, false, false },
	{ "one of an earlier filling, with an acknowledgement under way", TRAY_DELETING, true, 0, "bd", "ab", "bdaW", TRAY_FILLED, 0, false, false },
	{ "only that", TRAY_DELETING, true, 0, "bd", "a", "bgaW", TRAY_FILLED, 0, false, false },
	{ "its equal", TRAY_DELETING, true, 0, "agad", "aa", "agadaW", TRAY_FILLED, 0, false, false },
	{ "a move was undone beside what runs", TRAY_FILLED, false, 0, "agbrcw", "abc", "agbrcwaW", TRAY_FILLED, 0, false, false },
	{ "of two that are equal", TRAY_FILLED, false, 0, "agar", "aa", "agaraW", TRAY_FILLED, 0, false, false },
	{ "a move is in doubt, and one of its equal was undone", TRAY_FILLED, false, 0, "agam", "aa", "agauaW", TRAY_FILLED, 0, false, false },
	{ "what was fetched, answer lost", TRAY_FETCHING, false, 2, "", "ab", "awbw", TRAY_FILLED, 0, false, false },
	{ "some answers were not lost", TRAY_FETCHING, false, 1, "aw", "ab", "awbw", TRAY_FILLED, 0, false, false },
	{ "an older one came back, too", TRAY_FETCHING, false, 1, "", "ab", "aWbw", TRAY_FILLED, 0, false, false },
	{ "the same beside what runs", TRAY_FETCHING, false, 2, "ar", "acd", "arcwdw", TRAY_FILLED, 0, true, false },
	{ "the same, and nothing was fetched", TRAY_FETCHING, false, 2, "adbm", "a", "adbg", TRAY_DELETING, 0, true, false },
	{ "an equal one was fetched, and a sweeper took the one that is done", TRAY_FETCHING, false, 1, "ad", "a", "aW", TRAY_FILLED, 1, true, true },
	{ "and the one that runs", TRAY_FETCHING, false, 1, "arbm", "a", "alaW", TRAY_FILLED, 2, true, true },
	{ "the fetch was answered before", TRAY_FILLED, false, 0, "adaw", "a", "aWag", TRAY_FILLED, 2, true, true },
	{ "a sweeper took what runs, with nothing asked for", TRAY_FILLED, false, 0, "arbd", "", "albg", TRAY_FILLED, 2, false, true },
	{ "one came back where nothing was asked for", TRAY_EMPTY, false, 0, "", "a", "aW", TRAY_FILLED, 0, false, false },
	{ "nothing did", TRAY_EMPTY, false, 0, "", "", "", TRAY_EMPTY, 0, false, false },
};

TEST(a_tray_is_held_against_what_is_there, adopt_fixture_setup, adopt_fixture_teardown)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		print_message("  %s\n", cases[i].what);
		adopt_fixture_believe(cases[i].state, cases[i].before);
		w->trays.tray[0].sent = cases[i].sent;
		w->trays.tray[0].asked = cases[i].unanswered;
		w->trays.tray[0].refilled = cases[i].refilled;
		w->session.untouched = !cases[i].robbed;
		adopt_fixture_compare(cases[i].there);
		assert_string_equal(adopt_fixture_believed(), cases[i].after);
		assert_int_equal(w->trays.tray[0].state, cases[i].then);
		assert_int_equal(adopt_fixture_lost(), cases[i].lost);
		assert_false(w->trays.tray[0].sent);
		assert_int_equal(w->trays.tray[0].mixed, strchr(cases[i].after, 'W') != NULL);
		adopt_fixture_teardown(state);
		adopt_fixture_setup(state);
	}
}

/* The message that a fetch would explain may be one that was done: the server restarted from an older copy, was promoted, or tells nothing. */
TEST(on_another_server_what_was_fetched_may_have_come_back, adopt_fixture_setup, adopt_fixture_teardown)
{
	static const struct redis_identity others[] = { { .run_id = "another run", .replid = "a history" },
		{ .run_id = "a run", .replid = "another history" }, { .run_id = "" } };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		adopt_fixture_believe(TRAY_FETCHING, "aw");
		w->trays.tray[0].asked = 2;
		w->trays.tray[0].answered = 1;
		w->session.server = others[i];
		adopt_fixture_compare("ab");
		assert_string_equal(adopt_fixture_believed(), "awbW");
		assert_false(w->trays.tray[0].mixed);
		adopt_fixture_teardown(state);
		adopt_fixture_setup(state);
	}
}

/* What it does next takes nothing but what is done. */
TEST(what_came_back_is_not_deleted, adopt_fixture_setup, adopt_fixture_teardown)
{
	adopt_fixture_believe(TRAY_DELETING, "agbd");
	w->trays.tray[0].sent = true;
	adopt_fixture_compare("ab");
	w->session.redis.state = REDIS_READY;
	w->session.registered = true;
	mover_tick(w, 0);
	assert_false(w->trays.tray[0].sent);
	tray_start(&w->trays, (struct place){ 0, 2 });
	tray_done(&w->trays, (struct place){ 0, 2 }, 0, 0);
	tray_close(&w->trays, 0);
	mover_tick(w, 0);
	assert_true(w->trays.tray[0].sent);
	private_redis_answer(&lone_server);
	assert_int_equal(REDIS_INT(&lone_server, "EXISTS %s", w->session.owner.trays[0]), 0);
}

/* Its handler reads it from there until it ends, however much comes back beside it meanwhile. */
TEST(what_runs_stays_where_it_is, adopt_fixture_setup, adopt_fixture_teardown)
{
	struct tray *t = &w->trays.tray[0];
	char there[201] = "a";
	const char *runs;

	memset(there + 1, 'b', sizeof(there) - 2);
	adopt_fixture_believe(TRAY_FILLED, "ar");
	runs = tray_raw(t, &t->items[0]);
	adopt_fixture_compare(there);
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
TEST(a_line_sealed_by_nobody_we_know_waits_for_the_secrets, adopt_fixture_setup, adopt_fixture_teardown)
{
	static const char line[] = "quredis/1 w=0000000000000001 crashes=1\na";
	struct seal_secrets other = { .n = 1 };
	struct message_keys lines = { .queue = w->env->keys.ingress, .secrets = &other, .headers = true };
	struct buffer sealed = {0};

	adopt_fixture_believe(TRAY_FILLED, "br");
	assert_int_equal(w->trays.tray[0].notes, NOTES_KNOWN);
	sealed_append(&sealed, &lines, line, strlen(line));
	REDIS(&lone_server, "RPUSH %s b %b", w->session.owner.trays[0], sealed.data, sealed.len);
	adopt_fixture_compare("");
	assert_int_equal(w->trays.tray[0].notes, NOTES_WANTED);
	assert_true(w->trays.tray[0].doubtful);
	lone.env->keys.lines.secrets = &other;
	tray_secrets_learnt(&w->trays, 0);
	assert_true(w->trays.tray[0].items[1].solo);
	assert_int_equal(w->trays.tray[0].solos, 1);
	assert_false(w->trays.tray[0].doubtful);
	buffer_free(&sealed);
}

UNIT_MAIN(lone_worker_start_server, lone_worker_stop_server)
