/*
 * Trays and what lies in them: memory and counts only. What is in a tray here is what is believed to be
 * in the list of the same number in Redis, less what is GONE.
 */
#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

#include "common/alloc.h"

/*
 * Memory of messages that stays with an empty tray: all of a batch (about 1 MiB, batch.c), since for the next batch the kernel
 * would have to clear each page anew. When no message comes, less.
 */
#define KEPT_MAX (2 * 1024 * 1024)
#define KEPT_IDLE_MAX (256 * 1024)
#define COPIED_MAX (64 * 1024)	/* a message up to this size is copied into its tray's bytes */

struct item *tray_item(struct worker *w, struct place p)
{
	return &w->trays[p.tray].items[p.item];
}

const char *tray_raw(const struct tray *t, const struct item *item)
{
	return item->kept == NULL ? t->bytes.data + item->at : item->kept_raw;
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

/* A handler reads its message from these bytes until it ends (common/handler.h, common/persistent.h). So they must not move: keep them, and let a copy grow. */
static void keep_for_running(struct tray *t, size_t more)
{
	struct buffer copy = {0};

	if (t->count[ITEM_RUNNING] == 0 || t->bytes.cap - t->bytes.len >= more)
		return;
	buffer_append(&copy, t->bytes.data, t->bytes.len);
	t->outgrown = alloc_resize(t->outgrown, t->noutgrown + 1, sizeof(*t->outgrown));
	t->outgrown[t->noutgrown++] = t->bytes;
	t->bytes = copy;
}

static void free_outgrown(struct tray *t)
{
	for (size_t i = 0; i < t->noutgrown; i++)
		buffer_free(&t->outgrown[i]);
	free(t->outgrown);
	t->outgrown = NULL;
	t->noutgrown = 0;
}

/* Reads what the wrapper says of the message. For a message without one this costs one comparison. */
static void read_wrapper(const struct worker *w, struct tray *t, struct item *item, const char *raw)
{
	struct message m;

	if (!message_may_be_wrapped(raw, item->len))
		return;
	message_parse(&m, &w->keys.lines, raw, item->len);
	item->solo = message_is_suspect(&m.wrapper);
	t->doubtful = t->doubtful || m.doubtful;
}

/* Adds an item whose bytes the caller provides. */
static struct item *append_item(struct worker *w, struct tray *t, const char *raw, size_t len)
{
	struct item *item;

	if (t->n == t->cap) {
		t->cap = t->cap == 0 ? 4 : t->cap * 2;
		t->items = alloc_resize(t->items, (size_t)t->cap, sizeof(*t->items));
	}
	item = &t->items[t->n++];
	*item = (struct item){ .at = t->bytes.len, .len = len, .state = ITEM_WAITING };
	t->count[ITEM_WAITING]++;
	read_wrapper(w, t, item, raw);
	t->solos += item->solo;
	atomic_fetch_add(&w->slot->counters[COUNT_FETCHED], 1);
	batch_learn_size(w, len);
	return item;
}

void tray_add(struct worker *w, int tray, const char *raw, size_t len)
{
	struct tray *t = &w->trays[tray];

	append_item(w, t, raw, len);
	keep_for_running(t, len + 1);
	/* With a NUL behind it, as readers of text may expect. */
	buffer_append(&t->bytes, raw, len);
	buffer_append(&t->bytes, "", 1);
}

void tray_add_reply(struct worker *w, int tray, const struct redis_reply *reply)
{
	struct item *item;

	if (reply->len <= COPIED_MAX) {
		tray_add(w, tray, reply->str, reply->len);
		return;
	}
	item = append_item(w, &w->trays[tray], reply->str, reply->len);
	item->kept_raw = reply->str;
	item->kept = redis_keep(&w->redis);
}

void tray_filled(struct worker *w, int tray)
{
	struct tray *t = &w->trays[tray];

	t->asked = t->answered = 0;
	t->state = TRAY_FILLED;
	t->notes = w->keys.shared || t->doubtful ? NOTES_WANTED : NOTES_KNOWN;
	t->serial = ++w->fillings;
	t->started_us = 0;
	if (t->count[ITEM_GONE] == t->n)
		tray_empty(t);
}

void tray_secrets_learnt(struct worker *w, int tray)
{
	struct tray *t = &w->trays[tray];

	for (int i = 0; i < t->n; i++) {
		struct item *item = &t->items[i];

		if (item->state != ITEM_WAITING || item->solo)
			continue;
		item->sha1[0] = '\0';		/* what was taken for payload may be a wrapper */
		read_wrapper(w, t, item, tray_raw(t, item));
		t->solos += item->solo;
	}
	t->doubtful = false;
}

static void free_item(struct item *item)
{
	free(item->note);
	item->note = NULL;
	redis_let_go(item->kept);
	item->kept = NULL;
	if (item->outcome == NULL)
		return;
	buffer_free(&item->outcome->line);
	buffer_free(&item->outcome->stderr_tail);
	free(item->outcome);
	item->outcome = NULL;
}

void tray_empty(struct tray *t)
{
	for (int i = 0; i < t->n; i++)
		free_item(&t->items[i]);
	free_outgrown(t);
	t->state = TRAY_EMPTY;
	t->notes = NOTES_KNOWN;
	t->n = t->next = t->solos = t->asked = t->answered = 0;
	memset(t->count, 0, sizeof(t->count));
	t->sent = t->mixed = t->doubtful = false;
	if (t->bytes.cap > KEPT_MAX)
		buffer_free(&t->bytes);
	buffer_clear(&t->bytes);
}

void tray_free_memory(struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].state == TRAY_EMPTY && w->trays[i].bytes.cap > KEPT_IDLE_MAX)
			buffer_free(&w->trays[i].bytes);
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
