/*
 * Each Sentinel of redis.sentinels: whether it answers, knows the master, names the same server as the connection in
 * use, and could promote a replica. The processes of quredis ask one after the other, so a Sentinel that is wrong may
 * stay unnoticed until it is the first that answers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "admin/doctor/checks.h"

#include "common/redis/redis.h"

#define MASTERS_MOST 100	/* names that are compared with redis.master */

/* The first Sentinel that answers, or the connection in use, names the master; all other Sentinels must agree. */
struct named_master {
	bool known;
	char host[256];
	int port;
	char run_id[REDIS_RUN_ID_SIZE];		/* "": not known */
};

struct sentinel_check {
	struct redis asked;
	char where[300];
	struct named_master master;
	int64_t others, quorum, replicas;	/* -1: it does not say */
	char flags[64];				/* of the master: "master", "master,s_down,o_down" */
};

/* 1: an answer, 0: an error, which is reported; -1: the connection is lost, which is reported */
static int ask_sentinel(struct doctor *d, struct sentinel_check *c, const char *subcommand, struct redis_reply *reply)
{
	redis_appendf(&c->asked, "SENTINEL %s %s", subcommand, d->a->target.master);
	if (redis_wait(&c->asked, reply, REDIS_TIMEOUT_MS, NULL) == -1) {
		findings_advise(findings_add(d, SEVERITY_WARNING, c->where, "it does not answer SENTINEL %s: %s",
		    subcommand, redis_why(&c->asked)), "its log says why; connections ask the other Sentinels");
		return -1;
	}
	if (reply->type != REDIS_ERROR)
		return 1;
	if (!redis_error_is(reply, "NOQUORUM"))
		findings_advise(findings_add(d, SEVERITY_NOTE, c->where,
		    "it refuses SENTINEL %s, so whether a failover is possible is not known: %s",
		    subcommand, reply->str), "allow the user of redis.sentinel_user this command");
	return 0;
}

/* ---- a Sentinel that is of no use ---- */

static void add_silent(struct doctor *d, const struct sentinel_check *c)
{
	bool refused = redis_error_needs_operator(c->asked.error_class);
	const char *advice = refused ?
	    "check redis.sentinel_user, redis.sentinel_password_file and the access list of this Sentinel" :
	    "start it, or take it out of redis.sentinels; connections ask the other Sentinels meanwhile";

	findings_advise(findings_add(d, SEVERITY_WARNING, c->where,
	    refused ? "it refuses this user: %s" : "it cannot be asked: %s", redis_why(&c->asked)), "%s", advice);
}

/* Returns the name, among those that this Sentinel knows, that redis.master may mean; a new string, or NULL. */
static char *find_nearest(struct sentinel_check *c, const char *wanted)
{
	const char *names[MASTERS_MOST], *near;
	struct redis_reply reply, row;
	size_t n = 0;

	redis_appendf(&c->asked, "SENTINEL MASTERS");
	if (redis_wait(&c->asked, &reply, REDIS_TIMEOUT_MS, NULL) == -1 || reply.type != REDIS_ARRAY)
		return NULL;
	for (size_t i = 0; i < reply.n && n < MASTERS_MOST; i++) {
		row = redis_element(&reply, i);
		if (row.type == REDIS_ARRAY && row.n >= 2 && redis_is_strings(&row))
			names[n++] = redis_element(&row, 1).str;	/* name, and its value */
	}
	near = nearest(wanted, names, n);
	return near != NULL ? alloc_string(near) : n == 1 ? alloc_string(names[0]) : NULL;
}

static void add_unknown(struct doctor *d, struct sentinel_check *c)
{
	const char *master = d->a->target.master;
	char *near = find_nearest(c, master);

	findings_advise(findings_add(d, SEVERITY_WARNING, c->where, "it does not know redis.master, \"%s\"%s%s%s",
	    master, near == NULL ? "" : "; it knows \"", near == NULL ? "" : near, near == NULL ? "" : "\""),
	    "correct redis.master, or let this Sentinel watch it: SENTINEL MONITOR %s HOST PORT QUORUM", master);
	free(near);
}

/* ---- what it says of the master ---- */

static void take_field(struct sentinel_check *c, const char *name, const char *value)
{
	const struct { const char *name; int64_t *to; } numbers[] = {
		{ "num-other-sentinels", &c->others }, { "quorum", &c->quorum }, { "num-slaves", &c->replicas },
	};

	for (size_t i = 0; i < nitems(numbers); i++)
		if (strcmp(name, numbers[i].name) == 0)
			*numbers[i].to = strtoll(value, NULL, 10);
	if (strcmp(name, "runid") == 0)
		strlcpy(c->master.run_id, value, sizeof(c->master.run_id));
	else if (strcmp(name, "flags") == 0)
		strlcpy(c->flags, value, sizeof(c->flags));
}

static void judge_master(struct doctor *d, const struct sentinel_check *c, const struct named_master *agreed)
{
	bool same = c->master.port == agreed->port && strcmp(c->master.host, agreed->host) == 0;

	/* of one run id: one names the host, and the other one its address */
	if (!same && (c->master.run_id[0] == '\0' || strcmp(c->master.run_id, agreed->run_id) != 0))
		findings_advise(findings_add(d, SEVERITY_ERROR, c->where,
		    "it names %s:%d as the master, but %s:%d is %s: producers that ask it push where no worker looks",
		    c->master.host, c->master.port,
		    agreed->host, agreed->port, d->server.connected ? "the one in use" : "what another Sentinel names"),
		    "wait for the end of a failover; if it lasts, see that this Sentinel reaches the others, then "
		    "SENTINEL RESET %s there", d->a->target.master);
	if (strstr(c->flags, "_down") != NULL || strstr(c->flags, "failover") != NULL ||
	    strstr(c->flags, "disconnected") != NULL)
		findings_advise(findings_add(d, SEVERITY_ERROR, c->where,
		    "it does not reach the master, or a failover is under way (flags: %s)", c->flags),
		    "wait for the end of a failover; if it lasts, check the network between this Sentinel and the "
		    "master");
	if (c->replicas == 0)
		findings_advise(findings_add(d, SEVERITY_WARNING, c->where,
		    "it knows no replica of the master, so no failover is possible"),
		    "add a replica, or see that it replicates (INFO replication)");
}

static void judge_quorum(struct doctor *d, const struct sentinel_check *c)
{
	int64_t configured = (int64_t)d->a->target.naddresses;

	if (c->others == 0)
		findings_advise(findings_add(d, SEVERITY_WARNING, c->where,
		    "it knows no other Sentinel: if its machine fails together with the master, nothing promotes a "
		    "replica"), "run three Sentinels on three machines, which watch the same master");
	else if (c->others > 0 && c->others + 1 < configured)
		findings_advise(findings_add(d, SEVERITY_WARNING, c->where,
		    "it knows %" PRId64 " other%s, but redis.sentinels names %" PRId64, c->others,
		    c->others == 1 ? "" : "s", configured - 1),
		    "see that all of them watch this master, and reach one another (announce-ip, passwords)");
	else if (c->others + 1 > configured)
		findings_advise(findings_add(d, SEVERITY_NOTE, c->where,
		    "it knows %" PRId64 " other%s, and redis.sentinels names only %" PRId64, c->others,
		    c->others == 1 ? "" : "s", configured - 1),
		    "name them all in redis.sentinels, so that one of them can be asked whichever is down");
}

static void judge_answers(struct doctor *d, struct sentinel_check *c, struct named_master *agreed)
{
	struct redis_reply reply;
	int rc = ask_sentinel(d, c, "MASTER", &reply);

	for (size_t i = 0; rc == 1 && reply.type == REDIS_ARRAY && redis_is_strings(&reply) && i + 1 < reply.n; i += 2)
		take_field(c, redis_element(&reply, i).str, redis_element(&reply, i + 1).str);
	if (!agreed->known)
		*agreed = c->master;
	judge_master(d, c, agreed);
	judge_quorum(d, c);
	if (rc != -1)
		rc = ask_sentinel(d, c, "CKQUORUM", &reply);
	if (rc == 0 && redis_error_is(&reply, "NOQUORUM"))
		findings_advise(findings_add(d, SEVERITY_ERROR, c->where, "no failover is possible: %s", reply.str),
		    "start the Sentinels that are down; SENTINEL RESET %s makes each forget those that are gone for "
		    "good", d->a->target.master);
	if (rc != -1)
		findings_add(d, SEVERITY_OK, c->where,
		    "it names %s:%d, and knows %" PRId64 " other%s; the quorum is %" PRId64, c->master.host,
		    c->master.port, c->others, c->others == 1 ? "" : "s", c->quorum);
	certificates_judge_server(d, c->where, &c->asked);
}

static void check_one(struct doctor *d, size_t i, struct named_master *agreed)
{
	struct sentinel_check c = { .others = -1, .quorum = -1, .replicas = -1 };
	const struct redis_address *at = &d->a->target.addresses[i];

	snprintf(c.where, sizeof(c.where), strchr(at->host, ':') != NULL ? "Sentinel [%s]:%d" : "Sentinel %s:%d",
	    at->host, at->port);
	redis_init(&c.asked, &d->a->target, NULL);
	if (redis_connect_sentinel(&c.asked, i, REDIS_SENTINEL_TIMEOUT_MS, NULL) == -1) {
		add_silent(d, &c);
	} else if (c.asked.route.port == 0) {
		add_unknown(d, &c);
	} else {
		c.master.known = true;
		strlcpy(c.master.host, c.asked.route.host, sizeof(c.master.host));
		c.master.port = c.asked.route.port;
		judge_answers(d, &c, agreed);
	}
	redis_close(&c.asked, NULL);
}

int check_sentinels(struct doctor *d)
{
	const struct redis_route *route = &d->a->redis.route;
	struct named_master agreed = {0};

	if (d->a->target.master == NULL) {
		findings_add(d, SEVERITY_OK, NULL, "no Sentinels are configured");
		return 0;
	}
	if (d->server.connected) {
		agreed = (struct named_master){ .known = true, .port = route->port };
		strlcpy(agreed.host, route->host, sizeof(agreed.host));
		if (d->server.info != NULL)
			redis_info_value(d->server.info, d->server.info_len, "run_id", agreed.run_id,
			    sizeof(agreed.run_id));
	}
	for (size_t i = 0; i < d->a->target.naddresses; i++)
		check_one(d, i, &agreed);
	return 0;
}
