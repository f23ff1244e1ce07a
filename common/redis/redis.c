/*
 * A connection to Redis that never blocks, on hiredis 0.14 or 1.x: connect, write, poll, read. The opening is a
 * pipeline of its own; its answers never reach the caller. command.c formats commands, output.c sends them, input.c
 * reads bytes, reply.c reads answers, and wait.c waits for them. With TLS (tls.h) hiredis still connects the socket and
 * parses the answers, but only tls.c reads and writes the socket.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <hiredis/hiredis.h>

#include "common/redis/redis.h"

#include "common/base/base.h"
#include "common/redis/greeting.h"
#include "common/redis/input.h"
#include "common/redis/peer.h"
#include "common/redis/reply.h"
#include "common/redis/resolve.h"
#include "common/redis/tls.h"

/* Limits that no honest server comes near. A server can make us keep about 15 bytes for each byte that it sends. */
#define ANSWER_MAX (INT64_C(4) << 30)		/* bytes of one answer */
#define OPENING_MAX (INT64_C(1) << 20)		/* bytes of all answers of an opening */
/* for the resolver, if an earlier connection has left an address of the host */
#define RECALL_MS 500
#define OPENING_MS 60000			/* of a whole opening, however often the server shows a sign of life */

void redis_init(struct redis *r, const struct redis_target *target, const char *name)
{
	*r = (struct redis){ .target = target, .name = name };
}

static void drop_last(struct redis *r)
{
	if (r->last != NULL)
		redis_input_free(r->last);
	r->last = NULL;
}

/* good: the connection to where the name led could be opened. */
static void end_lookup(struct redis *r, bool good)
{
	if (r->lookup != NULL && r->context != NULL)
		resolve_note(r->lookup, r->numeric, good);
	if (r->lookup != NULL)
		resolve_end(r->lookup);
	r->lookup = NULL;
}

void redis_close(struct redis *r, const char *why)
{
	if (why != NULL) {
		strlcpy(r->error, why, sizeof(r->error));
		r->error_why = 0;
		r->error_class = REDIS_ERROR_LOST;
	}
	r->closed_by_peer = false;
	drop_last(r);
	end_lookup(r, false);
	tls_close(r->tls);
	r->tls = NULL;
	free(r->asking);
	r->asking = NULL;
	if (r->context != NULL)
		redisFree(r->context);
	r->context = NULL;
	r->state = REDIS_CLOSED;
	r->pending = r->greetings_sent = r->greetings_taken = r->greeting_last = r->greeting_role = 0;
	r->is_replica = false;
	r->deadline_ms = 0;
}

int redis_fail(struct redis *r, const char *why, enum redis_error_class class)
{
	char text[sizeof(r->error)];
	size_t at;

	redis_describe_peer(r, text, sizeof(text));
	at = strlcat(text, ": ", sizeof(text));
	strlcat(text, why, sizeof(text));
	if (r->state == REDIS_OPENING)
		route_failed(&r->route, r->target, why);
	redis_close(r, text);
	r->error_class = class;
	r->error_why = at;
	return -1;
}

void redis_refuse(struct redis *r, const struct redis_reply *reply)
{
	bool is_error = reply->type == REDIS_ERROR;
	enum redis_error_class class = is_error ? redis_error_class(reply) : REDIS_ERROR_UNKNOWN;

	redis_close(r, is_error ? reply->str : "unexpected reply type from Redis");
	r->error_class = class;
}

const char *redis_why(const struct redis *r)
{
	return r->error + r->error_why;
}

int redis_fail_late(struct redis *r)
{
	const char *guess = r->tls == NULL ? NULL : tls_silence(r->tls);

	return redis_fail(r, guess == NULL ? "no answer in time" : guess, REDIS_ERROR_LOST);
}

static int fail_io(struct redis *r)
{
	bool closed = redis_closed_by_peer(r, errno);
	char text[256];			/* redis_fail() frees the original */

	redis_describe_error(r, closed, text, sizeof(text));
	redis_fail(r, text, REDIS_ERROR_LOST);
	r->closed_by_peer = closed;
	return -1;
}

/*
 * Every connection passes through here, so none is opened without the settings of its target: a rediss:// address
 * without a context fails, and nothing is ever sent in plain text instead.
 */
static int start_tls(struct redis *r)
{
	const char *why =
	    "TLS is not set up: the files of redis.ca_file, redis.cert_file or redis.key_file could not be read";
	int port;

	if (!redis_wants_tls(r))
		return 0;
	if (r->target->tls_context != NULL)
		r->tls = tls_open(r->target->tls_context, r->context->fd, route_host(&r->route, r->target, &port),
		    &why);
	return r->tls == NULL ? redis_fail(r, why, REDIS_ERROR_LOST) : 0;
}

/* host: a numeric address; NULL: the path of the target. */
static int connect_to(struct redis *r, const char *host, int port, int64_t now_ms)
{
	r->context = host == NULL ? redisConnectUnixNonBlock(r->target->unix_path) : redisConnectNonBlock(host, port);
	if (r->context == NULL)
		return redis_fail(r, "out of memory", REDIS_ERROR_LOST);
	if (r->context->err != 0)
		return fail_io(r);
	redis_set_socket_options(r);
	redis_input_prepare(r->context->reader);
	if (start_tls(r) == -1)
		return -1;
	r->received = 0;
	r->input = r->progress = 0;
	r->output = (struct redis_output){ .tls = r->tls };
	r->client_id = 0;
	r->open_by_ms = now_ms + OPENING_MS;
	r->deadline_ms = r->last_due_ms = now_ms + (r->route.asks ? REDIS_SENTINEL_TIMEOUT_MS : REDIS_TIMEOUT_MS);
	greeting_append(r);
	return 0;
}

/* The next server of several may have a name that resolves sooner. A lookup goes on meanwhile, for the next attempt. */
static int64_t resolve_ms(const struct redis *r)
{
	if (r->target->naddresses <= 1 && !r->brief)
		return OPENING_MS;
	return r->route.asks ? REDIS_SENTINEL_TIMEOUT_MS : REDIS_TIMEOUT_MS;
}

/*
 * Connects as soon as the host has an address. The time for that is no silence of the server, which has its own
 * afterwards. The resolver comes first, since a name may lead elsewhere than before; but while it cannot tell, the
 * address of the last good connection is tried.
 */
static int proceed_lookup(struct redis *r, int64_t now_ms)
{
	const char *why = "the host name is still being resolved";
	bool denied = false;
	int rc = resolve_take(r->lookup, r->numeric, &why, &denied), port;

	if ((rc == -1 && !denied) || (rc == 0 && now_ms >= r->recall_ms))
		rc = resolve_recall(r->lookup, r->numeric) ? 1 : rc;
	if (rc == 0 && now_ms >= r->recall_ms)
		/* it was shared when the lookup began, and another name has taken its place */
		r->deadline_ms = r->open_by_ms;
	if (rc == 1) {
		route_socket(&r->route, r->target, &port);
		return connect_to(r, r->numeric, port, now_ms);
	}
	if (rc == -1 || now_ms > r->open_by_ms)
		return redis_fail(r, why, REDIS_ERROR_LOST);
	return 0;
}

static int begin_lookup(struct redis *r, const char *host, int64_t now_ms)
{
	r->lookup = resolve_begin(host, now_ms);
	if (r->lookup == NULL)
		return redis_fail(r, strerror(errno), REDIS_ERROR_LOST);
	r->recall_ms = now_ms + RECALL_MS;
	r->open_by_ms = now_ms + resolve_ms(r);
	r->deadline_ms = resolve_recall(r->lookup, r->numeric) ? r->recall_ms : r->open_by_ms;
	return proceed_lookup(r, now_ms);
}

/* Connects to where the route leads. */
static int open_context(struct redis *r, int64_t now_ms)
{
	const struct redis_target *t = r->target;
	const char *host;
	int port;

	r->state = REDIS_OPENING;
	if (t->unix_path != NULL)
		return connect_to(r, NULL, 0, now_ms);
	host = route_socket(&r->route, t, &port);
	return resolve_is_numeric(host) ? connect_to(r, host, port, now_ms) : begin_lookup(r, host, now_ms);
}

int redis_open(struct redis *r, int64_t now_ms)
{
	assert(r->state == REDIS_CLOSED);
	route_begin(&r->route, r->target);
	return open_context(r, now_ms);
}

int redis_open_beside(struct redis *r, const struct redis *other, int64_t now_ms)
{
	assert(r->state == REDIS_CLOSED && r->target == other->target);
	if (other->state != REDIS_READY ||
	    (r->target->unix_path == NULL && !route_beside(&r->route, &other->route, other->context->fd)))
		return redis_fail(r, "the connection beside it has ended", REDIS_ERROR_LOST);
	return open_context(r, now_ms);
}

void redis_expect_by(struct redis *r, int64_t at_ms)
{
	if (r->deadline_ms == 0)
		r->deadline_ms = r->last_due_ms = at_ms;
	else if (at_ms > r->last_due_ms)
		r->last_due_ms = at_ms;
}

bool redis_resolves(const struct redis *r)
{
	return r->state == REDIS_OPENING && r->context == NULL;
}

bool redis_pollfd(const struct redis *r, struct pollfd *p)
{
	bool output;

	if (redis_resolves(r)) {
		*p = (struct pollfd){ .fd = resolve_fd(r->lookup), .events = POLLIN };
		return true;
	}
	if (r->context == NULL)
		return false;
	output = redis_output_left(r->context, &r->output) > 0;
	p->fd = r->context->fd;
	p->events = r->tls != NULL ? tls_events(r->tls, output) : output ? POLLIN | POLLOUT : POLLIN;
	p->revents = 0;
	return true;
}

static int64_t unread(const struct redis *r)
{
	return (int64_t)(r->context->reader->len - r->context->reader->pos);
}

/* A Sentinel has named the master, or a node of a Cluster another node. */
static int open_named(struct redis *r, int64_t now_ms)
{
	end_lookup(r, true);
	redis_close(r, NULL);
	return r->finds_master ? 0 : open_context(r, now_ms);
}

static int take_greetings(struct redis *r, int64_t now_ms)
{
	bool asked = r->route.asks;

	while (r->greetings_taken < r->greetings_sent) {
		void *reply = NULL;
		int rc;

		if (redisGetReplyFromReader(r->context, &reply) != REDIS_OK)
			return fail_io(r);
		if (reply == NULL)
			return 0;
		rc = greeting_take(r, reply);
		redis_input_free(reply);
		if (rc == -1)
			return -1;
		if (rc == 1)
			return open_named(r, now_ms);
	}
	if (asked && !r->stays)
		return open_named(r, now_ms);
	r->state = REDIS_READY;
	end_lookup(r, true);
	r->deadline_ms = 0;
	r->received = unread(r);
	r->connection++;
	return 0;
}

int redis_flush(struct redis *r)
{
	if (r->state == REDIS_CLOSED)
		return -1;
	if (redis_resolves(r))
		return 0;
	/* hiredis lacked memory for a command: answers would be taken for those to other commands. */
	if (r->context->err != 0)
		return fail_io(r);
	if (r->tls != NULL && !tls_ready(r->tls))
		return 0;
	if (redis_output_left(r->context, &r->output) > 0 && redis_output_write(r->context, &r->output) == -1)
		return fail_io(r);
	return 0;
}

/* Taken for the answer to the next command, it would state about one message what is true of another. */
static int fail_surplus(struct redis *r)
{
	return redis_fail(r, "an answer to nothing that was asked", REDIS_ERROR_LOST);
}

/*
 * The time for an answer begins anew with each sign of life: a message of any size gets through a slow link, and a
 * peer that hangs is detected, whatever we send meanwhile. Bytes that have just arrived were in time: our poll may
 * have been late, not the answer. Bytes of a large command that the kernel holds move when the peer acknowledges them.
 */
static bool in_time(struct redis *r, int64_t now_ms)
{
	uint64_t before = r->progress;

	r->progress = r->input + r->output.drained;
	if (r->deadline_ms == 0 || (r->pending == 0 && r->state != REDIS_OPENING))
		return true;
	if (r->progress != before || (now_ms > r->deadline_ms && redis_output_drains(r->context, &r->output))) {
		redis_expect_by(r, now_ms + REDIS_TIMEOUT_MS);
		r->deadline_ms = r->last_due_ms;
	}
	return now_ms <= r->deadline_ms && (r->state == REDIS_READY || now_ms <= r->open_by_ms);
}

/* Reads what has arrived. -1: closed, error set. */
static int receive_input(struct redis *r)
{
	size_t before = r->context->reader->len, received;

	if (redis_input_read(r->context, r->tls, r->state == REDIS_READY) == -1)
		return fail_io(r);
	received = r->context->reader->len - before;
	r->received += (int64_t)received;
	r->input = r->tls != NULL ? tls_received(r->tls) : r->input + received;
	return 0;
}

/* The TLS handshake, before any command is sent. 1: done, or there is none; 0: not yet; -1: closed, error set. */
static int proceed_handshake(struct redis *r)
{
	int rc = r->tls == NULL || tls_ready(r->tls) ? 1 : tls_handshake(r->tls);

	if (rc == -1)
		return fail_io(r);
	if (rc == 0)
		r->input = tls_received(r->tls);
	return rc;
}

static int pump_connection(struct redis *r, int64_t now_ms)
{
	int rc = r->state == REDIS_CLOSED ? -1 : proceed_handshake(r);

	if (rc == 1 && (redis_flush(r) == -1 || receive_input(r) == -1))
		return -1;
	if (rc == -1)
		return -1;
	if (r->received > (r->state == REDIS_OPENING ? OPENING_MAX : ANSWER_MAX))
		return redis_fail(r, "an answer too large", REDIS_ERROR_LOST);
	if (r->state == REDIS_OPENING && take_greetings(r, now_ms) == -1)
		return -1;
	if (r->state == REDIS_READY && r->pending == 0 && unread(r) > 0)
		return fail_surplus(r);
	if (!in_time(r, now_ms))
		return redis_fail_late(r);
	return 0;
}

int redis_pump(struct redis *r, int64_t now_ms)
{
	return redis_resolves(r) ? proceed_lookup(r, now_ms) : pump_connection(r, now_ms);
}

int redis_take(struct redis *r, struct redis_reply *reply)
{
	void *next = NULL;

	if (r->state == REDIS_CLOSED)
		return -1;
	if (r->state == REDIS_OPENING || r->pending == 0)
		return 0;
	drop_last(r);
	if (redisGetReplyFromReader(r->context, &next) != REDIS_OK)
		return fail_io(r);
	if (next == NULL)
		return 0;
	r->last = next;
	r->received = unread(r);
	if (--r->pending == 0) {
		r->deadline_ms = 0;
		r->output.queued = 0;
		if (unread(r) > 0)
			return fail_surplus(r);
	}
	*reply = redis_reply_view(next);
	if (reply->type == REDIS_ERROR)
		route_heed(&r->route, r->target, reply->str);
	return 1;
}
