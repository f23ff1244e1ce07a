/*
 * The shared table between the master and its children: making it, and the few writes that are more
 * than one store. Who may write what is said in the header; what figures mean is left to status.
 */
#include <sys/mman.h>

#include <stddef.h>

#include "common/scoreboard.h"

const char *const counter_names[COUNTERS] = {
	[COUNT_FETCHED] = "fetched",
	[COUNT_DONE] = "done",
	[COUNT_FAILED] = "failed",
	[COUNT_RETRIED] = "retried",
	[COUNT_ESCAPED] = "escaped",
	[COUNT_TIMED_OUT] = "timed_out",
	[COUNT_HANDED_BACK] = "handed_back",
	[COUNT_REDELIVERED] = "redelivered",
	[COUNT_CLAIM_LOST] = "claim_lost",
	[COUNT_UNRUNNABLE] = "unrunnable",
	[COUNT_RECONNECTED] = "reconnected",
	[COUNT_EXPIRED] = "expired",
	[COUNT_PURGED] = "purged",
	[COUNT_EXPIRED_WAITING] = "expired_waiting",
	[COUNT_PURGED_DELAYED] = "purged_delayed",
	[COUNT_DEADLINE_EXCEEDED] = "deadline_exceeded",
	[COUNT_HANDLER_EXIT] = "handler_exit",
	[COUNT_HANDLER_SIGNAL] = "handler_signal",
	[COUNT_HANDLER_TIMEOUT] = "handler_timeout",
	[COUNT_REJECTED] = "rejected",
	[COUNT_UNREPRESENTABLE] = "unrepresentable",
	[COUNT_UNKNOWN_VERSION] = "unknown_version",
	[COUNT_TOO_LARGE] = "too_large",
	[COUNT_WORKER_LOST] = "worker_lost",
	[COUNT_PURGED_DONE] = "purged_done",
	[COUNT_TRANSIT_OLD] = "transit_old",
	[COUNT_WOULD_PURGE] = "would_purge",
	[COUNT_RESCUED] = "rescued",
	[COUNT_DUE] = "due",
	[COUNT_ARCHIVED] = "archived",
	[COUNT_DISCARDED] = "discarded",
	[COUNT_ORPHANED] = "orphaned",
	[COUNT_FORWARDED] = "forwarded",
};

const char *const slot_state_names[] = {
	[SLOT_FREE] = "free",
	[SLOT_STARTING] = "starting",
	[SLOT_CONNECTING] = "connecting",
	[SLOT_WAITING] = "waiting",
	[SLOT_IDLE] = "idle",
	[SLOT_RUNNING] = "running",
	[SLOT_SETTLING] = "settling",
	[SLOT_STOPPING] = "stopping",
};

struct scoreboard *scoreboard_new(void)
{
	void *p = mmap(NULL, sizeof(struct scoreboard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void scoreboard_free(struct scoreboard *b)
{
	if (b != NULL)
		munmap(b, sizeof(*b));
}

void slot_set_state(struct slot *s, enum slot_state state)
{
	atomic_store(&s->state, slot_generation(s) << 8 | (uint64_t)state);
}

uint64_t slot_next_generation(struct slot *s)
{
	uint64_t generation = slot_generation(s) + 1;

	atomic_store(&s->state, generation << 8 | (uint64_t)slot_state(s));
	return generation;
}

static int bucket_of(int64_t ms)
{
	int i = 0;

	while (i < SCOREBOARD_BUCKETS - 1 && ms >= INT64_C(1) << i)
		i++;
	return i;
}

void slot_observe(struct slot *s, int64_t duration_ms)
{
	atomic_fetch_add(&s->durations[bucket_of(duration_ms)], 1);
	if (duration_ms > 0)
		atomic_fetch_add(&s->duration_ms, (uint64_t)duration_ms);
}

void board_observe_lag(struct board_queue *q, int64_t lag_ms)
{
	uint64_t lag = lag_ms > 0 ? (uint64_t)lag_ms : 0, most = atomic_load(&q->lag_most_ms);

	atomic_fetch_add(&q->lags[bucket_of(lag_ms)], 1);
	atomic_fetch_add(&q->lag_ms, lag);
	while (lag > most && !atomic_compare_exchange_weak(&q->lag_most_ms, &most, lag))
		;
}

static void move(_Atomic uint64_t *from, _Atomic uint64_t *to)
{
	uint64_t n = atomic_exchange(from, 0);

	atomic_fetch_add(to, n);
}

void slot_fold(struct slot *s, struct board_queue *q)
{
	for (int i = 0; i < COUNTERS; i++)
		move(&s->counters[i], &q->past[i]);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		move(&s->durations[i], &q->past[FIGURE_DURATIONS + i]);
	move(&s->duration_ms, &q->past[FIGURE_DURATION_MS]);
}

enum queue_trouble trouble_worse(enum queue_trouble a, enum queue_trouble b)
{
	return a == TROUBLE_NONE || (b != TROUBLE_NONE && b < a) ? b : a;
}

enum queue_trouble board_trouble(const struct board_queue *q)
{
	return trouble_worse((enum queue_trouble)atomic_load(&q->trouble), (enum queue_trouble)atomic_load(&q->worker_trouble));
}

void slot_clear(struct slot *s)
{
	atomic_store(&s->heartbeat_ms, 0);
	atomic_store(&s->serial, 0);
	atomic_store(&s->started_ms, 0);
	atomic_store(&s->deadline_ms, 0);
	atomic_store(&s->fence_ms, 0);
	atomic_store(&s->abandoned, 0);
	atomic_store(&s->handler_pgid, 0);
	atomic_store(&s->pid, 0);
	atomic_store(&s->redis_down, 0);
	atomic_store(&s->queue, 0);
	for (int i = 0; i < COUNTERS; i++)
		atomic_store(&s->counters[i], 0);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		atomic_store(&s->durations[i], 0);
	atomic_store(&s->duration_ms, 0);
	slot_set_state(s, SLOT_FREE);
}
