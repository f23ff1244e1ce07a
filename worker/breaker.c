/*
 * The circuit breaker of a queue: opened by a handler that cannot be executed, or by a row of
 * failures over distinct messages. All workers of the queue share it through atomic words; whoever
 * moves `until` forward owns the next probe.
 */
#include "worker/worker.h"

#include "common/backoff.h"

#define PROBE_BASE_MS 500
#define PROBE_CAP_MS 30000

int64_t breaker_until_ms(const struct board_queue *b)
{
	return atomic_load(&b->breaker_step) == 0 ? 0 : atomic_load(&b->breaker_until_ms);
}

static int64_t pause_ms(uint32_t step)
{
	return backoff_ms(PROBE_BASE_MS, 2, PROBE_CAP_MS, 0, step, 0);
}

bool breaker_may_fetch(struct board_queue *b, int64_t now_ms)
{
	uint32_t step = atomic_load(&b->breaker_step);
	int64_t until = atomic_load(&b->breaker_until_ms);

	if (step == 0)
		return true;
	if (until > now_ms || !atomic_compare_exchange_strong(&b->breaker_until_ms, &until, now_ms + pause_ms(step + 1)))
		return false;
	/* Taken to fail: a success closes. Lost if another just closed it, as it should be. */
	atomic_compare_exchange_strong(&b->breaker_step, &step, step + 1);
	return true;
}

bool breaker_open(struct board_queue *b, int64_t now_ms)
{
	uint32_t closed = 0;

	if (!atomic_compare_exchange_strong(&b->breaker_step, &closed, 1))
		return false;
	atomic_store(&b->breaker_until_ms, now_ms + pause_ms(1));
	return true;
}

/* The same message failing again proves nothing about the handler. */
static bool counted_already(const struct board_queue *b, uint64_t message, uint32_t failures)
{
	uint32_t n = failures < BREAKER_RING ? failures : BREAKER_RING;

	for (uint32_t i = 0; i < n; i++)
		if (atomic_load(&b->failed_ids[i]) == message)
			return true;
	return false;
}

bool breaker_failed(struct board_queue *b, uint64_t message, int threshold, int64_t now_ms)
{
	uint32_t failures = atomic_load(&b->failures);

	if (threshold <= 0)
		return false;
	if (!counted_already(b, message, failures)) {
		failures = atomic_fetch_add(&b->failures, 1) + 1;
		atomic_store(&b->failed_ids[(failures - 1) % BREAKER_RING], message);
	}
	return failures >= (uint32_t)threshold && breaker_open(b, now_ms);
}

bool breaker_close(struct board_queue *b)
{
	atomic_store(&b->failures, 0);
	return atomic_exchange(&b->breaker_step, 0) != 0;
}

/* FNV-1a of the message id: distinct enough to tell one failing message from many. */
uint64_t breaker_message_id(struct message *m)
{
	uint64_t hash = 14695981039346656037u;

	for (const char *p = message_id(m); *p != '\0'; p++)
		hash = (hash ^ (unsigned char)*p) * 1099511628211u;
	return hash;
}
