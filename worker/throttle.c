/*
 * Keeps the limits of a queue. A message starts if both allow it: the worker takes seats first (seats.c), since it can
 * give these back, and then asks for starts, for no more messages than it has seats.
 *
 * Of the rate: before messages start, the worker asks Redis for their starts (throttle.lua). An idle
 * worker blocks without one, and asks when a message has come. A worker that finds messages waiting asks first, and
 * fetches as many as it may start; if none may start, it sleeps until the time that Redis has told it, and the messages
 * stay in ingress. Starts that are given and not used in time go back with the next question (Redis takes them if it
 * has given none since), and those whose answer is lost are lost, so that no worker ever starts more than the rate
 * allows.
 */
#include <limits.h>

#include <bsd/string.h>

#include "worker/worker.h"

#include "common/base/base.h"

/*
 * A start that comes later than this would count in another stretch of time than that for which it was given. An answer
 * that comes late brings starts of a time that is over.
 */
#define GIVEN_FOR_US 50000
#define APPOINTMENT_DELAY_US (GIVEN_FOR_US / 2)
/* A worker forgets how long a prompt answer needs: the clock of Redis may have been set. */
#define WAY_FOR_US 60000000
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
	w->throttle.asking = w->throttle.gives_back = w->throttle.none_waits = w->throttle.kept = false;
	w->throttle.starts = 0;
	w->throttle.at_ms = w->throttle.way_at_us = w->throttle.doubtful_at_us = 0;
	seats_lost(w);
}

static int starts_of_rate(const struct worker *w)
{
	if (!has_rate(w))
		return INT_MAX;
	return w->now_us <= w->throttle.until_us ? w->throttle.starts : 0;
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
	t->gives_back = wanted == 0;
	throttle_format(w);
	queue_throttle(&w->session.redis, &w->env->keys, &t->figures, wanted < burst ? wanted : (int)burst,
	    from_ingress, (struct queue_throttle_unused){ t->appointment, t->kept ? 1 : t->starts });
	session_expect(w, ANSWER_THROTTLE, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	t->asking = true;
	t->asked_us = w->now_us;
	t->kept = false;
	t->starts = 0;
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

/* Without a message the worker asks no more. What it wanted to start may be with another one. */
static void rate_give_back(struct worker *w, int64_t now_ms)
{
	if (has_rate(w) && !w->throttle.asking && (w->throttle.kept || w->throttle.starts > 0))
		rate_ask(w, 0, false, now_ms);
}

void throttle_rests(struct worker *w)
{
	w->throttle.waited = false;
	show_throttled(w, 0);
	rate_give_back(w, w->now_us / 1000);
	seats_give_back(w, w->now_us / 1000);
}

bool throttle_found_none(struct worker *w)
{
	bool none = seats_found_none(&w->seats) || w->throttle.none_waits;

	w->throttle.none_waits = false;
	return none;
}

/*
 * The wait counts from the script. The next question needs about as long to reach it as the last one did, so the time
 * that the answer took on its way back is no part of the wait.
 */
static void must_wait(struct worker *w, const struct queue_throttle_answer *a, int64_t took_us)
{
	struct throttle *t = &w->throttle;
	int64_t answered_us = t->asked_us + (took_us < APPOINTMENT_DELAY_US ? took_us : APPOINTMENT_DELAY_US);
	int64_t due_ms = (answered_us + a->wait_us + 999) / 1000, ask_ms = w->now_us / 1000 + ASK_MS;

	t->kept = a->appointment != 0;
	t->at_ms = t->kept || due_ms < ask_ms ? due_ms : ask_ms;
	t->waited = true;
	if (!t->kept)
		seats_give_back(w, w->now_us / 1000);	/* others may start before, or wait for the same */
	show_throttled(w, due_ms);
}

/* While the queue has work for all starts, it stays throttled: the state does not change with each start. */
static void may_start(struct worker *w, int starts, int64_t late_us)
{
	w->throttle.starts = starts;
	w->throttle.until_us = w->now_us + GIVEN_FOR_US - late_us;
	if (!w->throttle.waited)
		show_throttled(w, 0);
	w->throttle.waited = false;
}

static bool is_known(const struct throttle *t, int64_t now_us)
{
	return t->way_at_us != 0 && now_us - t->way_at_us < WAY_FOR_US;
}

/*
 * An answer that took long may have been held up, so it is no measure for others. The link is slow if the next one
 * needs as long: then the faster of both is the measure, also for the second of them.
 */
static bool learns(struct throttle *t, int64_t way_us, int64_t now_us, int64_t took_us)
{
	int64_t more_us = way_us - t->doubtful_us;
	bool same = t->doubtful_at_us != 0 && now_us - t->doubtful_at_us < WAY_FOR_US && more_us <= GIVEN_FOR_US &&
	    more_us >= -GIVEN_FOR_US;

	if (took_us <= GIVEN_FOR_US)
		return false;
	t->way_us = same && more_us > 0 ? t->doubtful_us : way_us;
	t->doubtful_us = way_us;
	t->doubtful_at_us = now_us;
	return same;
}

/*
 * How long ago Redis gave what has come with this answer, beyond the time that each answer needs on its way. The worker
 * knows only when it asked: after a long time Redis may have been slow, or the network on the way there, and that does
 * no harm. The clock of Redis tells the rest: an answer that is later by that clock than others were, was held up.
 */
static int64_t lateness_us(struct throttle *t, int64_t redis_us, int64_t took_us)
{
	int64_t now_us = t->asked_us + took_us, way_us = now_us - redis_us, late_us = took_us;
	bool known = is_known(t, now_us) || learns(t, way_us, now_us, took_us);

	if (known && way_us - t->way_us < late_us)
		late_us = way_us > t->way_us ? way_us - t->way_us : 0;
	if (!known || way_us < t->way_us || (took_us <= GIVEN_FOR_US && way_us - t->way_us > GIVEN_FOR_US))
		t->way_us = way_us;		/* the clock was set, or this answer came faster */
	else if (late_us <= GIVEN_FOR_US)
		t->way_us += late_us / 8;	/* the clocks drift */
	if (late_us <= GIVEN_FOR_US)
		t->way_at_us = now_us;
	return late_us;
}

void throttle_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	struct throttle *t = &w->throttle;
	struct queue_throttle_answer a;
	int64_t took_us = w->now_us - t->asked_us, late_us;

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
	late_us = lateness_us(t, a.now_us, took_us);
	t->appointment = a.appointment;
	if (t->gives_back)
		return;
	t->none_waits = a.starts < 0;
	if (a.starts < 0)
		throttle_rests(w);
	else if (a.starts > 0)
		may_start(w, (int)a.starts, late_us);
	else
		must_wait(w, &a, took_us);
}
