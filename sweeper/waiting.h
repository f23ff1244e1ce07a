#ifndef SWEEPER_WAITING_H
#define SWEEPER_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/message.h"
#include "sweeper/task.h"

struct sweeper;
struct swept;

/* Where the sweeper is with the stamps of a queue (stamps.c). Zeroed: nothing was stamped yet. */
struct stamps {
	int64_t from;		/* index at which this round continues; 0: it is over */
	struct message_stamp line;	/* of this round */
};

/* Stamps those of these entries of ingress that have no time. from: an index as of LINDEX, below 0. -1: error */
int stamps_range(struct sweeper *s, struct swept *q, int64_t from, int64_t count);

/*
 * How far the sweeper has looked for expired messages in a queue. It reads the pop end, where the oldest messages are, each time one of
 * them may have expired. Then it reads on through the list, page by page, in rounds, for expired messages elsewhere. The scripts
 * trust none of this: they check each message again.
 */
struct waiting {
	int64_t seen;		/* entries from the pop end that this round has looked at */
	int64_t due_ms;		/* the server's clock: no message at the pop end expires before; 0: not known */
	int64_t since_ms;	/* the epoch of due_ms */
	uint64_t expired;	/* messages that expired in this turn */
	int64_t oldest_ms;	/* the highest age of those */
};

static inline struct waiting *waiting_of(const struct swept *q)
{
	return task_state(q, TASK_ttl);
}

#endif
