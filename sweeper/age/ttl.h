#ifndef SWEEPER_AGE_TTL_H
#define SWEEPER_AGE_TTL_H

#include <stddef.h>
#include <stdint.h>

#include "common/message/message.h"
#include "common/queue/queue.h"

struct sweeper;
struct sweeper_queue;

/* The state of one turn of ttl.c in one queue's ingress, and what it passes to expire.c. */
#define LOOK_PAGE_MAX 100
#define LOOK_EXPIRED_MAX 2000		/* in one turn: other queues have work, too */

/* The messages that expired in a turn (expire.c). */
struct expired {
	uint64_t messages;
	int64_t oldest_ms;		/* the age of the oldest of them */
};

/* A turn of one queue. */
struct look {
	struct sweeper *s;
	struct sweeper_queue *q;
	struct age_clock clock;
	struct expired expired;
	int64_t gone;			/* entries of the last page that left ingress */
	bool more;			/* that page was not the last one */
};

/* Moves those of the entries first..last that have expired to escape. Returns how many moved; -1: error */
int64_t expire_range(struct look *l, int64_t first, int64_t last);

/*
 * The record of a message that leaves ingress unhandled, without its error_message. Its strings belong to the queue and
 * the configuration.
 */
struct record expire_record(const struct sweeper *s, const struct sweeper_queue *q, const struct message *m,
    const char *class);
/*
 * Moves this message from ingress to escape. at: its index. A small message is found by its value, so the script may
 * move an equal one, which is just as old. Answers as queue_escape().
 */
void expire_send(struct sweeper *s, const struct sweeper_queue *q, struct message *m, int64_t at,
    const struct record *record);

#endif
