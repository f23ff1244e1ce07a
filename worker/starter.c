/*
 * Decides when a message starts, in either mode: which message may start, which one must run alone, and which ones the
 * worker hands back from behind a slow one. The runners (runner_exec.c, runner_persistent.c) run the handler.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "worker/worker.h"

#include "common/base/base.h"

/* while another trial is under way, a message that needs one waits this long between checks */
#define OCCUPIED_MS 1000
#define RELIEVED_BASE_MS 20
#define RELIEVED_CAP_MS 10000
/* failed starts in a row, 0.35 to 0.7 s after the first one: then the worker hands its messages back */
#define PUT_OFF_MAX 4

static const struct retry_backoff backoff = { .base_ms = 100, .cap_ms = 10000, .jitter = 0.5 };

/* The timeout of the queue caps the timeout of the header. */
static int64_t timeout_of(const struct worker *w, const struct message *m)
{
	int64_t own = conf_timeout_ms(w->env->conf);

	if (m->timeout_ms < 0)
		return own;
	return own < 0 || m->timeout_ms < own ? m->timeout_ms : own;
}

void starter_describe(struct worker *w, struct place p)
{
	struct message *m = tray_message(&w->trays, p);

	w->starter.job = (struct handler_job){
		.message = m,
		.incarnation = w->session.incarnation,
		.attempt = m->wrapper.attempts + 1,
		.max_attempts = settle_max_attempts(w, m),
		.redelivered = m->wrapper.redelivered > 0,
		.timeout_ms = timeout_of(w, m),
	};
}

void starter_started(struct worker *w, struct place p)
{
	struct item *item = tray_item(&w->trays, p);

	if (tray_count(&w->trays, ITEM_RUNNING) == 0)
		pacing_progressed(&w->pacing, 0, w->now_us);
	w->starter.solo_running = item->solo;
	tray_start(&w->trays, p);
	throttle_started(w);
	atomic_fetch_add(&w->env->slot->serial, 1);
	if (w->starter.job.redelivered)
		atomic_fetch_add(&w->env->slot->counters[COUNT_REDELIVERED], 1);
}

void starter_progressed(struct worker *w, int n)
{
	pacing_progressed(&w->pacing, n, w->now_us);
	w->starter.solo_running = false;
	if (w->starter.relieved > 0) {
		w->starter.relieved = 0;
		pacing_pause_ahead(&w->pacing, 0);
	}
}

void starter_solo_ended(struct starter *s)
{
	s->solo_running = false;
}

void starter_succeeded(struct worker *w)
{
	if (w->starter.retry.errors >= PUT_OFF_MAX)
		atomic_store(&w->env->slot->not_started, 0);
	retry_succeeded(&w->starter.retry);
}

/*
 * Other workers may have handlers already, or get the next process that the system allows. So this one does not keep
 * messages that it cannot start.
 */
void starter_put_off(struct worker *w, int64_t now_ms)
{
	const struct place none = { -1, -1 };
	int error = errno;

	retry_failed(&w->starter.retry, &backoff, now_ms);
	if (w->starter.retry.errors == 1)
		log_warning("handler_not_started", log_str("error", strerror(error)));
	if (w->starter.retry.errors < PUT_OFF_MAX)
		return;
	atomic_store(&w->env->slot->next_start_ms, w->starter.retry.at_ms);
	atomic_store(&w->env->slot->not_started, (uint32_t)error);
	settle_relieve(w, none);
	pacing_not_before(&w->pacing, w->starter.retry.at_ms);
}

/* No other message is in any tray: if the worker dies now, this message is the cause. */
static bool is_alone(const struct worker *w, struct place p)
{
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		const struct tray *t = &w->trays.tray[i];

		if (i == p.tray ? t->count[ITEM_GONE] != t->n - 1 : t->state != TRAY_EMPTY)
			return false;
	}
	return true;
}

/* Reads the clock of the lease: call this right before a start. */
bool starter_may_start(const struct worker *w)
{
	return session_usable(w) && fence_may_start(w);
}

/*
 * The message waits for the end of the other trial, and must not hold up the messages behind it. A shared queue has
 * no delayed set, so there the message waits in its tray, and the worker starts nothing.
 */
static void await_trial(struct worker *w, struct place p)
{
	if (w->env->keys.shared)
		retry_not_before(&w->starter.retry, w->now_us / 1000 + OCCUPIED_MS);
	else
		settle_put_off(w, p, OCCUPIED_MS);
}

struct place starter_next(struct worker *w)
{
	const struct place none = { -1, -1 };
	struct place p = tray_find_next(&w->trays);

	if (p.tray == -1 || w->starter.solo_running || throttle_starts(w) <= 0)
		return none;
	if (tray_item(&w->trays, p)->solo && !is_alone(w, p)) {
		/* more such messages may follow: fetch one at a time, not to hand them back again and again */
		pacing_full(&w->pacing, false);
		settle_relieve(w, p);
		return none;
	}
	if (tray_item(&w->trays, p)->fresh && !w->starter.runner->fresh(w, w->now_us / 1000))
		return none;
	if (tray_item(&w->trays, p)->solo && !evidence_may_start(w, p)) {
		if (!evidence_is_on_trial(w, p))
			await_trial(w, p);
		return none;
	}
	return p;
}

/*
 * True: settle_relieve() has a message to move. While a fetch is under way it has none: Redis may have taken the next
 * message for it already, and a message handed back now would come after that one. A fetch beside messages in flight
 * never blocks, so its answer comes soon. So does the answer to a question before a start: the handler may have room.
 */
static bool is_relievable(const struct worker *w)
{
	if (w->fetcher.asking_paused || w->expiry.asking)
		return false;
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays.tray[i].state == TRAY_FETCHING)
			return false;
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays.tray[i].state == TRAY_FILLED &&
		    w->trays.tray[i].count[ITEM_DONE] + w->trays.tray[i].count[ITEM_WAITING] > 0)
			return true;
	return false;
}

/*
 * Hands back messages that wait behind a slow one, so that another worker can fetch them. If no other worker is idle,
 * they are still the next in ingress: this worker must not fetch them at once, only to hand them back again. It pauses
 * until a message ends, longer after each hand-back.
 */
static void relieve_slow(struct worker *w, int64_t now_ms)
{
	const struct place none = { -1, -1 };

	if (tray_count(&w->trays, ITEM_WAITING) > 0) {
		w->starter.relieved++;
		pacing_pause_ahead(&w->pacing,
		    now_ms + clock_backoff_ms(RELIEVED_BASE_MS, 2, RELIEVED_CAP_MS, 0, w->starter.relieved, 0));
	}
	settle_relieve(w, none);
}

/* When a waiting message may start, as start_at_ms() says, if the rate allows it. */
static int64_t start_but_for_rate_ms(const struct worker *w, int64_t now_ms)
{
	if (w->fetcher.asking_paused || w->expiry.asking || !starter_may_start(w) || w->starter.runner->room(w) <= 0)
		return INT64_MAX;
	return w->starter.retry.at_ms > now_ms ? w->starter.retry.at_ms : 0;
}

/*
 * When a waiting message may start: 0: now; INT64_MAX: after an event. A message that may start now, and did not, waits
 * for an event, too: the end of a message that runs alone, answers to moves, notes or evidence.
 */
static int64_t start_at_ms(const struct worker *w, int64_t now_ms)
{
	int64_t at_ms = start_but_for_rate_ms(w, now_ms);

	return at_ms == 0 && throttle_starts(w) <= 0 ? throttle_next_ms(w, now_ms) : at_ms;
}

static bool queue_lets_start(const struct worker *w)
{
	return admission_lets_work(w) && (w->pacing.probing || breaker_until_ms(w->env->board) == 0);
}

/* A fetch may have been under way when the handler ended. The handlers of other workers may be ready; only a message
 * that needs a new process waits for it here. */
static bool handler_lets_start(struct worker *w)
{
	struct place p;

	if (!w->env->conf->ready || w->starter.runner->ready(w))
		return true;
	p = tray_find_next(&w->trays);
	return p.tray != -1 && tray_item(&w->trays, p)->fresh;
}

/* Only the rate keeps the messages that wait in trays. */
static void ask_for_starts(struct worker *w, int waiting, int64_t now_ms)
{
	int room = w->starter.runner->room(w);

	if (start_but_for_rate_ms(w, now_ms) == 0)
		throttle_ask(w, waiting < room ? waiting : room, false, now_ms);
}

void starter_tick(struct worker *w, int64_t now_ms)
{
	const struct place none = { -1, -1 };
	int waiting = tray_count(&w->trays, ITEM_WAITING);

	if (waiting > 0 && (!queue_lets_start(w) || !handler_lets_start(w))) {
		settle_relieve(w, none);
		return;
	}
	if (waiting > 0 && throttle_starts(w) <= 0)
		ask_for_starts(w, waiting, now_ms);
	if (waiting > 0 && start_at_ms(w, now_ms) == 0) {
		w->starter.may_start_us = w->now_us;
		fence_announce(w);
		w->starter.runner->start(w, now_ms);
	}
	if (waiting > 1 && throttle_keeps_one(w) && is_relievable(w))
		settle_relieve(w, tray_find_next(&w->trays));	/* other workers may have a seat sooner */
	if (pacing_is_slow(&w->pacing, tray_count(&w->trays, ITEM_RUNNING) > 0, w->now_us) && is_relievable(w))
		relieve_slow(w, now_ms);
}

int64_t starter_deadline_ms(const struct worker *w, int64_t now_ms)
{
	int64_t at = w->starter.runner->deadline_ms(w), start = 0, slow = INT64_MAX;

	if (tray_count(&w->trays, ITEM_WAITING) > 0)
		start = start_at_ms(w, now_ms);
	if (start != 0 && start < at)
		at = start;
	if (tray_count(&w->trays, ITEM_RUNNING) > 0 && is_relievable(w))
		slow = now_ms + 1 + (w->pacing.progress_us + pacing_limit_us(&w->pacing) - w->now_us) / 1000;
	return slow < at ? slow : at;
}
