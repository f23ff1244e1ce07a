#ifndef COMMON_QUEUE_HISTORY_H
#define COMMON_QUEUE_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "common/queue/moves.h"

/*
 * The history: messages that are done, in the stream quredis:of:ingress:<q>:done. The script that acknowledges also
 * writes the entries, and only if the acknowledgement took place, so no message is there twice. As in
 * common/queue/moves.h, functions that take a struct redis append one script.
 */
struct queue_history;

struct queue_history *queue_history_new(size_t most);
void queue_history_free(struct queue_history *h);
/*
 * Adds a message that is done. m's bytes belong to the caller and must live until it is sent. At most payload_max bytes
 * of a message are kept.
 */
void queue_history_add(struct queue_history *h, struct message *m, int64_t finished_ms, int64_t duration_ms,
    size_t payload_max);

/* The note of this message (common/queue/notes.h) is deleted with the acknowledgement. */
void queue_history_forget(struct queue_history *h, const struct message *m);

/*
 * As queue_done(); or, for `one` only, as queue_done_one(). h may be empty. Redis acknowledges a whole tray only if the
 * lease has counted o->moved[tray] moves, too: after Redis returned to an earlier state the tray may hold messages that
 * are not done. It acknowledges `one` only while the lease is there. -> INTEGER as theirs; 2: done, but the history
 * could not be written; QUEUE_CANNOT_TELL: nothing was done
 */
void queue_history_done(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *one,
    const struct queue_history *h, int64_t keep, const char *node);

/*
 * The messages that the handler of a message has emitted. targets: the keys of the lists, and of the sets of delayed
 * messages, each once. A put with a delay goes to a set, where equal messages would be one; the others go to a list, in
 * this order.
 */
struct queue_emitted {
	const char *const *targets;
	size_t ntargets;
	const struct queue_put {
		size_t target;
		int64_t delay_ms;	/* 0: none */
		const char *data;
		size_t len;
	} *puts;
	size_t nputs;
};
/*
 * As queue_done_one(), and pushes what the message emitted: both or neither. The message counts as moved out of its
 * tray (struct queue_owner). -> INTEGER as queue_history_done(); QUEUE_CANNOT_TELL
 */
void queue_history_emit(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *one,
    const struct queue_emitted *e, const struct queue_history *h, int64_t keep, const char *node);

/* Removes the oldest entries, at most limit, that were done before before_ms by the clock of Redis. -> INTEGER entries
 * removed */
void queue_history_trim(struct redis *r, const struct queue_keys *k, int64_t before_ms, int limit);

/*
 * The entries from id `from` on that were done before before_ms. -> ARRAY of STRING: for each the id of the entry, then
 * the id of the message
 */
void queue_history_look(struct redis *r, const struct queue_keys *k, const char *from, int64_t before_ms, int limit);

#endif
