/* Checks Redis as a server: that it answers, has a suitable role and version, persists acknowledged data, and has
 * enough memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>
#include <jansson.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "common/redis/redis.h"

#define CLOCK_NOTE_MS 1000
#define CLOCK_WARNING_MS 60000
#define CLIENTS_SPARE 16	/* for the sweeper, the command line and producers */
#define FULL_PERCENT 80
#define MIB (1024 * 1024)
#define WRITE_ALL "redis-cli CONFIG SET appendonly yes; redis-cli CONFIG SET appendfsync always; set both in " \
    "redis.conf, too"
#define KEEP_ALL "choose persistence there (an append-only file, if it offers that)"
#define NO_SETTING "quredis.none"	/* no server has a setting of this name */

/* ---- INFO and CONFIG ---- */

static bool info_text(const struct doctor *d, const char *name, char *out, size_t size)
{
	return redis_info_value(d->server.info, d->server.info_len, name, out, size);
}

/* -1: INFO does not have it. */
static int64_t info_number(const struct doctor *d, const char *name)
{
	char text[32], *end;
	int64_t n;

	if (d->server.info == NULL || !info_text(d, name, text, sizeof(text)))
		return -1;
	n = strtoll(text, &end, 10);
	return end == text || n < 0 ? -1 : n;
}

/* CONFIG GET of one name; false: this server hides it. */
static bool setting(struct doctor *d, const char *name, char *out, size_t size)
{
	struct redis_reply reply;

	out[0] = '\0';
	redis_appendf(&d->a->redis, "CONFIG GET %s", name);
	if (doctor_reply(d, &reply) == -1 || reply.type != REDIS_ARRAY || reply.n != 2)
		return false;
	return redis_element(&reply, 1).type == REDIS_STRING && strlcpy(out, redis_element(&reply, 1).str, size) < size;
}

/*
 * Probes CONFIG SET with a name that no server has: a hosted service refuses the command itself, or only CONFIG SET,
 * and the settings are its own then. An access list refuses it to this user. -1: the connection was lost.
 */
static int ask_config(struct doctor *d)
{
	struct redis_reply reply;

	redis_appendf(&d->a->redis, "CONFIG SET " NO_SETTING " 1");
	if (doctor_reply(d, &reply) == -1)
		return -1;
	d->server.config_set = commands_answer(COMMAND_CONFIG, &reply);
	return 0;
}

/* ours: what to do on a server of one's own. service: the same where the settings are those of a hosted service. */
static void advise_setting(const struct doctor *d, struct finding *f, const char *ours, const char *service)
{
	if (d->server.config_set == COMMAND_DENIED) {
		findings_advise(f, "the Redis user %s lacks CONFIG SET; with a user that has it: %s (at a hosted "
		    "service: %s; docs/hosted.md)", doctor_user(d), ours, service);
		f->other_user = true;
	} else if (d->server.config_set == COMMAND_UNKNOWN)
		findings_advise(f, "this setting is the service's, which refuses CONFIG: %s (docs/hosted.md)", service);
	else
		findings_advise(f, "%s", ours);
}

/* For a check that asked CONFIG GET. -1: the connection was lost. */
static int still_connected(const struct doctor *d)
{
	return d->a->redis.state == REDIS_CLOSED ? -1 : 0;
}

/* ---- the connection ---- */

/* Hosted servers and access lists may refuse INFO. */
static int read_info(struct doctor *d)
{
	struct redis_reply reply;

	redis_appendf(&d->a->redis, "INFO");
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (commands_answer(COMMAND_INFO, &reply) == COMMAND_DENIED) {
		findings_advise(doctor_add(d, SEVERITY_NOTE,
		    "the Redis user %s lacks INFO, so version, eviction, memory and persistence are unknown",
		    doctor_user(d)),
		    "ACL SETUSER %s +info", doctor_user(d));
		return 0;
	}
	if (reply.type != REDIS_STRING) {
		findings_advise(doctor_add(d, SEVERITY_NOTE,
		    "INFO is refused, so version, eviction, memory and persistence are unknown"),
		    "check yourself, in the settings of the service: noeviction, appendfsync always");
		return 0;
	}
	d->server.info = alloc_copy(reply.str, reply.len);
	d->server.info_len = reply.len;
	return 0;
}

int check_redis(struct doctor *d)
{
	struct admin *a = d->a;

	if (a->conf == NULL) {
		findings_advise(findings_add(d, SEVERITY_NOTE, NULL,
		    "Redis and the queues were not checked, because the configuration cannot be read"),
		    "correct the configuration, or give the address of Redis with -u");
		return 0;
	}
	if (connection_open(a) == 0) {
		d->server.connected = true;
		doctor_add_connected(d);
		return ask_config(d) == -1 ? -1 : read_info(d);
	}
	if (a->target.shown == NULL && a->status != EX_USAGE)
		findings_advise(findings_add(d, SEVERITY_ERROR, NULL, "%s", d->why), "correct redis.url");
	else if (a->status != EX_USAGE)
		doctor_add_refused(d);
	return 0;
}

/* ---- role and version ---- */

/* Connecting to a replica fails, so this is a master. */
int check_role(struct doctor *d)
{
	int64_t replicas = info_number(d, "connected_slaves");
	char lag[32], least[32], ours[128];

	if (replicas > 0 && setting(d, "min-replicas-to-write", least, sizeof(least)) && strcmp(least, "0") == 0) {
		setting(d, "min-replicas-max-lag", lag, sizeof(lag));
		snprintf(ours, sizeof(ours),
		    "redis-cli CONFIG SET min-replicas-to-write 1; redis-cli CONFIG SET min-replicas-max-lag %s",
		    lag[0] == '\0' ? "10" : lag);
		advise_setting(d,
		    doctor_add(d, SEVERITY_NOTE,
		    "a failover loses writes that are not replicated yet: min-replicas-to-write is 0, with %" PRId64
		    " replica%s",
		    replicas, replicas == 1 ? "" : "s"), ours,
		    "set min-replicas-to-write to 1 there, if it offers that");
	}
	return still_connected(d);
}

int check_version(struct doctor *d)
{
	char version[32], valkey[32];

	if (!info_text(d, "redis_version", version, sizeof(version)))
		findings_advise(doctor_add(d, SEVERITY_NOTE, "INFO does not contain its version"),
		    "quredis needs Redis %d or later", REDIS_OLDEST_MAJOR);
	else if (strtol(version, NULL, 10) < REDIS_OLDEST_MAJOR)
		findings_advise(doctor_add(d, SEVERITY_ERROR, "Redis %s is too old: quredisd runs no queue", version),
		    "install Redis %d or later, or Valkey", REDIS_OLDEST_MAJOR);
	else if (info_text(d, "valkey_version", valkey, sizeof(valkey)))
		doctor_add(d, SEVERITY_OK, "Valkey %s, compatible with Redis %s", valkey, version);
	else
		doctor_add(d, SEVERITY_OK, "Redis %s", version);
	return 0;
}

int check_clients(struct doctor *d)
{
	int64_t most = info_number(d, "maxclients"), now = info_number(d, "connected_clients"), workers = 0;
	char text[32];

	if (most == -1 && setting(d, "maxclients", text, sizeof(text)))
		most = strtoll(text, NULL, 10);
	for (size_t i = 0; i < d->a->conf->nqueues; i++)
		workers += d->a->conf->queues[i]->workers;
	if (most > 0 && most < workers + CLIENTS_SPARE)
		advise_setting(d, doctor_add(d, SEVERITY_ERROR,
		    "maxclients is %" PRId64 ", but this host alone has %" PRId64 " workers", most, workers),
		    "raise maxclients of Redis, and its limit of open files",
		    "take a plan with more connections, or run fewer workers");
	else if (most > 0 && now >= most - most / 10)
		advise_setting(d,
		    doctor_add(d, SEVERITY_WARNING,
		    "%" PRId64 " of %" PRId64 " clients are connected; at the limit it refuses workers and producers",
		    now,
		    most), "redis-cli CLIENT LIST shows them; raise maxclients",
		    "take a plan with more connections, or end clients that are not needed");
	return still_connected(d);
}

int check_clock(struct doctor *d)
{
	int64_t before = clock_realtime_ms(), after, server_ms, ahead, off;
	struct redis_reply reply;

	d->server.now_ms = before;
	redis_appendf(&d->a->redis, "TIME");
	if (doctor_reply(d, &reply) == -1)
		return -1;
	after = clock_realtime_ms();
	server_ms = queue_time_parse(&reply);
	if (server_ms == -1)
		return admin_fail(d->a, EX_PROTOCOL, "TIME: %s",
		    reply.type == REDIS_ERROR ? reply.str : "unexpected reply from Redis");
	d->server.now_ms = server_ms;
	ahead = server_ms - (before + after) / 2;
	off = (ahead < 0 ? -ahead : ahead) - (after - before) / 2;
	if (off >= CLOCK_NOTE_MS)
		findings_advise(doctor_add(d, off < CLOCK_WARNING_MS ? SEVERITY_NOTE : SEVERITY_WARNING,
		    "its clock is %" PRId64 ".%" PRId64 " s %s this host's; delays and records use its clock, logs "
		    "use this host's", off / 1000, off % 1000 / 100,
		    ahead > 0 ? "ahead of" : "behind"), "synchronize both with NTP");
	return 0;
}

/* ---- memory and persistence ---- */

int check_eviction(struct doctor *d)
{
	bool accepted = d->a->conf->redis.allow_eviction;
	char policy[32];

	if (!info_text(d, "maxmemory_policy", policy, sizeof(policy)))
		findings_advise(doctor_add(d, SEVERITY_NOTE, "INFO does not contain maxmemory-policy"),
		    "check yourself, in the settings of the service, that it is noeviction");
	else if (redis_policy_evicts(policy))
		advise_setting(d,
		    doctor_add(d, accepted ? SEVERITY_WARNING : SEVERITY_ERROR,
		    "maxmemory-policy is %s: Redis may delete messages and leases, %s", policy,
		    accepted ? "which redis.allow_eviction accepts" : "so quredisd runs no queue"),
		    "redis-cli CONFIG SET maxmemory-policy noeviction; set it in redis.conf, too",
		    "set maxmemory-policy to noeviction there");
	return 0;
}

/* Without maxmemory the limit is the memory of the machine. */
int check_memory(struct doctor *d)
{
	static const char *const make_room =
	    "raise maxmemory, or make room: quredis ls shows what waits, quredis dlq ls what failed";
	static const char *const larger_plan =
	    "take a larger plan, or make room: quredis ls shows what waits, quredis dlq ls what failed";
	int64_t used = info_number(d, "used_memory"), most = info_number(d, "maxmemory"),
	    machine = info_number(d, "total_system_memory");
	int64_t uncounted = info_number(d, "mem_not_counted_for_evict");
	int percent;

	if (most > 0 && uncounted > 0)
		used -= uncounted;
	if (used <= 0)
		return 0;
	percent = most > used ? (int)(100.0 * (double)used / (double)most) : 100;
	if (most > 0 && used >= most)
		advise_setting(d,
		    doctor_add(d, SEVERITY_ERROR, "it is full (%" PRId64 " of %" PRId64 " KiB) and refuses producers",
		    used / 1024, most / 1024), make_room, larger_plan);
	else if (most > 0 && percent >= FULL_PERCENT)
		advise_setting(d,
		    doctor_add(d, SEVERITY_WARNING, "it uses %d %% of maxmemory; when it is full, it refuses producers",
		    percent), make_room, larger_plan);
	else if (most > 0)
		doctor_add(d, SEVERITY_OK, "it uses %d %% of maxmemory", percent);
	else if (machine > 0 && used > machine / 100 * FULL_PERCENT)
		advise_setting(d, doctor_add(d, SEVERITY_WARNING,
		    "it uses %" PRId64 " of %" PRId64 " MiB of its machine and has no maxmemory: the kernel may kill "
		    "it",
		    used / MIB, machine / MIB),
		    "set maxmemory, so that it refuses producers before that; quredis ls shows what fills it",
		    larger_plan);
	else
		doctor_add(d, SEVERITY_OK, "it uses %" PRId64 " MiB and has no maxmemory", used / MIB);
	return 0;
}

/* bytes: what Redis lets one answer, or one client, take. Redis also needs some bytes around the message. */
static void check_limit(struct doctor *d, const char *name, int64_t bytes)
{
	const struct conf *conf = d->a->conf;

	for (size_t i = 0; conf != NULL && bytes > 0 && i < conf->nqueues; i++) {
		const struct conf_queue *q = conf->queues[i];

		if (q->message_max < bytes)
			continue;
		advise_setting(d,
		    findings_add(d, SEVERITY_WARNING, q->name,
		    "message_max is %" PRId64 ", but %s of Redis is %" PRId64 ": a message in between escapes as "
		    "Undeliverable", q->message_max, name, bytes),
		    "redis-cli CONFIG SET client-output-buffer-limit 'normal 0 0 0', and maxmemory-clients 0; or lower "
		    "message_max", "lower message_max");
	}
}

/* A server that hides a setting, or has none of this name, limits nothing as far as known. */
int check_answers(struct doctor *d)
{
	const char *normal;
	char text[256];

	if (setting(d, "client-output-buffer-limit", text, sizeof(text)) && (normal = strstr(text, "normal ")) != NULL)
		check_limit(d, "client-output-buffer-limit", strtoll(normal + strlen("normal "), NULL, 10));
	/* "5%" is a part of maxmemory */
	if (still_connected(d) == 0 && setting(d, "maxmemory-clients", text, sizeof(text)))
		check_limit(d, "maxmemory-clients",
		    strtoll(text, NULL, 10) * (strchr(text, '%') == NULL ? 1 : info_number(d, "maxmemory") / 100));
	return still_connected(d);
}

static void add_without_log(struct doctor *d)
{
	int64_t saved = info_number(d, "rdb_last_save_time"), changes = info_number(d, "rdb_changes_since_last_save");
	int64_t age_s = clock_realtime_ms() / 1000 - saved;
	char save[128];

	if (setting(d, "save", save, sizeof(save)) && save[0] == '\0')
		advise_setting(d,
		    doctor_add(d, SEVERITY_WARNING,
		    "it writes nothing to disk (appendonly no, no save): when it ends, all messages are lost"),
		    WRITE_ALL, KEEP_ALL);
	else
		advise_setting(d,
		    doctor_add(d, SEVERITY_WARNING,
		    "appendonly is no: a crash loses everything since the last snapshot, now %" PRId64 " changes in %"
		    PRId64 " s", changes < 0 ? 0 : changes, saved < 0 || age_s < 0 ? 0 : age_s), WRITE_ALL, KEEP_ALL);
}

int check_persistence(struct doctor *d)
{
	int64_t log = info_number(d, "aof_enabled");
	char fsync[32];

	if (log == -1)
		findings_advise(doctor_add(d, SEVERITY_NOTE,
		    "INFO does not tell whether it keeps an append-only file, so what a crash loses is unknown"),
		    "look it up in the settings of the service");
	else if (log == 0)
		add_without_log(d);
	else if (!setting(d, "appendfsync", fsync, sizeof(fsync)) && d->server.config_set == COMMAND_DENIED)
		findings_advise(doctor_add(d, SEVERITY_NOTE,
		    "appendonly is yes, but the Redis user %s lacks CONFIG GET, so appendfsync cannot be read",
		    doctor_user(d)),
		    "ACL SETUSER %s +config|get", doctor_user(d));
	else if (fsync[0] == '\0')
		findings_advise(doctor_add(d, SEVERITY_NOTE, "appendonly is yes, but appendfsync cannot be read"),
		    "check yourself, in the settings of the service: always keeps all that was acknowledged; everysec "
		    "loses up to 2 s of it in a crash");
	else if (strcmp(fsync, "everysec") == 0)
		advise_setting(d, doctor_add(d, SEVERITY_NOTE, "appendfsync is everysec: a crash of Redis or its "
		    "machine can lose the last 2 s that it acknowledged"),
		    "if that is too much: redis-cli CONFIG SET appendfsync always; it is slower",
		    "choose appendfsync always there, if that is too much and it offers that");
	else if (strcmp(fsync, "always") != 0)
		advise_setting(d, doctor_add(d, SEVERITY_WARNING,
		    "appendfsync is %s: a crash of its machine can lose the last 30 s that it acknowledged", fsync),
		    "redis-cli CONFIG SET appendfsync everysec; always instead of everysec loses nothing, and is "
		    "slower", "choose appendfsync always or everysec there");
	return still_connected(d);
}

int check_writes(struct doctor *d)
{
	static const struct { const char *name; enum severity severity; const char *what; } results[] = {
		{ "rdb_last_bgsave_status", SEVERITY_ERROR,
		    "its last snapshot failed, so it may refuse every write (stop-writes-on-bgsave-error)" },
		{ "aof_last_write_status", SEVERITY_ERROR,
		    "its last write to the append-only file failed: do not stop quredisd before there is room" },
		{ "aof_last_bgrewrite_status", SEVERITY_WARNING,
		    "the last rewrite of its append-only file failed, so the file grows" },
	};
	char status[16];

	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (info_text(d, results[i].name, status, sizeof(status)) && strcmp(status, "ok") != 0)
			findings_advise(doctor_add(d, results[i].severity, "%s (%s is %s)", results[i].what,
			    results[i].name, status),
			    "its log says why: often a full disk, or a directory that it may not write");
	return 0;
}
