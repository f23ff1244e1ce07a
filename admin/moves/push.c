/*
 * quredis push: pushes messages from an argument or from standard input, into ingress or, wrapped, into delayed. Many
 * messages are sent in batches, with several batches unanswered at a time and in constant memory. The result counts the
 * messages that Redis acknowledged.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <bsd/string.h>

#include "admin/moves/durable.h"
#include "admin/moves/moves.h"

#include "common/base/base.h"

#define BATCH_BYTES (256 * 1024)
#define SLOWEST_BYTES_PER_MS 1024		/* a slower connection times out */
#define UNDER_WAY 16				/* batches that are sent and not answered yet */
#define WAIT_TIMEOUT_MAX_MS 3600000		/* 0 would be for ever */
#define TIME_MAX_MS (INT64_C(36500) * 86400 * 1000)
#define MESSAGE_MAX (512 * 1024 * 1024)		/* the largest value that Redis accepts */

struct push {
	struct admin *a;
	struct progress progress;
	struct buffer bytes;			/* of the current batch */
	size_t ends[QUEUE_BATCH];		/* where each of its messages ends in bytes */
	size_t n;
	size_t sizes[UNDER_WAY];		/* messages in each unanswered batch, oldest first */
	size_t nunder_way;
	int64_t sent, acknowledged;
	struct durable durable;			/* with --wait */
	struct queue_unique unique;		/* with --unique */
	/* with --at, --delay, --ttl: the time of Redis, and CLOCK_MONOTONIC at that moment */
	int64_t server_ms, asked_ms;
	int64_t due_ms;				/* of the first delayed message, as Redis answered; 0: it has not */
	char id[MESSAGE_ID_MAX + 1];	/* of the only message, if it is delayed or unique; else "" */
};

static int take_unique(struct push *p)
{
	struct redis_reply reply;

	if (admin_reply_of(p->a, &reply, alloc_format("%s:%s", p->a->keys.unique, p->a->options.unique)) == -1)
		return -1;
	if (queue_pushed_unique(&reply, &p->unique) == -1)
		return admin_fail(p->a, EX_PROTOCOL, "unexpected reply from Redis to a push with --unique");
	return p->unique.pushed ? 1 : 0;
}

/* How many messages of the oldest batch were pushed: all, or none because of --unique. -1: the error is printed. */
static int take_count(struct push *p)
{
	const struct admin *a = p->a;
	int64_t answer;

	if (a->options.unique != NULL)
		return take_unique(p);
	if (admin_integer(p->a, &answer, a->options.delay_ms >= 0 ? a->keys.delayed : a->keys.ingress) == -1)
		return -1;
	if (a->options.delay_ms >= 0 && p->due_ms == 0)
		p->due_ms = answer;
	return (int)p->sizes[0];
}

static int take_answer(struct push *p)
{
	int count = take_count(p);

	if (count == -1)
		return -1;
	assert(p->nunder_way > 0 && p->acknowledged + count <= p->sent);
	p->acknowledged += count;
	p->nunder_way--;
	memmove(p->sizes, p->sizes + 1, p->nunder_way * sizeof(p->sizes[0]));
	progress_show(&p->progress, p->acknowledged);
	return 0;
}

static void send_batch(struct push *p, const struct queue_bytes *messages)
{
	const struct options *o = &p->a->options;
	struct redis *r = &p->a->redis;

	if (o->unique != NULL)
		queue_push_unique(r, &p->a->keys, o->unique, o->dry_run ? 0 : o->for_ms, o->urgent,
		    p->id, messages);
	else if (o->delay_ms >= 0)
		queue_push_delayed(r, &p->a->keys, o->at == NULL ? 0 : p->server_ms, o->delay_ms, p->sent, messages,
		    p->n);
	else
		queue_push(r, &p->a->keys, o->urgent, messages, p->n);
}

static int flush_batch(struct push *p)
{
	struct queue_bytes messages[QUEUE_BATCH];
	size_t start = 0;

	if (p->n == 0)
		return 0;
	for (size_t i = 0; i < p->n; start = p->ends[i++])
		messages[i] = (struct queue_bytes){ p->bytes.data + start, p->ends[i] - start };
	if (p->nunder_way == UNDER_WAY && take_answer(p) == -1)
		return -1;
	send_batch(p, messages);
	p->a->extra_ms = (int64_t)(p->bytes.len / SLOWEST_BYTES_PER_MS);
	assert(p->nunder_way < UNDER_WAY);
	p->sizes[p->nunder_way++] = p->n;
	p->sent += (int64_t)p->n;
	p->n = 0;
	buffer_clear(&p->bytes);
	return 0;
}

static int finish_batches(struct push *p)
{
	if (flush_batch(p) == -1)
		return -1;
	while (p->nunder_way > 0)
		if (take_answer(p) == -1)
			return -1;
	return 0;
}

/* Writes the header that the options ask for. */
static int add_header(struct push *p, struct buffer *out)
{
	const struct options *o = &p->a->options;
	int64_t now_ms = p->server_ms + clock_monotonic_ms() - p->asked_ms + (o->delay_ms > 0 ? o->delay_ms : 0);

	if (o->id == NULL && o->ttl_ms < 0)
		return 0;
	if (message_header(out, o->id, NULL, o->ttl_ms, o->ttl_ms < 0 ? -1 : now_ms, -1, -1) == -1)
		return admin_fail(p->a, EX_USAGE, "--id: expected %s", identifier_form(IDENTIFIER_ID));
	return 0;
}

/*
 * Workers would move this message to escape unread, so it is refused. Pushes the messages before it first, so that the
 * printed count is exact. Prints an error and returns -1.
 */
static int refuse_too_large(struct push *p, size_t len)
{
	struct admin *a = p->a;
	const char *then = "its workers would move it to escape unread";
	bool many = a->options.lines || a->options.nul;

	if (finish_batches(p) == -1)
		return -1;
	if (many)
		return admin_fail(a, EX_DATAERR,
		    "message %" PRId64 " has %zu bytes, and message_max of %s is %" PRId64 ": %s",
		    p->acknowledged + 1, len, a->keys.name, a->queue->message_max, then);
	return admin_fail(a, EX_DATAERR, "the message has %zu bytes, and message_max of %s is %" PRId64 ": %s", len,
	    a->keys.name, a->queue->message_max, then);
}

/* Pushes one message of the input. */
static int push_one(struct push *p, const void *data, size_t len)
{
	struct message m = { .raw = "" };	/* not parsed: the producer's bytes are not interpreted */
	size_t before = p->bytes.len, wrapped, whole;

	if (p->a->options.delay_ms >= 0 && !p->a->options.dry_run)
		message_wrap(&p->bytes, &p->a->keys.lines, &m, &(struct wrapper){0});
	wrapped = p->bytes.len;
	if (add_header(p, &p->bytes) == -1)
		return -1;
	whole = p->bytes.len - wrapped + len;
	/* queue NULL: the configuration here does not have the queue, so its message_max is not known. */
	if (p->a->queue != NULL && whole > (size_t)p->a->queue->message_max) {
		p->bytes.len = before;
		return refuse_too_large(p, whole);
	}
	buffer_append(&p->bytes, data, len);
	if ((p->a->options.delay_ms >= 0 || p->a->options.unique != NULL) && !p->a->options.lines &&
	    !p->a->options.nul) {
		message_parse(&m, &p->a->keys.lines, p->bytes.data + before, p->bytes.len - before);
		strlcpy(p->id, message_id(&m), sizeof(p->id));
	}
	if (p->a->options.dry_run && p->a->options.unique == NULL) {
		p->bytes.len = before;
		p->acknowledged++;
		return 0;
	}
	assert(p->n < QUEUE_BATCH);
	p->ends[p->n++] = p->bytes.len;
	return p->n == QUEUE_BATCH || p->bytes.len >= BATCH_BYTES ? flush_batch(p) : 0;
}

/* ---- input ---- */

/* Returns the number of bytes read; 0: end of input, or interrupted; -1: error. */
static ssize_t read_some(struct push *p, char *chunk, size_t size)
{
	ssize_t n;

	do {
		if (interrupt_asked())
			return 0;
		n = read(STDIN_FILENO, chunk, size);
	} while (n == -1 && errno == EINTR);
	return n == -1 ? admin_fail(p->a, EX_IOERR, "standard input: %s", strerror(errno)) : n;
}

static int append_part(struct push *p, struct buffer *message, const char *data, size_t len)
{
	if (message->len + len > MESSAGE_MAX)
		return admin_fail(p->a, EX_DATAERR, "a message of more than 512 MiB is more than Redis takes");
	buffer_append(message, data, len);
	return 0;
}

/* Pushes the messages that end in this chunk; the unfinished one stays in rest. */
static int split_chunk(struct push *p, struct buffer *rest, const char *chunk, size_t len, char separator)
{
	const char *end;

	while ((end = memchr(chunk, separator, len)) != NULL) {
		size_t n = (size_t)(end - chunk);
		int rc;

		if (rest->len == 0) {
			rc = push_one(p, chunk, n);
		} else {
			rc = append_part(p, rest, chunk, n) == -1 ? -1 : push_one(p, rest->data, rest->len);
			buffer_clear(rest);
		}
		if (rc == -1)
			return -1;
		chunk += n + 1;
		len -= n + 1;
	}
	return append_part(p, rest, chunk, len);
}

static int push_many(struct push *p, char separator)
{
	struct buffer rest = {0};
	char chunk[64 * 1024];
	ssize_t n;
	int rc = 0;

	while (rc == 0 && (n = read_some(p, chunk, sizeof(chunk))) != 0)
		rc = n == -1 ? -1 : split_chunk(p, &rest, chunk, (size_t)n, separator);
	if (rc == 0 && rest.len > 0 && !interrupt_asked())
		rc = push_one(p, rest.data, rest.len);
	buffer_free(&rest);
	return rc;
}

/* Pushes nothing if the input was interrupted: half a message must not be pushed. */
static int push_input(struct push *p)
{
	struct buffer message = {0};
	char chunk[64 * 1024];
	ssize_t n;
	int rc = 0;

	if (isatty(STDIN_FILENO) == 1)
		admin_note("the message is read from the terminal; Ctrl-D ends it");
	while (rc == 0 && (n = read_some(p, chunk, sizeof(chunk))) != 0)
		rc = n == -1 ? -1 : append_part(p, &message, chunk, (size_t)n);
	if (rc == 0 && !interrupt_asked())
		rc = push_one(p, message.len == 0 ? "" : message.data, message.len);
	buffer_free(&message);
	return rc;
}

static int check_unique(struct admin *a)
{
	const struct options *o = &a->options;

	if ((o->unique == NULL) != (o->for_ms < 0))
		return admin_fail(a, EX_USAGE, "--unique KEY and --for TIME belong together");
	if (o->unique == NULL)
		return 0;
	if (!identifier_is(IDENTIFIER_ID, o->unique, strlen(o->unique)))
		return admin_fail(a, EX_USAGE, "--unique: expected %s", identifier_form(IDENTIFIER_ID));
	if (o->for_ms == 0 || o->for_ms > TIME_MAX_MS)
		return admin_fail(a, EX_USAGE, "--for: expected a time of more than 0, and of at most 36500 days");
	if (o->lines || o->nul)
		return admin_fail(a, EX_USAGE, "--unique is for one message: no --lines, no --null");
	if (o->at != NULL || o->delay_ms >= 0)
		return admin_fail(a, EX_USAGE, "--unique cannot be combined with --%s", o->at != NULL ? "at" : "delay");
	return 0;
}

static int check_options(struct admin *a)
{
	const struct options *o = &a->options;

	if (o->lines && o->nul)
		return admin_fail(a, EX_USAGE, "--lines and --null cannot be combined");
	if ((o->lines || o->nul) && (a->noperands > 1 || o->id != NULL))
		return admin_fail(a, EX_USAGE,
		    "--lines and --null read many messages from standard input: no MESSAGE, no --id");
	if ((o->id != NULL || o->ttl_ms >= 0) && !a->keys.lines.headers)
		return admin_fail(a, EX_USAGE,
		    "%s has headers = false: --id and --ttl would become part of the message", a->keys.name);
	if (o->ttl_ms == 0)
		return admin_fail(a, EX_USAGE, "--ttl: expected a time of more than 0");
	if (o->urgent && (o->at != NULL || o->delay_ms >= 0))
		return admin_fail(a, EX_USAGE, "--urgent cannot be combined with --%s", o->at != NULL ? "at" : "delay");
	if (o->wait_timeout_ms >= 0 && o->wait < 0)
		return admin_fail(a, EX_USAGE, "--wait-timeout is only for --wait");
	if (o->wait_timeout_ms == 0 || o->wait_timeout_ms > WAIT_TIMEOUT_MAX_MS)
		return admin_fail(a, EX_USAGE, "--wait-timeout is not between 1ms and 1h");
	if (o->at != NULL && o->delay_ms >= 0)
		return admin_fail(a, EX_USAGE, "--at and --delay cannot be combined");
	if (o->delay_ms > TIME_MAX_MS)
		return admin_fail(a, EX_USAGE, "--delay: expected a time of at most 36500 days");
	if ((o->at != NULL || o->delay_ms >= 0) && a->keys.shared)
		return admin_fail(a, EX_USAGE,
		    "%s is shared with other programs: they would not understand a delayed message", a->keys.name);
	return check_unique(a);
}

/* Sets server_ms and asked_ms, and with --at options.delay_ms. Redis also decides when a message is due or expired. */
static int read_clock_and_due(struct push *p)
{
	struct admin *a = p->a;
	char at[CLOCK_RFC3339_SIZE];
	int64_t at_ms;

	if (admin_server_time(a, &p->server_ms) == -1)
		return -1;
	p->asked_ms = clock_monotonic_ms();
	if (a->options.at == NULL)
		return 0;
	if (moment_parse_coming(a->options.at, p->server_ms, &at_ms) == -1)
		return admin_fail(a, EX_USAGE, "--at: expected " MOMENT_COMING_WANTED);
	if (at_ms < p->server_ms)
		return admin_fail(a, EX_USAGE, "--at: %s is in the past", clock_rfc3339(at_ms, at));
	a->options.delay_ms = at_ms - p->server_ms;
	return 0;
}

/* Redis has acknowledged all messages. Waits with --wait, and prints the result. */
static int wait_and_report(struct push *p)
{
	struct admin *a = p->a;
	bool waits = a->options.wait >= 0 && !a->options.dry_run;
	struct buffer why = {0};
	int rc = waits ? durable_wait(a, &p->durable, &why) : 0;

	outcome_say(a, &(struct outcome){ .action = "push", .did = "pushed", .would = "would push",
	    .count = p->acknowledged,
	    .delay_ms = a->options.delay_ms,
	    .now_ms = p->server_ms,
	    .due_ms = a->options.delay_ms < 0 || p->due_ms != 0 ? p->due_ms : p->server_ms + a->options.delay_ms,
	    .id = p->id[0] == '\0' ? NULL : p->id,
	    .unique = a->options.unique == NULL ? NULL : &p->unique,
	    .durability = waits ? &p->durable.reached : NULL });
	if (rc == -1)
		admin_fail(a, EX_TEMPFAIL, "pushed, not confirmed: %s; %s", why.data, a->options.unique == NULL
		    ? "pushing again may duplicate it" : "the same command again finds it while its key stays");
	buffer_free(&why);
	return rc;
}

int cmd_push(struct admin *a)
{
	struct push p = { .a = a };
	bool many = a->options.lines || a->options.nul, pushed;
	int rc;

	if (check_options(a) == -1)
		return -1;
	if ((a->options.given & (OPTION_AT | OPTION_DELAY | OPTION_TTL | OPTION_UNIQUE)) != 0 &&
	    read_clock_and_due(&p) == -1)
		return -1;
	if (a->options.wait >= 0 && durable_prepare(a, &p.durable) == -1)
		return -1;
	if (a->options.delay_ms >= 0 && !a->options.dry_run && admin_seals(a) == -1)
		return -1;
	interrupt_begin();
	progress_begin(&p.progress, "push", 0, 0);
	if (many)
		rc = push_many(&p, a->options.nul ? '\0' : '\n');
	else
		rc = a->noperands > 1 ? push_one(&p, a->operands[1], strlen(a->operands[1])) : push_input(&p);
	if (rc == 0)
		rc = finish_batches(&p);
	pushed = rc == 0;
	progress_end(&p.progress);
	if (rc == -1 && many && !a->options.dry_run)
		admin_note("%" PRId64 " messages were pushed%s; Redis had not answered %zu more when it failed",
		    p.acknowledged, a->options.wait >= 0 ? ", not confirmed" : "", (size_t)(p.sent - p.acknowledged));
	if (rc == 0)
		rc = wait_and_report(&p);
	buffer_free(&p.bytes);
	if (pushed && interrupt_asked())
		admin_note("interrupted: the messages after these were not pushed");
	interrupt_end();
	return rc;
}
