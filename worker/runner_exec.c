/*
 * The runner of exec handlers: one process for each message, and one message at a time. It starts the handler with the
 * next message that may run, passes stop and kill on to it, and hands its end to verdict.c. handler.c creates the
 * process, feeds it and kills it.
 */
#include "worker/worker.h"

static void init(struct worker *w)
{
	w->exec.running.tray = -1;
	w->exec.handler = handler_new(w->env->conf);
}

static void free_handler(struct worker *w)
{
	handler_free(w->exec.handler);
}

static int room_for_run(const struct worker *w)
{
	return w->exec.running.tray == -1 ? 1 : 0;
}

/* An exec handler starts with its message, so it is always ready. */
static bool handler_is_ready(const struct worker *w)
{
	(void)w;
	return true;
}

static bool process_is_fresh(struct worker *w, int64_t now_ms)
{
	(void)w;
	(void)now_ms;
	return true;
}

/* The deadline moves with a sign of life. */
static void note_deadline(struct worker *w)
{
	int64_t at = handler_timeout_at_ms(w->exec.handler), grace = w->env->conf->kill_grace_ms;

	atomic_store(&w->env->slot->deadline_ms, at > INT64_MAX - grace ? INT64_MAX : at + grace);
}

static void note_running(struct worker *w, int64_t now_ms)
{
	atomic_store(&w->env->slot->handler_pgid, handler_pgid(w->exec.handler));
	atomic_store(&w->env->slot->started_ms, now_ms);
	note_deadline(w);
}

static void note_progress(struct worker *w)
{
	const struct handler_reply *progress = handler_progress(w->exec.handler);

	if (progress != NULL)
		slot_text_set(&w->env->slot->progress, progress->percent, progress->reason, progress->reason_len,
		    PROGRESS_SHOWN);
}

static void note_ended(struct worker *w, int64_t now_ms)
{
	slot_observe(w->env->slot, now_ms - atomic_load(&w->env->slot->started_ms));
	atomic_store(&w->env->slot->handler_pgid, 0);
	atomic_store(&w->env->slot->started_ms, 0);
	atomic_store(&w->env->slot->deadline_ms, 0);
	slot_text_clear(&w->env->slot->progress);
}

/*
 * Describes and returns the next message that may run. It escapes the messages on its way that have an unknown version
 * or seal, are too large, or have expired. tray -1: none may run now.
 */
static struct place next_known(struct worker *w, int64_t now_ms)
{
	struct place p;

	while ((p = starter_next(w)).tray != -1) {
		starter_describe(w, p);
		if (settle_unreadable(w, p) || too_large_escapes(w, p))
			continue;
		if (!expiry_holds(w, p, now_ms))
			break;
		if (w->expiry.asking)
			return (struct place){ -1, -1 };
	}
	return p;
}

static void start_next(struct worker *w, int64_t now_ms)
{
	struct place p;

	if (w->exec.running.tray != -1)
		return;
	p = next_known(w, now_ms);
	if (p.tray == -1)
		return;
	if (handler_start(w->exec.handler, &w->starter.job, now_ms) == -1) {
		starter_put_off(w, now_ms);
		return;
	}
	starter_succeeded(w);
	w->exec.running = p;
	starter_started(w, p);
	note_running(w, now_ms);
}

static void settle_ended_run(struct worker *w, int64_t now_ms)
{
	struct handler_result result;
	struct place p = w->exec.running;

	if (p.tray == -1)
		return;
	handler_tick(w->exec.handler, now_ms);
	if (!handler_finished(w->exec.handler, &result)) {
		atomic_store(&w->env->slot->handler_pgid, handler_pgid(w->exec.handler));
		note_deadline(w);
		note_progress(w);
		return;
	}
	if (!verdict_is_due(w, &result, now_ms)) {
		atomic_store(&w->env->slot->handler_pgid, handler_pgid(w->exec.handler));
		return;
	}
	w->exec.running.tray = -1;
	starter_progressed(w, 1);
	note_ended(w, now_ms);
	verdict_of_exec(w, p, &result, now_ms);
}

static void flush_nothing(struct worker *w)
{
	(void)w;		/* an exec handler has all its input in its pipe when it starts */
}

static bool go_on(struct worker *w)
{
	(void)w;
	return false;
}

static void stop_handler(struct worker *w, int64_t now_ms)
{
	if (w->exec.running.tray != -1)
		handler_stop(w->exec.handler, now_ms);
}

/* This runner runs one message, so that is the one. */
static void cancel_run(struct worker *w, int64_t now_ms)
{
	if (w->exec.running.tray != -1 && cancel_of(w, w->exec.running) != NULL)
		handler_cancel(w->exec.handler, now_ms);
}

static void kill_now(struct worker *w, int64_t now_ms)
{
	(void)now_ms;
	if (w->exec.running.tray != -1)
		handler_kill(w->exec.handler);
}

static void forgive(struct worker *w, int64_t ms)
{
	if (w->exec.running.tray != -1)
		handler_forgive(w->exec.handler, ms);
}

static bool dismiss(struct worker *w, int64_t now_ms)
{
	(void)now_ms;
	return w->exec.running.tray == -1;
}

static size_t pollfds(const struct worker *w, struct pollfd *p)
{
	return w->exec.running.tray == -1 ? 0 : handler_pollfds(w->exec.handler, p);
}

static void io(struct worker *w, const struct pollfd *p, size_t n, int64_t now_ms)
{
	(void)now_ms;
	if (p != NULL)
		handler_io(w->exec.handler, p, n);
}

static int64_t deadline_ms(const struct worker *w)
{
	return w->exec.running.tray == -1 ? INT64_MAX : handler_deadline_ms(w->exec.handler);
}

const struct runner runner_exec = {
	.init = init,
	.free = free_handler,
	.room = room_for_run,
	.ready = handler_is_ready,
	.fresh = process_is_fresh,
	.start = start_next,
	.end = settle_ended_run,
	.flush = flush_nothing,
	.go_on = go_on,
	.stop = stop_handler,
	.cancel = cancel_run,
	.kill = kill_now,
	.forgive = forgive,
	.dismiss = dismiss,
	.pollfds = pollfds,
	.io = io,
	.deadline_ms = deadline_ms,
};
