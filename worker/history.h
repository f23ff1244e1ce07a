#ifndef WORKER_HISTORY_H
#define WORKER_HISTORY_H

#include <stdbool.h>

#include "common/queue/queue.h"
#include "common/redis/redis.h"

#include "worker/tray.h"

struct worker;

/* Owner: history.c. Only for the log: each failure to write the history is reported once. */
struct history {
	bool failed;			/* Redis could not add to the history the last time, and this was logged */
};

/* sends the acknowledgement of a tray, by queue_done() or with history and notes */
void history_done(struct worker *w, int tray);
void history_done_one(struct worker *w, struct place p, const struct queue_entry *entry);
/* the same with what the message emitted */
void history_emitted(struct worker *w, struct place p, const struct queue_entry *entry, const struct queue_emitted *e);
/* the answer to such an acknowledgement, an integer */
void history_answer(struct worker *w, const struct redis_reply *reply);

#endif
