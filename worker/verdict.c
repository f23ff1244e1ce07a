/*
 * Translates the end of a handler into a verdict about its message: done, a failure with its class and text, or a
 * hand-back. The input is an exit status, a signal, a timeout, or the error that prevented the start. settle.c decides
 * what follows from a verdict. A run whose claim was lost changes nothing in Redis, whatever its end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "worker/worker.h"

#include "common/base/base.h"
#include "common/dead_letters/dead_letters.h"
#include "common/handler/handler.h"

#define FIRST_MOMENT_MS 1000	/* in which interpreters, env and shells say that they cannot start a handler */

struct handler_result verdict_result(const struct persistent_end *e)
{
	return (struct handler_result){
		.end = e->how == PERSISTENT_TIMED_OUT ? HANDLER_TIMED_OUT : e->signal != 0 ? HANDLER_SIGNALED
		    : HANDLER_EXITED,
		.code = e->code, .signal = e->signal, .duration_ms = e->duration_ms, .limit = e->limit,
		.stderr_tail = e->stderr_tail, .stderr_len = e->stderr_len,
	};
}

/* Why this program ended the process; NULL: it did not, or for no reason of the process. */
static const char *end_reason(const struct persistent_end *e)
{
	static const char *const reasons[] = {
		[PERSISTENT_TIMED_OUT] = "timeout", [PERSISTENT_LATE] = "start_timeout",
		[PERSISTENT_CANCELLED] = "cancelled", [PERSISTENT_DESYNC] = NULL,
	};

	return reasons[e->how];
}

struct noted_flaw {
	const char *program;
	struct buffer text;
};

static void note_first_flaw(void *arg, const struct conf_flaw *flaw)
{
	struct noted_flaw *noted = arg;
	bool is_program = strcmp(flaw->path, noted->program) == 0;

	if (noted->text.len == 0)
		buffer_format(&noted->text, "%s%s%s", is_program ? "" : flaw->path, is_program ? "" : ": ", flaw->text);
}

/* The error of the start names neither the interpreter nor the directory that is closed: quredisd -t does. */
static void note_flaw(struct worker *w, const char *stage, int error, int64_t now_ms)
{
	struct noted_flaw noted = { w->env->conf->handler[0], {0} };
	bool names_file = strcmp(stage, "execve") == 0 || strcmp(stage, "script") == 0;

	if (error != E2BIG && (error != ENOENT || !names_file))
		conf_program_check(w->env->conf, CONF_INHERITS_THIS, note_first_flaw, &noted);
	slot_note_failure(w->env->slot, noted.text.len > 0 ? noted.text.data : "", noted.text.len, now_ms);
	buffer_free(&noted.text);
}

bool verdict_is_broken(const struct persistent_end *e)
{
	return e->how == PERSISTENT_UNRUNNABLE || (!e->answered_any && !e->asked && e->how != PERSISTENT_STOPPED &&
	    e->how != PERSISTENT_CANCELLED && !e->read_any);
}

bool verdict_is_mute(const struct worker *w, const struct persistent_end *e)
{
	return e->read_any && !e->answered_any && !e->asked &&
	    (e->how == PERSISTENT_EXITED || e->how == PERSISTENT_SIGNALED || e->how == PERSISTENT_DESYNC) &&
	    !breaker_knows_answers(w->env->board, worker_generation(w));
}

void verdict_note_end(struct worker *w, const struct persistent_end *e, int64_t now_ms)
{
	struct log_field status = e->code >= 0 ? log_int("exit", e->code) : log_str("exit", NULL);

	log_event(e->asked || e->how == PERSISTENT_STOPPED || e->how == PERSISTENT_CANCELLED ? LOG_LEVEL_DEBUG
	    : LOG_LEVEL_WARNING, "handler_ended",
	    log_str("signal", e->signal != 0 ? process_signal_name(e->signal) : NULL), status,
	    log_str("reason", end_reason(e)), log_int("unanswered", e->unanswered),
	    log_int("lived_ms", e->lived_ms));
	if (e->how == PERSISTENT_UNRUNNABLE)
		note_flaw(w, e->stage, e->error, now_ms);
	else if (verdict_is_broken(e) || verdict_is_mute(w, e))
		settle_last_words(w, e->stderr_tail, e->stderr_len, now_ms);
	if (verdict_is_broken(e) && !e->loaded)
		loader_failed(w, e, now_ms);
	else if (e->how == PERSISTENT_UNRUNNABLE)
		settle_unrunnable(w, handler_cause_unrunnable(e->stage, e->error), e->stage, strerror(e->error),
		    now_ms);
	else if (verdict_is_broken(e) && w->env->conf->ready && e->unanswered == 0)
		loader_lost(w, e, now_ms);
	else if (verdict_is_broken(e))
		settle_unrunnable(w, handler_cause_mute(e->code, e->signal), "answer",
		    "it ended before its first answer", now_ms);
	else if (verdict_is_mute(w, e))
		settle_mute(w, handler_cause_mute(e->code, e->signal), e->lived_ms, now_ms);
}

/* The last line that the handler wrote to stderr becomes the error_message of the record. */
static void append_last_line(struct failure *f, const struct handler_result *result)
{
	size_t n = strlen(f->text);

	f->words_len = buffer_last_line(result->stderr_tail, result->stderr_len, &f->words);
	if (f->words_len > 0)
		snprintf(f->text + n, sizeof(f->text) - n, ": %.*s", (int)f->words_len, f->words);
}

static void describe_end(struct failure *f, int signal, int code)
{
	if (signal != 0) {
		f->class = "HandlerSignal";
		snprintf(f->text, sizeof(f->text), "killed by %s", process_signal_name(signal));
	} else {
		f->class = f->verdict == CONF_OUTCOME_ESCAPE ? "Rejected" : "HandlerExit";
		snprintf(f->text, sizeof(f->text), "exit status %d", code);
	}
}

void verdict_describe(struct failure *f, const struct handler_result *result)
{
	f->result = result;
	if (result->end == HANDLER_TIMED_OUT) {
		f->class = "HandlerTimeout";
		snprintf(f->text, sizeof(f->text), "timed out after %lld ms%s", (long long)result->duration_ms,
		    result->limit == NULL ? "" : result->limit);
	} else {
		describe_end(f, result->signal, result->code);
	}
	append_last_line(f, result);
}

/* The message ran in a process of its own, whose end the handler tells. Without a reason the last line of stderr is the
 * reason. */
static void describe_told_end(struct failure *f, const struct handler_reply *r)
{
	size_t n;

	describe_end(f, r->signal, r->code);
	if (r->reason_len == 0) {
		append_last_line(f, f->result);
		return;
	}
	n = strlen(f->text);
	f->words = r->reason;
	f->words_len = r->reason_len < HANDLER_REASON_SHOWN ? r->reason_len : HANDLER_REASON_SHOWN;
	snprintf(f->text + n, sizeof(f->text) - n, ": %.*s", (int)f->words_len, f->words);
}

void verdict_of_reply(struct failure *f, const struct handler_reply *r)
{
	static const struct {
		enum conf_outcome outcome;
		const char *class;
	} of[VERBS] = {
		[VERB_RETRY] = { CONF_OUTCOME_RETRY, FAILED_RETRY },
		[VERB_FAIL] = { CONF_OUTCOME_FAIL, "HandlerFail" },
		[VERB_REJECT] = { CONF_OUTCOME_ESCAPE, "Rejected" },
		[VERB_HOLD] = { CONF_OUTCOME_RETRY, FAILED_RETRY },
	};

	f->verdict = of[r->verb].outcome;
	f->class = of[r->verb].class;
	f->delay_ms = r->delay_ms;
	f->hold = r->verb == VERB_HOLD;
	if (r->ended) {
		describe_told_end(f, r);
		return;
	}
	snprintf(f->named, sizeof(f->named), "%.*s", (int)r->class_len, r->class_len > 0 ? r->class : "");
	if (f->named[0] != '\0' && !dead_letters_class_is_own(f->named) && strcmp(f->named, FAILED_RETRY) != 0)
		f->class = f->named;
	handler_reply_describe(r, f->text, sizeof(f->text));
	f->verb_len = r->reason_len > 0 ? strlen(handler_verb_names[r->verb]) + strlen(": ") : 0;
	f->words = r->reason;
	f->words_len = r->reason_len;
}

/* The message is done, and its handler emitted what r tells. */
static void settle_emission(struct worker *w, struct place p, const struct handler_result *r, int64_t now_ms)
{
	struct failure f = { .verdict = CONF_OUTCOME_FAIL, .class = emit_refused, .delay_ms = -1, .result = r };

	if (emit_is_allowed(w, p, r->emitted, &f.words)) {
		settle_emitted(w, p, r);
		return;
	}
	f.words_len = strlen(f.words);
	strlcpy(f.text, f.words, sizeof(f.text));
	settle_failed(w, p, &f, now_ms);
}

/* The handler keeps what was emitted until its next message, which may never come. */
static void drop_emitted(const struct handler_result *r)
{
	if (r->emitted != NULL)
		handler_emissions_free(handler_emissions_take(r->emitted));
}

static void settle_reply(struct worker *w, struct place p, const struct handler_reply *r, int64_t now_ms)
{
	struct handler_result result = { .end = HANDLER_EXITED, .code = r->ended ? r->code : -1,
		.signal = r->ended ? r->signal : 0, .duration_ms = r->duration_ms,
		.stderr_tail = r->stderr_tail, .stderr_len = r->stderr_len, .emitted = r->emitted };
	struct failure f = { .result = &result };

	if (r->verb == VERB_OK) {
		settle_emission(w, p, &result, now_ms);
		drop_emitted(&result);
	} else {
		verdict_of_reply(&f, r);
		settle_failed(w, p, &f, now_ms);
	}
}

/* Most answers are done and emit nothing. */
void verdict_of_answer(struct worker *w, struct place p, const struct handler_reply *r, int64_t now_ms)
{
	if (r->verb == VERB_OK && r->emitted == NULL)
		settle_done(w, p, r->duration_ms);
	else
		settle_reply(w, p, r, now_ms);
}

static enum conf_outcome outcome_of(const struct worker *w, const struct handler_result *result)
{
	if (result->end == HANDLER_EXITED && result->code >= 0)
		return w->env->conf->exit_codes[result->code & 0xff];
	return CONF_OUTCOME_FAIL;
}

/* A handler that was ordered to stop may still have finished its message: its exit status then means done. */
static bool finished_after_stop(const struct worker *w, const struct handler_result *result)
{
	return result->exit_after_stop && result->code >= 0 &&
	    w->env->conf->exit_codes[result->code & 0xff] == CONF_OUTCOME_DONE;
}

/* The handler exited by itself, so its last reply decides, whatever the exit status. Without a reason the last line of
 * stderr is the reason. */
static void settle_replied(struct worker *w, struct place p, const struct handler_result *result, int64_t now_ms)
{
	struct failure f = { .result = result };

	verdict_of_reply(&f, result->verdict);
	if (f.words_len == 0)
		append_last_line(&f, result);
	settle_failed(w, p, &f, now_ms);
}

static void settle_failed_run(struct worker *w, struct place p, const struct handler_result *result, int64_t now_ms)
{
	struct failure f = { .verdict = outcome_of(w, result), .delay_ms = -1 };

	if (result->end == HANDLER_TIMED_OUT)
		atomic_fetch_add(&w->env->slot->counters[COUNT_TIMED_OUT], 1);
	verdict_describe(&f, result);
	settle_failed(w, p, &f, now_ms);
}

bool verdict_is_due(struct worker *w, struct handler_result *result, int64_t now_ms)
{
	bool failed = result->end == HANDLER_EXITED && result->verdict == NULL &&
	    outcome_of(w, result) == CONF_OUTCOME_FAIL;
	enum exit_cause cause = EXIT_ITS_OWN;

	if (failed || result->end == HANDLER_SIGNALED)
		cause = exit_judge_end(&w->exit, result->signal, result->code, now_ms);
	if (cause == EXIT_OF_STOP)
		result->end = HANDLER_STOPPED;
	return cause != EXIT_UNDECIDED;
}

static void keep_first_flaw(void *arg, const struct conf_flaw *flaw)
{
	struct buffer *kept = arg;

	if (kept->len == 0)
		buffer_format(kept, "%s: %s", flaw->path, flaw->text);
}

/* The message has ended so before, and since then the handler has answered others: its files are not the cause. */
static bool is_cause_itself(struct worker *w, struct place p)
{
	return message_is_suspect(&tray_message(&w->trays, p)->wrapper) &&
	    breaker_knows_answers(w->env->board, worker_generation(w));
}

/*
 * Interpreters, env and shells exit soon, each with statuses of its own, if they cannot find, read or execute a
 * program; a handler may do it for a reason of its message. If the files of the handler look broken at this moment, as
 * quredisd -t judges them, another message has to show which of the two it is.
 */
static bool cannot_start(struct worker *w, struct place p, const struct handler_result *result, struct buffer *why)
{
	if (!is_cause_itself(w, p) && result->end == HANDLER_EXITED && result->duration_ms <= FIRST_MOMENT_MS &&
	    outcome_of(w, result) == CONF_OUTCOME_FAIL)
		conf_program_check(w->env->conf, CONF_INHERITS_THIS, keep_first_flaw, why);
	return why->len > 0;
}

/* As a handler that stays and ends without an answer: a part of it may have run, and the next probe takes another
 * message. */
static void settle_broken(struct worker *w, struct place p, const struct handler_result *result,
    const struct buffer *why, int64_t now_ms)
{
	slot_note_failure(w->env->slot, why->data, why->len, now_ms);
	breaker_doubt(w->env->board);
	settle_mute(w, handler_cause_mute(result->code, 0), result->duration_ms, now_ms);
	settle_hand_back(w, p, SETTLE_LAST);
}

void verdict_of_exec(struct worker *w, struct place p, const struct handler_result *result, int64_t now_ms)
{
	struct buffer why = {0};

	if (tray_item(&w->trays, p)->lost) {	/* another worker owns the message now, so this was the surplus run */
		mover_gone(w, p);
	} else if (result->end == HANDLER_CANCELLED) {
		cancel_settle(w, p, result);
	} else if (result->end == HANDLER_UNREPRESENTABLE) {
		settle_escape(w, p, "Unrepresentable",
		    "the message cannot be an argument: it holds a NUL or is too long for input = \"argv\"", NULL);
	} else if (result->end == HANDLER_UNRUNNABLE) {
		note_flaw(w, result->stage, result->error, now_ms);
		settle_unrunnable(w, handler_cause_unrunnable(result->stage, result->error), result->stage,
		    strerror(result->error), now_ms);
		settle_hand_back(w, p, SETTLE_AS_IT_WAS);
	} else if (result->end == HANDLER_STOPPED && !finished_after_stop(w, result)) {
		settle_hand_back(w, p, SETTLE_REDELIVERED);
	} else if (result->end == HANDLER_EXITED && result->verdict != NULL) {
		settle_replied(w, p, result, now_ms);
	} else if (result->end == HANDLER_STOPPED || outcome_of(w, result) == CONF_OUTCOME_DONE) {
		if (result->emitted == NULL)
			settle_done(w, p, result->duration_ms);
		else
			settle_emission(w, p, result, now_ms);
	} else if (cannot_start(w, p, result, &why)) {
		settle_broken(w, p, result, &why, now_ms);
	} else {
		settle_failed_run(w, p, result, now_ms);
	}
	buffer_free(&why);
	drop_emitted(result);
	tray_close(&w->trays, p.tray);
}
