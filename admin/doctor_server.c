/* Redis as a server: can it be reached, is it the right one, how many may connect, what time does it think it is. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/doctor.h"

#include "common/alloc.h"
#include "common/clock.h"
#include "common/queue_watch.h"
#include "common/redis_info.h"

#define CLOCK_NOTE_MS 1000
#define CLOCK_WARNING_MS 60000
#define CLIENTS_SPARE 16	/* for the sweeper, the command line and producers */

/* ---- INFO and CONFIG ---- */

/* Hosted servers, and access lists, may refuse it. */
static int read_info(struct doctor *d)
{
	struct redis_reply reply;

	redis_appendf(&d->a->redis, "INFO");
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (reply.type != REDIS_STRING) {
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, d->a->target.shown,
		    "INFO is refused: version, eviction, memory and persistence are not known"),
		    "allow this user +info, or make sure yourself: noeviction, appendfsync always");
		return 0;
	}
	d->info = alloc_copy(reply.str, reply.len);
	d->info_len = reply.len;
	return 0;
}

bool doctor_setting(struct doctor *d, const char *name, char *out, size_t size)
{
	struct redis_reply reply;

	out[0] = '\0';
	redis_appendf(&d->a->redis, "CONFIG GET %s", name);
	if (doctor_reply(d, &reply) == -1 || reply.type != REDIS_ARRAY || reply.n != 2)
		return false;
	return redis_element(&reply, 1).type == REDIS_STRING && strlcpy(out, redis_element(&reply, 1).str, size) < size;
}

/* ---- reaching it ---- */

static void tell_refused(struct doctor *d)
{
	const char *where = d->a->target.shown, *why = d->a->redis.error;
	size_t n = where == NULL ? 0 : strlen(where);

	/* The address stands in a column of its own. */
	if (n > 0 && strncmp(why, where, n) == 0 && strncmp(why + n, ": ", 2) == 0)
		why += n + 2;
	if (strstr(why, "replica") != NULL)
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, where, "%s", why),
		    "set redis.url to the master: redis-cli INFO replication names it");
	else if (d->a->redis.weather == REDIS_MISCONFIGURED)
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, where, "it does not let us in: %s", why),
		    "redis.password_file, and the user in redis.url; may this user read that file?");
	else
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, where, "it cannot be reached: %s", why),
		    "is it running, and there? redis.url, $QUREDIS_REDIS_URL; its log says if it is loading");
	d->away = d->a->redis.weather != REDIS_MISCONFIGURED && strstr(why, "replica") == NULL;
}

int doctor_redis(struct doctor *d)
{
	struct admin *a = d->a;

	if (a->conf == NULL) {
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, NULL, "Redis and the queues were not looked at: where they are is in the configuration"),
		    "correct that first, or give -u");
		return 0;
	}
	if (admin_connect(a) == -1) {
		if (a->target.shown == NULL && a->status != EX_USAGE)
			doctor_advise(doctor_tell(d, SEVERITY_ERROR, NULL, "%s", d->why), "correct redis.url");
		else if (a->status != EX_USAGE)
			tell_refused(d);
		return 0;
	}
	d->connected = true;
	return read_info(d);
}

/* ---- what it is ---- */

int doctor_role(struct doctor *d)
{
	int64_t replicas = doctor_info_number(d, "connected_slaves");
	char lag[32], least[32];

	/* A replica was refused when it was connected to. */
	if (replicas <= 0 || !doctor_setting(d, "min-replicas-to-write", least, sizeof(least)) || strcmp(least, "0") != 0)
		return d->a->redis.state == REDIS_CLOSED ? -1 : 0;
	doctor_setting(d, "min-replicas-max-lag", lag, sizeof(lag));
	doctor_advise(doctor_tell(d, SEVERITY_NOTE, d->a->target.shown,
	    "a failover loses what was not replicated: min-replicas-to-write is 0, with %" PRId64 " replica%s", replicas, replicas == 1 ? "" : "s"),
	    "CONFIG SET min-replicas-to-write 1, min-replicas-max-lag %s", lag[0] == '\0' ? "10" : lag);
	return 0;
}

int doctor_version(struct doctor *d)
{
	char version[32], valkey[32], name[32];
	const char *where = d->a->target.shown;
	long major;

	if (!doctor_info_text(d, "redis_version", version, sizeof(version))) {
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, where, "INFO does not tell its version"), "quredis needs Redis %d or later",
		    REDIS_OLDEST_MAJOR);
		return 0;
	}
	major = strtol(version, NULL, 10);
	if (major < REDIS_OLDEST_MAJOR)
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, where, "Redis %s is too old: no queue is run", version),
		    "install Redis %d or later, or Valkey", REDIS_OLDEST_MAJOR);
	else if (doctor_info_text(d, "server_name", name, sizeof(name)) && strcmp(name, "valkey") == 0 &&
	    doctor_info_text(d, "valkey_version", valkey, sizeof(valkey)))
		doctor_tell(d, SEVERITY_OK, where, "Valkey %s, as Redis %s", valkey, version);
	else
		doctor_tell(d, SEVERITY_OK, where, "Redis %s", version);
	return 0;
}

/* ---- connections ---- */

int doctor_clients(struct doctor *d)
{
	int64_t most = doctor_info_number(d, "maxclients"), now = doctor_info_number(d, "connected_clients"), needed = CLIENTS_SPARE;
	char text[32];

	if (most == -1 && doctor_setting(d, "maxclients", text, sizeof(text)))
		most = strtoll(text, NULL, 10);
	if (d->a->redis.state == REDIS_CLOSED)
		return -1;
	for (size_t i = 0; i < d->a->conf->nqueues; i++)
		needed += d->a->conf->queues[i]->workers;
	if (most <= 0)
		return 0;
	if (most < needed)
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, d->a->target.shown,
		    "it takes %" PRId64 " clients (maxclients), and the workers of this host alone are %" PRId64, most, needed - CLIENTS_SPARE),
		    "raise maxclients in Redis, and its limit of open files");
	else if (now >= most - most / 10)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, d->a->target.shown,
		    "%" PRId64 " of %" PRId64 " clients are connected: soon it will refuse workers and producers", now, most),
		    "redis-cli CLIENT LIST shows who they are; raise maxclients");
	return 0;
}

/* ---- its clock ---- */

int doctor_clock(struct doctor *d)
{
	int64_t before = clock_realtime_ms(), after, ahead, off;
	struct redis_reply reply;
	enum severity severity;

	redis_appendf(&d->a->redis, "TIME");
	if (doctor_reply(d, &reply) == -1)
		return -1;
	after = clock_realtime_ms();
	d->server_ms = queue_time_parse(&reply);
	if (d->server_ms == -1)
		return admin_fail(d->a, EX_PROTOCOL, "TIME: %s", reply.type == REDIS_ERROR ? reply.str : "no time");
	ahead = d->server_ms - (before + after) / 2;
	off = (ahead < 0 ? -ahead : ahead) - (after - before) / 2;
	if (off < CLOCK_NOTE_MS)
		return 0;
	severity = off < CLOCK_WARNING_MS ? SEVERITY_NOTE : SEVERITY_WARNING;
	doctor_advise(doctor_tell(d, severity, d->a->target.shown,
	    "its clock is %" PRId64 ".%" PRId64 " s %s this host's: delays and the times of records are by its clock, logs by ours",
	    off / 1000, off % 1000 / 100, ahead > 0 ? "ahead of" : "behind"), "have both follow NTP");
	return 0;
}
