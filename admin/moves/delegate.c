/*
 * Gives an operation to the leading sweeper and waits for it. The sweeper works on it whether this command waits or
 * not: it shows how far the work is, and prints the result that the sweeper leaves in Redis. If no sweeper begins
 * within a while, the command takes the operation back and does the work itself.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "admin/moves/delegate.h"

#include "admin/moves/leader.h"
#include "common/base/base.h"

/* an idle sweeper looks every 4 s; one that does not begin by then is of an older version, or may not */
#define BEGIN_MS 10000
#define STOP_MS 15000		/* for an operation to stop between two steps */

struct wait {
	struct work *w;
	struct work_report *r;
	int64_t before;			/* how many were done when this command began */
	int64_t at_ms;			/* CLOCK_MONOTONIC: a process held it last, or the wait began */
	int64_t stop_at_ms;		/* CLOCK_MONOTONIC: this command stopped it; 0: it has not */
	char *seen;			/* the result of an earlier run, which was there before; owned */
	struct leader leader;
	int64_t begin_ms;		/* the most until a process begins */
};

/* ---- giving ---- */

/* No supervisor can have it. 0: the command does the work; -1: it may not */
static int keep(struct admin *a, const char *why)
{
	if (a->options.no_wait)
		return admin_fail(a, EX_UNAVAILABLE, "%s: nothing was ordered. Start quredisd, or run the command "
		    "without --no-wait: it does the work itself then, and has to run until the end", why);
	admin_note("%s: this command does the work itself, and has to run until the end", why);
	return 0;
}

/* 1: it is possible; 0: the command does the work; -1: error */
static int may_give(struct wait *t)
{
	struct admin *a = t->w->a;
	char *why;
	int rc = 1;

	if (a->options.foreground)
		rc = 0;
	else if (t->w->op.options == NULL)
		rc = keep(a, "a supervisor takes no filter that is not UTF-8");
	else if (leader_look(a, &t->leader) == -1)
		rc = -1;
	else if (!t->leader.lives) {
		why = alloc_format("no supervisor works on %s", a->keys.name);
		rc = keep(a, why);
		free(why);
	} else if (!t->leader.leads) {
		t->begin_ms += t->leader.within_ms;
		admin_note("no supervisor leads %s yet: the one that lives can begin the %s within %" PRId64 " s",
		    a->keys.name, t->w->op.verb, (t->leader.within_ms + 999) / 1000);
	}
	return rc;
}

static int give(struct work *w)
{
	char *by = admin_name(w->a, 100);
	int rc = operation_hold(&w->op) == -1 ? -1 : operation_give(&w->op, by);
	free(by);
	return rc;
}

/* The sweeper works on it already. This command only waits, so it cannot have another pace. */
static int join(struct work *w, const char *options_there)
{
	if (strcmp(w->op.options, options_there) == 0)
		return 0;
	return admin_fail(w->a, EX_DATAERR,
	    "a supervisor executes this %s at another pace: quredis operations %s --stop %s stops it there",
	    w->op.verb, w->a->keys.name, w->op.id);
}

/* -1: error of Redis */
static int read_fields(struct work *w, const char *text[OPERATION_FIELDS])
{
	struct redis_reply reply;

	queue_operation_read(&w->a->redis, &w->a->keys, w->op.id);
	if (admin_reply(w->a, &reply, w->a->keys.operations) == -1)
		return -1;
	if (!queue_operation_parse(&reply, 0, text))
		return admin_fail(w->a, EX_PROTOCOL, "unexpected reply from Redis: expected an operation");
	return 0;
}

/* False: it has ended. The same command may have begun it anew meanwhile. */
static bool is_there(const struct operation *op, const char *const text[OPERATION_FIELDS])
{
	return strcmp(text[OPERATION_BOUND], op->bound) == 0 &&
	    operation_figure(text[OPERATION_BEGUN], OPERATION_TIME_MAX_MS, 0) == op->begun_ms;
}

static int give_or_join(struct wait *t)
{
	const char *text[OPERATION_FIELDS];
	struct work *w = t->w;

	if (w->op.forgets_earlier)
		return give(w);
	if (read_fields(w, text) == -1)
		return -1;
	if (strcmp(text[OPERATION_WANTED], "run") != 0 || !is_there(&w->op, text))
		return give(w);
	t->seen = alloc_string(text[OPERATION_RESULT]);
	return join(w, text[OPERATION_OPTIONS]);
}

/* ---- waiting ---- */

/* This command ends before the operation does. */
static void report_unfinished(struct wait *t)
{
	struct work *w = t->w;

	*t->r = (struct work_report){ .says = true, .total = w->op.total, .done = w->op.done,
		.count = w->op.done - t->before,
		.failed = -1, .same_cause = -1, .left = w->op.total < 0 ? -1 : w->op.total - w->op.done };
}

static int leave(struct wait *t)
{
	report_unfinished(t);
	/* the API repeats its request; people read the note below */
	t->r->interrupted = t->w->a->options.json && interrupt_asked();
	admin_note("a supervisor continues the %s: quredis operations %s shows it, with --stop %s it ends",
	    t->w->op.verb, t->w->a->keys.name, t->w->op.id);
	return 0;
}

/* --no-wait */
static int leave_at_once(struct wait *t)
{
	const struct operation *op = &t->w->op;
	const char *queue = t->w->a->keys.name, *verb = op->verb;
	char *n = op->total < 0 ? alloc_string("") : alloc_format("%" PRId64 " ", op->total - op->done);

	report_unfinished(t);
	t->r->says = t->w->a->options.json;
	if (!t->r->says && t->seen != NULL)
		notice_say("a supervisor has the order for this %s already, %" PRId64 " dead letters of %s are done; "
		    "quredis operations %s shows it, with --stop %s it ends", verb, op->done, queue, queue, op->id);
	else if (!t->r->says)
		notice_say("ordered the %s of %sdead letters of %s; quredis operations %s shows it, with --stop %s it "
		    "ends", verb, n, queue, queue, op->id);
	free(n);
	return 0;
}

/* The result that a sweeper left. 1: there is one, and the command ends as it says; 0: none; -1 as 1, with an error */
static int take_result(struct wait *t, const char *result)
{
	struct work_report *r = t->r;
	int64_t at_ms;

	if (result[0] == '\0' || (t->seen != NULL && strcmp(result, t->seen) == 0) ||
	    work_report_parse(result, t->w->op.begun_ms, r, &at_ms) == -1)
		return 0;
	t->w->op.done = r->done;
	r->count = r->done - t->before;
	t->w->a->status = r->status;
	return r->status == EX_OK ? 1 : -1;
}

/* No process works on it, and none has to. */
static int end_stopped(struct wait *t)
{
	report_unfinished(t);
	t->r->interrupted = true;
	return 1;
}

static bool wants_to_stop(const struct work *w)
{
	char *question;
	bool yes;

	if (!confirm_possible() || w->a->options.yes)
		return false;
	question = alloc_format("Stop the %s? If not, a supervisor continues it.", w->op.verb);
	yes = confirm_yes(question);
	free(question);
	return yes;
}

/* INT or TERM has come. */
static int ask_what_to_do(struct wait *t)
{
	struct work *w = t->w;
	struct admin *a = w->a;
	int64_t stopped;

	if (!wants_to_stop(w))
		return leave(t) == 0;
	queue_operation_stop(&a->redis, &a->keys, w->op.id);
	if (admin_integer(a, &stopped, a->keys.operations) == -1)
		return -1;
	t->stop_at_ms = clock_monotonic_ms();
	return 0;
}

/* No process has begun: the operation is taken back, unless one begins in the same moment. */
static int take_back(struct wait *t)
{
	struct admin *a = t->w->a;
	int64_t stopped;

	queue_operation_stop(&a->redis, &a->keys, t->w->op.id);
	if (admin_integer(a, &stopped, a->keys.operations) == -1)
		return -1;
	if (stopped == 1)		/* it has begun, and stops now: the command continues it */
		clock_pause_ms(DELEGATE_LOOK_MS);
	else
		admin_note("no supervisor began the %s within %" PRId64 " s: this command does the work itself, and "
		    "has to run until the end", t->w->op.verb, t->begin_ms / 1000);
	return DELEGATE_NOT;
}

/* There is neither the operation nor its result. */
static const char *why_unknown(const struct operation *op, const char *const text[OPERATION_FIELDS])
{
	int64_t begun_ms = work_report_begun(text[OPERATION_RESULT]);

	if (text[OPERATION_BOUND][0] != '\0' || (begun_ms != -1 && begun_ms != op->begun_ms))
		return "another command began it anew";
	return text[OPERATION_RESULT][0] != '\0' ? "its result cannot be read"
	    : "another command has read its result, or Redis went back to an earlier state";
}

/* 1: the command ends; 0: not yet; -1: with an error */
static int judge(struct wait *t, const char *const text[OPERATION_FIELDS])
{
	struct operation *op = &t->w->op;
	bool there = is_there(op, text), wanted = operations_is_wanted(text);
	int ended;

	if (there)
		op->done = operation_figure(text[OPERATION_DONE], OPERATION_FIGURE_MAX, op->done);
	/* it is no result of this operation while the same command has begun another one */
	ended = there || text[OPERATION_BOUND][0] == '\0' ? take_result(t, text[OPERATION_RESULT]) : 0;
	if (ended == -1 && there && wanted)
		admin_note("a supervisor continues the %s as soon as it can: quredis operations %s --stop %s ends it",
		    op->verb, t->w->a->keys.name, op->id);
	if (ended != 0 && !there && operation_forget_result(op) == -1)
		return -1;
	if (ended != 0)
		return ended;
	if (!there)
		return admin_fail(t->w->a, EX_TEMPFAIL, "cannot tell how the %s ended: %s", op->verb,
		    why_unknown(op, text));
	if (!wanted && text[OPERATION_HOLDER][0] == '\0')
		return end_stopped(t);
	if (text[OPERATION_HOLDER][0] != '\0')
		t->at_ms = clock_monotonic_ms();
	progress_show(&t->w->progress, op->done);
	return 0;
}

static int wait_for_end(struct wait *t)
{
	const char *text[OPERATION_FIELDS];
	int rc = 0;

	while (rc == 0) {
		int64_t now_ms = clock_monotonic_ms();

		if (read_fields(t->w, text) == -1)
			return -1;
		rc = judge(t, text);
		if (rc == 0 && interrupt_asked() && t->stop_at_ms == 0)
			rc = ask_what_to_do(t);
		else if (rc == 0 && t->stop_at_ms != 0 && now_ms - t->stop_at_ms >= STOP_MS)
			rc = leave(t) == 0;
		else if (rc == 0 && now_ms - t->at_ms >= t->begin_ms)
			return take_back(t);
		if (rc == 0)
			clock_pause_ms(DELEGATE_LOOK_MS);
	}
	return rc == 1 ? 0 : -1;
}

int delegate_run(struct work *w, struct work_report *r)
{
	struct wait t = { .w = w, .r = r, .before = w->op.done, .begin_ms = BEGIN_MS };
	int rc = may_give(&t);

	*r = (struct work_report){0};
	if (rc != 1)
		return rc == 0 ? DELEGATE_NOT : -1;
	if (give_or_join(&t) == -1) {
		free(t.seen);
		return -1;
	}
	t.at_ms = clock_monotonic_ms();
	progress_begin(&w->progress, w->action, w->op.done, w->op.total < 0 ? 0 : w->op.total);
	rc = w->a->options.no_wait ? leave_at_once(&t) : wait_for_end(&t);
	progress_end(&w->progress);
	free(t.seen);
	return rc;
}
