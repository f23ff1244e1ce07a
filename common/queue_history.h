#ifndef COMMON_QUEUE_HISTORY_H
#define COMMON_QUEUE_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "common/queue.h"

/*
 * What is done, in the stream ingress:<q>:done: written in the same script as the acknowledgement, and only if that took
 * place, so that nothing is there twice. As in common/queue.h, functions that take a struct redis append one script.
 */
struct queue_history;

struct queue_history *queue_history_new(size_t most);
void queue_history_free(struct queue_history *h);
/* One more that is done; m's bytes stay the caller's, until it is sent. Up to payload_max bytes of a message are kept. */
void queue_history_add(struct queue_history *h, struct message *m, int64_t finished_ms, int64_t duration_ms, size_t payload_max);

/* What is remembered of this one (common/queue_notes.h) is forgotten with it. */
void queue_history_forget(struct queue_history *h, const struct message *m);

/*
 * As queue_done(); or, for `one` alone, as queue_done_one(). h may be empty. Redis acknowledges a whole tray only if the lease has
 * counted o->moved[tray] moves as well: after Redis returned to an earlier state the tray may hold messages that are not done.
 * -> INTEGER as theirs; 2: done, but the history could not be written; -1: the counts differ, and nothing was done
 */
void queue_history_done(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *one,
    const struct queue_history *h, int64_t keep, const char *node);

/* -> INTEGER how many of the oldest, at most limit, were removed that were done before this ms of the server */
void queue_history_trim(struct redis *r, const struct queue_keys *k, int64_t before_ms, int limit);

/* -> ARRAY of STRING: of those of them that lie from `from` on, ids of entry and message in turn */
void queue_history_look(struct redis *r, const struct queue_keys *k, const char *from, int64_t before_ms, int limit);

#endif
