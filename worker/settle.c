/*
 * What becomes of a message once its handler ended, or because it may not run. The move that makes it so
 * is sent by move.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "worker/worker.h"

#include "common/alloc.h"
#include "common/backoff.h"
#include "common/clock.h"
#include "common/process.h"

static void count(struct worker *w, enum counter c)
{
	atomic_fetch_add(&w->slot->counters[c], 1);
}

/* ---- which move ---- */

static struct outcome *outcome(struct worker *w, struct place p)
{
	struct item *item = tray_item(w, p);

	if (item->outcome == NULL)
		item->outcome = alloc_zero(1, sizeof(*item->outcome));
	return item->outcome;
}

static void parse(struct worker *w, struct place p, struct message *m)
{
	const struct item *item = tray_item(w, p);

	message_parse(m, tray_raw(&w->trays[p.tray], item), item->len);
}

static void wrap_instead(struct outcome *o, const struct message *m, const struct wrapper *wrapper)
{
	buffer_clear(&o->instead);
	message_wrap(&o->instead, m, wrapper);
}

/* One that was not started goes back as it was. */
void settle_hand_back(struct worker *w, struct place p, bool started)
{
	struct wrapper wrapper;
	struct message m;

	parse(w, p, &m);
	wrapper = m.wrapper;
	if (started || wrapper.mark_ms != 0) {
		wrapper.redelivered += started;
		/* A mark proves its age only where it was written (docs/design.md): here it becomes this message's own. */
		if (wrapper.own_ms == 0)
			wrapper.own_ms = wrapper.mark_ms;
		wrapper.mark_ms = 0;
		wrap_instead(outcome(w, p), &m, &wrapper);
	}
	move_choose(w, p, MOVE_HAND_BACK);
}

void settle_relieve(struct worker *w, struct place but)
{
	for (int tray = 0; tray < QUEUE_TRAYS; tray++) {
		struct tray *t = &w->trays[tray];

		if (t->state != TRAY_FILLED || t->count[ITEM_DONE] + t->count[ITEM_WAITING] == 0)
			continue;
		for (int i = 0; i < t->n; i++) {
			struct place p = { tray, i };

			if (t->items[i].state == ITEM_DONE)
				move_choose(w, p, MOVE_DONE);
			else if (t->items[i].state == ITEM_WAITING && !(tray == but.tray && i == but.item))
				settle_hand_back(w, p, false);
		}
	}
}

static void fill_record(struct worker *w, struct outcome *t, const struct message *m, const char *class,
    const struct handler_result *result)
{
	const struct wrapper *wrapper = &m->wrapper;
	bool ran = result != NULL && result->end != HANDLER_UNREPRESENTABLE;

	buffer_clear(&t->stderr_tail);
	if (ran && result->stderr_len > 0)
		buffer_append(&t->stderr_tail, result->stderr_tail, result->stderr_len);
	t->record = (struct record){
		.queue = w->conf->name,
		.queue_from = "transit",
		.error_class = class,
		.error_message = t->error_message,
		.failed_at_ms = clock_realtime_ms(),
		.first_failed_ms = wrapper->first_failed_ms,
		.attempts = wrapper->attempts + (ran ? 1 : 0),
		.crashes = wrapper->crashes,
		.exit_code = ran && result->signal == 0 ? result->code : -1,
		.signal = ran && result->signal != 0 ? process_signal_name(result->signal) : NULL,
		.stderr_tail = t->stderr_tail.data,
		.stderr_len = t->stderr_tail.len,
		.duration_ms = ran ? result->duration_ms : -1,
		.node = w->child->conf->supervisor.node,
		.worker = w->incarnation,
		.handler = w->conf->handler[0],
		.payload_max = (size_t)w->conf->dead_letter.payload_max,
	};
}

void settle_escape(struct worker *w, struct place p, const char *class, const char *message)
{
	struct outcome *o = outcome(w, p);
	struct message m;

	parse(w, p, &m);
	snprintf(o->error_message, sizeof(o->error_message), "%s", message);
	fill_record(w, o, &m, class, NULL);
	move_choose(w, p, MOVE_ESCAPE);
	log_info("message_escaped", log_str("queue", w->conf->name), log_str("worker", w->name), log_str("id", message_id(&m)),
	    log_str("class", class), log_str("error", message));
}

static void retry(struct worker *w, struct place p, const struct message *m)
{
	const struct conf_backoff *b = &w->conf->backoff;
	struct outcome *o = outcome(w, p);
	struct wrapper wrapper = m->wrapper;

	wrapper.attempts++;
	wrapper.own_ms = wrapper.mark_ms = 0;	/* it queues like everyone: its wait begins anew */
	if (wrapper.first_failed_ms == 0)
		wrapper.first_failed_ms = clock_realtime_ms();
	wrap_instead(o, m, &wrapper);
	o->delay_ms = backoff_ms(b->base_ms, b->factor, b->cap_ms, b->jitter, (unsigned)wrapper.attempts, arc4random());
	move_choose(w, p, MOVE_RETRY);
}

/* ---- what an end means ---- */

/* The handler's own last words, for the record's error_message. */
static int last_line(const struct handler_result *result, const char **line)
{
	const char *data = result->stderr_tail;
	size_t end = result->stderr_len, start;

	while (end > 0 && (data[end - 1] == '\n' || data[end - 1] == '\r' || data[end - 1] == ' '))
		end--;
	for (start = end; start > 0 && data[start - 1] != '\n' && end - start < 200; start--)
		;
	*line = data + start;
	return (int)(end - start);
}

static const char *describe(struct outcome *t, const struct handler_result *result, enum conf_outcome outcome)
{
	const char *words;
	int len = last_line(result, &words);
	char *out = t->error_message;
	const char *class;
	size_t size = sizeof(t->error_message);
	int n;

	if (result->end == HANDLER_TIMED_OUT) {
		class = "HandlerTimeout";
		n = snprintf(out, size, "timed out after %lld ms", (long long)result->duration_ms);
	} else if (result->signal != 0) {
		class = "HandlerSignal";
		n = snprintf(out, size, "killed by %s", process_signal_name(result->signal));
	} else {
		class = outcome == CONF_OUTCOME_ESCAPE ? "Rejected" : "HandlerExit";
		n = snprintf(out, size, "exit status %d", result->code);
	}
	if (len > 0)
		snprintf(out + n, size - (size_t)n, ": %.*s", len, words);
	return class;
}

static enum conf_outcome outcome_of(const struct worker *w, const struct handler_result *result)
{
	if (result->end == HANDLER_EXITED && result->code >= 0)
		return w->conf->exit_codes[result->code & 0xff];
	return CONF_OUTCOME_FAIL;
}

static void log_outcome(struct worker *w, struct place p, const char *class, const struct handler_result *result)
{
	const struct item *item = &w->trays[p.tray].items[p.item];
	const char *event = item->move == MOVE_ESCAPE ? "message_escaped" : "message_retried";

	log_info(event, log_str("queue", w->conf->name), log_str("worker", w->name), log_str("id", message_id(&w->message)),
	    log_int("attempt", w->job.attempt), log_str("class", class), log_int("exit", result->code),
	    log_int("duration_ms", result->duration_ms), log_str("error", item->outcome->error_message));
}

static void note_failure(struct worker *w, const struct outcome *o, int64_t now_ms)
{
	if (breaker_failed(w->board, breaker_message_id(&w->message), w->conf->breaker.failures, now_ms))
		log_error("breaker_opened", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("handler", w->conf->handler[0]), log_str("error", o->error_message));
}

static void failed(struct worker *w, struct place p, const struct handler_result *result, enum conf_outcome verdict,
    int64_t now_ms)
{
	struct outcome *o = outcome(w, p);
	const char *class = describe(o, result, verdict);

	count(w, COUNT_FAILED);
	if (result->end == HANDLER_TIMED_OUT)
		count(w, COUNT_TIMED_OUT);
	if (verdict == CONF_OUTCOME_FAIL)
		note_failure(w, o, now_ms);
	if (verdict == CONF_OUTCOME_RETRY || (verdict == CONF_OUTCOME_FAIL && w->job.attempt < w->job.max_attempts)) {
		retry(w, p, &w->message);
	} else {
		fill_record(w, o, &w->message, class, result);
		move_choose(w, p, MOVE_ESCAPE);
	}
	log_outcome(w, p, class, result);
}

static void unrunnable(struct worker *w, struct place p, const struct handler_result *result, int64_t now_ms)
{
	count(w, COUNT_UNRUNNABLE);
	if (breaker_open(w->board, now_ms))
		log_error("breaker_opened", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("handler", w->conf->handler[0]), log_str("at", result->stage),
		    log_str("error", strerror(result->error)));
	w->probing = false;
	settle_hand_back(w, p, false);
}

/* It was executed: whatever it answered, the handler is there. */
static void executed(struct worker *w, bool success)
{
	if (!success && w->conf->breaker.failures > 0)
		return;
	if (breaker_close(w->board))
		log_info("breaker_closed", log_str("queue", w->conf->name), log_str("worker", w->name));
}

static bool unrepresentable(const struct handler_result *result)
{
	return result->end == HANDLER_UNREPRESENTABLE || (result->end == HANDLER_UNRUNNABLE && result->error == E2BIG);
}

/* Told to stop, it may still have come to its end. */
static bool finished_after_stop(const struct worker *w, const struct handler_result *result)
{
	return result->exit_after_stop && result->code >= 0 && w->conf->exit_codes[result->code & 0xff] == CONF_OUTCOME_DONE;
}

static void done(struct worker *w, struct place p, const struct handler_result *result)
{
	tray_set(&w->trays[p.tray], tray_item(w, p), ITEM_DONE);
	if (log_enabled(LOG_LEVEL_DEBUG))
		log_debug("message_done", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("id", message_id(&w->message)), log_int("attempt", w->job.attempt),
		    log_int("duration_ms", result->duration_ms));
}

static void settle(struct worker *w, struct place p, const struct handler_result *result, int64_t now_ms)
{
	enum conf_outcome verdict = outcome_of(w, result);

	if (tray_item(w, p)->lost) {	/* another owns it since: our run is the surplus one */
		move_gone(w, p);
		return;
	}
	if (unrepresentable(result)) {
		settle_escape(w, p, "Unrepresentable",
		    "the message cannot be an argument: it holds a NUL or is too long for input = \"argv\"");
		return;
	}
	if (result->end == HANDLER_UNRUNNABLE) {
		unrunnable(w, p, result, now_ms);
		return;
	}
	if (result->end == HANDLER_STOPPED && !finished_after_stop(w, result)) {
		settle_hand_back(w, p, true);
		return;
	}
	if (result->end == HANDLER_STOPPED)
		verdict = CONF_OUTCOME_DONE;
	executed(w, verdict == CONF_OUTCOME_DONE);
	if (verdict == CONF_OUTCOME_DONE)
		done(w, p, result);
	else
		failed(w, p, result, verdict, now_ms);
}

void settle_result(struct worker *w, struct place p, const struct handler_result *result, int64_t now_ms)
{
	settle(w, p, result, now_ms);
	move_close_tray(w, p.tray);
}
