/*
 * The history of messages that are done: adds, trims and reads entries. The worker and the sweeper decide when. An
 * entry is added with the acknowledgement of its message, so this file also sends that one with what the message
 * emitted.
 */
#include <stdlib.h>
#include <string.h>

#include "common/queue/history.h"

#include "common/base/base.h"
#include "common/queue/notes.h"
#include "common/queue/scripts.h"

#define FIELDS 9		/* of an entry, as common/queue/scripts/shared/history.lua expects them */

#define FIRST_TARGET 3		/* place of the first target among KEYS of emit.lua, which counts from 1 */

struct entry {
	char id[MESSAGE_ID_MAX + 1], finished_at[CLOCK_RFC3339_SIZE], sha1[ENCODE_SHA1_SIZE], root[MESSAGE_ID_MAX + 1];
	struct script_number duration, attempts, size, depth;
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
	memcpy(e->root, m->wrapper.lineage.root, sizeof(e->root));
	script_number(&e->depth, m->wrapper.lineage.depth);
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
	args[7] = script_string(e->root);
	args[8] = script_string(e->depth.text);
}

/* The arguments of common/queue/scripts/shared/history.lua. */
struct history_room {
	struct script_number keep, notes;
};

static size_t count_history_args(const struct queue_history *h)
{
	return 4 + h->nnotes + FIELDS * h->n;
}

static size_t history_args(const struct queue_owner *o, const struct queue_history *h, int64_t keep, const char *node,
    struct history_room *room, struct script_arg *args)
{
	size_t n = 0;

	args[n++] = script_number(&room->keep, keep);
	args[n++] = script_string(o->incarnation);
	args[n++] = script_string(node);
	args[n++] = script_number(&room->notes, (int64_t)h->nnotes);
	for (size_t i = 0; i < h->nnotes; i++)
		args[n++] = script_string(h->notes[i]);
	for (size_t i = 0; i < h->n; i++, n += FIELDS)
		fill(args + n, &h->entries[i]);
	return n;
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
	struct script_arg *args;
	const struct queue_entry all = { .raw = "", .len = 0, .at = QUEUE_ANYWHERE };
	struct script_number moved;
	struct script_entry room;
	struct history_room more;
	size_t n = 0;

	if (one == NULL && h->n == 0 && h->nnotes == 0) {
		acknowledge_tray(r, o, tray);
		return;
	}
	args = alloc_zero(2 + SCRIPT_ENTRY_ARGS + count_history_args(h), sizeof(*args));
	args[n++] = script_string(one == NULL ? "0" : "1");
	n += script_entry(one == NULL ? &all : one, &room, args + n);
	args[n++] = script_number(&moved, o->moved[tray]);
	n += history_args(o, h, keep, node, &more, args + n);
	queue_script(r, QUEUE_SCRIPT_done, h->nnotes > 0 ? 4 : 3, keys, n, args);
	free(args);
}

/*
 * Messages that follow each other in the same list are one push, so that a list of a thousand costs little more than a
 * single one.
 */
struct put_numbers {
	struct script_number target, delay, n;
};

static bool is_same_list(const struct queue_put *a, const struct queue_put *b)
{
	return a->target == b->target && a->delay_ms == 0 && b->delay_ms == 0;
}

static size_t put_args(const struct queue_put *puts, size_t nputs, struct put_numbers *room, struct script_arg *args)
{
	size_t n = 0;

	for (size_t i = 0, k; i < nputs; i = k, room++) {
		for (k = i + 1; k < nputs && is_same_list(&puts[i], &puts[k]); k++)
			;
		args[n++] = script_number(&room->target, FIRST_TARGET + (int64_t)puts[i].target);
		args[n++] = puts[i].delay_ms == 0 ? script_string("") : script_number(&room->delay, puts[i].delay_ms);
		args[n++] = script_number(&room->n, (int64_t)(k - i));
		for (; i < k; i++)
			args[n++] = (struct script_arg){ puts[i].data, puts[i].len };
	}
	return n;
}

/* Most emissions go to one list, and have a shorter script. */
static bool goes_to_one_list(const struct queue_emitted *e)
{
	for (size_t i = 0; i < e->nputs; i++)
		if (e->puts[i].delay_ms != 0)
			return false;
	return e->ntargets == 1;
}

static void emit_to_list(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *one,
    const struct queue_emitted *e)
{
	const char *keys[] = { o->lease, o->trays[tray], e->targets[0] };
	struct script_arg *args = alloc_zero(1 + e->nputs, sizeof(*args));

	args[0] = (struct script_arg){ one->raw, one->len };
	for (size_t i = 0; i < e->nputs; i++)
		args[1 + i] = (struct script_arg){ e->puts[i].data, e->puts[i].len };
	queue_script(r, QUEUE_SCRIPT_emit_list, nitems(keys), keys, 1 + e->nputs, args);
	free(args);
}

static void emit_to_all(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *one,
    const struct queue_emitted *e, const struct queue_history *h, int64_t keep, const char *node)
{
	const char **keys = alloc_zero(FIRST_TARGET + 1 + e->ntargets, sizeof(*keys));
	size_t most = 1 + SCRIPT_ENTRY_ARGS + 4 * e->nputs + count_history_args(h);
	struct script_arg *args = alloc_zero(most, sizeof(*args));
	struct put_numbers *numbers = alloc_zero(e->nputs, sizeof(*numbers));
	struct script_number last;
	struct script_entry room;
	struct history_room more;
	size_t n = script_entry(one, &room, args), nkeys = FIRST_TARGET - 1 + e->ntargets;

	keys[0] = o->lease;
	keys[1] = o->trays[tray];
	memcpy(keys + 2, e->targets, e->ntargets * sizeof(*keys));
	n += 1 + put_args(e->puts, e->nputs, numbers, args + n + 1);
	args[SCRIPT_ENTRY_ARGS] = script_number(&last, (int64_t)n);
	if (h->n + h->nnotes > 0) {
		/* Redis checks the rights to a key even if a script does not use it. */
		keys[nkeys++] = h->n > 0 ? o->keys->done : o->lease;
		keys[nkeys++] = h->nnotes > 0 ? o->keys->notes : o->lease;
		n += history_args(o, h, keep, node, &more, args + n);
	}
	queue_script(r, QUEUE_SCRIPT_emit, nkeys, keys, n, args);
	free(keys);
	free(args);
	free(numbers);
}

void queue_history_emit(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *one,
    const struct queue_emitted *e, const struct queue_history *h, int64_t keep, const char *node)
{
	if (one->at == QUEUE_ANYWHERE && goes_to_one_list(e) && h->n + h->nnotes == 0)
		emit_to_list(r, o, tray, one, e);
	else
		emit_to_all(r, o, tray, one, e, h, keep, node);
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
