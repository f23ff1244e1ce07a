/*
 * Starts the process of a persistent handler. One that says READY is started with its queue, and again whenever it has
 * ended, so that no message waits for it to load, and its timeout does not include that. If it ends before it is ready,
 * no message can be the cause: each worker tries again after pauses that grow, and the breaker opens unless the handler
 * of another worker is ready.
 */
#include <string.h>

#include "worker/worker.h"

#include "common/base/base.h"
#include "common/handler/handler.h"

/* The handler of the next process: the newest one, whose file lies there, unless this worker has the configuration of
 * an older one. Reads the words of the master in the reverse order of its writes: a configuration that changes
 * meanwhile counts. */
static uint32_t next_generation(const struct worker *w)
{
	const struct queue_master *words = &w->env->board->master;
	uint32_t newest = atomic_load(&words->newest_generation);
	uint32_t conf = atomic_load(&words->conf_generation), own = worker_generation(w);

	return (int32_t)(own - conf) >= 0 ? newest : own;
}

/* The next process would be of the newest handler, which is not known to work. */
static bool keeps_process(const struct worker *w)
{
	const struct queue_master *words = &w->env->board->master;
	uint32_t next = next_generation(w);

	return next == atomic_load(&words->newest_generation) &&
	    (atomic_load(&words->not_ready) != NOT_READY_NONE || next != worker_generation(w));
}

bool loader_start(struct worker *w, int64_t now_ms)
{
	/* before: a restart that comes meanwhile is not done by this start */
	uint32_t generation = next_generation(w);
	uint64_t files = conf_handler_files(w->env->conf);

	if (persistent_start(w->persistent.process, w->session.incarnation, now_ms) == -1) {
		starter_put_off(w, now_ms);
		return false;
	}
	atomic_store(&w->env->slot->handler_files, files);
	if (w->env->conf->ready) {
		atomic_store(&w->env->slot->handler_generation, generation);
		atomic_store(&w->env->slot->handler_started_ms, now_ms);
	}
	return true;
}

/* After processes that ended without having read a message. A process that has answered one ends the row. */
static const struct retry_backoff backoff = { .base_ms = 500, .cap_ms = 30000, .jitter = 0.5 };

/* Between looks at a start of another worker, which no event ends. */
#define SIBLING_LOOK_MS 250

/* The other workers of the queue, also those that are to be replaced, as long as they may fetch. */
struct siblings {
	bool ready;		/* the handler of one is */
	bool loading;		/* the handler of one loads */
};

static struct siblings look_at_siblings(const struct worker *w)
{
	const struct scoreboard *b = w->env->child->board;
	struct siblings found = { false, false };

	for (int i = 0; i < SCOREBOARD_SLOTS; i++) {
		if (i == w->env->child->slot || atomic_load(&b->master.queue_of[i]) != w->env->child->queue_index + 1 ||
		    atomic_load(&b->master.orders[i]) >= ORDER_FINISH)
			continue;
		found.ready = found.ready || atomic_load(&b->slots[i].ready) != 0;
		found.loading = found.loading || atomic_load(&b->slots[i].loading) != 0;
	}
	return found;
}

void loader_init(struct worker *w)
{
	atomic_store(&w->env->slot->load, w->env->conf->ready ? SLOT_UNLOADED : SLOT_NEVER_LOADS);
}

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
	if (w->loader.look_at_ms > at)
		at = w->loader.look_at_ms;
	if (breaker_is_about_starts(w) && breaker_until_ms(w->env->board) > at)
		at = breaker_until_ms(w->env->board);
	return at;
}

/* After a start that failed, the workers of the queue try one at a time, however long a load takes. */
static void start_ahead(struct worker *w, int64_t now_ms)
{
	if (breaker_is_about_starts(w)) {
		if (look_at_siblings(w).loading) {
			w->loader.look_at_ms = now_ms + SIBLING_LOOK_MS;
			return;
		}
		if (!breaker_may_fetch(w->env->board, now_ms))
			return;		/* another worker tries */
	}
	if (loader_start(w, now_ms))
		starter_succeeded(w);
}

/* Master and siblings read whether the process is ready. That of a process that has ended must not count for the next
 * one, so it is shown before a start. */
static void show_ready(struct worker *w, bool ready)
{
	if (ready && !w->loader.was_ready)
		atomic_store(&w->env->slot->load, SLOT_LOADED);
	if (ready != w->loader.was_ready)
		atomic_store(&w->env->slot->ready, ready);
	w->loader.was_ready = ready;
}

static void show_loading(const struct worker *w)
{
	struct slot *s = w->env->slot;
	bool loading = persistent_running(w->persistent.process) && persistent_loads(w->persistent.process);

	if (atomic_load(&s->loading) != loading)
		atomic_store(&s->loading, loading);
}

/* The handler works again. What its answers say about it is another matter, which the loader does not judge. */
static void close_breaker_of_starts(const struct worker *w)
{
	if (breaker_is_about_starts(w) && breaker_concerns(w->env->board, worker_generation(w)) &&
	    breaker_loaded(w->env->board, w->env->conf->breaker.failures))
		log_info("breaker_closed");
}

void loader_tick(struct worker *w, int64_t now_ms)
{
	bool ready = persistent_ready(w->persistent.process);

	if (!w->env->conf->ready)
		return;
	persistent_keep(w->persistent.process, keeps_process(w));
	if (ready && !w->loader.was_ready)
		close_breaker_of_starts(w);
	show_ready(w, ready);
	if (now_ms >= starts_at_ms(w))
		start_ahead(w, now_ms);
	show_loading(w);
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

/*
 * While the handler of another worker is ready, the handler works, and its worker must not be slowed down by probes:
 * then only the back-off of this worker follows.
 */
void loader_failed(struct worker *w, const struct persistent_end *e, int64_t now_ms)
{
	bool unrunnable = e->how == PERSISTENT_UNRUNNABLE, late = e->how == PERSISTENT_LATE;
	uint64_t cause = unrunnable ? handler_cause_unrunnable(e->stage, e->error)
	    : handler_cause_unready(late, e->code, e->signal);

	atomic_store(&w->env->slot->load_cause, cause);
	atomic_store(&w->env->slot->load, SLOT_NOT_LOADED);
	settle_unready(w, cause, look_at_siblings(w).ready, unrunnable ? e->stage : "ready",
	    unrunnable ? strerror(e->error) : late ? "it was not ready within start_timeout"
	    : "it ended before it was ready", now_ms);
}

void loader_lost(struct worker *w, const struct persistent_end *e, int64_t now_ms)
{
	settle_unready(w, handler_cause_idle(e->code, e->signal), look_at_siblings(w).ready, "answer",
	    "it ended while it had no message", now_ms);
}

/* A process that still loads would read the end of its input too late. */
void loader_dismiss(struct worker *w, int64_t now_ms)
{
	if (persistent_loads(w->persistent.process))
		persistent_stop(w->persistent.process, now_ms);
	else
		persistent_drain(w->persistent.process, now_ms);
}
