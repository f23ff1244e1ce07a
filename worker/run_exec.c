/* One process for each message, one after the other. How a process is made, fed and killed is handler.c's. */
#include "worker/worker.h"

static void init(struct worker *w)
{
	w->running.tray = -1;
	w->handler = handler_new(w->conf, w->name);
}

static void free_handler(struct worker *w)
{
	handler_free(w->handler);
}

static int room(const struct worker *w)
{
	return w->running.tray == -1 ? 1 : 0;
}

/* An exec handler starts with its message, so it is always ready. */
static bool ready(const struct worker *w)
{
	(void)w;
	return true;
}

static void note_running(struct worker *w, int64_t timeout_ms, int64_t now_ms)
{
	atomic_store(&w->slot->handler_pgid, handler_pgid(w->handler));
	atomic_store(&w->slot->started_ms, now_ms);
	atomic_store(&w->slot->deadline_ms, timeout_ms < 0 ? INT64_MAX : now_ms + timeout_ms + w->conf->kill_grace_ms);
}

static void note_ended(struct worker *w, int64_t now_ms)
{
	slot_observe(w->slot, now_ms - atomic_load(&w->slot->started_ms));
	atomic_store(&w->slot->handler_pgid, 0);
	atomic_store(&w->slot->started_ms, 0);
	atomic_store(&w->slot->deadline_ms, 0);
}

/* The next that is of a version we know and not too late, described; tray -1: none now. */
static struct place next_known(struct worker *w, int64_t now_ms)
{
	struct place p;

	while ((p = run_next(w)).tray != -1) {
		run_describe(w, p, &w->job);
		if (w->message.unknown_version)
			settle_unknown_version(w, p);
		else if (too_large_escapes(w, p))
			continue;
		else if (!expiry_holds(w, p, now_ms))
			break;
		else if (w->asking_time)
			return (struct place){ -1, -1 };
	}
	return p;
}

static void start(struct worker *w, int64_t now_ms)
{
	struct place p;

	if (w->running.tray != -1)
		return;
	p = next_known(w, now_ms);
	if (p.tray == -1)
		return;
	if (handler_start(w->handler, &w->job, now_ms) == -1) {
		run_put_off(w, now_ms);
		return;
	}
	w->start_errors = 0;
	w->running = p;
	run_started(w, p, &w->job);
	note_running(w, w->job.timeout_ms, now_ms);
}

static void end(struct worker *w, int64_t now_ms)
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
	w->running.tray = -1;
	run_progressed(w, 1);
	note_ended(w, now_ms);
	verdict_of_exec(w, p, &result, now_ms);
}

static void flush(struct worker *w)
{
	(void)w;		/* what a handler is given is in its pipe when it starts */
}

static bool go_on(struct worker *w)
{
	(void)w;
	return false;
}

static void stop(struct worker *w, int64_t now_ms)
{
	if (w->running.tray != -1)
		handler_stop(w->handler, now_ms);
}

static void kill_now(struct worker *w, int64_t now_ms)
{
	(void)now_ms;
	if (w->running.tray != -1)
		handler_kill(w->handler);
}

static bool dismiss(struct worker *w, int64_t now_ms)
{
	(void)now_ms;
	return w->running.tray == -1;
}

static size_t pollfds(const struct worker *w, struct pollfd *p)
{
	return w->running.tray == -1 ? 0 : handler_pollfds(w->handler, p);
}

static void io(struct worker *w, const struct pollfd *p, size_t n, int64_t now_ms)
{
	(void)now_ms;
	if (p != NULL)
		handler_io(w->handler, p, n);
}

static int64_t deadline_ms(const struct worker *w)
{
	return w->running.tray == -1 ? INT64_MAX : handler_deadline_ms(w->handler);
}

const struct runner run_exec = { init, free_handler, room, ready, start, end, flush, go_on, stop, kill_now, dismiss, pollfds,
	io, deadline_ms };
