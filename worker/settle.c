/*
 * What becomes of a message once its handler ended (or may not run), and the move that makes it so.
 * A move whose answer did not come is held: sent again on the next connection, the handler not run
 * again, nothing else fetched meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "worker/worker.h"

#include "common/backoff.h"
#include "common/clock.h"
#include "common/process.h"

#define ERROR_BASE_MS 100
#define ERROR_CAP_MS 10000
#define KEPT_MAX (256 * 1024)	/* memory of a message that stays with its tray */

static void count(struct worker *w, enum counter c)
{
	atomic_fetch_add(&w->slot->counters[c], 1);
}

/* ---- which move ---- */

static void choose(struct worker *w, int tray, enum move move)
{
	struct tray *t = &w->trays[tray];

	t->state = TRAY_SETTLING;
	t->move = move;
	t->sent = false;
	w->settle_at_ms = 0;
}

static void wrap_instead(struct tray *t, const struct wrapper *wrapper)
{
	buffer_clear(&t->instead);
	message_wrap(&t->instead, &t->message, wrapper);
}

void settle_hand_back(struct worker *w, int tray, bool started)
{
	struct tray *t = &w->trays[tray];
	struct wrapper wrapper = t->message.wrapper;

	if (started || wrapper.mark_ms != 0) {
		wrapper.redelivered += started;
		/* A mark proves its age only where it was written (docs/design.md): here it becomes this message's own. */
		if (wrapper.own_ms == 0)
			wrapper.own_ms = wrapper.mark_ms;
		wrapper.mark_ms = 0;
		wrap_instead(t, &wrapper);
	} else {
		buffer_clear(&t->instead);
		buffer_append(&t->instead, t->raw.data, t->raw.len);
	}
	choose(w, tray, MOVE_HAND_BACK);
}

static void fill_record(struct worker *w, struct tray *t, const char *class, const struct handler_result *result)
{
	const struct wrapper *wrapper = &t->message.wrapper;
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

void settle_escape(struct worker *w, int tray, const char *class, const char *message)
{
	struct tray *t = &w->trays[tray];

	snprintf(t->error_message, sizeof(t->error_message), "%s", message);
	fill_record(w, t, class, NULL);
	choose(w, tray, MOVE_ESCAPE);
}

static void retry(struct worker *w, int tray)
{
	const struct conf_backoff *b = &w->conf->backoff;
	struct tray *t = &w->trays[tray];
	struct wrapper wrapper = t->message.wrapper;

	wrapper.attempts++;
	wrapper.own_ms = wrapper.mark_ms = 0;	/* it queues like everyone: its wait begins anew */
	if (wrapper.first_failed_ms == 0)
		wrapper.first_failed_ms = clock_realtime_ms();
	wrap_instead(t, &wrapper);
	t->delay_ms = backoff_ms(b->base_ms, b->factor, b->cap_ms, b->jitter, (unsigned)wrapper.attempts, arc4random());
	choose(w, tray, MOVE_RETRY);
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

static const char *describe(struct tray *t, const struct handler_result *result, enum conf_outcome outcome)
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

static void log_outcome(const struct worker *w, const struct tray *t, const char *class, const struct handler_result *result)
{
	const char *event = t->move == MOVE_ESCAPE ? "message_escaped" : "message_retried";

	log_info(event, log_str("queue", w->conf->name), log_str("worker", w->name), log_str("id", t->message.id),
	    log_int("attempt", w->job.attempt), log_str("class", class), log_int("exit", result->code),
	    log_int("duration_ms", result->duration_ms), log_str("error", t->error_message));
}

static void failed(struct worker *w, int tray, const struct handler_result *result, enum conf_outcome outcome, int64_t now_ms)
{
	struct tray *t = &w->trays[tray];
	const char *class = describe(t, result, outcome);

	count(w, COUNT_FAILED);
	if (result->end == HANDLER_TIMED_OUT)
		count(w, COUNT_TIMED_OUT);
	if (outcome == CONF_OUTCOME_FAIL &&
	    breaker_failed(w->board, breaker_message_id(&t->message), w->conf->breaker.failures, now_ms))
		log_error("breaker_opened", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("handler", w->conf->handler[0]), log_str("error", t->error_message));
	if (outcome == CONF_OUTCOME_RETRY || (outcome == CONF_OUTCOME_FAIL && w->job.attempt < w->job.max_attempts)) {
		retry(w, tray);
	} else {
		fill_record(w, t, class, result);
		choose(w, tray, MOVE_ESCAPE);
	}
	log_outcome(w, t, class, result);
}

static void unrunnable(struct worker *w, int tray, const struct handler_result *result, int64_t now_ms)
{
	count(w, COUNT_UNRUNNABLE);
	if (breaker_open(w->board, now_ms))
		log_error("breaker_opened", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("handler", w->conf->handler[0]), log_str("at", result->stage),
		    log_str("error", strerror(result->error)));
	settle_hand_back(w, tray, false);
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

static void done(struct worker *w, int tray, const struct handler_result *result)
{
	choose(w, tray, MOVE_DONE);
	if (log_enabled(LOG_LEVEL_DEBUG))
		log_debug("message_done", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("id", w->trays[tray].message.id), log_int("attempt", w->job.attempt),
		    log_int("duration_ms", result->duration_ms));
}

void settle_result(struct worker *w, int tray, const struct handler_result *result, int64_t now_ms)
{
	enum conf_outcome outcome = outcome_of(w, result);

	if (w->trays[tray].lost) {	/* another owns it since: our run is the surplus one */
		settle_empty(w, tray);
		return;
	}
	if (unrepresentable(result)) {
		settle_escape(w, tray, "Unrepresentable",
		    "the message cannot be an argument: it holds a NUL or is too long for input = \"argv\"");
		return;
	}
	if (result->end == HANDLER_UNRUNNABLE) {
		unrunnable(w, tray, result, now_ms);
		return;
	}
	if (result->end == HANDLER_STOPPED && !finished_after_stop(w, result)) {
		settle_hand_back(w, tray, true);
		return;
	}
	if (result->end == HANDLER_STOPPED)
		outcome = CONF_OUTCOME_DONE;
	executed(w, outcome == CONF_OUTCOME_DONE);
	if (outcome == CONF_OUTCOME_DONE)
		done(w, tray, result);
	else
		failed(w, tray, result, outcome, now_ms);
}

/* ---- making it so ---- */

static void send_move(struct worker *w, int i)
{
	struct tray *t = &w->trays[i];

	switch (t->move) {
	case MOVE_DONE:
		queue_done(&w->redis, &w->owner, i);
		break;
	case MOVE_RETRY:
		queue_retry(&w->redis, &w->owner, i, &t->message, &t->instead, t->delay_ms);
		break;
	case MOVE_ESCAPE:
		queue_escape(&w->redis, &w->keys, w->owner.lease, w->owner.lease_ms, w->owner.trays[i], -1, &t->message,
		    w->conf->dead_letter.enabled ? &t->record : NULL);
		break;
	case MOVE_HAND_BACK:
		queue_hand_back(&w->redis, &w->owner, i, &t->message, &t->instead);
		break;
	}
	t->sent = true;
}

void settle_tick(struct worker *w, int64_t now_ms)
{
	if (w->redis.state != REDIS_READY || !w->registered || now_ms < w->settle_at_ms)
		return;
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		if (w->trays[i].state != TRAY_SETTLING || w->trays[i].sent)
			continue;
		send_move(w, i);
		session_expect(w, ANSWER_SETTLE, i, now_ms + REDIS_TIMEOUT_MS);
	}
}

static void count_settled(struct worker *w, const struct tray *t)
{
	static const enum counter counters[] = { [MOVE_DONE] = COUNT_DONE, [MOVE_RETRY] = COUNT_RETRIED,
		[MOVE_ESCAPE] = COUNT_ESCAPED, [MOVE_HAND_BACK] = COUNT_HANDED_BACK };

	count(w, counters[t->move]);
	if (t->move != MOVE_HAND_BACK)
		atomic_fetch_add(&w->board->workers_done, 1);
}

void settle_empty(struct worker *w, int tray)
{
	struct tray *t = &w->trays[tray];

	t->state = TRAY_EMPTY;
	t->lost = t->sent = false;
	if (t->raw.cap > KEPT_MAX)
		buffer_free(&t->raw);
	if (t->instead.cap > KEPT_MAX)
		buffer_free(&t->instead);
}

void settle_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms)
{
	struct tray *t = &w->trays[tray];

	if (reply->type != REDIS_INTEGER) {
		session_trouble(w, "settle", reply);
		t->sent = false;
		if (w->order == ORDER_HAND_BACK && (t->move == MOVE_RETRY || t->move == MOVE_ESCAPE)) {
			settle_hand_back(w, tray, true);	/* there is no time to wait until it is mended */
			return;
		}
		w->settle_errors++;
		w->settle_at_ms = now_ms + backoff_ms(ERROR_BASE_MS, 2, ERROR_CAP_MS, 0.5, w->settle_errors, arc4random());
		return;
	}
	w->settle_errors = 0;
	session_fair(w);
	if (reply->integer == 0) {
		count(w, COUNT_CLAIM_LOST);
		log_warning("claim_lost", log_str("queue", w->conf->name), log_str("worker", w->name),
		    log_str("id", t->message.id));
		session_renew_incarnation(w, "a message of ours was no longer there");
	} else {
		count_settled(w, t);
		if (reply->integer == 2 && t->move == MOVE_ESCAPE)
			log_warning("record_failed", log_str("queue", w->conf->name), log_str("id", t->message.id),
			    log_str("error", "the stream of records could not be written: check the type of its key"));
	}
	settle_empty(w, tray);
}

int64_t settle_deadline_ms(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].state == TRAY_SETTLING && !w->trays[i].sent && w->registered)
			return w->settle_at_ms;
	return INT64_MAX;
}
