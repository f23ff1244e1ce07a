#ifndef COMMON_QUEUE_NOTES_H
#define COMMON_QUEUE_NOTES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/digest.h"
#include "common/message.h"
#include "common/queue.h"

/*
 * What quredis remembers of messages of a shared queue: what a wrapper would say lies beside them in a hash (docs/design.md,
 * "Shared queues"), by the sha1 of the producer's message. Equal messages have one note. All of them expire together, a
 * while after the last was written.
 */
#define QUEUE_NOTES_KEEP_MS INT64_C(604800000)
#define QUEUE_NOTE_FIELD DIGEST_HEX_SIZE

struct queue_bytes;		/* common/queue_admin.h */

struct queue_note {
	char field[QUEUE_NOTE_FIELD];
	char text[MESSAGE_MEMORY_SIZE];	/* "": nothing is remembered */
};

/* w: what is to be remembered; NULL: nothing. */
void queue_note_of(struct queue_note *n, const struct message *m, const struct wrapper *w);
/* The name of m in the registration of its owner (QUEUE_TRIAL). m: as it lies in a tray; m->wrapper: its memory, from its line or its note. */
void queue_trial_name(const struct message *m, char out[QUEUE_NOTE_FIELD]);
/*
 * m goes back into a list, and w is to be remembered of it. Appends to line what will come there in place of m's wrapper: w,
 * n is left alone, and NULL is returned; or, where the queue is shared, nothing, with n beside the message, which is returned.
 */
const struct queue_note *queue_remember(const struct queue_keys *k, const struct message *m, const struct wrapper *w,
    struct buffer *line, struct queue_note *n);

/* raw: n messages as they lie in a list, at least one. -> ARRAY of STRING or NIL, one for each */
void queue_notes(struct redis *r, const struct queue_keys *k, const struct queue_bytes *raw, size_t n);
/* The same by the sha1 of each */
void queue_notes_by_sha1(struct redis *r, const struct queue_keys *k, const char *const *sha1s, size_t n);
/* The i-th of such an answer. False: there is none. */
bool queue_note_read(const struct redis_reply *answer, size_t i, struct wrapper *w);

#endif
