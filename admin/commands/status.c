/*
 * quredis status: shows the status of the supervisor on this host as tables. With --json it prints the supervisor's own
 * document unchanged (supervisor/status.c describes it).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/commands/commands.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define SEEN_RECENTLY_MS 10000
#define HEALTH_MS 1000		/* for each answer of a Redis that may hang: the status is printed already */

static struct cell text_of(const json_t *object, const char *key)
{
	return cell_str(json_string_value(json_object_get(object, key)));
}

static struct cell of_integer(const json_t *object, const char *key, struct cell (*cell)(int64_t))
{
	const json_t *n = json_object_get(object, key);

	return json_is_integer(n) ? cell(json_integer_value(n)) : cell_none();
}

static struct cell number_of(const json_t *object, const char *key)
{
	return of_integer(object, key, cell_int);
}

/* ---- status ---- */

static void say_line(const char *what, char *text)
{
	char *shown = visible_line(text);

	printf("%s: %s\n", what, shown);
	free(shown);
	free(text);
}

/* The server of the sweeper; a quredisd of another version may not name it. */
static void say_redis(const json_t *redis)
{
	const char *address = json_string_value(json_object_get(redis, "address")),
	    *target = json_string_value(json_object_get(redis, "target"));
	const char *master = json_string_value(json_object_get(redis, "master")),
	    *sentinel = json_string_value(json_object_get(redis, "sentinel"));
	char *text;

	if (target == NULL)
		return;
	if (address == NULL)
		text = alloc_format("%s, not connected", target);
	else if (master != NULL)
		text = alloc_format("%s%s, the master %s by Sentinel %s", address,
		    json_is_true(json_object_get(redis, "tls")) ? " with TLS" : "", master,
		    sentinel == NULL ? "?" : sentinel);
	else
		text = alloc_format("%s%s", address, json_is_true(json_object_get(redis, "tls")) ? " with TLS" : "");
	say_line("Redis", text);
}

static void say_supervisor(const json_t *s)
{
	char *up = cell_text(&(struct cell){ .type = CELL_ELAPSED,
	    .value = json_integer_value(json_object_get(s, "uptime_ms")) }, SIZE_MAX);
	char *node = cell_text(&(struct cell){ .type = CELL_TEXT,
	    .data = json_string_value(json_object_get(s, "node")) }, 100);
	const json_t *log = json_object_get(s, "log");
	const char *silent = json_string_value(json_object_get(log, "since"));
	const char *failed = json_string_value(json_object_get(json_object_get(s, "reload_failed"), "reason"));
	char *stop = control_unsaved(s);	/* only while a stop waits for the file of the embedded Redis */

	printf("quredisd %s on %s is %s, pid %" JSON_INTEGER_FORMAT ", up %s\n",
	    json_string_value(json_object_get(s, "version")), node, json_string_value(json_object_get(s, "state")),
	    json_integer_value(json_object_get(s, "pid")), up);
	say_redis(json_object_get(s, "redis"));
	if (failed != NULL)
		say_line("Reload", alloc_format("failed at %s, and the configuration before it is in use: %s",
		    json_string_value(json_object_get(json_object_get(s, "reload_failed"), "at")), failed));
	if (silent != NULL)
		say_line("Log", alloc_format("has taken no line since %s: %s", silent,
		    json_string_value(json_object_get(log, "error"))));
	if (stop != NULL)
		say_line("Stop", stop);
	putchar('\n');
	free(up);
	free(node);
}

static void show_queues(struct admin *a, const json_t *queues)
{
	static const struct column columns[] = {
		{ NULL, "Queue", COLUMN_NAME }, { NULL, "State", COLUMN_STATE },
		{ NULL, NULL, FIGURES_OF(IN_STATUS) }, { NULL, "Alive", COLUMN_NUMBER | YIELDS(14) },
		{ NULL, NULL, FIGURES_OF(IN_STATUS_END) }, { NULL, "Reason", COLUMN_TEXT },
	};
	const json_t *q;
	size_t i;

	output_begin(&a->output, columns, nitems(columns));
	json_array_foreach(queues, i, q) {
		const json_t *w = json_object_get(q, "workers");
		struct queue_figures counted;
		struct facts f = facts_unknown();

		counters_read(&counted, q);
		facts_read(&f, FACT_OF_HOST, q, 0);
		output_row(&a->output, (struct cell[]){ text_of(q, "name"), text_of(q, "state"), cell_facts(&f),
		    number_of(w, "alive"), cell_figures(&counted, &f), text_of(q, "reason") });
	}
	if (a->output.terminal && i > 0)
		output_line(&a->output, "counted since the supervisor started; quredis stats counts for all hosts");
	output_end(&a->output, true);
}

/* ---- health ---- */

struct sick_queues {
	size_t ill, doubtful;		/* degraded or unhealthy; not known */
};

/* Counts queues of this supervisor; none if Redis does not tell. */
static struct sick_queues count_sick(struct admin *a, const json_t *status)
{
	struct sick_queues sick = {0};
	struct queue_health *reports;
	struct redis_reply reply;
	size_t n, stale;
	int64_t now_ms;
	bool confirmed;

	a->wait_ms = HEALTH_MS;
	if (connection_open(a) == -1 || admin_server_time(a, &now_ms) == -1)
		return sick;
	queue_health_read(&a->redis);
	if (admin_wait(a, &reply) == -1 || !redis_is_strings(&reply))
		return sick;
	reports = queue_health_parse_all(&reply, NULL, 0, now_ms, &n, &stale);
	confirmed = reports_confirm(a, reports, &n, now_ms) == 0;
	for (size_t i = 0; i < n; i++) {
		bool is_here = confirmed && queue_node_row(status, reports[i].queue) != NULL;

		sick.doubtful += is_here && reports[i].level == REPORTS_UNKNOWN;
		sick.ill += is_here && reports[i].level != REPORTS_UNKNOWN && reports[i].level > QUEUE_HEALTHY;
	}
	reports_free(reports, n);
	return sick;
}

static void print_sick(struct sick_queues sick, size_t queues)
{
	char *more = sick.doubtful == 0 ? alloc_string("")
	    : alloc_format(", and the health of %zu more is not known", sick.doubtful);

	if (sick.ill > 0)
		admin_note("%zu of %zu queue%s %s degraded or unhealthy%s: quredis health shows which, and why",
		    sick.ill, queues, queues == 1 ? "" : "s", sick.ill == 1 ? "is" : "are", more);
	else if (sick.doubtful > 0)
		admin_note("the health of %zu of %zu queue%s is not known: quredis health shows which, and why",
		    sick.doubtful, queues, queues == 1 ? "" : "s");
	free(more);
}

/* The supervisor does not know the health of its queues, Redis does. Without Redis there is no line about it. */
static void note_sick(struct admin *a, const json_t *s)
{
	char unsaid[COMPLAINT_SIZE];
	struct sick_queues sick;

	if (a->flawed || a->options.socket != NULL ||
	    !json_is_string(json_object_get(json_object_get(s, "redis"), "address")))
		return;
	fflush(stdout);
	a->complaint = unsaid;
	a->served = true;
	sick = count_sick(a, s);
	a->complaint = NULL;
	a->status = EX_OK;
	print_sick(sick, json_array_size(json_object_get(s, "queues")));
}

/* A new string: "40% page 2"; NULL: the handler said nothing. */
static char *progress_of(const json_t *progress)
{
	const char *text = json_string_value(json_object_get(progress, "text"));

	if (!json_is_object(progress))
		return NULL;
	return alloc_format("%d%%%s%s", (int)json_integer_value(json_object_get(progress, "percent")),
	    text == NULL || text[0] == '\0' ? "" : " ", text == NULL ? "" : text);
}

/* True: there is nothing to see. On a terminal, such workers would only move the others off the screen. */
static bool is_calm(const json_t *worker)
{
	const char *state = json_string_value(json_object_get(worker, "state"));

	return state != NULL && strcmp(state, "idle") == 0 && json_is_true(json_object_get(worker, "redis")) &&
	    !json_is_true(json_object_get(worker, "draining")) &&
	    json_integer_value(json_object_get(worker, "heartbeat_age_ms")) < SEEN_RECENTLY_MS;
}

static void show_workers(struct admin *a, const json_t *workers)
{
	static const struct column columns[] = {
		{ NULL, "Worker", COLUMN_NAME }, { NULL, "Pid", COLUMN_NUMBER | YIELDS(3) },
		{ NULL, "State", COLUMN_STATE },
		{ NULL, "Waits for", COLUMN_TEXT | YIELDS(6) },
		{ NULL, "Messages", COLUMN_NUMBER | YIELDS(2) }, { NULL, "Running", COLUMN_NUMBER },
		{ NULL, "Progress", COLUMN_TEXT },
		{ NULL, "Seen", COLUMN_NUMBER | YIELDS(4) }, { NULL, "Redis", COLUMN_STATE | YIELDS(5) },
		{ NULL, "Incarnation", COLUMN_ID | YIELDS(1) },
	};
	const json_t *w;
	size_t i;

	output_begin(&a->output, columns, nitems(columns));
	json_array_foreach(workers, i, w) {
		char *progress = progress_of(json_object_get(w, "progress"));

		output_row(&a->output, (struct cell[]){ text_of(w, "name"), number_of(w, "pid"), text_of(w, "state"),
		    text_of(w, "waits_for"),
		    number_of(w, "serial"), of_integer(w, "running_ms", cell_elapsed), cell_str(progress),
		    of_integer(w, "heartbeat_age_ms", cell_ago),
		    cell_bool(json_is_true(json_object_get(w, "redis"))), text_of(w, "incarnation") });
		free(progress);
	}
	output_end(&a->output, true);
}

/* NULL: an error was printed. */
static json_t *ask_status(struct admin *a)
{
	json_t *s = control_ask(a, "status", NULL);

	if (s != NULL && !json_is_true(json_object_get(s, "ok"))) {
		json_decref(s);
		return NULL;
	}
	if (s != NULL)
		json_object_del(s, "ok");
	return s;
}

/* Removes the rows whose value of key is not the name of this queue. */
static void keep_queue(json_t *rows, const char *key, const char *queue)
{
	for (size_t i = json_array_size(rows); i-- > 0;) {
		const char *name = json_string_value(json_object_get(json_array_get(rows, i), key));

		if (name == NULL || strcmp(name, queue) != 0)
			json_array_remove(rows, i);
	}
}

static int no_such_queue(struct admin *a, const char *queue, const json_t *queues)
{
	const char **names = alloc_zero(json_array_size(queues) + 1, sizeof(*names)), *near;
	size_t n = 0;

	for (size_t i = 0; i < json_array_size(queues); i++) {
		const char *name = json_string_value(json_object_get(json_array_get(queues, i), "name"));

		if (name != NULL)
			names[n++] = name;
	}
	near = nearest(queue, names, n);
	admin_fail(a, EX_NOINPUT, "the supervisor here has no queue %.200s%s%s%s", queue,
	    near == NULL ? "" : " (did you mean ", near == NULL ? "" : near, near == NULL ? "" : "?)");
	free(names);
	return -1;
}

/* Removes all other queues and their workers. -1: the supervisor has no such queue; an error was printed */
static int choose_queue(struct admin *a, const json_t *s, const char *queue)
{
	json_t *queues = json_object_get(s, "queues"), *all = json_copy(queues);
	int rc;

	keep_queue(queues, "name", queue);
	keep_queue(json_object_get(s, "workers"), "queue", queue);
	rc = json_array_size(queues) > 0 ? 0 : no_such_queue(a, queue, all);
	json_decref(all);
	return rc;
}

int cmd_status(struct admin *a)
{
	json_t *s = ask_status(a), *workers = json_object_get(s, "workers");
	size_t n;

	if (s == NULL)
		return -1;
	if (a->noperands > 0 && choose_queue(a, s, a->operands[0]) == -1) {
		json_decref(s);
		return -1;
	}
	if (a->options.json) {
		output_json_document(&a->output, s);
	} else {
		say_supervisor(s);
		show_queues(a, json_object_get(s, "queues"));
		n = json_array_size(workers);
		for (size_t i = n; a->output.terminal && a->noperands == 0 && i-- > 0;)
			if (is_calm(json_array_get(workers, i)))
				json_array_remove(workers, i);
		if (json_array_size(workers) < n)
			printf("\nidle workers that are not shown: %zu (quredis status QUEUE has them)\n",
			    n - json_array_size(workers));
		if (!a->output.terminal || json_array_size(workers) > 0) {
			putchar('\n');
			show_workers(a, workers);
		}
		if (a->output.terminal)
			note_sick(a, s);
	}
	json_decref(s);
	return 0;
}
