/* Reads what other hosts with workers of a queue report of it, for the checks of that queue. */
#include <string.h>

#include <jansson.h>

#include "admin/doctor/checks.h"

/* An object with the name of each other node that has workers of the queue. */
static json_t *other_nodes(const struct doctor *d, const struct queue_check *q)
{
	json_t *nodes = json_object();

	for (size_t i = 0; i < q->lists.nworkers; i++)
		if (q->lists.workers[i].node[0] != '\0' &&
		    strcmp(q->lists.workers[i].node, d->a->conf->supervisor.node) != 0)
			json_object_set_new(nodes, q->lists.workers[i].node, json_null());
	return nodes;
}

/* Each report is read once, since it has all queues of its node, and the check of every queue needs it. */
int others_report(struct doctor *d, const char *node, const json_t **report)
{
	struct redis_reply reply;
	json_t *found;

	*report = json_object_get(d->reports, node);
	if (*report != NULL)
		return 0;
	queue_node_read(&d->a->redis, node);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	found = queue_node_parse(&reply, d->server.now_ms);
	json_object_set_new(d->reports, node, found == NULL ? json_null() : found);
	*report = json_object_get(d->reports, node);
	return 0;
}

int others_each(struct doctor *d, const struct queue_check *q, void (*look)(struct doctor *d,
    const struct queue_check *q, const char *node, const json_t *report))
{
	json_t *nodes = other_nodes(d, q), *unused;
	const json_t *report;
	const char *node;
	int rc = 0;

	json_object_foreach(nodes, node, unused) {
		rc = others_report(d, node, &report);
		if (rc == -1)
			break;
		look(d, q, node, report);
	}
	json_decref(nodes);
	return rc;
}
