#ifndef COMMON_HANDLER_PERSISTENT_WINDOW_H
#define COMMON_HANDLER_PERSISTENT_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/handler/emit.h"
#include "common/handler/token.h"

/* The handler has said this about a job by LOG. It is for the record. */
struct persistent_said {
	uint64_t since;			/* stderr_total of the output when it began */
	struct buffer text;
};

/* Jobs that were given to a persistent handler and are unanswered: oldest first, with increasing serials. */
struct persistent_job {
	uint64_t serial;
	struct token token;
	const char *raw;		/* the message as it lies in Redis; not owned */
	size_t raw_len;
	int64_t timeout_ms;		/* -1: no timeout */
	int64_t given_ms;
	uint64_t begin, end;		/* position of its frame in all bytes ever written to this process */
	struct persistent_said *said;	/* NULL: nothing, as of most jobs; else owned by the window */
	struct handler_emissions *emitted;	/* the same */
};

struct persistent_window {
	struct persistent_job *jobs;	/* room for twice the window, so that they are rarely moved to the front */
	int cap, first, n;
};

void persistent_window_init(struct persistent_window *w, int window);
void persistent_window_free(struct persistent_window *w);
void persistent_window_clear(struct persistent_window *w);

/* Requires room for another job, and a serial above all earlier ones. */
void persistent_window_add(struct persistent_window *w, const struct persistent_job *job);
struct persistent_job *persistent_window_at(const struct persistent_window *w, int i);	/* index 0: the oldest; i < n */
/* the index of the job; -1: not in the window */
int persistent_window_find(const struct persistent_window *w, const char *token);
/* A caller that keeps what was said about the job, or what it emitted, takes it out of it before. */
void persistent_window_remove(struct persistent_window *w, int i);
void persistent_window_cut(struct persistent_window *w, int n);		/* keeps the n oldest jobs only */

/* Adds a line without its newline to what was said about the job, of which it keeps at least the last `max` bytes, and
 * not much more than twice as many. */
void persistent_window_say(struct persistent_job *job, uint64_t since, const char *line, size_t len, size_t max);
/* the last `max` bytes */
const char *persistent_window_said(const struct persistent_said *said, size_t max, size_t *len);
struct persistent_said *persistent_window_take_said(struct persistent_job *job);	/* now the caller owns it */
void persistent_window_said_free(struct persistent_said *said);	/* may be NULL */

#endif
