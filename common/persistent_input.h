#ifndef COMMON_PERSISTENT_INPUT_H
#define COMMON_PERSISTENT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/handler.h"

/*
 * A handler's standard input: frames, appended to one buffer and written when it is flushed. A large payload is
 * not copied, but written from where it lies; it is the last then until it is written.
 */
struct persistent_input {
	int fd;				/* owned, never blocks; -1: closed */
	struct buffer out;
	size_t at;			/* out.data[at..] is to be written */
	const char *large;		/* behind that; NULL: none. Not owned */
	size_t large_len;		/* what is left of it; then comes a newline */
	uint64_t total;			/* bytes of all frames so far */
	uint64_t taken;			/* of them the handler read so many, or may have: known once it is closed */
};

void persistent_input_init(struct persistent_input *in);
void persistent_input_free(struct persistent_input *in);
void persistent_input_begin(struct persistent_input *in, int fd);	/* what was left of another is dropped */

/* deadline_ms since 1970; -1: none. The job's message must live until it is written or owned. Nothing large may be pending. */
void persistent_input_add(struct persistent_input *in, uint64_t serial, const struct handler_job *job, int64_t deadline_ms);
/* Copies the unwritten rest of a large payload, so that the message can be freed before the frame is complete. */
void persistent_input_own(struct persistent_input *in);
size_t persistent_input_pending(const struct persistent_input *in);	/* bytes not written */

bool persistent_input_is_read(const struct persistent_input *in);	/* the process has read some of the bytes that were written */

/* Frames from byte `begin` of all on were not begun to be written: they never were there. */
void persistent_input_recall(struct persistent_input *in, uint64_t begin);

/* One write. False: the handler has closed it (then it is closed here, too). */
bool persistent_input_flush(struct persistent_input *in);

/* all: whatever was written counts as read, since the handler goes on reading. Else nobody can any more. */
void persistent_input_close(struct persistent_input *in, bool all);

#endif
