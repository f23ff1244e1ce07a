/*
 * Decides the one hold, and the one reason, of a queue: from the words of master, sweeper and workers on the
 * scoreboard, and from nothing else. It changes nothing. Each hold has one function that says whether it applies; of
 * several the one with the highest rank counts.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/base.h"
#include "common/holds/holds.h"
#include "common/queue/queue.h"

/* ---- reading ---- */

/* The rate lets this worker start a message before the other one; before NULL: no worker waits for that yet. */
static bool starts_before(const struct slot *s, const struct slot *other)
{
	int64_t at_ms = atomic_load(&s->throttled_ms);

	return at_ms != 0 && (other == NULL || at_ms < atomic_load(&other->throttled_ms));
}

static void read_worker(const struct scoreboard *b, int place, struct hold_workers *w)
{
	const struct slot *s = &b->slots[place];

	if (slot_state(s) <= SLOT_STOPPING)
		w->in_state[slot_state(s)]++;
	if (atomic_load(&b->master.leaving[place]) != 0)
		return;
	w->serving++;
	if (atomic_load(&s->hold) == WORKER_LOADS)
		w->loading++;
	if (atomic_load(&s->ready) != 0)
		w->ready++;
	if (atomic_load(&s->failed_ms) > (w->failed == NULL ? 0 : atomic_load(&w->failed->failed_ms)))
		w->failed = s;
	if (starts_before(s, w->throttled))
		w->throttled = s;
	if (atomic_load(&s->seats) != 0) {
		w->seatless = s;
		w->awaiting_seat++;
	}
	if (atomic_load(&s->not_started) != 0) {
		w->unable++;
		if (w->starts == NULL || atomic_load(&s->next_start_ms) < atomic_load(&w->starts->next_start_ms))
			w->starts = s;
	} else if (atomic_load(&s->serial) > 0) {
		w->able++;
	}
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

const struct slot *holds_next_to_connect(const struct board_queue *q, const struct scoreboard *b,
    const struct hold_slots *slots)
{
	const struct slot *worker = slots->of_queue[q - b->queues].next;

	if (worker == NULL || slots->sweeper == NULL)
		return worker == NULL ? slots->sweeper : worker;
	return atomic_load(&slots->sweeper->redis_retry_ms) < atomic_load(&worker->redis_retry_ms) ? slots->sweeper
	    : worker;
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

/* Names what the host lacks, the limit that says so, and what an operator can do. */
static const char *reason_of_shortage(const struct hold_workers *w)
{
	switch (atomic_load(&w->starts->not_started)) {
	case EAGAIN:
		return "its handler cannot be started: its user (limits.processes, LimitNPROC=) or the service "
		    "(TasksMax=) may have no more processes: raise that limit, or lower workers";
	case EMFILE:
		return "its handler cannot be started: a worker may open no more files: raise the limit of the "
		    "supervisor (LimitNOFILE=)";
	case ENFILE:
		return "its handler cannot be started: this host may open no more files: raise fs.file-max, or end the "
		    "process that holds them";
	case ENOMEM:
		return "its handler cannot be started: this host, or the service (MemoryMax=), has no memory for a "
		    "process: add memory, or lower workers";
	default:
		return "its handler cannot be started: the host has no process, descriptor or memory for it";
	}
}

static const char waits_for_leavers[] =
    "workers of earlier configurations still run messages: each new worker starts when one of them has finished";

const char *holds_understaffed(const struct board_queue *q, const struct hold_slots *slots, const struct scoreboard *b)
{
	const struct hold_workers *w = &slots->of_queue[q - b->queues];
	uint32_t wanted = atomic_load(&q->master.wanted);

	if (wanted == 0)
		return atomic_load(&q->master.scaled) != 0 ? "scaled to no workers, until a reload" : NULL;
	if (w->unable > 0)
		return reason_of_shortage(w);
	return w->serving < (int)wanted && atomic_load(&q->master.waits) != 0 ? waits_for_leavers : NULL;
}

const char *holds_not_ready(const struct board_queue *q)
{
	switch (atomic_load(&q->master.not_ready)) {
	case NOT_READY_NONE:
		return NULL;
	case NOT_READY_ALL:
		return "its handler failed, and none has been ready since";
	default:
		return "its " HOLD_NOT_READY_WORDS;
	}
}

static const char *reason_to_warn(const struct scoreboard *b, const struct board_queue *q,
    const struct hold_slots *slots)
{
	if (holds_undecided(q) != NULL)
		return holds_undecided(q);
	if (holds_aside(q) != NULL)
		return holds_aside(q);
	if (holds_not_ready(q) != NULL)
		return holds_not_ready(q);
	if (holds_understaffed(q, slots, b) != NULL)
		return holds_understaffed(q, slots, b);
	if (atomic_load(&b->master.reload_failed) > 0)
		return HOLD_RELOAD_FAILED_WORDS;
	if (atomic_load(&q->master.wanted) == 0)
		return "no workers are configured";
	if (atomic_load(&b->sweeper.leftovers) > 0)
		return "processes of a dead supervisor may still run: its messages may run twice";
	return NULL;
}

/* ---- the holds: each returns its reason, or NULL if it does not apply ---- */

struct hold_view {
	const struct scoreboard *b;
	const struct board_queue *q;
	const struct hold_workers *w;
	const char *error;		/* the reason of an error; NULL: there is none */
	uint32_t word;
	bool stops;			/* the error: nothing of the queue works; otherwise a part of it fails */
};

static const char *judge_throttled(const struct hold_view *v)
{
	return v->w->throttled != NULL ? "its rate allows no start now"
	    : v->w->seatless != NULL ? "as many messages as max_in_flight allows are in flight" : NULL;
}

static const char *judge_quiet(const struct hold_view *v)
{
	return atomic_load(&v->q->master.quiet) != 0 ? "an operator stopped its fetches" : NULL;
}

static const char *judge_draining(const struct hold_view *v)
{
	if (atomic_load(&v->b->master.stopping) != 0)
		return "the supervisor stops";
	return atomic_load(&v->q->master.left) != 0 ? "left the configuration" : NULL;
}

static const char *judge_paused(const struct hold_view *v)
{
	return atomic_load(&v->q->sweeper.gate) == QUEUE_PAUSED ? "an operator stopped fetching on all hosts" : NULL;
}

static const char *judge_held(const struct hold_view *v)
{
	return atomic_load(&v->q->workers.held_until_ms) != 0 ? "its handler asked for a hold" : NULL;
}

static const char *judge_recovering(const struct hold_view *v)
{
	if (atomic_load(&v->q->sweeper.gate) != QUEUE_RECOVERING)
		return NULL;
	return queue_error_in(atomic_load(&v->q->sweeper.error)) == QUEUE_ERROR_LEFTOVERS ?
	    "processes of a dead supervisor are being killed" : "messages of dead workers are being returned";
}

/* While the handler of one worker is ready, the queue runs. After a failure it does not, even before the next start. */
static const char *judge_loading(const struct hold_view *v)
{
	bool failed = atomic_load(&v->q->master.not_ready) == NOT_READY_ALL && v->w->ready == 0;

	return v->w->serving > 0 && (failed || v->w->loading == v->w->serving) ?
	    "its handler loads, and is not ready yet" : NULL;
}

static const char *judge_breaker(const struct hold_view *v)
{
	return atomic_load(&v->q->workers.breaker.step) > 0 ?
	    "its handler cannot be executed, or failed too often in a row" : NULL;
}

/* A worker that has not tried yet cannot tell. While one of them starts handlers, the queue runs, and the others only
 * are a reason to warn. */
static const char *judge_no_process(const struct hold_view *v)
{
	return v->w->unable > 0 && v->w->able == 0 ? reason_of_shortage(v->w) : NULL;
}

static const char *judge_no_worker(const struct hold_view *v)
{
	if (v->w->serving > 0 || atomic_load(&v->q->master.wanted) == 0 || judge_draining(v) != NULL)
		return NULL;
	return atomic_load(&v->q->master.waits) != 0 ? waits_for_leavers : "no worker lives";
}

static const char *judge_error(const struct hold_view *v)
{
	return v->stops ? NULL : v->error;
}

static const char *judge_refused(const struct hold_view *v)
{
	return v->stops && queue_error_in(v->word) != QUEUE_ERROR_NO_REDIS ? v->error : NULL;
}

static const char *judge_no_redis(const struct hold_view *v)
{
	return v->stops && queue_error_in(v->word) == QUEUE_ERROR_NO_REDIS ? v->error : NULL;
}

static const char *judge_backoff(const struct hold_view *v)
{
	return atomic_load(&v->q->master.policy) == QUEUE_BACKOFF ? "its workers died five times in thirty seconds"
	    : NULL;
}

static const char *judge_quarantine(const struct hold_view *v)
{
	return atomic_load(&v->q->master.policy) == QUEUE_QUARANTINE ?
	    "its workers died ten times in five minutes, no message done; one is tried each minute" : NULL;
}

static const char *(*const judges[HOLDS])(const struct hold_view *v) = {
	[HOLD_THROTTLED] = judge_throttled,
	[HOLD_QUIET] = judge_quiet, [HOLD_DRAINING] = judge_draining, [HOLD_PAUSED] = judge_paused,
	[HOLD_HELD] = judge_held, [HOLD_RECOVERING] = judge_recovering, [HOLD_LOADING] = judge_loading,
	[HOLD_BREAKER] = judge_breaker, [HOLD_NO_PROCESS] = judge_no_process,
	[HOLD_NO_WORKER] = judge_no_worker, [HOLD_ERROR] = judge_error,
	[HOLD_REFUSED] = judge_refused, [HOLD_NO_REDIS] = judge_no_redis,
	[HOLD_BACKOFF] = judge_backoff, [HOLD_QUARANTINE] = judge_quarantine,
};

/* all: the worst first. */
static void relate(struct judged all[HOLDS], size_t n)
{
	bool shut = false;
	uint32_t also = 0;

	for (size_t i = n; i-- > 0;) {
		all[i].also = also;
		also |= holds_end_by_themselves(all[i].hold) ? 0 : 1U << all[i].hold;
		shut = shut || holds_table[all[i].hold].shut;
	}
	for (size_t i = 0; i < n; i++)
		all[i].shut = shut;
}

size_t holds_list(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots,
    struct judged all[HOLDS])
{
	struct hold_view v = { .b = b, .q = q, .w = &slots->of_queue[q - b->queues] };
	size_t n = 0;

	v.word = queue_error_judge(queue_error_shown(b, q, &slots->errors), v.w->serving > 0 && v.w->connected == 0,
	    atomic_load(&q->sweeper.gate) == QUEUE_REFUSED, &v.stops);
	v.error = queue_error_reason(v.word);
	for (int hold = HOLDS - 1; hold > HOLD_NONE; hold--) {
		const char *reason = judges[hold](&v);

		if (reason != NULL)
			all[n++] = (struct judged){ .hold = (enum hold)hold, .reason = reason,
			    .error = hold >= HOLD_ERROR && hold <= HOLD_NO_REDIS ? v.word : 0 };
	}
	relate(all, n);
	return n;
}

struct judged holds_worst(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots,
    const struct judged all[HOLDS], size_t n)
{
	assert(n <= HOLDS - 1 && (n < 2 || all[0].hold > all[n - 1].hold));	/* the worst first */
	return n > 0 ? all[0] : (struct judged){ .hold = HOLD_NONE, .reason = reason_to_warn(b, q, slots) };
}

struct judged holds_judge(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots)
{
	struct judged all[HOLDS];

	return holds_worst(b, q, slots, all, holds_list(b, q, slots, all));
}

bool holds_is_transient(const struct judged *judged)
{
	enum queue_error error = queue_error_in(judged->error);

	return holds_table[judged->hold].patience == PATIENCE_SHORT || error == QUEUE_ERROR_NO_REDIS ||
	    error == QUEUE_ERROR_TRANSIENT;
}
