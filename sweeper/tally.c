/*
 * What workers and sweeper did, from the scoreboard to Redis, every few seconds and only if there was anything: no
 * message costs a command for it. What two sweepers of one master see at once is written once. Statistics, not
 * accounts: what was being written when the sweeper was killed or the connection lost may be missing.
 */
#include <stdlib.h>

#include "sweeper/sweeper.h"

#include "common/alloc.h"
#include "common/queue_stats.h"
#include "common/queue_watch.h"
#include "sweeper/tally.h"

#define MINUTE_MS 60000

static void add_slot(struct queue_figures *sum, const struct slot *s)
{
	for (int i = 0; i < COUNTERS; i++)
		sum->n[i] += atomic_load(&s->counters[i]);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		sum->n[FIGURE_DURATIONS + i] += atomic_load(&s->durations[i]);
	sum->n[FIGURE_DURATION_MS] += atomic_load(&s->duration_ms);
}

static void add_past(struct queue_figures *sum, const struct board_queue *q)
{
	for (int i = 0; i < QUEUE_FIGURES; i++)
		sum->n[i] += atomic_load(&q->past[i]);
	for (int i = 0; i < COUNTERS; i++)
		sum->n[i] += atomic_load(&q->swept[i]);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		sum->n[FIGURE_LAGS + i] += atomic_load(&q->lags[i]);
	sum->n[FIGURE_LAG_MS] += atomic_load(&q->lag_ms);
}

/* Of all queues of the board. The past first: the dead's figures leave their slot before they get there, so none is seen twice. */
struct queue_figures *tally_add_up(const struct sweeper *s)
{
	struct queue_figures *sums = alloc_zero(SCOREBOARD_QUEUES, sizeof(*sums));
	const struct scoreboard *board = s->child->board;
	const struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (q->board != NULL)
			add_past(&sums[q->board - board->queues], q->board);
	for (int i = 0; i < SCOREBOARD_SLOTS; i++) {
		int64_t queue = atomic_load(&board->slots[i].queue);

		if (queue > 0)
			add_slot(&sums[queue - 1], &board->slots[i]);
	}
	return sums;
}

/* Two sweepers may count: the part may be seen before the whole. */
uint64_t tally_purged_waiting(const struct queue_figures *f)
{
	return f->n[COUNT_PURGED] > f->n[COUNT_PURGED_DELAYED] ? f->n[COUNT_PURGED] - f->n[COUNT_PURGED_DELAYED] : 0;
}

uint64_t tally_claim(_Atomic uint64_t *told, uint64_t total)
{
	uint64_t before = atomic_load(told);

	while (total > before)
		if (atomic_compare_exchange_weak(told, &before, total))
			return total - before;
	return 0;
}

/* Something was done with a message: that a worker connected is no news by itself, and a dry run writes nothing. */
static bool is_news(const struct board_queue *q, const struct queue_figures *sum)
{
	for (int i = 0; i < QUEUE_FIGURES; i++)
		if (i != COUNT_RECONNECTED && i != COUNT_WOULD_PURGE && sum->n[i] > atomic_load(&q->tallied[i]))
			return true;
	return false;
}

/* sum becomes what is new of it. False: nothing is. */
static bool claim_all(struct board_queue *q, struct queue_figures *sum)
{
	bool any = false;

	if (!is_news(q, sum))
		return false;
	sum->n[COUNT_WOULD_PURGE] = 0;
	for (int i = 0; i < QUEUE_FIGURES; i++) {
		sum->n[i] = tally_claim(&q->tallied[i], sum->n[i]);
		any = any || sum->n[i] > 0;
	}
	return any;
}

static void give_back(struct board_queue *q, const struct queue_figures *done)
{
	for (int i = 0; i < QUEUE_FIGURES; i++)
		atomic_fetch_sub(&q->tallied[i], done->n[i]);
}

static int server_minute(struct sweeper *s, int64_t *minute)
{
	struct redis_reply reply;
	int64_t ms;

	queue_time(&s->redis);
	if (connection_answer(s, &reply) == -1 || (ms = queue_time_parse(&reply)) == -1)
		return -1;
	*minute = ms / MINUTE_MS;
	return 0;
}

/* One queue's. minute -1: not asked yet. */
static int tally(struct sweeper *s, struct swept *q, const struct queue_figures *done, int64_t *minute)
{
	int64_t n;

	if (*minute == -1 && server_minute(s, minute) == -1) {
		give_back(q->board, done);
		return -1;
	}
	queue_tally(&s->redis, &q->keys, *minute, done);
	if (connection_integer(s, &n) == 0)
		return 0;
	if (s->redis.state != REDIS_CLOSED)
		give_back(q->board, done);	/* refused, so not written */
	return -1;
}

static bool run_tally(struct sweeper *s, int budget, int64_t now_ms)
{
	struct queue_figures *sums = tally_add_up(s);
	int64_t minute = -1;
	struct swept *q;

	(void)budget;
	TAILQ_FOREACH(q, &s->queues, entry) {
		struct queue_figures *done = q->board == NULL ? NULL : &sums[q->board - s->child->board->queues];

		if (done == NULL || s->redis.state == REDIS_CLOSED || trouble_waits(task_trouble(q, TASK_tally), now_ms) || !claim_all(q->board, done))
			continue;
		if (tally(s, q, done, &minute) == 0)
			trouble_over(s, q, task_trouble(q, TASK_tally));
		else if (s->redis.state != REDIS_CLOSED)
			trouble_note(s, q, task_trouble(q, TASK_tally), "tally", now_ms);
	}
	free(sums);
	return false;
}

const struct task tally_task = { .name = "tally", .interval_ms = 5000, .budget = 1, .run = run_tally, .in_queues = true };
