/*
 * quredis retry: moves messages of transit, escape or delayed back into ingress, in their order, a batch at a time. One
 * script moves each message, so the command can be interrupted anywhere and run again.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/dead_letters/dead_letters.h"
#include "admin/moves/moves.h"
#include "admin/moves/retry.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

/* ---- escape: oldest first, from the right end ---- */

/* The script finds a large message by its place, which is certain only when all moves before it are answered. */
static int redrive_each(struct retry *t, const struct entries *oldest, const struct record_brief *of, int64_t now_ms)
{
	size_t unanswered = 0;
	int64_t moved;

	for (size_t i = 0; i < oldest->n; i++) {
		struct list_entry *e = &oldest->all[i];

		if (!entry_is_large(e)) {
			take_append_redrive(t->a, e, now_ms, &of[i]);
			unanswered++;
			continue;
		}
		if (retry_take_moved(t, unanswered, t->a->keys.escape) == -1)
			return -1;
		unanswered = 0;
		e->at = -1 - t->claimed;
		if (take_redrive_placed(t->a, e, now_ms, &of[i], &moved) == -1)
			return -1;
		retry_note_moved(t, moved);
	}
	return retry_take_moved(t, unanswered, t->a->keys.escape);
}

/* A record has the sha1 of a message that a worker has read; of one above message_max it may have none. */
static int match_record(struct admin *a, struct records *records, struct list_entry *e, struct record_brief *found)
{
	bool may_have_none = e->sha1[0] == '\0';

	if (entries_sum(a, a->keys.escape, e) == -1 || records_match(a, records, e->sha1, found) == -1)
		return -1;
	return may_have_none && found->id[0] == '\0' ? records_match(a, records, "", found) : 0;
}

int retry_redrive(struct retry *t, struct records *records, const struct entries *oldest)
{
	struct record_brief *of = alloc_zero(oldest->n, sizeof(*of));
	int64_t now_ms;
	int rc = admin_seals(t->a) == -1 ? -1 : admin_server_time(t->a, &now_ms);

	/* Finds all records first, with a round trip each; then sends the moves of small messages in one write. */
	for (size_t i = 0; rc == 0 && i < oldest->n; i++)
		rc = match_record(t->a, records, &oldest->all[i], &of[i]);
	if (rc == 0)
		rc = redrive_each(t, oldest, of, now_ms);
	free(of);
	return rc;
}

/*
 * Moves as many messages as there were at the start: those that fail again meanwhile enter at the other end. It skips
 * messages that an archive has claimed. If these leave meanwhile, others are skipped in their place, so the caller
 * starts another pass.
 */
static int pass_over_escape(struct retry *t, int64_t total)
{
	struct records records;
	int rc = 0;

	records_init(&records);
	t->claimed = 0;
	while (rc == 0 && t->moved + t->gone + t->claimed < total && !interrupt_asked()) {
		int64_t left = total - t->moved - t->gone - t->claimed;
		struct entries oldest;
		size_t n;

		rc = entries_read(t->a, t->a->keys.escape, -1 - t->claimed, true, left, &oldest);
		if (rc == 0)
			rc = retry_redrive(t, &records, &oldest);
		n = oldest.n;
		entries_free(&oldest);
		if (n == 0)
			break;
	}
	records_free(&records);
	return rc;
}

static int retry_escape(struct retry *t, int64_t total)
{
	int64_t before;
	int rc;

	do {
		before = t->moved;
		rc = pass_over_escape(t, total);
	} while (rc == 0 && t->claimed > 0 && t->moved > before && !interrupt_asked());
	if (t->claimed > 0)
		admin_note("%" PRId64 " messages are being archived and were left", t->claimed);
	return rc;
}

/* ---- transit: messages that no live worker holds ---- */

static int retry_transit(struct retry *t, const struct lists *l)
{
	int rc = 0;

	/* An owner whose lease has run out never gets it back: its worker takes a new incarnation. */
	for (size_t i = 0; rc == 0 && i < l->nworkers; i++)
		if (l->owners[i].total > 0 && (!l->owners[i].alive || t->a->options.force))
			rc = retry_owner(t, l->workers[i].incarnation);
	if (rc == 0 && l->aside > 0 && !interrupt_asked())
		rc = retry_aside(t);
	if (rc == -1 || interrupt_asked() || !lists_bare_is_free(t->a))
		return rc;
	return retry_bare(t);
}

/* ---- delayed: first due first ---- */

/* *n: the number of messages that left delayed */
static int take_due(struct admin *a, int64_t *n)
{
	struct queue_due_moved due;
	struct redis_reply reply;

	if (admin_reply(a, &reply, a->keys.delayed) == -1)
		return -1;
	if (queue_due_moved(&reply, &due) == -1)
		return admin_fail(a, EX_PROTOCOL, "unexpected reply type from Redis");
	if (due.lost > 0)
		admin_note("warning: %" PRId64 " delayed messages were deleted, because the lists that held their "
		    "payloads no longer exist", due.lost);
	*n = due.moved + due.lost;
	return 0;
}

/* As take_due(). */
static int hurry_pushed(struct admin *a, int limit, int64_t *n)
{
	queue_pushed(&a->redis, &a->keys, true, limit, limit);
	return take_due(a, n);
}

/* As take_due(). */
static int hurry_batch(struct admin *a, int limit, int64_t *n)
{
	struct redis_reply first;
	void *kept;

	queue_glance_delayed(&a->redis, &a->keys, 0, limit - 1);
	if (admin_reply(a, &first, a->keys.delayed) == -1)
		return -1;
	kept = redis_keep(&a->redis);
	queue_due(&a->redis, &a->keys, true, limit, &first);
	redis_let_go(kept);
	return take_due(a, n);
}

static int hurry_all(struct retry *t, int64_t total, int (*hurry)(struct admin *a, int limit, int64_t *n))
{
	while (t->moved < total && !interrupt_asked()) {
		int64_t left = total - t->moved, n = 0;

		if (hurry(t->a, left < ENTRIES_MAX ? (int)left : ENTRIES_MAX, &n) == -1)
			return -1;
		if (n == 0)
			break;
		t->moved += n;
		progress_show(&t->progress, t->moved);
	}
	return 0;
}

/* ---- the whole list ---- */

static int retry_list(struct retry *t, enum admin_list list, const struct lists *l, int64_t total)
{
	if (list == LIST_TRANSIT)
		return retry_transit(t, l);
	if (list == LIST_ESCAPE)
		return retry_escape(t, total);
	if (hurry_all(t, total, hurry_batch) == -1)
		return -1;
	/* Also what producers delayed. If their key has another type, it has no message. */
	return l->pushed == 0 ? 0 : hurry_all(t, total, hurry_pushed);
}

struct outcome retry_outcome(const char *action, const char *list)
{
	bool escaped = strcmp(list, admin_list_name(LIST_ESCAPE)) == 0;

	return (struct outcome){ .action = action, .did = escaped ? "retried" : "moved back to ingress:",
		.would = escaped ? "would retry" : "would move back to ingress:", .list = list };
}

static int retry_all(struct admin *a, enum admin_list list, const struct lists *l, struct outcome *o)
{
	struct retry t = { .a = a };
	int64_t total = o->count;
	char *what;
	int rc;

	if (confirm_messages(a, "Move", total, o->list, " back to ingress") == -1)
		return -1;
	what = alloc_format("retry %s %s", a->keys.name, o->list);
	interrupt_begin();
	progress_begin(&t.progress, what, 0, total);
	rc = retry_list(&t, list, l, total);
	progress_end(&t.progress);
	free(what);
	o->count = t.moved;
	o->interrupted = interrupt_asked() && t.moved + t.gone < total;
	o->says_left = list == LIST_ESCAPE;
	o->left = total > t.moved + t.gone ? total - t.moved - t.gone : 0;
	if (rc == -1 && t.moved > 0)
		admin_note("%" PRId64 " of %" PRId64 " messages were moved back before the error; run the command "
		    "again to continue", t.moved, total);
	return rc;
}

int retry_whole(struct admin *a, enum admin_list list, const char *action)
{
	struct outcome o = retry_outcome(action, admin_list_name(list));
	struct lists l;
	int rc = lists_read(a, &a->keys, LIST_BIT(list) | LIST_BIT(LIST_INGRESS), &l);

	if (rc == 0) {
		o.count = lists_free_messages(a, &l, list);
		o.held = list == LIST_TRANSIT ? l.transit - o.count : 0;
	}
	if (rc == 0 && !a->options.dry_run)
		rc = retry_all(a, list, &l, &o);
	lists_free(&l);
	if (rc == 0)
		outcome_say(a, &o);
	interrupt_end();
	return rc;
}

int cmd_retry(struct admin *a)
{
	enum admin_list list;

	if (a->noperands > 2)
		return single_retry(a);
	if (admin_list_parse(a, a->operands[1], LIST_BIT(LIST_TRANSIT) | LIST_BIT(LIST_ESCAPE) | LIST_BIT(LIST_DELAYED),
		&list) == -1)
		return -1;
	return retry_whole(a, list, "retry");
}
