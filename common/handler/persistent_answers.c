/*
 * Takes the output of a persistent handler: decides which descriptors to poll, and which unanswered job each answer
 * settles.
 *
 * A line is an answer only if it has the token of an unanswered job, which no producer can know (token.h). Any other
 * line is output, whatever it looks like: a handler that prints its messages lends them no authority. So bytes that
 * follow a verb of a later version are output, too. Those that follow an EMIT are taken by their number.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/handler/persistent_state.h"

#include "common/base/base.h"
#include "common/log/log.h"

void persistent_answers_free(struct persistent *p)
{
	persistent_window_said_free(p->answers.said);
	p->answers.said = NULL;
	handler_emissions_free(p->answers.emitted);
	p->answers.emitted = NULL;
}

void persistent_answers_begin(struct persistent *p)
{
	persistent_answers_free(p);
	p->answers.any = p->answers.settled_any = p->answers.dropping = p->answers.progressed = false;
	p->answers.ready = false;
	p->answers.intake = (struct handler_intake){0};
	p->answers.desync = NULL;
	p->answers.odd_lines = 0;
	p->answers.odd_line[0] = '\0';
	persistent_answered_clear(&p->answers.answered);
	p->answers.shown_serial = UINT64_MAX;
}

/* NULL: there is none */
static struct message *oldest_message(struct persistent *p)
{
	const struct persistent_job *oldest = p->window.n == 0 ? NULL : persistent_window_at(&p->window, 0);

	if (oldest == NULL)
		return NULL;
	if (oldest->serial != p->answers.shown_serial)
		message_parse(&p->answers.shown, &p->lines, oldest->raw, oldest->raw_len);
	p->answers.shown_serial = oldest->serial;
	return &p->answers.shown;
}

void persistent_show_oldest(struct persistent *p)
{
	handler_process_show(&p->process, oldest_message(p));
}

/*
 * A handler may work on all jobs that it has. So only if it has one, the worker knows whose output it reads; a wrong id
 * would be worse than none.
 */
static void show_speaker(struct persistent *p)
{
	bool alone = p->window.n == 1;

	handler_output_show(&p->output, alone ? persistent_window_at(&p->window, 0)->serial : HANDLER_SPEAKER_UNKNOWN,
	    alone ? oldest_message(p) : NULL);
}

void persistent_answers_hush(struct persistent *p)
{
	handler_output_show(&p->output, HANDLER_SPEAKER_UNKNOWN, NULL);
}

/* ---- descriptors ---- */

static size_t add_pollfd(struct pollfd *fds, size_t n, int fd, short events)
{
	if (fd == -1)
		return n;
	fds[n] = (struct pollfd){ .fd = fd, .events = events };
	return n + 1;
}

/* stdin is polled without an event, to learn that the handler has closed it. */
size_t persistent_pollfds(const struct persistent *p, struct pollfd *fds)
{
	size_t n = 0;

	for (size_t i = nitems(p->output.streams); i-- > 0;)
		n = add_pollfd(fds, n, p->output.streams[i].fd, POLLIN);
	if (handler_lines_room(&p->replies))
		n = add_pollfd(fds, n, p->replies.fd, POLLIN);
	if (p->process.phase == HANDLER_RUNNING)
		n = add_pollfd(fds, n, p->input.fd, persistent_input_pending(&p->input) > 0 ? POLLOUT : 0);
	return n;
}

/*
 * A handler writes what it says about a job before the answer, but on another descriptor. So the output is read between
 * the moment in which the answers are read, and that in which they count.
 */
static bool read_answers(struct persistent *p)
{
	if (!handler_lines_read(&p->replies))
		return false;
	if (p->window.n > 0 && handler_output_pending(&p->output)) {
		show_speaker(p);
		handler_output_catch_up(&p->output);
	}
	return true;
}

static void take_event(struct persistent *p, const struct pollfd *event)
{
	if (event->fd == p->replies.fd) {
		read_answers(p);
	} else if (event->fd == p->input.fd) {
		if ((event->revents & POLLERR) != 0)
			persistent_input_close(&p->input, false);
		persistent_input_flush(&p->input);
	} else {
		show_speaker(p);
		for (size_t i = 0; i < nitems(p->output.streams); i++)
			if (event->fd == p->output.streams[i].fd)
				handler_output_read(&p->output, &p->output.streams[i]);
	}
}

void persistent_io(struct persistent *p, const struct pollfd *fds, size_t n, int64_t now_ms)
{
	persistent_turn(p, now_ms);
	for (size_t i = 0; i < n; i++) {
		if (fds[i].revents == 0 || fds[i].fd == -1)
			continue;
		take_event(p, &fds[i]);
	}
}

bool persistent_read(struct persistent *p, int64_t now_ms)
{
	persistent_turn(p, now_ms);
	return read_answers(p);
}

/* ---- answers ---- */

void persistent_lose_step(struct persistent *p, const char *why)
{
	persistent_show_oldest(p);
	log_error("handler_desync", log_str("error", why));
	p->answers.desync = why;
	if (p->process.phase == HANDLER_RUNNING)
		handler_process_terminate(&p->process, p->now_ms);
}

static void keep_progress(struct persistent *p, const struct handler_reply *r)
{
	p->answers.progressed = true;
	handler_reply_copy(&p->answers.progress, r, p->answers.progress_text);
}

static void take_sign_of_life(struct persistent *p, int i, const struct handler_reply *r)
{
	if (i == 0 && !p->life.timed_out)
		persistent_oldest_beats(p);
	if (r->verb == VERB_PROGRESS)
		keep_progress(p, r);
}

/* The only output whose job is known while others are unanswered. */
static void take_log(struct persistent *p, int i, const struct handler_reply *r)
{
	struct persistent_job *job = persistent_window_at(&p->window, i);
	struct message m;

	if (p->output.tail_max > 0)
		persistent_window_say(job, p->output.stderr_total, r->reason, r->reason_len, p->output.tail_max);
	message_parse(&m, &p->lines, job->raw, job->raw_len);
	persistent_answers_hush(p);
	handler_output_say(&p->output, job->serial, &m, r->reason, r->reason_len);
	persistent_answers_hush(p);
}

const struct handler_reply *persistent_progress(struct persistent *p)
{
	bool progressed = p->answers.progressed;

	p->answers.progressed = false;
	return progressed ? &p->answers.progress : NULL;
}

int64_t persistent_strays(struct persistent *p)
{
	int64_t strays = p->answers.strays;

	p->answers.strays = 0;
	return strays;
}

/*
 * The tail has all that a job has said as long as no other one, and none that is not known, speaks between: stderr,
 * too. Else only the lines of LOG are certain.
 */
const char *persistent_answers_words(struct persistent *p, int i, size_t *len)
{
	struct persistent_job *job = persistent_window_at(&p->window, i);

	if (job->said == NULL || handler_output_has_all(&p->output, job->serial, job->said->since))
		return handler_output_tail_of(&p->output, job->serial, len);
	persistent_window_said_free(p->answers.said);
	p->answers.said = persistent_window_take_said(job);
	return persistent_window_said(p->answers.said, p->output.tail_max, len);
}

static void fill_in(struct persistent *p, int i, struct handler_reply *r)
{
	r->duration_ms = p->now_ms - (i == 0 ? p->oldest.since_ms : persistent_window_at(&p->window, i)->given_ms);
	r->stderr_tail = NULL;
	r->stderr_len = 0;
	if (r->verb == VERB_OK)
		return;
	r->stderr_tail = persistent_answers_words(p, i, &r->stderr_len);
}

static struct handler_emissions *take_emitted(struct persistent_job *job)
{
	struct handler_emissions *emitted = job->emitted;

	job->emitted = NULL;
	return emitted;
}

/* Job i is answered. False: too late, since it has timed out. */
static bool take_answer(struct persistent *p, int i, struct handler_reply *r)
{
	struct persistent_job *job = persistent_window_at(&p->window, i);

	if (p->life.timed_out && job->serial == p->life.timed_out_serial)
		return false;
	persistent_answers_free(p);
	fill_in(p, i, r);
	if (r->verb == VERB_OK)
		r->emitted = p->answers.emitted = take_emitted(job);
	persistent_answers_hush(p);
	if (job->end == p->input.total)
		/* the handler answered before it had read all of the job; all earlier frames are copied already */
		persistent_input_own(&p->input);
	persistent_answered_add(&p->answers.answered, &job->token, job->raw, job->raw_len);
	persistent_window_remove(&p->window, i);
	p->answers.settled_any = true;
	if (i == 0)
		persistent_oldest_began(p);
	return true;
}

/*
 * The line has the form of an answer, and the token of no unanswered job. True: it has the token of a job that was
 * answered. What is no verdict is ignored then, since a thread of the handler may send it.
 */
static bool take_repeated(struct persistent *p, const struct handler_reply *r, bool verdict, const char *line,
    size_t len)
{
	struct answered_job *job = persistent_answered_find(&p->answers.answered, r->token);
	struct message m;

	if (job == NULL || (job->repeat_logged && verdict))
		return false;
	if (!verdict) {
		if (r->verb != VERB_EMIT)
			return true;
		memcpy(p->answers.emitter, r->token, HANDLER_TOKEN_LEN);
		handler_emit_skip(&p->answers.intake, r);	/* its bytes must not be taken for lines */
		if (job->emit_logged)
			return true;
	}
	*(verdict ? &job->repeat_logged : &job->emit_logged) = true;
	log_warning(verdict ? "handler_answered_twice" : "handler_emit_lost",
	    log_str("id", persistent_answered_id(job, &p->lines, &m)),
	    log_bytes("line", line, len));
	return true;
}

/* Behind a line of another form the reader goes on with lines: without a token they are output. */
static void take_emission(struct persistent *p, struct persistent_job *job, const struct handler_reply *r)
{
	memcpy(p->answers.emitter, r->token, HANDLER_TOKEN_LEN);
	handler_emit_begin(&job->emitted, &p->answers.intake, p->conf, r);
}

/* False: there are none yet. */
static bool take_bytes(struct persistent *p)
{
	int i = persistent_window_find(&p->window, p->answers.emitter);
	const char *bytes;
	size_t len = handler_lines_bytes(&p->replies, &bytes);
	bool broken = false;

	if (len > 0)
		handler_lines_skip(&p->replies, handler_emit_take(&p->answers.intake,
		    i == -1 ? NULL : persistent_window_at(&p->window, i)->emitted, bytes, len, &broken));
	if (broken)		/* what stands in place of the newline begins no line */
		handler_lines_continue(&p->replies);
	return len > 0;
}

enum line_fate { LINE_ANSWERS, LINE_DROPPED, LINE_IS_OUTPUT };	/* ANSWERS: the caller of persistent_reply() gets it */

/* Only the first one means something. */
static enum line_fate take_ready(struct persistent *p)
{
	bool known = p->answers.ready;

	if (p->process.phase != HANDLER_RUNNING)	/* it is being ended, so it comes too late */
		return LINE_DROPPED;
	p->answers.ready = true;
	if (!known && p->conf->ready)
		log_info("handler_ready", log_int("load_ms", p->now_ms - p->process.started_ms));
	return known ? LINE_IS_OUTPUT : LINE_DROPPED;
}

/* is: REPLY or UNKNOWN */
static enum line_fate take_reply(struct persistent *p, enum handler_line is, struct handler_reply *out,
    const char *line, size_t len)
{
	int i = persistent_window_find(&p->window, out->token);
	bool verdict = is == HANDLER_LINE_UNKNOWN || handler_verb_is_verdict(out->verb);

	if (i == -1)
		return take_repeated(p, out, verdict, line, len) ? LINE_DROPPED : LINE_IS_OUTPUT;
	if (is == HANDLER_LINE_UNKNOWN && !handler_has_reply_fd(p->conf) && !handler_line_emits(line, len))
		return LINE_IS_OUTPUT;
	if (p->answers.desync != NULL)
		return LINE_DROPPED;
	p->answers.any = true;
	out->serial = persistent_window_at(&p->window, i)->serial;
	if (is == HANDLER_LINE_UNKNOWN)
		handler_reply_unknown(out, p->conf, line, len, p->answers.unknown);
	if (verdict)
		return take_answer(p, i, out) ? LINE_ANSWERS : LINE_DROPPED;
	if (out->verb == VERB_EMIT)
		take_emission(p, persistent_window_at(&p->window, i), out);
	else if (out->verb == VERB_LOG)
		take_log(p, i, out);
	else
		take_sign_of_life(p, i, out);
	return LINE_DROPPED;
}

/* Without a serial it is of the only job that is unanswered; else nobody knows whose it is. */
static void lose_emission(struct persistent *p, const char *line, size_t len)
{
	if (p->window.n == 1 && !handler_reply_is_like(line, len))
		handler_emit_lose(&persistent_window_at(&p->window, 0)->emitted, line, len);
	else
		log_warning("handler_emit_lost", log_bytes("line", line, len));
}

static void note_odd_line(struct persistent *p, const char *line, size_t len)
{
	size_t n = len < ODD_LINE_MAX ? len : ODD_LINE_MAX;

	if (p->conf->emit.targets != NULL && handler_line_emits(line, len))
		lose_emission(p, line, len);
	p->answers.odd_lines++;
	p->answers.strays += handler_reply_is_like(line, len);
	for (size_t i = 0; i < n; i++)
		p->answers.odd_line[i] = line[i] < ' ' || line[i] > '~' ? '?' : line[i];
	p->answers.odd_line[n] = '\0';
}

void persistent_describe_silence(const struct persistent_end *e, char *out, size_t size)
{
	if (e->odd_lines == 0)
		snprintf(out, size, "is its output flushed?");
	else
		snprintf(out, size, "it wrote %lld %s `%s`%s", (long long)e->odd_lines,
		    e->odd_lines == 1 ? "line that is no answer:" : "lines that are no answers, the last one",
		    e->odd_line, handler_reply_mistake(e->odd_line, strlen(e->odd_line)));
}

static void take_output(struct persistent *p, const char *data, size_t len)
{
	show_speaker(p);
	handler_output_take(&p->output, &p->output.streams[handler_has_reply_fd(p->conf) ? HANDLER_STREAM_REPLY
	    : HANDLER_STREAM_STDOUT], data, len);
}

static bool take_line(struct persistent *p, enum handler_lines_part kind, const char *line, size_t len,
    struct handler_reply *out)
{
	bool first = kind == HANDLER_LINES_WHOLE || kind == HANDLER_LINES_BEGIN;
	bool newline = kind == HANDLER_LINES_WHOLE || kind == HANDLER_LINES_END;
	enum handler_line is = first ? handler_reply_parse(out, p->conf, line, len) : HANDLER_LINE_OUTPUT;
	enum line_fate fate;

	if (is == HANDLER_LINE_REPLY && !newline)
		out->length = -1;	/* of an EMIT: where its bytes begin is not known */
	fate = is == HANDLER_LINE_OUTPUT ? LINE_IS_OUTPUT : is == HANDLER_LINE_READY ? take_ready(p)
	    : take_reply(p, is, out, line, len);

	if (first)
		p->answers.dropping = fate != LINE_IS_OUTPUT && !newline;
	if (first && fate == LINE_IS_OUTPUT)
		note_odd_line(p, line, len);
	if (fate == LINE_IS_OUTPUT && !p->answers.dropping)
		take_output(p, line, len + newline);
	return fate == LINE_ANSWERS;
}

static void finish_output(struct persistent *p)
{
	const char *rest;
	size_t len = handler_lines_rest(&p->replies, &rest);

	if (len > 0 && !p->answers.dropping)
		take_output(p, rest, len);
	show_speaker(p);
	handler_output_end(&p->output);
	handler_lines_close(&p->replies);
	persistent_enter(p, FINISHED);
}

/* False: there is none in what was read. */
static bool take_read(struct persistent *p, struct handler_reply *out)
{
	enum handler_lines_part kind;
	const char *line;
	size_t len;

	for (;;) {
		while (p->answers.intake.open)
			if (!take_bytes(p))
				return false;
		if ((kind = handler_lines_next(&p->replies, &line, &len)) == HANDLER_LINES_NONE)
			return false;
		if (take_line(p, kind, line, len, out))
			return true;
	}
}

bool persistent_reply(struct persistent *p, struct handler_reply *out)
{
	do
		if (take_read(p, out))
			return true;
	while (p->state == LAST_WORDS && read_answers(p));
	if (p->state == LAST_WORDS)
		finish_output(p);
	return false;
}
