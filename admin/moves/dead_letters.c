/*
 * quredis dlq retry, dlq rm: move dead letters back to ingress or delete them, by id, by a filter, or all. With --all
 * alone they work as retry and purge of escape do; otherwise they handle one dead letter after the other.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>
#include <jansson.h>

#include "admin/dead_letters/dead_letters.h"
#include "admin/moves/moves.h"
#include "admin/moves/retry.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"

/* A filter or a pace without --all: shows the whole command, since an operator in a hurry pastes it. */
static int fail_without_all(struct admin *a, const char *action, uint64_t given)
{
	json_t *json = options_to_json(&a->options, OPTION_FILTER | OPTION_PACE);
	char *command = by_filter_command(a, action, json);

	if (command == NULL)
		admin_fail(a, EX_USAGE, "--%s requires --all", option_of_bit(given & -given)->name);
	else
		admin_fail(a, EX_USAGE, "--%s requires --all: %s%s%s", option_of_bit(given & -given)->name, command,
		    a->options.anew ? " --anew" : "", a->options.dry_run ? " --dry-run" : "");
	json_decref(json);
	free(command);
	return -1;
}

/* The operands must name dead letters, or --all must be given, not both. action: "dlq retry" */
static int check_operands(struct admin *a, const char *action)
{
	uint64_t given = a->options.given & (OPTION_FILTER | OPTION_PACE);

	if (given != 0 && a->noperands > 1)
		return admin_fail(a, EX_USAGE, "--%s requires --all, and no ids", option_of_bit(given & -given)->name);
	if (given != 0 && !a->options.all)
		return fail_without_all(a, action, given);
	if (a->options.all == (a->noperands > 1))
		return admin_fail(a, EX_USAGE, "usage: quredis %s QUEUE ID...|--all", action);
	if (a->options.no_wait && a->options.foreground)
		return admin_fail(a, EX_USAGE, "--no-wait and --foreground exclude each other");
	if (a->options.no_wait && given == 0)
		return admin_fail(a, EX_USAGE, "--no-wait requires a filter or a pace: without one the command does "
		    "the work itself");
	return 0;
}

/* Returns 1; -1: it did not move, or an error. */
static int retry_message(struct admin *a, const struct dead_letter *d, const struct list_entry *e)
{
	struct record_brief record = dead_letter_brief(d);
	int64_t moved;

	if (e == NULL)
		return admin_fail(a, EX_NOINPUT, "the message of %s is no longer in %s", d->record_id, a->keys.escape);
	if (a->options.dry_run)
		return 1;
	if (take_redrive(a, e, &record, &moved) == -1)
		return -1;
	if (moved == -1)
		return admin_fail(a, EX_NOINPUT, "%s is being archived", d->record_id);
	if (moved == 0)
		return admin_fail(a, EX_NOINPUT, "the message of %s is no longer in %s", d->record_id, a->keys.escape);
	return 1;
}

/* Returns 1; 0: only the record was there; -1: error */
static int remove_message(struct admin *a, const struct dead_letter *d, const struct list_entry *e)
{
	int deleted = a->options.dry_run ? e != NULL : take_delete(a, d, e);

	if (deleted == 0)
		admin_note("the message of %s is no longer in %s; only the record %s deleted", d->record_id,
		    a->keys.escape, a->options.dry_run ? "would be" : "was");
	return deleted;
}

static struct outcome outcome_of(bool retry)
{
	return retry ? retry_outcome("dlq retry", "escape") :
	    (struct outcome){ .action = "dlq rm", .did = "deleted", .would = "would delete", .list = "escape" };
}

/* A retry does not change why these messages escaped, and a producer's push is judged by the same limit. */
static bool warn_of_return(const char *class)
{
	bool too_large = class != NULL && strcmp(class, "TooLarge") == 0;

	if (!too_large && (class == NULL || strcmp(class, "Undeliverable") != 0))
		return false;
	admin_note("%s: such a message becomes a dead letter again, unless %s is larger by now", class,
	    too_large ? "message_max" : "the limit of Redis in its error");
	return true;
}

/* An action on each dead letter. */
struct action {
	struct admin *a;
	bool retry;
	bool warned;			/* that a message comes back */
	struct outcome outcome;
	int status;			/* EX_NOINPUT: some dead letters were missing; else EX_OK */
};

static int act_on(struct action *t, const struct dead_letter *d)
{
	struct admin *a = t->a;
	const struct queue_bytes *class;
	struct list_entry e;
	char name[32];
	int found = dead_letter_entry(a, d, 0, &e), done;

	if (found == -1)
		return -1;
	done = (t->retry ? retry_message : remove_message)(a, d, found == 1 ? &e : NULL);
	entry_free(&e);
	t->outcome.count += done == 1;
	if (t->retry && done == 1 && !t->warned && (class = dead_letter_field(d, "error_class")) != NULL) {
		snprintf(name, sizeof(name), "%.*s", (int)class->len, (const char *)class->data);
		t->warned = warn_of_return(name);
	}
	return done == -1 ? -1 : 0;
}

/* Notes a missing dead letter and goes on: another command may have been faster. */
static int pass_over_missing(struct action *t, int rc)
{
	if (rc == -1 && t->a->status != EX_NOINPUT)
		return -1;
	if (rc == -1)
		t->status = EX_NOINPUT;
	return 0;
}

static int finish_action(struct action *t, int rc)
{
	if (rc == 0)
		t->a->status = t->status;
	/* if the only dead letter is missing, its error is enough */
	if (t->outcome.count > 0 || (rc == 0 && t->status == EX_OK))
		outcome_say(t->a, &t->outcome);
	return rc == 0 && t->status == EX_OK ? 0 : -1;
}

/* ---- by id ---- */

/* The dead letters that the operands name, each once: two operands may be the record id and the message id of the same
 * one. */
struct named {
	struct dead_letter *all;
	size_t n;
};

static bool is_named(const struct named *named, const char *record_id)
{
	for (size_t i = 0; i < named->n; i++)
		if (strcmp(named->all[i].record_id, record_id) == 0)
			return true;
	return false;
}

static int find_named(struct action *t, struct named *named)
{
	struct admin *a = t->a;

	for (size_t i = 1; i < a->noperands; i++) {
		struct dead_letter d;
		int rc = dead_letter_find(a, a->operands[i], DEAD_LETTER_SHOWN, &d);

		if (rc == 0 && !is_named(named, d.record_id))
			named->all[named->n++] = d;
		else
			dead_letter_free(&d);
		if (pass_over_missing(t, rc) == -1)
			return -1;
	}
	return 0;
}

static int confirm_named(const struct action *t, const struct named *named)
{
	struct admin *a = t->a;

	if (named->n == 0 || t->retry || a->options.dry_run)
		return 0;
	return named->n == 1 ? confirm(a, "Delete dead letter %s of %s?", named->all[0].record_id, a->keys.name)
	    : confirm(a, "Delete %zu dead letters of %s?", named->n, a->keys.name);
}

static int act_on_named(struct action *t, const struct named *named)
{
	int rc = 0;

	interrupt_begin();
	for (size_t i = 0; i < named->n && rc == 0 && !t->outcome.interrupted; i++) {
		t->outcome.interrupted = interrupt_asked();
		rc = t->outcome.interrupted ? 0 : pass_over_missing(t, act_on(t, &named->all[i]));
	}
	rc = finish_action(t, rc);
	interrupt_end();
	return rc;
}

static int by_id(struct admin *a, bool retry)
{
	struct action t = { .a = a, .retry = retry, .outcome = outcome_of(retry) };
	struct named named = { .all = alloc_zero(a->noperands, sizeof(*named.all)) };
	int rc = find_named(&t, &named);

	if (rc == 0)
		rc = confirm_named(&t, &named);
	if (rc == 0)
		rc = act_on_named(&t, &named);
	for (size_t i = 0; i < named.n; i++)
		dead_letter_free(&named.all[i]);
	free(named.all);
	return rc;
}

static int by_filter(struct admin *a, bool retry)
{
	const struct outcome outcome = outcome_of(retry);

	return by_filter_run(a, &outcome);
}

/* ---- the commands ---- */

int cmd_dlq_retry(struct admin *a)
{
	if (check_operands(a, "dlq retry") == -1)
		return -1;
	if ((a->options.given & (OPTION_FILTER | OPTION_PACE)) != 0) {
		warn_of_return(a->options.class);
		return by_filter(a, true);
	}
	return a->options.all ? retry_whole(a, LIST_ESCAPE, "dlq retry") : by_id(a, true);
}

int cmd_dlq_rm(struct admin *a)
{
	if (check_operands(a, "dlq rm") == -1)
		return -1;
	if ((a->options.given & OPTION_FILTER) != 0)
		return by_filter(a, false);
	return a->options.all ? purge_whole(a, LIST_ESCAPE, "dlq rm") : by_id(a, false);
}
