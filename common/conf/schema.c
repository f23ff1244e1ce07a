/*
 * The table of all configuration keys. A new key is a row here, a field in conf.h, and a line in the manual. types.c
 * says what each type accepts; checks that need more than one value are in check.c and its neighbours.
 */
#include <assert.h>
#include <string.h>

#include "common/conf/schema.h"

#include "common/base/base.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define TIB (1024 * 1024 * MIB)
#define COUNT_MAX INT64_C(1000000000000)

static const char *const log_formats[] = { "logfmt", "json", NULL };
static const char *const log_levels[] = { "debug", "info", "warning", "error", NULL };
static const char *const modes[] = { "exec", "persistent", NULL };
static const char *const messages[] = { "bytes", "json", "text", NULL };
static const char *const catch_ups[] = { "one", "none", NULL };
static const char *const inputs[] = { "stdin", "argv", NULL };
static const char *const fences[] = { "finish", "kill", NULL };

#define KEY(name, kind, field, ...) \
	{ .path = name, .type = CONF_TYPE_##kind, .offset = offsetof(OWNER, field), __VA_ARGS__ }
#define RANGE(least, most) .min = (least), .max = (most)

/* The thresholds of health, which stand in both tables: the global ones are the defaults of a queue's own. */
#define THRESHOLDS(ROW) \
	ROW("ingress_max", COUNT, ingress_max, "500", 0, COUNT_MAX) \
	ROW("transit_max", COUNT, transit_max, "100", 0, COUNT_MAX) \
	ROW("dlq_max_warning", COUNT, dlq_max_warning, "100", 0, COUNT_MAX) \
	ROW("dlq_max_critical", COUNT, dlq_max_critical, "1000", 0, COUNT_MAX) \
	ROW("stuck_age", DURATION, stuck_age_ms, "2h", SECOND, 3650 * DAY) \
	ROW("stuck_max_warning", COUNT, stuck_max_warning, "10", 0, COUNT_MAX) \
	ROW("stuck_max_critical", COUNT, stuck_max_critical, "50", 0, COUNT_MAX) \
	ROW("oldest_age_warning", DURATION, oldest_age_warning_ms, "1h", SECOND, 3650 * DAY) \
	ROW("oldest_age_critical", DURATION, oldest_age_critical_ms, "6h", SECOND, 3650 * DAY) \
	ROW("paused_max", DURATION, paused_max_ms, "10m", SECOND, 3650 * DAY) \
	ROW("growth_max", DURATION, growth_max_ms, "15m", MINUTE, 3650 * DAY) \
	ROW("delayed_max", COUNT, delayed_max, "500", 0, COUNT_MAX) \
	ROW("failure_rate_warning", COUNT, failure_rate_warning, "30", 0, 100) \
	ROW("failure_rate_critical", COUNT, failure_rate_critical, "70", 0, 100) \
	ROW("failure_window", DURATION, failure_window_ms, "10m", MINUTE, HOUR) \
	ROW("failure_min", COUNT, failure_min, "10", 1, COUNT_MAX)
#define THRESHOLD(name, kind, field, default, least, most) \
	KEY("health.thresholds." name, kind, health.thresholds.field, .fallback = default, RANGE(least, most)),
#define THRESHOLD_OF_QUEUE(name, kind, field, default, least, most) \
	KEY("health.thresholds." name, kind, health.thresholds.field, RANGE(least, most), \
	    .inherits = "health.thresholds." name),

/* Those of a queue, and those that queues share. */
#define LIMITS \
	KEY("rate", RATE, rate, RANGE(1, 1000000)), \
	KEY("burst", COUNT, burst, .fallback = "1", RANGE(1, 1000000)), \
	KEY("max_in_flight", COUNT, max_in_flight, RANGE(1, 1000000)),

#define OWNER struct conf

static const struct conf_key global_keys[] = {
	KEY("redis.url", STRING, redis.url, .fallback = "redis://127.0.0.1:6379/0", .secret = CONF_SECRET_PART),
	KEY("redis.password_file", STRING, redis.password_file, .secret = CONF_SECRET_FILE),
	KEY("redis.sentinels", STRINGS, redis.sentinels),
	KEY("redis.master", STRING, redis.master),
	KEY("redis.sentinel_user", STRING, redis.sentinel_user),
	KEY("redis.sentinel_password_file", STRING, redis.sentinel_password_file, .secret = CONF_SECRET_FILE),
	KEY("redis.sentinel_tls", BOOL, redis.sentinel_tls, .fallback = "false"),
	KEY("redis.ca_file", STRING, redis.ca_file),
	KEY("redis.ca_dir", PATH, redis.ca_dir),
	KEY("redis.cert_file", STRING, redis.cert_file),
	KEY("redis.key_file", STRING, redis.key_file, .secret = CONF_SECRET_FILE),
	KEY("redis.tls_verify", BOOL, redis.tls_verify, .fallback = "true"),
	KEY("redis.embedded", BOOL, redis.embedded, .fallback = "false"),
	KEY("redis.dir", PATH, redis.dir, .written = CONF_WRITTEN_OWN_DIRECTORY),
	KEY("redis.server", PATH, redis.server, .fallback = CONF_REDIS_SERVER),
	KEY("redis.prefix", STRING, redis.prefix),
	KEY("redis.allow_eviction", BOOL, redis.allow_eviction, .fallback = "false"),

	KEY("supervisor.node", STRING, supervisor.node),
	KEY("supervisor.lock_file", PATH, supervisor.lock_file, .fallback = "/run/quredis/quredisd.lock",
	    .written = CONF_WRITTEN_BY_MASTER),
	KEY("supervisor.control_socket", PATH, supervisor.control_socket, .fallback = "/run/quredis/control.sock",
	    .written = CONF_WRITTEN_BY_MASTER),
	KEY("supervisor.control_group", STRING, supervisor.control_group),
	KEY("supervisor.drain_timeout", DURATION, supervisor.drain_timeout_ms, .fallback = "20s", RANGE(0, 7 * DAY)),
	KEY("supervisor.kill_grace", DURATION, supervisor.kill_grace_ms, .fallback = "5s", RANGE(0, HOUR)),
	KEY("supervisor.lease", DURATION, supervisor.lease_ms, .fallback = "30s", RANGE(SECOND, HOUR)),
	KEY("supervisor.user", STRING, supervisor.as.user),
	KEY("supervisor.core", BOOL, supervisor.core, .fallback = "false"),

	KEY("log.target", STRING, log.target, .fallback = "stderr", .written = CONF_WRITTEN_LOG),
	KEY("log.format", CHOICE, log.format, .fallback = "logfmt", .choices = log_formats),
	KEY("log.level", CHOICE, log.level, .fallback = "info", .choices = log_levels),

	KEY("dead_letter.enabled", BOOL, dead_letter.enabled, .fallback = "true"),
	KEY("dead_letter.ttl", DURATION, dead_letter.ttl_ms, RANGE(SECOND, 3650 * DAY)),
	KEY("dead_letter.max_entries", COUNT, dead_letter.max_entries, RANGE(1, COUNT_MAX)),
	KEY("dead_letter.payload_max", SIZE, dead_letter.payload_max, .fallback = "64K", RANGE(0, 512 * MIB)),
	KEY("dead_letter.archive", PATH, dead_letter.archive, .written = CONF_WRITTEN_DIRECTORY),
	KEY("dead_letter.archive_size", SIZE, dead_letter.archive_size, .fallback = "64M", RANGE(KIB, TIB)),
	KEY("dead_letter.discard", BOOL, dead_letter.discard, .fallback = "false"),
	KEY("dead_letter.forward_to", STRING, dead_letter.forward_to),

	/* without effect while purge.enabled is false */
	KEY("purge.enabled", BOOL, purge.enabled, .fallback = "false"),
	KEY("purge.interval", DURATION, purge.interval_ms, .fallback = "1h", RANGE(SECOND, 30 * DAY)),
	KEY("purge.dry_run", BOOL, purge.dry_run, .fallback = "false"),
	KEY("purge.max_ingress_age", DURATION, purge.max_ingress_age_ms,
	    .fallback = "24h", RANGE(SECOND, 3650 * DAY)),
	KEY("purge.max_transit_age", DURATION, purge.max_transit_age_ms, .fallback = "2h", RANGE(SECOND, 3650 * DAY)),
	KEY("purge.max_done_age", DURATION, purge.max_done_age_ms, .fallback = "1h", RANGE(SECOND, 3650 * DAY)),
	KEY("purge.max_orphaned_age", DURATION, purge.max_orphaned_age_ms,
	    .fallback = "24h", RANGE(SECOND, 3650 * DAY)),
	KEY("purge.max_message_age", DURATION, purge.max_message_age_ms,
	    .fallback = "24h", RANGE(SECOND, 3650 * DAY)),
	KEY("purge.check", STRINGS, purge.check),

	KEY("health.enabled", BOOL, health.enabled, .fallback = "false"),
	KEY("health.interval", DURATION, health.interval_ms, .fallback = "5m", RANGE(SECOND, DAY)),
	KEY("health.on_change", STRINGS, health.on_change),
	THRESHOLDS(THRESHOLD)

	KEY("metrics.statsd", STRING, metrics.statsd),
	KEY("metrics.textfile", PATH, metrics.textfile, .written = CONF_WRITTEN_FILE),
	KEY("metrics.interval", DURATION, metrics.interval_ms, .fallback = "15s", RANGE(SECOND, HOUR)),

	KEY("web.listen", STRING, web.listen, .fallback = "127.0.0.1:7379"),
	KEY("web.token_file", STRING, web.token_file, .secret = CONF_SECRET_FILE),
	KEY("web.read_only", BOOL, web.read_only, .fallback = "false"),
	KEY("web.public_reads", BOOL, web.public_reads, .fallback = "false"),
	KEY("web.behind_proxy", BOOL, web.behind_proxy, .fallback = "false"),
	KEY("web.hosts", STRINGS, web.hosts),
};

#undef OWNER
#define OWNER struct conf_queue

static const struct conf_key queue_keys[] = {
	KEY("name", STRING, name, .flags = CONF_QUEUE_ONLY),
	KEY("ingress", STRING, ingress, .flags = CONF_QUEUE_ONLY),
	KEY("transit", STRING, transit, .flags = CONF_QUEUE_ONLY),
	KEY("escape", STRING, escape, .flags = CONF_QUEUE_ONLY),
	KEY("shared", BOOL, shared, .fallback = "false"),
	KEY("headers", BOOL, headers, .fallback = "true"),

	KEY("handler", STRINGS, handler),
	KEY("function", STRING, function),
	KEY("isolate", BOOL, isolate, .fallback = "false"),
	KEY("message", CHOICE, message, .fallback = "bytes", .choices = messages),
	KEY("interpreter", STRINGS, interpreter),
	KEY("mode", CHOICE, mode, .fallback = "exec", .choices = modes),
	KEY("input", CHOICE, input, .fallback = "stdin", .choices = inputs),
	KEY("ready", BOOL, ready, .fallback = "false"),
	KEY("start_timeout", DURATION, start_timeout_ms, .fallback = "60s", RANGE(1, DAY)),
	KEY("window", INT, window, .fallback = "1", RANGE(1, 1000)),
	KEY("reply_fd", INT, reply_fd, RANGE(3, 9)),
	KEY("env", STRINGS, env, .secret = CONF_SECRET_VALUES),
	KEY("timeout", DURATION, timeout_ms, .fallback = "5m", RANGE(1, 365 * DAY)),
	KEY("max_duration", DURATION, max_duration_ms, RANGE(1, 365 * DAY)),
	KEY("kill_grace", DURATION, kill_grace_ms, RANGE(0, HOUR), .inherits = "supervisor.kill_grace"),
	KEY("fence", CHOICE, fence, .fallback = "finish", .choices = fences),

	KEY("message_max", SIZE, message_max, .fallback = "8M", RANGE(KIB, 512 * MIB)),
	KEY("workers", INT, workers, .fallback = "1", RANGE(0, CONF_WORKERS_MAX)),
	KEY("batch.max", INT, batch.max, .fallback = "64", RANGE(1, 1000)),
	KEY("batch.time", DURATION, batch.time_ms, .fallback = "20ms", RANGE(1, HOUR)),
	KEY("recycle.jobs", COUNT, recycle.jobs, RANGE(1, COUNT_MAX)),
	KEY("recycle.rss", SIZE, recycle.rss, RANGE(MIB, 64 * TIB)),
	KEY("recycle.age", DURATION, recycle.age_ms, RANGE(SECOND, 365 * DAY)),

	KEY("max_attempts", INT, max_attempts, .fallback = "1", RANGE(1, 1000000)),
	KEY("backoff.base", DURATION, backoff.base_ms, .fallback = "1s", RANGE(1, 30 * DAY)),
	KEY("backoff.factor", FLOAT, backoff.factor, .fallback = "2.0", RANGE(1, 100)),
	KEY("backoff.cap", DURATION, backoff.cap_ms, .fallback = "5m", RANGE(1, 30 * DAY)),
	KEY("backoff.jitter", FLOAT, backoff.jitter, .fallback = "0.2", RANGE(0, 1)),
	KEY("exit_codes", CODES, exit_codes, .fallback = "{ done = [0]; retry = [75]; escape = [65]; fail = []; }"),
	KEY("breaker.failures", INT, breaker.failures, .fallback = "0", RANGE(0, 64)),
	KEY("recovery_attempts", INT, recovery_attempts, .fallback = "1", RANGE(0, 1000)),

	LIMITS
	KEY("throttle", STRING, throttle),

	KEY("emit.queues", STRINGS, emit.queues),
	KEY("emit.max", INT, emit.max, .fallback = "1000", RANGE(1, CONF_EMIT_MAX)),
	KEY("emit.max_bytes", SIZE, emit.max_bytes, .fallback = "16M", RANGE(KIB, CONF_EMIT_BYTES_MAX)),
	KEY("emit.max_depth", INT, emit.max_depth, .fallback = "16", RANGE(1, 1000000)),

	KEY("ttl", DURATION, ttl_ms, RANGE(SECOND, 3650 * DAY)),
	KEY("done.keep", COUNT, done.keep, RANGE(1, COUNT_MAX)),
	KEY("done.max_age", DURATION, done.max_age_ms, .fallback = "1h", RANGE(SECOND, 3650 * DAY)),
	KEY("done.payload", SIZE, done.payload, .fallback = "0", RANGE(0, 512 * MIB)),

	KEY("dead_letter.enabled", BOOL, dead_letter.enabled, .inherits = "dead_letter.enabled"),
	KEY("dead_letter.ttl", DURATION, dead_letter.ttl_ms, RANGE(SECOND, 3650 * DAY),
	    .inherits = "dead_letter.ttl"),
	KEY("dead_letter.max_entries", COUNT, dead_letter.max_entries, RANGE(1, COUNT_MAX),
	    .inherits = "dead_letter.max_entries"),
	KEY("dead_letter.payload_max", SIZE, dead_letter.payload_max, RANGE(0, 512 * MIB),
	    .inherits = "dead_letter.payload_max"),
	KEY("dead_letter.archive", PATH, dead_letter.archive, .written = CONF_WRITTEN_DIRECTORY,
	    .inherits = "dead_letter.archive"),
	KEY("dead_letter.archive_size", SIZE, dead_letter.archive_size, RANGE(KIB, TIB),
	    .inherits = "dead_letter.archive_size"),
	KEY("dead_letter.discard", BOOL, dead_letter.discard, .inherits = "dead_letter.discard"),
	KEY("dead_letter.forward_to", STRING, dead_letter.forward_to, .inherits = "dead_letter.forward_to"),

	KEY("purge.max_ingress_age", DURATION, purge.max_ingress_age_ms, RANGE(SECOND, 3650 * DAY),
	    .inherits = "purge.max_ingress_age"),
	KEY("purge.max_transit_age", DURATION, purge.max_transit_age_ms, RANGE(SECOND, 3650 * DAY),
	    .inherits = "purge.max_transit_age"),
	KEY("purge.max_done_age", DURATION, purge.max_done_age_ms, RANGE(SECOND, 3650 * DAY),
	    .inherits = "purge.max_done_age"),
	KEY("purge.max_orphaned_age", DURATION, purge.max_orphaned_age_ms, RANGE(SECOND, 3650 * DAY),
	    .inherits = "purge.max_orphaned_age"),
	KEY("purge.max_message_age", DURATION, purge.max_message_age_ms, RANGE(SECOND, 3650 * DAY),
	    .inherits = "purge.max_message_age"),
	KEY("purge.check", STRINGS, purge.check, .inherits = "purge.check"),

	KEY("health.on_change", STRINGS, health.on_change, .inherits = "health.on_change"),
	THRESHOLDS(THRESHOLD_OF_QUEUE)

	KEY("run_as.user", STRING, run_as.user),
	KEY("run_as.group", STRING, run_as.group),
	KEY("run_as.directory", PATH, run_as.directory),
	KEY("run_as.umask", OCTAL, run_as.umask, .fallback = "077", RANGE(0, 0777)),
	KEY("run_as.nice", INT, run_as.nice, .fallback = "0", RANGE(-20, 19)),
	KEY("run_as.no_new_privs", BOOL, run_as.no_new_privs, .fallback = "true"),

	KEY("limits.memory", SIZE, limits.memory, RANGE(MIB, 64 * TIB)),
	KEY("limits.open_files", COUNT, limits.open_files, RANGE(4, 1 << 30)),
	KEY("limits.processes", COUNT, limits.processes, RANGE(1, 1 << 30)),
	KEY("limits.cpu", DURATION, limits.cpu_ms, RANGE(SECOND, 365 * DAY)),
	KEY("limits.file_size", SIZE, limits.file_size, RANGE(0, 1024 * TIB)),
	KEY("limits.oom_score_adj", INT, limits.oom_score_adj, RANGE(-1000, 1000),
	    .set_offset = offsetof(struct conf_queue, limits.oom_score_adj_set)),
	KEY("stderr_tail", SIZE, stderr_tail, .fallback = "8K", RANGE(0, MIB)),
};

#undef OWNER
#define OWNER struct conf_schedule

static const struct conf_key schedule_keys[] = {
	KEY("name", STRING, name),
	KEY("queue", STRING, queue),
	KEY("cron", STRING, cron),
	KEY("every", DURATION, times.every_ms, RANGE(SECOND, 365 * DAY)),
	KEY("timezone", STRING, timezone, .fallback = "UTC"),
	KEY("message", STRING, message),
	KEY("catch_up", CHOICE, catch_up, .fallback = "one", .choices = catch_ups),
	KEY("overlap", BOOL, overlap, .fallback = "true"),
};

#undef OWNER
#define OWNER struct conf_throttle

static const struct conf_key throttle_keys[] = {
	KEY("name", STRING, name),
	LIMITS
};

const struct conf_schema conf_schema_throttle = { "throttle.", throttle_keys, nitems(throttle_keys) };
const struct conf_schema conf_schema_schedule = { "schedule.", schedule_keys, nitems(schedule_keys) };
const struct conf_schema conf_schema_global = { "", global_keys, nitems(global_keys) };
const struct conf_schema conf_schema_queue = { "queue.", queue_keys, nitems(queue_keys) };

const struct conf_key *conf_key_find(const struct conf_schema *schema, const char *path)
{
	for (size_t i = 0; i < schema->n; i++)
		if (strcmp(schema->keys[i].path, path) == 0)
			return &schema->keys[i];
	return NULL;
}

size_t conf_key_index(const struct conf_schema *schema, const char *path)
{
	const struct conf_key *key = conf_key_find(schema, path);

	assert(key != NULL);
	return (size_t)(key - schema->keys);
}

bool conf_key_is_group(const struct conf_schema *schema, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < schema->n; i++)
		if (strncmp(schema->keys[i].path, path, len) == 0 && schema->keys[i].path[len] == '.')
			return true;
	return false;
}
