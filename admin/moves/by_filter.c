/*
 * quredis dlq retry --all and dlq rm --all, with a filter or at a pace: asks the operator, and gives the operation to
 * the leading sweeper (delegate.c), or does its work itself. A repeated command continues it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/moves/moves.h"

#include "admin/moves/delegate.h"
#include "admin/operations/operations.h"

#include "common/base/base.h"

/* for so long after its last step an operation with a relative time is continued without a question */
#define RELATIVE_MS (60 * 60 * 1000)
#define OWNER_MS (10 * DELEGATE_LOOK_MS)
#define OWNER_MOST_MS 10000	/* also if the clock of Redis went back */

struct by_filter {
	struct admin *a;
	struct work w;
	struct outcome outcome;
};

/* The newest record, or the last one before --until: what fails from now on is behind it. */
static int find_bound(struct by_filter *b)
{
	struct redis_reply reply, newest;
	struct admin *a = b->a;

	redis_appendf(&a->redis, "XREVRANGE %s %s %s COUNT 1", a->keys.log, b->w.filter.until, b->w.filter.since);
	if (admin_reply(a, &reply, a->keys.log) == -1)
		return -1;
	if (reply.type == REDIS_ARRAY && reply.n == 0) {
		operation_set_range(&b->w.op, b->w.filter.since, "0-1");
		return 0;
	}
	newest = redis_element(&reply, 0);
	if (reply.type != REDIS_ARRAY || newest.type != REDIS_ARRAY || newest.n == 0 ||
	    redis_element(&newest, 0).type != REDIS_STRING)
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected records");
	operation_set_range(&b->w.op, b->w.filter.since, redis_element(&newest, 0).str);
	return 0;
}

/* ---- the work ---- */

static void print_outcome(struct by_filter *b, const struct work_report *r)
{
	const struct outcome_operation operation =
	    { .id = b->w.op.id, .total = r->total, .done = r->done, .failed = r->failed, .settled = r->settled,
		.same_cause = r->same_cause, .failed_cause = r->failed_cause, .complete = r->complete };

	b->outcome.operation = &operation;
	b->outcome.filtered = !filter_is_empty(&b->w.filter);
	b->outcome.count = r->count;
	b->outcome.interrupted = r->interrupted;
	b->outcome.says_left = true;
	b->outcome.left = r->left;
	outcome_say(b->a, &b->outcome);
	b->outcome.operation = NULL;
}

/* The command that waits for the operation takes the result at its next look, and needs it more than this one. 1:
 * another command has begun the operation meanwhile; 0: it has not; -1: error */
static int leave_result_to_owner(struct by_filter *b)
{
	int64_t until_ms = clock_monotonic_ms() + OWNER_MOST_MS, now_ms = 0;
	int found = 0;

	if (b->a->options.anew || b->a->options.dry_run)
		return 0;
	while (found == 0 && b->w.op.result[0] != '\0' && clock_monotonic_ms() < until_ms) {
		if (admin_server_time(b->a, &now_ms) == -1)
			return -1;
		if (strtoll(b->w.op.result, NULL, 10) <= now_ms - OWNER_MS)
			break;
		clock_pause_ms(DELEGATE_LOOK_MS);
		found = operation_look_again(&b->w.op);
	}
	return found;
}

/*
 * The sweeper may have ended the operation after a command stopped waiting for it. The repeated command then prints
 * how, and does not begin another one: that would take what has failed again since. 1: it did; 0: there is no such
 * result
 */
static int print_result(struct by_filter *b)
{
	struct work_report r = {0};
	int64_t now_ms, at_ms;
	int rc = 0;

	if (b->a->options.anew || b->a->options.dry_run)
		return 0;
	if (b->w.op.result[0] == '\0')
		return 0;
	if (admin_server_time(b->a, &now_ms) == -1)
		return -1;
	if (strtoll(b->w.op.result, NULL, 10) >= now_ms - RELATIVE_MS &&
	    work_report_parse(b->w.op.result, 0, &r, &at_ms) == 0) {
		char stamp[CLOCK_RFC3339_SIZE];

		admin_note("a supervisor ended the %s at %s; the same command again begins another one", b->w.op.verb,
		    clock_rfc3339(at_ms, stamp));
		r.count = r.done;
		if (r.says)
			print_outcome(b, &r);
		b->a->status = r.status;
		rc = operation_forget_result(&b->w.op) == -1 || r.status != EX_OK ? -1 : 1;
	}
	work_report_free(&r);
	return rc;
}

static int do_work(struct by_filter *b)
{
	struct work_report r;
	int rc;

	interrupt_begin();
	rc = delegate_run(&b->w, &r);
	if (rc == DELEGATE_NOT)
		rc = work_run(&b->w, &r);
	if (r.says)
		print_outcome(b, &r);
	/* the console, which interrupts, would take the signal for "not complete", and begin another canary */
	if (rc == -1)
		interrupt_forget();
	interrupt_end();
	work_report_free(&r);
	return rc;
}

/* The filter and the pace, as a question states them: a new string. A continued operation keeps the times of its
 * beginning. */
static char *work_words(const struct by_filter *b, bool continued)
{
	const char *since = continued ? b->w.op.since : b->w.filter.since,
	    *until = continued ? b->w.op.bound : b->w.filter.until;
	char *filter = filter_words(&b->w.filter, since, until),
	    *pace = b->w.is_paced ? paced_words(&b->w.paced) : alloc_string("");
	char *words = alloc_format("%s%s", filter, pace);

	free(filter);
	free(pace);
	return words;
}

char *by_filter_command(const struct admin *a, const char *action, const json_t *options)
{
	char *words = options_to_words(options, OPTION_FILTER | OPTION_PACE), *connection = connection_words(a),
	    *command = NULL, *shown;

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
static char *absolute_command(const struct by_filter *b)
{
	struct options o = b->a->options;
	char since[CLOCK_RFC3339_SIZE] = "", until[CLOCK_RFC3339_SIZE], *command;
	uint64_t ms = 0, serial;
	json_t *json;

	if (queue_record_id_parse(b->w.op.since, &ms, &serial) == 0)
		o.since = clock_rfc3339(clock_ms_of((double)ms), since);
	queue_record_id_parse(b->w.op.bound, &ms, &serial);
	o.until = clock_rfc3339(clock_ms_of((double)ms), until);
	o.given |= OPTION_UNTIL;
	json = options_to_json(&o, OPTION_FILTER | OPTION_PACE);
	command = by_filter_command(b->a, b->outcome.action, json);
	json_decref(json);
	return command;
}

/*
 * Without a question, an operator learns too late that "--since 2h" of yesterday is continued. A script that repeats
 * its command after a fault does so soon. If the period begins no earlier than that of now, as with "--until 30d", it
 * holds nothing that the words do not mean now.
 */
static int check_period(struct by_filter *b)
{
	bool earlier = b->w.filter.since_given != NULL && queue_record_id_compare(b->w.op.since, b->w.filter.since) < 0;
	int64_t idle_ms = 0;
	char *command;

	if (b->a->options.dry_run || !earlier || (!b->a->options.yes && confirm_possible()))
		return 0;
	if (operation_idle(&b->w.op, &idle_ms) == -1)
		return -1;
	if (idle_ms <= RELATIVE_MS)
		return 0;
	command = absolute_command(b);
	admin_fail(b->a, EX_USAGE, "the %s was interrupted more than an hour ago, and the same words mean another "
	    "period now. To act on the earlier one%s%s; to begin with that of now, add --anew", b->w.op.verb,
	    command == NULL ? ", give its times" : ": ", command == NULL ? "" : command);
	free(command);
	return -1;
}

static int begin_to_continue(struct by_filter *b)
{
	char stamp[CLOCK_RFC3339_SIZE], total[32] = "", *words;

	if (check_period(b) == -1)
		return -1;
	words = filter_is_relative(&b->w.filter) ? work_words(b, true) : alloc_string("");
	if (b->w.op.total >= 0)
		snprintf(total, sizeof(total), " of %" PRId64, b->w.op.total);
	admin_note("continues the %s begun at %s%s: %" PRId64 "%s are done", b->w.op.verb,
	    b->w.op.begun_ms == 0 ? "an unknown time" : clock_rfc3339(b->w.op.begun_ms, stamp), words, b->w.op.done,
	    total);
	free(words);
	return 0;
}

/* For a command that takes nothing: a dry run, or a filter that matches nothing. JSON has the same members as after a
 * run; left: -1 if not counted. */
static void print_untaken(struct by_filter *b, int64_t left)
{
	bool json = b->a->options.json;
	const struct outcome_operation operation =
	    { .id = b->w.op.id, .total = b->w.op.total, .done = b->w.op.done, .failed = b->w.is_paced ? 0 : -1,
		.same_cause = -1, .complete = left == 0 && !b->a->options.dry_run };

	b->outcome.operation = json ? &operation : NULL;
	b->outcome.says_left = json;
	b->outcome.left = left;
	outcome_say(b->a, &b->outcome);
	b->outcome.operation = NULL;
}

static int ask_and_take(struct by_filter *b, int64_t n, bool continued)
{
	char *words = work_words(b, continued);
	int rc = 0;

	b->outcome.count = n;
	if (n == 0 && !continued && !b->a->options.dry_run && operation_forget_earlier(&b->w.op) == -1) {
		rc = -1;
	} else if (b->a->options.dry_run || (n == 0 && !continued)) {
		b->outcome.what = words;
		print_untaken(b, n);
	} else {
		rc = n < 0 ? 0 : confirm_messages(b->a, b->w.retry ? "Move back" : "Delete", n, "escape", words);
		if (rc == 0)
			rc = do_work(b);
	}
	free(words);
	return rc;
}

/* ---- other operations on the same dead letters ---- */

/* Both operations may mean the same record. Any program may have written the text: one that this version cannot
 * read is not named. */
static bool overlaps(const struct by_filter *b, const char *const text[OPERATION_FIELDS])
{
	const struct operation *op = &b->w.op;
	struct options other = options_none();
	json_t *json = json_loads(text[OPERATION_OPTIONS], 0, NULL);
	bool apart = !record_id_valid(text[OPERATION_BOUND]) ||
	    options_from_json(&other, json, OPTION_FILTER | OPTION_PACE) == -1 ||
	    filter_excludes(&b->w.filter, &other) ||
	    (record_id_valid(op->since) && queue_record_id_compare(text[OPERATION_BOUND], op->since) < 0) ||
	    (record_id_valid(text[OPERATION_SINCE]) && queue_record_id_compare(text[OPERATION_SINCE], op->bound) > 0);

	json_decref(json);
	return !apart;
}

static int note_if_shared(struct by_filter *b, const char *id, int64_t now_ms)
{
	const char *text[OPERATION_FIELDS];
	struct redis_reply reply;
	enum operation_state state;

	queue_operation_read(&b->a->redis, &b->a->keys, id);
	if (admin_reply(b->a, &reply, b->a->keys.operations) == -1)
		return -1;
	if (!queue_operation_parse(&reply, 0, text) || !overlaps(b, text))
		return 0;
	state = operations_state(text, now_ms);
	if (state == OPERATION_FOREGROUND || state == OPERATION_RUNNING || state == OPERATION_WAITING)
		admin_note("operation %s may take some of the same dead letters: each moves once, by one of the two. "
		    "Those that are left are counted from the beginning of this %s, so they may include some that the "
		    "other one took (quredis operations %s)", id, b->w.op.verb, b->a->keys.name);
	return 0;
}

#define OTHERS_MOST 20

static int note_others(struct by_filter *b)
{
	char ids[OTHERS_MOST][QUEUE_OPERATION_ID_SIZE];
	struct redis_reply reply;
	const char *wanted;
	size_t n = 0, at = 0;
	int64_t now_ms;

	if (admin_server_time(b->a, &now_ms) == -1)
		return -1;
	queue_operations_list(&b->a->redis, &b->a->keys, OPERATION_BOUND);
	if (admin_reply(b->a, &reply, b->a->keys.operations) == -1)
		return -1;
	while (n < OTHERS_MOST && queue_operations_listed(&reply, &at, ids[n], &wanted))
		n += strcmp(ids[n], b->w.op.id) != 0;
	for (size_t i = 0; i < n; i++)
		if (note_if_shared(b, ids[i], now_ms) == -1)
			return -1;
	return 0;
}

static int find_and_run(struct by_filter *b)
{
	struct admin *a = b->a;
	int found = work_find(&b->w, a, b->outcome.action);
	int64_t n;
	int ended;

	if (found == 0)
		found = leave_result_to_owner(b);
	if (found == 0 && (ended = print_result(b)) != 0)
		return ended == 1 ? 0 : -1;
	if (found == 1 && a->options.anew) {
		operation_begin_anew(&b->w.op);
		found = 0;
	}
	if (found == -1 || (found == 1 ? begin_to_continue(b) : find_bound(b)) == -1)
		return -1;
	n = b->w.op.total < 0 ? -1 : b->w.op.total - b->w.op.done;
	if (found == 0 || (b->w.op.total < 0 && (a->options.dry_run || !a->options.yes))) {
		if (work_count(&b->w, &n) == -1)
			return -1;
		if (found == 0)
			operation_set_total(&b->w.op, n);
	}
	if (found == 0)
		filter_suggest(&b->w.filter);
	if (note_others(b) == -1)
		return -1;
	return ask_and_take(b, n, found == 1);
}

int by_filter_run(struct admin *a, const struct outcome *outcome)
{
	struct by_filter b = { .a = a, .outcome = *outcome };
	int rc = find_and_run(&b);

	work_free(&b.w);
	return rc;
}
