/*
 * Notes several times a minute how many messages of each queue wait, for the course of the last three days
 * (common/queue/stats.h). Every host that serves a queue does so, with or without a lead: they look at the same list,
 * and Redis keeps the most that was seen in a minute. All queues share one write. While no host looks, nothing is
 * noted: such minutes are unknown, and not 0.
 */
#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"

#define EVERY_MS 10000
#define QUIET_LOOK_MS 30000	/* between looks at a queue in which nothing happens: at least one in each minute */
#define MINUTE_MS 60000

extern const struct task backlog_task;

struct backlog {
	bool quiet;			/* nothing waited at the last look */
	int64_t quiet_until_ms;		/* CLOCK_MONOTONIC: the next look at a quiet queue */
	uint64_t settled_seen;		/* board->workers.done at the last look */
};

static struct backlog *backlog_of(const struct sweeper_queue *q)
{
	return task_state(q, &backlog_task);
}

/* False: nothing waited at the last look, and no worker of this host has settled anything since. */
static bool wants_look(struct sweeper_queue *q, int64_t now_ms)
{
	uint64_t settled = q->board == NULL ? 0 : atomic_load(&q->board->workers.done);
	struct backlog *b = backlog_of(q);

	if (b->quiet && settled == b->settled_seen && now_ms < b->quiet_until_ms)
		return false;
	b->settled_seen = settled;
	/* the core calls at multiples of EVERY_MS: the third one is late enough */
	b->quiet_until_ms = now_ms + QUIET_LOOK_MS - EVERY_MS / 2;
	return true;
}

/* The minute is that of the clock of Redis. As long as too little is known of it, nothing is noted. */
static bool ask_backlog(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct age_clock clock;

	(void)budget;
	if (!server_clock_age(&s->clock, clock_boottime_ms(), &clock) || !wants_look(q, now_ms))
		return false;
	queue_backlog_note(&s->redis, &q->keys, clock.now_ms / MINUTE_MS);
	return true;
}

static enum task_end take_backlog(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	int64_t waiting;

	(void)now_ms;
	backlog_of(q)->quiet = false;
	if (connection_integer(s, &waiting) == -1)
		return TASK_FAILED;
	backlog_of(q)->quiet = waiting == 0;
	return TASK_DONE;
}

const struct task backlog_task = { .name = "backlog", .interval_ms = EVERY_MS, .budget = 1, .configured = true,
	.ask = ask_backlog, .take = take_backlog,
	.state_size = sizeof(struct backlog) };
