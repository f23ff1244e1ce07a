/*
 * Hosted services and access lists refuse commands. Without some of them quredis cannot run; without others it runs,
 * and cannot know or do something. This check asks without COMMAND, which may be refused, too: it sends each command
 * without arguments. Redis refuses an unknown command before it counts arguments, and changes nothing. The access list
 * comes after that count, so for the commands that quredis can do without the check sends a whole one that does no
 * harm.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "admin/doctor/checks.h"

#include "common/queue/queue.h"
#include "common/redis/redis.h"

#define NO_KEY "quredis.none"	/* behind the prefix: a key that no program writes */

/* Commands that quredis can do without. */
static const struct spared {
	enum command_name command;
	const char *whole;		/* NULL: sent without arguments. %s: NO_KEY */
	const char *unknown;		/* what cannot be known or done then; NULL: nothing is lost */
	const char *advice;
} spared[] = {
	{ COMMAND_CONFIG, "CONFIG GET maxmemory", "how much a crash or a failover loses (appendonly, appendfsync, "
	    "min-replicas-to-write) cannot be read",
	  "look up persistence, replicas and eviction (noeviction) in the settings of the service" },
	{ COMMAND_CLIENT, "CLIENT ID", "connections have no names, and a stop waits until a fetch ends, up to 2 s",
	  "nothing is wrong; allow at least 5 s for a stop" },
	{ COMMAND_ROLE, "ROLE", "INFO replication shows instead whether the server is a replica",
	    "make sure that redis.url names the primary endpoint" },
	{ COMMAND_MEMORY, "MEMORY USAGE %s",
	    "the size of a large message is not known before Redis has read it, which takes Redis longer",
	  "nothing is wrong for messages below 1 MiB" },
	{ COMMAND_INFO, "INFO server", NULL, NULL },		/* check_redis() tells */
	{ COMMAND_SCAN, NULL, "keys that no registration leads to cannot be found", "nothing is wrong for the queues" },
	/* quredis push --wait tells */
	{ COMMAND_WAITAOF, NULL, NULL, NULL }, { COMMAND_WAIT, NULL, NULL, NULL },
	{ COMMAND_BRPOPLPUSH, "BRPOPLPUSH %s %s 0.01", NULL, NULL },	/* either this and RPOPLPUSH, or the next two */
	{ COMMAND_RPOPLPUSH, "RPOPLPUSH %s %s", NULL, NULL },
	{ COMMAND_BLMOVE, "BLMOVE %s %s LEFT LEFT 0.01", NULL, NULL },
	{ COMMAND_LMOVE, "LMOVE %s %s LEFT LEFT", NULL, NULL },
	{ COMMAND_HRANDFIELD, NULL, NULL, NULL }, { COMMAND_SELECT, NULL, NULL, NULL },
	{ COMMAND_AUTH, NULL, NULL, NULL },
	{ COMMAND_SENTINEL, NULL, NULL, NULL },
};

static const struct spared *spared_of(enum command_name command)
{
	for (size_t i = 0; i < nitems(spared); i++)
		if (spared[i].command == command)
			return &spared[i];
	return NULL;
}

enum command_answer commands_answer(enum command_name command, const struct redis_reply *reply)
{
	enum redis_error_class class = redis_error_class(reply);

	if (class == REDIS_ERROR_PERMISSION && command_name_refused(reply->str) == command)
		return COMMAND_DENIED;
	return class == REDIS_ERROR_NO_COMMAND ? COMMAND_UNKNOWN : COMMAND_OFFERED;
}

/* "ACL SETUSER mail +xadd": a new string. */
static char *grant_of(const struct doctor *d, enum command_name command)
{
	const char *right = command == COMMAND_CONFIG ? "config|get" : command == COMMAND_MEMORY ? "memory|usage"
	    : command_name_text(command);
	char *grant = alloc_format("ACL SETUSER %s +%s", doctor_user(d), right);

	for (char *at = grant + strlen(grant) - strlen(right); *at != '\0'; at++)
		*at = (char)tolower((unsigned char)*at);
	return grant;
}

static void add_denied_command(struct doctor *d, enum command_name command)
{
	const struct spared *s = spared_of(command);
	const char *where = d->a->target.shown, *name = command_name_text(command), *user = doctor_user(d);
	char *grant = grant_of(d, command);

	if (s == NULL)
		findings_advise(findings_add(d, SEVERITY_ERROR, where,
		    "the Redis user %s lacks %s, which quredis needs", user, name), "%s", grant);
	else if (s->unknown != NULL)
		findings_advise(findings_add(d, SEVERITY_NOTE, where, "the Redis user %s lacks %s: %s", user, name,
		    s->unknown), "%s; where a service does not permit that: %s", grant, s->advice);
	free(grant);
}

static void add_unknown_command(struct doctor *d, enum command_name command)
{
	const struct spared *s = spared_of(command);
	const char *where = d->a->target.shown, *name = command_name_text(command);

	if (s == NULL)
		findings_advise(findings_add(d, SEVERITY_ERROR, where, "it refuses %s, which quredis needs", name),
		    "use a service or a plan that offers this command");
	else if (s->unknown != NULL)
		findings_advise(findings_add(d, SEVERITY_NOTE, where, "it refuses %s: %s", name, s->unknown), "%s",
		    s->advice);
}

static enum command_answer worse_of(enum command_answer a, enum command_answer b)
{
	return a > b ? a : b;
}

/* Either pair is enough to fetch. */
static void add_fetches(struct doctor *d, const enum command_answer answers[COMMAND_COUNT])
{
	enum command_answer old = worse_of(answers[COMMAND_BRPOPLPUSH], answers[COMMAND_RPOPLPUSH]);
	enum command_answer new = worse_of(answers[COMMAND_BLMOVE], answers[COMMAND_LMOVE]);
	const char *where = d->a->target.shown, *user = doctor_user(d);

	if (old == COMMAND_OFFERED || new == COMMAND_OFFERED)
		return;
	if (old == COMMAND_UNKNOWN && new == COMMAND_UNKNOWN)
		findings_advise(findings_add(d, SEVERITY_ERROR, where,
		    "it refuses BRPOPLPUSH and BLMOVE, of which quredis needs one to fetch"),
		    "use a service or a plan that offers one of these commands");
	else
		findings_advise(findings_add(d, SEVERITY_ERROR, where,
		    "the Redis user %s lacks BRPOPLPUSH and BLMOVE, of which quredis needs one to fetch", user),
		    "a supervisor needs ACL SETUSER %s %s; for a command line that only looks nothing is wrong", user,
		    old == COMMAND_DENIED ? "+brpoplpush +rpoplpush" : "+blmove +lmove");
}

/* -1: the connection was lost. */
static int ask_commands(struct doctor *d, enum command_answer answers[COMMAND_COUNT])
{
	char *key = alloc_format("%s" NO_KEY, redis_prefix(&d->a->redis));
	struct redis_reply reply;

	for (int i = 1; i < COMMAND_COUNT; i++) {
		const struct spared *s = spared_of((enum command_name)i);

		redis_appendf(&d->a->redis,
		    s != NULL && s->whole != NULL ? s->whole : command_name_text((enum command_name)i), key, key);
	}
	free(key);
	for (int i = 1; i < COMMAND_COUNT; i++) {
		if (doctor_reply(d, &reply) == -1)
			return -1;
		answers[i] = commands_answer((enum command_name)i, &reply);
	}
	return 0;
}

int check_commands(struct doctor *d)
{
	enum command_answer answers[COMMAND_COUNT] = { COMMAND_OFFERED };
	const struct doctor_server *s = &d->server;
	char id[REDIS_RUN_ID_SIZE];

	if (ask_commands(d, answers) == -1)
		return -1;
	for (int i = 1; i < COMMAND_COUNT; i++)
		if (answers[i] == COMMAND_DENIED)
			add_denied_command(d, (enum command_name)i);
		else if (answers[i] == COMMAND_UNKNOWN)
			add_unknown_command(d, (enum command_name)i);
	add_fetches(d, answers);
	if (s->info != NULL && !redis_info_value(s->info, s->info_len, "run_id", id, sizeof(id)))
		findings_advise(findings_add(d, SEVERITY_NOTE, d->a->target.shown,
		    "INFO does not contain run_id: messages of a host that vanishes are returned only if one "
		    "connection lasts for a lease"),
		    "see that the service does not close idle connections within supervisor.lease");
	return 0;
}
