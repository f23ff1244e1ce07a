/*
 * quredis nodes: shows the last report of each supervisor on any host. It finds nodes in the registrations of workers
 * and in the leads of queues, and adds the node of the configuration here. It does not find a node without a worker and
 * a lead.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/commands/commands.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

struct nodes {
	char **names;
	size_t n, room;
};

/* Takes ownership of name. */
static void nodes_add(struct nodes *nodes, char *name)
{
	bool known = name[0] == '\0';

	for (size_t i = 0; i < nodes->n && !known; i++)
		known = strcmp(nodes->names[i], name) == 0;
	if (known) {
		free(name);
		return;
	}
	if (nodes->n == nodes->room) {
		nodes->room = nodes->room * 2 + 16;
		nodes->names = alloc_resize(nodes->names, nodes->room, sizeof(*nodes->names));
	}
	nodes->names[nodes->n++] = name;
}

/* ---- finding nodes ---- */

/* A key of the wrong type is an error of that queue only; the others are still shown. */
static int take_workers(struct admin *a, struct nodes *nodes)
{
	struct queue_worker *workers;
	struct redis_reply reply;
	size_t n;

	if (admin_wait(a, &reply) == -1)
		return -1;
	n = queue_workers_parse(&reply, &workers);
	for (size_t i = 0; i < n; i++)
		if (workers[i].died_at_ms == 0)
			nodes_add(nodes, alloc_string(workers[i].node));
	queue_workers_free(workers, n);
	return 0;
}

static int take_leader(struct admin *a, struct nodes *nodes)
{
	struct redis_reply reply;
	char *node;

	if (admin_wait(a, &reply) == -1)
		return -1;
	node = queue_leader_node(&reply);
	if (node != NULL)
		nodes_add(nodes, node);
	return 0;
}

static int find_nodes(struct admin *a, struct nodes *nodes)
{
	struct registry_queue *queues;
	size_t n;
	int rc = 0;

	nodes_add(nodes, alloc_string(a->conf->supervisor.node));
	if (registry_read(a, &queues, &n) == -1)
		return -1;
	for (size_t i = 0; i < n; i++) {
		queue_workers(&a->redis, &queues[i].keys);
		queue_leader(&a->redis, &queues[i].keys);
	}
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = take_workers(a, nodes) == -1 || take_leader(a, nodes) == -1 ? -1 : 0;
	registry_free(queues, n);
	return rc;
}

/* ---- their reports ---- */

/* The figures of all queues of the node. */
static struct facts sum_queues(const json_t *report)
{
	struct facts sum = facts_unknown();
	const json_t *q;
	size_t i;

	sum.n[FACT_WANTED] = sum.n[FACT_RUNNING] = sum.n[FACT_RESTARTS] = 0;		/* a node without queues */
	json_array_foreach(json_object_get(report, "queues"), i, q) {
		struct facts f = facts_unknown();

		facts_read(&f, FACT_OF_HOST, q, 0);
		facts_add(&sum, &f);
	}
	return sum;
}

static struct cell since_cell(const json_t *report, int64_t server_ms)
{
	const char *started = json_string_value(json_object_get(report, "started"));
	int64_t ms = started == NULL ? -1 : clock_rfc3339_parse(started);

	return ms == -1 ? cell_none() : cell_elapsed(server_ms - ms);
}

static void show_node(struct admin *a, const char *node, const json_t *report, int64_t server_ms)
{
	struct facts sum = sum_queues(report);
	const json_t *at = json_object_get(report, "at_ms"), *pid = json_object_get(report, "pid");

	if (report == NULL) {
		output_row(&a->output, (struct cell[]){ cell_str(node), cell_str("no report"), cell_none(), cell_none(),
		    cell_none(), cell_none(), cell_none(), cell_none(), cell_none() });
		return;
	}
	output_row(&a->output, (struct cell[]){ cell_str(node),
	    cell_str(json_string_value(json_object_get(report, "version"))),
	    json_is_integer(pid) ? cell_int(json_integer_value(pid)) : cell_none(), since_cell(report, server_ms),
	    json_is_integer(at) ? cell_ago(server_ms - clock_ms_of(json_number_value(at))) : cell_none(),
	    cell_int((int64_t)json_array_size(json_object_get(report, "queues"))),
	    cell_facts(&sum), cell_int(facts_workers(&sum)), cell_facts(&sum) });
}

static int read_reports(struct admin *a, const struct nodes *nodes, json_t **reports)
{
	struct redis_reply reply;

	for (size_t i = 0; i < nodes->n; i++)
		queue_node_read(&a->redis, nodes->names[i]);
	for (size_t i = 0; i < nodes->n; i++) {
		if (admin_reply(a, &reply, nodes->names[i]) == -1)
			return -1;
		reports[i] = reply.type == REDIS_STRING ? json_loadb(reply.str, reply.len, 0, NULL) : NULL;
		if (reports[i] != NULL && !json_is_object(reports[i])) {
			json_decref(reports[i]);
			reports[i] = NULL;
		}
	}
	return 0;
}

static void show_json(struct admin *a, const struct nodes *nodes, json_t *const *reports)
{
	json_t *all = json_array();

	for (size_t i = 0; i < nodes->n; i++) {
		json_t *report = reports[i] != NULL ? json_incref(reports[i])
		    : json_pack("{s:s, s:n}", "node", nodes->names[i], "pid");

		if (report != NULL)		/* NULL: the name is not UTF-8 */
			json_array_append_new(all, report);
	}
	output_json_document(&a->output, all);
	json_decref(all);
}

static void show_table(struct admin *a, const struct nodes *nodes, json_t *const *reports, int64_t server_ms)
{
	static const struct column columns[] = {
		{ NULL, "Node", COLUMN_NAME }, { NULL, "Version", COLUMN_STATE },
		{ NULL, "Pid", COLUMN_NUMBER | YIELDS(1) },
		{ NULL, "Up", COLUMN_NUMBER | YIELDS(10) },
		{ NULL, "Seen", COLUMN_NUMBER }, { NULL, "Queues", COLUMN_NUMBER | YIELDS(2) },
		{ NULL, NULL, FIGURES_OF(IN_NODES) },
		{ NULL, "Alive", COLUMN_NUMBER | YIELDS(12) }, { NULL, NULL, FIGURES_OF(IN_NODES_END) },
	};

	output_begin(&a->output, columns, nitems(columns));
	for (size_t i = 0; i < nodes->n; i++)
		show_node(a, nodes->names[i], reports[i], server_ms);
	output_end(&a->output, true);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int cmd_nodes(struct admin *a)
{
	struct nodes nodes = {0};
	json_t **reports = NULL;
	int64_t server_ms;
	int rc = find_nodes(a, &nodes);

	qsort(nodes.names, nodes.n, sizeof(*nodes.names), by_name);
	reports = alloc_zero(nodes.n + 1, sizeof(*reports));
	if (rc == 0 && (rc = admin_server_time(a, &server_ms)) == 0 && (rc = read_reports(a, &nodes, reports)) == 0) {
		if (a->options.json)
			show_json(a, &nodes, reports);
		else
			show_table(a, &nodes, reports, server_ms);
	}
	for (size_t i = 0; i < nodes.n; i++) {
		json_decref(reports[i]);
		free(nodes.names[i]);
	}
	free(reports);
	free(nodes.names);
	return rc;
}
