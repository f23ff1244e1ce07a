/*
 * Takes the output of a persistent handler: decides which descriptors to poll, and which unanswered job each answer settles. A
 * handler that answers a job it was not given, or whose answers cannot be read any more, is killed: from then on no answer can
 * be trusted.
 */
#include <poll.h>

#include "common/handler/persistent_state.h"

#include "common/base/base.h"
#include "common/log/log.h"

void persistent_answers_begin(struct persistent *p)
{
	p->answers.any = p->answers.settled_any = p->answers.dropping = p->answers.progressed = false;
	p->answers.desync = NULL;
	p->answers.shown_serial = UINT64_MAX;
	p->answers.stderr_before = p->output.stderr_total;
}

void persistent_show_oldest(struct persistent *p)
{
	const struct persistent_job *oldest = p->window.n == 0 ? NULL : persistent_window_at(&p->window, 0);

	handler_output_show(&p->output, oldest == NULL ? NULL : &p->answers.shown);
	handler_process_show(&p->process, oldest == NULL ? NULL : &p->answers.shown);
	if (oldest == NULL || oldest->serial == p->answers.shown_serial)
		return;
	message_parse(&p->answers.shown, &p->lines, oldest->raw, oldest->raw_len);
	p->answers.shown_serial = oldest->serial;
}

/* ---- descriptors ---- */

static size_t add_pollfd(struct pollfd *fds, size_t n, int fd, short events)
{
	if (fd == -1)
		return n;
	fds[n] = (struct pollfd){ .fd = fd, .events = events };
	return n + 1;
}

/*
 * stdin is polled without an event, to learn that the handler has closed it. stderr comes first, so that lines about a job
 * arrive before its answer.
 */
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

static void take_event(struct persistent *p, const struct pollfd *event)
{
	if (event->fd == p->replies.fd) {
		handler_lines_read(&p->replies);
	} else if (event->fd == p->input.fd) {
		if ((event->revents & POLLERR) != 0)
			persistent_input_close(&p->input, false);
		persistent_input_flush(&p->input);
	} else {
		persistent_show_oldest(p);
		for (size_t i = 0; i < nitems(p->output.streams); i++)
			if (event->fd == p->output.streams[i].fd)
				handler_output_read(&p->output, &p->output.streams[i]);
	}
}

void persistent_io(struct persistent *p, const struct pollfd *fds, size_t n, int64_t now_ms)
{
	persistent_turn(p, now_ms);
	p->answers.stderr_before = p->output.stderr_total;
	for (size_t i = 0; i < n; i++) {
		if (fds[i].revents == 0 || fds[i].fd == -1)
			continue;
		take_event(p, &fds[i]);
	}
}

bool persistent_read(struct persistent *p, int64_t now_ms)
{
	persistent_turn(p, now_ms);
	p->answers.stderr_before = p->output.stderr_total;
	return handler_lines_read(&p->replies);
}

/* ---- answers ---- */

void persistent_lose_step(struct persistent *p, const char *why, const char *line, size_t len)
{
	persistent_show_oldest(p);
	log_error("handler_desync", log_str("error", why), log_bytes("line", line, len));
	p->answers.desync = why;
	if (p->process.phase == HANDLER_RUNNING)
		handler_process_terminate(&p->process, p->now_ms);
}

static void heard(struct persistent *p, uint64_t serial)
{
	if (p->window.n > 0 && persistent_window_at(&p->window, 0)->serial == serial && !p->life.timed_out)
		persistent_oldest_beats(p);
}

static void keep_progress(struct persistent *p, const struct handler_reply *r)
{
	p->answers.progressed = true;
	handler_reply_copy(&p->answers.progress, r, p->answers.progress_text);
}

const struct handler_reply *persistent_progress(struct persistent *p)
{
	bool progressed = p->answers.progressed;

	p->answers.progressed = false;
	return progressed ? &p->answers.progress : NULL;
}

static void fill_in(struct persistent *p, int i, struct handler_reply *r)
{
	r->duration_ms = p->now_ms - (i == 0 ? p->oldest.since_ms : persistent_window_at(&p->window, i)->given_ms);
	r->stderr_tail = NULL;
	r->stderr_len = 0;
	if (r->verb == VERB_OK)
		return;
	persistent_show_oldest(p);
	if (p->output.streams[HANDLER_STREAM_STDERR].fd != -1)
		handler_output_read(&p->output, &p->output.streams[HANDLER_STREAM_STDERR]);
	r->stderr_tail = handler_output_tail_since(&p->output, p->oldest.stderr_mark, &r->stderr_len);
}

/* True: the caller gets the answer. A sign of life for a job that is answered already is ignored: a thread of the handler may send it. */
static bool take_reply(struct persistent *p, struct handler_reply *r, const char *line, size_t len)
{
	int i;

	if (p->answers.desync != NULL)
		return false;
	p->answers.any = true;
	i = persistent_window_find(&p->window, r->serial);
	if (handler_verb_is_sign_of_life(r->verb)) {
		heard(p, r->serial);
		if (r->verb == VERB_PROGRESS && i != -1)
			keep_progress(p, r);
		return false;
	}
	if (i == -1) {
		persistent_lose_step(p, "an answer to a job that is not outstanding", line, len);
		return false;
	}
	if (p->life.timed_out && r->serial == p->life.timed_out_serial)
		return false;		/* too late: the job has timed out */
	fill_in(p, i, r);
	if (persistent_window_at(&p->window, i)->end == p->input.total)
		persistent_input_own(&p->input);	/* the handler answered before it had read all of the job; all earlier frames are copied already */
	persistent_window_remove(&p->window, i);
	p->answers.settled_any = true;
	if (i == 0)
		persistent_oldest_began(p, p->window.n == 0 ? p->output.stderr_total : p->answers.stderr_before);
	return true;
}

static void take_output(struct persistent *p, const char *data, size_t len)
{
	persistent_show_oldest(p);
	handler_output_take(&p->output, &p->output.streams[handler_has_reply_fd(p->conf) ? HANDLER_STREAM_REPLY : HANDLER_STREAM_STDOUT], data, len);
}

static bool take_line(struct persistent *p, enum handler_lines_part kind, const char *line, size_t len, struct handler_reply *out)
{
	bool first = kind == HANDLER_LINES_WHOLE || kind == HANDLER_LINES_BEGIN;
	bool newline = kind == HANDLER_LINES_WHOLE || kind == HANDLER_LINES_END;
	enum handler_line is = first ? handler_reply_parse(out, CONF_MODE_PERSISTENT, line, len) : HANDLER_LINE_OUTPUT;

	if (is == HANDLER_LINE_REPLY) {
		p->answers.dropping = !newline;
		return take_reply(p, out, line, len);
	}
	/* Bytes may follow that only a later version could tell from answers. On standard output it is chatter. */
	if (is == HANDLER_LINE_UNKNOWN && handler_has_reply_fd(p->conf) && p->answers.desync == NULL)
		persistent_lose_step(p, "a verb that this version does not know", line, len);
	if (first)
		p->answers.dropping = false;
	if (!p->answers.dropping)
		take_output(p, line, len + newline);
	return false;
}

static void finish_output(struct persistent *p)
{
	const char *rest;
	size_t len = handler_lines_rest(&p->replies, &rest);

	if (len > 0 && !p->answers.dropping)
		take_output(p, rest, len);
	persistent_show_oldest(p);
	handler_output_end(&p->output);
	handler_lines_close(&p->replies);
	persistent_enter(p, FINISHED);
}

bool persistent_reply(struct persistent *p, struct handler_reply *out)
{
	enum handler_lines_part kind;
	const char *line;
	size_t len;

	do {
		while ((kind = handler_lines_next(&p->replies, &line, &len)) != HANDLER_LINES_NONE)
			if (take_line(p, kind, line, len, out))
				return true;
	} while (p->state == LAST_WORDS && handler_lines_read(&p->replies));
	if (p->state == LAST_WORDS)
		finish_output(p);
	return false;
}
