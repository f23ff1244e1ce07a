#ifndef COMMON_HANDLER_PERSISTENT_REPLY_H
#define COMMON_HANDLER_PERSISTENT_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum persistent_verdict { PERSISTENT_OK, PERSISTENT_RETRY, PERSISTENT_FAIL, PERSISTENT_BEAT };

/* One answer of a persistent handler. Views are valid until the next call with its struct persistent. */
struct persistent_reply {
	uint64_t serial;
	enum persistent_verdict verdict;
	int64_t delay_ms;		/* RETRY; -1: no delay given */
	const char *reason;		/* RETRY, FAIL: any bytes except a newline */
	size_t reason_len;		/* 0: no reason given */
	/* not from the line: */
	int64_t duration_ms;		/* since the job became the oldest unanswered one; if another job is answered, since it was given */
	const char *stderr_tail;	/* RETRY, FAIL: the output on stderr in that time, at most conf->stderr_tail bytes of it */
	size_t stderr_len;
};

/*
 * Parses a line without its newline: "OK n", "BEAT n", "RETRY n [delay] [reason]", "FAIL n [reason]". A delay is a duration
 * ("5s", "250ms") or plain seconds, capped at a year. False, with *out undefined: the line is none of these.
 */
bool persistent_reply_parse(struct persistent_reply *out, const char *line, size_t len);

#endif
