/*
 * The circuit breaker of a queue. All workers of the queue share it through atomic words; the worker that moves `until`
 * forward owns the next probe. Three things are evidence against the handler (docs/design.md):
 *	- the handler could not be executed, or it ended before it read anything: no message can be the cause;
 *	- the handler ended before it answered, and no handler of this generation has answered anything;
 *	- breaker.failures different messages failed in a row, each for the first time.
 * Any other failure is evidence against its message alone. A generation begins with a start, reload or restart of the
 * queue.
 */
#include "worker/worker.h"

#include "common/base/base.h"

#define PROBE_BASE_MS 500
#define PROBE_CAP_MS 30000
#define MUTE_BASE_MS 250
#define MUTE_DOUBLES 64		/* messages after which the pause between probes with different messages doubles */
#define MUTE_DOUBLED_MAX 3	/* times: it is 2 s at most */

int64_t breaker_until_ms(const struct board_queue *b)
{
	return atomic_load(&b->workers.breaker.step) == 0 ? 0 : atomic_load(&b->workers.breaker.until_ms);
}

static int64_t pause_ms(uint32_t step)
{
	return clock_backoff_ms(PROBE_BASE_MS, 2, PROBE_CAP_MS, 0, step, 0);
}

bool breaker_may_fetch(struct board_queue *b, int64_t now_ms)
{
	uint32_t step = atomic_load(&b->workers.breaker.step);
	int64_t until = atomic_load(&b->workers.breaker.until_ms);

	if (step == 0)
		return true;
	if (until > now_ms || !atomic_compare_exchange_strong(&b->workers.breaker.until_ms, &until,
	    now_ms + pause_ms(step + 1)))
		return false;
	/*
	 * Assumes that the probe fails, since a success closes the breaker. If another worker has just closed it, the
	 * exchange fails and the breaker stays closed.
	 */
	atomic_compare_exchange_strong(&b->workers.breaker.step, &step, step + 1);
	return true;
}

bool breaker_open(struct board_queue *b, uint64_t cause, int64_t now_ms)
{
	uint32_t closed = 0;

	/* first, so that an open breaker has one. A failed probe renews it */
	atomic_store(&b->workers.breaker.cause, cause);
	if (!atomic_compare_exchange_strong(&b->workers.breaker.step, &closed, 1))
		return false;
	atomic_store(&b->workers.breaker.until_ms, now_ms + pause_ms(1));
	return true;
}

bool breaker_unready(struct board_queue *b, uint64_t cause, int64_t now_ms)
{
	bool opened = breaker_open(b, cause, now_ms);

	/* a load may take longer than the pause that began with it. Of a closed breaker the time means nothing */
	if (!opened)
		atomic_store(&b->workers.breaker.until_ms, now_ms + pause_ms(atomic_load(&b->workers.breaker.step)));
	return opened;
}

/* A handler that takes long to start is not started more often than half of the time. */
static int64_t mute_pause_ms(uint32_t mute, int64_t lived_ms)
{
	uint32_t doubled = mute / MUTE_DOUBLES;
	int64_t pause = MUTE_BASE_MS << (doubled < MUTE_DOUBLED_MAX ? doubled : MUTE_DOUBLED_MAX);

	return lived_ms < pause ? pause : lived_ms < PROBE_CAP_MS ? lived_ms : PROBE_CAP_MS;
}

bool breaker_mute(struct board_queue *b, uint64_t cause, int64_t lived_ms, int64_t now_ms)
{
	uint32_t mute = atomic_fetch_add(&b->workers.breaker.mute, 1), step = 0;
	bool opened;

	atomic_store(&b->workers.breaker.cause, cause);
	opened = atomic_compare_exchange_strong(&b->workers.breaker.step, &step, 1);
	/* it can be executed, so the back-off begins anew. If a success has closed the breaker meanwhile, it stays
	 * closed */
	if (!opened)
		atomic_compare_exchange_strong(&b->workers.breaker.step, &step, 1);
	atomic_store(&b->workers.breaker.until_ms, now_ms + mute_pause_ms(mute, lived_ms));
	return opened;
}

void breaker_doubt(struct board_queue *b)
{
	atomic_store(&b->workers.breaker.answered_generation, 0);
}

/* A message that fails again proves nothing about the handler, even if other messages were done in between. */
static bool counted_already(const struct board_queue *b, uint64_t message)
{
	uint32_t seen = atomic_load(&b->workers.breaker.failed_seen), n = seen < BREAKER_RING ? seen : BREAKER_RING;

	for (uint32_t i = 0; i < n; i++)
		if (atomic_load(&b->workers.breaker.failed_ids[i]) == message)
			return true;
	return false;
}

bool breaker_failed(struct board_queue *b, uint64_t message, int threshold, const struct handler_result *last,
    int64_t now_ms)
{
	uint32_t failures = atomic_load(&b->workers.breaker.failures), seen;

	if (threshold <= 0)
		return false;
	if (!counted_already(b, message)) {
		seen = atomic_fetch_add(&b->workers.breaker.failed_seen, 1);
		atomic_store(&b->workers.breaker.failed_ids[seen % BREAKER_RING], message);
		failures = atomic_fetch_add(&b->workers.breaker.failures, 1) + 1;
	}
	return failures >= (uint32_t)threshold && breaker_open(b, handler_cause_failures(failures, last), now_ms);
}

static bool close_breaker(struct board_queue *b)
{
	if (atomic_load(&b->workers.breaker.mute) != 0)
		atomic_store(&b->workers.breaker.mute, 0);
	return atomic_load(&b->workers.breaker.step) != 0 && atomic_exchange(&b->workers.breaker.step, 0) != 0;
}

bool breaker_succeeded(struct board_queue *b)
{
	if (atomic_load(&b->workers.breaker.failures) != 0)
		atomic_store(&b->workers.breaker.failures, 0);
	return close_breaker(b);
}

bool breaker_loaded(struct board_queue *b, int threshold)
{
	return (threshold <= 0 || atomic_load(&b->workers.breaker.failures) < (uint32_t)threshold) && close_breaker(b);
}

bool breaker_answered(struct board_queue *b, int threshold)
{
	if (threshold <= 0)
		return breaker_succeeded(b);
	return atomic_load(&b->workers.breaker.failures) < (uint32_t)threshold && close_breaker(b);
}

bool breaker_concerns(const struct board_queue *b, uint32_t generation)
{
	return atomic_load(&b->master.handler_generation) == generation;
}

void breaker_note_answer(struct board_queue *b, uint32_t generation)
{
	if (atomic_load(&b->workers.breaker.answered_generation) != generation + 1)
		atomic_store(&b->workers.breaker.answered_generation, generation + 1);
}

bool breaker_knows_answers(const struct board_queue *b, uint32_t generation)
{
	return atomic_load(&b->workers.breaker.answered_generation) == generation + 1;
}

uint64_t breaker_message_id(struct message *m)
{
	return hash_text(HASH_EMPTY, message_id(m));
}
