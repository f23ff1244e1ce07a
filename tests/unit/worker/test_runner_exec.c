/* links: tests/unit/worker/worker_fixture.c tests/fuzz/fake_time.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms */
/* ldflags: -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */

/* One process for each message: what starts, what the master sees of it, and what its end does to the message. */
#include <errno.h>
#include <signal.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/worker_fixture.h"

#define P PLACE(0, 0)
#define PGID 4321

/* ---- a handler without a process ---- */

struct handler {
	bool running, finished, fork_fails;
	struct handler_result result;
	struct handler_job job;
	int starts, stops, cancels, kills, ticks;
	int64_t timeout_at_ms;
	const struct handler_reply *progress;
} the_handler;

struct handler *handler_new(const struct conf_queue *conf)
{
	(void)conf;
	the_handler = (struct handler){0};
	return &the_handler;
}

void handler_free(struct handler *h)
{
	(void)h;
}

int handler_start(struct handler *h, const struct handler_job *job, int64_t now_ms)
{
	assert_false(h->running);
	errno = EAGAIN;
	if (h->fork_fails)
		return -1;
	h->running = true;
	h->finished = false;
	h->job = *job;
	h->timeout_at_ms = job->timeout_ms < 0 ? INT64_MAX : now_ms + job->timeout_ms;
	h->starts++;
	return 0;
}

pid_t handler_pgid(const struct handler *h)
{
	return h->running ? PGID : 0;
}

int64_t handler_timeout_at_ms(const struct handler *h)
{
	return h->timeout_at_ms;
}

const struct handler_reply *handler_progress(struct handler *h)
{
	return h->progress;
}

int64_t handler_deadline_ms(const struct handler *h)
{
	(void)h;
	return 77;
}

size_t handler_pollfds(const struct handler *h, struct pollfd *p)
{
	(void)h, (void)p;
	return 2;
}

void handler_io(struct handler *h, const struct pollfd *p, size_t n)
{
	(void)h, (void)p, (void)n;
	fail();
}

void handler_tick(struct handler *h, int64_t now_ms)
{
	(void)now_ms;
	h->ticks++;
}

void handler_forgive(struct handler *h, int64_t ms)
{
	h->timeout_at_ms += ms;
}

void handler_stop(struct handler *h, int64_t now_ms)
{
	(void)now_ms;
	h->stops++;
}

void handler_cancel(struct handler *h, int64_t now_ms)
{
	(void)now_ms;
	h->cancels++;
}

void handler_kill(struct handler *h)
{
	h->kills++;
}

bool handler_finished(struct handler *h, struct handler_result *result)
{
	*result = h->result;
	h->running = h->running && !h->finished;
	return h->finished;
}

/* ---- */

static int setup(void **state)
{
	fixture_setup(state);
	w->starter.runner = &runner_exec;
	runner_exec.init(w);
	return 0;
}

static void start(void)
{
	runner_exec.start(w, fixture_now_ms());
}

static void end_with(struct handler_result result)
{
	the_handler.finished = true;
	the_handler.result = result;
	runner_exec.end(w, fixture_now_ms());
}

static void end_well(void)
{
	end_with((struct handler_result){ .end = HANDLER_EXITED, .code = 0 });
}

static enum item_state state_of(int item)
{
	return fixture_item(0, item)->state;
}

/* ---- starts ---- */

TEST(one_message_runs_at_a_time_the_oldest_first, setup, fixture_teardown)
{
	assert_int_equal(runner_exec.room(w), 1);
	FILL(0, "a", "b");
	start();
	start();
	assert_int_equal(the_handler.starts, 1);
	assert_int_equal(state_of(0), ITEM_RUNNING);
	assert_int_equal(state_of(1), ITEM_WAITING);
	assert_int_equal(runner_exec.room(w), 0);
	assert_true(runner_exec.ready(w));
	assert_memory_equal(message_payload(the_handler.job.message), "a", 1);
	end_well();
	assert_int_equal(state_of(0), ITEM_DONE);
	assert_int_equal(runner_exec.room(w), 1);
	start();
	assert_int_equal(state_of(1), ITEM_RUNNING);
}

TEST(nothing_starts_without_a_message, setup, fixture_teardown)
{
	start();
	assert_int_equal(the_handler.starts, 0);
	assert_int_equal(runner_exec.room(w), 1);
}

TEST(a_message_waits_on_after_a_failed_fork, setup, fixture_teardown)
{
	FILL(0, "a");
	the_handler.fork_fails = true;
	start();
	assert_int_equal(state_of(0), ITEM_WAITING);
	assert_int_equal(w->starter.retry.errors, 1);
	assert_int_equal(runner_exec.room(w), 1);
	assert_int_equal(atomic_load(&fixture.env->slot->handler_pgid), 0);
	the_handler.fork_fails = false;
	start();
	assert_int_equal(state_of(0), ITEM_RUNNING);
	assert_int_equal(w->starter.retry.errors, 0);
}

TEST(messages_that_must_not_run_escape_on_the_way_to_the_next_one, setup, fixture_teardown)
{
	fixture.queue.message_max = 20;
	FILL(0, "quredis/2 x=1\na", "longer than message_max", "good");
	start();
	assert_int_equal(the_handler.starts, 1);
	assert_int_equal(state_of(0), ITEM_MOVING);
	assert_string_equal(fixture_item(0, 0)->outcome->record.error_class, "UnknownVersion");
	assert_int_equal(state_of(1), ITEM_MOVING);
	assert_string_equal(fixture_item(0, 1)->outcome->record.error_class, "TooLarge");
	assert_int_equal(state_of(2), ITEM_RUNNING);
}

/* By the clock of Redis it is two seconds after the push; the clock itself is asked once more before a message escapes. */
TEST(nothing_starts_while_the_clock_of_redis_is_asked, setup, fixture_teardown)
{
	const struct server_time now = { .server_ms = 1700000000000, .sent_ms = clock_boottime_ms(), .answered_ms = clock_boottime_ms() };
	struct server_clock clock = {0};

	server_clock_take(&clock, &now);
	server_clock_publish(&clock, &fixture.board.sweeper.clock);
	fixture.queue.ttl_ms = 1000;
	fixture_pass_ms(2000);
	FILL(0, fixture_sealed("quredis/1 w=0000000000000001 own=1700000000000 attempts=1\nlate"), "next");
	start();
	assert_true(w->expiry.asking);
	assert_awaits(ANSWER_TIME, -1, 0);
	assert_int_equal(the_handler.starts, 0);
	assert_int_equal(state_of(0), ITEM_WAITING);
	expiry_time_answer(w, PLACE(-1, 0), fixture_reply("*2\r\n$10\r\n1700000002\r\n$1\r\n0\r\n"), fixture_now_ms());
	start();
	assert_int_equal(state_of(0), ITEM_MOVING);
	assert_int_equal(state_of(1), ITEM_RUNNING);
}

/* ---- what the master sees ---- */

TEST(the_scoreboard_shows_what_runs_and_when_it_must_be_over, setup, fixture_teardown)
{
	struct slot *slot = fixture.env->slot;

	FILL(0, "a", "b");
	start();
	assert_int_equal(atomic_load(&slot->handler_pgid), PGID);
	assert_int_equal(atomic_load(&slot->started_ms), fixture_now_ms());
	assert_int_equal(atomic_load(&slot->deadline_ms), fixture_now_ms() + 60000 + 5000);
	the_handler.timeout_at_ms += 100;		/* a sign of life */
	the_handler.progress = &(struct handler_reply){ .verb = VERB_PROGRESS, .percent = 40, .reason = "page 2", .reason_len = 6 };
	runner_exec.end(w, fixture_now_ms());
	assert_int_equal(atomic_load(&slot->deadline_ms), fixture_now_ms() + 60000 + 5000 + 100);
	assert_int_equal(slot_text_read(&slot->progress).number, 40);
	assert_string_equal(slot_text_read(&slot->progress).text, "page 2");
	fixture_pass_ms(3);
	end_well();
	assert_int_equal(slot_text_read(&slot->progress).number, -1);
	assert_int_equal(atomic_load(&slot->handler_pgid), 0);
	assert_int_equal(atomic_load(&slot->started_ms), 0);
	assert_int_equal(atomic_load(&slot->deadline_ms), 0);
	assert_int_equal(atomic_load(&slot->duration_ms), 3);
	fixture.queue.timeout_ms = -1;
	start();
	assert_int_equal(atomic_load(&slot->deadline_ms), INT64_MAX);
}

/* ---- ends ---- */

TEST(a_message_runs_until_its_handler_is_finished, setup, fixture_teardown)
{
	FILL(0, "a");
	start();
	runner_exec.end(w, fixture_now_ms());
	assert_int_equal(state_of(0), ITEM_RUNNING);
	assert_int_equal(the_handler.ticks, 1);
	end_well();
	assert_int_equal(w->trays.tray[0].state, TRAY_DELETING);
	runner_exec.end(w, fixture_now_ms());
	assert_int_equal(the_handler.ticks, 2);
}

TEST(the_end_of_a_message_counts_for_the_pace, setup, fixture_teardown)
{
	FILL(0, "a");
	start();
	fixture_pass_ms(7);
	end_well();
	assert_in_range(w->pacing.message_us, 7000, 7010);
	assert_false(w->starter.solo_running);
}

TEST(a_stop_and_a_kill_reach_only_a_running_handler, setup, fixture_teardown)
{
	runner_exec.stop(w, 0);
	runner_exec.kill(w, 0);
	assert_int_equal(the_handler.stops + the_handler.kills, 0);
	FILL(0, "a");
	start();
	runner_exec.stop(w, 0);
	assert_int_equal(the_handler.stops, 1);
	assert_int_equal(the_handler.kills, 0);
	runner_exec.kill(w, 0);
	assert_int_equal(the_handler.kills, 1);
}

/* The signal may be a stop's whose order has not arrived: nothing else starts meanwhile, since the handler's last words lie in its buffers. */
TEST(an_end_that_may_be_a_stops_waits_for_its_order, setup, fixture_teardown)
{
	static const struct handler_result ends[] = {
		{ .end = HANDLER_SIGNALED, .code = -1, .signal = SIGTERM }, { .end = HANDLER_EXITED, .code = 143 },
	};

	for (size_t i = 0; i < nitems(ends); i++) {
		FILL(0, "a", "b");
		start();
		end_with(ends[i]);
		start();
		assert_int_equal(state_of(0), ITEM_RUNNING);
		assert_int_equal(state_of(1), ITEM_WAITING);
		assert_false(runner_exec.dismiss(w, fixture_now_ms()));
		w->exit.order = ORDER_FINISH;
		runner_exec.end(w, fixture_now_ms());
		assert_int_equal(state_of(0), ITEM_MOVING);
		assert_int_equal(fixture_item(0, 0)->move, MOVE_HAND_BACK);
		assert_int_equal(fixture_counted(COUNT_FAILED), 0);
		fixture_teardown(state);
		setup(state);
	}
}

TEST(a_signal_without_a_stop_is_charged, setup, fixture_teardown)
{
	FILL(0, "a", "b");
	start();
	end_with((struct handler_result){ .end = HANDLER_SIGNALED, .code = -1, .signal = SIGTERM });
	fixture_pass_ms(exit_deadline_ms(w, fixture_now_ms()) - fixture_now_ms());
	runner_exec.end(w, fixture_now_ms());
	assert_int_equal(fixture_item(0, 0)->move, MOVE_RETRY);
	assert_int_equal(fixture_counted(COUNT_FAILED), 1);
	start();
	assert_int_equal(state_of(1), ITEM_RUNNING);
}

/* The operator gave this status a meaning. */
TEST(a_status_with_a_meaning_is_no_signal, setup, fixture_teardown)
{
	fixture.queue.exit_codes[143] = CONF_OUTCOME_ESCAPE;
	FILL(0, "a");
	start();
	end_with((struct handler_result){ .end = HANDLER_EXITED, .code = 143 });
	assert_int_equal(fixture_item(0, 0)->move, MOVE_ESCAPE);
}

TEST(an_idle_runner_has_nothing_to_wait_for, setup, fixture_teardown)
{
	struct pollfd fds[RUNNER_POLLFDS];

	assert_int_equal(runner_exec.pollfds(w, fds), 0);
	assert_int_equal(runner_exec.deadline_ms(w), INT64_MAX);
	assert_true(runner_exec.dismiss(w, 0));
	assert_false(runner_exec.go_on(w));
	FILL(0, "a");
	start();
	assert_int_equal(runner_exec.pollfds(w, fds), 2);
	assert_int_equal(runner_exec.deadline_ms(w), 77);
	assert_false(runner_exec.dismiss(w, 0));
	runner_exec.io(w, NULL, 0, 0);		/* the poll found no event: no descriptor is looked at */
}

UNIT_MAIN(NULL, NULL)
