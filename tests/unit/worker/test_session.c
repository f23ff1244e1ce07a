/* links: tests/unit/worker/worker_fixture.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */
/* ldflags: -Wl,--wrap=redisConnectUnixNonBlock -Wl,--wrap=redisBufferRead -Wl,--wrap=redis_output_write */

/* The connection of a worker: its names, its lease, and which component gets which answer. */
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/worker/worker_fixture.h"

#define INC_2 "n.00000000000000b0.1.2"
#define INC_3 "n.00000000000000b0.1.3"
#define NOTHING_IN_TRAYS "*0\r\n*0\r\n*0\r\n"
#define INFO "$8\r\nrun_id:x\r\n$18\r\nmaster_replid:none\r\n"

static void tick(void)
{
	session_tick(w, fixture_now_ms());
}

static void receive(const char *resp)
{
	fixture_receive(&w->session.redis, resp);
	session_polled(&w->session, true);
	session_io(w, fixture_now_ms());
}

/* The connection is open, and the registration is sent. */
static void open_connection(void)
{
	tick();
	assert_int_equal(w->session.redis.state, REDIS_OPENING);
	fixture_forget_sent();
	fixture_receive_greetings();
	receive("");
	assert_int_equal(w->session.redis.state, REDIS_READY);
	tick();
}

static void register_worker(void)
{
	open_connection();
	receive(INFO ":0\r\n" NOTHING_IN_TRAYS);
	fixture_forget_sent();
	assert_true(session_usable(w));
}

static void assert_sent_part(const char *begin, const char *part)
{
	const char *command = fixture_sent();

	if (strncmp(command, begin, strlen(begin)) != 0 || strstr(command, part) == NULL)
		fail_msg("sent: %s", command);
}

/* Right before a registration: which server is this? */
static void assert_sent_info(void)
{
	assert_sent("INFO server");
	assert_sent("INFO replication");
}

static int64_t waits_ms(void)
{
	int64_t at = session_deadline_ms(w, fixture_now_ms());

	return at == INT64_MAX ? at : at - fixture_now_ms();
}

/* ---- names ---- */

TEST(a_worker_registers_and_reads_its_trays_before_it_works, fixture_setup_closed, fixture_teardown)
{
	open_connection();
	assert_sent_info();
	assert_sent("renew t:workers t:lease:" INC " " TRAY(0) " " TRAY(1) " " TRAY(2) " 30000 " INC);
	assert_sent("LRANGE " TRAY(0) " 0 -1");
	assert_sent("LRANGE " TRAY(1) " 0 -1");
	assert_sent("LRANGE " TRAY(2) " 0 -1");
	assert_sent_nothing();
	receive(INFO ":0\r\n*0\r\n*0\r\n");
	assert_false(w->session.registered);		/* one tray is not read yet */
	assert_false(session_usable(w));
	receive("*0\r\n");
	assert_true(session_usable(w));
	assert_int_equal(fixture_counted(COUNT_RECONNECTED), 1);
	tick();
	assert_sent_nothing();
}

TEST(a_new_connection_takes_a_new_name_in_place_of_the_last_one, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	fixture_hang_up(&w->session.redis);
	receive("");
	assert_int_equal(w->session.redis.state, REDIS_CLOSED);
	assert_false(session_usable(w));
	assert_int_equal(atomic_load(&fixture.env->slot->redis_down), 1);
	fixture_pass_ms(200);
	queue_keys_use_seats(&fixture.env->keys, NULL, NULL);
	w->seats.n = 2;		/* it says so in the same step */
	open_connection();
	assert_sent_info();
	assert_sent_part("renew t:workers t:lease:" INC_2 " t:" INC_2 ":0 t:" INC_2 ":1 t:" INC_2 ":2 t:lease:" INC " " TRAY(0),
	    ":2 quredis:of:i:seats 30000 " INC_2 " {\"lock\":\"boot:1:2\",\"node\":\"n\"");
	receive(INFO ":0\r\n" NOTHING_IN_TRAYS);
	assert_true(session_usable(w));
	assert_null(w->session.previous.keys);
	assert_int_equal(atomic_load(&fixture.env->slot->redis_down), 0);
}

/* The trays are under one of the two names, so both must be known until an answer comes. */
TEST(a_name_that_was_never_confirmed_is_registered_again, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	for (int i = 0; i < 3; i++) {
		fixture_hang_up(&w->session.redis);
		receive("");
		fixture_pass_ms(30000);
		open_connection();
		assert_sent_info();
		assert_sent_part("renew t:workers t:lease:" INC_2, "t:lease:" INC " ");
	}
}

/* A sweeper may consider the owner of that name dead: the trays move on to the next one. */
TEST(a_name_whose_lease_ran_out_before_its_answer_is_given_up, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	fixture_hang_up(&w->session.redis);
	receive("");
	fixture_pass_ms(200);
	open_connection();
	receive(INFO ":-1\r\n");
	assert_int_equal(w->session.redis.state, REDIS_CLOSED);
	fixture_pass_ms(30000);
	open_connection();
	assert_sent_info();
	assert_sent_part("renew t:workers t:lease:" INC_3, "t:lease:" INC_2 " ");
}

TEST(a_refused_registration_closes_the_connection_and_leaves_nothing, fixture_setup_closed, fixture_teardown)
{
	open_connection();
	receive(INFO "-OOM command not allowed\r\n");
	assert_int_equal(w->session.redis.state, REDIS_CLOSED);
	assert_true(w->session.refused);
	assert_false(w->session.confirmed);
	assert_int_equal(atomic_load(&fixture.env->slot->error), QUEUE_ERROR_TRANSIENT);	/* Redis is there */
}

/* A fetch that is under way would fill a tray of the old name. */
TEST(a_new_name_waits_until_every_answer_has_come, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	fetcher_tick(w, fixture_now_ms());
	fixture_forget_sent();
	session_renew_incarnation(w, "a test");
	tick();
	assert_sent_nothing();
	receive("$-1\r\n");
	tick();
	assert_sent_info();
	assert_sent("renew t:workers t:lease:" INC_2);
}

TEST(a_worker_that_leaves_takes_no_new_name, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	w->exit.leaving = true;
	session_renew_incarnation(w, "a test");
	assert_true(w->session.registered);
	w->exit.leaving = false;
	session_renew_incarnation(w, "a test");
	assert_false(w->session.registered);
	assert_int_equal(fixture_logged("event=incarnation_renewed"), 1);
}

/* ---- the lease ---- */

TEST(the_lease_counts_from_the_moment_at_which_its_renewal_was_sent, fixture_setup_closed, fixture_teardown)
{
	open_connection();
	fixture_pass_ms(1000);
	receive(INFO ":0\r\n" NOTHING_IN_TRAYS);
	fixture_pass_ms(LEASE_MS - 1001);
	assert_true(session_usable(w));
	fixture_pass_ms(1);
	assert_false(session_usable(w));
}

TEST(the_lease_is_renewed_every_quarter, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	assert_int_equal(waits_ms(), LEASE_MS / 4);
	fixture_pass_ms(LEASE_MS / 4 - 1);
	tick();
	assert_sent_nothing();
	fixture_pass_ms(1);
	tick(), tick();
	assert_sent("PEXPIRE t:lease:" INC " 30000");
	assert_sent_nothing();			/* no counts: nothing has left a tray alive */
	fixture_pass_ms(1000);
	receive(":1\r\n");
	fixture_pass_ms(LEASE_MS - 1001);
	assert_true(session_usable(w));
	fixture_pass_ms(1);
	assert_false(session_usable(w));
}

TEST(a_lease_that_had_run_out_ends_the_name, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	fixture_pass_ms(LEASE_MS / 4);
	tick();
	fixture_forget_sent();
	receive(":0\r\n");
	assert_false(session_usable(w));
	tick();
	assert_sent_info();
	assert_sent("renew t:workers t:lease:" INC_2);
}

/* A worker that stood still for so long may be dead for a sweeper. */
TEST(a_lease_that_is_renewed_too_late_ends_the_name, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	fake_time_sleep_ms(LEASE_MS);
	fixture_pass_ms(LEASE_MS / 4);
	tick();
	assert_sent_info();
	assert_sent("renew t:workers t:lease:" INC_2);
	assert_int_equal(fixture_logged("the lease was renewed too late"), 1);
}

TEST(a_refused_renewal_is_sent_again_after_a_second, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	fixture_pass_ms(LEASE_MS / 4);
	tick();
	receive("-NOPERM no permissions\r\n");
	assert_int_equal(w->session.redis.state, REDIS_READY);
	assert_int_equal(fixture_logged("event=redis_error "), 1);
	assert_int_equal(waits_ms(), 1000);
	assert_true(session_usable(w));		/* until it runs out */
}

/* A large message that arrives slowly keeps the answers back. */
TEST(the_lease_is_renewed_while_trays_are_read_and_answers_are_late, fixture_setup_closed, fixture_teardown)
{
	open_connection();
	fixture_forget_sent();
	receive(INFO ":0\r\n*0\r\n");
	fake_time_sleep_ms(LEASE_MS);			/* whether it ran out, an answer will say */
	for (int i = 0; i < 3; i++) {
		fixture_pass_ms(LEASE_MS / 4);
		tick();
		assert_sent("PEXPIRE t:lease:" INC);
	}
	receive("*0\r\n*0\r\n:1\r\n:1\r\n:1\r\n");
	fixture_pass_ms(LEASE_MS - 1);
	assert_true(session_usable(w));
}

TEST(nobody_knows_of_a_lease_whose_renewal_is_unanswered, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	fixture_pass_ms(LEASE_MS / 4);
	tick();
	fake_time_sleep_ms(LEASE_MS);
	fixture_pass_ms(LEASE_MS / 4);
	tick();
	assert_sent("PEXPIRE t:lease:" INC);
	assert_sent("PEXPIRE t:lease:" INC);
	assert_false(session_usable(w));
	assert_true(w->session.registered);
	receive(":1\r\n:1\r\n");
	assert_true(session_usable(w));
}

TEST(counts_that_disagree_end_the_name, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	queue_owner_count_moved(&w->session.owner, 1);
	fixture_pass_ms(LEASE_MS / 4);
	tick();
	assert_sent("PEXPIRE");
	assert_sent("HMGET t:lease:" INC " " TRAY(0) " " TRAY(1) " " TRAY(2));
	receive(":1\r\n*3\r\n$-1\r\n$1\r\n1\r\n$-1\r\n");
	assert_true(w->session.registered);
	fixture_pass_ms(LEASE_MS / 4);
	tick();
	receive(":1\r\n*3\r\n$-1\r\n$-1\r\n$-1\r\n");
	assert_false(w->session.registered);
	assert_int_equal(fixture_logged("Redis returned to an earlier state"), 1);
}

/* It was acknowledged, so no count knows it. The worker has been idle since, and its connection was not lost. */
/* Until the worker asks for trays that should be empty: with each fourth renewal. */
static void renew_until_trays_are_asked(void)
{
	int n = 0;

	fixture_forget_sent();
	do {
		fixture_pass_ms(LEASE_MS / 4);
		tick();
		assert_sent("PEXPIRE t:lease:" INC);
		if (w->session.lease.sent % 4 != 0)
			receive(":1\r\n");
		assert_true(++n <= 4);
	} while (w->session.lease.sent % 4 != 0);
}

TEST(a_tray_that_should_be_empty_shows_that_redis_went_back, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	w->trays.fillings = 1;
	renew_until_trays_are_asked();
	assert_sent("EXISTS " TRAY(0) " " TRAY(1) " " TRAY(2));
	receive(":1\r\n:0\r\n");
	assert_true(w->session.registered);
	tray_ask(&w->trays, 1, 1);			/* a fetch that is not answered may have filled this one */
	renew_until_trays_are_asked();
	assert_sent("EXISTS " TRAY(0) " " TRAY(2) " " TRAY(2));
	receive(":1\r\n:1\r\n");
	assert_false(w->session.registered);
	assert_int_equal(fixture_logged("Redis returned to an earlier state"), 1);
}

TEST(a_worker_that_has_fetched_nothing_asks_for_no_tray, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	renew_until_trays_are_asked();
	assert_sent_nothing();
}

/* ---- errors of the connection ---- */

TEST(a_refused_connection_is_opened_again_later_and_logged_once, fixture_setup_closed, fixture_teardown)
{
	int64_t wait, last = 0;

	fixture_refuses = true;
	for (int i = 0; i < 12; i++) {
		tick();
		wait = waits_ms();
		assert_in_range(wait, 0, LEASE_MS / 4);		/* it must be back before its lease is found run out */
		fixture_pass_ms(wait);
		last += wait;
	}
	assert_true(last > 1000);
	assert_int_equal(fixture_logged("event=redis_error "), 1);
	fixture_refuses = false;
	fixture_pass_ms(LEASE_MS);
	register_worker();
	assert_int_equal(w->session.retry.errors, 0);
	assert_int_equal(fixture_logged("event=redis_error_cleared"), 1);
	assert_int_equal(atomic_load(&fixture.env->slot->error), QUEUE_ERROR_NONE);
}

TEST(a_lost_connection_has_no_answers_to_wait_for, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	fetcher_tick(w, fixture_now_ms());
	fixture_pass_ms(LEASE_MS / 4);
	tick();
	w->fetcher.asking_paused = w->expiry.asking = w->exit.leaving = true;
	fixture_hang_up(&w->session.redis);
	receive("");
	assert_awaits_nothing();
	assert_false(w->fetcher.asking_paused || w->expiry.asking || w->exit.leaving);
	assert_int_equal(w->session.lease.answered, w->session.lease.sent);
}

TEST(an_answer_that_does_not_come_closes_the_connection, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	fixture_pass_ms(LEASE_MS / 4);
	tick();
	assert_int_equal(waits_ms(), REDIS_TIMEOUT_MS);
	fixture_pass_ms(REDIS_TIMEOUT_MS);
	session_io(w, fixture_now_ms());
	assert_int_equal(w->session.redis.state, REDIS_READY);
	fixture_pass_ms(1);
	session_io(w, fixture_now_ms());
	assert_int_equal(w->session.redis.state, REDIS_CLOSED);
}

/* A script that is gone, a master that became a replica. */
TEST(an_error_of_the_server_needs_a_new_connection, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	fetcher_tick(w, fixture_now_ms());
	receive("-READONLY You can't write against a read only replica.\r\n");
	assert_int_equal(w->session.redis.state, REDIS_CLOSED);
}

TEST(bytes_that_are_no_answer_close_the_connection, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	fetcher_tick(w, fixture_now_ms());
	receive("HTTP/1.1 400 Bad Request\r\n");
	assert_int_equal(w->session.redis.state, REDIS_CLOSED);
	assert_awaits_nothing();
}

/* ---- answers ---- */

TEST(answers_reach_their_components_in_the_order_of_the_requests, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	w->pacing.message_us = 10;
	w->pacing.batch = 2;
	fetcher_tick(w, fixture_now_ms());
	fixture_pass_ms(LEASE_MS / 4);
	tick();
	receive("$1\r\na\r\n$1\r\nb\r\n:1\r\n");
	assert_int_equal(w->trays.tray[0].n, 2);
	assert_int_equal(w->session.lease.answered, w->session.lease.sent);
	assert_memory_equal(tray_raw(&w->trays.tray[0], fixture_item(0, 1)), "b", 1);
}

TEST(names_that_are_left_behind_are_shown_when_nothing_runs_under_them, fixture_setup_closed, fixture_teardown)
{
	register_worker();
	tick();
	fence_show_abandoned(w);
	assert_int_equal(atomic_load(&fixture.env->slot->abandoned), 1);
	w->fence.claim_gone = true;
	FILL(0, "a");
	starter_describe(w, PLACE(0, 0));
	starter_started(w, PLACE(0, 0));
	w->session.id.generation = 2;
	tick();
	fence_show_abandoned(w);
	assert_int_equal(atomic_load(&fixture.env->slot->abandoned), 1);
	tray_done(&w->trays, PLACE(0, 0), 0, 0);
	tick();
	fence_show_abandoned(w);
	assert_int_equal(atomic_load(&fixture.env->slot->abandoned), 2);
	assert_int_equal(atomic_load(&fixture.env->board->workers.renamed), 1);
}

UNIT_MAIN(NULL, NULL)
