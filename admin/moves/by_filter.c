/*
 * quredis dlq retry --all and dlq rm --all, with a filter or at a pace: an operation that a repeated command continues. selection.c takes the dead letters,
 * paced.c decides how fast.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/moves/by_filter.h"

#include "admin/moves/moves.h"
#include "admin/moves/retry.h"
#include "admin/operations/operations.h"

#include "common/base/base.h"

#define RELATIVE_MS (60 * 60 * 1000)	/* for so long after its last step an operation with a relative time is continued without a question */
#define COUNT_MS 1000			/* without a question the work begins after this time, even if not all are counted */

struct work {
	struct admin *a;
	struct filter filter;
	struct operation op;
	struct selection selection;
	struct paced paced;
	struct progress progress;
	struct outcome outcome;
	bool retry, is_paced;
};

/* ---- how many ---- */

struct counting {
	struct filter *filter;
	int64_t n, read, until_ms;
};

static int count_one(void *arg, const struct dead_letter *d)
{
	struct counting *c = arg;

	c->n += filter_matches(c->filter, d);
	return interrupt_asked() || (c->until_ms > 0 && ++c->read % 100 == 0 && clock_monotonic_ms() >= c->until_ms) ? 1 : 0;
}

/* Counts the dead letters up to the bound. *n -1: there are too many to count before the work begins. */
static int count_all(struct work *w, int64_t *n)
{
	struct counting c = { .filter = &w->filter };
	const char *fields[QUEUE_LOOK_FIELDS] = { "sha1" };	/* without a field the walk would read all of them */
	size_t nfields = filter_add_fields(&w->filter, fields, 1);
	int rc;

	if (!w->a->options.dry_run && (w->a->options.yes || !confirm_possible()))
		c.until_ms = clock_monotonic_ms() + COUNT_MS;
	rc = dead_letter_walk(w->a, &(struct dead_letter_walk){ .up = true, .from = w->op.next, .to = w->op.bound, .fields = fields, .nfields = nfields },
	    count_one, &c);
	*n = rc == 0 ? c.n : -1;
	return rc == -1 ? -1 : 0;
}

/* The newest record, or the last one before --until: what fails from now on is behind it. */
static int find_bound(struct work *w)
{
	struct redis_reply reply, newest;
	struct admin *a = w->a;

	redis_appendf(&a->redis, "XREVRANGE %s %s %s COUNT 1", a->keys.log, w->filter.until, w->filter.since);
	if (admin_reply(a, &reply, a->keys.log) == -1)
		return -1;
	if (reply.type == REDIS_ARRAY && reply.n == 0) {
		operation_set_range(&w->op, w->filter.since, "0-1");
		return 0;
	}
	newest = redis_element(&reply, 0);
	if (reply.type != REDIS_ARRAY || newest.type != REDIS_ARRAY || newest.n == 0 || redis_element(&newest, 0).type != REDIS_STRING)
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected records");
	operation_set_range(&w->op, w->filter.since, redis_element(&newest, 0).str);
	return 0;
}

/* ---- the work ---- */

/* If Redis went back meanwhile, older records may be there again: then the walk begins again. */
static int take_all(struct work *w)
{
	int rc = 1;

	do {
		selection_begin(&w->selection, &w->op, &w->filter, w->retry, w->is_paced ? &w->paced.redriven : NULL);
		if (w->is_paced) {
			w->paced.selection = &w->selection;
			w->paced.progress = &w->progress;
			rc = paced_run(w->a, &w->paced);
		} else {
			while ((rc = selection_take(&w->selection, QUEUE_TAKEN_MAX)) == 1 && !interrupt_asked())
				progress_show(&w->progress, w->op.done);
			rc = rc == -1 ? -1 : 0;
		}
		if (rc == -1 || interrupt_asked() || !w->selection.went_back)
			return rc;
		operation_rewind(&w->op);
		paced_free(&w->paced);
	} while (true);
}

/*
 * How many that match are left; -1: unknown. Those stay that the archive has claimed, and those that nothing tells apart. If the operation began before all
 * were counted, those that are left are counted now; this may take COUNT_MS.
 */
static int64_t count_left(struct work *w, bool complete)
{
	int64_t taken = w->op.done + w->selection.missing, n;
	int status = w->a->status;

	if (complete)
		return w->selection.claimed + w->selection.unsure;
	if (w->op.total >= 0)
		return w->op.total > taken ? w->op.total - taken : 0;
	if (status == EX_UNAVAILABLE)
		return -1;
	selection_step_back(&w->selection);
	if (count_all(w, &n) == -1)
		n = -1;
	w->a->status = status;
	return n;
}

static void print_outcome(struct work *w, int rc)
{
	const struct failures *f = &w->paced.failures;
	const struct outcome_operation operation = { .total = w->op.total, .done = w->op.done, .failed = w->is_paced ? w->paced.redriven.failed : -1,
		.settled = w->paced.settled,
		.same_cause = f->read > f->n[FAILURE_UNKNOWN] ? f->n[FAILURE_SAME] : -1, .failed_cause = failures_most_frequent(f),
		.complete = rc == 0 && !interrupt_asked() };

	w->outcome.operation = &operation;
	w->outcome.filtered = !filter_is_empty(&w->filter);
	w->outcome.count = w->selection.done;
	w->outcome.interrupted = rc == 0 && interrupt_asked();
	retry_note_claimed(w->selection.claimed);
	if (w->selection.missing > 0)
		admin_note("%" PRId64 " %s no longer in escape: another command took %s, or only the record was %s", w->selection.missing,
		    w->selection.missing == 1 ? "dead letter was" : "dead letters were", w->selection.missing == 1 ? "it" : "them",
		    w->retry ? "left" : "there, and was deleted");
	if (rc == 0 || w->selection.done > 0 || w->paced.stopped) {
		w->outcome.says_left = true;
		w->outcome.left = count_left(w, operation.complete);
		outcome_say(w->a, &w->outcome);
		if (operation.complete && w->op.done == 0)
			filter_suggest(&w->filter);
	}
	w->outcome.operation = NULL;
}

/* The operation stays for a repeated command unless it is complete, or stopped because messages failed again. */
static int end_or_release(struct work *w, int rc)
{
	int status = w->a->status;

	if (rc == 0 && !interrupt_asked())
		return operation_end(&w->op);
	if (w->paced.stopped)
		operation_end(&w->op);
	else if (status != EX_UNAVAILABLE)
		selection_release(&w->selection);
	w->a->status = status;
	return rc;
}

static int hold_and_take(struct work *w)
{
	int rc;

	interrupt_begin();
	if (operation_hold(&w->op) == -1) {
		interrupt_end();
		return -1;
	}
	progress_begin(&w->progress, w->outcome.action, w->op.done, w->op.total < 0 ? 0 : w->op.total);
	rc = take_all(w);
	progress_end(&w->progress);
	rc = end_or_release(w, rc);
	print_outcome(w, rc);
	if (rc == -1)		/* the console, which interrupts, would take the signal for "not complete", and begin another canary */
		interrupt_forget();
	interrupt_end();
	return rc;
}

/* The filter and the pace, as a question states them: a new string. A continued operation keeps the times of its beginning. */
static char *work_words(const struct work *w, bool continued)
{
	const char *since = continued ? w->op.since : w->filter.since, *until = continued ? w->op.bound : w->filter.until;
	char *filter = filter_words(&w->filter, since, until), *pace = w->is_paced ? paced_words(&w->paced) : alloc_string("");
	char *words = alloc_format("%s%s", filter, pace);

	free(filter);
	free(pace);
	return words;
}

char *by_filter_command(const struct admin *a, const char *action, const json_t *options)
{
	char *words = options_to_words(options, OPTION_FILTER | OPTION_PACE), *connection = connection_words(a), *command = NULL, *shown;

	if (words != NULL && words[0] != '\0')
		command = alloc_format("quredis%s %s %s --all%s", connection, action, a->keys.name, words);
	free(connection);
	free(words);
	shown = command == NULL ? NULL : visible(command, strlen(command), SIZE_MAX);
	if (command != NULL && strcmp(shown, command) != 0) {
		free(command);
		command = NULL;
	}
	free(shown);
	return command;
}

/* The command that acts on the same period whenever it is given: as by_filter_command() */
static char *absolute_command(const struct work *w)
{
	struct options o = w->a->options;
	char since[CLOCK_RFC3339_SIZE] = "", until[CLOCK_RFC3339_SIZE], *command;
	uint64_t ms = 0, serial;
	json_t *json;

	if (queue_record_id_parse(w->op.since, &ms, &serial) == 0)
		o.since = clock_rfc3339(clock_ms_of((double)ms), since);
	queue_record_id_parse(w->op.bound, &ms, &serial);
	o.until = clock_rfc3339(clock_ms_of((double)ms), until);
	o.given |= OPTION_UNTIL;
	json = options_to_json(&o, OPTION_FILTER | OPTION_PACE);
	command = by_filter_command(w->a, w->outcome.action, json);
	json_decref(json);
	return command;
}

/*
 * Without a question, an operator learns too late that "--since 2h" of yesterday is continued. A script that repeats its command after a fault does so soon.
 * If the period begins no earlier than that of now, as with "--until 30d", it holds nothing that the words do not mean now.
 */
static int check_period(struct work *w)
{
	bool earlier = w->filter.since_given != NULL && queue_record_id_compare(w->op.since, w->filter.since) < 0;
	int64_t idle_ms = 0;
	char *command;

	if (w->a->options.dry_run || !earlier || (!w->a->options.yes && confirm_possible()))
		return 0;
	if (operation_idle(&w->op, &idle_ms) == -1)
		return -1;
	if (idle_ms <= RELATIVE_MS)
		return 0;
	command = absolute_command(w);
	admin_fail(w->a, EX_USAGE, "the %s was interrupted more than an hour ago, and the same words mean another period now. To act on the earlier one%s%s; "
	    "to begin with that of now, add --anew", w->op.verb, command == NULL ? ", give its times" : ": ", command == NULL ? "" : command);
	free(command);
	return -1;
}

static int begin_to_continue(struct work *w)
{
	char stamp[CLOCK_RFC3339_SIZE], total[32] = "", *words;

	if (check_period(w) == -1)
		return -1;
	words = filter_is_relative(&w->filter) ? work_words(w, true) : alloc_string("");
	if (w->op.total >= 0)
		snprintf(total, sizeof(total), " of %" PRId64, w->op.total);
	admin_note("continues the %s begun at %s%s: %" PRId64 "%s are done", w->op.verb,
	    w->op.begun_ms == 0 ? "an unknown time" : clock_rfc3339(w->op.begun_ms, stamp), words, w->op.done, total);
	free(words);
	return 0;
}

/* For a command that takes nothing: a dry run, or a filter that matches nothing. JSON has the same members as after a run; left: -1 if not counted. */
static void print_untaken(struct work *w, int64_t left)
{
	bool json = w->a->options.json;
	const struct outcome_operation operation = { .total = w->op.total, .done = w->op.done, .failed = w->is_paced ? 0 : -1, .same_cause = -1,
		.complete = left == 0 && !w->a->options.dry_run };

	w->outcome.operation = json ? &operation : NULL;
	w->outcome.says_left = json;
	w->outcome.left = left;
	outcome_say(w->a, &w->outcome);
	w->outcome.operation = NULL;
}

static int ask_and_take(struct work *w, int64_t n, bool continued)
{
	char *words = work_words(w, continued);
	int rc = 0;

	w->outcome.count = n;
	if (n == 0 && !continued && !w->a->options.dry_run && operation_forget_earlier(&w->op) == -1) {
		rc = -1;
	} else if (w->a->options.dry_run || (n == 0 && !continued)) {
		w->outcome.what = words;
		print_untaken(w, n);
	} else {
		rc = n < 0 ? 0 : confirm_messages(w->a, w->retry ? "Move back" : "Delete", n, "escape", words);
		if (rc == 0)
			rc = hold_and_take(w);
	}
	free(words);
	return rc;
}

static int find_and_run(struct work *w)
{
	struct admin *a = w->a;
	int found = operation_find(a, w->outcome.action, &w->filter, &w->op);
	int64_t n;

	if (found == 1 && a->options.anew) {
		operation_begin_anew(&w->op);
		found = 0;
	}
	if (found == -1 || (found == 1 ? begin_to_continue(w) : find_bound(w)) == -1)
		return -1;
	n = w->op.total < 0 ? -1 : w->op.total - w->op.done;
	if (found == 0 || (w->op.total < 0 && (a->options.dry_run || !a->options.yes))) {
		if (count_all(w, &n) == -1)
			return -1;
		if (found == 0)
			operation_set_total(&w->op, n);
	}
	if (found == 0)
		filter_suggest(&w->filter);
	return ask_and_take(w, n, found == 1);
}

int by_filter_run(struct admin *a, bool retry, const struct outcome *outcome)
{
	struct work w = { .a = a, .retry = retry, .outcome = *outcome };
	int rc;

	w.is_paced = (a->options.given & OPTION_PACE) != 0;
	rc = filter_read(a, &w.filter);
	if (rc == 0 && w.is_paced)
		rc = paced_read(a, &w.paced);
	if (rc == 0)
		rc = find_and_run(&w);
	operation_free(&w.op);
	paced_free(&w.paced);
	filter_free(&w.filter);
	return rc;
}
