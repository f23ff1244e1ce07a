/*
 * The shared table between the master and its children: making it, and the few writes that are more
 * than one store. Who may write what is said in the header; what figures mean is left to status.
 */
#include <sys/mman.h>

#include <stddef.h>
#include <string.h>

#include "common/board/scoreboard.h"

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
	uint64_t lag = lag_ms > 0 ? (uint64_t)lag_ms : 0, most = atomic_load(&q->sweeper.lag_max_ms);

	atomic_fetch_add(&q->sweeper.lags[bucket_of(lag_ms)], 1);
	atomic_fetch_add(&q->sweeper.lag_ms, lag);
	while (lag > most && !atomic_compare_exchange_weak(&q->sweeper.lag_max_ms, &most, lag))
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
		move(&s->counters[i], &q->master.past[i]);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		move(&s->durations[i], &q->master.past[FIGURE_DURATIONS + i]);
	move(&s->duration_ms, &q->master.past[FIGURE_DURATION_MS]);
}

enum queue_error queue_error_of(enum redis_error_class class)
{
	switch (class) {
	case REDIS_ERROR_NONE:
		return QUEUE_ERROR_NONE;
	case REDIS_ERROR_TRANSIENT:
		return QUEUE_ERROR_TRANSIENT;
	case REDIS_ERROR_PERMISSION:
		return QUEUE_ERROR_NO_PERMISSION;
	case REDIS_ERROR_WRONG_TYPE:
		return QUEUE_ERROR_WRONG_TYPE;
	case REDIS_ERROR_UNKNOWN:
		break;
	}
	return QUEUE_ERROR_OTHER;
}

enum queue_error queue_error_worse(enum queue_error a, enum queue_error b)
{
	return a == QUEUE_ERROR_NONE || (b != QUEUE_ERROR_NONE && b < a) ? b : a;
}

void scoreboard_read_worker_errors(const struct scoreboard *b, struct worker_errors *errors)
{
	*errors = (struct worker_errors){0};
	for (int i = 0; i < SCOREBOARD_SLOTS; i++) {
		int32_t place = atomic_load(&b->master.queue_of[i]);
		enum queue_error *worst;

		if (place < 1 || place > SCOREBOARD_QUEUES)
			continue;
		worst = &errors->of_queue[place - 1];
		*worst = queue_error_worse(*worst, (enum queue_error)atomic_load(&b->slots[i].error));
	}
}

enum queue_error scoreboard_queue_error(const struct scoreboard *b, const struct board_queue *q, const struct worker_errors *errors)
{
	return queue_error_worse((enum queue_error)atomic_load(&q->sweeper.error), errors->of_queue[q - b->queues]);
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
	atomic_store(&s->error, QUEUE_ERROR_NONE);
	for (int i = 0; i < COUNTERS; i++)
		atomic_store(&s->counters[i], 0);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		atomic_store(&s->durations[i], 0);
	atomic_store(&s->duration_ms, 0);
	slot_set_state(s, SLOT_FREE);
}

void scoreboard_inherit(struct board_queue *heir, const struct board_queue *q)
{
	for (int i = 0; i < SCOREBOARD_FIGURES; i++) {
		atomic_fetch_add(&heir->sweeper.tallied[i], atomic_load(&q->sweeper.tallied[i]));
		atomic_fetch_add(&heir->sweeper.sent[i], atomic_load(&q->sweeper.sent[i]));
		atomic_fetch_add(&heir->master.past[i], atomic_load(&q->master.past[i]) + (i < COUNTERS ? atomic_load(&q->sweeper.swept[i]) : 0));
	}
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		atomic_fetch_add(&heir->master.past[FIGURE_LAGS + i], atomic_load(&q->sweeper.lags[i]));
	atomic_fetch_add(&heir->master.past[FIGURE_LAG_MS], atomic_load(&q->sweeper.lag_ms));
}

void scoreboard_clear_queue(struct board_queue *q)
{
	memset((void *)q, 0, sizeof(*q));
}

void scoreboard_new_handler(struct board_queue *q, uint32_t generation)
{
	atomic_store(&q->master.handler_generation, generation);
	atomic_store(&q->workers.breaker.step, 0);
	atomic_store(&q->workers.breaker.until_ms, 0);
	atomic_store(&q->workers.breaker.failures, 0);
	atomic_store(&q->workers.breaker.failed_seen, 0);
}
