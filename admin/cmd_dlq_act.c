/*
 * quredis dlq retry, dlq rm: dead letters by id, of a class, or all. All is what retry and purge do with escape; the others go
 * one after the other.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/bulk.h"
#include "admin/command.h"
#include "admin/confirm.h"
#include "admin/dead_letter.h"
#include "admin/entries.h"
#include "admin/interrupt.h"
#include "admin/outcome.h"
#include "admin/progress.h"
#include "admin/retry.h"

#include "common/alloc.h"

#define LOOKS 3			/* for a dead letter that changes its place meanwhile */

/* Which are meant: IDs, or --all. */
static int check(struct admin *a, const char *usage)
{
	if (a->options.all == (a->noperands > 1))
		return admin_fail(a, EX_USAGE, "usage: quredis %s", usage);
	if (a->options.class != NULL && !a->options.all)
		return admin_fail(a, EX_USAGE, "--class goes with --all");
	return 0;
}

static int retry_message(struct admin *a, const struct dead_letter *d, const struct list_entry *e)
{
	int64_t moved;

	if (retry_redrive_one(a, e, d->record_id, &moved) == -1)
		return -1;
	if (moved == -1)
		return admin_fail(a, EX_NOINPUT, "%s is being archived", d->record_id);
	if (moved == 0)
		return admin_fail(a, EX_NOINPUT, "the message of %s is no longer in %s", d->record_id, a->keys.escape);
	return 0;
}

static int fail_without_record(struct admin *a, const struct dead_letter *d)
{
	return admin_fail(a, EX_NOINPUT, "%s has no record %s", a->keys.name, d->record_id);
}

/* The message is gone. */
static int remove_record(struct admin *a, const struct dead_letter *d)
{
	int64_t removed;

	redis_appendf(&a->redis, "XDEL %s %s", a->keys.log, d->record_id);
	if (admin_integer(a, &removed, a->keys.log) == -1)
		return -1;
	if (removed == 0)
		return fail_without_record(a, d);
	admin_note("its message was no longer in %s; only the record is gone", a->keys.escape);
	return 0;
}

/* Deletes the message and its record; e NULL: the record alone. A large message may change its place meanwhile. */
static int remove_message(struct admin *a, const struct dead_letter *d, const struct list_entry *e)
{
	struct list_entry again = {0};
	int found = e != NULL;

	for (int i = 0; i < LOOKS && found == 1; i++) {
		struct queue_entry named = entry_name(i == 0 ? e : &again);
		int64_t removed;
		int rc;

		named.sha1 = named.at == QUEUE_ANYWHERE ? NULL : e->sha1;
		queue_discard(&a->redis, &a->keys, &named, d->record_id);
		entry_free(&again);
		rc = admin_integer(a, &removed, a->keys.escape);
		if (rc == -1 || removed == 1)
			return rc;
		if (removed == -1)
			return fail_without_record(a, d);
		found = named.at == QUEUE_ANYWHERE ? 0 : dead_letter_entry(a, d, e->at, &again);
	}
	entry_free(&again);
	if (found == 1)
		return admin_fail(a, EX_TEMPFAIL, "the message of %s keeps changing its place in %s: try again", d->record_id, a->keys.escape);
	return found == -1 ? -1 : remove_record(a, d);
}

/* What is asked of each. */
struct action {
	struct admin *a;
	bool retry;
	struct outcome outcome;
	struct progress progress;
	int status;			/* why some were left; EX_OK: none was */
	int64_t first;			/* index in escape from which a message is looked for; negative: where the one before it was */
	char newest[RECORD_ID_SIZE];	/* of all records when they were counted: what is put back may fail again meanwhile */
};

static struct action action_of(struct admin *a, bool retry)
{
	return (struct action){ .a = a, .retry = retry, .outcome = { .action = retry ? "dlq retry" : "dlq rm",
		.did = retry ? "put back into ingress:" : "deleted", .would = retry ? "would put back into ingress:" : "would delete", .list = "escape" } };
}

static int act(struct action *t, const struct dead_letter *d)
{
	struct admin *a = t->a;
	struct list_entry e;
	int found = dead_letter_entry(a, d, t->first, &e), rc = 0;

	if (found == -1)
		return -1;
	if (e.at < 0)
		t->first = e.at;
	if (t->retry && found == 0)
		rc = admin_fail(a, EX_NOINPUT, "the message of %s is no longer in %s", d->record_id, a->keys.escape);
	else if (!a->options.dry_run)
		rc = t->retry ? retry_message(a, d, &e) : remove_message(a, d, found == 1 ? &e : NULL);
	entry_free(&e);
	t->outcome.count += rc == 0;
	return rc;
}

/* One that is not there any more, because somebody else was faster, does not keep the others. */
static int leave(struct action *t, int rc)
{
	if (rc == -1 && t->a->status != EX_NOINPUT)
		return -1;
	if (rc == -1)
		t->status = EX_NOINPUT;
	return 0;
}

static int finish(struct action *t, int rc)
{
	if (rc == 0)
		t->a->status = t->status;
	/* of a single one that is not there nothing is told but that */
	if (t->outcome.count > 0 || (rc == 0 && t->status == EX_OK))
		outcome_say(t->a, &t->outcome);
	return rc == 0 && t->status == EX_OK ? 0 : -1;
}

/* ---- by id ---- */

/* Which letters are meant, each once: a record id, a message id and either again may be the same one. */
struct meant {
	char (*ids)[RECORD_ID_SIZE];
	size_t n;
};

static void mean(struct meant *m, const char *record_id)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->ids[i], record_id) == 0)
			return;
	strlcpy(m->ids[m->n++], record_id, RECORD_ID_SIZE);
}

static int find_meant(struct action *t, struct meant *m)
{
	struct admin *a = t->a;
	int rc = 0;

	for (size_t i = 1; i < a->noperands && rc == 0; i++) {
		struct dead_letter d;

		rc = dead_letter_find(a, a->operands[i], DEAD_LETTER_SHOWN, &d);
		if (rc == 0)
			mean(m, d.record_id);
		dead_letter_free(&d);
		rc = leave(t, rc);
	}
	return rc;
}

static int ask_for_ids(const struct action *t, const struct meant *m)
{
	struct admin *a = t->a;
	char *question;
	int rc;

	if (m->n == 0 || t->retry || a->options.dry_run)
		return 0;
	question = m->n == 1 ? alloc_format("Delete dead letter %s of %s?", m->ids[0], a->keys.name)
	    : alloc_format("Delete %zu dead letters of %s?", m->n, a->keys.name);
	rc = confirm(a, question);
	free(question);
	return rc;
}

static int act_on_id(struct action *t, const char *record_id)
{
	struct dead_letter d;
	int rc = dead_letter_find(t->a, record_id, DEAD_LETTER_SHOWN, &d);

	if (rc == 0)
		rc = act(t, &d);
	dead_letter_free(&d);
	return leave(t, rc);
}

static int act_on_meant(struct action *t, const struct meant *m)
{
	int rc = 0;

	interrupt_begin();
	for (size_t i = 0; i < m->n && rc == 0 && !t->outcome.interrupted; i++) {
		t->outcome.interrupted = interrupt_asked();
		rc = t->outcome.interrupted ? 0 : act_on_id(t, m->ids[i]);
	}
	rc = finish(t, rc);
	interrupt_end();
	return rc;
}

static int by_id(struct admin *a, bool retry)
{
	struct action t = action_of(a, retry);
	struct meant m = { .ids = alloc_zero(a->noperands, sizeof(*m.ids)) };
	int rc = find_meant(&t, &m);

	if (rc == 0)
		rc = ask_for_ids(&t, &m);
	if (rc == 0)
		rc = act_on_meant(&t, &m);
	free(m.ids);
	return rc;
}

/* ---- of a class ---- */

static int count_one(void *arg, const struct dead_letter *d)
{
	struct action *t = arg;

	if (t->newest[0] == '\0')
		strlcpy(t->newest, d->record_id, sizeof(t->newest));
	t->progress.total += dead_letter_is(d, "error_class", t->a->options.class);
	return 0;
}

static int act_on_one(void *arg, const struct dead_letter *d)
{
	struct action *t = arg;

	if (!dead_letter_is(d, "error_class", t->a->options.class))
		return 0;
	t->outcome.interrupted = interrupt_asked();
	if (t->outcome.interrupted)
		return 1;
	progress_show(&t->progress, t->outcome.count);
	return leave(t, act(t, d));
}

static int ask_for_class(const struct action *t, int64_t n)
{
	char *count = outcome_count(n), *question = alloc_format("%s %s of %s escape, class %s?", t->retry ? "Put back" : "Delete", count,
	    t->a->keys.name, t->a->options.class);
	int rc = n == 0 ? 0 : confirm(t->a, question);

	free(question);
	free(count);
	return rc;
}

static int by_class(struct admin *a, bool retry)
{
	struct action t = action_of(a, retry);
	int64_t n;
	int rc;

	t.first = -1;		/* records come oldest first, and list and log are in one order */
	if (dead_letter_each(a, count_one, &t) == -1)
		return -1;
	n = t.progress.total;
	if (!a->options.dry_run && ask_for_class(&t, n) == -1)
		return -1;
	interrupt_begin();
	progress_begin(&t.progress, t.outcome.action, n);
	rc = n == 0 || dead_letter_each_oldest(a, t.newest, DEAD_LETTER_SHOWN, act_on_one, &t) != -1 ? 0 : -1;
	progress_end(&t.progress);
	rc = finish(&t, rc);
	interrupt_end();
	return rc;
}

/* ---- the commands ---- */

int cmd_dlq_retry(struct admin *a)
{
	bool paced = (a->options.given & (OPTION_CANARY | OPTION_RATE | OPTION_FAILURES)) != 0;

	if (check(a, "dlq retry QUEUE ID...|--all") == -1)
		return -1;
	if (paced && (!a->options.all || a->options.class != NULL))
		return admin_fail(a, EX_USAGE, "--canary, --rate and --max-failures go with --all, and not with --class");
	if (paced)
		return bulk_retry_paced(a);
	if (a->options.class != NULL)
		return by_class(a, true);
	return a->options.all ? bulk_retry(a, LIST_ESCAPE, "dlq retry") : by_id(a, true);
}

int cmd_dlq_rm(struct admin *a)
{
	if (check(a, "dlq rm QUEUE ID...|--all") == -1)
		return -1;
	if (a->options.class != NULL)
		return by_class(a, false);
	return a->options.all ? bulk_purge(a, LIST_ESCAPE, "dlq rm") : by_id(a, false);
}
