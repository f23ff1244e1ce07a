/* Finds queues by name: in the configuration, or in the registry, where each supervisor enters its queues. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/cli/lookup.h"

#include "admin/cli/notice.h"
#include "admin/cli/visible.h"
#include "common/base/base.h"
#include "common/queue/queue.h"

/* Once in a process, of which one may run several commands: the overview. */
static void note_lost_registry(struct admin *a, const char *registry)
{
	static bool noted;

	a->status = EX_CONFIG;
	if (!noted && a->complaint == NULL)
		admin_note("quredis: %s has the wrong type (WRONGTYPE): queues that are not in the configuration here "
		    "are not known. Give the key another name (RENAME); each supervisor then enters its queues again "
		    "within a minute", registry);
	noted = true;
}

int lookup_names(struct admin *a, char ***names, size_t *n)
{
	struct redis_reply reply;
	char *registry;
	int rc;

	*names = NULL;
	*n = 0;
	registry = queue_key_of(&a->redis, QUEUE_KEY_REGISTRY, NULL);
	redis_appendf(&a->redis, "ZRANGE %s 0 -1", registry);
	rc = admin_wait(a, &reply);
	if (rc == 0 && redis_error_class(&reply) == REDIS_ERROR_WRONG_TYPE) {
		note_lost_registry(a, registry);
		free(registry);
		return 0;
	}
	if (rc == 0 && reply.type == REDIS_ERROR)
		rc = admin_refused(a, &reply, registry);
	free(registry);
	if (rc == -1)
		return -1;
	if (!redis_is_strings(&reply))
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected a list");
	*names = alloc_zero(reply.n, sizeof(**names));
	for (size_t i = 0; i < reply.n; i++) {
		struct redis_reply name = redis_element(&reply, i);

		if (strlen(name.str) == name.len)	/* no key of quredis contains a NUL */
			(*names)[(*n)++] = alloc_string(name.str);
	}
	return 0;
}

void lookup_names_free(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

static int no_such_queue(struct admin *a, const char *name)
{
	char **names, *shown = visible(name, strlen(name), 200);
	const char **known, *near;
	size_t n, nknown = 0;

	if (lookup_names(a, &names, &n) == -1) {
		free(shown);
		return -1;
	}
	if (a->status == EX_CONFIG) {		/* nothing was read */
		admin_fail(a, EX_CONFIG, "queue %s is not in the configuration, and the registry has the wrong type",
		    shown);
		free(shown);
		return -1;
	}
	known = alloc_zero(n + a->conf->nqueues, sizeof(*known));
	for (size_t i = 0; i < a->conf->nqueues; i++)
		known[nknown++] = a->conf->queues[i]->name;
	for (size_t i = 0; i < n; i++)
		known[nknown++] = names[i];
	near = nearest(name, known, nknown);
	if (near != NULL) {
		char *other = visible(near, strlen(near), 200);

		admin_fail(a, EX_NOINPUT, "no queue %s (did you mean %s?)", shown, other);
		free(other);
	} else {
		admin_fail(a, EX_NOINPUT, "no queue %s in the configuration or the registry", shown);
	}
	free(known);
	free(shown);
	lookup_names_free(names, n);
	return -1;
}

/* The gem rewrites entries of the registry without the shared flag. Workers repeat the flag when they register, so it
 * is read there, too. If this user may not read that, the entry decides. */
static int learn_shared(struct admin *a, struct queue_keys *k)
{
	struct queue_worker *workers;
	struct redis_reply reply;
	size_t n;

	if (k->shared)
		return 0;
	queue_workers(&a->redis, k);
	if (admin_wait(a, &reply) == -1)
		return -1;
	n = queue_workers_parse(&reply, &workers);
	k->shared = queue_workers_share(workers, n);
	queue_workers_free(workers, n);
	return 0;
}

int lookup_queue(struct admin *a, const char *name, struct queue_keys *keys)
{
	const struct conf_queue *known = conf_queue_find(a->conf, name);
	struct redis_reply reply;
	char *key;
	int rc;

	if (known != NULL) {
		queue_keys_from_conf(keys, a->conf, known);
		return 0;
	}
	key = queue_key_of(&a->redis, QUEUE_KEY_REGISTERED, name);
	redis_appendf(&a->redis, "GET %s", key);
	rc = admin_wait(a, &reply);
	if (rc == 0 && redis_error_class(&reply) == REDIS_ERROR_PERMISSION)
		rc = admin_fail(a, EX_NOPERM,
		    "no queue %s in this configuration, and the user of Redis may not look it up (%s): name the queue "
		    "in the configuration", name, reply.str);
	else if (rc == 0 && reply.type == REDIS_ERROR)
		rc = admin_refused(a, &reply, key);
	free(key);
	if (rc == -1)
		return -1;
	if (reply.type != REDIS_STRING)
		return no_such_queue(a, name);
	if (queue_registered_parse(keys, a->conf->redis.prefix, name, reply.str, reply.len) == -1)
		return admin_fail(a, EX_CONFIG, "the entry of this queue in the registry is invalid (no JSON with "
		    "ingress, transit and escape)");
	return learn_shared(a, keys);
}
