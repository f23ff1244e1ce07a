/*
 * Reads all queues and the names of their keys, for commands that show all of them, without a round trip for each
 * queue. lookup_queue() finds a single queue.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/queues/registry.h"

#include "admin/cli/cli.h"
#include "common/base/base.h"

/* 1: *keys are those of the entry; 0: the entry is invalid; -1: Redis failed. */
static int take_entry(struct admin *a, const char *name, struct queue_keys *keys)
{
	struct redis_reply reply;
	char *shown;

	if (admin_wait(a, &reply) == -1)
		return -1;
	if (reply.type == REDIS_STRING && queue_registered_parse(keys, a->conf->redis.prefix, name, reply.str,
	    reply.len) == 0)
		return 1;
	if (reply.type == REDIS_ERROR && redis_error_class(&reply) != REDIS_ERROR_WRONG_TYPE) {
		admin_refused(a, &reply, name);
		return 0;
	}
	shown = visible(name, strlen(name), 200);
	admin_fail(a, EX_CONFIG, "the entry of %s in the registry is invalid", shown);
	free(shown);
	return 0;
}

static int take_registered(struct admin *a, char *const *names, size_t nnames, struct registry_queue *queues, size_t *n)
{
	for (size_t i = 0; i < nnames; i++)
		if (conf_queue_find(a->conf, names[i]) == NULL)
			queue_registered(&a->redis, names[i]);
	for (size_t i = 0; i < nnames; i++) {
		int rc = conf_queue_find(a->conf, names[i]) != NULL ? 0 : take_entry(a, names[i], &queues[*n].keys);

		if (rc == -1)
			return -1;
		*n += (size_t)rc;
	}
	return 0;
}

int registry_read(struct admin *a, struct registry_queue **queues, size_t *n)
{
	char **names;
	size_t nnames;
	int rc;

	*queues = NULL;
	*n = 0;
	if (lookup_names(a, &names, &nnames) == -1)
		return -1;
	*queues = alloc_zero(a->conf->nqueues + nnames, sizeof(**queues));
	for (size_t i = 0; i < a->conf->nqueues; i++) {
		queue_keys_from_conf(&(*queues)[*n].keys, a->conf, a->conf->queues[i]);
		(*queues)[(*n)++].configured = true;
	}
	rc = take_registered(a, names, nnames, *queues, n);
	lookup_names_free(names, nnames);
	if (rc == -1) {
		registry_free(*queues, *n);
		*queues = NULL;
		*n = 0;
	}
	return rc;
}

void registry_free(struct registry_queue *queues, size_t n)
{
	for (size_t i = 0; i < n; i++)
		queue_keys_free(&queues[i].keys);
	free(queues);
}

static bool is_repeated(const struct admin *a, size_t operand)
{
	for (size_t i = 0; i < operand; i++)
		if (strcmp(a->operands[i], a->operands[operand]) == 0)
			return true;
	return false;
}

int registry_choose(struct admin *a, struct registry_queue **queues, size_t *n)
{
	if (a->noperands == 0)
		return registry_read(a, queues, n);
	*queues = alloc_zero(a->noperands, sizeof(**queues));
	*n = 0;
	for (size_t i = 0; i < a->noperands; i++) {
		struct registry_queue *q = &(*queues)[*n];

		if (is_repeated(a, i))
			continue;
		if (lookup_queue(a, a->operands[i], &q->keys) == -1) {
			registry_free(*queues, *n);
			return -1;
		}
		q->configured = conf_queue_find(a->conf, q->keys.name) != NULL;
		++*n;
	}
	return 0;
}
