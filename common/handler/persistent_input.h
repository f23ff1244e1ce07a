#ifndef COMMON_HANDLER_PERSISTENT_INPUT_H
#define COMMON_HANDLER_PERSISTENT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/handler/handler.h"
#include "common/handler/token.h"

/*
 * The standard input of a persistent handler: frames are appended to one buffer, and persistent_input_flush() writes
 * them. A large payload is not copied, but written from the message. It is the last frame until it is written.
 */
struct persistent_input {
	int fd;				/* owned, never blocks; -1: closed */
	struct buffer out;
	size_t at;			/* out.data[at..] is unwritten */
	const char *large;		/* a payload that follows; NULL: none. Not owned */
	size_t large_len;		/* unwritten bytes of it; then a newline follows */
	uint64_t total;			/* bytes of all frames so far */
	/* how many of them the handler has read, or may have read; known once it is closed */
	uint64_t taken;
};

void persistent_input_init(struct persistent_input *in);
void persistent_input_free(struct persistent_input *in);
void persistent_input_begin(struct persistent_input *in, int fd);	/* drops the rest of another process */

/* deadline_ms since 1970; -1: no deadline. The job's message must live until it is written or owned. No large payload
 * may be unwritten. */
void persistent_input_add(struct persistent_input *in, const struct token *token, const struct handler_job *job,
    int64_t deadline_ms);
/* Copies the unwritten rest of a large payload, so that the message can be freed before the frame is complete. */
void persistent_input_own(struct persistent_input *in);
size_t persistent_input_pending(const struct persistent_input *in);	/* bytes not written */

/* the process has read some of the written bytes */
bool persistent_input_is_read(const struct persistent_input *in);

/* Takes back the frames from byte `begin` on, of which nothing was written. */
void persistent_input_recall(struct persistent_input *in, uint64_t begin);

/* One write. False: the handler has closed its input; then this end is closed, too. */
bool persistent_input_flush(struct persistent_input *in);

/*
 * all: every written byte counts as read, since the handler goes on reading. Otherwise no process can read any more,
 * and what is left in the pipe counts as unread.
 */
void persistent_input_close(struct persistent_input *in, bool all);

#endif
