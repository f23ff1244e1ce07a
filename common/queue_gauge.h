#ifndef COMMON_QUEUE_GAUGE_H
#define COMMON_QUEUE_GAUGE_H

#include <stdint.h>

#include "common/queue.h"

/*
 * How much lies where in a queue: cheap looks that change nothing. As in common/queue.h, every function that
 * takes a struct redis appends commands and returns at once; an answer may be an error by itself (a key of
 * another type) while the others are good.
 */

/* INTEGER each: entries of ingress, escape, the bare transit list, its rescue list, delayed; then STRING: why it is
 * paused, or NIL; ARRAY for queue_workers_parse(); ARRAY id, sha1 ... of the oldest records */
#define QUEUE_GAUGE_SIZES 5
#define QUEUE_GAUGE_RECORDS 32
void queue_gauge(struct redis *r, const struct queue_keys *k);

/* INTEGER 1 if its lease is there, else 0; then INTEGER for each tray and the rescue list */
#define QUEUE_GAUGE_OWNER (1 + QUEUE_TRAYS + 1)
void queue_gauge_owner(struct redis *r, const struct queue_keys *k, const char *incarnation);

/* What a pause's text says of its begin, ms since 1970 by the clock of who wrote it; -1: nothing */
int64_t queue_paused_since(const char *why, size_t len);

#endif
