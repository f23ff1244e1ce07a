#ifndef TESTS_FUZZ_FAKE_PROCESS_H
#define TESTS_FUZZ_FAKE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "tests/fuzz/input.h"

/*
 * common/handler/process.h without a process: the handler is the input. It has the pipes that a process would
 * have, and reads, says, closes and ends what and when the input tells.
 */
struct fake_process {
	bool started;			/* and not gone */
	bool ended;			/* its leader did */
	bool cleared;			/* and all that it left */
	bool deaf;			/* to TERM */
	bool orphan;			/* somebody keeps its ends open when it has ended */
	int status;			/* as waitpid would say */
	int in, out, err, reply;	/* its ends; -1: closed. reply: what answers are written to: out, or the reply_fd */
	uint64_t read;			/* bytes of its input so far */
	struct buffer frames;		/* these bytes */
	struct buffer said;		/* all it has written to reply */
};

/* There is one at a time. */
const struct fake_process *fake_process_look(void);
void fake_process_begin(void);
void fake_process_act(struct input *in);	/* one thing, as the input says */
void fake_process_end(int status);				/* its leader ends, and so do its ends of pipes */
void fake_process_finish(void);					/* nothing is open or allocated any more */

#endif
