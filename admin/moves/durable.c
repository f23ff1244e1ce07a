/*
 * quredis push --wait. WAIT and WAITAOF answer for what their own connection wrote before, so all commands here run on
 * the connection of the push. They are tried before the push: a server that cannot confirm gets no message, since a
 * message that was pushed cannot be taken back.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/moves/durable.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define TIMEOUT_MS 10000	/* appendfsync everysec takes a second or two; a slow disk takes longer */

static int64_t replicas_wanted(const struct admin *a)
{
	return a->options.wait;
}

static int64_t timeout_of(const struct admin *a)
{
	return a->options.wait_timeout_ms < 0 ? TIMEOUT_MS : a->options.wait_timeout_ms;
}

/* The next answer; error replies are answers, too. -1: the connection is lost. */
static int take_reply(struct admin *a, struct redis_reply *reply, int64_t may_block_ms)
{
	return redis_wait(&a->redis, reply, ADMIN_WRITE_TIMEOUT_MS + may_block_ms, NULL);
}

/* Into an identity that is all zero. -1: the connection is lost. */
static int read_identity(struct admin *a, struct redis_identity *id)
{
	struct redis_reply reply;

	queue_identity(&a->redis);
	for (int i = 0; i < QUEUE_IDENTITY_INFOS; i++) {	/* some servers refuse INFO */
		if (take_reply(a, &reply, 0) == -1)
			return -1;
		if (reply.type == REDIS_STRING)
			redis_identity_read(id, reply.str, reply.len);
	}
	return 0;
}

static bool is_pair(const struct redis_reply *reply, const char *second)
{
	return redis_is_strings(reply) && reply->n == 2 && strcmp(redis_element(reply, 1).str, second) == 0;
}

/*
 * always: appendonly yes and appendfsync always. Some servers refuse CONFIG: then it is not known, which is no, and
 * unknown says why; NULL: it is known. -1: the connection is lost.
 */
static int read_always(struct admin *a, bool *always, const char **unknown)
{
	struct redis_reply reply;
	bool on, each;

	redis_appendf(&a->redis, "CONFIG GET appendonly");
	redis_appendf(&a->redis, "CONFIG GET appendfsync");
	if (take_reply(a, &reply, 0) == -1)
		return -1;
	on = is_pair(&reply, "yes");
	if (take_reply(a, &reply, 0) == -1)
		return -1;
	each = is_pair(&reply, "always");
	*unknown = reply.type != REDIS_ERROR ? NULL : "it refuses CONFIG, so appendfsync cannot be read";
	if (redis_error_class(&reply) == REDIS_ERROR_PERMISSION)
		*unknown =
		    "this Redis user lacks CONFIG GET, so appendfsync cannot be read: ACL SETUSER USER +config|get";
	*always = on && each;
	return 0;
}

static bool is_two_counts(const struct redis_reply *reply)
{
	return reply->type == REDIS_ARRAY && reply->n == 2 && redis_element(reply, 0).type == REDIS_INTEGER &&
	    redis_element(reply, 1).type == REDIS_INTEGER;
}

/* ---- before the push ---- */

static int fail_disconnected(struct admin *a)
{
	return admin_fail(a, EX_UNAVAILABLE, "nothing was pushed: Redis: %s", a->redis.error);
}

/* A server that cannot confirm: the operator has to change it, or its rights. */
static int cannot_confirm(struct admin *a, bool permission, const char *what)
{
	return admin_fail(a, permission ? EX_NOPERM : EX_CONFIG, "nothing was pushed: %s", what);
}

/* unknown NULL: CONFIG says that appendfsync is not always, or that appendonly is no. */
static int refuse_disk(struct admin *a, bool permission, const char *error, const char *unknown)
{
	char *text = alloc_format("Redis cannot confirm that a message is on its disk: WAITAOF: %s%s%s. --wait needs "
	    "appendonly yes and Redis 7.2, or appendonly yes and appendfsync always; --wait=N waits for N replicas "
	    "only", error, unknown == NULL ? "" : "; and ", unknown == NULL ? "" : unknown);
	int rc = cannot_confirm(a, permission, text);

	free(text);
	return rc;
}

/* Asks WAITAOF with the shortest timeout, so only an error is of interest. */
static int try_disk(struct admin *a, struct durable *d)
{
	struct redis_reply reply;
	const char *unknown;
	char *error;
	bool permission;
	int rc = 0;

	redis_appendf(&a->redis, "WAITAOF 1 0 1");
	if (take_reply(a, &reply, 0) == -1)
		return fail_disconnected(a);
	d->waitaof = is_two_counts(&reply);
	if (d->waitaof)
		return 0;
	permission = redis_error_class(&reply) == REDIS_ERROR_PERMISSION;
	error = reply.type == REDIS_ERROR ? visible(reply.str, reply.len, 200) : alloc_string("unexpected reply");
	if (read_always(a, &d->always, &unknown) == -1)
		rc = fail_disconnected(a);
	else if (!d->always && replicas_wanted(a) == 0)
		rc = refuse_disk(a, permission, error, unknown);
	free(error);
	return rc;
}

/* WAIT in advance: a replica that does not answer now would not confirm the push either. */
static int try_replicas(struct admin *a)
{
	struct redis_reply reply;
	char took[UNITS_SIZE], *text, *error;
	bool permission;
	int rc;

	if (replicas_wanted(a) == 0)
		return 0;
	redis_appendf(&a->redis, "WAIT %d %d", replicas_wanted(a), timeout_of(a));
	if (take_reply(a, &reply, timeout_of(a)) == -1)
		return fail_disconnected(a);
	if (reply.type == REDIS_INTEGER && reply.integer >= replicas_wanted(a))
		return 0;
	if (reply.type == REDIS_INTEGER)
		return admin_fail(a, EX_UNAVAILABLE,
		    "nothing was pushed: %" PRId64 " of %" PRId64 " replicas answered within %s", reply.integer,
		    replicas_wanted(a), units_format_duration(timeout_of(a), took));
	permission = redis_error_class(&reply) == REDIS_ERROR_PERMISSION;
	error = reply.type == REDIS_ERROR ? visible(reply.str, reply.len, 200) : alloc_string("unexpected reply");
	text = alloc_format("Redis cannot confirm that replicas have a message: WAIT: %s", error);
	rc = cannot_confirm(a, permission, text);
	free(text);
	free(error);
	return rc;
}

int durable_prepare(struct admin *a, struct durable *d)
{
	if (try_disk(a, d) == -1 || try_replicas(a) == -1)
		return -1;
	return read_identity(a, &d->server) == -1 ? fail_disconnected(a) : 0;
}

/* ---- after it ---- */

static int add_error(const struct redis_reply *reply, const char *command, struct buffer *why)
{
	char *error = reply->type == REDIS_ERROR ? visible(reply->str, reply->len, 200)
	    : alloc_string("unexpected reply");

	buffer_format(why, "%s: %s", command, error);
	free(error);
	return -1;
}

static int add_disconnected(const struct admin *a, struct buffer *why)
{
	buffer_format(why, "Redis: %s", a->redis.error);
	return -1;
}

static int ask_counts(struct admin *a, struct durable *d, struct buffer *why)
{
	struct outcome_durability *r = &d->reached;
	struct redis_reply reply;

	if (!d->waitaof && replicas_wanted(a) == 0)
		return 0;
	if (d->waitaof)
		redis_appendf(&a->redis, "WAITAOF 1 %d %d", replicas_wanted(a), timeout_of(a));
	else
		redis_appendf(&a->redis, "WAIT %d %d", replicas_wanted(a), timeout_of(a));
	if (take_reply(a, &reply, timeout_of(a)) == -1)
		return add_disconnected(a, why);
	if (d->waitaof ? !is_two_counts(&reply) : reply.type != REDIS_INTEGER)
		return add_error(&reply, d->waitaof ? "WAITAOF" : "WAIT", why);
	r->on_disk = d->waitaof && redis_element(&reply, 0).integer >= 1;
	r->replicas = d->waitaof ? redis_element(&reply, 1).integer : reply.integer;
	r->replicas_on_disk = d->waitaof;
	return 0;
}

/* A server that was a replica in between has thrown away what it had. Its clients stay connected, and the counts are
 * those of later data. */
static int check_server(struct admin *a, const struct durable *d, struct buffer *why)
{
	struct redis_identity now = {0};

	if (read_identity(a, &now) == -1)
		return add_disconnected(a, why);
	if (redis_identity_known(&d->server) && !redis_identity_same(&d->server, &now)) {
		buffer_format(why, "INFO shows another run_id or master_replid than before the first push: Redis "
		    "restarted, a failover, or its first replica");
		return -1;
	}
	return 0;
}

static int check_counts(const struct admin *a, const struct durable *d, struct buffer *why)
{
	const struct outcome_durability *r = &d->reached;
	bool disk = r->on_disk || !d->waitaof, replicas = r->replicas >= replicas_wanted(a);
	char took[UNITS_SIZE];

	if (disk && replicas)
		return 0;
	if (!disk)
		buffer_format(why, "Redis has not synced its append-only file");
	if (!replicas)
		buffer_format(why, "%s%" PRId64 " of %" PRId64 " replicas have it %s", disk ? "" : ", and ",
		    r->replicas, replicas_wanted(a),
		    r->replicas_on_disk ? "on disk (one without appendonly yes never has)" : "in memory");
	buffer_format(why, ", after %s", units_format_duration(timeout_of(a), took));
	return -1;
}

int durable_wait(struct admin *a, struct durable *d, struct buffer *why)
{
	const char *unknown;

	if (ask_counts(a, d, why) == -1)
		return -1;
	if (d->always && read_always(a, &d->reached.on_disk, &unknown) == -1)
		return add_disconnected(a, why);
	if (d->always && !d->reached.on_disk) {
		buffer_format(why, "appendfsync is no longer always");
		return -1;
	}
	if (check_server(a, d, why) == -1 || check_counts(a, d, why) == -1)
		return -1;
	d->reached.confirmed = true;
	return 0;
}
