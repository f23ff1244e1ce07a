/* The slot of a child: writes that consist of more than one store. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/board/scoreboard.h"

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

static const char *const waits_for[WORKER_HOLDS] = {
	[WORKER_LEAVES] = "the end of what it runs",
	[WORKER_CONNECTS] = "its connection to Redis",
	[WORKER_QUIET] = "the end of quiet",
	[WORKER_GATE_SHUT] = "the gate of its queue",
	[WORKER_PAUSED] = "the end of the pause or hold",
	[WORKER_BREAKER] = "the breaker",
	[WORKER_LOADS] = "its handler to be ready",
	[WORKER_LEASE_IN_DOUBT] = "its lease",
	[WORKER_PUT_OFF] = "the end of a back-off",
	[WORKER_FETCHING] = "a message",
	[WORKER_MOVES] = "answers of Redis",
	[WORKER_ALONE] = "a message that runs alone",
	[WORKER_NOTES] = "notes of its messages",
	[WORKER_THROTTLED] = "what limits its rate or its messages in flight",
	[WORKER_ENOUGH] = "its handler",
	[WORKER_TOO_FEW] = "more messages",
	[WORKER_NO_TRAY] = "an empty tray",
};

const char *slot_waits_for(uint32_t hold)
{
	return hold < WORKER_HOLDS ? waits_for[hold] : NULL;
}

void slot_set_state(struct slot *s, enum slot_state state)
{
	assert(state <= SLOT_STOPPING);
	atomic_store(&s->state, slot_generation(s) << 8 | (uint64_t)state);
}

uint64_t slot_next_generation(struct slot *s)
{
	uint64_t generation = slot_generation(s) + 1;

	assert(generation <= UINT64_MAX >> 8);
	atomic_store(&s->state, generation << 8 | (uint64_t)slot_state(s));
	return generation;
}

void slot_observe(struct slot *s, int64_t duration_ms)
{
	atomic_fetch_add(&s->durations[counters_bucket(duration_ms)], 1);
	if (duration_ms > 0)
		atomic_fetch_add(&s->duration_ms, (uint64_t)duration_ms);
}

void slot_note_failure(struct slot *s, const char *words, size_t len, int64_t now_ms)
{
	slot_text_set(&s->failure, 0, words, len, SLOT_TEXT_MAX);
	atomic_store(&s->failed_ms, now_ms);
}

void slot_note_attempt(struct slot *s, const char *class, const char *text, int64_t now_ms)
{
	char words[SLOT_TEXT_MAX + 1];

	snprintf(words, sizeof(words), "%s %s", class, text);
	slot_text_set(&s->attempt, 0, words, strlen(words), SLOT_TEXT_MAX);
	atomic_store(&s->attempt_ms, now_ms);
}

void slot_lose_redis(struct slot *s, const char *why, int64_t retry_ms)
{
	slot_text_set(&s->redis_why, 0, why, strlen(why), SLOT_TEXT_MAX);
	atomic_store(&s->redis_retry_ms, retry_ms);
	atomic_store(&s->redis_down, 1);
}

void slot_wait_for_file(struct slot *s, int64_t bytes, const char *why, int64_t now_ms)
{
	slot_text_set(&s->redis_why, 0, why, strlen(why), SLOT_TEXT_MAX);
	atomic_store(&s->heartbeat_ms, now_ms);
	atomic_store(&s->unsaved, bytes);
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

void slot_clear(struct slot *s)
{
	atomic_store(&s->heartbeat_ms, 0);
	atomic_store(&s->hold, WORKER_ADMITTED);
	atomic_store(&s->load, SLOT_NEVER_LOADS);
	atomic_store(&s->loading, 0);
	atomic_store(&s->ready, 0);
	atomic_store(&s->handler_generation, 0);
	atomic_store(&s->handler_files, 0);
	atomic_store(&s->handler_started_ms, 0);
	atomic_store(&s->load_cause, 0);
	atomic_store(&s->serial, 0);
	atomic_store(&s->started_ms, 0);
	atomic_store(&s->deadline_ms, 0);
	atomic_store(&s->fence_ms, 0);
	atomic_store(&s->abandoned, 0);
	atomic_store(&s->handler_pgid, 0);
	atomic_store(&s->pid, 0);
	atomic_store(&s->redis_down, 0);
	slot_text_clear(&s->redis_why);
	atomic_store(&s->unsaved, 0);
	atomic_store(&s->redis_retry_ms, 0);
	atomic_store(&s->error, QUEUE_ERROR_NONE);
	atomic_store(&s->not_started, 0);
	atomic_store(&s->next_start_ms, 0);
	atomic_store(&s->throttled_ms, 0);
	atomic_store(&s->seats, 0);
	atomic_store(&s->unanswered_hold_ms, 0);
	slot_text_clear(&s->progress);
	slot_text_clear(&s->failure);
	atomic_store(&s->failed_ms, 0);
	slot_text_clear(&s->attempt);
	atomic_store(&s->attempt_ms, 0);
	for (int i = 0; i < COUNTERS; i++)
		atomic_store(&s->counters[i], 0);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		atomic_store(&s->durations[i], 0);
	atomic_store(&s->duration_ms, 0);
	slot_set_state(s, SLOT_FREE);
}
