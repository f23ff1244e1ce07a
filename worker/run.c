/*
 * The handler's start and end, for one message after the other. How a process is made, fed and killed is
 * handler.c's; what its end means for the message is verdict.c's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "worker/worker.h"

#include "common/backoff.h"
#include "common/clock.h"

#define START_BASE_MS 100
#define START_CAP_MS 10000

/* The queue's own limit caps the header's. */
static int64_t timeout_of(const struct worker *w, const struct message *m)
{
	int64_t own = w->conf->timeout_ms;

	if (m->timeout_ms < 0)
		return own;
	return own < 0 || m->timeout_ms < own ? m->timeout_ms : own;
}

static void note_running(struct worker *w, int64_t now_ms)
{
	int64_t grace = w->conf->kill_grace_ms;

	atomic_store(&w->slot->handler_pgid, handler_pgid(w->handler));
	atomic_fetch_add(&w->slot->serial, 1);
	atomic_store(&w->slot->started_ms, now_ms);
	atomic_store(&w->slot->deadline_ms, w->job.timeout_ms < 0 ? INT64_MAX : now_ms + w->job.timeout_ms + grace);
}

static void note_ended(struct worker *w, int64_t now_ms)
{
	slot_observe(w->slot, now_ms - atomic_load(&w->slot->started_ms));
	atomic_store(&w->slot->handler_pgid, 0);
	atomic_store(&w->slot->started_ms, 0);
	atomic_store(&w->slot->deadline_ms, 0);
}

static void put_off(struct worker *w, int64_t now_ms)
{
	w->start_errors++;
	w->start_at_ms = now_ms + backoff_ms(START_BASE_MS, 2, START_CAP_MS, 0.5, w->start_errors, arc4random());
	if (w->start_errors == 1)
		log_warning("handler_not_started", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("error", strerror(errno)));
}

static void start(struct worker *w, struct place p, int64_t now_ms)
{
	w->job = (struct handler_job){
		.message = &w->message,
		.incarnation = w->incarnation,
		.attempt = w->message.wrapper.attempts + 1,
		.max_attempts = settle_max_attempts(w, &w->message),
		.redelivered = w->message.wrapper.redelivered > 0,
		.timeout_ms = timeout_of(w, &w->message),
	};
	if (handler_start(w->handler, &w->job, now_ms) == -1) {
		put_off(w, now_ms);
		return;
	}
	w->start_errors = 0;
	w->running = p;
	w->started_us = clock_monotonic_us();
	tray_set(&w->trays[p.tray], tray_item(w, p), ITEM_RUNNING);
	if (w->job.redelivered)
		atomic_fetch_add(&w->slot->counters[COUNT_REDELIVERED], 1);
	note_running(w, now_ms);
}

/* Nothing else is in any tray: if its worker dies now, it was this message. */
static bool alone(const struct worker *w, struct place p)
{
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		const struct tray *t = &w->trays[i];

		if (i == p.tray ? t->count[ITEM_GONE] != t->n - 1 : t->state != TRAY_EMPTY)
			return false;
	}
	return true;
}

static void start_next(struct worker *w, struct place p, int64_t now_ms)
{
	const struct item *item = tray_item(w, p);

	if (item->solo && !alone(w, p)) {
		settle_relieve(w, p);
		return;
	}
	message_parse(&w->message, tray_raw(&w->trays[p.tray], item), item->len);
	if (w->message.unknown_version)
		settle_escape(w, p, "UnknownVersion", "the message's header is of a version this quredisd does not know");
	else
		start(w, p, now_ms);
}

/* What waits behind it, a sibling may take. */
bool run_is_slow(const struct worker *w)
{
	return w->running.tray != -1 && clock_monotonic_us() - w->started_us >= batch_limit_us(w);
}

void run_tick(struct worker *w, int64_t now_ms)
{
	const struct place none = { -1, -1 };
	struct place p = tray_next(w);
	bool may_start = worker_may_work(w) && (w->probing || breaker_until_ms(w->board) == 0);

	if (p.tray != -1 && !may_start)
		settle_relieve(w, none);
	else if (w->running.tray != -1 && tray_count(w, ITEM_WAITING) + tray_count(w, ITEM_DONE) > 0 && run_is_slow(w))
		settle_relieve(w, none);
	else if (p.tray != -1 && w->running.tray == -1 && session_usable(w) && now_ms >= w->start_at_ms)
		start_next(w, p, now_ms);
}

void run_end(struct worker *w, int64_t now_ms)
{
	struct handler_result result;
	struct place p = w->running;

	if (p.tray == -1)
		return;
	handler_tick(w->handler, now_ms);
	if (!handler_finished(w->handler, &result)) {
		atomic_store(&w->slot->handler_pgid, handler_pgid(w->handler));
		return;
	}
	w->running = (struct place){ -1, -1 };
	batch_learn(w, clock_monotonic_us() - w->started_us, 1);
	note_ended(w, now_ms);
	verdict_of_exec(w, p, &result, now_ms);
}

int64_t run_deadline_ms(struct worker *w, int64_t now_ms)
{
	int64_t at, slow;

	if (w->running.tray == -1)
		return tray_next(w).tray == -1 || !session_usable(w) ? INT64_MAX : w->start_at_ms;
	at = handler_deadline_ms(w->handler);
	if (tray_count(w, ITEM_WAITING) + tray_count(w, ITEM_DONE) == 0)
		return at;
	slow = now_ms + 1 + (w->started_us + batch_limit_us(w) - clock_monotonic_us()) / 1000;
	return slow < at ? slow : at;
}
