#ifndef COMMON_HANDLER_REPLY_H
#define COMMON_HANDLER_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf/conf.h"

/*
 * The lines with which handlers of both modes reply (quredis-handler(7), REPLIES). reply.c has the table of verbs. A
 * persistent handler names a job by its token, after the verb; an exec handler has only one job, and no token.
 */
enum handler_verb { VERB_OK, VERB_RETRY, VERB_FAIL, VERB_REJECT, VERB_HOLD, VERB_BEAT, VERB_PROGRESS, VERB_LOG,
	VERB_EMIT, VERBS };
extern const char *const handler_verb_names[VERBS];	/* "OK", … */

#define HANDLER_TOKEN_LEN 16	/* digits of the token of a job (token.h); manuals call it its serial */
#define HANDLER_CLASS_MAX IDENTIFIER_CLASS_MAX
#define HANDLER_REASON_SHOWN 200	/* bytes of a reason in a record, the log, or a trial */

/* The handler's reply to one job. Its pointers are valid until the next call with the struct persistent or handler that
 * returned it. */
struct handler_reply {
	/* HANDLER_TOKEN_LEN bytes, of any value: whether they name a job, persistent.c decides. NULL in exec mode */
	const char *token;
	enum handler_verb verb;
	int percent;			/* PROGRESS: 0 to 100 */
	int64_t delay_ms;		/* RETRY, HOLD, EMIT; -1: no delay given */
	/* the error class that the handler names, class_len bytes, all of them allowed */
	const char *class;
	size_t class_len;		/* 0: none, at most HANDLER_CLASS_MAX */
	/* FAIL: the handler ran the message in a process of its own, and tells how that ended, by a signal or with an
	 * exit status */
	bool ended;
	int signal;			/* ended: 0: by no signal */
	int code;			/* ended: -1: no exit status */
	/* EMIT: the name of a queue, of any form, and the bytes that follow the line, with a newline; -1: the line has
	 * another form, so nobody knows what follows. reason is the line without the verb and the token */
	const char *queue;
	size_t queue_len;
	int64_t length;
	const char *reason;		/* RETRY, FAIL, REJECT, HOLD, PROGRESS, LOG: any bytes except a newline */
	size_t reason_len;		/* 0: no reason given */
	/* not from the line: */
	uint64_t serial;		/* the number by which its owner gave the job; 0 in exec mode */
	/* since the job became the oldest unanswered one; if another job is answered, since it was given */
	int64_t duration_ms;
	/* RETRY, FAIL, REJECT: what this job alone can have said on stderr, at most conf->stderr_tail bytes of it */
	const char *stderr_tail;
	size_t stderr_len;
	struct handler_emissions *emitted;	/* OK: emit.h; NULL: nothing. The caller may take its contents */
};

enum handler_line {
	HANDLER_LINE_OUTPUT,		/* no reply */
	HANDLER_LINE_REPLY,
	HANDLER_LINE_READY,		/* a persistent handler has loaded what it needs, and takes jobs */
	/* A word in capital letters where a verb stands, but no verb of this mode. What follows it is not known; only
	 * the token is defined */
	HANDLER_LINE_UNKNOWN
};

/* The handler still works. */
static inline bool handler_verb_is_sign_of_life(enum handler_verb verb)
{
	return verb == VERB_BEAT || verb == VERB_PROGRESS;
}

static inline bool handler_verb_is_verdict(enum handler_verb verb)
{
	return verb < VERB_BEAT;
}

/* How long a queue is held by a HOLD with this delay; -1: it names none. */
int64_t handler_hold_ms(int64_t delay_ms);

/*
 * Parses a line without its newline. A delay is a duration ("5s", "250ms") or plain seconds, capped at a year. *out is
 * defined only for a REPLY.
 */
enum handler_line handler_reply_parse(struct handler_reply *out, const struct conf_queue *conf, const char *line,
    size_t len);

/* Makes an UNKNOWN line a failure of its job, whose reason names the verbs of this queue and the line. reason:
 * HANDLER_REASON_SHOWN bytes. */
void handler_reply_unknown(struct handler_reply *out, const struct conf_queue *conf, const char *line, size_t len,
    char *reason);
/* A verb and a number: the line may be meant as an answer, or copied from one. */
bool handler_reply_is_like(const char *line, size_t len);
/* Why a line that a persistent handler wrote is no answer, if that is a usual mistake: " (…)"; "": it looks like no
 * answer. */
const char *handler_reply_mistake(const char *line, size_t len);
/* Copies a reply with the shown part of its reason into `reason`, of HANDLER_REASON_SHOWN bytes. Other views stay. */
void handler_reply_copy(struct handler_reply *to, const struct handler_reply *r, char *reason);

/* Writes the verb and the shown part of its reason: "FAIL: no such user". A NUL byte in it becomes "?", since it would
 * end the text. */
void handler_reply_describe(const struct handler_reply *r, char *out, size_t size);

#endif
