/* links: tests/unit/worker/worker_fixture.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */
/* ldflags: -Wl,--wrap=redisConnectUnixNonBlock -Wl,--wrap=redisBufferRead -Wl,--wrap=redis_output_write */

/* What other processes of the supervisor know about the server: that it is back, and that another one is the master. */
#include <string.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/worker_fixture.h"

static int64_t waits_ms(void)
{
	return session_deadline_ms(w, fixture_now_ms()) - fixture_now_ms();
}

/* The server refuses, again and again, so that the back-off has grown. */
static void wait_for_server(void)
{
	fixture_refuses = true;
	for (int i = 0; i < 20; i++) {
		session_tick(w, w->session.retry.at_ms);
		assert_int_equal(w->session.redis.state, REDIS_CLOSED);
		fixture_pass_ms(w->session.retry.at_ms - fixture_now_ms());
	}
	session_tick(w, fixture_now_ms());
}

TEST(a_server_of_this_host_is_tried_every_two_seconds, fixture_setup_closed, fixture_teardown)
{
	fixture_refuses = true;
	for (int i = 0; i < 100; i++) {
		session_tick(w, fixture_now_ms());
		assert_int_equal(w->session.redis.state, REDIS_CLOSED);
		assert_in_range(w->session.retry.at_ms - fixture_now_ms(), 0, REDIS_LOCAL_BACKOFF_MS);
		fixture_pass_ms(w->session.retry.at_ms - fixture_now_ms());
	}
}

TEST(a_server_that_another_process_has_reached_is_tried_at_once, fixture_setup_closed, fixture_teardown)
{
	wait_for_server();
	retry_not_before(&w->session.retry, fixture_now_ms() + 20000);
	assert_int_equal(waits_ms(), REDIS_NEWS_MS);
	fixture_refuses = false;
	fixture_pass_ms(REDIS_NEWS_MS);
	session_tick(w, fixture_now_ms());
	assert_int_equal(w->session.redis.state, REDIS_CLOSED);		/* nobody has reached it */
	atomic_fetch_add(&fixture.board.workers.reached, 1);
	session_tick(w, fixture_now_ms());
	assert_int_equal(w->session.redis.state, REDIS_OPENING);
}

/* What one process reaches may refuse another one, for example a server that is full. */
TEST(news_are_followed_once, fixture_setup_closed, fixture_teardown)
{
	wait_for_server();
	atomic_fetch_add(&fixture.board.workers.reached, 1);
	fixture_pass_ms(REDIS_NEWS_MS);
	session_tick(w, fixture_now_ms());
	retry_not_before(&w->session.retry, fixture_now_ms() + 20000);
	fixture_refuses = false;
	fixture_pass_ms(10000);
	session_tick(w, fixture_now_ms());
	assert_int_equal(w->session.redis.state, REDIS_CLOSED);
}

/* The worker is registered on the server with this run_id, which a Sentinel named. */
static void be_at(const char *run_id)
{
	w->session.target.master = alloc_string("mail");
	strcpy(w->session.server.run_id, run_id);
}

static void confirm(const char *target_of, const char *run_id)
{
	scoreboard_confirm_master(&fixture.board, redis_target_mark(&w->session.target, target_of),
	    redis_target_mark(&w->session.target, run_id), 0, fixture_now_ms());
}

TEST(a_worker_leaves_a_master_that_most_sentinels_do_not_name, fixture_setup, fixture_teardown)
{
	be_at("old");
	session_tick(w, fixture_now_ms());
	assert_int_equal(w->session.redis.state, REDIS_READY);		/* nothing is known */
	confirm("", "new");
	session_tick(w, fixture_now_ms());
	assert_int_equal(w->session.redis.state, REDIS_CLOSED);
	assert_non_null(strstr(w->session.redis.error, "most Sentinels name another master"));
	assert_int_equal(waits_ms(), REDIS_NEWS_MS);
	assert_string_equal(w->session.server.run_id, "");		/* the next server is not judged by this one */
}

TEST(a_worker_stays_while_it_cannot_tell, fixture_setup, fixture_teardown)
{
	be_at("old");
	confirm("", "old");
	session_tick(w, fixture_now_ms());
	assert_int_equal(w->session.redis.state, REDIS_READY);
	confirm("of another configuration", "new");
	session_tick(w, fixture_now_ms());
	assert_int_equal(w->session.redis.state, REDIS_READY);
	confirm("", "new");
	scoreboard_doubt_master(&fixture.board);
	session_tick(w, fixture_now_ms());
	assert_int_equal(w->session.redis.state, REDIS_READY);
	confirm("", "new");
	w->session.server.run_id[0] = '\0';
	session_tick(w, fixture_now_ms());
	assert_int_equal(w->session.redis.state, REDIS_READY);
	strcpy(w->session.server.run_id, "old");
	fixture_pass_ms(BOARD_MAJORITY_MS + 1);
	session_tick(w, fixture_now_ms());
	assert_int_equal(w->session.redis.state, REDIS_READY);
}

UNIT_MAIN(NULL, NULL)
