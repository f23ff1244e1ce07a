/*
 * A handler that stays: fed with as many jobs as its window takes, answered in any order. Its process is
 * persistent.c's. Who is charged when it ends with jobs unanswered is decided here: one alone is; of
 * several nobody is, but each is run alone the next time, so that the one that did it is found.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "worker/worker.h"

#include "common/alloc.h"
#include "common/clock.h"
#include "common/process.h"

#define GO_ON_US 2000

static void init(struct worker *w)
{
	unsigned window = w->conf->window < 1 ? 1 : (unsigned)w->conf->window;

	w->persistent = persistent_new(w->conf, w->name);
	w->given_size = 4;
	while (w->given_size < 2 * window)
		w->given_size *= 2;
	w->next_serial = 1;	/* idle chatter of "OK 0" acknowledges nothing */
	w->given = alloc_zero(w->given_size, sizeof(*w->given));
	for (unsigned i = 0; i < w->given_size; i++)
		w->given[i].tray = -1;
}

static void free_persistent(struct worker *w)
{
	persistent_free(w->persistent);
	free(w->given);
}

/* Where the job of this serial lies; serials under way are less than given_size apart. */
static struct place *given(struct worker *w, uint64_t serial)
{
	return &w->given[serial & (w->given_size - 1)];
}

static void note_process(struct worker *w)
{
	int64_t at = persistent_timeout_at_ms(w->persistent), grace = w->conf->kill_grace_ms;
	int64_t deadline = persistent_unanswered(w->persistent) == 0 ? 0 : at > INT64_MAX - grace ? INT64_MAX : at + grace;

	if (atomic_load(&w->slot->deadline_ms) != deadline)
		atomic_store(&w->slot->deadline_ms, deadline);
	if (atomic_load(&w->slot->handler_pgid) != persistent_pgid(w->persistent))
		atomic_store(&w->slot->handler_pgid, persistent_pgid(w->persistent));
}

/* ---- giving ---- */

static bool ready(const struct worker *w)
{
	return persistent_ready(w->persistent);
}

/* While the handler starts up it gets one message: further ones would only wait, and another worker may be faster. */
static int room(const struct worker *w)
{
	if (!persistent_running(w->persistent))
		return 1;
	if (!persistent_ready(w->persistent) && persistent_unanswered(w->persistent) > 0)
		return 0;
	return persistent_room(w->persistent);
}

static bool give(struct worker *w, struct place p, int64_t now_ms)
{
	struct place *place = given(w, w->next_serial);

	if (place->tray != -1)
		return false;		/* an old one is still unanswered */
	run_describe(w, p, &w->job);
	if (w->message.unknown_version) {
		settle_unknown_version(w, p);
		return true;
	}
	if (too_large_escapes(w, p))
		return true;
	if (expiry_holds(w, p, now_ms))
		return !w->asking_time;
	persistent_give(w->persistent, w->next_serial, &w->job, now_ms);
	*place = p;
	w->next_serial++;
	run_started(w, p, &w->job);
	if (atomic_load(&w->slot->started_ms) == 0)
		atomic_store(&w->slot->started_ms, now_ms);
	return true;
}

static void start(struct worker *w, int64_t now_ms)
{
	struct place p;

	if (!persistent_running(w->persistent) && persistent_start(w->persistent, w->incarnation, now_ms) == -1) {
		run_put_off(w, now_ms);
		return;
	}
	w->start_errors = 0;
	while (room(w) > 0 && (p = run_next(w)).tray != -1)
		if (!give(w, p, now_ms))
			return;
}

/*
 * The deadline of the lease is looked at before every write: what has not begun by then waits again, or was
 * taken by another meanwhile.
 */
static void recall(struct worker *w)
{
	uint64_t serial, end = w->next_serial;

	if (!persistent_unwritten(w->persistent) || run_may_start(w))
		return;
	serial = persistent_recall(w->persistent);
	if (serial == UINT64_MAX)
		return;
	for (w->next_serial = serial; serial < end; serial++) {
		struct place *place = given(w, serial), p = *place;

		place->tray = -1;
		if (p.tray == -1)
			continue;	/* answered before it was asked */
		w->solo_running = false;
		if (tray_item(w, p)->lost)
			move_gone(w, p);
		else
			tray_set(&w->trays[p.tray], tray_item(w, p), ITEM_WAITING);
		move_close_tray(w, p.tray);
	}
	if (persistent_unanswered(w->persistent) == 0)
		atomic_store(&w->slot->started_ms, 0);
}

static void flush(struct worker *w)
{
	if (!persistent_running(w->persistent))
		return;
	if (w->may_start_us != w->now_us)
		recall(w);
	persistent_flush(w->persistent);
}

/* ---- answers ---- */

static void refused(struct worker *w, struct place p, const struct persistent_reply *r, int64_t now_ms)
{
	struct handler_result result = { .end = HANDLER_EXITED, .code = -1, .duration_ms = r->duration_ms,
		.stderr_tail = r->stderr_tail, .stderr_len = r->stderr_len };
	struct failure f = { .delay_ms = r->delay_ms, .class = r->verdict == PERSISTENT_RETRY ? NULL : "Rejected", .result = &result,
		.verdict = r->verdict == PERSISTENT_RETRY ? CONF_OUTCOME_RETRY : CONF_OUTCOME_FAIL };
	int len = r->reason_len > 200 ? 200 : (int)r->reason_len;

	snprintf(f.text, sizeof(f.text), "%s%s%.*s", r->verdict == PERSISTENT_RETRY ? "RETRY" : "FAIL", len > 0 ? ": " : "",
	    len, len > 0 ? r->reason : "");
	settle_failed(w, p, &f, now_ms);
}

static void answered(struct worker *w, const struct persistent_reply *r, int64_t now_ms)
{
	struct place *place = given(w, r->serial), p = *place;

	place->tray = -1;
	slot_observe(w->slot, r->duration_ms);
	if (tray_item(w, p)->lost)
		move_gone(w, p);
	else if (r->verdict == PERSISTENT_OK)
		settle_done(w, p, r->duration_ms);
	else
		refused(w, p, r, now_ms);
	move_close_tray(w, p.tray);
}

/* ---- the end of the process ---- */

static void failed(struct worker *w, struct place p, const struct persistent_end *e, int64_t now_ms)
{
	struct handler_result result = {
		.end = e->how == PERSISTENT_TIMED_OUT ? HANDLER_TIMED_OUT : e->signal != 0 ? HANDLER_SIGNALED : HANDLER_EXITED,
		.code = e->code, .signal = e->signal, .duration_ms = e->duration_ms,
		.stderr_tail = e->stderr_tail, .stderr_len = e->stderr_len,
	};
	struct failure f = { .verdict = CONF_OUTCOME_FAIL, .delay_ms = -1, .mute = !e->answered_any };

	if (e->how == PERSISTENT_TIMED_OUT)
		atomic_fetch_add(&w->slot->counters[COUNT_TIMED_OUT], 1);
	verdict_describe(&f, &result);
	if (e->how == PERSISTENT_TIMED_OUT && !e->answered_any)
		strlcat(f.text, "; it never answered: is its output flushed?", sizeof(f.text));
	settle_failed(w, p, &f, now_ms);
}

/*
 * Decides whether the handler or the message is to blame. A handler that ended before it read anything is broken: no message can
 * have caused it. A handler that read and did not answer may be broken while no handler of the queue has answered since its start,
 * reload or restart; after that its end is evidence against the message, which is charged.
 */
static bool is_broken(const struct worker *w, const struct persistent_end *e)
{
	if (e->how == PERSISTENT_UNRUNNABLE)
		return true;
	if (e->answered_any || e->asked || e->how == PERSISTENT_STOPPED)
		return false;
	if (!e->read_any)
		return true;
	return e->how != PERSISTENT_TIMED_OUT && !breaker_knows_answers(w->board, w->child->handler_generation);
}

static void unanswered(struct worker *w, uint64_t serial, struct place p, const struct persistent_end *e, bool broken, int64_t now_ms)
{
	bool solo = tray_item(w, p)->solo, read = serial < e->unread_from && e->how != PERSISTENT_UNRUNNABLE;

	if (tray_item(w, p)->lost)
		move_gone(w, p);
	else if (!read || e->how == PERSISTENT_UNRUNNABLE)
		settle_hand_back(w, p, SETTLE_AS_IT_WAS);
	else if (e->how == PERSISTENT_STOPPED)
		settle_hand_back(w, p, SETTLE_REDELIVERED);
	else if (e->how == PERSISTENT_TIMED_OUT)
		serial == e->oldest ? failed(w, p, e, now_ms) : settle_hand_back(w, p, SETTLE_REDELIVERED);
	else if (e->unanswered == 1 && (solo || !broken))
		failed(w, p, e, now_ms);
	else
		settle_hand_back(w, p, SETTLE_SOLO);
	move_close_tray(w, p.tray);
}

static void note_end(struct worker *w, const struct persistent_end *e, bool broken, int64_t now_ms)
{
	char error[128];
	struct log_field how = e->signal != 0 ? log_str("signal", process_signal_name(e->signal))
			       : e->code >= 0 ? log_int("exit", e->code) : log_str("exit", NULL);

	log_event(e->asked || e->how == PERSISTENT_STOPPED ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARNING, "handler_ended",
	    log_str("queue", w->conf->name), log_str("worker", w->name), how,
	    log_int("unanswered", e->unanswered), log_int("lived_ms", e->lived_ms));
	if (!broken)
		return;
	if (e->how == PERSISTENT_UNRUNNABLE)
		snprintf(error, sizeof(error), "%s", strerror(e->error));
	else
		snprintf(error, sizeof(error), "it ended before its first answer");
	settle_unrunnable(w, e->how == PERSISTENT_UNRUNNABLE ? e->stage : "answer", error, now_ms);
}

static void ended(struct worker *w, const struct persistent_end *e, int64_t now_ms)
{
	bool broken = is_broken(w, e);

	note_end(w, e, broken, now_ms);
	for (uint64_t serial = w->next_serial - w->given_size; serial != w->next_serial; serial++) {
		struct place *place = given(w, serial), p = *place;

		place->tray = -1;
		if (p.tray != -1)
			unanswered(w, serial, p, e, broken, now_ms);
	}
	w->solo_running = false;
}

static void end(struct worker *w, int64_t now_ms)
{
	struct persistent_reply reply;
	struct persistent_end e;
	int n = 0;

	if (!persistent_running(w->persistent))
		return;
	for (; persistent_reply(w->persistent, &reply); n++)
		answered(w, &reply, now_ms);
	if (n > 0) {
		run_progressed(w, n);
		atomic_store(&w->slot->started_ms, persistent_unanswered(w->persistent) > 0 ? now_ms : 0);
	}
	persistent_tick(w->persistent, now_ms);
	if (persistent_ended(w->persistent, &e)) {
		ended(w, &e, now_ms);
		atomic_store(&w->slot->started_ms, 0);
	}
	note_process(w);
}

/*
 * One that answers while we write to it (the kernel switches to it at once) is given the next without a
 * turn of the loop, and its answer taken without a poll: for one job at a time they cost as much as the rest
 * of ours. What is held up meanwhile waits no longer than GO_ON_US.
 */
static bool go_on(struct worker *w)
{
	int64_t until_us = w->now_us + GO_ON_US;
	bool any = false;

	while (persistent_unanswered(w->persistent) > 0 && w->now_us < until_us && persistent_read(w->persistent, w->now_us / 1000)) {
		w->now_us = clock_monotonic_us();
		end(w, w->now_us / 1000);
		run_tick(w, w->now_us / 1000);
		flush(w);
		any = true;
	}
	return any;
}

/* ---- the rest ---- */

static void stop(struct worker *w, int64_t now_ms)
{
	if (persistent_running(w->persistent))
		persistent_stop(w->persistent, now_ms);
}

static void kill_now(struct worker *w, int64_t now_ms)
{
	(void)now_ms;
	if (persistent_running(w->persistent))
		persistent_kill(w->persistent);
}

static bool dismiss(struct worker *w, int64_t now_ms)
{
	if (!persistent_running(w->persistent))
		return true;
	persistent_drain(w->persistent, now_ms);
	return false;
}

static size_t pollfds(const struct worker *w, struct pollfd *p)
{
	return persistent_running(w->persistent) ? persistent_pollfds(w->persistent, p) : 0;
}

static void io(struct worker *w, const struct pollfd *p, size_t n, int64_t now_ms)
{
	if (p == NULL) {
		persistent_quiet(w->persistent);
		return;
	}
	recall(w);
	persistent_io(w->persistent, p, n, now_ms);
}

static int64_t deadline_ms(const struct worker *w)
{
	return persistent_running(w->persistent) ? persistent_deadline_ms(w->persistent) : INT64_MAX;
}

const struct runner run_persistent = { init, free_persistent, room, ready, start, end, flush, go_on, stop, kill_now, dismiss, pollfds,
	io, deadline_ms };
