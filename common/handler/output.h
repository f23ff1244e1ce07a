#ifndef COMMON_HANDLER_OUTPUT_H
#define COMMON_HANDLER_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/log.h"
#include "common/message/message.h"

/*
 * Reads the output of a handler: it always drains stdout and stderr, logs them line by line, at most so many lines a
 * second, and keeps the last bytes of stderr.
 */
#define HANDLER_OUTPUT_BURST 1000	/* lines logged at once */
#define HANDLER_OUTPUT_RATE 200		/* and lines a second after that, for each worker */
#define HANDLER_OUTPUT_RESUME 100	/* lines that must be free again before logging goes on */

/* REPLY: lines from a reply_fd that are not replies. This struct does not own its descriptor */
enum { HANDLER_STREAM_STDOUT, HANDLER_STREAM_STDERR, HANDLER_STREAM_REPLY, HANDLER_STREAMS };

#define HANDLER_SPEAKER_UNKNOWN UINT64_MAX	/* as a serial: several jobs or none can have said it */

struct handler_stream {
	const char *name;
	int fd;				/* -1: closed */
	char line[LOG_VALUE_MAX];	/* a line without its end yet; a longer line is logged in pieces */
	size_t len;
};

struct handler_output {
	struct handler_stream streams[HANDLER_STREAMS];
	char *tail;				/* 2 * tail_max bytes, so that its contents rarely move */
	size_t tail_len, tail_max;
	uint64_t stderr_total;			/* bytes ever */
	uint64_t speaker;			/* serial of the job that says what is read now */
	uint64_t tail_speaker, tail_since;	/* of the end of the tail, and stderr_total when it began */
	int64_t credit;				/* thousandths of a line; <= 1000 * HANDLER_OUTPUT_BURST */
	int64_t credited_ms;
	int64_t dropped;			/* lines not logged since the last report */
	uint64_t dropped_speaker;		/* dropped > 0: of the first one */
	char dropped_id[MESSAGE_ID_MAX + 1];	/* the same; "": none, or another speaker lost lines, too */
	bool lent;				/* the caller owns the descriptors, and closes them */
	struct message *message;	/* for the log; NULL: none. Must live while anything is read */
};

void handler_output_init(struct handler_output *o, int64_t tail_max);
void handler_output_free(struct handler_output *o);

/* From now on the caller owns the descriptors, and closes them. */
void handler_output_lend(struct handler_output *o);
/*
 * From now on the job `speaker` says what is read, and log lines name its message, which must live until the next call.
 * SPEAKER_UNKNOWN, NULL: it is not known which job. A line without its end is logged before.
 */
void handler_output_show(struct handler_output *o, uint64_t speaker, struct message *message);
/* Takes the descriptors (non-blocking, close-on-exec); -1: none. */
void handler_output_begin(struct handler_output *o, int out, int err, struct message *message, int64_t now_ms);
/* Reads the available bytes, but at most a bounded number, so that a flood cannot keep it busy. */
void handler_output_read(struct handler_output *o, struct handler_stream *s);
bool handler_output_pending(const struct handler_output *o);	/* there is something to read */
void handler_output_catch_up(struct handler_output *o);		/* reads all that was written before the call */
void handler_output_credit(struct handler_output *o, int64_t now_ms);
/* Takes a piece of the output of a stream that did not come from its descriptor. */
void handler_output_take(struct handler_output *o, struct handler_stream *s, const char *data, size_t len);
/* Takes a line without its newline as if `speaker` had written it to stderr. */
void handler_output_say(struct handler_output *o, uint64_t speaker, struct message *message, const char *line,
    size_t len);
/* Reads the rest of the pipes, logs lines without an end and the number of dropped lines, and closes the
 * descriptors. */
void handler_output_end(struct handler_output *o);

const char *handler_output_tail(const struct handler_output *o, size_t *len);
/* The same, but only bytes that came after stderr_total was `mark`. */
const char *handler_output_tail_since(const struct handler_output *o, uint64_t mark, size_t *len);
/* All that came since stderr_total was `mark` is of this job. */
bool handler_output_has_all(const struct handler_output *o, uint64_t speaker, uint64_t mark);
/* The job has said so last; empty if another one may have spoken since. */
const char *handler_output_tail_of(const struct handler_output *o, uint64_t speaker, size_t *len);

#endif
