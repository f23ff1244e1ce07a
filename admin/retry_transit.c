/*
 * The trays of an owner that is gone, tray by tray: fenced first, then returned to ingress a page at a time. Whether it
 * is gone is for the caller to know. Each step may be interrupted, and done again by anybody.
 */
#include <stdlib.h>

#include "admin/retry.h"

#include "admin/interrupt.h"
#include "admin/pager.h"
#include "common/queue_notes.h"

#define FIRST_PAGE 16

int retry_take_moved(struct retry *t, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++) {
		int64_t moved;

		if (admin_integer(t->a, &moved, key) == -1)
			return -1;
		t->moved += moved;
		t->gone += moved == 0;
	}
	progress_show(&t->progress, t->moved);
	return 0;
}

/* It may have run: the handler is told. What was known of its age stays known. beside: what lies beside it; NULL: nothing. */
static void put_back(struct retry *t, const char *incarnation, const char *rescue, const struct queue_bytes *entry,
    const struct wrapper *beside)
{
	const struct queue_note *noted;
	struct buffer instead = {0};
	struct queue_note note;
	struct message m;
	struct wrapper w;

	message_parse(&m, entry->data, entry->len);
	w = beside == NULL ? m.wrapper : *beside;
	w.redelivered++;
	w.own_ms = w.mark_ms > 0 && w.own_ms == 0 ? w.mark_ms : w.own_ms;
	w.mark_ms = 0;
	noted = queue_remember(&t->a->keys, &m, &w, &instead, &note);
	queue_return(&t->a->redis, &t->a->keys, incarnation, rescue, &m, &instead, noted);
	buffer_free(&instead);
}

static int put_back_page(struct retry *t, const char *incarnation, const char *rescue, const struct page *page)
{
	struct redis_reply notes = { .type = REDIS_NIL };
	void *kept = NULL;

	if (t->a->keys.shared && page->n > 0) {
		queue_notes(&t->a->redis, &t->a->keys, page->entries, page->n);
		if (admin_reply(t->a, &notes, t->a->keys.notes) == -1)
			return -1;
		kept = redis_keep(&t->a->redis);
	}
	for (size_t i = 0; i < page->n; i++) {
		struct wrapper beside;
		bool noted = queue_note_read(&notes, i, &beside);

		put_back(t, incarnation, rescue, &page->entries[i], noted ? &beside : NULL);
	}
	redis_let_go(kept);
	return retry_take_moved(t, page->n, rescue);
}

static int empty_rescue(struct retry *t, const char *incarnation, const char *rescue)
{
	struct pager pager = pager_of(FIRST_PAGE);
	int rc = 0;

	while (rc == 0 && !interrupt_asked()) {
		struct page page;
		size_t n;

		rc = page_read(t->a, rescue, 0, pager.count - 1, &page);
		if (rc == 0)
			rc = put_back_page(t, incarnation, rescue, &page);
		pager_learn(&pager, page.n, page.bytes);
		n = page.n;
		page_free(&page);
		if (n == 0)
			break;
	}
	return rc;
}

/* Fencing makes whatever its owner still sends find nothing. A rescue list that is in the way is emptied first. */
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

int retry_bare(struct retry *t)
{
	char *rescue = queue_bare_rescue_key(&t->a->keys);
	int rc = retry_tray(t, NULL, t->a->keys.transit, rescue);

	free(rescue);
	return rc;
}
