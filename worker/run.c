/*
 * When a message is started, in whatever mode: what may start, what must be alone, and what is taken
 * away from behind a slow one. How a handler is run is run_exec.c's and run_persistent.c's.
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
#define RELIEVED_BASE_MS 20
#define RELIEVED_CAP_MS 10000
#define LOOK_AGAIN_MS 10	/* at one that waits for what is not ours to time: its handler's end, its neighbours' moves */

void run_init(struct worker *w)
{
	w->runner = w->conf->mode == CONF_MODE_PERSISTENT ? &run_persistent : &run_exec;
	w->runner->init(w);
}

/* The queue's own limit caps the header's. */
static int64_t timeout_of(const struct worker *w, const struct message *m)
{
	int64_t own = w->conf->timeout_ms;

	if (m->timeout_ms < 0)
		return own;
	return own < 0 || m->timeout_ms < own ? m->timeout_ms : own;
}

void run_describe(struct worker *w, struct place p, struct handler_job *job)
{
	notes_parse(w, p, &w->message);
	*job = (struct handler_job){
		.message = &w->message,
		.incarnation = w->incarnation,
		.attempt = w->message.wrapper.attempts + 1,
		.max_attempts = settle_max_attempts(w, &w->message),
		.redelivered = w->message.wrapper.redelivered > 0,
		.timeout_ms = timeout_of(w, &w->message),
	};
}

void run_started(struct worker *w, struct place p, const struct handler_job *job)
{
	struct item *item = tray_item(w, p);

	if (tray_count(w, ITEM_RUNNING) == 0)
		w->progress_us = w->now_us;
	w->solo_running = item->solo;
	tray_set(&w->trays[p.tray], item, ITEM_RUNNING);
	atomic_fetch_add(&w->slot->serial, 1);
	if (job->redelivered)
		atomic_fetch_add(&w->slot->counters[COUNT_REDELIVERED], 1);
}

void run_progressed(struct worker *w, int n)
{
	batch_learn(w, w->now_us - w->progress_us, n);
	w->progress_us = w->now_us;
	w->solo_running = false;
	if (w->relieved > 0) {
		w->relieved = 0;
		w->ahead_at_ms = 0;
	}
}

void run_put_off(struct worker *w, int64_t now_ms)
{
	w->start_errors++;
	w->start_at_ms = now_ms + backoff_ms(START_BASE_MS, 2, START_CAP_MS, 0.5, w->start_errors, arc4random());
	if (w->start_errors == 1)
		log_warning("handler_not_started", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("error", strerror(errno)));
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

/* Whoever starts a message looks at the clock of the lease right before. */
bool run_may_start(const struct worker *w)
{
	return session_usable(w) && fence_may_start(w);
}

struct place run_next(struct worker *w)
{
	const struct place none = { -1, -1 };
	struct place p = tray_next(w);

	if (p.tray == -1 || w->solo_running)
		return none;
	if (tray_item(w, p)->solo && !alone(w, p)) {
		w->batch = 1;		/* where one is, there may be more: not to fetch and hand back again and again */
		settle_relieve(w, p);
		return none;
	}
	if (tray_item(w, p)->solo && !evidence_may_start(w, p))
		return none;
	return p;
}

bool run_is_slow(const struct worker *w)
{
	return tray_count(w, ITEM_RUNNING) > 0 && w->now_us - w->progress_us >= batch_limit_us(w);
}

/*
 * What settle_relieve() would move: not what an answer is awaited for. While a fetch is under way nothing is: it has perhaps taken
 * the next message already, and what goes back now would come after that one. A fetch beside messages in hand never blocks.
 */
static bool is_relievable(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].state == TRAY_FETCHING)
			return false;
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].state == TRAY_FILLED && w->trays[i].count[ITEM_DONE] + w->trays[i].count[ITEM_WAITING] > 0)
			return true;
	return false;
}

/*
 * Hands back messages that wait behind a slow one, so that another worker can fetch them. If no other worker is idle, they are
 * still the next in ingress: this worker must not fetch them at once, only to hand them back again. It pauses until a
 * message ends, longer after each hand-back.
 */
static void relieve_slow(struct worker *w, int64_t now_ms)
{
	const struct place none = { -1, -1 };

	if (tray_count(w, ITEM_WAITING) > 0) {
		w->relieved++;
		w->ahead_at_ms = now_ms + backoff_ms(RELIEVED_BASE_MS, 2, RELIEVED_CAP_MS, 0, w->relieved, 0);
	}
	settle_relieve(w, none);
}

void run_tick(struct worker *w, int64_t now_ms)
{
	const struct place none = { -1, -1 };
	bool may_start = worker_may_work(w) && (w->probing || breaker_until_ms(w->board) == 0);
	int waiting = tray_count(w, ITEM_WAITING);

	if (waiting > 0 && !may_start) {
		settle_relieve(w, none);
		return;
	}
	if (waiting > 0 && !w->asking_paused && !w->asking_time && run_may_start(w) && now_ms >= w->start_at_ms && w->runner->room(w) > 0) {
		w->may_start_us = w->now_us;
		fence_announce(w);
		w->runner->start(w, now_ms);
	}
	if (run_is_slow(w) && is_relievable(w))
		relieve_slow(w, now_ms);
}

int64_t run_deadline_ms(struct worker *w, int64_t now_ms)
{
	int64_t at = w->runner->deadline_ms(w), slow;
	int waiting = tray_count(w, ITEM_WAITING), running = tray_count(w, ITEM_RUNNING);

	if (running == 0 && waiting > 0 && run_may_start(w) && !w->asking_paused && !w->asking_time && !notes_wanted(w)) {
		/* Due already: this turn has tried, and an event will say when it may. But no wait without an end. */
		slow = w->start_at_ms > now_ms ? w->start_at_ms : now_ms + LOOK_AGAIN_MS;
		return slow < at ? slow : at;
	}
	if (running == 0 || !is_relievable(w))
		return at;
	slow = now_ms + 1 + (w->progress_us + batch_limit_us(w) - w->now_us) / 1000;
	return slow < at ? slow : at;
}
