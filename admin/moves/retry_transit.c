/*
 * Returns the messages of a dead owner to ingress, tray by tray: it fences the tray, then returns its messages a page
 * at a time. The caller must know that the owner is dead. Each step can be interrupted, and any later command or
 * sweeper can do it again.
 */
#include <stdlib.h>

#include <bsd/string.h>

#include "admin/moves/retry.h"

#include "admin/cli/cli.h"
#include "admin/queues/queues.h"
#include "common/base/base.h"
#include "common/queue/queue.h"

void retry_note_moved(struct retry *t, int64_t moved)
{
	t->moved += moved == 1;
	t->gone += moved == 0;
	t->claimed += moved == -1;
}

int retry_take_moved(struct retry *t, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++) {
		int64_t moved;

		if (admin_integer(t->a, &moved, key) == -1)
			return -1;
		retry_note_moved(t, moved);
	}
	progress_show(&t->progress, t->moved);
	return 0;
}

/* Returns one message as redelivered, since it may have run. Its known age is kept. beside: its note; NULL: none. */
static void put_back(struct retry *t, const char *incarnation, const char *rescue, const struct list_entry *entry,
    const struct wrapper *beside)
{
	const struct queue_entry e = entry_name(entry);
	const struct queue_note *noted;
	struct buffer line = {0};
	struct queue_note note;
	struct message m;
	struct wrapper w;

	message_parse(&m, &t->a->keys.lines, entry->head.data, entry->head.len);
	w = beside == NULL ? m.wrapper : *beside;
	w.redelivered++;
	noted = queue_remember(&t->a->keys, &m, &w, &line, &note);
	if (noted != NULL && entry_is_large(entry))
		strlcpy(note.field, entry->sha1, sizeof(note.field));	/* m has only the beginning of the message */
	queue_return(&t->a->redis, incarnation, &(struct queue_move){ .keys = &t->a->keys, .from = rescue,
	    .entry = &e, .change = &(struct queue_change){ &line, m.wrapper_len }, .note = noted });
	buffer_free(&line);
}

static void ask_notes(struct admin *a, const struct entries *page)
{
	struct queue_note *notes = alloc_zero(page->n, sizeof(*notes));
	const char **fields = alloc_zero(page->n, sizeof(*fields));

	for (size_t i = 0; i < page->n; i++) {
		const struct list_entry *e = &page->all[i];
		struct message m;

		message_parse(&m, &a->keys.lines, e->head.data, e->head.len);
		queue_note_of(&notes[i], &m, NULL);
		fields[i] = entry_is_large(e) ? e->sha1 : notes[i].field;
	}
	queue_notes_by_sha1(&a->redis, &a->keys, fields, page->n);
	free(fields);
	free(notes);
}

static int put_back_page(struct retry *t, const char *incarnation, const char *rescue, const struct entries *page)
{
	struct redis_reply notes = { .type = REDIS_NIL };
	void *kept = NULL;

	if (admin_seals(t->a) == -1)
		return -1;
	if (t->a->keys.shared && page->n > 0) {
		ask_notes(t->a, page);
		if (admin_reply(t->a, &notes, t->a->keys.notes) == -1)
			return -1;
		kept = redis_keep(&t->a->redis);
	}
	for (size_t i = 0; i < page->n; i++) {
		struct wrapper beside;
		bool noted = queue_note_read(&notes, i, &beside);

		put_back(t, incarnation, rescue, &page->all[i], noted ? &beside : NULL);
	}
	redis_let_go(kept);
	return retry_take_moved(t, page->n, rescue);
}

static int empty_rescue(struct retry *t, const char *incarnation, const char *rescue)
{
	int rc = 0;

	while (rc == 0 && !interrupt_asked()) {
		struct entries page;
		size_t n;

		rc = entries_read(t->a, rescue, 0, false, ENTRIES_MAX, &page);
		if (rc == 0)
			rc = put_back_page(t, incarnation, rescue, &page);
		n = page.n;
		entries_free(&page);
		if (n == 0)
			break;
	}
	return rc;
}

/* After the fence, commands that the owner still sends find nothing. If the rescue list is not empty, its messages are
 * returned first. */
static int retry_tray(struct retry *t, const char *incarnation, const char *source, const char *rescue)
{
	struct admin *a = t->a;
	int64_t fenced = -1;

	while (fenced == -1 && !interrupt_asked()) {
		if (empty_rescue(t, incarnation, rescue) == -1)
			return -1;
		queue_fence(&a->redis, &a->keys, incarnation, source, rescue);
		if (admin_integer(a, &fenced, source) == -1)
			return -1;
	}
	return fenced > 0 ? empty_rescue(t, incarnation, rescue) : 0;
}

int retry_owner(struct retry *t, const char *incarnation)
{
	char *rescue = queue_tray_key(&t->a->keys, incarnation, QUEUE_RESCUE);
	int rc = 0;

	for (int tray = 0; rc == 0 && tray < QUEUE_TRAYS && !interrupt_asked(); tray++) {
		char *source = queue_tray_key(&t->a->keys, incarnation, tray);

		rc = retry_tray(t, incarnation, source, rescue);
		free(source);
	}
	free(rescue);
	return rc;
}

/*
 * A command that is interrupted may not have fenced the list yet. Then its messages are still set aside, and
 * queue_aside_forget() keeps their records.
 */
int retry_aside(struct retry *t)
{
	struct admin *a = t->a;
	char *rescue = queue_bare_rescue_key(&a->keys);
	int rc = retry_tray(t, NULL, a->keys.aside, rescue);
	int64_t forgotten;

	free(rescue);
	if (rc == -1)
		return -1;
	queue_aside_forget(&a->redis, &a->keys);
	return admin_integer(a, &forgotten, a->keys.aside_log);
}

int retry_bare(struct retry *t)
{
	char *rescue = queue_bare_rescue_key(&t->a->keys);
	int rc = retry_tray(t, NULL, t->a->keys.transit, rescue);

	free(rescue);
	return rc;
}
