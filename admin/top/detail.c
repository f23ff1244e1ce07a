/*
 * Writes the page of one queue of quredis top: its figures, the reasons of its health with figure and limit, its
 * breaker, its nodes and workers with what their handlers do, and its last dead letters.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/top/top.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define RUNNING_MAX 200		/* more than the slots of a queue that an operator looks through */

static const char *string_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* Begins a part of the page: a blank line, and its table. */
static void begin_part(struct output *o, const struct column *columns, size_t n)
{
	fputc('\n', o->file);
	output_begin(o, columns, n);
}

/* ---- figures ---- */

static char *elapsed(int64_t ms)
{
	char text[UNITS_SIZE];

	return alloc_string(units_elapsed(ms, text));
}

/* "12m03s ago"; NULL: not known. A new string. */
static char *ago(int64_t ms, int64_t now_ms)
{
	char text[UNITS_SIZE];

	return ms <= 0 || ms > now_ms ? NULL : alloc_format("%s ago", units_elapsed(now_ms - ms, text));
}

/* "12 of 40 attempts in 10m00s (30%)" */
static char *failures_text(const struct facts *f)
{
	int64_t attempts = f->n[FACT_ATTEMPTS], failed = f->n[FACT_FAILURES], window_ms = f->n[FACT_FAILURE_WINDOW];
	char *age, *text;

	if (attempts < 0 || failed < 0 || window_ms < 0)
		return NULL;
	age = elapsed(window_ms);
	text = alloc_format("%" PRId64 " of %" PRId64 " attempts in %s (%" PRId64 "%%)", failed, attempts, age,
	    attempts == 0 ? 0 : failed * 100 / attempts);
	free(age);
	return text;
}

static char *growth_text(const struct facts *f)
{
	int64_t arrivals = f->n[FACT_ARRIVALS], completions = f->n[FACT_COMPLETIONS], growing_ms = f->n[FACT_GROWING];
	char *age, *text;

	if (arrivals < 0 || completions < 0)
		return NULL;
	age = growing_ms <= 0 ? NULL : elapsed(growing_ms);
	text = alloc_format("%.1f arrive a minute, %.1f leave%s%s", (double)arrivals / 1000, (double)completions / 1000,
	    age == NULL ? "" : "; it has grown for ", age == NULL ? "" : age);
	free(age);
	return text;
}

static char *rates_text(const struct top_queue *q)
{
	char *rates[TOP_RATES], *text;

	for (int i = 0; i < TOP_RATES; i++)
		rates[i] = top_rate_text(q->rates[i]);
	text = alloc_format("%s done, %s failed, %s escaped", rates[TOP_DONE], rates[TOP_FAILED], rates[TOP_ESCAPED]);
	for (int i = 0; i < TOP_RATES; i++)
		free(rates[i]);
	return text;
}

static void print_figures(struct output *o, const struct top_queue *q, int64_t now_ms)
{
	static const struct column columns[] = {
		{ NULL, "State", COLUMN_STATE }, { NULL, "Health", COLUMN_STATE },
		{ NULL, "Health since", COLUMN_NAME }, { NULL, NULL, FIGURES_OF(IN_TOP) },
		{ NULL, "Workers", COLUMN_NUMBER }, { NULL, "A second", COLUMN_NAME },
		{ NULL, "Failures", COLUMN_NAME }, { NULL, "Backlog", COLUMN_NAME },
	};
	char *since = ago(admin_count_in(q->document, "since_ms"), now_ms), *rates = rates_text(q),
	    *failures = failures_text(&q->facts), *growth = growth_text(&q->facts);

	output_object(o, columns, nitems(columns),
	    (struct cell[]){ cell_str(q->state), cell_str(q->health), cell_str(since),
	    cell_facts(&q->facts), cell_int(facts_workers(&q->facts)), cell_str(rates), cell_str(failures),
	    cell_str(growth) });
	free(since);
	free(rates);
	free(failures);
	free(growth);
}

/* ---- health ---- */

static void print_reasons(struct output *o, const json_t *health)
{
	static const struct column columns[] =
	    { { NULL, "Health", COLUMN_STATE }, { NULL, "Reason, with figure and limit", COLUMN_NAME } };
	const json_t *all = json_object_get(health, "reasons"), *reason;
	size_t i;

	if (json_array_size(all) == 0)
		return;
	begin_part(o, columns, nitems(columns));
	json_array_foreach(all, i, reason)
		output_row(o, (struct cell[]){ cell_str(string_of(reason, "status")),
		    cell_str(string_of(reason, "text")) });
	output_end(o, true);
}

/* The classes of the attempts that failed in failure_window; the latest error stands with its class. */
static void print_failures(struct output *o, const json_t *health)
{
	static const struct column columns[] = {
		{ NULL, "Failed", COLUMN_NUMBER }, { NULL, "Class", COLUMN_NAME },
		{ NULL, "Latest error", COLUMN_NAME },
	};
	struct class_figure figures[QUEUE_FAILED_FIGURES];
	struct queue_failed failed = {0};
	size_t n;

	queue_failed_read(&failed, json_object_get(health, "failures"));
	n = queue_failed_figures(&failed, figures);
	if (n == 0)
		return;
	begin_part(o, columns, nitems(columns));
	for (size_t i = 0; i < n; i++)
		output_row(o, (struct cell[]){ cell_int((int64_t)figures[i].n), cell_str(figures[i].name),
		    failed.at_ms > 0 && strcmp(figures[i].name, failed.class) == 0 ? cell_str(failed.text)
		    : cell_none() });
	output_end(o, true);
}

/* ---- nodes ---- */

/* Prints what stops the queue on each node: an open breaker, or a worker whose death is not certain. */
static void print_causes(struct output *o, const json_t *nodes, const char *name, int64_t now_ms)
{
	const struct column columns[] = {
		{ NULL, "Node", COLUMN_NAME }, { NULL, facts_table[FACT_NEXT_ATTEMPT].title, COLUMN_NUMBER },
		{ NULL, "Cause", COLUMN_NAME },
	};
	const json_t *node, *row;
	bool begun = false;
	size_t i;

	json_array_foreach(nodes, i, node) {
		const char *cause;

		row = queue_node_row(node, name);
		cause = string_of(row, "reason");
		if (cause == NULL)
			cause = string_of(row, "cause") != NULL ? string_of(row, "cause") : string_of(row, "undecided");
		if (cause == NULL)
			continue;
		if (!begun)
			begin_part(o, columns, nitems(columns));
		begun = true;
		output_row(o, (struct cell[]){ cell_str(string_of(node, "node")), top_nodes_attempt(node, row, now_ms),
		    cell_str(cause) });
	}
	if (begun)
		output_end(o, true);
}

/* "2 idle, 3 running". A new string; NULL: there are no workers. */
static char *workers_text(const struct facts *f)
{
	struct buffer text = {0};

	for (int i = FACT_STARTING; i <= FACT_STOPPING; i++)
		if (f->n[i] > 0)
			buffer_format(&text, "%s%" PRId64 " %s", text.len > 0 ? ", " : "", f->n[i], facts_table[i].key);
	buffer_append(&text, "", 1);
	if (text.len > 1)
		return text.data;
	buffer_free(&text);
	return NULL;
}

static void print_hosts(struct output *o, const json_t *nodes, const char *name)
{
	static const struct column columns[] = {
		{ NULL, "Node", COLUMN_NAME }, { NULL, "State", COLUMN_STATE },
		{ NULL, NULL, FIGURES_OF(IN_NODES | IN_NODES_END) },
		{ NULL, "Doing", COLUMN_NAME },
	};
	const json_t *node, *row;
	bool begun = false;
	size_t i;

	json_array_foreach(nodes, i, node) {
		struct facts f = facts_unknown();
		char *workers;

		if ((row = queue_node_row(node, name)) == NULL)
			continue;
		facts_read(&f, FACT_OF_HOST, row, 0);
		if (!begun)
			begin_part(o, columns, nitems(columns));
		begun = true;
		workers = workers_text(&f);
		output_row(o, (struct cell[]){ cell_str(string_of(node, "node")), cell_str(string_of(row, "state")),
		    cell_facts(&f), cell_str(workers) });
		free(workers);
	}
	if (begun)
		output_end(o, true);
}

/* ---- dead letters ---- */

static void print_dead_letters(struct output *o, const json_t *dead_letters, const char *name, int64_t now_ms)
{
	static const struct column columns[] = {
		{ NULL, "Failed", COLUMN_NUMBER }, { NULL, "Class", COLUMN_NAME }, { NULL, "Attempts", COLUMN_NUMBER },
		{ NULL, "Error", COLUMN_NAME },
	};
	const json_t *rows = json_object_get(dead_letters, "records"), *row;
	const char *of = string_of(dead_letters, "queue");
	size_t i;

	if (of == NULL || strcmp(of, name) != 0 || json_array_size(rows) == 0)
		return;
	begin_part(o, columns, nitems(columns));
	json_array_foreach(rows, i, row) {
		const char *at = string_of(row, "failed_at"), *error = string_of(row, "error_message");
		char *died = ago(at == NULL ? -1 : clock_rfc3339_parse(at), now_ms);

		output_row(o, (struct cell[]){ cell_str(died), cell_str(string_of(row, "error_class")),
		    cell_count(admin_count_in(row, "attempts")),
		    error == NULL ? cell_none() : cell_bytes(error, strcspn(error, "\r\n")) });
		free(died);
	}
	output_end(o, true);
}

void top_detail(FILE *out, const struct top_figures *f, const struct top_queue *q, size_t width, bool colour)
{
	struct output o = { .format = &output_table, .file = out, .width = width, .colour = colour };
	const json_t *nodes = json_object_get(f->overview, "nodes");
	int64_t now_ms = json_integer_value(json_object_get(f->overview, "time"));
	char at[CLOCK_RFC3339_SIZE], *name = visible(q->name, strlen(q->name), SIZE_MAX);

	fprintf(out, "  %s   %.19s UTC\n\n", name, clock_rfc3339(now_ms, at));
	free(name);
	print_figures(&o, q, now_ms);
	o.wrap = true;		/* nothing is cut where the page scrolls */
	print_reasons(&o, q->document);
	print_failures(&o, q->document);
	print_causes(&o, nodes, q->name, now_ms);
	print_hosts(&o, nodes, q->name);
	if (top_nodes_count_runners(nodes, q->name) > 0) {
		fputc('\n', out);
		top_nodes_runners(&o, nodes, q->name, RUNNING_MAX);
	}
	print_dead_letters(&o, json_object_get(f->overview, "dead_letters"), q->name, now_ms);
}
