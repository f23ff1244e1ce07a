#ifndef COMMON_QUEUE_NOTES_H
#define COMMON_QUEUE_NOTES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/message.h"
#include "common/queue.h"

/*
 * What quredis remembers of messages of a shared queue: what a wrapper would say lies beside them in a hash (docs/design.md,
 * "Shared queues"), by the sha1 of the producer's message. Equal messages have one note. All of them expire together, a
 * while after the last was written.
 */
#define QUEUE_NOTES_KEEP_MS INT64_C(604800000)
#define QUEUE_NOTE_FIELD 41

struct queue_bytes;		/* common/queue_admin.h */

struct queue_note {
	char field[QUEUE_NOTE_FIELD];
	char text[MESSAGE_MEMORY_SIZE];	/* "": nothing is remembered */
};

/* w: what is to be remembered; NULL: nothing. */
void queue_note_of(struct queue_note *n, const struct message *m, const struct wrapper *w);
/*
 * m goes back into a list, and w is to be remembered of it. Appends to instead what will lie there: the message behind w, n is
 * left alone, and NULL is returned; or, where the queue is shared, the producer's bytes alone, with n beside them, which is returned.
 */
const struct queue_note *queue_remember(const struct queue_keys *k, const struct message *m, const struct wrapper *w,
    struct buffer *instead, struct queue_note *n);

/* raw: n messages as they lie in a list, at least one. -> ARRAY of STRING or NIL, one for each */
void queue_notes(struct redis *r, const struct queue_keys *k, const struct queue_bytes *raw, size_t n);
/* The i-th of such an answer. False: there is none. */
bool queue_note_read(const struct redis_reply *answer, size_t i, struct wrapper *w);

#endif
