/* The scoreboard as a whole: its memory, and the writes to words of several processes. */
#include <sys/mman.h>

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "common/board/scoreboard.h"

#include "common/board/classes.h"
#include "common/board/failed.h"

#define REDIS_START_MS 10000	/* an empty one needs some 10 ms; if one loads for longer, that is worth a warning */

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

void scoreboard_announce_master(struct scoreboard *b, size_t sentinel)
{
	uint32_t before = atomic_load(&b->sweeper.announced_master);

	assert(sentinel < 256);
	while (!atomic_compare_exchange_strong(&b->sweeper.announced_master, &before,
	    ((before >> 8) + 1) << 8 | (uint32_t)sentinel))
		;
}

void scoreboard_doubt_master(struct scoreboard *b)
{
	atomic_store(&b->sweeper.majority.at_ms, 0);
}

void scoreboard_confirm_master(struct scoreboard *b, uint64_t target_mark, uint64_t server_mark, size_t sentinel,
    int64_t now_ms)
{
	struct board_majority *m = &b->sweeper.majority;

	if (atomic_load(&m->target_mark) != target_mark || atomic_load(&m->server_mark) != server_mark)
		scoreboard_doubt_master(b);
	atomic_store(&m->target_mark, target_mark);
	atomic_store(&m->server_mark, server_mark);
	atomic_store(&m->sentinel, (uint32_t)sentinel);
	atomic_store(&m->at_ms, now_ms);
}

bool scoreboard_names_other(struct scoreboard *b, uint64_t target_mark, uint64_t server_mark, int64_t now_ms,
    size_t *sentinel)
{
	struct board_majority *m = &b->sweeper.majority;
	int64_t at_ms = atomic_load(&m->at_ms);

	if (at_ms == 0 || now_ms - at_ms > BOARD_MAJORITY_MS || atomic_load(&m->target_mark) != target_mark)
		return false;
	*sentinel = atomic_load(&m->sentinel);
	return atomic_load(&m->server_mark) != server_mark;
}

bool scoreboard_begin_trial(struct scoreboard *b, int slot)
{
	int32_t none = 0;

	assert(slot >= 0 && slot < SCOREBOARD_SLOTS);
	return atomic_compare_exchange_strong(&b->workers.trial, &none, slot + 1);
}

bool scoreboard_end_trial(struct scoreboard *b, int slot)
{
	int32_t its = slot + 1;

	assert(slot >= 0 && slot < SCOREBOARD_SLOTS);
	return atomic_compare_exchange_strong(&b->workers.trial, &its, 0);
}

static void inherit_classes(struct board_queue *heir, const struct board_queue *q)
{
	for (size_t i = 0; i < CLASS_FIGURES; i++) {
		struct class_figure f = classes_figure(&q->workers.classes, i);
		size_t to = f.n == 0 || i == CLASS_NAMES ? CLASS_NAMES : classes_index(&heir->workers.classes, f.name);

		atomic_fetch_add(&heir->reported.classes_tallied[to], atomic_load(&q->reported.classes_tallied[i]));
		atomic_fetch_add(&heir->reported.classes_sent[to], atomic_load(&q->reported.classes_sent[i]));
		classes_count(&heir->workers.classes, f.name, f.n);
	}
}

/* A batch that Redis has not confirmed, and then what was counted since: the heir's sweeper cannot know whether Redis
 * has the batch. */
static void inherit_failed(struct board_queue *heir, struct board_queue *q)
{
	struct failed_batch batch;

	while (failed_begin(&q->workers.failed, 1, 1, &batch)) {
		for (size_t i = 0; i < FAILED_FIGURES; i++)
			if (batch.figures[i].n > 0)
				failed_count(&heir->workers.failed, batch.figures[i].name, batch.figures[i].n);
		failed_confirm(&q->workers.failed, batch.id);
	}
}

/* Adds the reported part before the counts, so a sweeper that reads between the two claims too little, never too
 * much. */
void scoreboard_inherit(struct board_queue *heir, struct board_queue *q)
{
	for (int i = 0; i < SCOREBOARD_FIGURES; i++) {
		atomic_fetch_add(&heir->reported.tallied[i], atomic_load(&q->reported.tallied[i]));
		atomic_fetch_add(&heir->reported.sent[i], atomic_load(&q->reported.sent[i]));
		atomic_fetch_add(&heir->master.past[i],
		    atomic_load(&q->master.past[i]) + (i < COUNTERS ? atomic_load(&q->sweeper.swept[i]) : 0));
	}
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		atomic_fetch_add(&heir->master.past[FIGURE_LAGS + i], atomic_load(&q->sweeper.lags[i]));
	atomic_fetch_add(&heir->master.past[FIGURE_LAG_MS], atomic_load(&q->sweeper.lag_ms));
	inherit_classes(heir, q);
	inherit_failed(heir, q);
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
	atomic_store(&q->workers.breaker.cause, 0);
	atomic_store(&q->workers.breaker.failures, 0);
	atomic_store(&q->workers.breaker.mute, 0);
	atomic_store(&q->workers.breaker.failed_seen, 0);
}

bool scoreboard_redis_starts(const struct scoreboard *b, bool embedded)
{
	int64_t age_ms = clock_realtime_ms() - atomic_load(&b->master.started_ms);

	return embedded && atomic_load(&b->workers.reached) == 0 && age_ms >= 0 && age_ms < REDIS_START_MS;
}

int64_t board_limits_loaded_ms(struct board_queue *q, int64_t own_ms)
{
	int64_t last_ms = atomic_load(&q->master.rate_loaded_ms);

	return last_ms > own_ms && atomic_load(&q->master.rate_changed_ms) <= own_ms ? last_ms : own_ms;
}

static void raise_word(_Atomic int64_t *word, int64_t to)
{
	int64_t before = atomic_load(word);

	while (before < to && !atomic_compare_exchange_weak(word, &before, to))
		;
}

void board_hold(struct board_queue *q, int64_t until_ms)
{
	raise_word(&q->workers.held_until_ms, until_ms);
}

/* Of several holds the one that ends last counts. 0: there is none. */
static int64_t unanswered_hold_ms(const struct scoreboard *b, const struct board_queue *q, int64_t now_ms)
{
	int64_t last_ms = 0;

	for (size_t i = 0; i < nitems(b->slots); i++) {
		int64_t until_ms = atomic_load(&b->master.queue_of[i]) != q - b->queues + 1 ? 0
		    : atomic_load(&b->slots[i].unanswered_hold_ms);

		if (until_ms > now_ms && until_ms > last_ms)
			last_ms = until_ms;
	}
	return last_ms;
}

int64_t board_set_hold(const struct scoreboard *b, struct board_queue *q, int64_t seen, int64_t until_ms,
    int64_t now_ms)
{
	int64_t asked_ms = unanswered_hold_ms(b, q, now_ms), counts_ms = asked_ms > until_ms ? asked_ms : until_ms;
	bool set = atomic_compare_exchange_strong(&q->workers.held_until_ms, &seen, counts_ms);

	/* a worker may have asked for one meanwhile that ends before the one that counted then */
	board_hold(q, unanswered_hold_ms(b, q, now_ms));
	return set ? counts_ms : -1;
}

void board_observe_lag(struct board_queue *q, int64_t lag_ms)
{
	uint64_t lag = lag_ms > 0 ? (uint64_t)lag_ms : 0, most = atomic_load(&q->sweeper.lag_max_ms);

	atomic_fetch_add(&q->sweeper.lags[counters_bucket(lag_ms)], 1);
	atomic_fetch_add(&q->sweeper.lag_ms, lag);
	while (lag > most && !atomic_compare_exchange_weak(&q->sweeper.lag_max_ms, &most, lag))
		;
}
