/*
 * A Redis Cluster runs a command or script only if all its keys are in one slot, and quredis has scripts on keys of a
 * queue, of two queues, and of the registry. So all keys must share one slot: redis.prefix with a hash tag does that,
 * and the load of the configuration has checked it.
 */
#include <string.h>

#include "admin/doctor/checks.h"

#include "common/queue/queue.h"

/* A Cluster refuses the first script of a connection if the keys of the secrets are in two slots, and SELECT. */
static bool refuses_keys(const struct doctor *d)
{
	return !d->server.connected && d->a->redis.error_class == REDIS_ERROR_CLUSTER;
}

static bool is_cluster(const struct doctor *d)
{
	char enabled[8];

	if (d->server.info == NULL)
		return refuses_keys(d);
	return redis_info_value(d->server.info, d->server.info_len, "cluster_enabled", enabled, sizeof(enabled)) &&
	    strcmp(enabled, "1") == 0;
}

int check_cluster(struct doctor *d)
{
	const struct conf *conf = d->a->conf;
	const char *prefix = conf == NULL || conf->redis.prefix == NULL ? "" : conf->redis.prefix,
	    *where = d->a->target.shown;
	size_t len;

	if (conf == NULL || !is_cluster(d))
		return 0;
	if (redis_hash_tag(prefix, &len) != NULL && !refuses_keys(d)) {
		findings_add(d, SEVERITY_OK, where, "Redis is a Cluster, and all keys are in its slot %d",
		    redis_slot(prefix));
		return 0;
	}
	if (d->a->target.db != 0)
		findings_advise(findings_add(d, SEVERITY_ERROR, where,
		    "Redis is a Cluster, which has only database 0, and redis.url names database %d",
		    d->a->target.db), "write no database into redis.url");
	if (redis_hash_tag(prefix, &len) != NULL)
		return 0;
	findings_advise(findings_add(d, SEVERITY_ERROR, where,
	    "Redis is a Cluster, and the keys of quredis are in several slots: redis.prefix %s",
	    prefix[0] == '\0' ? "is not set" : "has no hash tag"),
	    "set redis.prefix = \"{NAME}\": all keys are then in the slot of NAME; quredis ls shows where producers "
	    "push");
	for (size_t i = 0; i < conf->nqueues; i++) {
		const struct conf_queue *q = conf->queues[i];

		if (redis_same_slot(q->ingress, q->transit) && redis_same_slot(q->ingress, q->escape))
			continue;
		findings_advise(findings_add(d, SEVERITY_ERROR, q->name,
		    "its keys are in several slots: %s in %d, %s in %d, %s in %d", q->ingress,
		    redis_slot(q->ingress), q->transit, redis_slot(q->transit), q->escape, redis_slot(q->escape)),
		    "leave ingress, transit and escape out, so that redis.prefix applies to them, or put the hash tag "
		    "of redis.prefix into all three");
	}
	return 0;
}
