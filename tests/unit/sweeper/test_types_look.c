/* links: tests/unit/sweeper/task_fixture.c */
/* ldflags: -Wl,--wrap=queue_types_ask */

/* When the sweeper looks at the types of all keys: a look whose answers were lost counts for nothing. */
#include <stdio.h>
#include <string.h>

#include "common/base/base.h"
#include "common/board/scoreboard.h"
#include "sweeper/report/health.h"
#include "tests/unit/sweeper/task_fixture.h"
#include "tests/unit/unit.h"

extern const struct task types_task;

static struct scoreboard board;
static int answers, lost_after;		/* the connection breaks after so many answers; -1: never */
static bool wrong;			/* every key is a stream, so some have the wrong type */
static char published[SLOT_TEXT_MAX];

/* ---- the rest of the core, and Redis ---- */

const struct hold_slots *health_slots(const struct sweeper *unused)
{
	static const struct hold_slots none;

	(void)unused;
	return &none;
}

void __wrap_queue_types_ask(struct redis *unused, const struct queue_types *t);
void __wrap_queue_types_ask(struct redis *unused, const struct queue_types *t)
{
	(void)unused;
	assert_true(t->n > 10);
}

int connection_answer(struct sweeper *unused, struct redis_reply *reply)
{
	if (answers == lost_after) {
		unused->redis.state = REDIS_CLOSED;
		return -1;
	}
	answers++;
	*reply = (struct redis_reply){ .type = REDIS_STATUS, .str = wrong ? "stream" : "none" };
	return 0;
}

void connection_set_error(struct sweeper *unused, enum queue_error kind, const char *error)
{
	(void)unused;
	(void)error;
	assert_int_equal(kind, QUEUE_ERROR_WRONG_TYPE);
}

void core_publish_why(struct sweeper_queue *q, enum queue_error error, const char *why)
{
	(void)q;
	assert_int_equal(error, QUEUE_ERROR_WRONG_TYPE);
	snprintf(published, sizeof(published), "%s", why);
}

/* ---- */

static void forget(void)
{
	answers = 0;
	lost_after = -1;
	wrong = false;
	published[0] = '\0';
}

static int start(void **state)
{
	static struct child child = { .board = &board };
	static char prefix[] = "", node[] = "here";

	(void)state;
	forget();
	task_fixture_start(&types_task);
	((struct conf *)s.conf)->redis.prefix = prefix;
	((struct conf *)s.conf)->supervisor.node = node;
	s.child = &child;
	queues[0].board = &board.queues[0];
	queue_keys_init(&queues[0].keys, prefix, "mail", "ingress:mail", "transit:mail", "escape:mail");
	return 0;
}

static int stop(void **state)
{
	task_fixture_stop(state);
	queue_keys_free(&queues[0].keys);
	return 0;
}

/* The next run, whatever the interval of the task is: the number of answers that it read. */
static int answers_of_a_run(void)
{
	answers = 0;
	task_fixture_in(0)->at_ms = 0;
	assert_false(tasks_run(&s));
	return answers;
}

TEST(a_complete_look_suffices_for_minutes, start, stop)
{
	assert_true(answers_of_a_run() > 10);
	assert_int_equal(answers_of_a_run(), 0);
}

TEST(a_look_whose_answers_were_lost_comes_again, start, stop)
{
	static const int lost[] = { 0, 1, 9 };

	for (size_t i = 0; i < nitems(lost); i++) {
		lost_after = lost[i];
		assert_int_equal(answers_of_a_run(), lost[i]);
		s.redis.state = REDIS_READY;
	}
	lost_after = -1;
	assert_true(answers_of_a_run() > 10);
	assert_int_equal(answers_of_a_run(), 0);
}

/* The answers that came say nothing about the keys whose answers did not. */
TEST(a_lost_look_withdraws_no_alarm, start, stop)
{
	wrong = true;
	assert_true(answers_of_a_run() > 10);
	assert_int_equal(fixture.noted, 1);
	assert_non_null(strstr(published, " is a stream, but quredis needs a "));
	wrong = false;
	lost_after = 1;
	assert_int_equal(answers_of_a_run(), 1);
	assert_true(published[0] != '\0');
	s.redis.state = REDIS_READY;
	lost_after = -1;
	assert_true(answers_of_a_run() > 10);
	assert_true(published[0] == '\0');
}

TEST(a_wrong_type_is_looked_at_until_it_is_repaired, start, stop)
{
	wrong = true;
	for (int i = 0; i < 3; i++)
		assert_true(answers_of_a_run() > 10);
}

UNIT_MAIN(NULL, NULL)
