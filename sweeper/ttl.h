#ifndef SWEEPER_TTL_H
#define SWEEPER_TTL_H

#include <stddef.h>
#include <stdint.h>

#include "common/age.h"
#include "common/queue_waiting.h"

struct sweeper;
struct swept;

/* A turn of ttl.c through one queue's ingress, and what it hands to expire.c. */
#define LOOK_PAGE_MAX 100
#define LOOK_EXPIRED_MAX 2000		/* in one turn: others have work, too */

/* A turn of one queue. */
struct look {
	struct sweeper *s;
	struct swept *q;
	struct age_clock clock;
	int64_t gone;			/* of the last page */
	bool more;			/* that page was not the last one */
};

/* Moves the expired ones of the entries first..last to escape. Returns how many were moved; -1: error */
int64_t expire_range(struct look *l, int64_t first, int64_t last);

/* The record of a message that leaves ingress unhandled, without the reason. Its strings belong to the queue and the configuration. */
struct record expire_record(const struct sweeper *s, const struct swept *q, const struct message *m, const char *class);
/* Moves this message from ingress to escape. at: its index; a small message is found by its value, so an equal one may be moved, which
 * is just as old. Answers as queue_escape(). */
void expire_send(struct sweeper *s, const struct swept *q, struct message *m, int64_t at, const struct record *record);

#endif
