/* What Redis promises to keep: that it throws nothing away, has room, and writes to disk what it acknowledged. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/doctor.h"

#include "common/clock.h"
#include "common/redis_info.h"

#define FULL_PERCENT 80
#define MIB (1024 * 1024)

int doctor_eviction(struct doctor *d)
{
	const char *where = d->a->target.shown;
	char policy[32];

	if (!doctor_info_text(d, "maxmemory_policy", policy, sizeof(policy))) {
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, where, "INFO does not tell maxmemory-policy"), "make sure yourself that it is noeviction");
		return 0;
	}
	if (!redis_policy_evicts(policy))
		return 0;
	if (d->a->conf->redis.allow_eviction)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, where,
		    "maxmemory-policy is %s: messages and leases may be thrown away, and redis.allow_eviction accepts that", policy),
		    "CONFIG SET maxmemory-policy noeviction, and in redis.conf");
	else
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, where,
		    "maxmemory-policy is %s: messages and leases may be thrown away, and no queue is run", policy),
		    "CONFIG SET maxmemory-policy noeviction, and in redis.conf");
	return 0;
}

/* ---- memory ---- */

static void check_machine(struct doctor *d, int64_t used)
{
	int64_t machine = doctor_info_number(d, "total_system_memory");

	if (machine > 0 && used > machine / 100 * FULL_PERCENT)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, d->a->target.shown,
		    "it uses %" PRId64 " of %" PRId64 " MiB of its machine, and has no maxmemory: the kernel may kill it", used / MIB, machine / MIB),
		    "set maxmemory, so that producers are refused before that; quredis ls shows what fills it");
	else
		doctor_tell(d, SEVERITY_OK, d->a->target.shown, "%" PRId64 " MiB in use, no maxmemory", used / MIB);
}

int doctor_memory(struct doctor *d)
{
	int64_t used = doctor_info_number(d, "used_memory"), most = doctor_info_number(d, "maxmemory");
	int64_t beside = doctor_info_number(d, "mem_not_counted_for_evict");
	const char *where = d->a->target.shown;

	if (used <= 0)
		return 0;
	if (most <= 0) {
		check_machine(d, used);
		return 0;
	}
	used -= beside > 0 ? beside : 0;
	if (used >= most)
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, where, "it is full (%" PRId64 " of %" PRId64 " KiB): producers are refused", used / 1024,
		    most / 1024), "raise maxmemory, or make room: quredis ls shows what waits, quredis dlq ls what failed");
	else if (used > most / 100 * FULL_PERCENT)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, where,
		    "%" PRId64 " %% of maxmemory is in use; when it is full producers are refused", used / (most / 100)),
		    "raise maxmemory, or make room: quredis ls shows what waits, quredis dlq ls what failed");
	else
		doctor_tell(d, SEVERITY_OK, where, "%" PRId64 " %% of maxmemory is in use", used / (most / 100 + 1));
	return 0;
}

/* ---- what survives a crash of it ---- */

static void tell_without_log(struct doctor *d)
{
	int64_t saved = doctor_info_number(d, "rdb_last_save_time"), changes = doctor_info_number(d, "rdb_changes_since_last_save");
	int64_t age_s = clock_realtime_ms() / 1000 - saved;
	char save[128];

	if (doctor_setting(d, "save", save, sizeof(save)) && save[0] == '\0')
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, d->a->target.shown,
		    "nothing is written to disk (appendonly no, no save): when Redis ends, every message is gone"),
		    "CONFIG SET appendonly yes, appendfsync always, and in redis.conf");
	else
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, d->a->target.shown,
		    "appendonly is no: a crash of Redis loses all since its last snapshot, %" PRId64 " changes in %" PRId64 " s by now",
		    changes < 0 ? 0 : changes, saved < 0 || age_s < 0 ? 0 : age_s),
		    "CONFIG SET appendonly yes, appendfsync always, and in redis.conf");
}

int doctor_persistence(struct doctor *d)
{
	const char *where = d->a->target.shown;
	char fsync[32];

	if (doctor_info_number(d, "aof_enabled") == 0)
		tell_without_log(d);
	else if (!doctor_setting(d, "appendfsync", fsync, sizeof(fsync)))
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, where, "appendonly is yes; appendfsync cannot be read"),
		    "make sure yourself: always keeps what was acknowledged, everysec loses up to 2 s of it in a crash");
	else if (strcmp(fsync, "everysec") == 0)
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, where,
		    "appendfsync is everysec: a crash of Redis or its machine can lose the last 2 s of what it acknowledged"),
		    "CONFIG SET appendfsync always, if that is too much; it costs speed");
	else if (strcmp(fsync, "always") != 0)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, where,
		    "appendfsync is %s: a crash of its machine can lose half a minute of what Redis acknowledged", fsync),
		    "CONFIG SET appendfsync always, or everysec");
	return d->a->redis.state == REDIS_CLOSED ? -1 : 0;
}

/* ---- whether it does what it promises ---- */

static void check_status(struct doctor *d, const char *name, enum severity severity, const char *what)
{
	char status[16];

	if (!doctor_info_text(d, name, status, sizeof(status)) || strcmp(status, "ok") == 0)
		return;
	doctor_advise(doctor_tell(d, severity, d->a->target.shown, "%s (%s is %s)", what, name, status),
	    "its log says why: usually a full disk, or a directory it may not write");
}

int doctor_writes(struct doctor *d)
{
	check_status(d, "rdb_last_bgsave_status", SEVERITY_ERROR,
	    "its last snapshot failed: it may refuse every write (stop-writes-on-bgsave-error)");
	check_status(d, "aof_last_write_status", SEVERITY_ERROR, "its last write to the append-only file failed: it refuses every write");
	check_status(d, "aof_last_bgrewrite_status", SEVERITY_WARNING, "its append-only file could not be rewritten, and grows");
	return 0;
}
