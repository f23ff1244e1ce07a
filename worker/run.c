/*
 * The handler's start and end, for the one message in hand. How a process is made, fed and killed is
 * handler.c's; what its end means for the message is settle.c's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "worker/worker.h"

#include "common/backoff.h"

#define START_BASE_MS 100
#define START_CAP_MS 10000

static int held_tray(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].state == TRAY_HELD)
			return i;
	return -1;
}

/* The queue's own limit caps the header's. */
static int64_t timeout_of(const struct worker *w, const struct message *m)
{
	int64_t own = w->conf->timeout_ms;

	if (m->timeout_ms < 0)
		return own;
	return own < 0 || m->timeout_ms < own ? m->timeout_ms : own;
}

static int max_attempts_of(const struct worker *w, const struct message *m)
{
	return m->max_attempts > 0 && m->max_attempts < w->conf->max_attempts ? m->max_attempts : w->conf->max_attempts;
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

static void start(struct worker *w, int tray, int64_t now_ms)
{
	struct tray *t = &w->trays[tray];

	w->job = (struct handler_job){
		.message = &t->message,
		.incarnation = w->incarnation,
		.attempt = t->message.wrapper.attempts + 1,
		.max_attempts = max_attempts_of(w, &t->message),
		.redelivered = t->message.wrapper.redelivered > 0,
		.timeout_ms = timeout_of(w, &t->message),
	};
	if (handler_start(w->handler, &w->job, now_ms) == -1) {
		w->start_errors++;
		w->start_at_ms = now_ms + backoff_ms(START_BASE_MS, 2, START_CAP_MS, 0.5, w->start_errors, arc4random());
		if (w->start_errors == 1)
			log_warning("handler_not_started", log_str("queue", w->conf->name), log_str("worker", w->name),
			    log_str("error", strerror(errno)));
		return;
	}
	w->start_errors = 0;
	w->running = tray;
	t->state = TRAY_RUNNING;
	note_running(w, now_ms);
}

void run_tick(struct worker *w, int64_t now_ms)
{
	int tray = held_tray(w);

	if (tray == -1 || w->running != -1)
		return;
	if (!worker_may_work(w)) {
		settle_hand_back(w, tray, false);
		return;
	}
	if (!session_usable(w) || now_ms < w->start_at_ms)
		return;
	if (w->trays[tray].message.unknown_version)
		settle_escape(w, tray, "UnknownVersion", "the message's header is of a version this quredisd does not know");
	else
		start(w, tray, now_ms);
}

void run_end(struct worker *w, int64_t now_ms)
{
	struct handler_result result;
	int tray = w->running;

	if (tray == -1)
		return;
	handler_tick(w->handler, now_ms);
	if (!handler_finished(w->handler, &result)) {
		atomic_store(&w->slot->handler_pgid, handler_pgid(w->handler));
		return;
	}
	w->running = -1;
	note_ended(w, now_ms);
	settle_result(w, tray, &result, now_ms);
}

int64_t run_deadline_ms(const struct worker *w)
{
	if (w->running != -1)
		return handler_deadline_ms(w->handler);
	return held_tray(w) == -1 || !session_usable(w) ? INT64_MAX : w->start_at_ms;
}
