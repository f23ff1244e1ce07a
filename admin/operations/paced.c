/*
 * Moves the dead letters of an operation back with care. With --canary it moves back some, and waits until all of them
 * are done. Then the others follow at the given rate, until more of them than allowed have failed again. A repeated
 * command continues each of these steps.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/stdlib.h>

#include "admin/operations/paced.h"

#include "admin/queues/queues.h"
#include "common/base/base.h"

#define RATE_DEFAULT "50/s"
#define RATE_MAX 1000000
#define LOOK_MS 250		/* between checks for messages that failed again */
#define CANARY_LOOK_MS 500
/* the least time for the canary beyond the queue's timeout, since it may wait behind other messages */
#define CANARY_LEAST_MS (10 * 60 * 1000)

static const struct rate_unit {
	const char *names[2];
	double ms;
} rate_units[] = {
	{ { "s", "sec" }, 1000 },
	{ { "m", "min" }, 60 * 1000 },
	{ { "h", "hour" }, 60 * 60 * 1000 },
};

/* text: behind the number. NULL: none of them */
static const struct rate_unit *rate_unit_of(const char *text)
{
	if (text[0] == '\0')
		return &rate_units[0];
	for (size_t i = 0; i < nitems(rate_units); i++)
		if (text[0] == '/' && (strcmp(text + 1, rate_units[i].names[0]) == 0 ||
		    strcmp(text + 1, rate_units[i].names[1]) == 0))
			return &rate_units[i];
	return NULL;
}

/* "50/s", "10/min", "3600/h", "50": each spelling of a rate gives the same text. */
static int parse_rate(struct admin *a, struct paced *p)
{
	const char *text = a->options.rate != NULL ? a->options.rate : RATE_DEFAULT, *why = NULL;
	size_t len = strspn(text, "0123456789");
	const struct rate_unit *unit = rate_unit_of(text + len);
	char *digits = alloc_copy(text, len);
	long long n = strtonum(digits, 1, RATE_MAX, &why);

	free(digits);
	if (unit == NULL || why != NULL)
		return admin_fail(a, EX_USAGE, "--rate: expected a number and /s, /m or /h, such as 50/s");
	p->per_ms = (double)n / unit->ms;
	for (; unit > rate_units && n % 60 == 0; unit--)
		n /= 60;
	snprintf(p->rate, sizeof(p->rate), "%lld/%s", n, unit->names[0]);
	return 0;
}

char *paced_words(const struct paced *p)
{
	char *failures = p->most_failures == 0 ? alloc_string("") :
	    alloc_format(", until more than %" PRId64 " have failed again", p->most_failures);
	char *words = p->canary > 0 ? alloc_format(", %" PRId64 " first, then at most %s%s", p->canary, p->rate,
	    failures) : alloc_format(", at most %s%s", p->rate, failures);

	free(failures);
	return words;
}

int paced_read(struct admin *a, struct paced *p)
{
	*p = (struct paced){ .most_failures = a->options.max_failures < 0 ? 0 : a->options.max_failures };
	p->canary = (a->options.given & OPTION_CANARY) == 0 ? 0 : a->options.canary > 0 ? a->options.canary : 1;
	if (a->queue != NULL && !a->queue->dead_letter.enabled)
		return admin_fail(a, EX_USAGE, "--canary, --rate and --max-failures need records, which show what "
		    "failed again: set dead_letter.enabled");
	return parse_rate(a, p);
}

void paced_spell(const struct paced *p, struct options *o)
{
	o->rate = p->rate;
	o->max_failures = p->most_failures;
	o->canary = p->canary > 1 ? p->canary : 0;
	o->given &= ~(OPTION_PACE);
	o->given |= OPTION_RATE | (p->most_failures > 0 ? OPTION_FAILURES : 0) | (p->canary > 0 ? OPTION_CANARY : 0);
}

void paced_free(struct paced *p)
{
	failures_free(&p->failures);
	redriven_free(&p->redriven);
}

/* More failed again than allowed. Returns -1. */
static int fail_for_failures(struct admin *a, struct paced *p)
{
	const struct operation *op = p->selection->op;
	bool more = !p->selection->at_end || p->selection->at < p->selection->n, same;
	char *why;

	p->stopped = true;
	failures_read(a, &p->redriven, &p->failures);	/* without the causes the error still has the numbers */
	same = p->failures.read > 0 && p->failures.n[FAILURE_SAME] == p->failures.read;
	why = failures_text(&p->failures);
	admin_fail(a, EX_DATAERR,
	    "%" PRId64 " of %" PRId64 " messages moved back became dead letters again (the last: record %s)%s%s%s",
	    p->redriven.failed,
	    op->done, p->redriven.last, more && op->done != op->total ? ": stopped" : "", why[0] == '\0' ? "" : ". ",
	    why);
	free(why);
	admin_note("quredis dlq show %s %s says why. %s", a->keys.name, p->redriven.last,
	    same ? "Correct the cause, then run the same command again"
	    : "If some messages may fail for this reason, run the same command with --max-failures N: it stops after "
	    "more than N failures");
	return -1;
}

/* ---- the canary ---- */

/* Notes which message it is before it moves back, so that a repeated command waits for it, too. */
static int note_canary(struct admin *a, struct paced *p, const struct selected *one)
{
	struct operation *op = p->selection->op;
	char fingerprint[FINGERPRINT_SIZE];
	struct list_entry e = {0};
	struct dead_letter d;
	int found = dead_letter_read(a, one->record_id, DEAD_LETTER_SHOWN, &d);

	if (found == 1)
		found = dead_letter_entry(a, &d, selection_place(p->selection, one), &e);
	dead_letter_free(&d);
	if (found == 1) {
		redriven_fingerprint_of(&e, fingerprint);
		found = operation_add_canary(op, fingerprint);
	}
	entry_free(&e);
	return found == -1 ? -1 : 0;
}

/* Notes what is the newest dead letter before it, so that it is known where those begin that fail again. */
static int begin_canary(struct admin *a, struct operation *op)
{
	char newest[FINGERPRINT_SIZE];

	return redriven_newest(a, newest) == -1 ? -1 : operation_begin_canary(op, newest);
}

static int move_back_canary(struct admin *a, struct paced *p)
{
	struct operation *op = p->selection->op;
	const struct selected *next;
	int more = 1;

	if (op->canary_from < 0)	/* an earlier command may have moved messages back without a canary */
		more = begin_canary(a, op) == -1 ? -1 : 1;
	while (more == 1 && op->done - op->canary_from < p->canary && !interrupt_asked()) {
		more = selection_next(p->selection, &next);
		if (more == 1)
			more = note_canary(a, p, next) == -1 ? -1 : selection_take(p->selection, 1);
		progress_show(p->progress, op->done);
	}
	return more == -1 ? -1 : 0;
}

static int fail_for_time(struct admin *a, const struct operation *op)
{
	static const char next[] = "Run the command again to continue waiting";
	int64_t n = op->done - op->canary_from;

	if (n == 1)
		return admin_fail(a, EX_TEMPFAIL, "the first message is not done: it still waits or is in flight, and "
		    "no other was moved back. %s; quredis peek %s ingress shows what waits", next, a->keys.name);
	return admin_fail(a, EX_TEMPFAIL,
	    "the first %" PRId64 " messages are not done: some still wait or are in flight, and no others were moved "
	    "back. %s; quredis peek %s ingress shows what waits", n, next, a->keys.name);
}

static int fail_without_record(struct admin *a, struct paced *p)
{
	const struct operation *op = p->selection->op;
	int64_t n = op->done - op->canary_from;

	p->stopped = true;
	if (n == 1)
		admin_fail(a, EX_DATAERR,
		    "the first message is a dead letter again, without a record that says why: stopped");
	else
		admin_fail(a, EX_DATAERR,
		    "one of the first %" PRId64 " messages is a dead letter again, without a record that says why: "
		    "stopped", n);
	admin_note("quredis peek %s escape shows the newest dead letters; the log of quredisd says why Redis refused "
	    "the record", a->keys.name);
	return -1;
}

/* The canary is in no list of messages that are not done. -1: it failed again, or an error */
static int judge_canary(struct admin *a, struct paced *p)
{
	struct operation *op = p->selection->op;
	int found = redriven_find_in_escape(a, &p->redriven, op->canary_fingerprints, op->canary_newest);
	int64_t n = op->done - op->canary_from;

	if (found != 0)
		return found == -1 ? -1 : fail_without_record(a, p);
	if (operation_end_canary(op) == -1)
		return -1;
	if (n == 1)
		admin_note("the first message left the queue and is no dead letter again; the others follow");
	else
		admin_note("the first %" PRId64 " messages left the queue, and none is a dead letter again; the others "
		    "follow", n);
	return 0;
}

/* The canary is done if two checks in a row find none of its messages anywhere, and none is a dead letter. */
static int wait_for_canary(struct admin *a, struct paced *p)
{
	struct operation *op = p->selection->op;
	int64_t until_ms = clock_monotonic_ms() + CANARY_LEAST_MS +
	    (a->queue == NULL ? 0 : conf_longest_run_ms(a->queue));
	int missed = 0, there;

	while (missed < 2 && !interrupt_asked()) {
		if (!op->swept && clock_monotonic_ms() >= until_ms)
			return fail_for_time(a, op);
		clock_pause_ms(CANARY_LOOK_MS);
		there = redriven_are_under_way(a, op->canary_fingerprints);
		if (there == -1 || operation_renew(op) == -1 || redriven_look(a, &p->redriven) == -1)
			return -1;
		if (p->redriven.failed > 0)
			return fail_for_failures(a, p);
		missed = there == 1 ? 0 : missed + 1;
	}
	return interrupt_asked() ? 0 : judge_canary(a, p);
}

/* ---- the others ---- */

/*
 * How much of the next message is due when a command begins. The first message is, unless an earlier command has moved
 * one back just now: a client of the API repeats its request every few seconds, and each would move one back at once.
 * -1: error
 */
static double due_at_first(struct admin *a, const struct paced *p)
{
	const struct operation *op = p->selection->op;
	int64_t now_ms;

	if (op->last_at_ms <= 0)
		return 1;
	if (admin_server_time(a, &now_ms) == -1)
		return -1;
	return now_ms < op->last_at_ms || (double)(now_ms - op->last_at_ms) * p->per_ms >= 1 ? 1
	    : (double)(now_ms - op->last_at_ms) * p->per_ms;
}

static int move_back_others(struct admin *a, struct paced *p)
{
	struct selection *s = p->selection;
	int64_t begun_ms = clock_monotonic_ms(), looked_ms = begun_ms, before = s->done + s->missing + s->claimed;
	double at_first = due_at_first(a, p);
	int more = at_first < 0 ? -1 : 1;

	while (more == 1 && !interrupt_asked()) {
		int64_t now_ms = clock_monotonic_ms(), sent = s->done + s->missing + s->claimed - before;
		int64_t due = (int64_t)(at_first + (double)(now_ms - begun_ms) * p->per_ms) - sent;

		if (due > 0 && (more = selection_take(s, due)) == -1)
			return -1;
		/* A faster one needs no memory: the little that a repeated command moves back too early does not matter
		 * there. */
		if (due > 0 && p->per_ms * 1000 < 1 && operation_note_last(s->op) == -1)
			return -1;
		progress_show(p->progress, s->op->done);
		if (now_ms - looked_ms >= LOOK_MS || due <= 0) {
			looked_ms = now_ms;
			if (operation_renew(s->op) == -1 || redriven_look(a, &p->redriven) == -1)
				return -1;
			if (p->redriven.failed > p->most_failures)
				return fail_for_failures(a, p);
		}
		if (more == 1 && due <= QUEUE_TAKEN_MAX)
			clock_pause_ms(1 / p->per_ms < LOOK_MS ? (int64_t)(1 / p->per_ms) + 1 : LOOK_MS);
	}
	return more == -1 ? -1 : 0;
}

/* 1: no message of the queue waits, is delayed or in flight; 0: some are; -1: error */
static int is_idle(struct admin *a)
{
	struct lists l;
	int rc = lists_read(a, &a->keys, 0, &l), idle = l.ingress == 0 && l.delayed == 0 && l.transit == 0;

	lists_free(&l);
	return rc == -1 ? -1 : idle;
}

/* The last look for failures. It has seen all of them if nothing is under way before it. One check may miss a message
 * that moves meanwhile. */
static int look_at_end(struct admin *a, struct paced *p)
{
	int idle = is_idle(a);

	if (idle == 1)
		idle = is_idle(a);
	p->settled = idle == 1;
	return idle == -1 ? -1 : redriven_look(a, &p->redriven);
}

int paced_run(struct admin *a, struct paced *p)
{
	struct selection *s = p->selection;
	char *why;
	int rc = redriven_begin(a, &p->redriven, s->op, s->filter->cause);

	if (rc == 0 && p->canary > 0 && !s->op->canary_done) {
		rc = move_back_canary(a, p);
		if (rc == 0 && s->op->canary_fingerprints[0] != '\0' && !interrupt_asked())
			rc = wait_for_canary(a, p);
	}
	if (rc == 0 && !interrupt_asked())
		rc = move_back_others(a, p);
	if (rc == 0)
		rc = look_at_end(a, p);
	if (rc != 0 || p->redriven.failed == 0)
		return rc;
	if (p->redriven.failed > p->most_failures)
		return fail_for_failures(a, p);
	if (interrupt_asked())
		return 0;
	if (failures_read(a, &p->redriven, &p->failures) == -1)
		return -1;
	why = failures_text(&p->failures);
	admin_note("%" PRId64 " of %" PRId64 " messages moved back became dead letters again%s%s%s", p->redriven.failed,
	    s->op->done, p->settled ? "" : " so far", why[0] == '\0' ? "" : ". ", why);
	free(why);
	return 0;
}
