#ifndef WORKER_TOO_LARGE_H
#define WORKER_TOO_LARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/redis/redis.h"

#include "worker/tray.h"

struct worker;

/* Owner: too_large.c. The tray that holds a message longer than message_max. */
struct too_large {
	int tray;			/* -1: no such message is known */
	int64_t seen;			/* its length, if the worker saw that it begins with no wrapper; 0: not known */
	bool unknown_seal;		/* the move under way is of a message whose wrapper cannot be verified */
	unsigned refusals;		/* how often Redis refused to move it to escape */
};

void too_large_init(struct too_large *l);
bool too_large_arriving(struct worker *w);		/* true: close the connection, because the message under way is too long */
bool too_large_send(struct worker *w, int64_t now_ms);	/* right after a renewal. False: no message has to be moved first */
bool too_large_answer(struct worker *w, const struct redis_reply *reply, int64_t now_ms);	/* true: the trays can be read now */
bool too_large_escapes(struct worker *w, struct place p);	/* true: the message that starter_describe() described last escapes */

#endif
