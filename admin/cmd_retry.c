/*
 * quredis retry: messages of transit, escape or delayed back into ingress, in their order, a batch
 * at a time. Each is moved by a script of its own, so it can be interrupted anywhere and run again.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sysexits.h>

#include "admin/bulk.h"
#include "admin/command.h"
#include "admin/confirm.h"
#include "admin/interrupt.h"
#include "admin/lists.h"
#include "admin/outcome.h"
#include "admin/pager.h"
#include "admin/progress.h"
#include "admin/records.h"

#include "common/alloc.h"

#define FIRST_PAGE 16

struct retry {
	struct admin *a;
	struct progress progress;
	int64_t moved;
	int64_t gone;		/* another moved them meanwhile */
};

static const char *const list_names[] = {
	[LIST_INGRESS] = "ingress", [LIST_TRANSIT] = "transit", [LIST_ESCAPE] = "escape", [LIST_DELAYED] = "delayed",
};

static bool shared(const struct admin *a)
{
	return a->queue != NULL && a->queue->shared;
}

/* Takes one answer a message of the page: 1 moved, 0 another moved it. */
static int take_moved(struct retry *t, size_t n, const char *key)
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

/* ---- escape: oldest first, from the right end ---- */

/* What comes back is a new message to the queue: nothing charged, waiting since now. */
static void redrive(struct retry *t, const struct queue_bytes *entry, int64_t now_ms, const char *record_id)
{
	struct wrapper w = { .own_ms = now_ms };
	struct buffer wrapped = {0};
	struct message m;

	message_parse(&m, entry->data, entry->len);
	if (shared(t->a))
		buffer_append(&wrapped, m.raw + m.wrapper_len, m.raw_len - m.wrapper_len);
	else
		message_wrap(&wrapped, &m, &w);
	queue_redrive(&t->a->redis, &t->a->keys, &m, &wrapped, record_id[0] != '\0' ? record_id : NULL);
	buffer_free(&wrapped);
}

static int redrive_page(struct retry *t, struct records *records, const struct page *page)
{
	char (*ids)[RECORD_ID_SIZE] = alloc_zero(page->n, sizeof(*ids));
	int64_t now_ms;
	int rc = admin_server_time(t->a, &now_ms);

	/* Looking for records waits for answers; the moves then go out in one write. */
	for (size_t i = page->n; rc == 0 && i-- > 0;)
		rc = records_match(t->a, records, page->entries[i].data, page->entries[i].len, ids[i]);
	if (rc == 0) {
		for (size_t i = page->n; i-- > 0;)
			redrive(t, &page->entries[i], now_ms, ids[i]);
		rc = take_moved(t, page->n, t->a->keys.escape);
	}
	free(ids);
	return rc;
}

/* As many as there were at the start: what fails again meanwhile comes in at the other end. */
static int retry_escape(struct retry *t, int64_t total)
{
	struct pager pager = pager_of(FIRST_PAGE);
	struct records records;
	int rc = 0;

	records_init(&records);
	while (rc == 0 && t->moved + t->gone < total && !interrupt_asked()) {
		int64_t left = total - t->moved - t->gone, want = pager.count < left ? pager.count : left;
		struct page page;
		size_t n;

		rc = page_read(t->a, t->a->keys.escape, -want, -1, &page);
		if (rc == 0)
			rc = redrive_page(t, &records, &page);
		pager_learn(&pager, page.n, page.bytes);
		n = page.n;
		page_free(&page);
		if (n == 0)
			break;
	}
	records_free(&records);
	return rc;
}

/* ---- transit: tray by tray, each fenced first ---- */

/* It may have run: the handler is told. What was known of its age stays known. */
static void put_back(struct retry *t, const char *incarnation, const char *rescue, const struct queue_bytes *entry)
{
	struct buffer instead = {0};
	struct message m;
	struct wrapper w;

	message_parse(&m, entry->data, entry->len);
	w = m.wrapper;
	w.redelivered++;
	w.own_ms = w.mark_ms > 0 && w.own_ms == 0 ? w.mark_ms : w.own_ms;
	w.mark_ms = 0;
	if (shared(t->a))
		buffer_append(&instead, m.raw + m.wrapper_len, m.raw_len - m.wrapper_len);
	else
		message_wrap(&instead, &m, &w);
	queue_return(&t->a->redis, &t->a->keys, incarnation, rescue, &m, &instead);
	buffer_free(&instead);
}

static int empty_rescue(struct retry *t, const char *incarnation, const char *rescue)
{
	struct pager pager = pager_of(FIRST_PAGE);
	int rc = 0;

	while (rc == 0 && !interrupt_asked()) {
		struct page page;
		size_t n;

		rc = page_read(t->a, rescue, 0, pager.count - 1, &page);
		for (size_t i = 0; i < page.n; i++)
			put_back(t, incarnation, rescue, &page.entries[i]);
		if (rc == 0)
			rc = take_moved(t, page.n, rescue);
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

static int retry_owner(struct retry *t, const char *incarnation)
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

static int retry_transit(struct retry *t, const struct lists *l)
{
	char *rescue;
	int rc = 0;

	/* An owner without a lease never gets it back: it would become a new incarnation. */
	for (size_t i = 0; rc == 0 && i < l->nworkers; i++)
		if (l->owners[i].total > 0 && (!l->owners[i].alive || t->a->options.force))
			rc = retry_owner(t, l->workers[i].incarnation);
	if (rc == -1 || interrupt_asked() || !bulk_takes_bare(t->a))
		return rc;
	rescue = queue_bare_rescue_key(&t->a->keys);
	rc = retry_tray(t, NULL, t->a->keys.transit, rescue);
	free(rescue);
	return rc;
}

/* ---- delayed: what is due first comes first ---- */

static int retry_delayed(struct retry *t, int64_t total)
{
	while (t->moved < total && !interrupt_asked()) {
		int64_t left = total - t->moved, n;

		queue_hurry(&t->a->redis, &t->a->keys, left < PAGER_MAX ? (int)left : PAGER_MAX);
		if (admin_integer(t->a, &n, t->a->keys.delayed) == -1)
			return -1;
		if (n == 0)
			break;
		t->moved += n;
		progress_show(&t->progress, t->moved);
	}
	return 0;
}

/* ---- all of it ---- */

static int64_t total_of(const struct admin *a, const struct lists *l, enum admin_list list)
{
	if (list == LIST_TRANSIT)
		return bulk_transit_total(a, l);
	return list == LIST_ESCAPE ? l->escape : l->delayed;
}

static int run(struct retry *t, enum admin_list list, const struct lists *l, int64_t total)
{
	if (list == LIST_TRANSIT)
		return retry_transit(t, l);
	return list == LIST_ESCAPE ? retry_escape(t, total) : retry_delayed(t, total);
}

static int ask(struct admin *a, const char *list, int64_t n)
{
	char *count = outcome_count(n), *question = alloc_format("Put %s of %s %s back into ingress?", count, a->keys.name, list);
	int rc = n == 0 ? 0 : confirm(a, question);

	free(question);
	free(count);
	return rc;
}

static int retry(struct admin *a, enum admin_list list, const struct lists *l, struct outcome *o)
{
	struct retry t = { .a = a };
	int64_t total = o->count;
	char *what;
	int rc;

	if (ask(a, o->list, total) == -1)
		return -1;
	what = alloc_format("retry %s %s", a->keys.name, o->list);
	interrupt_begin();
	progress_begin(&t.progress, what, total);
	rc = run(&t, list, l, total);
	progress_end(&t.progress);
	free(what);
	o->count = t.moved;
	o->interrupted = interrupt_asked() && t.moved + t.gone < total;
	if (rc == -1 && t.moved > 0)
		admin_note("%" PRId64 " of %" PRId64 " messages were put back before that; run it again to go on", t.moved, total);
	return rc;
}

int bulk_retry(struct admin *a, enum admin_list list, const char *action)
{
	struct outcome o = { .action = action, .did = "put back into ingress:", .would = "would put back into ingress:",
		.list = list_names[list] };
	struct lists l;
	int rc = lists_read(a, &a->keys, LIST_BIT(list) | LIST_BIT(LIST_INGRESS), &l);

	if (rc == 0) {
		o.count = total_of(a, &l, list);
		o.held = list == LIST_TRANSIT ? l.transit - o.count : 0;
	}
	if (rc == 0 && !a->options.dry_run)
		rc = retry(a, list, &l, &o);
	lists_free(&l);
	if (rc == 0)
		outcome_say(a, &o);
	interrupt_end();
	return rc;
}

int cmd_retry(struct admin *a)
{
	enum admin_list list;

	if (admin_list_parse(a, a->operands[1], LIST_BIT(LIST_TRANSIT) | LIST_BIT(LIST_ESCAPE) | LIST_BIT(LIST_DELAYED),
		&list) == -1)
		return -1;
	return bulk_retry(a, list, "retry");
}
