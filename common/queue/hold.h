#ifndef COMMON_QUEUE_HOLD_H
#define COMMON_QUEUE_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/queue/moves.h"

/*
 * A hold is a pause that a handler asked for (HOLD), and that ends by itself: the key of the pause has an expiry. Its
 * text says so; that of a pause by an operator has no "hold". Also reads and makes that text.
 */
#define QUEUE_HOLD_REASON_SIZE 256
#define QUEUE_HOLD_MARGIN_MS 2	/* clocks count whole ms: a hold that is over by ours is over by that of Redis, too */

struct queue_hold {
	char reason[QUEUE_HOLD_REASON_SIZE];	/* the words of the handler; "": it gave none */
	char node[256];				/* of its supervisor */
	char until[CLOCK_RFC3339_SIZE];		/* by the clock of that host */
};

/* Text for queue_hold(). reason: UTF-8 without control characters. The caller frees it. */
char *queue_hold_format(const char *node, const char *reason, int64_t hold_ms);
/* False: it is no text of a hold, but of a pause by an operator. */
bool queue_hold_parse(struct queue_hold *out, const char *text, size_t len);

/* For a queue that is paused. Two answers: STRING: the text of the pause, or NIL; INTEGER: ms until it ends; -1: it has
 * no end; -2: there is none any more */
void queue_hold_look(struct redis *r, const struct queue_keys *k);

#endif
