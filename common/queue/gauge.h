#ifndef COMMON_QUEUE_GAUGE_H
#define COMMON_QUEUE_GAUGE_H

#include <stdint.h>

#include "common/queue/moves.h"

/*
 * Reads the numbers of messages in the lists of a queue. The reads are cheap and change nothing. As in
 * common/queue/moves.h, every function that takes a struct redis appends commands and returns at once. Each answer can
 * be an error (a key of the wrong type) while the others are valid.
 */

/*
 * INTEGER each: entries of ingress, escape, the bare transit list, its rescue list, delayed, delayed pushes of
 * producers; then STRING: why the queue is paused, or NIL; ARRAY for queue_workers_parse(); ARRAY id, sha1 ... of the
 * oldest records
 */
#define QUEUE_GAUGE_SIZES 6
#define QUEUE_GAUGE_RECORDS 32
void queue_gauge(struct redis *r, const struct queue_keys *k);

/* INTEGER 1: the owner has a lease, else 0; then INTEGER for each tray and the rescue list */
#define QUEUE_GAUGE_OWNER (1 + QUEUE_TRAYS + 1)
void queue_gauge_owner(struct redis *r, const struct queue_keys *k, const char *incarnation);

/* When the pause began, from the text of the pause: ms since 1970, by the clock of the host that wrote it; -1: the text
 * does not say */
int64_t queue_paused_since(const char *why, size_t len);

#endif
