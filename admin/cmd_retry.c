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
#include "admin/retry.h"

#include "common/alloc.h"
#include "common/queue_notes.h"

#define FIRST_PAGE 16

static const char *const list_names[] = {
	[LIST_INGRESS] = "ingress", [LIST_TRANSIT] = "transit", [LIST_ESCAPE] = "escape", [LIST_DELAYED] = "delayed",
};

/* ---- escape: oldest first, from the right end ---- */

/* In a shared queue nothing need be remembered of most: only of one that would be too old at once by its own header. */
void retry_append_redrive(struct admin *a, const struct queue_bytes *entry, int64_t now_ms, const char *record_id)
{
	const struct queue_note *noted;
	struct buffer instead = {0};
	struct wrapper w = {0};
	struct queue_note note;
	struct message m;

	message_parse(&m, entry->data, entry->len);
	if (!a->keys.shared || m.ttl_ms >= 0)
		w.own_ms = now_ms;
	noted = queue_remember(&a->keys, &m, &w, &instead, &note);
	queue_redrive(&a->redis, &a->keys, &m, &instead, noted, record_id[0] != '\0' ? record_id : NULL);
	buffer_free(&instead);
}

int retry_redrive(struct retry *t, struct records *records, const struct page *page)
{
	char (*ids)[RECORD_ID_SIZE] = alloc_zero(page->n, sizeof(*ids));
	int64_t now_ms;
	int rc = admin_server_time(t->a, &now_ms);

	/* Looking for records waits for answers; the moves then go out in one write. */
	for (size_t i = page->n; rc == 0 && i-- > 0;)
		rc = records_match(t->a, records, page->entries[i].data, page->entries[i].len, ids[i]);
	if (rc == 0) {
		for (size_t i = page->n; i-- > 0;)
			retry_append_redrive(t->a, &page->entries[i], now_ms, ids[i]);
		rc = retry_take_moved(t, page->n, t->a->keys.escape);
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
			rc = retry_redrive(t, &records, &page);
		pager_learn(&pager, page.n, page.bytes);
		n = page.n;
		page_free(&page);
		if (n == 0)
			break;
	}
	records_free(&records);
	return rc;
}

/* ---- transit: what live workers do not hold ---- */

static int retry_transit(struct retry *t, const struct lists *l)
{
	int rc = 0;

	/* An owner without a lease never gets it back: it would become a new incarnation. */
	for (size_t i = 0; rc == 0 && i < l->nworkers; i++)
		if (l->owners[i].total > 0 && (!l->owners[i].alive || t->a->options.force))
			rc = retry_owner(t, l->workers[i].incarnation);
	if (rc == -1 || interrupt_asked() || !bulk_takes_bare(t->a))
		return rc;
	return retry_bare(t);
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
