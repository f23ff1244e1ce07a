/*
 * Keeps the limits of a queue. A message starts if both allow it: the worker takes seats first (seats.c), since it can
 * give these back, and then asks for starts, for no more messages than it has seats.
 *
 * Of the rate: before messages start, the worker asks Redis for their starts (throttle.lua). An idle
 * worker blocks without one, and asks when a message has come. A worker that finds messages waiting asks first, and
 * fetches as many as it may start; if none may start, it sleeps until the time that Redis has told it, and the messages
 * stay in ingress. Starts that are given and not used in time are lost, as are those whose answer is lost, so that no
 * worker ever starts more than the rate allows.
 */
#include <limits.h>

#include <bsd/string.h>

#include "worker/worker.h"

#include "common/base/base.h"

/* A start that comes later than this would count in another stretch of time than that for which it was given. */
#define GIVEN_FOR_US 50000
/* An idle worker asks Redis no more often. Redis keeps a start that is due before (throttle.lua) */
#define ASK_MS 2000

static const struct retry_backoff backoff = { .base_ms = 100, .cap_ms = 10000, .jitter = 0.5 };

static bool has_rate(const struct worker *w)
{
	return w->env->conf->rate.n > 0;
}

static void throttle_format(struct worker *w)
{
	struct queue_throttle_figures f = { .n = w->env->conf->rate.n, .per_ms = w->env->conf->rate.per_ms,
	    .burst = w->env->conf->burst,
	    .loaded_ms = board_limits_loaded_ms(w->env->board, w->env->child->conf->loaded_ms) };

	if (w->throttle.loaded_ms == f.loaded_ms)
		return;
	w->throttle.loaded_ms = f.loaded_ms;
	strlcpy(f.node, w->env->child->conf->supervisor.node, sizeof(f.node));
	queue_throttle_format(&f, &w->throttle.figures);
}

void throttle_init(struct worker *w)
{
	w->throttle.loaded_ms = -1;
	seats_init(w);
}

void throttle_adopted(struct worker *w)
{
	seats_adopted(w);
}

void throttle_tick(struct worker *w, int64_t now_ms)
{
	seats_tick(w, now_ms);
}

int64_t throttle_deadline_ms(const struct worker *w, int64_t now_ms)
{
	(void)now_ms;
	return seats_deadline_ms(w);
}

/* The answer may be lost with the starts in it. Asking again with the same appointment could start a message twice. */
void throttle_lost(struct worker *w)
{
	w->throttle.asking = w->throttle.none_waits = false;
	w->throttle.starts = 0;
	w->throttle.appointment = w->throttle.at_ms = 0;
	seats_lost(w);
}

static int starts_of_rate(const struct worker *w)
{
	if (!has_rate(w))
		return INT_MAX;
	return w->now_us - w->throttle.given_us <= GIVEN_FOR_US ? w->throttle.starts : 0;
}

int throttle_starts(const struct worker *w)
{
	int starts = starts_of_rate(w), seats = starts > 0 ? seats_free(w) : 0;

	return starts < seats ? starts : seats;
}

int throttle_fetches(const struct worker *w)
{
	return seats_let_fetch(w) ? starts_of_rate(w) : 0;
}

int throttle_seats(const struct worker *w)
{
	return seats_fetches(w);
}

static int64_t rate_next_ms(const struct worker *w, int64_t now_ms)
{
	return !w->throttle.asking && w->throttle.at_ms > now_ms ? w->throttle.at_ms : INT64_MAX;
}

int64_t throttle_next_ms(const struct worker *w, int64_t now_ms)
{
	int64_t rate_ms = rate_next_ms(w, now_ms);

	return rate_ms != INT64_MAX || seats_free(w) > 0 ? rate_ms : seats_next_ms(w, now_ms);
}

void throttle_await(struct worker *w, int64_t now_ms)
{
	seats_await(w, now_ms);
}

bool throttle_keeps_one(const struct worker *w)
{
	return seats_keep_one(w);
}

bool throttle_blocks(const struct worker *w)
{
	return w->seats.blocking;
}

static void rate_ask(struct worker *w, int wanted, bool from_ingress, int64_t now_ms)
{
	struct throttle *t = &w->throttle;
	int64_t burst = w->env->conf->burst;

	if (!session_usable(w))
		return;
	throttle_format(w);
	queue_throttle(&w->session.redis, &w->env->keys, &t->figures, wanted < burst ? wanted : (int)burst,
	    from_ingress, t->appointment);
	session_expect(w, ANSWER_THROTTLE, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	t->asking = true;
	t->appointment = 0;
}

void throttle_ask(struct worker *w, int wanted, bool from_ingress, int64_t now_ms)
{
	if (w->throttle.asking || now_ms < w->throttle.at_ms)
		return;
	if (from_ingress ? !seats_let_fetch(w) : seats_free(w) <= 0)
		seats_ask(w, wanted, from_ingress, now_ms);
	else if (has_rate(w))
		rate_ask(w, wanted, from_ingress, now_ms);
}

void throttle_started(struct worker *w)
{
	if (has_rate(w) && w->throttle.starts > 0)
		w->throttle.starts--;
}

static void show_throttled(struct worker *w, int64_t at_ms)
{
	if (atomic_load(&w->env->slot->throttled_ms) != at_ms)
		atomic_store(&w->env->slot->throttled_ms, at_ms);
}

void throttle_rests(struct worker *w)
{
	w->throttle.waited = false;
	show_throttled(w, 0);
	seats_give_back(w, w->now_us / 1000);
}

bool throttle_found_none(struct worker *w)
{
	bool none = seats_found_none(&w->seats) || w->throttle.none_waits;

	w->throttle.none_waits = false;
	return none;
}

static void must_wait(struct worker *w, const struct queue_throttle_answer *a)
{
	struct throttle *t = &w->throttle;
	int64_t due_ms = (w->now_us + a->wait_us + 999) / 1000, ask_ms = w->now_us / 1000 + ASK_MS;

	t->appointment = a->appointment;
	t->at_ms = a->appointment != 0 || due_ms < ask_ms ? due_ms : ask_ms;
	t->waited = true;
	if (t->appointment == 0)
		seats_give_back(w, w->now_us / 1000);	/* others may start before, or wait for the same */
	show_throttled(w, due_ms);
}

/* While the queue has work for all starts, it stays throttled: the state does not change with each start. */
static void may_start(struct worker *w, int starts)
{
	w->throttle.starts = starts;
	w->throttle.given_us = w->now_us;
	if (!w->throttle.waited)
		show_throttled(w, 0);
	w->throttle.waited = false;
}

void throttle_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	struct throttle *t = &w->throttle;
	struct queue_throttle_answer a;

	(void)of;
	t->asking = false;
	if (queue_throttle_parse(reply, &a) == -1) {
		errors_report(w, "throttle", reply);
		retry_failed(&t->retry, &backoff, now_ms);
		t->at_ms = t->retry.at_ms;
		return;
	}
	if (t->retry.errors > 0 && w->mover.retry.errors == 0)
		errors_clear(w);
	retry_succeeded(&t->retry);
	t->at_ms = 0;
	t->none_waits = a.starts < 0;
	if (a.starts < 0)
		throttle_rests(w);
	else if (a.starts > 0)
		may_start(w, (int)a.starts);
	else
		must_wait(w, &a);
}
