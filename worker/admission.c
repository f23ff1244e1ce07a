/*
 * Why the worker requests no message now. A table has the holds by rank, each with a function that says whether it
 * applies, and when it ends. The fetch in each turn, the deadline of the poll, and the state and the hold on the
 * scoreboard all come from this one judgement, so they cannot disagree: the worker never looks again and again for what
 * an event will tell it.
 */
#include "worker/worker.h"

/* ---- the holds. Each returns when it ends: a time, ADMISSION_BY_EVENT, or NO_HOLD: it does not apply ---- */

#define NO_HOLD 0
#define REFILL_AFTER_MS 3		/* after the last message came */

static int64_t by_event(bool applies)
{
	return applies ? ADMISSION_BY_EVENT : NO_HOLD;
}

static int64_t until(const struct worker *w, int64_t at_ms)
{
	return w->now_us / 1000 < at_ms ? at_ms : NO_HOLD;
}

static int64_t while_leaving(const struct worker *w)
{
	return by_event(w->exit.order >= ORDER_FINISH);
}

static int64_t while_connecting(const struct worker *w)
{
	return by_event(w->session.redis.state != REDIS_READY || !w->session.registered);
}

static int64_t while_quiet(const struct worker *w)
{
	return by_event(w->exit.order == ORDER_QUIET);
}

/* The master sends a signal after the gate has opened (queues_wake_opened()). */
static int64_t while_gate_is_shut(const struct worker *w)
{
	return by_event(atomic_load(&w->env->board->sweeper.gate) != QUEUE_OPEN);
}

/* This worker has read that the queue is paused, before the sweeper did; or a handler of the queue asked for a hold. */
static int64_t while_paused(const struct worker *w)
{
	int64_t paused = w->now_us < w->fetcher.paused_until_us ? w->fetcher.paused_until_us / 1000 + 1 : NO_HOLD,
	    held = until(w, atomic_load(&w->env->board->workers.held_until_ms));

	return held > paused ? held : paused;
}

static int64_t while_breaker_is_open(const struct worker *w)
{
	int64_t next_probe_ms = breaker_until_ms(w->env->board);

	if (next_probe_ms != 0 && w->pacing.probing &&
	    (tray_fetching(&w->trays) || tray_find_since(&w->trays, w->fetcher.probe_after)))
		return ADMISSION_BY_EVENT;	/* its probe comes, or is in a tray */
	return until(w, next_probe_ms);
}

static int64_t while_handler_loads(const struct worker *w)
{
	return by_event(w->env->conf->ready && !w->starter.runner->ready(w));
}

static int64_t while_lease_is_in_doubt(const struct worker *w)
{
	return by_event(!session_usable(w));
}

static int64_t while_put_off(const struct worker *w)
{
	return until(w, w->pacing.retry.at_ms);
}

static int64_t while_fetching(const struct worker *w)
{
	return by_event(tray_fetching(&w->trays));
}

/* Moves are refused, or not sent: a message fetched now could overtake one that goes back. */
static int64_t while_moves_wait(const struct worker *w)
{
	bool waits = w->mover.retry.errors > 0 || mover_hand_back_waits(w);

	for (int i = 0; i < QUEUE_TRAYS; i++)
		waits = waits || (w->trays.tray[i].state == TRAY_DELETING && !w->trays.tray[i].sent);
	return by_event(waits);
}

static int64_t while_one_runs_alone(const struct worker *w)
{
	bool alone = w->starter.solo_running;

	for (int i = 0; i < QUEUE_TRAYS; i++)
		alone = alone || w->trays.tray[i].solos > 0;
	return by_event(alone);
}

static int64_t while_notes_are_unknown(const struct worker *w)
{
	return by_event(notes_wanted(w));
}

int admission_count(const struct worker *w)
{
	/* a probe, or a handler that starts up */
	bool one = breaker_until_ms(w->env->board) != 0 || !w->starter.runner->ready(w);
	int n = one ? 1 : pacing_size(&w->pacing), waiting, room;
	bool runs = tray_count(&w->trays, ITEM_RUNNING) > 0;

	if (tray_none_in_flight(&w->trays))
		return n;
	waiting = tray_count(&w->trays, ITEM_WAITING);
	if (n > 1 && waiting < n && tray_some_empty(&w->trays) && !pacing_is_slow(&w->pacing, runs, w->now_us))
		return n;
	room = w->starter.runner->room(w) - waiting;
	return room < w->pacing.batch ? room : w->pacing.batch;
}

static int64_t while_it_has_enough(const struct worker *w)
{
	return by_event(admission_count(w) <= 0);
}

static int64_t after_too_few(const struct worker *w)
{
	return tray_none_in_flight(&w->trays) ? NO_HOLD : until(w, w->pacing.ahead_at_ms);
}

/*
 * Messages that come into a tray while others of it run leave one by one, each by a script. Those of a fast handler
 * leave together, with one DEL: its trays are soon empty, so it is given the time.
 */
static int64_t while_no_tray_takes_more(const struct worker *w)
{
	if (tray_some_empty(&w->trays))
		return NO_HOLD;
	if (tray_find_open(&w->trays, admission_count(w)) == -1)
		return ADMISSION_BY_EVENT;
	return until(w, w->fetcher.fetched_us / 1000 + REFILL_AFTER_MS);
}

/*
 * Redis reads nothing from a connection that waits in a blocking fetch: moves and acknowledgements still to be sent
 * would wait, too. A probe must not wait for a message.
 */
bool admission_may_block(const struct worker *w, int n)
{
	if (n != 1 || w->fetcher.busy || w->now_us / 1000 < w->fetcher.oom_until_ms ||
	    breaker_until_ms(w->env->board) != 0)
		return false;
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays.tray[i].state == TRAY_FILLED)
			return false;
	return true;
}

/* A message in a tray waits for its start; or a fetch that does not block would bring messages that must wait. */
static int64_t while_throttled(const struct worker *w)
{
	if (throttle_fetches(w) > 0)
		return NO_HOLD;
	if (tray_count(&w->trays, ITEM_WAITING) == 0 && (while_it_has_enough(w) != NO_HOLD ||
	    after_too_few(w) != NO_HOLD || while_no_tray_takes_more(w) != NO_HOLD ||
	    admission_may_block(w, admission_count(w))))
		return NO_HOLD;
	return throttle_next_ms(w, w->now_us / 1000);
}

/* ---- the table, by rank ---- */

static const struct {
	int64_t (*ends_ms)(const struct worker *w);
	enum slot_state shown;		/* while no message runs */
	bool hands_back;		/* messages that wait do not start either */
} holds[WORKER_HOLDS] = {
	[WORKER_ADMITTED] = { NULL, SLOT_SETTLING, false },
	[WORKER_LEAVES] = { while_leaving, SLOT_STOPPING, true },
	[WORKER_CONNECTS] = { while_connecting, SLOT_CONNECTING, false },
	[WORKER_QUIET] = { while_quiet, SLOT_WAITING, true },
	[WORKER_GATE_SHUT] = { while_gate_is_shut, SLOT_WAITING, true },
	[WORKER_PAUSED] = { while_paused, SLOT_WAITING, true },
	[WORKER_BREAKER] = { while_breaker_is_open, SLOT_WAITING, false },
	[WORKER_LOADS] = { while_handler_loads, SLOT_STARTING, false },
	[WORKER_LEASE_IN_DOUBT] = { while_lease_is_in_doubt, SLOT_SETTLING, false },
	[WORKER_PUT_OFF] = { while_put_off, SLOT_WAITING, false },
	[WORKER_FETCHING] = { while_fetching, SLOT_IDLE, false },
	[WORKER_MOVES] = { while_moves_wait, SLOT_SETTLING, false },
	[WORKER_ALONE] = { while_one_runs_alone, SLOT_SETTLING, false },
	[WORKER_NOTES] = { while_notes_are_unknown, SLOT_SETTLING, false },
	[WORKER_THROTTLED] = { while_throttled, SLOT_WAITING, false },
	[WORKER_ENOUGH] = { while_it_has_enough, SLOT_SETTLING, false },
	[WORKER_TOO_FEW] = { after_too_few, SLOT_SETTLING, false },
	[WORKER_NO_TRAY] = { while_no_tray_takes_more, SLOT_SETTLING, false },
};

_Static_assert(WORKER_HOLDS - WORKER_ADMITTED - 1 <= 17, "a longer walk would stay rolled, and nothing would tell");

/*
 * Every turn pays for these walks. The compiler unrolls them, and then calls the functions of the constant table
 * directly.
 */
struct admission admission_judge(const struct worker *w)
{
#pragma GCC unroll 17
	for (int hold = WORKER_ADMITTED + 1; hold < WORKER_HOLDS; hold++) {
		int64_t ends_ms = holds[hold].ends_ms(w);

		if (ends_ms != NO_HOLD)
			return (struct admission){ (enum worker_hold)hold, ends_ms };
	}
	return (struct admission){ WORKER_ADMITTED, w->now_us / 1000 };
}

bool admission_lets_work(const struct worker *w)
{
#pragma GCC unroll 17
	for (int hold = WORKER_ADMITTED + 1; hold < WORKER_HOLDS; hold++)
		if (holds[hold].hands_back && holds[hold].ends_ms(w) != NO_HOLD)
			return false;
	return true;
}

enum worker_hold admission_look(struct worker *w)
{
	struct admission *now = &w->admission;

	*now = admission_judge(w);
	return now->hold;
}

/*
 * Since admission_look() the worker may have fetched, if it was admitted, and it may have lost its connection or its
 * name. So the hold is the same if it still applies, unless it is WORKER_CONNECTS now.
 */
static struct admission judge_again(const struct worker *w)
{
	enum worker_hold hold = w->admission.hold == WORKER_ADMITTED ? WORKER_FETCHING : w->admission.hold;
	int64_t ends_ms = NO_HOLD;

	/* WORKER_BREAKER is above the fetch of a probe */
	if (while_connecting(w) == NO_HOLD && !w->pacing.probing)
		ends_ms = holds[hold].ends_ms(w);
	return ends_ms == NO_HOLD ? admission_judge(w) : (struct admission){ hold, ends_ms };
}

void admission_show(struct worker *w)
{
	struct admission *now = &w->admission;
	struct slot *slot = w->env->slot;
	bool runs;

	*now = judge_again(w);
	runs = now->hold != WORKER_LEAVES && tray_count(&w->trays, ITEM_RUNNING) > 0;
	slot_set_state(slot, runs ? SLOT_RUNNING : holds[now->hold].shown);
	if (atomic_load(&slot->hold) != now->hold)
		atomic_store(&slot->hold, now->hold);
}

int64_t admission_deadline_ms(const struct worker *w, int64_t now_ms)
{
	(void)now_ms;
	return w->admission.until_ms;
}
