#ifndef COMMON_HANDLER_REPLIES_H
#define COMMON_HANDLER_REPLIES_H

#include <stdbool.h>

#include "common/conf/conf.h"
#include "common/handler/emit.h"
#include "common/handler/lines.h"
#include "common/handler/output.h"
#include "common/handler/reply.h"

/*
 * The replies of one run of an exec handler, from its reply_fd. All lines are read at once, so the handler never waits.
 * Lines that are no replies go to the log, as its output does.
 */
struct handler_replies {
	const struct conf_queue *conf;
	struct handler_lines lines;
	bool open;			/* the queue has a reply_fd: lines has its memory */
	/* a line was a verb that is not known, or an EMIT of another form, so further lines may not be replies */
	bool lost;
	bool dropping;			/* the rest of a reply that is too long is being skipped */
	bool any;			/* a verdict has come */
	bool replaced;			/* a later verdict has replaced one in this run: the log has a line about it */
	struct handler_reply verdict;	/* if any: the last one; its class and reason are these */
	char class[HANDLER_CLASS_MAX], reason[HANDLER_REASON_SHOWN];
	bool alive;			/* a sign of life has come that handler_replies_alive() has not returned */
	bool progressed;		/* the same of `progress` and handler_replies_progress() */
	struct handler_reply progress;
	char progress_text[HANDLER_REASON_SHOWN];
	struct handler_emissions *emitted;	/* NULL: nothing */
	struct handler_intake intake;
};

void handler_replies_init(struct handler_replies *r, const struct conf_queue *conf);
void handler_replies_free(struct handler_replies *r);

/* takes fd, which never blocks; -1: this run has none */
void handler_replies_begin(struct handler_replies *r, int fd);
void handler_replies_read(struct handler_replies *r, struct handler_output *o);		/* one read */
/* No process of the run is left: reads the rest of the pipe, and closes it. The last line needs no newline. */
void handler_replies_end(struct handler_replies *r, struct handler_output *o);

const struct handler_reply *handler_replies_verdict(const struct handler_replies *r);	/* NULL: none */

bool handler_replies_alive(struct handler_replies *r);		/* a sign of life has come since the last call */
/* the last PROGRESS since the last call; NULL: none */
const struct handler_reply *handler_replies_progress(struct handler_replies *r);

#endif
