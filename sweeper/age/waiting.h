#ifndef SWEEPER_AGE_WAITING_H
#define SWEEPER_AGE_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/message/message.h"
#include "sweeper/core/core.h"

struct sweeper;
struct sweeper_queue;

/* The progress of the stamps in a queue (stamps.c). Zeroed: nothing was stamped yet. */
struct stamps {
	int64_t from;		/* index at which this round continues; 0: it is over */
	struct message_stamp line;	/* of this round */
};

/* Stamps those entries of ingress that have no time. from: an index as for LINDEX, below 0. -1: error */
int stamps_range(struct sweeper *s, struct sweeper_queue *q, int64_t from, int64_t count);

/*
 * The progress of the search for expired messages in a queue. It reads the pop end, where the oldest messages are, each
 * time one of them may have expired. Then it reads on through the list, page by page, in rounds, for expired messages
 * elsewhere. The scripts trust none of this: they check each message again.
 */
struct waiting {
	int64_t seen;		/* entries from the pop end that this round has looked at */
	int64_t due_ms;		/* the server's time before which no message at the pop end expires; 0: not known */
	int64_t since_ms;	/* the epoch of due_ms */
};

extern const struct task ttl_task, stamps_task;

static inline struct waiting *waiting_of(const struct sweeper_queue *q)
{
	return task_state(q, &ttl_task);
}

#endif
