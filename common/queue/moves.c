/*
 * The moves of a message, each one command or one script. Every move copies first and removes second, so a failure in
 * between leaves the message where it was.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/moves.h"

#include "common/base/base.h"
#include "common/queue/notes.h"
#include "common/queue/records.h"
#include "common/queue/scripts.h"
#include "common/queue/waiting.h"

#define KEEP_DEAD_MS (60 * 60 * 1000)	/* for how long sweepers look for messages that arrive late under a dead name */

/* change NULL: the entry stays unchanged. */
#define CHANGE_ARGS 2
static size_t change_args(const struct queue_change *c, struct script_number *strip, struct script_arg *args)
{
	bool empty = c == NULL || c->line->data == NULL;

	args[0] = (struct script_arg){ empty ? "" : c->line->data, empty ? 0 : c->line->len };
	args[1] = script_number(strip, c == NULL ? 0 : (int64_t)c->strip);
	return CHANGE_ARGS;
}

/* The arguments of a note: field, text, and how long all notes are kept. */
#define NOTE_ARGS 3
static size_t note_args(const struct queue_note *note, struct script_number *keep, struct script_arg *args)
{
	if (note == NULL)
		return 0;
	args[0] = script_string(note->field);
	args[1] = script_string(note->text);
	args[2] = script_number(keep, QUEUE_NOTES_KEEP_MS);
	return NOTE_ARGS;
}

static void format_blocking_fetch(struct queue_owner *o, int tray, int64_t block_ms)
{
	struct owner_commands *c = &o->commands[tray];
	struct script_number block;

	queue_script_seconds(&block, block_ms);
	redis_format(&c->fetch, o->blmove ? "BLMOVE %s %s RIGHT LEFT %s" : "BRPOPLPUSH %s %s %s", o->keys->ingress,
	    o->trays[tray], block.text);
	c->block_ms = block_ms;
}

void queue_fetch(struct redis *r, struct queue_owner *o, int tray, int64_t block_ms)
{
	struct owner_commands *c = &o->commands[tray];

	if (block_ms <= 0) {
		queue_fetch_batch(r, o, tray, 1);
		return;
	}
	if (c->fetch.bytes == NULL || c->block_ms != block_ms)
		format_blocking_fetch(o, tray, block_ms);
	redis_append_command(r, &c->fetch, 1);
}

void queue_fetch_batch(struct redis *r, struct queue_owner *o, int tray, int n)
{
	struct redis_command *fetch = &o->commands[tray].fetch_now;

	if (fetch->bytes == NULL)
		redis_format(fetch, o->blmove ? "LMOVE %s %s RIGHT LEFT" : "RPOPLPUSH %s %s", o->keys->ingress,
		    o->trays[tray]);
	redis_append_command(r, fetch, n);
}

void queue_fetch_oom(struct redis *r, const struct queue_owner *o, int tray)
{
	const char *keys[] = { o->lease, o->keys->ingress, o->trays[tray] };
	struct script_number lease;

	queue_script(r, QUEUE_SCRIPT_fetch, 3, keys, 1, (struct script_arg[]){ script_number(&lease, o->lease_ms) });
}

void queue_done(struct redis *r, struct queue_owner *o, int tray)
{
	struct redis_command *done = &o->commands[tray].done;

	if (done->bytes == NULL)
		redis_format(done, "DEL %s", o->trays[tray]);
	redis_append_command(r, done, 1);
}

void queue_done_one(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *e)
{
	redis_appendf(r, "LREM %s -1 %b", o->trays[tray], e->raw, e->len);
}

/* Of an order to cancel: its field, its text, and its result. */
#define CANCEL_ARGS 3
static void cancel_args(const struct queue_cancel_end *c, struct script_arg *args)
{
	args[0] = script_string(c == NULL ? NULL : c->field);
	args[1] = script_string(c == NULL ? NULL : c->order);
	args[2] = script_string(c == NULL ? NULL : c->result);
}

/* The arguments with which retry.lua and hand_back.lua begin: the lease, the message, and its change. */
#define OUT_OF_TRAY_ARGS (1 + SCRIPT_ENTRY_ARGS + CHANGE_ARGS)
struct out_of_tray {
	struct script_number lease, strip;
	struct script_entry entry;
};

static size_t out_of_tray_args(const struct queue_move *m, struct out_of_tray *room, struct script_arg *args)
{
	size_t n = 0;

	args[n++] = script_number(&room->lease, m->lease_ms);
	n += script_entry(m->entry, &room->entry, args + n);
	return n + change_args(m->change, &room->strip, args + n);
}

/* hold NULL: the queue is not held. */
static void delay_move(struct redis *r, const struct queue_move *m, int64_t delay_ms, const char *hold)
{
	const char *keys[] = { m->lease, m->from, m->keys->delayed, m->keys->delayed_apart, m->keys->paused };
	struct script_arg args[OUT_OF_TRAY_ARGS + 2];
	struct script_number delay;
	struct out_of_tray room;
	size_t n = out_of_tray_args(m, &room, args);

	args[n++] = script_number(&delay, delay_ms);
	args[n++] = script_string(hold);
	queue_script(r, QUEUE_SCRIPT_retry, hold == NULL ? 4 : 5, keys, hold == NULL ? n - 1 : n, args);
}

void queue_retry(struct redis *r, const struct queue_move *m, int64_t delay_ms)
{
	delay_move(r, m, delay_ms, NULL);
}

void queue_hold(struct redis *r, const struct queue_move *m, int64_t delay_ms, const char *text)
{
	delay_move(r, m, delay_ms, text);
}

void queue_hand_back(struct redis *r, const struct queue_move *m, bool last)
{
	const char *keys[] = { m->lease, m->from, m->keys->ingress, m->keys->cancels, m->keys->notes };
	struct script_arg args[OUT_OF_TRAY_ARGS + 1 + CANCEL_ARGS + NOTE_ARGS];
	struct script_number keep;
	struct out_of_tray room;
	size_t n = out_of_tray_args(m, &room, args);

	args[n++] = script_string(last ? "L" : "R");
	cancel_args(m->cancel, args + n);
	n += CANCEL_ARGS;
	n += note_args(m->note, &keep, args + n);
	queue_script(r, QUEUE_SCRIPT_hand_back, m->note == NULL ? 4 : 5, keys, n, args);
}

/* keys: lease, source, target, its log, orders to cancel, notes */
static void move_with_record(struct redis *r, const struct queue_move *m, const char *const keys[6],
    const struct queue_change *change)
{
	struct script_arg args[4 + SCRIPT_ENTRY_ARGS + CHANGE_ARGS + CANCEL_ARGS + 2 * RECORD_FIELDS];
	struct record_text text;
	struct script_number lease, count, strip;
	bool keep = m->record != NULL && m->message->raw_len - m->message->wrapper_len <= m->record->payload_max;
	struct script_entry room;
	size_t n = 0;

	args[n++] = script_number(&lease, m->lease_ms);
	n += script_entry(m->entry, &room, args + n);
	args[n++] = script_number(&count, m->count);
	n += change_args(change, &strip, args + n);
	args[n++] = script_string(m->note == NULL ? NULL : m->note->field);
	cancel_args(m->cancel, args + n);
	n += CANCEL_ARGS;
	args[n++] = script_string(keep ? "1" : "0");
	if (m->record != NULL) {
		n += queue_record_args(m->record, m->message, &text, args + n);
		args[n - 1] = script_string(NULL);	/* the script fills this in, since only Redis has the message */
	}
	queue_script(r, QUEUE_SCRIPT_escape, m->note == NULL ? 5 : 6, keys, n, args);
}

void queue_escape(struct redis *r, const struct queue_move *m)
{
	const struct queue_keys *k = m->keys;
	struct buffer none = {0};

	move_with_record(r, m, (const char *[]){ m->lease, m->from, k->escape, k->log, k->cancels, k->notes },
	    &(struct queue_change){ &none, m->message->wrapper_len });
}

void queue_set_aside(struct redis *r, const struct queue_move *m)
{
	const struct queue_keys *k = m->keys;

	move_with_record(r, m, (const char *[]){ m->lease, m->from, k->aside, k->aside_log, k->cancels, NULL },
	    m->change);
}

void queue_aside(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "LLEN %s", k->aside);
	redis_appendf(r, "XREVRANGE %s + - COUNT 1", k->aside_log);
}

void queue_aside_forget(struct redis *r, const struct queue_keys *k)
{
	const char *keys[] = { k->aside, k->aside_log };

	queue_script(r, QUEUE_SCRIPT_aside_forget, 2, keys, 0, NULL);
}

void queue_digest(struct redis *r, const char *no_lease, const char *list, const struct queue_entry *e,
    const size_t *from, size_t n)
{
	const char *keys[] = { no_lease, list };
	struct script_arg args[SCRIPT_ENTRY_ARGS + QUEUE_DIGESTS];
	struct script_number offsets[QUEUE_DIGESTS];
	struct script_entry room;
	size_t nargs = script_entry(e, &room, args);

	for (size_t i = 0; i < n && i < QUEUE_DIGESTS; i++)
		args[nargs++] = script_number(&offsets[i], (int64_t)from[i]);
	queue_script(r, QUEUE_SCRIPT_digest, 2, keys, nargs, args);
}

void queue_renew(struct redis *r, const struct queue_owner *o, const struct queue_owner *old, const char *registration)
{
	const char *keys[10] = { o->keys->workers, o->lease, o->trays[0], o->trays[1], o->trays[2] };
	bool first = old == NULL || old->keys == NULL;
	char *field = queue_rescue_field(first ? NULL : old->incarnation);
	char *seated = o->seats > 0 ? alloc_format("%" PRId64 " %s", o->seats, o->keys->name) : NULL;
	struct script_number lease;
	struct script_arg args[] = { script_number(&lease, o->lease_ms), script_string(o->incarnation),
		script_string(registration), script_string(seated),
		script_string(first ? "" : old->incarnation), script_string(field) };
	size_t n = 5;

	if (!first) {
		keys[n++] = old->lease;
		for (int i = 0; i < QUEUE_TRAYS; i++)
			keys[n++] = old->trays[i];
	}
	if (seated != NULL)
		keys[n++] = o->keys->seats;
	queue_script(r, QUEUE_SCRIPT_renew, n, keys, first ? 4 : 6, args);
	free(seated);
	free(field);
}

void queue_lease_renew(struct redis *r, const struct queue_owner *o)
{
	redis_appendf(r, "PEXPIRE %s %d", o->lease, o->lease_ms);
}

void queue_lease_counts(struct redis *r, const struct queue_owner *o)
{
	redis_appendf(r, "HMGET %s %s %s %s", o->lease, o->trays[0], o->trays[1], o->trays[2]);
}

bool queue_lease_agrees(const struct queue_owner *o, const struct redis_reply *counts)
{
	for (size_t i = 0; i < QUEUE_TRAYS; i++) {
		struct redis_reply count = redis_element(counts, i);

		if ((count.type == REDIS_STRING ? strtoll(count.str, NULL, 10) : 0) != o->moved[i])
			return false;
	}
	return true;
}

void queue_deregister(struct redis *r, const struct queue_owner *o)
{
	char *rescue = queue_tray_key(o->keys, o->incarnation, QUEUE_RESCUE);
	const char *keys[] = { o->keys->workers, o->lease, o->trays[0], o->trays[1], o->trays[2], rescue,
		o->keys->seats, o->keys->seats_free };

	queue_script(r, QUEUE_SCRIPT_deregister, o->keys->seats == NULL ? 6 : 8, keys, 1,
	    (struct script_arg[]){ script_string(o->incarnation) });
	free(rescue);
}

void queue_annotate(struct redis *r, const struct queue_owner *o, const char *key, const char *value)
{
	const char *keys[] = { o->keys->workers, o->lease };
	struct script_number lease;
	struct script_arg args[] = { script_number(&lease, o->lease_ms), script_string(o->incarnation),
	    script_string(key),
		script_string(value) };

	queue_script(r, QUEUE_SCRIPT_annotate, 2, keys, 4, args);
}

void queue_list(struct redis *r, const char *list, int64_t first, int64_t last)
{
	redis_appendf(r, "LRANGE %s %d %d", list, first, last);
}

/* The bare list has no owner. */
static const char *owner_of(const char *incarnation)
{
	return incarnation == NULL ? QUEUE_NOBODY : incarnation;
}

char *queue_rescue_field(const char *incarnation)
{
	return alloc_format("%s:rescue", owner_of(incarnation));
}

void queue_fence(struct redis *r, const struct queue_keys *k, const char *incarnation, const char *source,
    const char *rescue)
{
	char *field = queue_rescue_field(incarnation);
	struct queue_owner o;

	queue_owner_init(&o, k, owner_of(incarnation), 0);
	const char *keys[] = { k->workers, o.lease, source, rescue, o.trays[0], o.trays[1], o.trays[2] };
	queue_script(r, QUEUE_SCRIPT_fence, incarnation == NULL ? 4 : 7, keys, 1,
	    (struct script_arg[]){ script_string(field) });
	queue_owner_free(&o);
	free(field);
}

void queue_rescue_size(struct redis *r, const struct queue_keys *k, const char *incarnation)
{
	char *field = queue_rescue_field(incarnation);

	redis_appendf(r, "HGET %s %s", k->workers, field);
	free(field);
}

void queue_return(struct redis *r, const char *incarnation, const struct queue_move *m)
{
	char *lease = queue_lease_key(m->keys, incarnation);
	const char *keys[] = { lease, m->from, m->keys->ingress, m->keys->notes };
	struct script_arg args[SCRIPT_ENTRY_ARGS + CHANGE_ARGS + NOTE_ARGS];
	struct queue_entry first = *m->entry;
	struct script_number strip, keep;
	struct script_entry room;
	size_t n;

	first.at = 0;
	n = script_entry(&first, &room, args);
	n += change_args(m->change, &strip, args + n);
	n += note_args(m->note, &keep, args + n);
	queue_script(r, QUEUE_SCRIPT_return, m->note == NULL ? 3 : 4, keys, n, args);
	free(lease);
}

void queue_mark_dead(struct redis *r, const struct queue_keys *k, const char *incarnation)
{
	char *lease = queue_lease_key(k, incarnation);
	const char *keys[] = { k->workers, lease, k->seats, k->seats_free };

	queue_script(r, QUEUE_SCRIPT_mark_dead, k->seats == NULL ? 2 : 4, keys, 1,
	    (struct script_arg[]){ script_string(incarnation) });
	free(lease);
}

void queue_forget(struct redis *r, const struct queue_keys *k, const char *incarnation)
{
	struct queue_owner o;
	char *field = queue_rescue_field(incarnation), *rescue = queue_tray_key(k, incarnation, QUEUE_RESCUE);
	struct script_number keep;

	queue_owner_init(&o, k, incarnation, 0);
	const char *keys[] = { k->workers, o.lease, o.trays[0], o.trays[1], o.trays[2], rescue, k->seats,
		k->seats_free };
	struct script_arg args[] = { script_string(incarnation), script_string(field),
	    script_number(&keep, KEEP_DEAD_MS) };
	queue_script(r, QUEUE_SCRIPT_forget, k->seats == NULL ? 6 : 8, keys, 3, args);
	queue_owner_free(&o);
	free(field);
	free(rescue);
}

#define ASK_PAUSED "STRLEN %s"

void queue_paused(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, ASK_PAUSED, k->paused);
}

void queue_owner_paused(struct redis *r, struct queue_owner *o)
{
	if (o->paused.bytes == NULL)
		redis_format(&o->paused, ASK_PAUSED, o->keys->paused);
	redis_append_command(r, &o->paused, 1);
}

void queue_poll(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "ZCARD %s", k->delayed);
	queue_paused(r, k);
	redis_appendf(r, "ZCARD %s", k->pushed);
}

void queue_redrive(struct redis *r, const struct queue_move *m, const char *record_id)
{
	const struct queue_keys *k = m->keys;
	char *lease = queue_lease_key(k, NULL);
	const char *keys[] = { lease, k->escape, k->log, k->ingress, k->claimed, k->notes };
	struct script_arg args[2 + SCRIPT_ENTRY_ARGS + CHANGE_ARGS + NOTE_ARGS];
	struct script_number strip, keep;
	struct script_entry room;
	size_t n = script_entry(m->entry, &room, args);

	n += change_args(m->change, &strip, args + n);
	args[n++] = script_string(record_id);
	args[n++] = script_string(m->entry->sha1);
	n += note_args(m->note, &keep, args + n);
	queue_script(r, QUEUE_SCRIPT_redrive, m->note == NULL ? 5 : 6, keys, n, args);
	free(lease);
}
