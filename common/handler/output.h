#ifndef COMMON_HANDLER_OUTPUT_H
#define COMMON_HANDLER_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/log.h"
#include "common/message/message.h"

/*
 * What a handler says: stdout and stderr, always drained, into the log line by line, at most so many
 * lines a second; and the last bytes of stderr.
 */
#define HANDLER_OUTPUT_BURST 1000	/* lines logged at once */
#define HANDLER_OUTPUT_RATE 200		/* and a second after that, per worker */
#define HANDLER_OUTPUT_RESUME 100	/* lines that must be free again before logging goes on */

/* REPLY: what came on a reply_fd and was no reply; its descriptor is another's */
enum { HANDLER_STREAM_STDOUT, HANDLER_STREAM_STDERR, HANDLER_STREAM_REPLY, HANDLER_STREAMS };

struct handler_stream {
	const char *name;
	int fd;				/* -1: closed */
	char line[LOG_VALUE_MAX];	/* not ended yet; a longer one is logged in pieces */
	size_t len;
};

struct handler_output {
	struct handler_stream streams[HANDLER_STREAMS];
	char *tail;				/* twice tail_max, so that it moves seldom */
	size_t tail_len, tail_max;
	uint64_t stderr_total;			/* bytes ever */
	int64_t credit;				/* thousandths of a line; <= 1000 * HANDLER_OUTPUT_BURST */
	int64_t credited_ms;
	int64_t dropped;			/* lines not logged since the last report */
	bool lent;				/* the descriptors are not ours to close */
	struct message *message;	/* for the log; NULL: none. Must live while anything is read */
};

void handler_output_init(struct handler_output *o, int64_t tail_max);
void handler_output_free(struct handler_output *o);

/* From now on the descriptors are the caller's to close. */
void handler_output_lend(struct handler_output *o);
/* The message that log lines name; NULL: none. It must live until the next call. */
void handler_output_show(struct handler_output *o, struct message *message);
/* Takes the descriptors (non-blocking, close-on-exec); -1: none. */
void handler_output_begin(struct handler_output *o, int out, int err, struct message *message, int64_t now_ms);
/* Reads what is there, but not for ever: a bounded part of a flood. */
void handler_output_read(struct handler_output *o, struct handler_stream *s);
void handler_output_credit(struct handler_output *o, int64_t now_ms);
/* A piece of what a stream says that came by another way than its descriptor. */
void handler_output_take(struct handler_output *o, struct handler_stream *s, const char *data, size_t len);
/* What is left in the pipes, lines without an end, what was dropped. Closes. */
void handler_output_end(struct handler_output *o);

const char *handler_output_tail(const struct handler_output *o, size_t *len);
/* The same, but nothing that came before stderr_total was `mark`. */
const char *handler_output_tail_since(const struct handler_output *o, uint64_t mark, size_t *len);

#endif
