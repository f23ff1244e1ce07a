/*
 * Trays and what lies in them: memory and counts only. What is in a tray here is what is believed to be
 * in the list of the same number in Redis, less what is GONE.
 */
#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

#include "common/alloc.h"

#define KEPT_MAX (256 * 1024)	/* memory of messages that stays with an empty tray */

struct item *tray_item(struct worker *w, struct place p)
{
	return &w->trays[p.tray].items[p.item];
}

const char *tray_raw(const struct tray *t, const struct item *item)
{
	return t->bytes.data + item->at;
}

void tray_set(struct tray *t, struct item *item, enum item_state state)
{
	if (item->state == ITEM_WAITING && item->solo)
		t->solos--;
	if (state == ITEM_WAITING) {		/* it was not started after all */
		t->solos += item->solo;
		t->next = item - t->items < t->next ? (int)(item - t->items) : t->next;
	}
	t->count[item->state]--;
	t->count[state]++;
	item->state = state;
}

static bool is_solo(const char *raw, size_t len)
{
	struct message m;

	if (len < 12 || memcmp(raw, "quredis/1 w=", 12) != 0)
		return false;
	message_parse(&m, raw, len);
	return message_is_suspect(&m.wrapper);
}

void tray_add(struct worker *w, int tray, const char *raw, size_t len)
{
	struct tray *t = &w->trays[tray];

	if (t->n == t->cap) {
		t->cap = t->cap == 0 ? 4 : t->cap * 2;
		t->items = alloc_resize(t->items, (size_t)t->cap, sizeof(*t->items));
	}
	t->items[t->n++] = (struct item){ .at = t->bytes.len, .len = len, .state = ITEM_WAITING, .solo = is_solo(raw, len) };
	t->count[ITEM_WAITING]++;
	t->solos += t->items[t->n - 1].solo;
	/* With a NUL behind it, as readers of text may expect. */
	buffer_append(&t->bytes, raw, len);
	buffer_append(&t->bytes, "", 1);
	atomic_fetch_add(&w->slot->counters[COUNT_FETCHED], 1);
	batch_learn_size(w, len);
}

void tray_filled(struct worker *w, int tray)
{
	struct tray *t = &w->trays[tray];

	t->asked = t->answered = 0;
	t->state = TRAY_FILLED;
	t->notes = w->keys.shared ? NOTES_WANTED : NOTES_KNOWN;
	t->serial = ++w->fillings;
	t->started_us = 0;
	if (t->count[ITEM_GONE] == t->n)
		tray_empty(t);
}

static void free_item(struct item *item)
{
	free(item->note);
	item->note = NULL;
	if (item->outcome == NULL)
		return;
	buffer_free(&item->outcome->instead);
	buffer_free(&item->outcome->stderr_tail);
	free(item->outcome);
	item->outcome = NULL;
}

void tray_empty(struct tray *t)
{
	for (int i = 0; i < t->n; i++)
		free_item(&t->items[i]);
	t->state = TRAY_EMPTY;
	t->notes = NOTES_KNOWN;
	t->n = t->next = t->solos = t->asked = t->answered = 0;
	memset(t->count, 0, sizeof(t->count));
	t->sent = false;
	if (t->bytes.cap > KEPT_MAX)
		buffer_free(&t->bytes);
	buffer_clear(&t->bytes);
}

struct place tray_next(struct worker *w)
{
	struct tray *oldest = NULL;

	for (int i = 0; i < QUEUE_TRAYS; i++) {
		struct tray *t = &w->trays[i];

		if (t->state == TRAY_FILLED && t->count[ITEM_WAITING] > 0 && (oldest == NULL || t->serial < oldest->serial))
			oldest = t;
	}
	if (oldest == NULL || oldest->notes != NOTES_KNOWN)
		return (struct place){ -1, -1 };
	while (oldest->items[oldest->next].state != ITEM_WAITING)
		oldest->next++;		/* there is one, the count says */
	return (struct place){ (int)(oldest - w->trays), oldest->next };
}

bool tray_fetching(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].state == TRAY_FETCHING)
			return true;
	return false;
}

int tray_free(struct worker *w)
{
	for (int n = 0; n < QUEUE_TRAYS; n++) {
		int i = (w->next_tray + n) % QUEUE_TRAYS;

		if (w->trays[i].state == TRAY_EMPTY) {
			w->next_tray = (i + 1) % QUEUE_TRAYS;
			return i;
		}
	}
	return -1;
}

int tray_count(const struct worker *w, enum item_state state)
{
	int n = 0;

	for (int i = 0; i < QUEUE_TRAYS; i++)
		n += w->trays[i].count[state];
	return n;
}

bool tray_all_empty(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].state != TRAY_EMPTY)
			return false;
	return true;
}

void tray_free_all(struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		tray_empty(&w->trays[i]);
		buffer_free(&w->trays[i].bytes);
		free(w->trays[i].items);
	}
}
