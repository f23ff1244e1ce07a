/*
 * Decides the one state and the one reason that status shows for a queue, from its crash policy, the scoreboard and the
 * orders of the operator. Of several states it takes the one that an operator must know first. It changes nothing.
 */
#include "supervisor/queues/queue_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>

#include "common/handler/handler.h"
#include "common/queue/queue.h"

const char *const queue_state_names[] = {
	[STATE_RUNNING] = "running",
	[STATE_PAUSED] = "paused",
	[STATE_QUIET] = "quiet",
	[STATE_BACKOFF] = "backoff",
	[STATE_QUARANTINE] = "quarantine",
	[STATE_BREAKER] = "breaker",
	[STATE_RECOVERING] = "recovering",
	[STATE_NO_REDIS] = "no redis",
	[STATE_ERROR] = "error",
};

static const struct board_queue *board_of(const struct queues *qs, const struct queue_workers *q)
{
	return &qs->board->queues[queues_place(qs, q)];
}

const char *queue_state_undecided(const struct queues *qs, const struct queue_workers *q)
{
	uint32_t word = atomic_load(&board_of(qs, q)->sweeper.undecided);

	return word == 0 ? NULL : doubt_text((enum doubt)(word - 1));
}

const char *queue_state_aside(const struct queues *qs, const struct queue_workers *q)
{
	const struct board_queue *b = board_of(qs, q);

	if (atomic_load(&b->sweeper.aside) == 0)
		return NULL;
	switch (queue_error_in(atomic_load(&b->sweeper.aside_error))) {
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

/* True: every worker that serves the queue has lost its connection. */
static bool is_cut_off(const struct queues *qs, const struct queue_workers *q)
{
	if (q->serving == 0)
		return false;
	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL;)
		if (p->state == PROCESS_SERVING && p->role.queue == queues_place(qs, q) &&
		    atomic_load(&qs->board->slots[processes_slot(qs->processes, p)].redis_down) == 0)
			return false;
	return true;
}

/* "no redis": nothing of the queue works; "error": a part of it fails. */
static enum queue_state judge_error(const struct queues *qs, const struct queue_workers *q, const struct worker_errors *errors, const char **reason)
{
	const struct board_queue *b = board_of(qs, q);
	bool stops;
	uint32_t word = queue_error_judge(queue_error_shown(qs->board, b, errors), is_cut_off(qs, q),
	    atomic_load(&b->sweeper.gate) == QUEUE_REFUSED, &stops);

	*reason = queue_error_reason(word);
	return *reason == NULL ? STATE_RUNNING : stops ? STATE_NO_REDIS : STATE_ERROR;
}

static enum queue_state judge_gate(const struct queues *qs, const struct queue_workers *q, const char **reason)
{
	const struct board_queue *b = board_of(qs, q);

	switch (atomic_load(&b->sweeper.gate)) {
	case QUEUE_RECOVERING:
		*reason = queue_error_in(atomic_load(&b->sweeper.error)) == QUEUE_ERROR_LEFTOVERS ? "processes of a dead supervisor are being killed" :
		    "messages of dead workers are being returned";
		return STATE_RECOVERING;
	case QUEUE_PAUSED:
		*reason = "paused in Redis";
		return STATE_PAUSED;
	default:
		return STATE_RUNNING;
	}
}

/* Returns what an operator should know although the queue runs. NULL: nothing. */
static const char *reason_to_warn(const struct queues *qs, const struct queue_workers *q)
{
	const char *undecided = queue_state_undecided(qs, q);

	if (undecided != NULL)
		return undecided;
	if (queue_state_aside(qs, q) != NULL)
		return queue_state_aside(qs, q);
	if (queues_wanted(q) == 0)
		return q->scaled == 0 ? "scaled to no workers, until a reload" : "no workers are configured";
	if (q->serving < queues_wanted(q) && q->leaving > 0 && queues_free_index(qs, queues_place(qs, q)) == -1)
		return "workers of earlier configurations still run messages: each new worker starts when one of them has finished";
	if (atomic_load(&qs->board->sweeper.leftovers) > 0)
		return "processes of a dead supervisor may still run: its messages may run twice";
	return NULL;
}

enum queue_state queue_state_judge(const struct queues *qs, const struct queue_workers *q, const struct worker_errors *errors, const char **reason)
{
	enum queue_state state;

	if (q->policy.state == POLICY_QUARANTINE) {
		*reason = "its workers died ten times in five minutes, no message done; one is tried each minute";
		return STATE_QUARANTINE;
	}
	if (q->policy.state == POLICY_BACKOFF) {
		*reason = "its workers died five times in thirty seconds";
		return STATE_BACKOFF;
	}
	state = judge_error(qs, q, errors, reason);
	if (state != STATE_RUNNING)
		return state;
	if (atomic_load(&board_of(qs, q)->workers.breaker.step) > 0) {
		*reason = "its handler cannot be executed, or failed too often in a row";
		return STATE_BREAKER;
	}
	state = judge_gate(qs, q, reason);
	if (state != STATE_RUNNING)
		return state;
	if (q->membership == MEMBER_LEFT) {
		*reason = "left the configuration";
		return STATE_QUIET;
	}
	if (qs->quiet || q->quiet) {
		*reason = "an operator stopped its fetches";
		return STATE_QUIET;
	}
	*reason = reason_to_warn(qs, q);
	return STATE_RUNNING;
}

/* ---- the same in more words ---- */

static void explain_breaker(const struct queues *qs, const struct queue_workers *q, int64_t now_ms, char out[QUEUE_STATE_TEXT_SIZE])
{
	const struct queue_breaker *b = &board_of(qs, q)->workers.breaker;
	char cause[HANDLER_CAUSE_SIZE], text[UNITS_SIZE];
	int64_t wait_ms = atomic_load(&b->until_ms) - now_ms;

	strlcpy(out, handler_cause_text(atomic_load(&b->cause), q->conf == NULL || q->conf->handler == NULL ? NULL : q->conf->handler[0], cause),
	    QUEUE_STATE_TEXT_SIZE);
	if (now_ms > 0 && wait_ms > 0)
		snprintf(out + strlen(out), QUEUE_STATE_TEXT_SIZE - strlen(out), "; next attempt in %s", units_elapsed(wait_ms, text));
	else if (now_ms > 0)
		strlcat(out, "; next attempt with the next message", QUEUE_STATE_TEXT_SIZE);
}

static bool serves(const struct queues *qs, const struct queue_workers *q, const struct process *p)
{
	return p->state == PROCESS_SERVING && (p->role.kind == PROCESS_SWEEPER || (p->role.kind == PROCESS_WORKER && p->role.queue == queues_place(qs, q)));
}

/* The worker of the queue, or the sweeper, that tries next to connect; NULL: none has lost Redis. */
static const struct slot *next_to_connect(const struct queues *qs, const struct queue_workers *q)
{
	const struct slot *next = NULL;

	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_ANY)) != NULL;) {
		const struct slot *s = &qs->board->slots[processes_slot(qs->processes, p)];

		if (!serves(qs, q, p) || atomic_load(&s->redis_down) == 0)
			continue;
		if (next == NULL || atomic_load(&s->redis_retry_ms) < atomic_load(&next->redis_retry_ms))
			next = s;
	}
	return next;
}

static void explain_no_redis(const struct queues *qs, const struct queue_workers *q, int64_t now_ms, char out[QUEUE_STATE_TEXT_SIZE])
{
	const struct slot *s = next_to_connect(qs, q);
	struct slot_text_seen why = { .number = -1 };
	char text[UNITS_SIZE];

	if (s != NULL)
		why = slot_text_read(&s->redis_why);
	if (why.number != -1)
		snprintf(out + strlen(out), QUEUE_STATE_TEXT_SIZE - strlen(out), ": %s", why.text);
	if (s != NULL && now_ms > 0 && atomic_load(&s->redis_retry_ms) > now_ms)
		snprintf(out + strlen(out), QUEUE_STATE_TEXT_SIZE - strlen(out), "; next attempt in %s",
		    units_elapsed(atomic_load(&s->redis_retry_ms) - now_ms, text));
}

static void explain_error(const struct queues *qs, const struct queue_workers *q, const struct worker_errors *errors, const char *reason,
    char out[QUEUE_STATE_TEXT_SIZE])
{
	uint32_t word = queue_error_shown(qs->board, board_of(qs, q), errors);
	char more[QUEUE_ERROR_MORE_SIZE];

	if (queue_error_reason(word) == reason)
		strlcat(out, queue_error_more(qs->board, board_of(qs, q), word, more), QUEUE_STATE_TEXT_SIZE);
}

const char *queue_state_explain(const struct queues *qs, const struct queue_workers *q, enum queue_state state, const struct worker_errors *errors,
    const char *reason, int64_t now_ms, char out[QUEUE_STATE_TEXT_SIZE])
{
	if (reason == NULL)
		return NULL;
	strlcpy(out, reason, QUEUE_STATE_TEXT_SIZE);
	if (state == STATE_BREAKER)
		explain_breaker(qs, q, now_ms, out);
	else if (reason == queue_error_reason(QUEUE_ERROR_NO_REDIS))
		explain_no_redis(qs, q, now_ms, out);
	else if (state == STATE_ERROR || state == STATE_NO_REDIS)
		explain_error(qs, q, errors, reason, out);
	return out;
}
