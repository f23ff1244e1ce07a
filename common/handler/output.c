/*
 * The output of a handler: its lines go to the log, and the end of stderr is kept for the record of a dead letter. The
 * worker always reads all output and limits only what it logs. So a handler that floods is not slowed, and the log says
 * how many lines were left out. The limit lasts beyond a run, so that many short runs are limited like a long one.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "common/handler/output.h"

#define CHUNK 32768
#define READ_MAX (256 * 1024)		/* bytes of one stream in one turn */
#define PIPE_MAX (1024 * 1024)		/* a pipe holds no more, so what comes behind was written later */
#define DRAIN_MAX (4 * PIPE_MAX)	/* more comes from a process that could not be killed */

void handler_output_init(struct handler_output *o, int64_t tail_max)
{
	*o = (struct handler_output){ .tail_max = tail_max > 0 ? (size_t)tail_max : 0,
		.credit = 1000 * HANDLER_OUTPUT_BURST };
	o->streams[HANDLER_STREAM_STDOUT] = (struct handler_stream){ .name = "stdout", .fd = -1 };
	o->streams[HANDLER_STREAM_STDERR] = (struct handler_stream){ .name = "stderr", .fd = -1 };
	o->streams[HANDLER_STREAM_REPLY] = (struct handler_stream){ .name = "reply", .fd = -1 };
	o->tail = alloc_zero(2, o->tail_max);
}

static void close_stream(const struct handler_output *o, struct handler_stream *s)
{
	if (s->fd != -1 && !o->lent)
		close(s->fd);
	s->fd = -1;
}

void handler_output_free(struct handler_output *o)
{
	for (size_t i = 0; i < nitems(o->streams); i++)
		close_stream(o, &o->streams[i]);
	free(o->tail);
}

void handler_output_lend(struct handler_output *o)
{
	o->lent = true;
}

void handler_output_begin(struct handler_output *o, int out, int err, struct message *message, int64_t now_ms)
{
	o->streams[HANDLER_STREAM_STDOUT].fd = out;
	o->streams[HANDLER_STREAM_STDERR].fd = err;
	for (size_t i = 0; i < nitems(o->streams); i++)
		o->streams[i].len = 0;
	o->tail_len = 0;
	o->speaker = o->tail_speaker = HANDLER_SPEAKER_UNKNOWN;
	o->message = message;
	handler_output_credit(o, now_ms);
}

void handler_output_credit(struct handler_output *o, int64_t now_ms)
{
	int64_t passed_ms = now_ms - o->credited_ms, full = 1000 * HANDLER_OUTPUT_BURST;

	o->credited_ms = now_ms;
	if (passed_ms >= full / HANDLER_OUTPUT_RATE || o->credit + passed_ms * HANDLER_OUTPUT_RATE > full)
		o->credit = full;
	else if (passed_ms > 0)
		o->credit += passed_ms * HANDLER_OUTPUT_RATE;
}

/* The id is computed only for lines that are logged. */
static const char *id_of(const struct handler_output *o)
{
	return o->message == NULL ? NULL : message_id(o->message);
}

static const char *traceparent_of(const struct handler_output *o)
{
	return o->message == NULL ? NULL : message_traceparent(o->message);
}

/* The message that lost the lines, which may be answered. A report for each of several would be a flood of its own. */
static void report_dropped(struct handler_output *o)
{
	if (o->dropped > 0)
		log_warning("handler_output_dropped", log_str("id", o->dropped_id[0] == '\0' ? NULL : o->dropped_id),
		    log_int("count", o->dropped));
	o->dropped = 0;
}

static void drop_line(struct handler_output *o)
{
	const char *id = o->dropped > 0 ? NULL : id_of(o);

	if (o->dropped++ == 0) {
		o->dropped_speaker = o->speaker;
		strlcpy(o->dropped_id, id == NULL ? "" : id, sizeof(o->dropped_id));
	} else if (o->dropped_speaker != o->speaker) {
		o->dropped_id[0] = '\0';
	}
}

static bool may_log(struct handler_output *o)
{
	if (o->credit < 1000 * (o->dropped > 0 ? HANDLER_OUTPUT_RESUME : 1)) {
		drop_line(o);
		return false;
	}
	o->credit -= 1000;
	return true;
}

static void emit(struct handler_output *o, const struct handler_stream *s, const char *line, size_t len)
{
	if (!log_enabled(LOG_LEVEL_INFO) || !may_log(o))
		return;
	report_dropped(o);
	log_info("handler_output", log_str("id", id_of(o)), log_str("traceparent", traceparent_of(o)),
	    log_str("stream", s->name), log_bytes("line", line, len));
}

static void emit_part(struct handler_output *o, struct handler_stream *s)
{
	if (s->len > 0)
		emit(o, s, s->line, s->len);
	s->len = 0;
}

void handler_output_show(struct handler_output *o, uint64_t speaker, struct message *message)
{
	if (o->speaker == speaker)
		return;
	for (size_t i = 0; i < nitems(o->streams); i++)
		emit_part(o, &o->streams[i]);
	o->speaker = speaker;
	o->message = message;
}

/* Keeps an unfinished line. If the buffer is full, logs it as it is. */
static void keep_part(struct handler_output *o, struct handler_stream *s, const char *data, size_t len)
{
	while (len > 0) {
		size_t room = sizeof(s->line) - s->len, n = len < room ? len : room;

		memcpy(s->line + s->len, data, n);
		s->len += n;
		data += n;
		len -= n;
		if (len > 0)		/* if the buffer has just become full, the newline may come next */
			emit_part(o, s);
	}
}

void handler_output_take(struct handler_output *o, struct handler_stream *s, const char *data, size_t len)
{
	const char *newline;

	while (len > 0 && (newline = memchr(data, '\n', len)) != NULL) {
		size_t n = (size_t)(newline - data);

		keep_part(o, s, data, n);
		emit(o, s, s->line, s->len);
		s->len = 0;
		data += n + 1;
		len -= n + 1;
	}
	keep_part(o, s, data, len);
}

static void keep_tail(struct handler_output *o, const char *data, size_t len)
{
	if (o->tail_speaker != o->speaker) {
		o->tail_speaker = o->speaker;
		o->tail_since = o->stderr_total;
	}
	o->stderr_total += len;
	if (len > o->tail_max) {
		data += len - o->tail_max;
		len = o->tail_max;
	}
	if (o->tail_len + len > 2 * o->tail_max) {
		memmove(o->tail, o->tail + o->tail_len - o->tail_max, o->tail_max);
		o->tail_len = o->tail_max;
	}
	memcpy(o->tail + o->tail_len, data, len);
	o->tail_len += len;
}

void handler_output_say(struct handler_output *o, uint64_t speaker, struct message *message, const char *line,
    size_t len)
{
	handler_output_show(o, speaker, message);
	emit_part(o, &o->streams[HANDLER_STREAM_STDERR]);
	handler_output_take(o, &o->streams[HANDLER_STREAM_STDERR], line, len);
	handler_output_take(o, &o->streams[HANDLER_STREAM_STDERR], "\n", 1);
	keep_tail(o, line, len);
	keep_tail(o, "\n", 1);
}

/* Returns false if there is no more to read now. */
static bool read_chunk(struct handler_output *o, struct handler_stream *s, size_t *total)
{
	/* not on the stack: there the compiler would touch each page of it for each read, also where nothing comes */
	static char chunk[CHUNK];
	ssize_t n = read(s->fd, chunk, sizeof(chunk));

	if (n == -1 && errno == EINTR)
		return true;
	if (n == 0 || (n == -1 && errno != EAGAIN))
		close_stream(o, s);
	if (n <= 0)
		return false;
	handler_output_take(o, s, chunk, (size_t)n);
	if (s == &o->streams[HANDLER_STREAM_STDERR])
		keep_tail(o, chunk, (size_t)n);
	*total += (size_t)n;
	return true;
}

static void read_up_to(struct handler_output *o, struct handler_stream *s, size_t max)
{
	size_t total = 0;

	while (s->fd != -1 && total < max && read_chunk(o, s, &total))
		;
}

void handler_output_read(struct handler_output *o, struct handler_stream *s)
{
	read_up_to(o, s, READ_MAX);
}

bool handler_output_pending(const struct handler_output *o)
{
	struct pollfd fds[HANDLER_STREAMS];
	nfds_t n = 0;

	for (size_t i = 0; i < nitems(o->streams); i++)
		if (o->streams[i].fd != -1)
			fds[n++] = (struct pollfd){ .fd = o->streams[i].fd, .events = POLLIN };
	return n > 0 && poll(fds, n, 0) > 0;
}

void handler_output_catch_up(struct handler_output *o)
{
	for (size_t i = 0; i < nitems(o->streams); i++)
		read_up_to(o, &o->streams[i], PIPE_MAX);
}

void handler_output_end(struct handler_output *o)
{
	for (size_t i = 0; i < nitems(o->streams); i++) {
		struct handler_stream *s = &o->streams[i];

		read_up_to(o, s, DRAIN_MAX);
		emit_part(o, s);
		close_stream(o, s);
	}
	report_dropped(o);
}

const char *handler_output_tail(const struct handler_output *o, size_t *len)
{
	*len = o->tail_len < o->tail_max ? o->tail_len : o->tail_max;
	return o->tail + o->tail_len - *len;
}

const char *handler_output_tail_since(const struct handler_output *o, uint64_t mark, size_t *len)
{
	const char *tail = handler_output_tail(o, len);
	uint64_t since = o->stderr_total - mark;

	if (since >= *len)
		return tail;
	tail += *len - since;
	*len = (size_t)since;
	return tail;
}

bool handler_output_has_all(const struct handler_output *o, uint64_t speaker, uint64_t mark)
{
	return speaker == o->tail_speaker && o->tail_since <= mark;
}

const char *handler_output_tail_of(const struct handler_output *o, uint64_t speaker, size_t *len)
{
	return handler_output_tail_since(o, speaker == o->tail_speaker ? o->tail_since : o->stderr_total, len);
}
