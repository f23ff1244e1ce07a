/*
 * Writes the counts of workers and sweeper from the scoreboard to Redis, every few seconds and only if a figure
 * changed, so a message costs no command. If two sweepers of one master see the same growth, one of them writes it. The
 * figures are statistics: a write that was interrupted, because the sweeper was killed or the connection lost, may be
 * missing.
 */
#include <assert.h>
#include <stdlib.h>

#include "sweeper/core/core.h"

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/report/tally.h"

#define MINUTE_MS 60000

extern const struct task tally_task;

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
		sum->n[i] += atomic_load(&q->master.past[i]);
	for (int i = 0; i < COUNTERS; i++)
		sum->n[i] += atomic_load(&q->sweeper.swept[i]);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		sum->n[FIGURE_LAGS + i] += atomic_load(&q->sweeper.lags[i]);
	sum->n[FIGURE_LAG_MS] += atomic_load(&q->sweeper.lag_ms);
}

static void add_queue(struct sweeper *s, struct sweeper_queue *q, void *sums)
{
	if (q->board != NULL)
		add_past((struct queue_figures *)sums + (q->board - s->child->board->queues), q->board);
}

/*
 * The figures of all queues of the board. Past figures are read first: when a worker dies, its figures leave the slot
 * before they are added to the past, so none is counted twice.
 */
struct queue_figures *tally_add_up(struct sweeper *s)
{
	struct queue_figures *sums = alloc_zero(SCOREBOARD_QUEUES, sizeof(*sums));
	const struct scoreboard *board = s->child->board;

	sweeper_queues_each(s, add_queue, sums);
	for (int i = 0; i < SCOREBOARD_SLOTS; i++) {
		int64_t queue = atomic_load(&board->master.queue_of[i]);

		if (queue > 0 && queue <= SCOREBOARD_QUEUES)
			add_slot(&sums[queue - 1], &board->slots[i]);
	}
	return sums;
}

uint64_t tally_claim(_Atomic uint64_t *claimed, uint64_t total)
{
	uint64_t before = atomic_load(claimed);

	while (total > before)
		if (atomic_compare_exchange_weak(claimed, &before, total))
			return total - before;
	return 0;
}

/* True: some figure about messages has grown. A reconnection alone is not worth a write, and a dry run writes
 * nothing. */
static bool is_news(const struct board_queue *q, const struct queue_figures *sum)
{
	for (int i = 0; i < QUEUE_FIGURES; i++)
		if (i != COUNT_RECONNECTED && i != COUNT_WOULD_PURGE &&
		    sum->n[i] > atomic_load(&q->reported.tallied[i]))
			return true;
	for (size_t i = 0; i < CLASS_FIGURES; i++)
		if (classes_figure(&q->workers.classes, i).n > atomic_load(&q->reported.classes_tallied[i]))
			return true;
	return false;
}

/* Reduces sum to what is new, and fills in what is new of the classes. False: nothing is new. */
static bool claim_all(struct board_queue *q, struct queue_figures *sum, struct class_figure classes[CLASS_FIGURES])
{
	bool any = false;

	if (!is_news(q, sum))
		return false;
	sum->n[COUNT_WOULD_PURGE] = 0;
	for (int i = 0; i < QUEUE_FIGURES; i++) {
		sum->n[i] = tally_claim(&q->reported.tallied[i], sum->n[i]);
		any = any || sum->n[i] > 0;
	}
	for (size_t i = 0; i < CLASS_FIGURES; i++) {
		classes[i] = classes_figure(&q->workers.classes, i);
		classes[i].n = tally_claim(&q->reported.classes_tallied[i], classes[i].n);
		any = any || classes[i].n > 0;
	}
	return any;
}

static void give_back(struct board_queue *q, const struct queue_figures *done,
    const struct class_figure classes[CLASS_FIGURES])
{
	for (size_t i = 0; i < CLASS_FIGURES; i++)
		atomic_fetch_sub(&q->reported.classes_tallied[i], classes[i].n);
	for (int i = 0; i < QUEUE_FIGURES; i++) {
		uint64_t before = atomic_fetch_sub(&q->reported.tallied[i], done->n[i]);

		assert(before >= done->n[i]);	/* we claimed it, and no other sweeper gives back our claim */
	}
}

/* ---- a round: all queues in one turn ---- */

/* The task's own state: data that one turn reads once for all queues. */
struct round {
	int64_t now_ms;			/* CLOCK_MONOTONIC of the turn; 0: none yet */
	int64_t minute;			/* by the clock of Redis; -1: not read yet */
	struct queue_figures *sums;	/* of all queues; NULL: none */
};

static struct round *round_at(struct sweeper *s, int64_t now_ms)
{
	struct round *r = task_own(s, &tally_task);

	if (r->sums != NULL && r->now_ms == now_ms)
		return r;
	free(r->sums);
	*r = (struct round){ .now_ms = now_ms, .minute = -1, .sums = tally_add_up(s) };
	return r;
}

static int read_minute(struct sweeper *s, struct round *r)
{
	struct redis_reply reply;
	int64_t ms;

	queue_time(&s->redis);
	if (connection_answer(s, &reply) == -1 || (ms = queue_time_parse(&reply)) == -1)
		return -1;
	r->minute = ms / MINUTE_MS;
	return 0;
}

static enum task_end run_tally(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct round *r = round_at(s, now_ms);
	struct queue_figures *done = &r->sums[q->board - s->child->board->queues];
	struct class_figure classes[CLASS_FIGURES];
	int64_t n;

	(void)budget;
	if (!claim_all(q->board, done, classes))
		return TASK_DONE;
	if (r->minute == -1 && read_minute(s, r) == -1) {
		give_back(q->board, done, classes);
		return TASK_FAILED;
	}
	queue_tally(&s->redis, &q->keys, r->minute, done, classes);
	if (connection_integer(s, &n) == 0)
		return TASK_DONE;
	if (s->redis.state != REDIS_CLOSED)
		give_back(q->board, done, classes);	/* Redis refused them: they were not written */
	return TASK_FAILED;
}

/* Writes the last figures of the workers, which have all exited. */
static void settle_queue(struct sweeper *s, struct sweeper_queue *q, void *now_ms)
{
	if (q->board != NULL && s->redis.state == REDIS_READY && run_tally(s, q, 1, *(int64_t *)now_ms) == TASK_FAILED)
		connection_drain(s);
}

static void settle_all(struct sweeper *s)
{
	int64_t now_ms = clock_monotonic_ms();

	sweeper_queues_each(s, settle_queue, &now_ms);
}

static void free_own(struct sweeper *s)
{
	struct round *r = task_own(s, &tally_task);

	free(r->sums);
}

const struct task tally_task = { .name = "tally", .interval_ms = 5000, .budget = 1, .served = true,
	.run_queue = run_tally, .settle = settle_all,
	.own_size = sizeof(struct round), .free_own = free_own };
