/*
 * Messages longer than message_max escape by scripts of their own. No process reads such a message, so this file knows
 * neither its bytes nor its id, SHA1 and size: the script adds them to the record
 * (common/queue/scripts/shared/unread.lua).
 */
#include <string.h>

#include "common/queue/moves.h"

#include "common/queue/records.h"
#include "common/queue/scripts.h"

/* True: the value of this field comes from the bytes of the message. */
static bool only_redis_knows(const struct script_arg *name)
{
	static const char *const names[] = { "id", "sha1", "size", "message" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name->data, names[i]) == 0)
			return true;
	return false;
}

static size_t unseen_record_args(const struct record *record, const struct message *head, struct record_text *text,
    struct script_arg *args)
{
	const struct message_keys none = {0};
	struct script_arg fields[2 * RECORD_FIELDS];
	struct message unseen;
	size_t n = 0, all;

	if (record == NULL)
		return 0;
	message_parse(&unseen, &none, "", 0);
	if (head != NULL)
		unseen.wrapper.lineage = head->wrapper.lineage;
	all = queue_record_args(record, &unseen, text, fields);
	for (size_t i = 0; i < all; i += 2)
		if (!only_redis_knows(&fields[i])) {
			args[n++] = fields[i];
			args[n++] = fields[i + 1];
		}
	return n;
}

#define HEAD_ARGS 2
static size_t head_args(const struct message *head, struct script_number *strip, struct script_arg *args)
{
	args[0] = (struct script_arg){ head == NULL ? "" : head->raw, head == NULL ? 0 : head->raw_len };
	args[1] = script_number(strip, head == NULL ? 0 : (int64_t)head->wrapper_len);
	return HEAD_ARGS;
}

void queue_too_large(struct redis *r, const struct queue_owner *o, int tray, int64_t limit, const struct message *head,
    const struct record *record, bool aside)
{
	const char *keys[] = { o->lease, o->trays[tray], aside ? o->keys->aside : o->keys->escape,
		aside ? o->keys->aside_log : o->keys->log };
	struct script_arg args[2 + HEAD_ARGS + 2 * RECORD_FIELDS];
	struct script_number lease, most, strip;
	struct record_text text;
	size_t n = 0;

	args[n++] = script_number(&lease, o->lease_ms);
	args[n++] = script_number(&most, limit);
	n += head_args(head, &strip, args + n);
	n += unseen_record_args(record, head, &text, args + n);
	queue_script(r, QUEUE_SCRIPT_too_large, 4, keys, n, args);
}

/* keys: lease, list, escape, its log */
static void too_large_seen(struct redis *r, const char *const keys[4], int64_t lease_ms, int64_t limit, int64_t seen,
    const struct record *record)
{
	struct script_arg args[3 + 2 * RECORD_FIELDS];
	struct script_number lease, most, len;
	struct record_text text;
	size_t n = 0;

	args[n++] = script_number(&lease, lease_ms);
	args[n++] = script_number(&most, limit);
	args[n++] = script_number(&len, seen);
	n += unseen_record_args(record, NULL, &text, args + n);
	queue_script(r, QUEUE_SCRIPT_too_large_seen, 4, keys, n, args);
}

void queue_too_large_seen(struct redis *r, const struct queue_owner *o, int tray, int64_t limit, int64_t seen,
    const struct record *record)
{
	too_large_seen(r, (const char *[]){ o->lease, o->trays[tray], o->keys->escape, o->keys->log }, o->lease_ms,
	    limit, seen, record);
}

void queue_too_large_seen_in_rescue(struct redis *r, const struct queue_keys *k, const char *no_lease,
    const char *rescue, int64_t limit, int64_t seen, const struct record *record)
{
	too_large_seen(r, (const char *[]){ no_lease, rescue, k->escape, k->log }, 1, limit, seen, record);
}

void queue_too_large_first(struct redis *r, const struct queue_keys *k, const char *no_lease, const char *rescue,
    int64_t limit, const struct message *head, const struct record *record)
{
	const char *keys[] = { no_lease, rescue, k->escape, k->log };
	struct script_arg args[1 + HEAD_ARGS + 2 * RECORD_FIELDS];
	struct script_number most, strip;
	struct record_text text;
	size_t n = 0;

	args[n++] = script_number(&most, limit);
	n += head_args(head, &strip, args + n);
	n += unseen_record_args(record, head, &text, args + n);
	queue_script(r, QUEUE_SCRIPT_too_large_first, 4, keys, n, args);
}
