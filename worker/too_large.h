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

void too_large_init(struct worker *w);
bool too_large_arriving(struct worker *w);	/* true: the message under way is too long */
/* Both read the trays, unless a message has to be moved out of one first. */
void too_large_named(struct worker *w);
void too_large_confirmed(struct worker *w);
void too_large_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);
/* true: the message that starter_describe() described last escapes */
bool too_large_escapes(struct worker *w, struct place p);

#endif
