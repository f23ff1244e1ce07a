/*
 * The runner of persistent handlers: it gives the process as many jobs as its window takes, and settles the answers,
 * which may come in any order. common/handler/persistent.c manages the process itself. This file decides which message
 * is charged when the process ends with unanswered jobs: only one that the process alone has read. Of several jobs none
 * is charged, and each runs alone the next time. A process may die of a job that it has answered, or be held up by it,
 * so a job that was alone there, but not the first, and the oldest one at a timeout, run in a new process the next
 * time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "worker/worker.h"

#include "common/base/base.h"
#include "common/handler/handler.h"

#define GO_ON_US 2000

static void init(struct worker *w)
{
	unsigned window = w->env->conf->window < 1 ? 1 : (unsigned)w->env->conf->window;

	w->persistent.process = persistent_new(w->env->conf);
	loader_init(w);
	w->persistent.given_size = 4;
	while (w->persistent.given_size < 2 * window)
		w->persistent.given_size *= 2;
	w->persistent.next_serial = 1;	/* not 0: a handler that prints "OK 0" while idle must acknowledge nothing */
	w->persistent.given = alloc_zero(w->persistent.given_size, sizeof(*w->persistent.given));
	for (unsigned i = 0; i < w->persistent.given_size; i++)
		w->persistent.given[i].place.tray = -1;
}

static void free_persistent(struct worker *w)
{
	persistent_free(w->persistent.process);
	free(w->persistent.given);
}

static struct given *entry_of_serial(struct worker *w, uint64_t serial)
{
	return &w->persistent.given[serial & (w->persistent.given_size - 1)];
}

/* The place of the message of an unanswered job; from then on the job is answered. tray -1: there is no such job. */
static struct place take_given(struct worker *w, uint64_t serial)
{
	struct given *g = entry_of_serial(w, serial);
	struct place p = g->place;

	if (p.tray == -1 || g->serial != serial)
		return (struct place){ -1, -1 };
	g->place.tray = -1;
	return p;
}

static void note_process(struct worker *w)
{
	int64_t at = persistent_timeout_at_ms(w->persistent.process), grace = w->env->conf->kill_grace_ms;
	int64_t deadline = persistent_unanswered(w->persistent.process) == 0 ? 0 : at > INT64_MAX - grace ? INT64_MAX
	    : at + grace;

	if (atomic_load(&w->env->slot->deadline_ms) != deadline)
		atomic_store(&w->env->slot->deadline_ms, deadline);
	if (atomic_load(&w->env->slot->handler_pgid) != persistent_pgid(w->persistent.process))
		atomic_store(&w->env->slot->handler_pgid, persistent_pgid(w->persistent.process));
}

/* ---- jobs ---- */

static bool handler_is_ready(const struct worker *w)
{
	return persistent_ready(w->persistent.process);
}

static bool process_is_fresh(struct worker *w, int64_t now_ms)
{
	if (!persistent_running(w->persistent.process) || persistent_fresh(w->persistent.process))
		return true;
	persistent_drain(w->persistent.process, now_ms);
	return false;
}

/* While the handler starts up it gets one message: further ones would only wait, and another worker may be faster. */
static int room_for_jobs(const struct worker *w)
{
	if (w->persistent.undecided)
		return 0;
	if (!persistent_running(w->persistent.process))
		return w->env->conf->ready ? 0 : 1;
	if (!persistent_ready(w->persistent.process) && persistent_unanswered(w->persistent.process) > 0)
		return 0;
	return persistent_room(w->persistent.process);
}

static bool give(struct worker *w, struct place p, int64_t now_ms)
{
	struct given *g;

	while ((g = entry_of_serial(w, w->persistent.next_serial))->place.tray != -1)
		w->persistent.next_serial++;	/* an older job, still unanswered, has this entry */
	starter_describe(w, p);
	if (settle_unreadable(w, p) || too_large_escapes(w, p))
		return true;
	if (expiry_holds(w, p, now_ms))
		return !w->expiry.asking;
	persistent_give(w->persistent.process, w->persistent.next_serial, &w->starter.job, now_ms);
	*g = (struct given){ w->persistent.next_serial++, p };
	starter_started(w, p);
	/*
	 * Most answers are OK, and settling them does not need the parsed message. A window of parsed messages would
	 * not fit into the first cache of the processor.
	 */
	tray_forget_message(&w->trays, p);
	if (atomic_load(&w->env->slot->started_ms) == 0)
		atomic_store(&w->env->slot->started_ms, now_ms);
	return true;
}

static void start_jobs(struct worker *w, int64_t now_ms)
{
	struct place p;

	if (w->persistent.undecided)
		return;
	if (!persistent_running(w->persistent.process) && !loader_start(w, now_ms))
		return;
	starter_succeeded(w);
	while (room_for_jobs(w) > 0 && (p = starter_next(w)).tray != -1)
		if (!give(w, p, now_ms))
			return;
}

/*
 * Takes back jobs of which no byte was written, if the lease ends too soon to start them, or the queue is held or
 * paused by now. flush_jobs() calls this before every write. A message taken back waits again; if its claim was lost
 * meanwhile, it is gone.
 */
static void recall_unwritten(struct worker *w)
{
	uint64_t serial, end = w->persistent.next_serial;

	if (!persistent_unwritten(w->persistent.process) || (starter_may_start(w) && admission_lets_work(w)))
		return;
	serial = persistent_recall(w->persistent.process);
	if (serial == UINT64_MAX)
		return;
	for (w->persistent.next_serial = serial; serial < end; serial++) {
		struct place p = take_given(w, serial);

		if (p.tray == -1)
			continue;	/* answered before the job was written, or a serial that was not used */
		starter_solo_ended(&w->starter);
		if (tray_item(&w->trays, p)->lost)
			mover_gone(w, p);
		else
			tray_unstart(&w->trays, p);
		tray_close(&w->trays, p.tray);
	}
	if (persistent_unanswered(w->persistent.process) == 0)
		atomic_store(&w->env->slot->started_ms, 0);
}

static void flush_jobs(struct worker *w)
{
	if (!persistent_running(w->persistent.process))
		return;
	if (w->starter.may_start_us != w->now_us)
		recall_unwritten(w);
	persistent_flush(w->persistent.process);
}

/* ---- answers ---- */

static void forget_progress(struct worker *w)
{
	w->persistent.progress_serial = 0;
	slot_text_clear(&w->env->slot->progress);
}

/* A job may have been answered in the same turn. */
static void note_progress(struct worker *w)
{
	const struct handler_reply *progress = persistent_progress(w->persistent.process);
	const struct given *g = progress == NULL ? NULL : entry_of_serial(w, progress->serial);

	if (g == NULL || g->place.tray == -1 || g->serial != progress->serial)
		return;
	w->persistent.progress_serial = progress->serial;
	slot_text_set(&w->env->slot->progress, progress->percent, progress->reason, progress->reason_len,
	    PROGRESS_SHOWN);
}

static void answered(struct worker *w, const struct handler_reply *r, int64_t now_ms)
{
	struct place p = take_given(w, r->serial);

	if (r->serial == w->persistent.progress_serial)
		forget_progress(w);
	slot_observe(w->env->slot, r->duration_ms);
	if (tray_item(&w->trays, p)->lost)
		mover_gone(w, p);
	else
		verdict_of_answer(w, p, r, now_ms);
	tray_close(&w->trays, p.tray);
}

/* ---- the end of the process ---- */

static void settle_failed_end(struct worker *w, struct place p, const struct persistent_end *e, int64_t now_ms)
{
	const struct handler_result result = verdict_result(e);
	struct failure f = { .verdict = CONF_OUTCOME_FAIL, .delay_ms = -1, .mute = !e->answered_any };
	char why[256];

	if (e->how == PERSISTENT_TIMED_OUT)
		atomic_fetch_add(&w->env->slot->counters[COUNT_TIMED_OUT], 1);
	verdict_describe(&f, &result);
	if (e->how == PERSISTENT_TIMED_OUT && !e->answered_any && w->env->conf->function == NULL) {
		persistent_describe_silence(e, why, sizeof(why));
		snprintf(f.text + strlen(f.text), sizeof(f.text) - strlen(f.text), "; it never answered: %s", why);
	}
	if (e->how == PERSISTENT_DESYNC)
		snprintf(f.text + strlen(f.text), sizeof(f.text) - strlen(f.text), "; quredis ended it: %s", e->desync);
	settle_failed(w, p, &f, now_ms);
}

/*
 * The process ended by itself. A message is charged only if everything else is excluded: other messages, since the
 * process has read no other; its input that was closed; and the handler itself, since handlers of the queue have
 * answered.
 */
static void settle_suspect(struct worker *w, struct place p, const struct persistent_end *e, int64_t now_ms)
{
	if (e->suspects > 1 || e->asked)
		settle_hand_back(w, p, SETTLE_SOLO);
	else if (verdict_is_mute(w, e))
		settle_hand_back(w, p, SETTLE_LAST);
	else if (e->jobs_read > 1)
		settle_hand_back(w, p, SETTLE_FRESH);
	else
		settle_failed_end(w, p, e, now_ms);
}

/*
 * Of several messages that a process has read, it may wait for another one than the oldest. An isolated function runs
 * each in a process of its own, one after the other, so the oldest was running, unless its answer has met the timeout:
 * then the next one has begun, and all but the oldest are marked as redelivered.
 */
static void settle_timed_out(struct worker *w, struct place p, bool oldest, const struct persistent_end *e,
    int64_t now_ms)
{
	const bool isolated = w->env->conf->function != NULL && w->env->conf->isolate;

	if (e->jobs_read == 1 || (isolated && oldest))
		settle_failed_end(w, p, e, now_ms);
	else
		settle_hand_back(w, p, isolated ? SETTLE_REDELIVERED : oldest ? SETTLE_FRESH : SETTLE_SOLO);
}

static void unanswered(struct worker *w, uint64_t serial, struct place p, const struct persistent_end *e,
    int64_t now_ms)
{
	struct handler_result result = verdict_result(e);

	if (serial != e->oldest || e->suspects > 1)
		result.stderr_len = 0;	/* another one may have said it */
	if (tray_item(&w->trays, p)->lost)
		mover_gone(w, p);
	else if (cancel_of(w, p) != NULL)
		cancel_settle(w, p, &result);
	else if (serial >= e->unread_from || e->how == PERSISTENT_UNRUNNABLE)
		settle_hand_back(w, p, SETTLE_AS_IT_WAS);
	else if (e->how == PERSISTENT_STOPPED || e->how == PERSISTENT_CANCELLED)
		settle_hand_back(w, p, SETTLE_REDELIVERED);
	else if (e->how == PERSISTENT_TIMED_OUT)
		settle_timed_out(w, p, serial == e->oldest, e, now_ms);
	else
		settle_suspect(w, p, e, now_ms);
	tray_close(&w->trays, p.tray);
}

static void settle_end(struct worker *w, const struct persistent_end *e, int64_t now_ms)
{
	verdict_note_end(w, e, now_ms);
	loader_ended(w, e, now_ms);
	for (unsigned i = 0; i < w->persistent.given_size; i++) {	/* in any order */
		struct given *entry = entry_of_serial(w, w->persistent.next_serial + i);
		const struct given g = *entry;

		entry->place.tray = -1;
		if (g.place.tray != -1)
			unanswered(w, g.serial, g.place, e, now_ms);
	}
	starter_solo_ended(&w->starter);
}

/* Settles the end of the process, unless it is undecided. An end by a stop becomes PERSISTENT_STOPPED. */
static void judge_end(struct worker *w, int64_t now_ms)
{
	struct persistent_end *e = &w->persistent.end;
	enum exit_cause cause = EXIT_ITS_OWN;

	if (e->how == PERSISTENT_SIGNALED || e->how == PERSISTENT_EXITED)
		cause = exit_judge_end(&w->exit, e->signal, e->code, now_ms);
	if (cause == EXIT_OF_STOP)
		e->how = PERSISTENT_STOPPED;
	w->persistent.undecided = cause == EXIT_UNDECIDED;
	if (!w->persistent.undecided)
		settle_end(w, e, now_ms);
}

static void serve_process(struct worker *w, int64_t now_ms)
{
	struct handler_reply reply;
	int64_t strays;
	int n = 0;

	for (; persistent_reply(w->persistent.process, &reply); n++)
		answered(w, &reply, now_ms);
	if (n > 0) {
		starter_progressed(w, n);
		atomic_store(&w->env->slot->started_ms, persistent_unanswered(w->persistent.process) > 0 ? now_ms : 0);
	}
	note_progress(w);
	if ((strays = persistent_strays(w->persistent.process)) > 0)
		env_count(w->env, COUNT_STRAY_ANSWERS, (int)strays);
	persistent_tick(w->persistent.process, now_ms);
	if (persistent_ended(w->persistent.process, &w->persistent.end)) {
		judge_end(w, now_ms);
		forget_progress(w);
		atomic_store(&w->env->slot->started_ms, 0);
	}
}

/* The loader comes last: READY is one of the lines of the process. */
static void settle_ended_process(struct worker *w, int64_t now_ms)
{
	if (w->persistent.undecided)
		judge_end(w, now_ms);
	if (persistent_running(w->persistent.process))
		serve_process(w, now_ms);
	loader_tick(w, now_ms);
	note_process(w);
}

/*
 * Serves a handler that answers while the worker still writes to it: the kernel often switches to the reader at once.
 * The worker takes the answer without a poll, and gives the next job without a turn of its loop. With one job at a
 * time, poll and turn would double the cost of a message. Other events wait GO_ON_US at most.
 */
static bool go_on(struct worker *w)
{
	int64_t until_us = w->now_us + GO_ON_US;
	bool any = false;

	while (persistent_unanswered(w->persistent.process) > 0 && w->now_us < until_us &&
	    persistent_read(w->persistent.process, w->now_us / 1000)) {
		worker_look_at_clock(w);
		settle_ended_process(w, w->now_us / 1000);
		starter_tick(w, w->now_us / 1000);
		flush_jobs(w);
		any = true;
	}
	return any;
}

/* ---- the functions of struct runner ---- */

static void stop_process(struct worker *w, int64_t now_ms)
{
	if (persistent_running(w->persistent.process))
		persistent_stop(w->persistent.process, now_ms);
}

static void cancel_jobs(struct worker *w, int64_t now_ms)
{
	persistent_cancel(w->persistent.process, now_ms);
}

static void kill_now(struct worker *w, int64_t now_ms)
{
	(void)now_ms;
	if (persistent_running(w->persistent.process))
		persistent_kill(w->persistent.process);
}

static void forgive(struct worker *w, int64_t ms)
{
	if (persistent_running(w->persistent.process))
		persistent_forgive(w->persistent.process, ms);
}

static bool dismiss(struct worker *w, int64_t now_ms)
{
	if (!persistent_running(w->persistent.process))
		return !w->persistent.undecided;
	loader_dismiss(w, now_ms);
	return false;
}

static size_t pollfds(const struct worker *w, struct pollfd *p)
{
	return persistent_running(w->persistent.process) ? persistent_pollfds(w->persistent.process, p) : 0;
}

static void io(struct worker *w, const struct pollfd *p, size_t n, int64_t now_ms)
{
	if (p == NULL) {
		persistent_quiet(w->persistent.process);
		return;
	}
	recall_unwritten(w);
	persistent_io(w->persistent.process, p, n, now_ms);
}

static int64_t deadline_ms(const struct worker *w)
{
	return persistent_running(w->persistent.process) ? persistent_deadline_ms(w->persistent.process)
	    : loader_deadline_ms(w);
}

const struct runner runner_persistent = {
	.init = init,
	.free = free_persistent,
	.room = room_for_jobs,
	.ready = handler_is_ready,
	.fresh = process_is_fresh,
	.start = start_jobs,
	.end = settle_ended_process,
	.flush = flush_jobs,
	.go_on = go_on,
	.stop = stop_process,
	.cancel = cancel_jobs,
	.kill = kill_now,
	.forgive = forgive,
	.dismiss = dismiss,
	.pollfds = pollfds,
	.io = io,
	.deadline_ms = deadline_ms,
};
