#ifndef WORKER_EXPIRY_H
#define WORKER_EXPIRY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/redis/redis.h"

#include "worker/tray.h"

struct worker;

/* Owner: expiry.c. The last request for the time of Redis, compared with the fillings of trays, and its answer. */
struct expiry {
	bool asking;			/* the question is unanswered: no message starts */
	int64_t sent_ms;		/* CLOCK_BOOTTIME when the question was sent */
	uint64_t asked_serial;		/* serial of the last message before the question */
	uint64_t known_serial;		/* serial of the last message before the last question that was answered */
	bool agrees;			/* the last answer agreed with the server clock on the scoreboard */
};

/*
 * true: the message that starter_describe() described last does not start. It has expired and escapes, or (asking) the
 * worker must wait for the time of Redis.
 */
bool expiry_holds(struct worker *w, struct place p, int64_t now_ms);
void expiry_lost(struct worker *w);
void expiry_time_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);

#endif
