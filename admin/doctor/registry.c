/*
 * Finds all queues, in the configuration and in the registry, and checks that the two agree. It also reads the lists of
 * each queue for the checks that follow.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define QUEUES_MOST 10000
/* fields of a hash of workers; a larger one is not ours, and does not fit into memory */
#define WORKERS_MOST 100000

void registry_free_queues(struct doctor *d)
{
	for (size_t i = 0; i < d->queues.n; i++) {
		queue_keys_free(&d->queues.all[i].keys);
		lists_free(&d->queues.all[i].lists);
		free(d->queues.all[i].unregistered);
	}
	free(d->queues.all);
	free(d->queues.registry);
}

/* ---- queues of the configuration ---- */

static int write_entry(struct doctor *d, const struct finding *f)
{
	struct redis_reply reply;
	int rc = 0;

	queue_register(&d->a->redis, &f->queue->keys, false);
	for (int i = 0; i < 2; i++)
		if (admin_reply(d->a, &reply, f->queue->keys.registered) == -1)
			rc = -1;
	return rc;
}

static const struct fix writing_entry = { "write the registry entry from the configuration", write_entry };

static int64_t at_least_0(int64_t n)
{
	return n > 0 ? n : 0;
}

/* An entry that names other lists must stay while these lists have messages: every reader of the registry looks only
 * there. */
static int check_lists(struct doctor *d, const struct queue_check *q, const struct queue_keys *registered)
{
	struct lists l;
	struct finding *f;
	int64_t n;

	if (strcmp(registered->ingress, q->keys.ingress) == 0 && strcmp(registered->transit, q->keys.transit) == 0 &&
	    strcmp(registered->escape, q->keys.escape) == 0)
		return 0;
	if (lists_read(d->a, registered, 0, &l) == -1) {
		lists_free(&l);
		return -1;
	}
	n = at_least_0(l.ingress) + at_least_0(l.transit) + at_least_0(l.escape) + at_least_0(l.delayed) +
	    (int64_t)l.nworkers;
	lists_free(&l);
	if (n > 0) {
		findings_advise(findings_add(d, SEVERITY_ERROR, NULL,
		    "the registry names other lists (%s, %s, %s) than the configuration, and they hold messages or "
		    "workers: %" PRId64, registered->ingress, registered->transit, registered->escape, n),
		    "two hosts disagree, or the lists were renamed: empty the old ones, or move their messages");
		return 0;
	}
	f = findings_add(d, SEVERITY_WARNING, NULL,
	    "the registry names other lists (%s, %s, %s) than the configuration; they are empty",
	    registered->ingress, registered->transit, registered->escape);
	findings_advise(f, "check that all hosts have the same configuration");
	findings_offer(f, &writing_entry, NULL);
	return 0;
}

static int check_configured(struct doctor *d, struct queue_check *q)
{
	struct redis_reply reply;
	struct queue_keys registered;
	struct finding *f;
	int rc;

	if (q->conf == NULL)
		return 0;
	doctor_enter(d, q);
	redis_appendf(&d->a->redis, "GET %s", q->keys.registered);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (reply.type == REDIS_ERROR)
		return 0;	/* the check of types reports it */
	if (reply.type != REDIS_STRING) {
		f = findings_add(d, SEVERITY_WARNING, NULL,
		    "it is not in the registry: other hosts, and consumers outside quredis, do not know it");
		findings_advise(f, "a supervisor that has the queue registers it within a minute");
		findings_offer(f, &writing_entry, NULL);
		return 0;
	}
	if (queue_registered_parse(&registered, d->a->conf->redis.prefix, q->keys.name, reply.str, reply.len) == -1) {
		f = findings_add(d, SEVERITY_WARNING, q->keys.registered,
		    "the registry entry cannot be read (it is not JSON with ingress, transit and escape)");
		findings_offer(f, &writing_entry, NULL);
		return 0;
	}
	rc = check_lists(d, q, &registered);
	queue_keys_free(&registered);
	return rc;
}

/* ---- queues that only the registry knows ---- */

/* A list of a queue, for sorting. */
struct list_name {
	const char *list;
	size_t queue;			/* index */
};

static int compare_lists(const void *a, const void *b)
{
	const struct list_name *x = a, *y = b;
	int order = strcmp(x->list, y->list);

	return order == 0 ? (x->queue > y->queue) - (x->queue < y->queue) : order;
}

/* Sets twins[i], if a queue before it has the same list, to the first of these queues. */
static void find_twins(struct list_name *lists, size_t n, size_t *twins)
{
	size_t first = 0;

	qsort(lists, n, sizeof(*lists), compare_lists);
	for (size_t i = 1; i < n; i++) {
		if (strcmp(lists[i].list, lists[first].list) != 0)
			first = i;
		if (lists[first].queue < twins[lists[i].queue])
			twins[lists[i].queue] = lists[first].queue;
	}
}

/* A renamed queue leaves its old entry behind. If an operator destroys the queue of the old entry, the renamed queue
 * loses its lists. */
static void check_doubles(struct doctor *d)
{
	size_t n = d->queues.n, *twins = alloc_zero(n + 1, sizeof(*twins));
	struct list_name *lists = alloc_zero(n + 1, sizeof(*lists));

	for (size_t i = 0; i < n; i++)
		twins[i] = i;
	for (int list = 0; list < 3; list++) {
		for (size_t i = 0; i < n; i++) {
			const struct queue_keys *k = &d->queues.all[i].keys;

			lists[i] = (struct list_name){ list == 0 ? k->ingress : list == 1 ? k->transit : k->escape, i };
		}
		find_twins(lists, n, twins);
	}
	for (size_t i = d->a->conf->nqueues; i < n; i++) {
		const struct queue_keys *k = &d->queues.all[i].keys;

		if (twins[i] == i)
			continue;
		doctor_enter(d, &d->queues.all[i]);
		findings_advise(findings_add(d, SEVERITY_WARNING, NULL, "it has the same lists as %s",
		    d->queues.all[twins[i]].keys.name),
		    "do not destroy it; if the name is obsolete: redis-cli ZREM %s %s; redis-cli DEL %s",
		    d->queues.registry, k->name, k->registered);
	}
	doctor_enter(d, NULL);
	free(lists);
	free(twins);
}

/* reply: the entry of a valid name. */
static void take_entry(struct doctor *d, const char *name, const struct redis_reply *reply)
{
	struct queue_check *q = &d->queues.all[d->queues.n];
	struct finding *f;
	char *entry;

	if (reply->type == REDIS_STRING &&
	    queue_registered_parse(&q->keys, d->a->conf->redis.prefix, name, reply->str, reply->len) == 0) {
		d->queues.n++;
		return;
	}
	entry = queue_key_of(&d->a->redis, QUEUE_KEY_REGISTERED, name);
	f = findings_add(d, reply->type == REDIS_ERROR ? SEVERITY_ERROR : SEVERITY_WARNING, entry,
	    "the registry has the name %s, but %s", name,
	    reply->type == REDIS_NIL ? "no entry for it" : reply->type == REDIS_ERROR ? reply->str
	    : "its entry cannot be read");
	findings_advise(f, "start a supervisor that has the queue; or redis-cli ZREM %s %s; redis-cli DEL %s",
	    d->queues.registry, name, entry);
	free(entry);
}

static int take_name(struct doctor *d, const char *name)
{
	struct redis_reply reply;

	if (conf_queue_find(d->a->conf, name) != NULL)
		return 0;
	queue_registered(&d->a->redis, name);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	take_entry(d, name, &reply);
	return 0;
}

/* Returns copies of the valid names, since the next reply overwrites this one. Adds a finding for each invalid name. */
static int read_names(struct doctor *d, char ***names, size_t *n)
{
	struct redis_reply reply;

	redis_appendf(&d->a->redis, "ZRANGE %s 0 %d", d->queues.registry, (int64_t)QUEUES_MOST - 1);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (!redis_is_strings(&reply)) {
		findings_advise(findings_add(d, SEVERITY_ERROR, d->queues.registry, "the registry cannot be read: %s",
		    reply.type == REDIS_ERROR ? reply.str : ""),
		    "another program uses this key: rename it, and start a supervisor");
		return 0;
	}
	*names = alloc_zero(reply.n + 1, sizeof(**names));
	for (size_t i = 0; i < reply.n; i++) {
		struct redis_reply name = redis_element(&reply, i);

		if (identifier_is(IDENTIFIER_NAME, name.str, name.len)) {
			(*names)[(*n)++] = alloc_string(name.str);
		} else {
			char *shown = visible(name.str, name.len, 100);

			findings_advise(findings_add(d, SEVERITY_WARNING, d->queues.registry,
			    "%s is not a valid name of a queue", shown),
			    "redis-cli ZREM %s with that name", d->queues.registry);
			free(shown);
		}
	}
	return 0;
}

/* ---- their lists ---- */

static int read_lists(struct doctor *d, struct queue_check *q)
{
	struct redis_reply reply;

	doctor_enter(d, q);
	redis_appendf(&d->a->redis, "HLEN %s", q->keys.workers);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (reply.type == REDIS_INTEGER && reply.integer > WORKERS_MOST)
		return admin_fail(d->a, EX_CONFIG, "%s has %" PRId64 " fields", q->keys.workers,
		    (int64_t)reply.integer);
	if (lists_read(d->a, &q->keys, 0, &q->lists) == -1)
		return -1;
	q->readable = true;
	/* The gem writes registry entries without "shared": then only registered workers know that a queue is
	 * shared. */
	q->keys.shared = q->keys.shared ||
	    (q->conf == NULL && queue_workers_share(q->lists.workers, q->lists.nworkers));
	for (size_t i = 0; i < q->lists.nworkers; i++)
		q->alive += q->lists.owners[i].alive;
	return 0;
}

/* A queue that cannot be read does not end the check of the others. */
static int for_queues(struct doctor *d, int (*check)(struct doctor *d, struct queue_check *q))
{
	for (size_t i = 0; i < d->queues.n; i++) {
		if (check(d, &d->queues.all[i]) == -1) {
			if (d->a->redis.state == REDIS_CLOSED)
				return -1;
			doctor_drain(d);
			findings_advise(findings_add(d, SEVERITY_ERROR, NULL, "it cannot be checked: %s", d->why),
			    "fix this, then run doctor again");
		}
		findings_end_check(d);
	}
	doctor_enter(d, NULL);
	return 0;
}

int check_registry(struct doctor *d)
{
	const struct conf *conf = d->a->conf;
	char **names = NULL;
	size_t n = 0;
	int rc;

	d->queues.registry = queue_key_of(&d->a->redis, QUEUE_KEY_REGISTRY, NULL);
	rc = read_names(d, &names, &n);
	d->queues.all = alloc_zero(conf->nqueues + n + 1, sizeof(*d->queues.all));
	for (size_t i = 0; i < conf->nqueues; i++) {
		d->queues.all[i].conf = conf->queues[i];
		queue_keys_from_conf(&d->queues.all[i].keys, conf, conf->queues[i]);
	}
	d->queues.n = conf->nqueues;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = take_name(d, names[i]);
	check_doubles(d);
	findings_end_check(d);
	lookup_names_free(names, n);
	if (rc == 0)
		rc = for_queues(d, check_configured);
	if (rc == 0)
		rc = for_queues(d, read_lists);
	d->queues.read_ms = clock_monotonic_ms();
	return rc;
}
