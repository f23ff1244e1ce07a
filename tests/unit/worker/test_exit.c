/* The way out of a worker: when it deregisters, when it is clean, and when it gives up on Redis. */
#include <signal.h>
#include <stdlib.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "worker/worker.h"

static struct scoreboard board;
static const struct child child = { .board = &board, .slot = 1 };
static const struct env env = { .child = &child };
static struct queue_keys keys;
static struct worker *w;
static int deregistered, stopped, retried, errors;
static bool runs;

/* ---- the rest of a worker ---- */

void mover_retry_now(struct worker *worker)
{
	(void)worker;
	retried++;
}

void session_expect(struct worker *worker, enum answer answer, int tray, int item, int64_t due_ms)
{
	(void)worker, (void)tray, (void)item, (void)due_ms;
	assert_int_equal(answer, ANSWER_DEREGISTER);
}

void errors_report(struct worker *worker, const char *what, const struct redis_reply *error)
{
	(void)worker, (void)what, (void)error;
	errors++;
}

void queue_deregister(struct redis *r, const struct queue_owner *o)
{
	(void)r, (void)o;
	deregistered++;
}

static void stop(struct worker *worker, int64_t now_ms)
{
	(void)worker, (void)now_ms;
	stopped++;
}

static bool dismiss(struct worker *worker, int64_t now_ms)
{
	(void)worker, (void)now_ms;
	return !runs;
}

static const struct runner runner = { .stop = stop, .dismiss = dismiss };

static int setup(void **state)
{
	(void)state;
	w = alloc_zero(1, sizeof(*w));
	w->env = &env;
	w->starter.runner = &runner;
	w->session.owner.keys = &keys;
	w->session.redis.state = REDIS_READY;
	w->session.registered = w->session.confirmed = true;
	deregistered = stopped = retried = errors = 0;
	runs = false;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(w);
	return 0;
}

static void order(enum order order)
{
	atomic_store(&board.master.orders[1], order);
	exit_look_at_order(w, 0);
}

static const struct redis_reply one = { .type = REDIS_INTEGER, .integer = 1 }, zero = { .type = REDIS_INTEGER },
	error = { .type = REDIS_ERROR };

/* ---- */

TEST(without_its_master_a_worker_hands_back, setup, teardown)
{
	order(ORDER_RUN);
	assert_int_equal(stopped, 0);
	exit_master_gone(&w->exit);
	exit_look_at_order(w, 0);
	exit_look_at_order(w, 0);
	assert_int_equal(w->exit.order, ORDER_HAND_BACK);
	assert_int_equal(stopped, 2);
	assert_int_equal(retried, 1);		/* once: later refusals wait as usual */
}

TEST(a_worker_deregisters_once_when_nothing_is_left, setup, teardown)
{
	order(ORDER_RUN);
	exit_leave(w, 0);
	assert_int_equal(deregistered, 0);
	order(ORDER_FINISH);
	w->trays.tray[2].state = TRAY_FILLED;
	exit_leave(w, 0);
	assert_int_equal(deregistered, 0);
	w->trays.tray[2].state = TRAY_EMPTY;
	runs = true;
	exit_leave(w, 0);
	assert_int_equal(deregistered, 0);
	runs = false;
	exit_leave(w, 0);
	exit_leave(w, 0);
	assert_int_equal(deregistered, 1);
	exit_lost(w);			/* the connection, and with it the answer */
	exit_leave(w, 0);
	assert_int_equal(deregistered, 2);
	exit_answer(w, (struct place){ -1, 0 }, &one, 0);
	assert_true(w->exit.left && w->exit.clean);
}

/* Redis found a message under the name. A sweeper must see the worker as dead. */
TEST(a_worker_that_owned_something_is_not_clean, setup, teardown)
{
	order(ORDER_FINISH);
	exit_leave(w, 0);
	exit_answer(w, (struct place){ -1, 0 }, &zero, 0);
	assert_true(w->exit.left);
	assert_false(w->exit.clean);
}

TEST(a_refused_deregistration_is_sent_again, setup, teardown)
{
	order(ORDER_FINISH);
	exit_leave(w, 0);
	exit_answer(w, (struct place){ -1, 0 }, &error, 0);
	assert_false(w->exit.left || w->exit.clean);
	assert_int_equal(errors, 1);
	exit_leave(w, 0);
	assert_int_equal(deregistered, 2);
}

TEST(a_worker_without_a_name_leaves_at_once, setup, teardown)
{
	order(ORDER_FINISH);
	w->session.owner.keys = NULL;
	exit_leave(w, 0);
	assert_true(w->exit.left && w->exit.clean);
	assert_int_equal(deregistered, 0);
}

/* Its first registration was refused. If it was in doubt instead, something may lie under the name. */
TEST(a_worker_whose_only_name_was_refused_leaves_at_once, setup, teardown)
{
	order(ORDER_FINISH);
	w->session.registered = w->session.confirmed = false;
	exit_leave(w, 0);
	assert_false(w->exit.left);
	w->session.refused = true;
	exit_leave(w, 0);
	assert_true(w->exit.left && w->exit.clean);
}

TEST(a_worker_gives_up_after_a_while, setup, teardown)
{
	w->trays.tray[0].state = TRAY_DELETING;
	order(ORDER_FINISH);
	assert_false(exit_gives_up(w, 0));
	assert_false(exit_gives_up(w, 60000));		/* a drain waits for its acknowledgement */
	order(ORDER_HAND_BACK);
	assert_false(exit_gives_up(w, 61000));
	assert_false(exit_gives_up(w, 62499));
	assert_true(exit_gives_up(w, 62500));
}

TEST(a_drain_that_owns_nothing_gives_up_later, setup, teardown)
{
	order(ORDER_FINISH);
	runs = true;
	assert_false(exit_gives_up(w, 0));
	runs = false;
	assert_false(exit_gives_up(w, 10000));
	assert_false(exit_gives_up(w, 12999));
	assert_true(exit_gives_up(w, 13000));
	order(ORDER_RUN);
	assert_false(exit_gives_up(w, 13000));
	order(ORDER_FINISH);
	assert_false(exit_gives_up(w, 14000));		/* it begins anew */
}

/* ---- a stop that reaches every process ---- */

static enum exit_cause judge(int signal, int code, int64_t now_ms)
{
	return exit_judge_end(&w->exit, signal, code, now_ms);
}

TEST(while_a_worker_leaves_a_signal_from_elsewhere_is_the_stops, setup, teardown)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGKILL };

	order(ORDER_FINISH);
	for (size_t i = 0; i < nitems(signals); i++) {
		assert_int_equal(judge(signals[i], -1, 0), EXIT_OF_STOP);
		assert_int_equal(judge(0, 128 + signals[i], 0), EXIT_OF_STOP);
	}
	assert_int_equal(judge(SIGSEGV, -1, 0), EXIT_ITS_OWN);
	assert_int_equal(judge(0, 1, 0), EXIT_ITS_OWN);
	assert_int_equal(exit_deadline_ms(w, 0), INT64_MAX);
}

TEST(the_order_may_follow_the_signal, setup, teardown)
{
	order(ORDER_RUN);
	assert_int_equal(judge(SIGTERM, -1, 1000), EXIT_UNDECIDED);
	assert_int_equal(judge(SIGTERM, -1, 1100), EXIT_UNDECIDED);
	assert_in_range(exit_deadline_ms(w, 0), 1200, 2000);
	exit_master_gone(&w->exit);
	exit_look_at_order(w, 0);
	assert_int_equal(judge(SIGTERM, -1, 1150), EXIT_OF_STOP);
	assert_int_equal(exit_deadline_ms(w, 0), INT64_MAX);
}

TEST(a_signal_without_a_stop_charges_its_message_after_a_moment, setup, teardown)
{
	int64_t at;

	order(ORDER_RUN);
	for (int n = 0; n < 2; n++) {			/* each end has its own moment */
		assert_int_equal(judge(0, 143, 1000 + n * 10000), EXIT_UNDECIDED);
		at = exit_deadline_ms(w, 0);
		assert_int_equal(judge(0, 143, at - 1), EXIT_UNDECIDED);
		assert_int_equal(judge(0, 143, at), EXIT_ITS_OWN);
	}
	assert_int_equal(judge(SIGKILL, -1, 0), EXIT_ITS_OWN);	/* the kernel's, out of memory: no stop begins with it */
	assert_int_equal(judge(SIGABRT, -1, 0), EXIT_ITS_OWN);
}

UNIT_MAIN(NULL, NULL)
