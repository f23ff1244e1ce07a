#ifndef COMMON_QUEUE_NOTES_H
#define COMMON_QUEUE_NOTES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/base.h"
#include "common/message/message.h"
#include "common/queue/moves.h"

/*
 * Notes: what quredis remembers of the messages of a shared queue. A wrapper would reach other programs, so a hash
 * beside the lists holds the notes (docs/design.md, "Shared queues"), by the sha1 of the producer's message. Equal
 * messages share one note. All notes expire together, QUEUE_NOTES_KEEP_MS after the last one was written.
 */
#define QUEUE_NOTES_KEEP_MS INT64_C(604800000)
#define QUEUE_NOTE_FIELD ENCODE_SHA1_SIZE

struct queue_bytes;		/* common/queue/admin.h */

struct queue_note {
	char field[QUEUE_NOTE_FIELD];
	char text[MESSAGE_MEMORY_SIZE];	/* "": nothing is remembered */
};

/* w: what to remember; NULL: nothing. */
void queue_note_of(struct queue_note *n, const struct message *m, const struct wrapper *w);
/* Writes the name of m for the registration of its owner (QUEUE_TRIAL). m: as it lies in a tray; m->wrapper: from its
 * line or its note. */
void queue_trial_name(const struct message *m, char out[QUEUE_NOTE_FIELD]);
/*
 * Prepares a message that goes back into a list, with w to be remembered. In a queue that is not shared: appends to
 * line the new wrapper, which replaces the old one, leaves n alone, and returns NULL. In a shared queue: appends
 * nothing, fills n with the note, and returns n.
 */
const struct queue_note *queue_remember(const struct queue_keys *k, const struct message *m, const struct wrapper *w,
    struct buffer *line, struct queue_note *n);

/* raw: n messages as they lie in a list, at least one. -> ARRAY of STRING or NIL, one for each */
void queue_notes(struct redis *r, const struct queue_keys *k, const struct queue_bytes *raw, size_t n);
/* The same by the sha1 of each message */
void queue_notes_by_sha1(struct redis *r, const struct queue_keys *k, const char *const *sha1s, size_t n);
/* Reads the i-th note of such an answer. False: the message has none. */
bool queue_note_read(const struct redis_reply *answer, size_t i, struct wrapper *w);

#endif
