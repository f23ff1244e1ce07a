/* Findings about the connection to Redis: which server it has reached, or what to do if there is none. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "admin/doctor/checks.h"

#include "common/queue/queue.h"
#include "common/redis/redis.h"

void doctor_add_refused(struct doctor *d)
{
	const char *where = d->a->target.shown, *why = d->a->redis.error;
	size_t n = where == NULL ? 0 : strlen(where);
	bool replica = strstr(why, "replica") != NULL, refused = redis_error_needs_operator(d->a->redis.error_class);
	bool moved = strstr(why, "MOVED ") != NULL;
	char room[QUEUE_ADVICE_SIZE];

	/* The address has a column of its own. */
	if (n > 0 && strncmp(why, where, n) == 0 && strncmp(why + n, ": ", 2) == 0)
		why += n + 2;
	if (replica)
		findings_advise(doctor_add(d, SEVERITY_ERROR, "%s", why),
		    "set redis.url to the master: redis-cli INFO replication names it");
	else if (strstr(why, "is a Sentinel") != NULL)
		findings_advise(doctor_add(d, SEVERITY_ERROR, "%s", why),
		    "redis.sentinels = [\"HOST:PORT\", ...] and redis.master = \"NAME\" replace the host in redis.url");
	else if (d->a->redis.error_class == REDIS_ERROR_CLUSTER)
		findings_advise(doctor_add(d, SEVERITY_ERROR, "it refuses these keys: %s", why),
		    "see the check \"cluster\"");
	else if (d->a->redis.error_class == REDIS_ERROR_SCHEMA)
		findings_advise(doctor_add(d, SEVERITY_ERROR, "another version of quredis wrote its keys: %s", why),
		    "use quredisd and quredis of that version on this host, or go back as docs/versions.md says");
	else if (queue_refusal_advice(why, room) != NULL)
		findings_advise(doctor_add(d, SEVERITY_ERROR, "it refuses %s, which quredis needs: %s",
		    command_name_text(queue_refused_command(why)), why), "%s", room);
	else if (refused)
		findings_advise(doctor_add(d, SEVERITY_ERROR, "it refuses this user: %s", why),
		    "check redis.password_file, whether this user may read that file, and the user in redis.url");
	else if (moved)
		findings_advise(doctor_add(d, SEVERITY_ERROR,
		    "another node of this Cluster serves the slot of redis.prefix: %s", why),
		    "set redis.url to the node that this error names");
	else
		findings_advise(doctor_add(d, SEVERITY_ERROR, "it cannot be reached: %s", why),
		    "check that it runs, that %s right, and its log",
		    d->a->target.master != NULL ? "redis.sentinels and redis.master are"
		    : "redis.url or $QUREDIS_REDIS_URL is");
	if (!replica && !refused)
		doctor_lose_redis(d);
}

/* The address that the supervisor's sweeper is connected to; NULL: none, it is not known, or the operator asked about
 * another server. */
static const char *supervisors_address(const struct doctor *d)
{
	const struct options *o = &d->a->options;

	if (o->url != NULL || o->host != NULL || o->port != 0)
		return NULL;
	return json_string_value(json_object_get(json_object_get(d->supervisor.status, "redis"), "address"));
}

/* With several addresses or Sentinels each process finds its server by itself. */
void doctor_add_connected(struct doctor *d)
{
	const struct redis_target *t = &d->a->target;
	const struct redis_address *at = t->naddresses == 0 ? NULL : &t->addresses[d->a->redis.route.at];
	const char *theirs = supervisors_address(d), *others = "";
	char address[REDIS_ENDPOINT_SIZE] = "", named[512] = "";
	struct redis_endpoint peer;

	if (redis_endpoint_of(&d->a->redis, &peer))
		redis_endpoint_format(&peer, address);
	if (t->master != NULL && at != NULL)
		snprintf(named, sizeof(named),
		    strchr(at->host, ':') != NULL ? ", the master %s by Sentinel [%s]:%d"
		    : ", the master %s by Sentinel %s:%d", t->master, at->host, at->port);
	if (t->naddresses > 1 || t->master != NULL)
		others = "; each worker finds its server by itself, so after a failover it may be at another one for "
		    "some seconds";
	doctor_add(d, SEVERITY_OK, "Redis answers at %s%s%s%s", address[0] == '\0' ? t->unix_path : address,
	    t->tls ? " with TLS" : "", named, others);
	if (theirs != NULL && address[0] != '\0' && strcmp(theirs, address) != 0)
		findings_advise(doctor_add(d, SEVERITY_WARNING,
		    "the supervisor here is connected to %s, and this command to %s", theirs, address),
		    "wait for the end of a failover; if it lasts, see whether both addresses are of one server, and "
		    "the check \"sentinels\"");
}
