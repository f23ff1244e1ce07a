/* links: tests/unit/sweeper/task_fixture.c */
/* ldflags: -Wl,--wrap=clock_boottime_ms,--wrap=clock_monotonic_ms */

/* How many requests about schedules the sweeper sends at once, and in which order. Redis is a fake, which keeps the last tick of each schedule: a tick is done
 * if its caller knows that. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "tests/unit/sweeper/task_fixture.h"
#include "tests/unit/unit.h"

#define PER_QUEUE 200
#define MOST 100
#define LOOKS_MOST 8
#define SECOND INT64_C(1000)

extern const struct task schedules_task;

static struct conf conf;
static struct conf_queue queue_conf;
static struct conf_schedule schedules[QUEUES][PER_QUEUE];
static struct conf_schedule *list[QUEUES * PER_QUEUE];
static char names[QUEUES * PER_QUEUE][16];
static char *queue_names[QUEUES] = { "a", "b", "c" };
static int64_t clock_ms;
static int ticks[QUEUES][PER_QUEUE];	/* that were done */
static int64_t last_ms[QUEUES][PER_QUEUE];	/* the last of them; 0: the schedule is new */

/* The requests whose answers were not read. */
static struct asked {
	int queue, schedule;
	int64_t last_ms, tick_ms;
} asked[QUEUES * PER_QUEUE];
static size_t nasked, nread;
static int looks;			/* of these, with overlap = false and a tick */

int64_t __wrap_clock_boottime_ms(void);
int64_t __wrap_clock_monotonic_ms(void);

int64_t __wrap_clock_boottime_ms(void)
{
	return clock_ms;
}

int64_t __wrap_clock_monotonic_ms(void)
{
	return clock_ms;
}

void queue_tick(struct redis *r, const struct queue_keys *k, const struct queue_tick *t)
{
	int n = atoi(t->name);

	(void)r, (void)k;
	asked[nasked++] = (struct asked){ n / PER_QUEUE, n % PER_QUEUE, t->last_ms, t->tick_ms };
	looks += t->alone != NULL && t->tick_ms > 0;
}

int connection_answer(struct sweeper *unused, struct redis_reply *reply)
{
	(void)unused;
	*reply = (struct redis_reply){0};
	return 0;
}

int queue_ticked(const struct redis_reply *reply, struct queue_ticked *out)
{
	const struct asked *a = &asked[nread++];
	int64_t *last = &last_ms[a->queue][a->schedule];
	bool done = a->tick_ms > 0 && a->last_ms == *last;

	(void)reply;
	if (done || *last == 0)
		*last = done ? a->tick_ms : clock_ms / SECOND * SECOND;
	*out = (struct queue_ticked){ .end = done ? QUEUE_TICK_DONE : QUEUE_TICK_NONE, .now_ms = clock_ms };
	out->schedule.last_ms = *last;
	ticks[a->queue][a->schedule] += done;
	return 0;
}

int connection_unexpected(struct sweeper *unused)
{
	(void)unused;
	return -1;
}

int connection_integer(struct sweeper *unused, int64_t *out)
{
	(void)unused;
	*out = 0;
	return 0;
}

void sweeper_queue_count(struct sweeper_queue *q, enum counter counter, uint64_t n)
{
	(void)q, (void)counter, (void)n;
}

void queue_schedule_message(struct buffer *out, const struct queue_keys *k, const struct conf_schedule *c, int64_t at_ms, bool tick)
{
	(void)out, (void)k, (void)c, (void)at_ms, (void)tick;
}

void queue_schedule_definition(const struct conf_schedule *c, char out[QUEUE_SCHEDULE_DEFINITION_SIZE])
{
	(void)c;
	out[0] = '\0';
}

int64_t queue_schedule_on_time_ms(int64_t lease_ms)
{
	return lease_ms;
}

int queue_places_learn(struct queue_places *p, const struct queue_keys *k, const struct redis_reply *reply)
{
	(void)p, (void)k, (void)reply;
	return 0;
}

void queue_places_free(struct queue_places *p)
{
	(void)p;
}

void queue_schedules_forget(struct redis *r, const struct queue_keys *k, int64_t between_ms, int most, const char *const *known, size_t n)
{
	(void)r, (void)k, (void)between_ms, (void)most, (void)known, (void)n;
}

static void begin(bool overlap)
{
	memset(ticks, 0, sizeof(ticks));
	memset(last_ms, 0, sizeof(last_ms));
	clock_ms = 1000 * SECOND + 1;
	task_fixture_start(&schedules_task);
	conf = (struct conf){ .supervisor.lease_ms = 30000, .schedules = list, .nschedules = QUEUES * PER_QUEUE };
	s.conf = &conf;
	for (int q = 0; q < QUEUES; q++) {
		queues[q].conf = &queue_conf;
		queues[q].keys.name = queue_names[q];
		for (int i = 0; i < PER_QUEUE; i++) {
			int n = q * PER_QUEUE + i;

			snprintf(names[n], sizeof(names[n]), "%d", n);
			schedules[q][i] = (struct conf_schedule){ .name = names[n], .queue = queue_names[q], .message = "m",
				.overlap = overlap, .times.every_ms = SECOND };
			list[n] = &schedules[q][i];
		}
	}
}

static int start_alone(void **state)
{
	(void)state;
	begin(false);
	return 0;
}

static int start_together(void **state)
{
	(void)state;
	begin(true);
	return 0;
}

/* The sweeper writes once, some ms after its last write. Returns how many requests that write had. */
static size_t turn(void)
{
	nasked = nread = 0;
	looks = 0;
	clock_ms += 2;
	tasks_each_turn(&s, clock_ms);
	tasks_run(&s);
	assert_int_equal(nread, nasked);
	assert_true(nasked <= MOST);
	assert_true(looks <= LOOKS_MOST);
	return nasked;
}

static size_t turns_until_quiet(void)
{
	size_t all = 0, n;

	while ((n = turn()) > 0)
		all += n;
	return all;
}

static void each_has(int n)
{
	for (int q = 0; q < QUEUES; q++)
		for (int i = 0; i < PER_QUEUE; i++)
			assert_int_equal(ticks[q][i], n);
}

TEST(a_write_has_few_requests_and_the_others_follow, start_together, task_fixture_stop)
{
	assert_int_equal(turns_until_quiet(), QUEUES * PER_QUEUE);	/* the looks at a new connection */
	clock_ms = 1001 * SECOND;
	assert_int_equal(turns_until_quiet(), QUEUES * PER_QUEUE);
	each_has(1);
}

TEST(a_write_looks_through_few_queues, start_alone, task_fixture_stop)
{
	turns_until_quiet();
	clock_ms = 1001 * SECOND;
	assert_int_equal(turns_until_quiet(), QUEUES * PER_QUEUE);
	each_has(1);
}

/* Those that were asked about are due again before the last one was. */
TEST(none_waits_for_another_that_is_due_again, start_alone, task_fixture_stop)
{
	int least = INT_MAX, most = 0;

	turns_until_quiet();
	for (int64_t i = 1; i <= 3 * QUEUES * PER_QUEUE / LOOKS_MOST; i++) {
		clock_ms = (1000 + i) * SECOND;
		turn();
	}
	for (int q = 0; q < QUEUES; q++)
		for (int i = 0; i < PER_QUEUE; i++) {
			least = ticks[q][i] < least ? ticks[q][i] : least;
			most = ticks[q][i] > most ? ticks[q][i] : most;
		}
	assert_true(least >= 1 && most <= 6);
}

/* The ticks of one write differ, and its first request is about another schedule each time. */
TEST(each_schedule_takes_its_own_answer, start_together, task_fixture_stop)
{
	for (int q = 0; q < QUEUES; q++)
		for (int i = 0; i < PER_QUEUE; i++)
			schedules[q][i].times.every_ms = SECOND * (1 + i % 3);
	schedules[0][PER_QUEUE - 1].times.every_ms = 7 * SECOND;	/* not due each time */
	turns_until_quiet();
	for (int i = 1; i <= 7; i++) {
		clock_ms = (1000 + 5 * i) * SECOND;
		turns_until_quiet();
	}
	assert_int_equal(ticks[0][PER_QUEUE - 1], 5);
	ticks[0][PER_QUEUE - 1] = 7;				/* as all others have */
	each_has(7);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
