/*
 * Logs each message once that has been in work for longer than purge.max_transit_age, by the scoreboard. The message stays, since its
 * owner lives. Each supervisor does this for its own workers, whoever leads; messages of dead workers are rescued anyway.
 */
#include "sweeper/sweeper.h"

#include "common/alloc.h"

static struct swept *queue_of(struct sweeper *s, const struct slot *slot)
{
	int64_t index = atomic_load(&slot->queue) - 1;
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (index >= 0 && q->conf != NULL && q->board == &s->child->board->queues[index])
			return q;
	return NULL;
}

/* Whose time began while we looked is the next one, and young. */
static void look_at(struct sweeper *s, const struct slot *slot, int64_t *told, int64_t now_ms)
{
	int64_t started_ms = atomic_load(&slot->started_ms);
	struct swept *q;

	if (started_ms == 0 || *told == started_ms || (q = queue_of(s, slot)) == NULL ||
	    now_ms - started_ms < q->conf->purge.max_transit_age_ms)
		return;
	*told = started_ms;
	swept_count(q, COUNT_TRANSIT_OLD, 1);
	log_warning("transit_old", log_str("queue", q->keys.name), log_int("handler", atomic_load(&slot->handler_pgid)),
	    log_int("age_ms", now_ms - started_ms), log_int("limit_ms", q->conf->purge.max_transit_age_ms));
}

static bool run_transit(struct sweeper *s, int budget, int64_t now_ms)
{
	(void)budget;
	if (!s->conf->purge.enabled)
		return false;
	if (s->transit_told == NULL)
		s->transit_told = alloc_zero(SCOREBOARD_SLOTS, sizeof(*s->transit_told));
	for (int i = 0; i < SCOREBOARD_SLOTS; i++)
		look_at(s, &s->child->board->slots[i], &s->transit_told[i], now_ms);
	return false;
}

const struct task transit_task = { .name = "transit", .interval_ms = 1000, .budget = 1, .run = run_transit };
