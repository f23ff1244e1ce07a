/*
 * Logs each message once that has been in flight for longer than purge.max_transit_age, by the scoreboard. The message stays, since its
 * owner lives. Each supervisor does this for its own workers, whoever leads; messages of dead workers are rescued anyway.
 */
#include "sweeper/core/core.h"

#include "common/base/base.h"

extern const struct task transit_task;

/* By slot: started_ms of the run that was logged last. */
struct logged {
	int64_t started_ms[SCOREBOARD_SLOTS];
};

/* A run that began during this check is young: the next turn checks it. */
static void check_slot(struct sweeper *s, int index, int64_t *logged_ms, int64_t now_ms)
{
	const struct slot *slot = &s->child->board->slots[index];
	int64_t started_ms = atomic_load(&slot->started_ms);
	struct sweeper_queue *q;

	if (started_ms == 0 || *logged_ms == started_ms)
		return;
	q = sweeper_queue_of_board(s, atomic_load(&s->child->board->master.queue_of[index]) - 1);
	if (q == NULL || q->conf == NULL || now_ms - started_ms < q->conf->purge.max_transit_age_ms)
		return;
	*logged_ms = started_ms;
	sweeper_queue_count(q, COUNT_TRANSIT_OLD, 1);
	log_warning("transit_old", log_str("queue", q->keys.name), log_int("handler", atomic_load(&slot->handler_pgid)),
	    log_int("age_ms", now_ms - started_ms), log_int("limit_ms", q->conf->purge.max_transit_age_ms));
}

static bool run_transit(struct sweeper *s, int budget, int64_t now_ms)
{
	struct logged *logged = task_own(s, &transit_task);

	(void)budget;
	for (int i = 0; i < SCOREBOARD_SLOTS && s->conf->purge.enabled; i++)
		check_slot(s, i, &logged->started_ms[i], now_ms);
	return false;
}

const struct task transit_task = { .name = "transit", .interval_ms = 1000, .budget = 1, .run = run_transit, .own_size = sizeof(struct logged) };
