#ifndef COMMON_HANDLER_PERSISTENT_STATE_H
#define COMMON_HANDLER_PERSISTENT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/handler/env.h"
#include "common/handler/output.h"
#include "common/handler/persistent.h"
#include "common/handler/persistent_answered.h"
#include "common/handler/persistent_input.h"
#include "common/handler/lines.h"
#include "common/handler/persistent_window.h"
#include "common/handler/process.h"
#include "common/message/message.h"

#define ODD_LINE_MAX 63			/* bytes */

/*
 * Shared by the three files persistent.c, persistent_answers.c and persistent_life.c, each of which writes its own
 * part. Other files include common/handler/persistent.h only. All of it is about the current process.
 */
struct persistent_oldest {			/* the oldest unanswered job: persistent.c */
	int64_t since_ms;
	int64_t forgiven_ms;			/* persistent_forgive() since then */
	int forgiven;				/* so often; 0 to HANDLER_FORGIVEN_MAX */
	int64_t timeout_at_ms;			/* INT64_MAX: no job, or no timeout */
	bool reprieved;				/* past the deadline, but an answer may be in the pipe */
	uint64_t stderr_mark;			/* stderr_total when it became the oldest */
};

struct persistent_answers {			/* answers of the process: persistent_answers.c */
	struct message shown;			/* the oldest unanswered message, for the log */
	uint64_t shown_serial;			/* UINT64_MAX: no message is parsed */
	bool ready;				/* it has written READY */
	bool any;				/* also a BEAT, or an answer that is too late */
	bool settled_any;			/* it has answered a job */
	bool dropping;				/* the rest of an answer that is too long is being skipped */
	const char *desync;			/* why it can answer no more, and is killed; NULL: it can */
	int64_t odd_lines;			/* lines that are no answers, where answers are expected */
	char odd_line[ODD_LINE_MAX + 1];	/* the beginning of the last one */
	/* those of them with the form of an answer (handler_reply_is_like()), until persistent_strays() returns them */
	int64_t strays;
	char unknown[HANDLER_REASON_SHOWN];	/* the reason of a failure that this file made of an unknown verb */
	struct persistent_answered answered;
	bool progressed;			/* `progress` has come, and persistent_progress() has not returned it */
	struct handler_reply progress;
	char progress_text[HANDLER_REASON_SHOWN];
	struct persistent_said *said;		/* about the job whose words were taken last; NULL: nothing */
	struct handler_emissions *emitted;	/* by the job that was answered last; NULL: nothing */
	struct handler_intake intake;
	char emitter[HANDLER_TOKEN_LEN];	/* intake.open: token of the job whose bytes arrive */
};

struct persistent_life {			/* life and end of the process: persistent_life.c */
	bool drained, recycled;			/* asked to exit */
	bool recycle_waits;			/* the process is kept although it is to be replaced (logged) */
	bool timed_out, cancelled, stopped;
	bool late;				/* it was not READY within start_timeout */
	bool has_read;				/* bytes of a job */
	bool quiet;				/* a poll found no event: a signal may have ended it */
	uint64_t timed_out_serial;
	const char *limit;			/* that it reached; NULL: it has not timed out */
	int64_t exit_by_ms;			/* when it is asked to exit; INT64_MAX: never */
	int64_t looked_ms, reaped_ms;
	int64_t ready_look_ms;			/* not ready: when to check again whether it has begun to read */
	int64_t looked_given;			/* `given` at the last check of its memory */
	int64_t realtime_ms;			/* CLOCK_REALTIME less CLOCK_MONOTONIC */
};

struct persistent {
	const struct conf_queue *conf;
	bool kept;				/* persistent_keep() */
	struct message_keys lines;
	struct handler_env env;
	struct handler_process process;
	/* stdout only with reply_fd; without it, lines that are no reply are passed to it */
	struct handler_output output;
	struct persistent_input input;
	struct handler_lines replies;
	struct token_source tokens;
	struct persistent_window window;
	/* LAST_WORDS: all processes are gone, but answers may be in the pipe */
	enum persistent_state { IDLE, ACTIVE, LAST_WORDS, FINISHED } state;
	int64_t given;				/* number of jobs */
	int64_t now_ms;
	struct persistent_oldest oldest;
	struct persistent_answers answers;
	struct persistent_life life;
};

/* The states follow each other in their order. */
void persistent_enter(struct persistent *p, enum persistent_state state);
/* Sets the time of this turn. */
void persistent_turn(struct persistent *p, int64_t now_ms);
/* Both reset their part for a new process. */
void persistent_answers_begin(struct persistent *p);
void persistent_life_begin(struct persistent *p);

void persistent_oldest_began(struct persistent *p);	/* the time of the oldest unanswered job begins now */
void persistent_oldest_beats(struct persistent *p);	/* its timeout begins anew */
/* true: it gets one more turn after its timeout, and has not had it yet */
bool persistent_oldest_reprieve(struct persistent *p);

/* Lines about the process that are logged from now on carry the oldest unanswered message. */
void persistent_show_oldest(struct persistent *p);
/* Before a job leaves the window: its message may be freed, so a part of a line that it has said is logged now. */
void persistent_answers_hush(struct persistent *p);
/* The handler has said so about the unanswered job i. Once for a job, since the window keeps no LOG of it. Valid until
 * the next call, or the next start. */
const char *persistent_answers_words(struct persistent *p, int i, size_t *len);
void persistent_answers_free(struct persistent *p);

/* The process can answer no more: logs why, a literal, and kills it. */
void persistent_lose_step(struct persistent *p, const char *why);

#endif
