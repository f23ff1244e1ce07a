/*
 * quredis health: shows the last reports of the sweepers of all hosts (quredis:health), for people, programs and
 * monitors. The sweeper judges a queue, and owns the rule. This file only shows reports, and decides when one is
 * missing; admin/queues/reports.c decides what a report is still worth.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/commands/commands.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define STATUS_UNKNOWN 3		/* exit status, and level after those of the reports: no sweeper reports */
_Static_assert((int)STATUS_UNKNOWN == (int)REPORTS_UNKNOWN, "unknown follows the levels of reports");
#define UNREPORTED "no supervisor reports this queue: is one running that has it?"

struct reports {
	struct queue_health *all;
	size_t n;
	int64_t now_ms;			/* by the clock of Redis */
	/* the worst level; STATUS_UNKNOWN: no report, or one is missing and no other is worse */
	int level;
	const char *why;		/* no report: what the operator should check */
	/* the registry has the wrong type: there may be queues that this configuration does not have */
	bool lost;
};

static int by_badness(const void *a, const void *b)
{
	const struct queue_health *x = a, *y = b;
	int worse = reports_badness(y->level) - reports_badness(x->level);

	return worse != 0 ? worse : strcmp(x->queue, y->queue);
}

static bool is_meant(const struct admin *a, const char *queue)
{
	return a->noperands == 0 || strcmp(a->operands[0], queue) == 0;
}

static bool is_reported(const struct reports *r, const char *queue)
{
	for (size_t i = 0; i < r->n; i++)
		if (strcmp(r->all[i].queue, queue) == 0)
			return true;
	return false;
}

/* Asks about one queue, which may be gone meanwhile: then 0. */
static int ask_queue(struct admin *a, const char *name, void ask(struct redis *, const struct queue_keys *),
    int64_t *found)
{
	struct queue_keys keys;
	int rc;

	*found = 0;
	if (lookup_queue(a, name, &keys) == -1) {
		rc = a->status == EX_UNAVAILABLE ? -1 : 0;
		a->status = 0;
		return rc;
	}
	ask(&a->redis, &keys);
	rc = admin_integer(a, found, name);
	queue_keys_free(&keys);
	return rc;
}

/* Workers of quredis have registered for the queue. If only other programs use it, no sweeper judges it. */
static void ask_workers(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "EXISTS %s", k->workers);
}

/* Also a resume is newer than a report. Few queues are paused, so only these are asked. */
static int end_pauses(struct admin *a, struct reports *r)
{
	for (size_t i = 0; i < r->n; i++) {
		int64_t paused;

		if (!reports_say_paused(&r->all[i]))
			continue;
		if (ask_queue(a, r->all[i].queue, queue_paused, &paused) == -1)
			return -1;
		if (paused == 0)
			reports_end_pause(&r->all[i]);
	}
	return 0;
}

static bool is_known(const struct admin *a, char *const *names, size_t n, const char *queue)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], queue) == 0)
			return true;
	return conf_queue_find(a->conf, queue) != NULL;
}

/* Leaves out queues that are gone: destroyed, and no supervisor has them. A lost registry alone hides no queue. */
static void leave_out_gone(const struct admin *a, struct reports *r, char *const *names, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++)
		if (r->lost || !reports_doubt(&r->all[i]) || is_known(a, names, n, r->all[i].queue))
			r->all[kept++] = r->all[i];
		else
			queue_health_free(&r->all[i]);
	r->n = kept;
}

/*
 * Adds queues without a report, since they must not seem healthy only because others are: if health is enabled, the
 * queues of the configuration, and the queues of the registry that have registered workers.
 */
static int keep_unreported(struct admin *a, struct reports *r, char *const *names, size_t n)
{
	if (!a->conf->health.enabled || r->n == 0)
		return 0;
	for (size_t i = 0; i < a->conf->nqueues; i++)
		if (is_meant(a, a->conf->queues[i]->name) && !is_reported(r, a->conf->queues[i]->name))
			r->all[r->n++] = reports_missing(a->conf->queues[i]->name, UNREPORTED);
	for (size_t i = 0; i < n; i++) {
		int64_t there;

		if (!is_meant(a, names[i]) || is_reported(r, names[i]))
			continue;
		if (ask_queue(a, names[i], ask_workers, &there) == -1)
			return -1;
		if (there > 0)
			r->all[r->n++] = reports_missing(names[i], UNREPORTED);
	}
	return 0;
}

/* Says what the operator should check if there is no report. A supervisor that lives has not judged its queues yet. */
static int explain_none(struct admin *a, struct reports *r, bool stale)
{
	struct redis_reply reply;
	json_t *node;

	queue_node_read(&a->redis, a->conf->supervisor.node);
	if (admin_wait(a, &reply) == -1)
		return -1;
	node = queue_node_parse(&reply, r->now_ms);
	r->why = stale ? "the last report is too old: no supervisor with health.enabled reaches Redis"
	    : node != NULL && a->conf->health.enabled
	    ? "no report yet: a supervisor that has just started, or just got a queue, judges it within some seconds"
	    : "no supervisor reports: is one with health.enabled running?";
	json_decref(node);
	return 0;
}

static int take_reports(struct admin *a, struct reports *r)
{
	struct redis_reply reply;
	size_t stale = 0, nnames;
	char **names;
	int rc;

	if (lookup_names(a, &names, &nnames) == -1)
		return -1;
	r->lost = a->status == EX_CONFIG;
	queue_health_read(&a->redis);
	rc = admin_reply_of(a, &reply, queue_key_of(&a->redis, QUEUE_KEY_HEALTH, NULL));
	if (rc == 0 && reply.n > 0 && !redis_is_strings(&reply))
		rc = admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected a hash");
	if (rc == 0) {
		r->all = queue_health_parse_all(&reply, a->noperands > 0 ? a->operands[0] : NULL,
		    a->conf->nqueues + nnames, r->now_ms, &r->n, &stale);
		rc = reports_confirm(a, r->all, &r->n, r->now_ms);
		leave_out_gone(a, r, names, nnames);
		rc = rc == -1 || end_pauses(a, r) == -1 ? -1 : keep_unreported(a, r, names, nnames);
	}
	lookup_names_free(names, nnames);
	if (rc == -1)
		return -1;
	qsort(r->all, r->n, sizeof(*r->all), by_badness);
	r->level = r->n == 0 || (r->lost && r->all[0].level != QUEUE_UNHEALTHY) ? STATUS_UNKNOWN : r->all[0].level;
	return r->n > 0 ? 0 : explain_none(a, r, stale > 0);
}

/* ---- for people ---- */

static struct cell time_cell(int64_t ms)
{
	return ms > 0 ? cell_time(ms) : cell_none();
}

static struct cell stuck_cell(const struct facts *f)
{
	int64_t a = f->n[FACT_INGRESS_STUCK], b = f->n[FACT_TRANSIT_STUCK];

	return a < 0 && b < 0 ? cell_none() : cell_int((a > 0 ? a : 0) + (b > 0 ? b : 0));
}

static void show_reports(struct admin *a, const struct reports *r)
{
	static const struct column columns[] = {
		{ NULL, "Queue", COLUMN_NAME }, { NULL, "Status", COLUMN_STATE },
		{ NULL, "As of", COLUMN_NUMBER | YIELDS(16) },
		{ NULL, "Next look", COLUMN_NUMBER | YIELDS(3) }, { NULL, NULL, FIGURES_OF(IN_HEALTH) },
		{ NULL, "Stuck", COLUMN_NUMBER | YIELDS(2) }, { NULL, NULL, FIGURES_OF(IN_HEALTH_END) },
		{ NULL, "Reason", COLUMN_TEXT },
	};

	output_begin(&a->output, columns, nitems(columns));
	for (size_t i = 0; i < r->n; i++) {
		char *why = health_reasons(&r->all[i], r->now_ms);
		struct facts f = facts_unknown();

		facts_read(&f, FACT_OF_QUEUE, r->all[i].document, 0);
		output_row(&a->output, (struct cell[]){ cell_str(r->all[i].queue), cell_str(r->all[i].status),
		    time_cell(r->all[i].at_ms),
		    time_cell(r->all[i].at_ms > 0 && r->all[i].next_ms < r->now_ms ? r->now_ms : r->all[i].next_ms),
		    cell_facts(&f), stuck_cell(&f), cell_facts(&f), cell_str(why[0] == '\0' ? NULL : why) });
		free(why);
	}
	output_end(&a->output, true);
}

/* Why attempts failed: figures of the report whose names are classes. */
static void show_failures(struct admin *a, const json_t *report)
{
	struct class_figure figures[QUEUE_FAILED_FIGURES];
	struct queue_failed failed = {0};
	size_t n;

	queue_failed_read(&failed, json_object_get(report, "failures"));
	n = queue_failed_figures(&failed, figures);
	for (size_t i = 0; i < n; i++) {
		char *name = alloc_format("failures.classes.%s", figures[i].name);

		output_row(&a->output, (struct cell[]){ cell_str(name), cell_int((int64_t)figures[i].n),
		    cell_str("attempts that failed for this reason") });
		free(name);
	}
}

/* All figures of the report, for a person who asks for one queue. */
static void show_figures(struct admin *a, const struct queue_health *report)
{
	static const struct column columns[] = {
		{ NULL, "Figure", COLUMN_NAME }, { NULL, "Value", COLUMN_NUMBER }, { NULL, "Meaning", COLUMN_TEXT },
	};
	struct facts f = facts_unknown();

	facts_read(&f, FACT_OF_QUEUE, report->document, 0);
	putchar('\n');
	output_begin(&a->output, columns, nitems(columns));
	for (int i = 0; i < FACTS; i++) {
		const struct fact_words *w = &facts_table[i];
		char *name = alloc_format("%s%s%s", w->object == NULL ? "" : w->object, w->object == NULL ? "" : ".",
		    w->key);
		char *pace = w->type == FACT_PACE ? alloc_format("%.1f", (double)f.n[i] / 1000) : NULL;

		if (f.n[i] >= 0)
			output_row(&a->output, (struct cell[]){ cell_str(name),
			    pace != NULL ? cell_str(pace) : cell_fact(&f, (enum fact)i), cell_str(w->text) });
		free(name);
		free(pace);
	}
	show_failures(a, report->document);
	output_end(&a->output, true);
}

/* ---- for programs ---- */

static void show_json(struct admin *a, const struct reports *r)
{
	json_t *queues = json_array(), *all;

	for (size_t i = 0; i < r->n; i++)
		json_array_append(queues, r->all[i].document);
	all = json_pack("{s:s, s:o}", "status", r->level == STATUS_UNKNOWN ? "unknown" : queue_health_names[r->level],
	    "queues", queues);
	output_json_document(&a->output, all);
	json_decref(all);
}

/* ---- for monitors: one line, then figures after a "|" ---- */

static void print_visible(const char *text)
{
	char *shown = visible(text, strlen(text), 500);

	for (char *c = shown; *c != '\0'; c++)
		putchar(*c == '|' ? '/' : *c);		/* a "|" begins the figures */
	free(shown);
}

static void print_reason(const struct reports *r, const struct queue_health *report)
{
	char *why = health_reasons_dated(report, r->now_ms);

	print_visible(report->queue);
	fputs(": ", stdout);
	print_visible(why[0] == '\0' ? report->status : why);
	free(why);
}

#define NAMED_MAX 10		/* queues whose reasons stand in the line: monitors cut long ones */

/* In the order of the reports: the sickest queues first. */
static void print_reasons(const struct reports *r)
{
	size_t sick = 0;

	for (size_t i = 0; i < r->n; i++) {
		if (r->all[i].level == QUEUE_HEALTHY || sick++ >= NAMED_MAX)
			continue;
		fputs(sick > 1 ? ", " : " - ", stdout);
		print_reason(r, &r->all[i]);
	}
	if (sick > NAMED_MAX)
		printf(", and %zu more queue%s", sick - NAMED_MAX, sick - NAMED_MAX == 1 ? "" : "s");
	else if (sick == 0)
		printf(" - %zu queue%s", r->n, r->n == 1 ? "" : "s");
}

static void print_figures(const struct reports *r)
{
	static const enum fact shown[] = { FACT_INGRESS_SIZE, FACT_TRANSIT_SIZE, FACT_ESCAPE_SIZE };
	bool any = false;

	for (size_t i = 0; i < r->n; i++) {
		struct facts f = facts_unknown();

		facts_read(&f, FACT_OF_QUEUE, r->all[i].document, 0);
		for (size_t j = 0; j < nitems(shown); j++) {
			if (f.n[shown[j]] < 0)
				continue;
			fputs(any ? " '" : " | '", stdout);
			print_visible(r->all[i].queue);
			printf(" %s'=%" PRId64, facts_table[shown[j]].object, f.n[shown[j]]);
			any = true;
		}
	}
}

static void show_nagios(const struct reports *r)
{
	static const char *const words[] = {
		[QUEUE_HEALTHY] = "OK", [QUEUE_DEGRADED] = "WARNING", [QUEUE_UNHEALTHY] = "CRITICAL",
		[STATUS_UNKNOWN] = "UNKNOWN",
	};

	printf("QUREDIS %s%s", words[r->level], r->lost ? " - the registry has the wrong type" : "");
	if (r->why != NULL)
		printf(" - %s", r->why);
	else
		print_reasons(r);
	print_figures(r);
	putchar('\n');
}

/* ---- the command ---- */

static int look_at_reports(struct admin *a, struct reports *r)
{
	if (admin_prepare(a, NEED_REDIS) == -1 || admin_show_ages(a) == -1 || admin_server_time(a, &r->now_ms) == -1 ||
	    take_reports(a, r) == -1)
		return -1;
	/* No sweeper reports a queue that does not exist, either. */
	return r->n == 0 && a->noperands > 0 ? lookup_queue(a, a->operands[0], &a->keys) : 0;
}

/* Turns an error into the line and the exit status that a monitor expects. */
static int look_for_monitor(struct admin *a, struct reports *r, char complaint[COMPLAINT_SIZE])
{
	int rc;

	a->complaint = complaint;
	rc = look_at_reports(a, r);
	a->complaint = NULL;
	if (rc == -1) {
		r->level = STATUS_UNKNOWN;
		r->why = complaint;
	}
	return 0;
}

int cmd_health(struct admin *a)
{
	struct reports r = { .level = STATUS_UNKNOWN };
	char complaint[COMPLAINT_SIZE] = "";
	int rc = a->options.nagios ? look_for_monitor(a, &r, complaint) : look_at_reports(a, &r);

	if (rc == 0) {
		if (a->options.nagios)
			show_nagios(&r);
		else if (a->options.json)
			show_json(a, &r);
		else if (r.why != NULL)
			admin_note("quredis: %s", r.why);
		else
			show_reports(a, &r);
		if (a->output.terminal && !a->options.nagios && !a->options.json && a->noperands > 0 && r.n == 1)
			show_figures(a, &r.all[0]);
		a->status = r.level;
	}
	reports_free(r.all, r.n);
	return rc;
}
