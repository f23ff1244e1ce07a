/* links: tests/unit/private_redis.c tests/unit/private_queue.c */

/* The task that writes the classes of failed attempts: one sweeper at a time, and at the end of the process all that was counted. */
#include <signal.h>
#include <unistd.h>

#include "common/board/failed.h"
#include "common/board/scoreboard.h"
#include "sweeper/core/core.h"
#include "sweeper/report/gauge.h"
#include "tests/unit/private_queue.h"
#include "tests/unit/unit.h"

#define SLOT 3

extern const struct task failed_task;

static struct conf conf;
static struct child child = { .conf = &conf, .slot = SLOT };
static struct sweeper s;
static struct sweeper_queue q;

static int start_server(void **state)
{
	(void)state;
	private_queue_start();
	return 0;
}

static int start(void **state)
{
	static const struct task *const table[] = { &metrics_task, &failed_task };
	int64_t now_ms = clock_boottime_ms();
	sigset_t unused;

	(void)state;
	private_queue_clear();
	core_catch_term(getppid(), &unused);		/* our parent stands for the master */
	conf.supervisor.node = (char *)(uintptr_t)"here";
	conf.redis.url = server.url;
	child.board = scoreboard_new();
	s = (struct sweeper){ .conf = &conf, .child = &child, .slot = &child.board->slots[SLOT] };
	server_clock_take(&s.clock, &(struct server_time){ .server_ms = INT64_C(1740000000000), .sent_ms = now_ms, .answered_ms = now_ms });
	assert_int_equal(connection_init(&s), 0);
	assert_int_equal(redis_connect(&s.redis, REDIS_TIMEOUT_MS, NULL), 0);
	TAILQ_INIT(&s.queues);
	tasks_init(&s, table, nitems(table));
	q = (struct sweeper_queue){ .board = &child.board->queues[0], .keys = keys };
	task_error_list_init(&q.errors);
	tasks_enter(&s, &q);
	TAILQ_INSERT_TAIL(&s.queues, &q, entry);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	tasks_leave(&q);
	tasks_free(&s);
	connection_free(&s);
	scoreboard_free(child.board);
	return 0;
}

static void assert_refused(int64_t n)
{
	struct redis_reply reply = REDIS(&server, "HGET %s failed:Refused", keys.stats);

	assert_int_equal(reply.type == REDIS_NIL ? 0 : strtoll(reply.str, NULL, 10), n);
}

/* After a reload two live for a while. */
TEST(one_sweeper_at_a_time_takes_counts, start, stop)
{
	struct slot *other = &child.board->slots[SLOT + 1];

	failed_count(&q.board->workers.failed, "Refused", 7);
	slot_next_generation(other);
	slot_set_state(other, SLOT_IDLE);
	atomic_store(&q.board->sweeper.failed_sender, (int64_t)(slot_generation(other) << 16) + SLOT + 2);
	assert_int_equal(failed_task.run_queue(&s, &q, 1, 0), TASK_DONE);
	assert_int_equal(atomic_load(&q.board->workers.failed.batch), 0);
	assert_refused(0);
	slot_next_generation(other);		/* it was killed meanwhile */
	assert_int_equal(failed_task.run_queue(&s, &q, 1, 0), TASK_DONE);
	assert_refused(7);
	failed_count(&q.board->workers.failed, "Refused", 1);
	assert_int_equal(failed_task.run_queue(&s, &q, 1, 0), TASK_DONE);
	assert_refused(8);
	assert_false(failed_any(&q.board->workers.failed));
}

TEST(the_end_of_the_process_writes_what_was_counted_after_a_batch, start, stop)
{
	struct failed_batch batch;

	failed_count(&q.board->workers.failed, "Refused", 7);
	assert_true(failed_begin(&q.board->workers.failed, 1, 29000000, &batch));		/* Redis did not confirm it */
	failed_count(&q.board->workers.failed, "Refused", 2);
	failed_task.settle(&s);
	assert_refused(9);
	assert_false(failed_any(&q.board->workers.failed));
}

UNIT_MAIN(start_server, private_queue_stop)
