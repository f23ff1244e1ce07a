#ifndef COMMON_HANDLER_PERSISTENT_STATE_H
#define COMMON_HANDLER_PERSISTENT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/handler/env.h"
#include "common/handler/output.h"
#include "common/handler/persistent.h"
#include "common/handler/persistent_input.h"
#include "common/handler/persistent_lines.h"
#include "common/handler/persistent_window.h"
#include "common/handler/process.h"
#include "common/message/message.h"

/*
 * Shared by the three files persistent.c, persistent_answers.c and persistent_life.c. Other files include
 * common/handler/persistent.h only.
 */
struct persistent {
	const struct conf_queue *conf;
	struct message_keys lines;
	struct handler_env env;
	struct handler_process process;
	struct handler_output output;		/* stdout only with reply_fd; without it, lines that are no reply are passed to it */
	struct persistent_input input;
	struct persistent_lines replies;
	struct persistent_window window;
	struct message shown;			/* the oldest unanswered message, for the log */
	uint64_t shown_serial;			/* UINT64_MAX: no message is parsed */

	/* of the current process */
	enum { IDLE, ACTIVE, LAST_WORDS, FINISHED } state;	/* LAST_WORDS: all processes are gone, but answers may be in the pipe */
	bool drained, recycled;			/* asked to exit */
	bool timed_out, stopped, desync;
	bool reprieved;				/* past the deadline, but an answer may be in the pipe */
	bool dropping;				/* the rest of an answer that is too long is being skipped */
	bool answered_any;
	bool ready;				/* it has read or answered: see persistent_ready() */
	bool quiet;				/* a poll found no event: a signal may have ended it */
	uint64_t timed_out_serial;
	int64_t given;				/* number of jobs */
	int64_t now_ms;
	int64_t oldest_since_ms;
	int64_t timeout_at_ms;			/* of the oldest unanswered job; INT64_MAX: none, or no timeout */
	int64_t exit_by_ms;			/* when it is asked to exit; INT64_MAX: never */
	int64_t looked_ms, reaped_ms;
	int64_t ready_look_ms;			/* !ready: when to check again whether it has begun to read */
	int64_t looked_given;			/* `given` at the last check of its memory */
	int64_t realtime_ms;			/* CLOCK_REALTIME less CLOCK_MONOTONIC */
	uint64_t stderr_mark;			/* stderr_total when the oldest became the oldest, or a little before */
	uint64_t stderr_before;			/* stderr_total before the last io */
};

bool persistent_has_reply_fd(const struct persistent *p);

/*
 * The time of the oldest unanswered job begins now. If it was given earlier, lines on stderr about it may have arrived in this
 * turn already.
 */
void persistent_oldest_began(struct persistent *p, uint64_t stderr_mark);

/* Lines that are logged from now on carry the oldest unanswered message. */
void persistent_show_oldest(struct persistent *p);

/* Its answers cannot be trusted any more: logs why, and kills it. */
void persistent_lose_step(struct persistent *p, const char *why, const char *line, size_t len);

#endif
