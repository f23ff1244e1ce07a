/*
 * Writes the classes of failed attempts, and the latest of them, from the scoreboard to Redis, every few seconds and
 * only if an attempt failed. A batch that Redis did not confirm is sent again, also by the next sweeper, and counts
 * once. What is written at once is bounded (common/board/failed.h).
 */
#include <inttypes.h>
#include <stdio.h>

#include <bsd/stdlib.h>

#include "sweeper/core/core.h"

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/report/gauge.h"
#include "sweeper/report/metrics.h"

/* The worker of the queue whose attempt failed last. NULL: none did, or it has exited. */
static const struct slot *latest_slot(const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct scoreboard *board = s->child->board;
	const struct slot *latest = NULL;

	for (int i = 0; i < SCOREBOARD_SLOTS; i++) {
		const struct slot *slot = &board->slots[i];

		if (atomic_load(&board->master.queue_of[i]) == q->board - board->queues + 1 &&
		    atomic_load(&slot->attempt_ms) > 0 &&
		    (latest == NULL || atomic_load(&slot->attempt_ms) > atomic_load(&latest->attempt_ms)))
			latest = slot;
	}
	return latest;
}

#define LATEST_SIZE (24 + SLOT_TEXT_WORDS * 8)
static void describe_latest(const struct sweeper *s, const struct sweeper_queue *q, int64_t server_ms,
    char out[LATEST_SIZE])
{
	const struct slot *slot = latest_slot(s, q);
	struct slot_text_seen seen;

	out[0] = '\0';
	if (slot == NULL)
		return;
	seen = slot_text_read(&slot->attempt);
	if (seen.number != -1)
		snprintf(out, LATEST_SIZE, "%" PRId64 " %s",
		    server_ms - (clock_monotonic_ms() - atomic_load(&slot->attempt_ms)), seen.text);
}

/* 0 has another meaning. */
static int64_t new_batch_id(void)
{
	return (int64_t)arc4random() << 16 | (arc4random_uniform(UINT16_MAX) + 1);
}

/* tally.c reports an error of the same keys. */
static enum task_end send_batch(struct sweeper *s, struct sweeper_queue *q)
{
	struct failed_batch batch;
	struct age_clock clock;
	char latest[LATEST_SIZE];
	int64_t written;

	if (!server_clock_age(&s->clock, clock_boottime_ms(), &clock) ||
	    !failed_begin(&q->board->workers.failed, new_batch_id(), clock.now_ms / MINUTE_MS, &batch))
		return TASK_DONE;
	describe_latest(s, q, clock.now_ms, latest);
	queue_failed_note(&s->redis, &q->keys, s->conf->supervisor.node, &batch, latest);
	if (connection_integer(s, &written) == 0) {
		failed_confirm(&q->board->workers.failed, batch.id);
		statsd_failed(s, q, &batch);
	}
	return s->redis.state == REDIS_CLOSED ? TASK_FAILED : TASK_DONE;
}

/* After a reload two sweepers live. If both filled, sent and confirmed batches at once, counts would be lost, or count
 * twice. */
static enum task_end run_failed(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	enum task_end end;

	(void)budget;
	(void)now_ms;
	if (!core_hold(s, &q->board->sweeper.failed_sender))
		return TASK_DONE;
	end = send_batch(s, q);
	atomic_store(&q->board->sweeper.failed_sender, 0);
	return end;
}

/* Writes what the workers, which have all exited, counted last. */
static void settle_queue(struct sweeper *s, struct sweeper_queue *q, void *arg)
{
	(void)arg;
	/* a batch that Redis has not confirmed, and then what was counted since */
	for (int i = 0; i < 2; i++)
		if (q->board != NULL && s->redis.state == REDIS_READY && run_failed(s, q, 1, 0) == TASK_FAILED)
			connection_drain(s);
}

static void settle_all(struct sweeper *s)
{
	sweeper_queues_each(s, settle_queue, NULL);
}

extern const struct task failed_task;
const struct task failed_task = { .name = "failed", .interval_ms = 5000, .budget = 1, .served = true,
	.run_queue = run_failed,
	.settle = settle_all, .steady = true };
