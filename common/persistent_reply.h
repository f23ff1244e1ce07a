#ifndef COMMON_PERSISTENT_REPLY_H
#define COMMON_PERSISTENT_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum persistent_verdict { PERSISTENT_OK, PERSISTENT_RETRY, PERSISTENT_FAIL, PERSISTENT_BEAT };

/* One answer of a handler that stays. Views are valid until the next call with its struct persistent. */
struct persistent_reply {
	uint64_t serial;
	enum persistent_verdict verdict;
	int64_t delay_ms;		/* RETRY; -1: none given */
	const char *reason;		/* RETRY, FAIL: any bytes but a newline */
	size_t reason_len;		/* 0: none given */
	/* not of the line: */
	int64_t duration_ms;		/* since the job became the oldest unanswered one, or, in another order, was given */
	const char *stderr_tail;	/* RETRY, FAIL: what stderr said meanwhile, at most conf->stderr_tail bytes of it */
	size_t stderr_len;
};

/*
 * A line without its newline: "OK n", "BEAT n", "RETRY n [delay] [reason]", "FAIL n [reason]". A delay is a duration
 * ("5s", "250ms") or plain seconds, capped at a year. False, and *out is undefined: it is none of these.
 */
bool persistent_reply_parse(struct persistent_reply *out, const char *line, size_t len);

#endif
