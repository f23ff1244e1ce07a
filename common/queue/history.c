/* The history of messages that are done: adds, trims and reads entries. The worker and the sweeper decide when. */
#include <stdlib.h>
#include <string.h>

#include "common/queue/history.h"

#include "common/base/base.h"
#include "common/queue/notes.h"
#include "common/queue/scripts.h"

#define FIELDS 7		/* of an entry, as common/queue/scripts/done.lua expects them */
#define FIRST (SCRIPT_ENTRY_ARGS + 6)	/* arguments before the entries, without those of the notes */

struct entry {
	char id[MESSAGE_ID_MAX + 1], finished_at[CLOCK_RFC3339_SIZE], sha1[ENCODE_SHA1_SIZE];
	struct script_number duration, attempts, size;
	const char *message;
	size_t kept;
};

struct queue_history {
	char (*notes)[QUEUE_NOTE_FIELD];
	size_t nnotes;
	size_t n;
	struct entry entries[];
};

struct queue_history *queue_history_new(size_t most)
{
	return alloc_zero(1, sizeof(struct queue_history) + most * sizeof(struct entry));
}

void queue_history_free(struct queue_history *h)
{
	free(h->notes);
	free(h);
}

void queue_history_forget(struct queue_history *h, const struct message *m)
{
	struct queue_note note;

	queue_note_of(&note, m, NULL);
	h->notes = alloc_resize(h->notes, h->nnotes + 1, sizeof(*h->notes));
	memcpy(h->notes[h->nnotes++], note.field, QUEUE_NOTE_FIELD);
}

void queue_history_add(struct queue_history *h, struct message *m, int64_t finished_ms, int64_t duration_ms,
    size_t payload_max)
{
	struct entry *e = &h->entries[h->n++];
	size_t size = m->raw_len - m->wrapper_len;

	e->message = m->raw + m->wrapper_len;
	e->kept = size <= payload_max ? size : 0;
	memcpy(e->id, message_id(m), sizeof(e->id));
	clock_rfc3339(finished_ms, e->finished_at);
	encode_sha1(e->message, size, e->sha1);
	script_number(&e->duration, duration_ms);
	script_number(&e->attempts, m->wrapper.attempts + 1);
	script_number(&e->size, (int64_t)size);
}

static void fill(struct script_arg *args, const struct entry *e)
{
	args[0] = script_string(e->id);
	args[1] = script_string(e->finished_at);
	args[2] = script_string(e->duration.text);
	args[3] = script_string(e->attempts.text);
	args[4] = script_string(e->sha1);
	args[5] = script_string(e->size.text);
	args[6] = (struct script_arg){ e->message, e->kept };
}

/* Acknowledges a whole tray if nothing else has to be written. */
static void acknowledge_tray(struct redis *r, const struct queue_owner *o, int tray)
{
	const char *keys[] = { o->lease, o->trays[tray] };
	struct script_number moved;

	queue_script(r, QUEUE_SCRIPT_acknowledge, 2, keys, 1,
	    (struct script_arg[]){ script_number(&moved, o->moved[tray]) });
}

void queue_history_done(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *one,
    const struct queue_history *h, int64_t keep, const char *node)
{
	const char *keys[] = { o->lease, o->trays[tray], o->keys->done, o->keys->notes };
	size_t first = FIRST + h->nnotes;
	struct script_arg *args;
	const struct queue_entry all = { .raw = "", .len = 0, .at = QUEUE_ANYWHERE };
	struct script_number moved, most, notes;
	struct script_entry room;
	size_t n = 0;

	if (one == NULL && h->n == 0 && h->nnotes == 0) {
		acknowledge_tray(r, o, tray);
		return;
	}
	args = alloc_zero(first + FIELDS * h->n, sizeof(*args));
	args[n++] = script_string(one == NULL ? "0" : "1");
	n += script_entry(one == NULL ? &all : one, &room, args + n);
	args[n++] = script_number(&moved, o->moved[tray]);
	args[n++] = script_number(&most, keep);
	args[n++] = script_string(o->incarnation);
	args[n++] = script_string(node);
	args[n++] = script_number(&notes, (int64_t)h->nnotes);
	for (size_t i = 0; i < h->nnotes; i++)
		args[FIRST + i] = script_string(h->notes[i]);
	for (size_t i = 0; i < h->n; i++)
		fill(args + first + FIELDS * i, &h->entries[i]);
	queue_script(r, QUEUE_SCRIPT_done, h->nnotes > 0 ? 4 : 3, keys, first + FIELDS * h->n, args);
	free(args);
}

void queue_history_trim(struct redis *r, const struct queue_keys *k, int64_t before_ms, int limit)
{
	const char *keys[] = { k->done };
	struct script_number before, most;

	queue_script(r, QUEUE_SCRIPT_done_trim, 1, keys, 2,
	    (struct script_arg[]){ script_number(&before, before_ms), script_number(&most, limit) });
}

void queue_history_look(struct redis *r, const struct queue_keys *k, const char *from, int64_t before_ms, int limit)
{
	const char *keys[] = { k->done };
	struct script_number before, most;

	queue_script(r, QUEUE_SCRIPT_done_look, 1, keys, 3,
	    (struct script_arg[]){ script_string(from), script_number(&before, before_ms),
	    script_number(&most, limit) });
}
