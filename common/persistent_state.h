#ifndef COMMON_PERSISTENT_STATE_H
#define COMMON_PERSISTENT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/handler_env.h"
#include "common/handler_output.h"
#include "common/handler_process.h"
#include "common/message.h"
#include "common/persistent.h"
#include "common/persistent_input.h"
#include "common/persistent_lines.h"
#include "common/persistent_window.h"

/* What the three files of it share; others see common/persistent.h only. */
struct persistent {
	const struct conf_queue *conf;
	struct message_keys lines;
	char *worker;
	struct handler_env env;
	struct handler_process process;
	struct handler_output output;		/* stdout only with reply_fd; else what is no reply is handed to it */
	struct persistent_input input;
	struct persistent_lines replies;
	struct persistent_window window;
	struct message shown;			/* the oldest unanswered, for the log */
	uint64_t shown_serial;			/* UINT64_MAX: none is parsed */

	/* of the current process */
	enum { IDLE, ACTIVE, LAST_WORDS, FINISHED } state;	/* LAST_WORDS: nothing of it is left but answers in the pipe */
	bool drained, recycled;			/* told to go */
	bool timed_out, stopped, desync;
	bool reprieved;				/* past the deadline, but an answer may be in the pipe */
	bool dropping;				/* the rest of an answer too long */
	bool answered_any;
	bool ready;				/* it has read or answered: see persistent_ready() */
	bool quiet;				/* a poll found nothing: a signal may have ended it */
	uint64_t timed_out_serial;
	int64_t given;				/* jobs */
	int64_t now_ms;
	int64_t oldest_since_ms;
	int64_t timeout_at_ms;			/* of the oldest; INT64_MAX: none, or never */
	int64_t exit_by_ms;			/* else it is told to; INT64_MAX: may stay */
	int64_t looked_ms, reaped_ms;
	int64_t ready_look_ms;			/* !ready: when to look again whether it reads */
	int64_t looked_given;			/* `given` at that look */
	int64_t realtime_ms;			/* CLOCK_REALTIME less CLOCK_MONOTONIC */
	uint64_t stderr_mark;			/* what stderr had said when the oldest became that, or a little before */
	uint64_t stderr_before;			/* before the last io */
};

bool persistent_has_reply_fd(const struct persistent *p);

/* Its time counts from now. Of one that was there before, stderr may have spoken in this turn already. */
void persistent_oldest_began(struct persistent *p, uint64_t stderr_mark);

/* Whatever is logged now is about the oldest one. */
void persistent_show_oldest(struct persistent *p);

/* It can be trusted with nothing any more. */
void persistent_lose_step(struct persistent *p, const char *why, const char *line, size_t len);

#endif
