/*
 * Finds out who would execute an operation. Right after a supervisor was killed, its lead still counts until its lease
 * expires, or a start with its lock takes it. And a sweeper without other work for a leader leads only when the queue
 * has an operation. So a queue without a leader may have a supervisor that will lead it soon. After a kill reports and
 * leases stay for up to 30 s: a supervisor may count as alive for that long.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/moves/leader.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define LEAD_LOOKS 4		/* a sweeper asks so often for the lead in the time of its lease */
#define IDLE_LOOK_MS 4000	/* the most between two looks of an idle sweeper for operations */

struct lead {
	char *node, *boot;		/* owned; NULL: the queue has no leader */
	int64_t left_ms;		/* until its lease expires */
};

static int read_lead(struct admin *a, struct lead *lead)
{
	struct redis_reply reply;

	queue_leader(&a->redis, &a->keys);
	if (admin_reply(a, &reply, a->keys.sweeper) == -1)
		return -1;
	lead->node = queue_leader_node(&reply);
	if (lead->node != NULL) {
		const char *boot = reply.str + strlen(lead->node) + 1;

		lead->boot = alloc_copy(boot, strcspn(boot, " "));
	}
	queue_leader_left(&a->redis, &a->keys);
	if (admin_reply(a, &reply, a->keys.sweeper) == -1)
		return -1;
	lead->left_ms = reply.type == REDIS_INTEGER && reply.integer > 0 ? reply.integer : 0;
	return 0;
}

/* ---- the nodes ---- */

/* Reads the report of a node. An earlier boot of the node may still have the lead. */
static int look_at_node(struct admin *a, const char *node, const struct lead *lead, int64_t now_ms, struct leader *l)
{
	struct redis_reply reply;
	const char *boot;
	json_t *report;

	queue_node_read(&a->redis, node);
	if (admin_reply(a, &reply, node) == -1)
		return -1;
	report = queue_node_parse(&reply, now_ms);
	l->lives |= report != NULL && queue_node_row(report, a->keys.name) != NULL;
	boot = json_string_value(json_object_get(report, "boot"));
	if (lead->node != NULL && strcmp(lead->node, node) == 0 && boot != NULL && strcmp(boot, lead->boot) != 0)
		l->leads = false;
	json_decref(report);
	return 0;
}

static int look_at_nodes(struct admin *a, const struct queue_worker *workers, size_t n, const struct lead *lead,
    struct leader *l)
{
	int64_t now_ms;

	if (admin_server_time(a, &now_ms) == -1 ||
	    look_at_node(a, a->conf->supervisor.node, lead, now_ms, l) == -1 ||
	    (lead->node != NULL && look_at_node(a, lead->node, lead, now_ms, l) == -1))
		return -1;
	for (size_t i = 0; i < n && !l->lives; i++)
		if (workers[i].died_at_ms == 0 && look_at_node(a, workers[i].node, lead, now_ms, l) == -1)
			return -1;
	return 0;
}

/* A supervisor that has just started has workers, and no report yet. */
static int look_at_leases(struct admin *a, const struct queue_worker *workers, size_t n, struct leader *l)
{
	for (size_t i = 0; i < n && !l->lives; i++) {
		int64_t leased = 0;

		queue_leases(&a->redis, &a->keys, (const char *[]){ workers[i].incarnation }, 1);
		if (admin_integer(a, &leased, NULL) == -1)
			return -1;
		l->lives = leased > 0;
	}
	return 0;
}

/* ---- the judgement ---- */

static int look_at_all(struct admin *a, const struct lead *lead, struct leader *l)
{
	struct queue_worker *workers;
	struct redis_reply reply;
	size_t n;
	int rc;

	queue_workers(&a->redis, &a->keys);
	if (admin_reply(a, &reply, a->keys.workers) == -1)
		return -1;
	n = queue_workers_parse(&reply, &workers);
	rc = look_at_nodes(a, workers, n, lead, l);
	if (rc == 0)
		rc = look_at_leases(a, workers, n, l);
	queue_workers_free(workers, n);
	return rc;
}

int leader_look(struct admin *a, struct leader *l)
{
	struct lead lead = {0};
	int rc = read_lead(a, &lead);

	*l = (struct leader){ .leads = lead.node != NULL,
	    .within_ms = lead.left_ms + a->conf->supervisor.lease_ms / LEAD_LOOKS + IDLE_LOOK_MS };
	if (rc == 0)
		rc = look_at_all(a, &lead, l);
	l->lives |= l->leads;
	free(lead.node);
	free(lead.boot);
	return rc;
}
