#ifndef COMMON_HANDLER_REPLY_H
#define COMMON_HANDLER_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf/conf.h"

/*
 * The lines with which handlers of both modes reply (quredis-handler(7), REPLIES). reply.c has the table of verbs. A persistent
 * handler names a job by its serial, after the verb; an exec handler has only one job, and no serial.
 */
enum handler_verb { VERB_OK, VERB_RETRY, VERB_FAIL, VERB_REJECT, VERB_BEAT, VERB_PROGRESS, VERBS };
extern const char *const handler_verb_names[VERBS];	/* "OK", … */

#define HANDLER_CLASS_MAX 64
#define HANDLER_REASON_SHOWN 200	/* bytes of a reason in a record, the log, or a trial */

/* The handler's reply to one job. Its pointers are valid until the next call with the struct persistent or handler that returned it. */
struct handler_reply {
	uint64_t serial;		/* 0 in exec mode */
	enum handler_verb verb;
	int percent;			/* PROGRESS: 0 to 100 */
	int64_t delay_ms;		/* RETRY; -1: no delay given */
	const char *class;		/* the error class that the handler names, class_len bytes, all of them allowed */
	size_t class_len;		/* 0: none, at most HANDLER_CLASS_MAX */
	const char *reason;		/* RETRY, FAIL, REJECT, PROGRESS: any bytes except a newline */
	size_t reason_len;		/* 0: no reason given */
	/* not from the line: */
	int64_t duration_ms;		/* since the job became the oldest unanswered one; if another job is answered, since it was given */
	const char *stderr_tail;	/* RETRY, FAIL, REJECT: the output on stderr in that time, at most conf->stderr_tail bytes of it */
	size_t stderr_len;
};

enum handler_line {
	HANDLER_LINE_OUTPUT,		/* no reply */
	HANDLER_LINE_REPLY,
	HANDLER_LINE_UNKNOWN		/* a word in capital letters where a verb stands, but no verb of this mode. What follows it is not known */
};

/* True: the handler still works. False: this is its verdict. */
static inline bool handler_verb_is_sign_of_life(enum handler_verb verb)
{
	return verb == VERB_BEAT || verb == VERB_PROGRESS;
}

/*
 * Parses a line without its newline. A delay is a duration ("5s", "250ms") or plain seconds, capped at a year. *out is defined
 * only for a REPLY.
 */
enum handler_line handler_reply_parse(struct handler_reply *out, enum conf_mode mode, const char *line, size_t len);

/* The verb of exec handlers that the first word of a line is similar to; NULL: none is. */
const char *handler_reply_nearest(const char *line);
/* Copies a reply with the shown part of its reason into `reason`, of HANDLER_REASON_SHOWN bytes. Other views stay. */
void handler_reply_copy(struct handler_reply *to, const struct handler_reply *r, char *reason);

/* Writes the verb and the shown part of its reason: "FAIL: no such user". A NUL byte in it becomes "?", since it would end the text. */
void handler_reply_describe(const struct handler_reply *r, char *out, size_t size);

#endif
