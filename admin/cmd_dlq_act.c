/* quredis dlq retry, dlq rm: one dead letter, or all. All is what retry and purge do with escape. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/bulk.h"
#include "admin/command.h"
#include "admin/confirm.h"
#include "admin/dead_letter.h"
#include "admin/outcome.h"

#include "common/alloc.h"

/* One thing is named: an ID, or --all. */
static int check(struct admin *a, const char *usage)
{
	if (a->options.all == (a->noperands > 1))
		return admin_fail(a, EX_USAGE, "usage: quredis %s", usage);
	return 0;
}

static int retry_message(struct admin *a, const struct dead_letter *d, const struct queue_bytes *raw)
{
	struct wrapper w = {0};
	struct buffer wrapped = {0};
	struct message m;
	int64_t moved;

	if (admin_server_time(a, &w.own_ms) == -1)
		return -1;
	message_parse(&m, raw->data, raw->len);
	if (a->queue != NULL && a->queue->shared)
		buffer_append(&wrapped, m.raw + m.wrapper_len, m.raw_len - m.wrapper_len);
	else
		message_wrap(&wrapped, &m, &w);
	queue_redrive(&a->redis, &a->keys, &m, &wrapped, d->record_id);
	buffer_free(&wrapped);
	if (admin_integer(a, &moved, a->keys.escape) == -1)
		return -1;
	if (moved == 0)
		return admin_fail(a, EX_NOINPUT, "the message of %s is no longer in %s", d->record_id, a->keys.escape);
	return 0;
}

static int remove_message(struct admin *a, const struct dead_letter *d, const struct queue_bytes *raw)
{
	int64_t removed;

	/* Without its message a record is removed all the same: "" is no message of this record. */
	if (raw->data == NULL)
		redis_appendf(&a->redis, "XDEL %s %s", a->keys.log, d->record_id);
	else
		queue_discard(&a->redis, &a->keys, raw, d->record_id);
	if (admin_integer(a, &removed, a->keys.escape) == -1)
		return -1;
	if (raw->data == NULL || removed == 0)
		admin_note("its message was no longer in %s; only the record is gone", a->keys.escape);
	return 0;
}

static int ask(struct admin *a, const struct dead_letter *d)
{
	char *question = alloc_format("Delete dead letter %s of %s?", d->record_id, a->keys.name);
	int rc = confirm(a, question);

	free(question);
	return rc;
}

static int act(struct admin *a, const struct dead_letter *d, bool retry)
{
	struct queue_bytes raw;
	int rc;

	if (dead_letter_message(a, d, &raw) == -1)
		return -1;
	if (retry && raw.data == NULL)
		return admin_fail(a, EX_NOINPUT, "the message of %s is no longer in %s", d->record_id, a->keys.escape);
	if (a->options.dry_run)
		rc = 0;
	else if (retry)
		rc = retry_message(a, d, &raw);
	else
		rc = ask(a, d) == -1 ? -1 : remove_message(a, d, &raw);
	free((void *)(uintptr_t)raw.data);
	return rc;
}

static int one(struct admin *a, bool retry)
{
	struct outcome o = { .action = retry ? "dlq retry" : "dlq rm", .did = retry ? "put back into ingress:" : "deleted",
		.would = retry ? "would put back into ingress:" : "would delete", .list = "escape", .count = 1 };
	struct dead_letter d;
	int rc = dead_letter_find(a, a->operands[1], &d);

	if (rc == 0)
		rc = act(a, &d, retry);
	if (rc == 0)
		outcome_say(a, &o);
	dead_letter_free(&d);
	return rc;
}

int cmd_dlq_retry(struct admin *a)
{
	if (check(a, "dlq retry QUEUE ID|--all") == -1)
		return -1;
	if ((a->options.given & (OPTION_CANARY | OPTION_RATE | OPTION_FAILURES)) == 0)
		return a->options.all ? bulk_retry(a, LIST_ESCAPE, "dlq retry") : one(a, true);
	if (!a->options.all)
		return admin_fail(a, EX_USAGE, "--canary, --rate and --max-failures go with --all");
	return bulk_retry_paced(a);
}

int cmd_dlq_rm(struct admin *a)
{
	if (check(a, "dlq rm QUEUE ID|--all") == -1)
		return -1;
	return a->options.all ? bulk_purge(a, LIST_ESCAPE, "dlq rm") : one(a, false);
}
