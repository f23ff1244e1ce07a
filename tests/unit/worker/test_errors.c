/* links: tests/unit/worker/worker_fixture.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */
/* ldflags: -Wl,--wrap=redisConnectUnixNonBlock -Wl,--wrap=redisBufferRead -Wl,--wrap=redis_output_write */

/* The errors of Redis that a worker logs, and those that it does not log again. */
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/worker/worker_fixture.h"

static int errors_logged(void)
{
	return fixture_logged("event=redis_error ");
}

/* As with several addresses: one refuses, and one ends the connection. */
TEST(reasons_that_alternate_are_logged_once_each, fixture_setup_closed, fixture_teardown)
{
	int64_t began_ms = fixture_now_ms();

	for (int i = 0; fixture_now_ms() < began_ms + 10 * REDIS_OUTAGE_LEAST_MS; i++) {
		fixture_refuses = i % 2 == 0;
		session_tick(w, fixture_now_ms());
		if (!fixture_refuses) {
			fixture_hang_up(&w->session.redis);
			session_polled(&w->session, true);
			session_io(w, fixture_now_ms());
		}
		assert_int_equal(w->session.redis.state, REDIS_CLOSED);
		assert_in_range(errors_logged(), 1, fixture_now_ms() < began_ms + REDIS_OUTAGE_LEAST_MS ? 1 : 2);
		fixture_pass_ms(session_deadline_ms(w, fixture_now_ms()) - fixture_now_ms());
	}
	assert_int_equal(errors_logged(), 2);
	assert_int_equal(atomic_load(&fixture.env->slot->error), QUEUE_ERROR_NO_REDIS);
	errors_clear(w);
	assert_int_equal(atomic_load(&fixture.env->slot->error), QUEUE_ERROR_NONE);
	assert_int_equal(fixture_logged("event=redis_error_cleared"), 1);
	errors_clear(w);
	assert_int_equal(fixture_logged("event=redis_error_cleared"), 1);
}

/* Two commands that Redis refuses in turn, and texts that differ at their end. */
TEST(each_error_of_a_command_is_logged_once, fixture_setup_closed, fixture_teardown)
{
	static const char *const refusals[] = {
		"-ERR Error running script (call to f_0123456789012345678901234567890123456789): @user_script:7: OOM\r\n",
		"-ERR Error running script (call to f_0123456789012345678901234567890123456789): @user_script:7: WRONGTYPE\r\n",
	};

	for (int i = 0; i < 10; i++) {
		errors_report(w, "fetch", fixture_reply(refusals[i % 2]));
		errors_report(w, "settle", fixture_reply(refusals[0]));
	}
	assert_int_equal(errors_logged(), 3);
}

UNIT_MAIN(NULL, NULL)
