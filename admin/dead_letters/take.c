/*
 * Takes one dead letter out of escape: back into ingress, or for good. Messages come and go meanwhile, so each step
 * compares what it finds with what was read.
 */
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/dead_letters/take.h"

#include "admin/dead_letters/dead_letter.h"
#include "admin/dead_letters/records.h"
#include "admin/queues/queues.h"
#include "common/base/base.h"
#include "common/queue/queue.h"

#define LOOKS 3			/* searches for a dead letter that changes its place meanwhile */

/* ---- back into ingress ---- */

/*
 * A dead letter becomes a new message that waits from now on, at the depth that it had: a circle of handlers must end
 * although its messages are retried. In a shared queue a note keeps that time only for a message with a ttl in its
 * header, which could otherwise expire at once. A large message must have its sha1, because others of the same size and
 * ends may take its place, and the record would be deleted that belongs to another.
 */
void take_append_redrive(struct admin *a, const struct list_entry *entry, int64_t now_ms,
    const struct record_brief *record)
{
	struct queue_entry e = entry_name(entry);
	const struct queue_note *noted;
	struct buffer line = {0};
	struct queue_note note;
	struct message m;
	struct wrapper w;

	e.sha1 = e.at == QUEUE_ANYWHERE ? NULL : entry->sha1;
	message_parse(&m, &a->keys.lines, entry->head.data, entry->head.len);
	w = m.wrapper;		/* empty, unless it escaped while the secret of its wrapper was lost */
	if (!a->keys.shared || m.ttl_ms >= 0)
		w.own_ms = w.redriven_ms = now_ms;
	if (w.lineage.depth == 0)
		w.lineage = record->lineage;
	noted = queue_remember(&a->keys, &m, &w, &line, &note);
	if (noted != NULL && entry_is_large(entry))
		strlcpy(note.field, entry->sha1, sizeof(note.field));	/* m has only the beginning of the message */
	queue_redrive(&a->redis, &(struct queue_move){ .keys = &a->keys, .entry = &e,
	    .change = &(struct queue_change){ &line, m.wrapper_len },
	    .note = noted }, record->id[0] != '\0' ? record->id : NULL);
	buffer_free(&line);
}

/* -1: error of Redis */
static int record_exists(struct admin *a, const char *record_id)
{
	static const char *const fields[] = { "sha1" };
	struct redis_reply reply;

	queue_log_fields(&a->redis, &a->keys, record_id, 1, fields, nitems(fields));
	if (admin_reply(a, &reply, a->keys.log) == -1)
		return -1;
	return redis_is_strings(&reply) && reply.n > 0 && strcmp(redis_element(&reply, 0).str, record_id) == 0;
}

/*
 * As entry_find(). While other operators move entries, a search may pass over an entry. Its record leaves with it, so
 * the search is repeated while the record is there.
 */
static int find_again(struct admin *a, const struct list_entry *entry, const char *record_id, struct list_entry *again)
{
	int found = 0, there = 1;

	for (int i = 0; i < LOOKS && found == 0 && there == 1; i++) {
		found = entry_find(a, a->keys.escape, entry->at, entry->size, entry->sha1, again);
		if (found == 0)
			there = record_id[0] == '\0' ? 0 : record_exists(a, record_id);
	}
	return there == -1 ? -1 : found;
}

/*
 * Sends the move and takes its answer. If Redis cannot tell whether a large message is at its place, searches for it
 * from there on. moved: as queue_redrive() answers, but never QUEUE_CANNOT_TELL.
 */
int take_redrive_placed(struct admin *a, const struct list_entry *entry, int64_t now_ms,
    const struct record_brief *record, int64_t *moved)
{
	struct list_entry again;
	int found = 1;

	take_append_redrive(a, entry, now_ms, record);
	if (admin_integer(a, moved, a->keys.escape) == -1)
		return -1;
	for (int i = 0; i < LOOKS && *moved == QUEUE_CANNOT_TELL && found == 1; i++) {
		found = find_again(a, entry, record->id, &again);
		if (found != 1)
			break;
		take_append_redrive(a, &again, now_ms, record);
		entry_free(&again);
		if (admin_integer(a, moved, a->keys.escape) == -1)
			return -1;
	}
	if (found == 1 && *moved == QUEUE_CANNOT_TELL)
		return admin_fail(a, EX_TEMPFAIL, "a message keeps changing its place in %s; run the command again",
		    a->keys.escape);
	if (found == 0)
		*moved = 0;
	return found == -1 ? -1 : 0;
}

int take_redrive(struct admin *a, const struct list_entry *entry, const struct record_brief *record, int64_t *moved)
{
	int64_t now_ms;

	return admin_seals(a) == -1 || admin_server_time(a, &now_ms) == -1 ? -1 :
	    take_redrive_placed(a, entry, now_ms, record, moved);
}

/* ---- for good ---- */

/* removed: 1; 0: it is not in escape, and its record stays; -1: it had no record */
static int delete_with_message(struct admin *a, const struct dead_letter *d, const struct list_entry *entry,
    int64_t *removed)
{
	struct list_entry again = {0};
	int found = 1;

	for (int i = 0; i < LOOKS && found == 1; i++) {
		struct queue_entry named = entry_name(i == 0 ? entry : &again);
		int rc;

		named.sha1 = named.at == QUEUE_ANYWHERE ? NULL : entry->sha1;
		queue_discard(&a->redis, &a->keys, &named, d->record_id);
		entry_free(&again);
		rc = admin_integer(a, removed, a->keys.escape);
		if (rc == -1 || *removed != QUEUE_CANNOT_TELL)
			return rc;
		found = dead_letter_entry(a, d, entry->at, &again);
		*removed = 0;
	}
	entry_free(&again);
	if (found == 1)
		return admin_fail(a, EX_TEMPFAIL, "the message of %s keeps changing its place in %s; try again",
		    d->record_id, a->keys.escape);
	return found == -1 ? -1 : 0;
}

int take_delete(struct admin *a, const struct dead_letter *d, const struct list_entry *entry)
{
	int64_t removed = 0, records = 0;

	if (entry != NULL && delete_with_message(a, d, entry, &removed) == -1)
		return -1;
	if (removed == 0) {
		redis_appendf(&a->redis, "XDEL %s %s", a->keys.log, d->record_id);
		if (admin_integer(a, &records, a->keys.log) == -1)
			return -1;
	}
	return removed == 1 ? 1 : records == 1 ? 0
	    : admin_fail(a, EX_NOINPUT, "%s has no record %s", a->keys.name, d->record_id);
}
