/* Stamps, reads and expires messages in ingress. The sweeper decides when, and which ones. */
#include <stdlib.h>
#include <string.h>

#include "common/queue/waiting.h"

#include "common/base/base.h"
#include "common/queue/records.h"
#include "common/queue/scripts.h"

#define DUE_BYTES (1 << 20)	/* moved in one step of the server, not counting the last message */

void queue_stamp(struct redis *r, const struct queue_keys *k, const struct queue_walk *walk)
{
	struct script_number from, count, lines, longest;
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->ingress };

	queue_script(r, QUEUE_SCRIPT_stamp, 2, keys, 6,
	    (struct script_arg[]){ script_string(walk->line->line), script_string(walk->line->key),
	    script_number(&from, walk->from),
		script_number(&count, walk->count), script_number(&lines, walk->lines),
		    script_number(&longest, walk->longest) });
	free(none);
}

#define ONE_ARGS 6

static void one_args(const struct queue_stamp_one *one, struct script_number room[3], struct script_arg args[ONE_ARGS])
{
	args[0] = script_number(&room[0], one->seen.at);
	args[1] = script_number(&room[1], (int64_t)one->seen.len);
	args[2] = (struct script_arg){ one->seen.line, one->seen.line_len };
	args[3] = script_number(&room[2], (int64_t)one->drop);
	args[4] = script_string(one->line.line);
	args[5] = script_string(one->line.key);
}

void queue_stamp_seen(struct redis *r, const struct queue_keys *k, const struct queue_stamp_one *ones, size_t n)
{
	struct script_arg *args = alloc_zero(ONE_ARGS * n + 1, sizeof(*args));
	struct script_number (*rooms)[3] = alloc_zero(n + 1, sizeof(*rooms));
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->ingress };

	for (size_t i = 0; i < n; i++)
		one_args(&ones[i], rooms[i], args + ONE_ARGS * i);
	queue_script(r, QUEUE_SCRIPT_stamp_seen, 2, keys, ONE_ARGS * n, args);
	free(none);
	free(rooms);
	free(args);
}

int queue_stamped(const struct redis_reply *reply, struct queue_stamped *out)
{
	if (reply->type != REDIS_ARRAY || reply->n < 2 || reply->n % 3 != 2)
		return -1;
	for (size_t i = 0; i < reply->n; i++)
		if (redis_element(reply, i).type != (i >= 2 && i % 3 == 1 ? REDIS_STRING : REDIS_INTEGER))
			return -1;
	out->stamped = redis_element(reply, 0).integer;
	out->next = redis_element(reply, 1).integer;
	out->n = (reply->n - 2) / 3;
	return 0;
}

struct queue_line queue_stamped_line(const struct redis_reply *reply, size_t i)
{
	struct redis_reply line = redis_element(reply, 4 + 3 * i);

	return (struct queue_line){ redis_element(reply, 2 + 3 * i).integer,
	    (size_t)redis_element(reply, 3 + 3 * i).integer,
		line.str, line.len };
}

static void glance(struct redis *r, const char *command, const char *const *keys, size_t nkeys, int64_t first,
    int64_t last)
{
	struct script_number from, to;

	queue_script(r, QUEUE_SCRIPT_glance, nkeys, keys, 3,
	    (struct script_arg[]){ script_number(&from, first), script_number(&to, last), script_string(command) });
}

void queue_glance(struct redis *r, const char *list, int64_t first, int64_t last)
{
	glance(r, "LRANGE", &list, 1, first, last);
}

void queue_glance_delayed(struct redis *r, const struct queue_keys *k, int64_t first, int64_t last)
{
	glance(r, "ZRANGE", (const char *[]){ k->delayed, k->delayed_apart }, 2, first, last);
}

int queue_glanced(const struct redis_reply *reply, struct queue_glanced *out)
{
	if (!redis_is_strings(reply) || reply->n < 3)
		return -1;
	out->n = reply->n - 3;
	out->bytes = (size_t)strtoull(redis_element(reply, out->n).str, NULL, 10);
	out->server_ms = strtoll(redis_element(reply, out->n + 1).str, NULL, 10);
	out->more = redis_element(reply, out->n + 2).str[0] == '1';
	return 0;
}

/* The length of the wrapper or of a line that begins like one; 0: neither. The scripts find it in the same way. */
static size_t line_length(const char *entry, size_t len)
{
	const char *end = memchr(entry, '\n', len < MESSAGE_LINE_MAX ? len : MESSAGE_LINE_MAX);

	return end == NULL || !message_may_be_wrapped(entry, len) ? 0 : (size_t)(end - entry) + 1;
}

static size_t line_args(const struct queue_keys *k, const struct redis_reply *first, struct script_arg *args)
{
	struct queue_glanced glanced;
	size_t n = 0;

	if (queue_glanced(first, &glanced) == -1)
		return 0;
	for (size_t i = 0; i < glanced.n; i++) {
		struct redis_reply begins = redis_element(first, i);
		size_t len = line_length(begins.str, begins.len);
		struct message m;

		if (len == 0)
			continue;
		message_parse(&m, &k->lines, begins.str, begins.len);
		args[n++] = (struct script_arg){ begins.str, len };
		args[n++] = script_string(m.wrapper_len > 0 ? "1" : "0");
	}
	return n;
}

void queue_due(struct redis *r, const struct queue_keys *k, bool all, int limit, const struct redis_reply *first)
{
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->delayed, k->ingress, k->delayed_apart };
	struct script_arg *args = alloc_zero(4 + 2 * (first == NULL ? 0 : first->n), sizeof(*args));
	struct script_number most, bytes;
	size_t n = 0;

	args[n++] = script_string(all ? "1" : "0");
	args[n++] = script_number(&most, limit);
	args[n++] = script_number(&bytes, DUE_BYTES);
	args[n++] = script_string(k->shared ? "1" : "0");
	if (first != NULL)
		n += line_args(k, first, args + n);
	queue_script(r, QUEUE_SCRIPT_due, 4, keys, n, args);
	free(args);
	free(none);
}

void queue_pushed(struct redis *r, const struct queue_keys *k, bool all, int limit, int least)
{
	char *none = queue_lease_key(k, NULL);
	struct script_number most, bytes, always, full;

	queue_script(r, QUEUE_SCRIPT_pushed, 3, (const char *[]){ none, k->pushed, k->ingress }, 5,
	    (struct script_arg[]){ script_string(all ? "1" : "0"), script_number(&most, limit),
	    script_number(&bytes, DUE_BYTES),
		script_number(&always, least), script_number(&full, QUEUE_PUSHED_FULL) });
	free(none);
}

int queue_due_moved(const struct redis_reply *reply, struct queue_due_moved *out)
{
	*out = (struct queue_due_moved){ .next_ms = INT64_MAX };
	if (reply->type != REDIS_ARRAY)
		return -1;
	for (size_t i = 0; i < reply->n; i++) {
		struct redis_reply late = redis_element(reply, i);

		if (late.type != REDIS_INTEGER)
			return -1;
		if (late.integer <= QUEUE_DUE_NEXT)
			out->next_ms = QUEUE_DUE_NEXT - late.integer;
		else if (late.integer == QUEUE_DUE_UNREAD)
			out->unread = true;
		else if (late.integer == QUEUE_DUE_LOST)
			out->lost++;
		else
			out->moved++;
	}
	return 0;
}

void queue_expire_delayed(struct redis *r, const struct queue_keys *k, struct message *m, const struct record *record)
{
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->delayed, k->escape, k->log, k->delayed_apart };
	struct script_arg args[2 + 2 * RECORD_FIELDS];
	struct script_number strip;
	struct record_text text;
	size_t n = 0;

	args[n++] = (struct script_arg){ m->raw, m->raw_len };
	args[n++] = script_number(&strip, (int64_t)m->wrapper_len);
	if (record != NULL)
		n += queue_record_args(record, m, &text, args + n);
	queue_script(r, QUEUE_SCRIPT_expire_delayed, 5, keys, n, args);
	free(none);
}
