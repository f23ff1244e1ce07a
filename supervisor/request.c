/* Commands of the control socket: one row of a table for each. host/control.c serves the connections. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/request.h"

#include "common/base/base.h"
#include "common/log/log.h"
#include "supervisor/master.h"
#include "supervisor/status.h"

static json_t *refusal(const char *why)
{
	return json_pack("{s:b,s:s}", "ok", 0, "error", why);
}

static json_t *consent(void)
{
	return json_pack("{s:b}", "ok", 1);
}

static json_t *answer_status(struct master *m, const json_t *request, int64_t now_ms)
{
	json_t *o = status_document(m, now_ms);

	(void)request;
	if (o != NULL)
		json_object_set_new(o, "ok", json_true());
	return o;
}

static json_t *texts(const struct conf_report *report, bool warnings)
{
	json_t *a = json_array();

	for (size_t i = 0; i < report->n; i++)
		if (report->problems[i].warning == warnings && json_array_append_new(a,
		    json_string(report->problems[i].text)) == -1)
			json_array_append_new(a, json_string("a problem that is not UTF-8: see the log"));
	return a;
}

/* Returns the queues with their keys, so that the client can read what waits in them. */
static json_t *queue_names(const struct master *m)
{
	json_t *a = json_array();

	for (const struct queue_workers *q = NULL; (q = queues_next(&m->queues, q)) != NULL;)
		json_array_append_new(a, json_pack("{s:s,s:s,s:s,s:s}", "queue", q->name, "ingress", q->conf->ingress,
		    "transit", q->conf->transit, "escape", q->conf->escape));
	return a;
}

/* Returns the queues of `before` that have left the configuration or have other keys now. Takes ownership of before. */
static json_t *which_left(const struct master *m, json_t *before)
{
	json_t *a = json_array(), *now = queue_names(m), *old, *new;
	size_t i, k;

	json_array_foreach(before, i, old) {
		bool stays = false;

		json_array_foreach(now, k, new)
			stays = stays || json_equal(old, new);
		if (!stays)
			json_array_append(a, old);
	}
	json_decref(before);
	json_decref(now);
	return a;
}

/* Queue -> the generation of its handler. */
static json_t *generations(const struct master *m)
{
	json_t *o = json_object();

	for (const struct queue_workers *q = NULL; (q = queues_next(&m->queues, q)) != NULL;)
		json_object_set_new(o, q->name, json_integer((json_int_t)q->handler_generation));
	return o;
}

/* The order gave the queue a newer handler than it had before. */
static bool has_newer(const struct queue_workers *q, const json_t *before)
{
	const json_t *old = json_object_get(before, q->name);

	return old == NULL || json_integer_value(old) != (json_int_t)q->handler_generation;
}

static void add_renewal(struct master *m, json_t *renewals, const struct queue_workers *q, const json_t *before,
    int64_t now_ms)
{
	int queue = queues_place(&m->queues, q);

	renewal_step(&m->queues, queue, now_ms);	/* workers that need not be waited for leave */
	if (renewal_is_under_way(&m->queues, queue) || (renewal_is_awaited(&m->queues, queue) &&
	    (has_newer(q, before) || renewal_is_undecided(&m->queues, queue))))
		json_array_append_new(renewals, json_pack("{s:s,s:I,s:I}", "queue", q->name,
		    "generation", (json_int_t)q->handler_generation,
		    "limit_ms", (json_int_t)renewal_limit_ms(&m->queues, queue)));
}

/*
 * Adds the queues whose new handler loads: the client can wait for its end. only: of this queue; NULL: of all. before:
 * generations() before the order; a queue that it did not touch is waited for while its workers are replaced, or load.
 */
static void add_renewals(struct master *m, json_t *answer, const struct queue_workers *only, const json_t *before,
    int64_t now_ms)
{
	json_t *a = json_array();

	for (const struct queue_workers *q = NULL; (q = queues_next(&m->queues, q)) != NULL;)
		if (only == NULL || q == only)
			add_renewal(m, a, q, before, now_ms);
	if (json_array_size(a) > 0)
		json_object_set(answer, "renewals", a);
	json_decref(a);
}

static json_t *answer_reload(struct master *m, const json_t *request, int64_t now_ms)
{
	struct conf_report report;
	json_t *o, *before, *handlers;

	(void)request;
	if (m->stop.phase != STOP_NOT)
		return refusal("stopping");
	before = queue_names(m);
	handlers = generations(m);
	if (reload_run(m, &report, now_ms) == 0) {
		o = consent();
		add_renewals(m, o, NULL, handlers, now_ms);
	} else {
		o = refusal("the configuration has errors; the running one is kept");
		json_object_set_new(o, "problems", texts(&report, false));
	}
	json_object_set_new(o, "warnings", texts(&report, true));
	json_object_set_new(o, "left", which_left(m, before));
	json_decref(handlers);
	conf_report_free(&report);
	return o;
}

static json_t *answer_stop(struct master *m, const json_t *request, int64_t now_ms)
{
	const json_t *fast = json_object_get(request, "fast");

	if (fast != NULL && !json_is_boolean(fast))
		return refusal("\"fast\" must be true or false");
	stop_begin(m, json_is_true(fast), "control socket", now_ms);
	return consent();
}

/* Returns the index of the queue that the request names; -1: there is no such queue, or the request names none. */
static int queue_of(const struct master *m, const json_t *request)
{
	const json_t *name = json_object_get(request, "queue");

	return json_is_string(name) ? queues_find(&m->queues, json_string_value(name)) : -1;
}

static json_t *no_such_queue(const struct master *m, const json_t *request)
{
	const char *name = json_string_value(json_object_get(request, "queue")), *near, **names;
	char *text;
	json_t *o;
	size_t n = 0;

	if (name == NULL)
		return refusal("\"queue\" must be a string");
	names = alloc_zero((size_t)m->queues.n + 1, sizeof(*names));
	for (const struct queue_workers *q = NULL; (q = queues_next(&m->queues, q)) != NULL;)
		names[n++] = q->name;
	near = nearest(name, names, n);
	text = near == NULL ? alloc_string("no such queue") : alloc_format("no such queue (did you mean %s?)", near);
	o = refusal(text);
	free(text);
	free(names);
	return o;
}

static json_t *answer_restart(struct master *m, const json_t *request, int64_t now_ms)
{
	int queue = queue_of(m, request);
	json_t *o;

	if (m->stop.phase != STOP_NOT)
		return refusal("stopping");
	if (queue == -1)
		return no_such_queue(m, request);
	log_info("queue_restart", log_str("queue", m->queues.items[queue].name));
	queues_recycle(&m->queues, queue, now_ms);
	o = consent();
	add_renewals(m, o, &m->queues.items[queue], NULL, now_ms);
	return o;
}

static json_t *answer_scale(struct master *m, const json_t *request, int64_t now_ms)
{
	const json_t *workers = json_object_get(request, "workers");
	json_int_t n = json_integer_value(workers);
	int queue = queue_of(m, request);

	(void)now_ms;
	if (m->stop.phase != STOP_NOT)
		return refusal("stopping");
	if (queue == -1)
		return no_such_queue(m, request);
	_Static_assert(CONF_WORKERS_MAX == 1000, "the text below names it");
	if (!json_is_integer(workers) || n < 0 || n > CONF_WORKERS_MAX)
		return refusal("\"workers\" must be a whole number from 0 to 1000");
	if (n + queues_wanted_by_others(&m->queues, queue) > SCOREBOARD_WORKERS)
		return refusal("that would be too many workers in all queues together");
	log_info("queue_scaled", log_str("queue", m->queues.items[queue].name), log_int("workers", n),
	    log_int("before", queues_wanted(&m->queues.items[queue])));
	queues_scale(&m->queues, queue, (int)n);
	return consent();
}

static json_t *set_quiet(struct master *m, const json_t *request, bool quiet, int64_t now_ms)
{
	bool all = json_object_get(request, "queue") == NULL;
	int queue = queue_of(m, request);

	if (m->stop.phase != STOP_NOT)
		return refusal("stopping");
	if (!all && queue == -1)
		return no_such_queue(m, request);
	if (all)
		queues_set_all_quiet(&m->queues, quiet, now_ms);
	else
		queues_set_quiet(&m->queues, queue, quiet, now_ms);
	return consent();
}

static json_t *answer_quiet(struct master *m, const json_t *request, int64_t now_ms)
{
	return set_quiet(m, request, true, now_ms);
}

static json_t *answer_resume(struct master *m, const json_t *request, int64_t now_ms)
{
	return set_quiet(m, request, false, now_ms);
}

static const struct {
	const char *name;
	json_t *(*answer)(struct master *m, const json_t *request, int64_t now_ms);
	bool reads;		/* members of supervisor.control_group may send it */
} commands[] = {
	{ "status", answer_status, .reads = true },
	{ "reload", answer_reload, .reads = false },
	{ "stop", answer_stop, .reads = false },
	{ "restart", answer_restart, .reads = false },
	{ "scale", answer_scale, .reads = false },
	{ "quiet", answer_quiet, .reads = false },
	{ "resume", answer_resume, .reads = false },
};

static json_t *dispatch(struct master *m, const json_t *request, bool may_order, int64_t now_ms)
{
	const char *name = json_string_value(json_object_get(request, "command"));

	if (name == NULL)
		return refusal("a request must be an object with a \"command\"");
	for (size_t i = 0; i < nitems(commands); i++)
		if (strcmp(name, commands[i].name) == 0)
			return may_order || commands[i].reads ? commands[i].answer(m, request, now_ms) :
			    refusal("a member of supervisor.control_group may read the status only: "
			    "become root, or the user of quredisd");
	return refusal("unknown command");
}

char *request_answer(void *master, const char *line, size_t len, bool may_order, int64_t now_ms)
{
	json_t *request = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	json_t *answer = dispatch(master, request, may_order, now_ms);
	char *text = answer == NULL ? NULL : json_dumps(answer, JSON_COMPACT);

	json_decref(answer);
	json_decref(request);
	return text;
}
