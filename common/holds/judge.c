/*
 * Decides the one hold, and the one reason, of a queue: from the words of master, sweeper and workers on the scoreboard, and from nothing else. It
 * changes nothing. Each hold has one function that says whether it applies; of several the one with the highest rank counts.
 */
#include <string.h>

#include "common/base/base.h"
#include "common/holds/holds.h"
#include "common/queue/queue.h"

/* ---- reading ---- */

static void read_worker(const struct scoreboard *b, int place, struct hold_workers *w)
{
	const struct slot *s = &b->slots[place];

	if (atomic_load(&b->master.leaving[place]) != 0)
		return;
	w->serving++;
	if (atomic_load(&s->redis_down) == 0)
		w->connected++;
	else if (w->next == NULL || atomic_load(&s->redis_retry_ms) < atomic_load(&w->next->redis_retry_ms))
		w->next = s;
}

void holds_read_slots(const struct scoreboard *b, struct hold_slots *slots)
{
	int32_t sweeper = atomic_load(&b->master.active_sweeper);

	memset(slots, 0, sizeof(*slots));
	queue_error_read_workers(b, &slots->errors);
	for (int i = 0; i < SCOREBOARD_SLOTS; i++) {
		int32_t queue = atomic_load(&b->master.queue_of[i]) - 1;

		if (queue >= 0 && queue < SCOREBOARD_QUEUES)
			read_worker(b, i, &slots->of_queue[queue]);
	}
	if (sweeper >= 0 && sweeper < SCOREBOARD_SLOTS && atomic_load(&b->slots[sweeper].redis_down) != 0)
		slots->sweeper = &b->slots[sweeper];
}

const struct slot *holds_next_to_connect(const struct board_queue *q, const struct scoreboard *b, const struct hold_slots *slots)
{
	const struct slot *worker = slots->of_queue[q - b->queues].next;

	if (worker == NULL || slots->sweeper == NULL)
		return worker == NULL ? slots->sweeper : worker;
	return atomic_load(&slots->sweeper->redis_retry_ms) < atomic_load(&worker->redis_retry_ms) ? slots->sweeper : worker;
}

/* ---- what an operator should know although the queue runs ---- */

const char *holds_undecided(const struct board_queue *q)
{
	uint32_t word = atomic_load(&q->sweeper.undecided);

	return word == 0 ? NULL : doubt_text((enum doubt)(word - 1));
}

const char *holds_aside(const struct board_queue *q)
{
	if (atomic_load(&q->sweeper.aside) == 0)
		return NULL;
	switch (queue_error_in(atomic_load(&q->sweeper.aside_error))) {
	case QUEUE_ERROR_WRONG_TYPE:
		return "messages are set aside: a key they go to has the wrong type";
	case QUEUE_ERROR_NO_COMMAND:
		return "messages are set aside: Redis refuses a command that moves them: quredis doctor";
	case QUEUE_ERROR_NO_PERMISSION:
		return "messages are set aside: Redis refuses the permission to move them";
	default:
		return "messages are set aside: Redis refuses to move them";
	}
}

static const char waits_for_leavers[] =
    "workers of earlier configurations still run messages: each new worker starts when one of them has finished";

static const char *reason_to_warn(const struct scoreboard *b, const struct board_queue *q, const struct hold_workers *w)
{
	uint32_t wanted = atomic_load(&q->master.wanted);

	if (holds_undecided(q) != NULL)
		return holds_undecided(q);
	if (holds_aside(q) != NULL)
		return holds_aside(q);
	if (wanted == 0)
		return atomic_load(&q->master.scaled) != 0 ? "scaled to no workers, until a reload" : "no workers are configured";
	if (w->serving < (int)wanted && atomic_load(&q->master.waits) != 0)
		return waits_for_leavers;
	if (atomic_load(&b->sweeper.leftovers) > 0)
		return "processes of a dead supervisor may still run: its messages may run twice";
	return NULL;
}

/* ---- the holds ---- */

/* A part of the queue fails; *stops: nothing of it works. */
static const char *find_error(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots, uint32_t *word, bool *stops)
{
	const struct hold_workers *w = &slots->of_queue[q - b->queues];

	*word = queue_error_judge(queue_error_shown(b, q, &slots->errors), w->serving > 0 && w->connected == 0,
	    atomic_load(&q->sweeper.gate) == QUEUE_REFUSED, stops);
	return queue_error_reason(*word);
}

static const char *find_missing(const struct board_queue *q, const struct hold_workers *w)
{
	if (w->serving > 0 || atomic_load(&q->master.wanted) == 0)
		return NULL;
	return atomic_load(&q->master.waits) != 0 ? waits_for_leavers : "no worker lives";
}

static struct judged judge_gate(const struct board_queue *q)
{
	switch (atomic_load(&q->sweeper.gate)) {
	case QUEUE_RECOVERING:
		return (struct judged){ HOLD_RECOVERING, queue_error_in(atomic_load(&q->sweeper.error)) == QUEUE_ERROR_LEFTOVERS ?
		    "processes of a dead supervisor are being killed" : "messages of dead workers are being returned", 0 };
	case QUEUE_PAUSED:
		return (struct judged){ HOLD_PAUSED, "paused in Redis", 0 };
	default:
		return (struct judged){ HOLD_NONE, NULL, 0 };
	}
}

struct judged holds_judge(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots)
{
	const struct hold_workers *w = &slots->of_queue[q - b->queues];
	uint32_t policy = atomic_load(&q->master.policy), word;
	const char *error, *missing = find_missing(q, w);
	struct judged gate;
	bool stops;

	if (policy == QUEUE_QUARANTINE)
		return (struct judged){ HOLD_QUARANTINE, "its workers died ten times in five minutes, no message done; one is tried each minute", 0 };
	if (policy == QUEUE_BACKOFF)
		return (struct judged){ HOLD_BACKOFF, "its workers died five times in thirty seconds", 0 };
	error = find_error(b, q, slots, &word, &stops);
	if (error != NULL)
		return (struct judged){ stops ? HOLD_NO_REDIS : HOLD_ERROR, error, word };
	if (missing != NULL)
		return (struct judged){ HOLD_NO_WORKER, missing, 0 };
	if (atomic_load(&q->workers.breaker.step) > 0)
		return (struct judged){ HOLD_BREAKER, "its handler cannot be executed, or failed too often in a row", 0 };
	gate = judge_gate(q);
	if (gate.hold != HOLD_NONE)
		return gate;
	if (atomic_load(&q->master.left) != 0)
		return (struct judged){ HOLD_QUIET, "left the configuration", 0 };
	if (atomic_load(&q->master.quiet) != 0)
		return (struct judged){ HOLD_QUIET, "an operator stopped its fetches", 0 };
	return (struct judged){ HOLD_NONE, reason_to_warn(b, q, w), 0 };
}
