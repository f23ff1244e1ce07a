/*
 * /metrics: what Redis knows of all queues and hosts, for Prometheus, under the names of metrics.textfile. That file tells
 * of one supervisor, this page of all of them: to scrape both counts everything twice.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/web_call.h"

#include "common/alloc.h"
#include "common/clock.h"
#include "common/exposition.h"
#include "common/nitems.h"

/* Some 7 KB a queue that one host serves, and no message in it. */
#define PAGE_MAX ((size_t)2 * WEB_ANSWER_MAX)

struct page {
	struct buffer out;
	const char *name;		/* of the metric being written */
	json_t *seen;			/* samples of it: one that is there twice spoils the whole page */
};

static bool is_new(struct page *p, const char *const *labels)
{
	struct buffer key = {0};
	bool new;

	buffer_format(&key, "%s\n", p->name);	/* a histogram's sum and count have the same labels */
	for (size_t i = 0; labels[i] != NULL; i++)
		buffer_format(&key, "%s\n", labels[i]);
	buffer_append(&key, "", 1);
	new = json_object_get(p->seen, key.data) == NULL;
	json_object_set_new(p->seen, key.data, json_true());
	buffer_free(&key);
	return new;
}

/* A label and its value beside the queue; both may be NULL. What is no number of ours is left out. */
static void count(struct page *p, const json_t *queue, const char *label, const char *value, const json_t *n)
{
	const char *const labels[] = { "queue", json_string_value(queue), label, value, NULL };

	if (labels[1] != NULL && json_is_integer(n) && json_integer_value(n) >= 0 && is_new(p, labels))
		exposition_count(&p->out, p->name, labels, json_integer_value(n));
}

static void seconds(struct page *p, const json_t *queue, const char *label, const char *value, const json_t *s)
{
	const char *const labels[] = { "queue", json_string_value(queue), label, value, NULL };

	if (labels[1] != NULL && json_is_number(s) && json_number_value(s) >= 0 && is_new(p, labels))
		exposition_seconds(&p->out, p->name, labels, clock_ms_of(json_number_value(s) * 1000));
}

static void milliseconds(struct page *p, const json_t *queue, const json_t *ms)
{
	const char *const labels[] = { "queue", json_string_value(queue), NULL };

	if (labels[1] != NULL && json_is_integer(ms) && json_integer_value(ms) >= 0 && is_new(p, labels))
		exposition_seconds(&p->out, p->name, labels, json_integer_value(ms));
}

static void flag(struct page *p, const json_t *queue, bool set)
{
	json_t *n = json_integer(set);

	count(p, queue, NULL, NULL, n);
	json_decref(n);
}

/* ---- of queues: ls ---- */

static void sizes(struct page *p, const json_t *row)
{
	const json_t *queue = json_object_get(row, "name");

	count(p, queue, "list", "ingress", json_object_get(row, "ingress_size"));
	count(p, queue, "list", "transit", json_object_get(row, "transit_size"));
	count(p, queue, "list", "escape", json_object_get(row, "escape_size"));
	count(p, queue, "list", "delayed", json_object_get(row, "delayed_size"));
}

static void paused(struct page *p, const json_t *row)
{
	flag(p, json_object_get(row, "name"), json_is_true(json_object_get(row, "paused")));
}

/* ---- of queues: health ---- */

static const char *const lists[] = { "ingress", "transit", "escape" };

static const json_t *of_list(const json_t *report, const char *list, const char *key)
{
	return json_object_get(json_object_get(report, list), key);
}

static void oldest(struct page *p, const json_t *report)
{
	for (size_t i = 0; i < nitems(lists); i++)
		seconds(p, json_object_get(report, "queue"), "list", lists[i], of_list(report, lists[i], "oldest_age"));
}

static void average(struct page *p, const json_t *report)
{
	for (size_t i = 0; i < nitems(lists); i++)
		seconds(p, json_object_get(report, "queue"), "list", lists[i], of_list(report, lists[i], "avg_age"));
}

static void stuck(struct page *p, const json_t *report)
{
	for (size_t i = 0; i < 2; i++)
		count(p, json_object_get(report, "queue"), "list", lists[i], of_list(report, lists[i], "stuck_count"));
}

static void owners(struct page *p, const json_t *report)
{
	count(p, json_object_get(report, "queue"), "state", "active", of_list(report, "workers", "active"));
	count(p, json_object_get(report, "queue"), "state", "waiting", of_list(report, "workers", "waiting"));
}

static void orphan_owners(struct page *p, const json_t *report)
{
	count(p, json_object_get(report, "queue"), NULL, NULL, of_list(report, "orphans", "registrations"));
}

static void orphans(struct page *p, const json_t *report)
{
	count(p, json_object_get(report, "queue"), NULL, NULL, of_list(report, "orphans", "messages"));
}

static void reason(struct page *p, const json_t *report, const char *code)
{
	const json_t *found;
	bool is_there = false;
	size_t i;

	json_array_foreach(json_object_get(report, "reasons"), i, found) {
		const char *is = json_string_value(json_object_get(found, "code"));

		is_there = is_there || (is != NULL && strcmp(is, code) == 0);
	}
	flag(p, json_object_get(report, "queue"), is_there);
}

static void unarchived(struct page *p, const json_t *report)
{
	reason(p, report, "archive");
}

static void over(struct page *p, const json_t *report)
{
	reason(p, report, "bounds");
}

static void health(struct page *p, const json_t *report)
{
	static const char *const levels[] = { "healthy", "degraded", "unhealthy" };
	const char *status = json_string_value(json_object_get(report, "status"));

	for (size_t i = 0; status != NULL && i < nitems(levels); i++)
		if (strcmp(status, levels[i]) == 0) {
			json_t *n = json_integer((json_int_t)i);

			count(p, json_object_get(report, "queue"), NULL, NULL, n);
			json_decref(n);
		}
}

/* ---- of queues: stats ---- */

static void outcomes(struct page *p, const json_t *row)
{
	const char *event;
	json_t *n;

	json_object_foreach(json_object_get(row, "counters"), event, n)
		if (strcmp(event, "reconnected") != 0)
			count(p, json_object_get(row, "name"), "event", event, n);
}

/* of: what holds "durations" and their sum */
static void histogram(struct page *p, const json_t *queue, const json_t *of)
{
	const char *name = p->name;
	const json_t *bucket;
	json_t *sum = json_integer(0);
	char le[32], part[64];
	size_t i;

	p->name = part;
	snprintf(part, sizeof(part), "%s_bucket", name);
	json_array_foreach(json_object_get(of, "durations"), i, bucket) {
		const json_t *below = json_object_get(bucket, "below_ms");

		json_integer_set(sum, json_integer_value(sum) + json_integer_value(json_object_get(bucket, "count")));
		snprintf(le, sizeof(le), "%g", json_number_value(below) / 1000);
		count(p, queue, "le", json_is_integer(below) ? le : "+Inf", sum);
	}
	snprintf(part, sizeof(part), "%s_count", name);
	count(p, queue, NULL, NULL, sum);
	json_decref(sum);
	snprintf(part, sizeof(part), "%s_sum", name);
	milliseconds(p, queue, json_object_get(of, "duration_ms"));
	p->name = name;
}

static void durations(struct page *p, const json_t *row)
{
	histogram(p, json_object_get(row, "name"), row);
}

static void lags(struct page *p, const json_t *row)
{
	histogram(p, json_object_get(row, "name"), json_object_get(row, "lag"));
}

/* Of those purged, who waited: as tally_purged_waiting() of the sweeper has it. */
static json_t *purged_waiting(const json_t *counters)
{
	json_int_t all = json_integer_value(json_object_get(counters, "purged"));
	json_int_t delayed = json_integer_value(json_object_get(counters, "purged_delayed"));

	return json_integer(all > delayed ? all - delayed : 0);
}

static void purged(struct page *p, const json_t *row)
{
	const json_t *queue = json_object_get(row, "name"), *counters = json_object_get(row, "counters");
	json_t *waiting = purged_waiting(counters);

	count(p, queue, "kind", "ingress", waiting);
	count(p, queue, "kind", "delayed", json_object_get(counters, "purged_delayed"));
	count(p, queue, "kind", "transit", json_object_get(counters, "transit_old"));
	count(p, queue, "kind", "done", json_object_get(counters, "purged_done"));
	count(p, queue, "kind", "orphaned", json_object_get(counters, "orphaned"));
	json_decref(waiting);
}

/* ---- of hosts: nodes ---- */

static void up(struct page *p, const json_t *node)
{
	const char *const labels[] = { "node", json_string_value(json_object_get(node, "node")), NULL };

	if (labels[1] != NULL && is_new(p, labels))
		exposition_count(&p->out, p->name, labels, json_is_integer(json_object_get(node, "at_ms")));
}

static void reported(struct page *p, const json_t *node)
{
	const char *const labels[] = { "node", json_string_value(json_object_get(node, "node")), NULL };
	const json_t *at = json_object_get(node, "at_ms");

	if (labels[1] != NULL && json_is_integer(at) && json_integer_value(at) >= 0 && is_new(p, labels))
		exposition_seconds(&p->out, p->name, labels, json_integer_value(at));
}

static void workers(struct page *p, const json_t *node)
{
	const json_t *host = json_object_get(node, "node"), *queue;
	const char *state;
	json_t *n;
	size_t i;

	json_array_foreach(json_object_get(node, "queues"), i, queue)
		json_object_foreach(json_object_get(queue, "workers"), state, n) {
			const char *const labels[] = { "node", json_string_value(host), "queue", json_string_value(json_object_get(queue, "name")),
				"state", state, NULL };

			if (labels[1] != NULL && labels[3] != NULL && json_is_integer(n) && is_new(p, labels))
				exposition_count(&p->out, p->name, labels, json_integer_value(n));
		}
}

static void of_node_queues(struct page *p, const json_t *node, int64_t (*figure)(const json_t *queue))
{
	const json_t *queue;
	size_t i;

	json_array_foreach(json_object_get(node, "queues"), i, queue) {
		const char *const labels[] = { "node", json_string_value(json_object_get(node, "node")), "queue",
			json_string_value(json_object_get(queue, "name")), NULL };

		if (labels[1] != NULL && labels[3] != NULL && is_new(p, labels))
			exposition_count(&p->out, p->name, labels, figure(queue));
	}
}

static int64_t restarts_of(const json_t *queue)
{
	return json_integer_value(json_object_get(queue, "restarts"));
}

static int64_t breaker_of(const json_t *queue)
{
	return json_is_true(json_object_get(queue, "breaker"));
}

static void restarts(struct page *p, const json_t *node)
{
	of_node_queues(p, node, restarts_of);
}

static void breakers(struct page *p, const json_t *node)
{
	of_node_queues(p, node, breaker_of);
}

/* ---- the page ---- */

static const struct family {
	const char *name, *type, *help;
	const char *part, *list;	/* of the overview; list: where the rows are in it, NULL: it is the list */
	void (*write)(struct page *p, const json_t *row);
} families[] = {
	{ "quredis_queue_messages", "gauge", "Messages in a list of a queue.", "queues", NULL, sizes },
	{ "quredis_queue_paused", "gauge", "1 while a queue is paused.", "queues", NULL, paused },
	{ "quredis_queue_oldest_age_seconds", "gauge", "How long the oldest message is in its list, as far as it is known.", "health", "queues", oldest },
	{ "quredis_queue_average_age_seconds", "gauge", "How long messages are in their list, as far as it is known.", "health", "queues", average },
	{ "quredis_queue_stuck_messages", "gauge", "Messages as old as health.thresholds.stuck_age.", "health", "queues", stuck },
	{ "quredis_queue_workers", "gauge", "Workers of a queue on all hosts.", "health", "queues", owners },
	{ "quredis_queue_orphan_registrations", "gauge", "Workers registered without a lease.", "health", "queues", orphan_owners },
	{ "quredis_queue_orphan_messages", "gauge", "Messages that nobody who lives owns.", "health", "queues", orphans },
	{ "quredis_dead_letters_unarchived", "gauge", "1 while dead letters are to leave and the archive takes none.", "health", "queues", unarchived },
	{ "quredis_dead_letters_over", "gauge", "1 while there are more, or older ones, than bounds allow, and nothing may remove them.", "health", "queues", over },
	{ "quredis_health_status", "gauge", "0 healthy, 1 degraded, 2 unhealthy.", "health", "queues", health },
	{ "quredis_messages_total", "counter", "What became of messages, on all hosts, since the queue exists.", "stats", NULL, outcomes },
	{ "quredis_handler_duration_seconds", "histogram", "How long handlers ran, on all hosts, since the queue exists.", "stats", NULL, durations },
	{ "quredis_sweep_lag_seconds", "histogram", "How late what was due or expired was moved, since the queue exists.", "stats", NULL, lags },
	{ "quredis_purged_total", "counter", "What purge took, or told of (transit), since the queue exists.", "stats", NULL, purged },
	{ "quredis_node_up", "gauge", "1 while a host reports itself.", "nodes", NULL, up },
	{ "quredis_node_reported_timestamp_seconds", "gauge", "When a host reported itself last.", "nodes", NULL, reported },
	{ "quredis_workers", "gauge", "Workers of a host by their state.", "nodes", NULL, workers },
	{ "quredis_worker_restarts_total", "counter", "Workers started in place of dead ones, since a supervisor started.", "nodes", NULL, restarts },
	{ "quredis_breaker_open", "gauge", "1 while the breaker of a queue is open on a host.", "nodes", NULL, breakers },
};

static void write_family(struct page *p, const struct family *f, const json_t *overview)
{
	const json_t *rows = json_object_get(overview, f->part), *row;
	size_t i;

	exposition_metric(&p->out, f->name, f->type, f->help);
	json_array_foreach(f->list == NULL ? rows : json_object_get(rows, f->list), i, row) {
		p->name = f->name;
		f->write(p, row);
	}
	json_object_clear(p->seen);
}

/* Without Redis there is one figure to tell: that it is away. */
static int print(void *arg)
{
	const struct web_call *call = arg;
	struct page p = { .seen = json_object() };
	int status;
	json_t *overview = web_overview(call->w->a, &status);

	exposition_metric(&p.out, "quredis_build_info", "gauge", "The version that runs.");
	exposition_count(&p.out, "quredis_build_info", (const char *const[]){ "version", QUREDIS_VERSION, NULL }, 1);
	exposition_metric(&p.out, "quredis_redis_up", "gauge", "1 if Redis answered.");
	exposition_count(&p.out, "quredis_redis_up", NULL, overview != NULL);
	for (size_t i = 0; overview != NULL && i < nitems(families); i++)
		write_family(&p, &families[i], overview);
	fwrite(p.out.data, 1, p.out.len, stdout);
	buffer_free(&p.out);
	json_decref(p.seen);
	json_decref(overview);
	return EX_OK;
}

static void done(const struct web_job *job, void *arg)
{
	struct web_call *call = arg;
	struct buffer why = {0};

	if (web_job_status(job) == EX_OK && job->answer.len > 0) {
		web_answer(call, 200, "text/plain; version=0.0.4; charset=utf-8", job->answer.data, job->answer.len);
		return;
	}
	web_command_trouble(job, &why);
	web_answer(call, job->late ? 504 : 503, "application/json", why.data, why.len);
	buffer_free(&why);
}

void web_metrics(struct web_call *call)
{
	if (web_job_start(&call->w->jobs, &(struct web_question){ .work = print, .done = done, .drop = web_call_drop, .arg = call, .answer_max = PAGE_MAX,
	    .stranger = !call->is_known }) == -1)
		web_answer_error(call, 503, "too many requests wait already");
}
