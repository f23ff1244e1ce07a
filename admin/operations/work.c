/*
 * Does the long work on dead letters: selection.c takes them, paced.c decides how fast, operation.c notes in Redis how
 * far it is. What it did becomes a report, which the command prints; a sweeper's process leaves it in Redis for the
 * command that waits.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/operations/work.h"

#include "common/base/base.h"

/* without a question the work begins after this time, even if not all are counted */
#define COUNT_MS 1000

/* Filter and pace as JSON: a new string. Each spelling of a pace gives the same text, by which commands compare it.
 * NULL: they are not UTF-8 */
static char *options_text(const struct work *w)
{
	struct options o = w->a->options;
	json_t *json;
	char *text;

	if (w->is_paced)
		paced_spell(&w->paced, &o);
	json = options_to_json(&o, OPTION_FILTER | OPTION_PACE);
	text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
	json_decref(json);
	return text;
}

int work_find(struct work *w, struct admin *a, const char *action)
{
	*w = (struct work){ .a = a, .action = action, .retry = strcmp(action, "dlq retry") == 0,
	    .is_paced = (a->options.given & OPTION_PACE) != 0 };
	if (filter_read(a, &w->filter) == -1 || (w->is_paced && paced_read(a, &w->paced) == -1))
		return -1;
	return operation_find(a, action, &w->filter, options_text(w), &w->op);
}

void work_free(struct work *w)
{
	operation_free(&w->op);
	paced_free(&w->paced);
	filter_free(&w->filter);
}

/* ---- how many ---- */

struct counting {
	struct filter *filter;
	int64_t n, read, until_ms;
};

static int count_one(void *arg, const struct dead_letter *d)
{
	struct counting *c = arg;

	c->n += filter_matches(c->filter, d);
	return interrupt_asked() || (c->until_ms > 0 && ++c->read % 100 == 0 && clock_monotonic_ms() >= c->until_ms) ? 1
	    : 0;
}

int work_count(struct work *w, int64_t *n)
{
	struct counting c = { .filter = &w->filter };
	const char *fields[QUEUE_LOOK_FIELDS] = { "sha1" };	/* without a field the walk would read all of them */
	size_t nfields = filter_add_fields(&w->filter, fields, 1);
	int rc;

	if (!w->a->options.dry_run && (w->a->options.yes || !confirm_possible()))
		c.until_ms = clock_monotonic_ms() + COUNT_MS;
	rc = dead_letter_walk(w->a, &(struct dead_letter_walk){ .up = true, .from = w->op.next, .to = w->op.bound,
	    .fields = fields, .nfields = nfields }, count_one, &c);
	*n = rc == 0 ? c.n : -1;
	return rc == -1 ? -1 : 0;
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
 * How many that match are left; -1: unknown. Those stay that the archive has claimed, and those that nothing tells
 * apart. If the operation began before all were counted, those that are left are counted now; this may take COUNT_MS.
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
	if (work_count(w, &n) == -1)
		n = -1;
	w->a->status = status;
	return n;
}

static void note_others(const struct work *w)
{
	int64_t missing = w->selection.missing;

	if (w->selection.claimed > 0)
		admin_note("%" PRId64 " messages are being archived and were left", w->selection.claimed);
	if (missing > 0)
		admin_note("%" PRId64 " %s no longer in escape: another command took %s, or only the record was %s",
		    missing,
		    missing == 1 ? "dead letter was" : "dead letters were", missing == 1 ? "it" : "them",
		    w->retry ? "left" : "there, and was deleted");
}

static void report(struct work *w, int rc, struct work_report *r)
{
	const struct failures *f = &w->paced.failures;
	const char *cause = failures_most_frequent(f);

	*r = (struct work_report){ .status = rc == 0 ? EX_OK : w->a->status,
		.says = rc == 0 || w->selection.done > 0 || w->paced.stopped,
		.complete = rc == 0 && !interrupt_asked(), .interrupted = rc == 0 && interrupt_asked(),
		.settled = w->paced.settled,
		.count = w->selection.done, .total = w->op.total, .done = w->op.done,
		.failed = w->is_paced ? w->paced.redriven.failed : -1,
		.same_cause = f->read > f->n[FAILURE_UNKNOWN] ? f->n[FAILURE_SAME] : -1,
		.failed_cause = cause == NULL ? NULL : alloc_string(cause) };
	note_others(w);
	if (r->says)
		r->left = count_left(w, r->complete);
	if (r->complete && w->op.done == 0)
		filter_suggest(&w->filter);
}

/*
 * The operation stays unless it is complete, or stopped because messages failed again. A sweeper's process leaves the
 * result before it lets go. If it is interrupted, but not by an operator, the next one continues without a result.
 */
static int end_or_release(struct work *w, int rc, const struct work_report *r)
{
	bool ends = w->paced.stopped || (rc == 0 && !interrupt_asked()),
	    reports = w->op.swept && (rc == -1 || ends || w->op.is_stopped);
	int status = w->a->status, ended = 0;
	int64_t now_ms;
	char *result = reports && admin_server_time(w->a, &now_ms) == 0 ? work_report_text(w, r, now_ms) : NULL;

	if (ends)
		ended = operation_end(&w->op, result);
	else if (rc == 0 || status != EX_UNAVAILABLE) {
		selection_step_back(&w->selection);
		operation_release(&w->op, result);
	}
	free(result);
	if (rc == 0 && ends)
		return ended;
	w->a->status = status;
	return rc;
}

/* A sweeper's report goes with the last step. That of a command may count what is left, which takes longer than the
 * hold. */
int work_run(struct work *w, struct work_report *r)
{
	int rc;

	*r = (struct work_report){0};
	if (operation_hold(&w->op) == -1)
		return -1;
	if (!w->op.swept)
		progress_begin(&w->progress, w->action, w->op.done, w->op.total < 0 ? 0 : w->op.total);
	rc = take_all(w);
	progress_end(&w->progress);
	if (w->op.swept)
		report(w, rc, r);
	rc = end_or_release(w, rc, r);
	if (!w->op.swept)
		report(w, rc, r);
	return rc;
}

/* ---- reports ---- */

const char *work_error(const char *notes, size_t *len)
{
	static const char prefix[] = "quredis: ";

	for (const char *at = notes; *at != '\0'; at += strcspn(at, "\n"), at += *at == '\n')
		if (strncmp(at, prefix, strlen(prefix)) == 0) {
			*len = strcspn(at, "\n") - strlen(prefix);
			return at + strlen(prefix);
		}
	return NULL;
}

char *work_report_text(const struct work *w, const struct work_report *r, int64_t at_ms)
{
	const struct buffer *notes = w->notes;
	json_t *cause = r->failed_cause == NULL ? NULL : json_string(r->failed_cause);	/* NULL: not UTF-8 */
	json_t *lines = notes->len == 0 ? json_string("") : json_stringn(notes->data, notes->len);
	json_t *all = json_pack("{s:I, s:i, s:b, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o*, s:o*}",
	    "begun", (json_int_t)w->op.begun_ms,
	    "status", r->status, "says", r->says,
	    "complete", r->complete, "interrupted", r->interrupted, "settled", r->settled,
	    "count", (json_int_t)r->count, "total", (json_int_t)r->total,
	    "done", (json_int_t)r->done, "failed", (json_int_t)r->failed, "same_cause", (json_int_t)r->same_cause,
	    "left", (json_int_t)r->left, "failed_cause", cause, "notes", lines);
	char *json = json_dumps(all, JSON_COMPACT), *text = alloc_format("%" PRId64 " %s", at_ms, json);

	free(json);
	json_decref(all);
	return text;
}

static void print_notes(const char *notes)
{
	char *all = alloc_string(notes), *rest = all, *line;

	while ((line = strsep(&rest, "\n")) != NULL)
		if (*line != '\0')
			notice_print("", "%s", line);
	free(all);
}

/* least: 0, or -1 if it may be unknown */
static bool is_figure(json_int_t n, json_int_t least)
{
	return n >= least && n <= OPERATION_FIGURE_MAX;
}

int work_report_parse(const char *text, int64_t begun_ms, struct work_report *r, int64_t *at_ms)
{
	const char *json = strchr(text, ' '), *cause = NULL, *notes = NULL;
	json_t *all = json == NULL ? NULL : json_loads(json, 0, NULL);
	int says = 0, complete = 0, interrupted = 0, settled = 0;
	json_int_t begun, count, total, done, failed, same_cause, left;
	int rc;

	*r = (struct work_report){0};
	*at_ms = strtoll(text, NULL, 10);
	rc = all == NULL ? -1 : json_unpack(all,
	    "{s:I, s:i, s:b, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s?s, s?s}",
	    "begun", &begun,
	    "status", &r->status, "says", &says,
	    "complete", &complete, "interrupted", &interrupted, "settled", &settled, "count", &count, "total", &total,
	    "done", &done, "failed", &failed,
	    "same_cause", &same_cause, "left", &left, "failed_cause", &cause, "notes", &notes);
	if (rc == 0 && begun_ms != 0 && begun != begun_ms)
		rc = -1;
	if (rc == 0 && (r->status < 0 || r->status > 255 || *at_ms < 0 || *at_ms > OPERATION_TIME_MAX_MS ||
	    !is_figure(count, 0) || !is_figure(total, -1) ||
	    !is_figure(done, 0) || !is_figure(failed, -1) || !is_figure(same_cause, -1) || !is_figure(left, -1)))
		rc = -1;
	if (rc == 0) {
		*r = (struct work_report){ .status = r->status, .says = says, .complete = complete,
			.interrupted = interrupted, .settled = settled,
			.count = count, .total = total, .done = done, .failed = failed, .same_cause = same_cause,
			.left = left,
			.failed_cause = cause == NULL ? NULL : alloc_string(cause) };
		print_notes(notes == NULL ? "" : notes);
	}
	json_decref(all);
	return rc;
}

int64_t work_report_begun(const char *text)
{
	const char *json = strchr(text, ' ');
	json_t *all = json == NULL ? NULL : json_loads(json, 0, NULL), *begun = json_object_get(all, "begun");
	int64_t ms = json_is_integer(begun) ? json_integer_value(begun) : -1;

	json_decref(all);
	return ms;
}

void work_report_free(struct work_report *r)
{
	free(r->failed_cause);
	r->failed_cause = NULL;
}
