/*
 * Starts the process of a persistent handler. One that says READY is started with its queue, and again whenever it has
 * ended, so that no message waits for it to load, and its timeout does not include that. If it ends before it is ready,
 * no message can be the cause: the breaker opens, and each worker tries again after pauses that grow.
 */
#include "worker/worker.h"

#include "common/base/base.h"
#include "common/handler/handler.h"

bool loader_start(struct worker *w, int64_t now_ms)
{
	if (persistent_start(w->persistent.process, w->session.incarnation, now_ms) == -1) {
		starter_put_off(w, now_ms);
		return false;
	}
	return true;
}

/* After processes that ended without having read a message. A process that has answered one ends the row. */
static const struct retry_backoff backoff = { .base_ms = 500, .cap_ms = 30000, .jitter = 0.5 };

static bool breaker_is_about_starts(const struct worker *w)
{
	return breaker_until_ms(w->env->board) != 0 &&
	    handler_cause_is_of_start(atomic_load(&w->env->board->workers.breaker.cause));
}

/* The next start is due at starts_at_ms(); INT64_MAX: after an event. The worker starts nothing before it has a name,
 * which the handler gets. */
static int64_t starts_at_ms(const struct worker *w)
{
	int64_t at = w->starter.retry.at_ms > w->loader.retry.at_ms ? w->starter.retry.at_ms : w->loader.retry.at_ms;

	if (!w->env->conf->ready || persistent_running(w->persistent.process) || w->persistent.undecided ||
	    w->exit.order >= ORDER_FINISH || w->session.incarnation[0] == '\0')
		return INT64_MAX;
	if (breaker_is_about_starts(w) && breaker_until_ms(w->env->board) > at)
		at = breaker_until_ms(w->env->board);
	return at;
}

static void start_ahead(struct worker *w, int64_t now_ms)
{
	if (breaker_is_about_starts(w) && !breaker_may_fetch(w->env->board, now_ms))
		return;		/* another worker tries */
	if (loader_start(w, now_ms))
		starter_succeeded(w);
}

/* The handler works again. What its answers say about it is another matter, which the loader does not judge. */
static void end_trouble(const struct worker *w)
{
	if (breaker_is_about_starts(w) && breaker_concerns(w->env->board, w->env->child->handler_generation) &&
	    breaker_loaded(w->env->board, w->env->conf->breaker.failures))
		log_info("breaker_closed");
}

void loader_tick(struct worker *w, int64_t now_ms)
{
	bool ready = persistent_ready(w->persistent.process);

	if (!w->env->conf->ready)
		return;
	if (ready && !w->loader.loaded)
		end_trouble(w);
	w->loader.loaded = ready;
	if (now_ms >= starts_at_ms(w))
		start_ahead(w, now_ms);
}

int64_t loader_deadline_ms(const struct worker *w)
{
	return starts_at_ms(w);
}

void loader_ended(struct worker *w, const struct persistent_end *e, int64_t now_ms)
{
	if (e->answered_any)
		retry_succeeded(&w->loader.retry);
	else if (!e->read_any && !e->asked && e->how != PERSISTENT_STOPPED && e->how != PERSISTENT_CANCELLED)
		retry_failed(&w->loader.retry, &backoff, now_ms);
}

void loader_failed(struct worker *w, const struct persistent_end *e, int64_t now_ms)
{
	bool late = e->how == PERSISTENT_LATE;

	settle_unrunnable(w, handler_cause_unready(late, e->code, e->signal), "ready",
	    late ? "it was not ready within start_timeout" : "it ended before it was ready", now_ms);
}

/* A process that still loads would read the end of its input too late. */
void loader_dismiss(struct worker *w, int64_t now_ms)
{
	if (persistent_loads(w->persistent.process))
		persistent_stop(w->persistent.process, now_ms);
	else
		persistent_drain(w->persistent.process, now_ms);
}
