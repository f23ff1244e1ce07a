/*
 * /metrics: the figures of all queues and hosts that Redis holds, for Prometheus, under the names of metrics.textfile.
 * That file is about one supervisor, this page about all of them: a Prometheus that scrapes both counts everything
 * twice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/web/call.h"
#include "admin/web/web.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

/* About 7 KB for each queue on one host; the page contains no message. */
#define PAGE_MAX ((size_t)2 * WEB_ANSWER_MAX)

struct page {
	struct buffer out;
	enum metric metric;		/* being written */
	const json_t *overview;		/* NULL: Redis does not answer */
	json_t *seen;			/* what it has so far: Prometheus rejects a page that has a sample twice */
	struct facts_row *rows;
	struct known { struct facts facts; struct queue_figures counted; } *known;	/* of each row */
	size_t n;
};

/* The samples that are no figure of common/facts. A row of the overview is a queue or a node, by its name. */
struct source;
typedef void row_writer(struct page *p, const struct source *s, const char *name, const json_t *row);
static row_writer write_status, write_reason, write_reasons, write_failed, write_classes, write_up, write_reported,
    write_words;

/* The parts of the overview, where their rows are, and the key of a row's name. */
enum part { QUEUES, HEALTH, STATS, NODES };
static const struct { const char *key, *rows, *name; } parts[] = {
	[QUEUES] = { "queues", NULL, "name" }, [HEALTH] = { "health", "queues", "queue" },
	[STATS] = { "stats", NULL, "name" },
	[NODES] = { "nodes", NULL, "node" },
};

static const struct source {
	enum metric metric;
	enum part part;
	row_writer *write;
	const char *key;		/* the member that write() reads; NULL: it knows its members */
} sources[] = {
	{ METRIC_DEAD_LETTERS_UNARCHIVED, HEALTH, write_reason, "archive" },
	{ METRIC_DEAD_LETTERS_OVER, HEALTH, write_reason, "bounds" },
	{ METRIC_HEALTH_STATUS, HEALTH, write_status, "status" },
	{ METRIC_HEALTH_REASON, HEALTH, write_reasons, "status" },
	{ METRIC_HEALTH_RECOVERING, HEALTH, write_reasons, "recovering" },
	{ METRIC_FAILED_ATTEMPTS, HEALTH, write_failed, "failures" },
	{ METRIC_ESCAPED_CLASSES, STATS, write_classes, NULL },
	{ METRIC_NODE_UP, NODES, write_up, NULL },
	{ METRIC_NODE_REPORTED, NODES, write_reported, NULL },
	{ METRIC_QUEUE_STATE, NODES, write_words, "state" },
	{ METRIC_BREAKER_CAUSE, NODES, write_words, "cause" },
};

/* ---- samples ---- */

static bool is_new(struct page *p, const char *const values[METRIC_LABELS])
{
	struct buffer key = {0};
	bool new;

	for (size_t i = 0; i < METRIC_LABELS; i++)
		buffer_format(&key, "%s\n", values[i] == NULL ? "" : values[i]);
	buffer_append(&key, "", 1);
	new = json_object_get(p->seen, key.data) == NULL;
	json_object_set_new(p->seen, key.data, json_true());
	buffer_free(&key);
	return new;
}

static void write_sample(struct page *p, const char *const values[METRIC_LABELS], int64_t n)
{
	if (n >= 0 && is_new(p, values))
		exposition_sample(&p->out, p->metric, values, n);
}

/* Other programs write to Redis, too: a value that quredis would not write is -1, and is left out. */
static int64_t number_of(const json_t *n)
{
	return json_is_integer(n) ? json_integer_value(n) : -1;
}

/* ---- of the health of a queue ---- */

/* A status, or a boolean. -1: another program wrote the report, or no supervisor reports the queue. */
static int64_t level_of(const json_t *value)
{
	return json_is_boolean(value) ? json_is_true(value) : queue_health_level_of(json_string_value(value));
}

static void write_status(struct page *p, const struct source *s, const char *name, const json_t *report)
{
	write_sample(p, (const char *const[METRIC_LABELS]){ name }, level_of(json_object_get(report, s->key)));
}

/* A code of another program must not add labels without end: those of quredis are short, and few. */
#define REASONS_MAX 32
static bool is_code(const char *code)
{
	return code != NULL && strlen(code) < 32 && code[strspn(code, "abcdefghijklmnopqrstuvwxyz_")] == '\0';
}

static void write_reasons(struct page *p, const struct source *s, const char *name, const json_t *report)
{
	const json_t *reason;
	size_t i;

	json_array_foreach(json_object_get(report, "reasons"), i, reason) {
		const char *code = json_string_value(json_object_get(reason, "code"));

		if (i < REASONS_MAX && is_code(code))
			write_sample(p, (const char *const[METRIC_LABELS]){ name, code },
			    level_of(json_object_get(reason, s->key)));
	}
}

/* 1 if the report gives this reason, and it still applies. */
static void write_reason(struct page *p, const struct source *s, const char *name, const json_t *report)
{
	const json_t *reason;
	bool found = false;
	size_t i;

	json_array_foreach(json_object_get(report, "reasons"), i, reason) {
		const char *code = json_string_value(json_object_get(reason, "code"));

		found = found || (code != NULL && strcmp(code, s->key) == 0 &&
		    !json_is_true(json_object_get(reason, "recovering")));
	}
	write_sample(p, (const char *const[METRIC_LABELS]){ name }, found);
}

static void write_failed(struct page *p, const struct source *s, const char *name, const json_t *report)
{
	struct class_figure figures[QUEUE_FAILED_FIGURES];
	struct queue_failed failed = {0};
	size_t n;

	queue_failed_read(&failed, json_object_get(report, s->key));
	n = queue_failed_figures(&failed, figures);
	for (size_t i = 0; i < n; i++)
		write_sample(p, (const char *const[METRIC_LABELS]){ name, figures[i].name }, (int64_t)figures[i].n);
}

/* ---- of the statistics of a queue ---- */

static void write_classes(struct page *p, const struct source *s, const char *name, const json_t *row)
{
	const char *class;
	json_t *n;

	(void)s;
	json_object_foreach(json_object_get(row, "classes"), class, n)
		write_sample(p, (const char *const[METRIC_LABELS]){ name, class }, number_of(n));
}

/* ---- of a node ---- */

static void write_up(struct page *p, const struct source *s, const char *name, const json_t *node)
{
	(void)s;
	write_sample(p, (const char *const[METRIC_LABELS]){ name }, json_is_integer(json_object_get(node, "at_ms")));
}

static void write_reported(struct page *p, const struct source *s, const char *name, const json_t *node)
{
	(void)s;
	write_sample(p, (const char *const[METRIC_LABELS]){ name }, number_of(json_object_get(node, "at_ms")));
}

/* The label is a step and an error of the system, so there are few. Another program may write anything. */
#define CAUSE_MAX 100
static void write_words(struct page *p, const struct source *s, const char *name, const json_t *node)
{
	const json_t *queue;
	size_t i;

	json_array_foreach(json_object_get(node, "queues"), i, queue) {
		const char *queue_name = json_string_value(json_object_get(queue, "name")),
		    *cause = json_string_value(json_object_get(queue, s->key));

		if (queue_name != NULL && cause != NULL && strlen(cause) <= CAUSE_MAX)
			write_sample(p, (const char *const[METRIC_LABELS]){ name, queue_name, cause }, 1);
	}
}

/* ---- the rows of the figures ---- */

/* NULL: there is no name, or the row is there already; any program may have written a report. */
static struct known *new_row(struct page *p, const char *part, const char *node, const char *queue)
{
	struct known *known = &p->known[p->n];

	if (queue == NULL || !is_new(p, (const char *const[METRIC_LABELS]){ part, node, queue }))
		return NULL;
	known->facts = facts_unknown();
	p->rows[p->n++] = (struct facts_row){ .node = node, .queue = queue, .facts = &known->facts };
	return known;
}

/* The lengths of ls are newer than those of the report. */
static void read_queue(struct page *p, enum part part, const char *name, const json_t *row)
{
	struct known *known = new_row(p, parts[part].key, NULL, name);

	if (known == NULL)
		return;
	if (part == QUEUES) {
		facts_read_listed(&known->facts, row);
	} else if (part == STATS) {
		counters_read(&known->counted, row);
		p->rows[p->n - 1].counted = &known->counted;
	} else {
		facts_read(&known->facts, FACT_OF_QUEUE, row, 0);
		for (int i = 0; i < FACTS; i++)
			known->facts.n[i] = facts_table[i].listed != NULL ? -1 : known->facts.n[i];
	}
}

static void read_node(struct page *p, const char *name, const json_t *node)
{
	int64_t age_ms = queue_node_age(node, json_integer_value(json_object_get(p->overview, "time")));
	const json_t *queue;
	size_t i;

	json_array_foreach(json_object_get(node, "queues"), i, queue) {
		const char *queue_name = json_string_value(json_object_get(queue, "name"));
		struct known *known = new_row(p, parts[NODES].key, name, queue_name);

		if (known != NULL)
			facts_read(&known->facts, FACT_OF_HOST, queue, age_ms);
	}
}

static const json_t *rows_of(const struct page *p, enum part part)
{
	const json_t *of = json_object_get(p->overview, parts[part].key);

	return parts[part].rows == NULL ? of : json_object_get(of, parts[part].rows);
}

static void read_figures(struct page *p)
{
	size_t most = 1, i;
	const json_t *row;

	for (int part = QUEUES; part <= NODES; part++)
		json_array_foreach(rows_of(p, (enum part)part), i, row)
			most += part == NODES ? json_array_size(json_object_get(row, "queues")) : 1;
	p->rows = alloc_zero(most, sizeof(*p->rows));
	p->known = alloc_zero(most, sizeof(*p->known));
	for (int part = QUEUES; part <= NODES; part++)
		json_array_foreach(rows_of(p, (enum part)part), i, row) {
			const char *name = json_string_value(json_object_get(row, parts[part].name));

			if (part != NODES)
				read_queue(p, (enum part)part, name, row);
			else if (name != NULL)
				read_node(p, name, row);
		}
}

/* ---- the page ---- */

static void write_others(void *arg, enum metric m)
{
	struct page *p = arg;
	const json_t *row;
	size_t i;

	json_object_clear(p->seen);
	p->metric = m;
	if (m == METRIC_BUILD_INFO)
		write_sample(p, (const char *const[METRIC_LABELS]){ QUREDIS_VERSION }, 1);
	if (m == METRIC_REDIS_UP)
		write_sample(p, (const char *const[METRIC_LABELS]){ NULL }, p->overview != NULL);
	for (const struct source *s = sources; s < sources + nitems(sources); s++)
		json_array_foreach(s->metric == m ? rows_of(p, s->part) : NULL, i, row) {
			const char *name = json_string_value(json_object_get(row, parts[s->part].name));

			if (name != NULL)
				s->write(p, s, name, row);
		}
}

/* Without Redis it has no sample but that. */
static int print_page(void *arg)
{
	const struct web_call *call = arg;
	struct page p = { .seen = json_object() };
	int status;
	json_t *overview = web_overview(call->w->a, &status);

	p.overview = overview;
	read_figures(&p);
	facts_page(&p.out, PAGE_CONSOLE, p.rows, p.n, write_others, &p);
	fwrite(p.out.data, 1, p.out.len, stdout);
	buffer_free(&p.out);
	free(p.rows);
	free(p.known);
	json_decref(p.seen);
	json_decref(overview);
	return EX_OK;
}

static void answer_metrics(const struct web_job *job, void *arg)
{
	struct web_call *call = arg;
	struct buffer why = {0};

	if (web_job_status(job) == EX_OK && job->answer.len > 0) {
		web_answer(call, 200, "text/plain; version=0.0.4; charset=utf-8", job->answer.data, job->answer.len);
		return;
	}
	web_command_failure(job, &why);
	web_answer(call, job->late ? 504 : 503, "application/json", why.data, why.len);
	buffer_free(&why);
}

void web_metrics(struct web_call *call)
{
	if (web_job_start(&call->w->jobs, &(struct web_question){ .work = print_page, .done = answer_metrics,
	    .drop = web_call_drop, .arg = call, .answer_max = PAGE_MAX, .stranger = !call->is_known }) == -1)
		web_answer_error(call, 503, "too many requests wait already");
}
