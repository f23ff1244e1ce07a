/*
 * One non-blocking connection on hiredis 0.14: write, poll, read. Opening is a pipeline of its own whose
 * answers never reach the caller. What the commands mean is the queue's business; how they are put into bytes is
 * redis/command.c's, what an answer says redis/reply.c's, and waiting for it redis/wait.c's.
 */
#include <sys/socket.h>

#include <assert.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <hiredis/hiredis.h>

#include "common/redis/redis.h"

#include "common/redis/reply.h"

enum greeting { GREETING_AUTH, GREETING_SELECT, GREETING_NAME, GREETING_ID, GREETING_ROLE, GREETING_MORE };

/* What no honest server comes near to. A server can make us keep some 15 bytes for each that it sends. */
#define ELEMENTS_MAX (1 << 20)			/* of one array: their places are allocated when their number is said */
#define ANSWER_MAX (INT64_C(4) << 30)		/* bytes of one answer */

void redis_init(struct redis *r, const struct redis_target *target, const char *name)
{
	*r = (struct redis){ .target = target, .name = name };
}

static void drop_last(struct redis *r)
{
	if (r->last != NULL)
		freeReplyObject(r->last);
	r->last = NULL;
}

void redis_close(struct redis *r, const char *why)
{
	if (why != NULL)
		strlcpy(r->error, why, sizeof(r->error));
	drop_last(r);
	if (r->context != NULL)
		redisFree(r->context);
	r->context = NULL;
	r->state = REDIS_CLOSED;
	r->pending = r->greetings_sent = r->greetings_taken = 0;
	r->deadline_ms = 0;
}

int redis_fail(struct redis *r, const char *why, enum redis_error_class class)
{
	char text[sizeof(r->error)];

	snprintf(text, sizeof(text), "%s: %s", r->target->shown, why);
	r->error_class = class;
	redis_close(r, text);
	return -1;
}

static int fail_io(struct redis *r)
{
	const char *why = r->context->reader->err == REDIS_ERR_OOM ? "an answer too large" : r->context->errstr;

	/* The text goes with the context, so it is copied first. */
	char text[sizeof(r->context->errstr)];
	strlcpy(text, why[0] != '\0' ? why : "connection lost", sizeof(text));
	return redis_fail(r, text, REDIS_ERROR_TRANSIENT);
}

static void set_socket_options(const struct redis *r)
{
	int fd = r->context->fd, on = 1, idle = 15, interval = 5, count = 3, user_timeout = 20000;

	fcntl(fd, F_SETFD, FD_CLOEXEC);		/* hiredis does not: a handler would hold our connection */
	if (r->target->unix_path != NULL)
		return;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof(user_timeout));
}

#if HIREDIS_MAJOR >= 1
typedef size_t elements;
#define TASK_OF(reader) ((reader)->task[(reader)->ridx])
#else
typedef int elements;
#define TASK_OF(reader) (&(reader)->rstack[(reader)->ridx])
#endif

/* hiredis' own, but for arrays; the same for every connection. */
static redisReplyObjectFunctions objects;
static void *(*create_array)(const redisReadTask *task, elements n);

static void *create_array_in_bounds(const redisReadTask *task, elements n)
{
	return n > ELEMENTS_MAX ? NULL : create_array(task, n);
}

static void set_bounds(redisReader *reader)
{
	if (create_array == NULL) {
		objects = *reader->fn;
		create_array = objects.createArray;
		objects.createArray = create_array_in_bounds;
	}
	reader->fn = &objects;
}

static void greet_with(struct redis *r, enum greeting g)
{
	r->greetings[r->greetings_sent++] = (uint8_t)g;
}

static void append_greetings(struct redis *r)
{
	const struct redis_target *t = r->target;

	if (t->password != NULL) {
		if (t->user != NULL)
			redis_appendf(r, "AUTH %s %s", t->user, t->password);
		else
			redis_appendf(r, "AUTH %s", t->password);
		greet_with(r, GREETING_AUTH);
	}
	if (t->db != 0) {
		redis_appendf(r, "SELECT %d", (int64_t)t->db);
		greet_with(r, GREETING_SELECT);
	}
	if (r->name != NULL) {
		redis_appendf(r, "CLIENT SETNAME %s", r->name);
		greet_with(r, GREETING_NAME);
	}
	redis_appendf(r, "CLIENT ID");
	greet_with(r, GREETING_ID);
	redis_appendf(r, "ROLE");
	greet_with(r, GREETING_ROLE);
	r->pending = 0;
	if (r->greet != NULL)
		r->greet(r);
	r->greetings_sent += r->pending;
	r->pending = 0;
}

int redis_open(struct redis *r, int64_t now_ms)
{
	const struct redis_target *t = r->target;

	assert(r->state == REDIS_CLOSED);
	r->context = t->unix_path != NULL ? redisConnectUnixNonBlock(t->unix_path)
					  : redisConnectNonBlock(t->host, t->port);
	if (r->context == NULL)
		return redis_fail(r, "out of memory", REDIS_ERROR_TRANSIENT);
	if (r->context->err != 0)
		return fail_io(r);
	set_socket_options(r);
	set_bounds(r->context->reader);
	r->state = REDIS_OPENING;
	r->received = 0;
	r->input = r->progress = 0;
	r->output = (struct redis_output){0};
	r->client_id = 0;
	r->deadline_ms = r->last_due_ms = now_ms + REDIS_TIMEOUT_MS;
	append_greetings(r);
	return 0;
}

void redis_expect_by(struct redis *r, int64_t at_ms)
{
	if (r->deadline_ms == 0)
		r->deadline_ms = r->last_due_ms = at_ms;
	else if (at_ms > r->last_due_ms)
		r->last_due_ms = at_ms;
}

bool redis_pollfd(const struct redis *r, struct pollfd *p)
{
	if (r->context == NULL)
		return false;
	p->fd = r->context->fd;
	p->events = POLLIN;
	if (redis_output_left(r->context, &r->output) > 0)
		p->events |= POLLOUT;
	p->revents = 0;
	return true;
}

static bool tolerated(enum greeting g, const redisReply *reply)
{
	/* Servers and access lists without these commands still serve. */
	if (g == GREETING_NAME || g == GREETING_ID || g == GREETING_ROLE)
		return strncmp(reply->str, "ERR", 3) == 0 || strncmp(reply->str, "NOPERM", 6) == 0;
	return false;
}

static bool is_text(struct redis_reply v, const char *text)
{
	return v.type == REDIS_STRING && strcmp(v.str, text) == 0;
}

static int take_greeting(struct redis *r, const redisReply *reply)
{
	struct redis_reply v = redis_reply_view(reply);
	const char *why;
	int i = r->greetings_taken++;
	enum greeting g = i < (int)sizeof(r->greetings) && r->greetings[i] < GREETING_MORE ? r->greetings[i] : GREETING_MORE;

	if (v.type == REDIS_ERROR)
		return tolerated(g, reply) ? 0 : redis_fail(r, v.str, redis_error_class(&v));
	if (g == GREETING_ID && v.type == REDIS_INTEGER)
		r->client_id = v.integer;
	if (g == GREETING_ROLE && v.type == REDIS_ARRAY && v.n > 0 && !is_text(redis_element(&v, 0), "master"))
		return redis_fail(r, "the server is a replica, not a master", REDIS_ERROR_TRANSIENT);
	if (r->greeted != NULL && r->greetings_taken == r->greetings_sent && (why = r->greeted(&v)) != NULL)
		return redis_fail(r, why, REDIS_ERROR_TRANSIENT);
	return 0;
}

static int64_t unread(const struct redis *r)
{
	return (int64_t)(r->context->reader->len - r->context->reader->pos);
}

static int take_greetings(struct redis *r)
{
	while (r->greetings_taken < r->greetings_sent) {
		void *reply = NULL;
		int rc;

		if (redisGetReplyFromReader(r->context, &reply) != REDIS_OK)
			return fail_io(r);
		if (reply == NULL)
			return 0;
		rc = take_greeting(r, reply);
		freeReplyObject(reply);
		if (rc == -1)
			return -1;
	}
	r->state = REDIS_READY;
	r->deadline_ms = 0;
	r->received = unread(r);
	r->connection++;
	return 0;
}

int redis_flush(struct redis *r)
{
	if (r->state == REDIS_CLOSED)
		return -1;
	/* Not everything that was to be sent is there: answers would be taken for those to other commands. */
	if (r->context->err != 0)
		return fail_io(r);
	if (redis_output_left(r->context, &r->output) > 0 && redis_output_write(r->context, &r->output) == -1)
		return fail_io(r);
	return 0;
}

/* Taken for the answer to the next command it would say of one message what was said of another. */
static int fail_surplus(struct redis *r)
{
	return redis_fail(r, "an answer to nothing that was asked", REDIS_ERROR_TRANSIENT);
}

/*
 * The time for an answer begins anew with each sign of life: a message of any size gets through a slow link, and a
 * peer that stands still is found out, whatever is sent to it meanwhile. What has just arrived was in time: our poll may
 * have come late, not the answer. Bytes of a large command that the kernel holds move when the peer acknowledges them.
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
	return now_ms <= r->deadline_ms;
}

int redis_pump(struct redis *r, int64_t now_ms)
{
	size_t before, received;

	if (redis_flush(r) == -1)
		return -1;
	before = r->context->reader->len;
	if (redisBufferRead(r->context) != REDIS_OK)
		return fail_io(r);
	received = r->context->reader->len - before;
	r->received += (int64_t)received;
	r->input += received;
	if (r->received > ANSWER_MAX)
		return redis_fail(r, "an answer too large", REDIS_ERROR_TRANSIENT);
	if (r->state == REDIS_OPENING && take_greetings(r) == -1)
		return -1;
	if (r->state == REDIS_READY && r->pending == 0 && unread(r) > 0)
		return fail_surplus(r);
	if (!in_time(r, now_ms))
		return redis_fail(r, "no answer in time", REDIS_ERROR_TRANSIENT);
	return 0;
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
	return 1;
}

/* hiredis has read the type of the string, and waits for the rest: its length, then so many bytes. */
int64_t redis_arriving(const struct redis *r, const char **begin, size_t *arrived)
{
	const redisReader *reader = r->state == REDIS_READY ? r->context->reader : NULL;
	const redisReadTask *task = reader == NULL || reader->ridx < 0 ? NULL : TASK_OF(reader);
	const char *length, *end;

	if (task == NULL || task->type != REDIS_REPLY_STRING)
		return -1;
	length = reader->buf + reader->pos;
	end = memchr(length, '\r', reader->len - reader->pos);
	if (end == NULL)
		return -1;
	*begin = end + 2;
	*arrived = *begin < reader->buf + reader->len ? (size_t)(reader->buf + reader->len - *begin) : 0;
	return strtoll(length, NULL, 10);
}

void *redis_keep(struct redis *r)
{
	void *kept = r->last;

	r->last = NULL;
	return kept;
}

void redis_let_go(void *kept)
{
	if (kept != NULL)
		freeReplyObject(kept);
}
