/* Marks in ingress, looks at it, and the way out for what waited too long. When and what is sweeper/'s. */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/queue_waiting.h"

#include "common/queue_records.h"
#include "common/queue_scripts.h"

/* The lease of nobody: never there. */
static char *nobody(const struct queue_keys *k)
{
	return queue_lease_key(k, "none");
}

void queue_mark_line(char out[QUEUE_MARK_LINE_SIZE], const struct wrapper *w)
{
	const struct message empty = { .raw = "" };
	struct wrapper unmarked = *w;
	struct buffer line = {0};

	unmarked.mark_ms = 0;
	message_wrap(&line, &empty, &unmarked);
	buffer_append(&line, "", 1);
	strlcpy(out, line.data, QUEUE_MARK_LINE_SIZE);
	out[strcspn(out, "\n")] = '\0';
	buffer_free(&line);
}

void queue_mark(struct redis *r, const struct queue_keys *k, const char *line, const struct queue_seen *seen)
{
	char *none = nobody(k);
	const char *keys[] = { none, k->ingress };
	struct script_number drop;
	struct script_arg args[3] = { script_string(line) };

	if (seen != NULL) {
		args[1] = (struct script_arg){ seen->data, seen->len };
		args[2] = script_number(&drop, (int64_t)seen->drop);
	}
	queue_script(r, QUEUE_SCRIPT_mark, 2, keys, seen == NULL ? 1 : 3, args);
	free(none);
}

static void glance(struct redis *r, const char *command, const char *key, int64_t first, int64_t last)
{
	struct script_number from, to;

	queue_script(r, QUEUE_SCRIPT_glance, 1, &key, 3,
	    (struct script_arg[]){ script_number(&from, first), script_number(&to, last), script_string(command) });
}

void queue_glance(struct redis *r, const char *list, int64_t first, int64_t last)
{
	glance(r, "LRANGE", list, first, last);
}

void queue_glance_delayed(struct redis *r, const struct queue_keys *k, int64_t first, int64_t last)
{
	glance(r, "ZRANGE", k->delayed, first, last);
}

void queue_delayed_page(struct redis *r, const struct queue_keys *k, int64_t first, int64_t last)
{
	redis_appendf(r, "ZRANGE %s %d %d", k->delayed, first, last);
}

int queue_glanced(const struct redis_reply *reply, struct queue_glanced *out)
{
	if (reply->type != REDIS_ARRAY || reply->n < 2)
		return -1;
	out->n = reply->n - 2;
	out->bytes = (size_t)strtoull(redis_element(reply, out->n).str, NULL, 10);
	out->server_ms = strtoll(redis_element(reply, out->n + 1).str, NULL, 10);
	return 0;
}

void queue_expire(struct redis *r, const struct queue_keys *k, struct message *m, const struct queue_proof *proof,
    const struct record *record)
{
	char *none = nobody(k);
	const char *keys[] = { none, k->ingress, k->escape, k->log };
	struct script_arg args[5 + 2 * RECORD_FIELDS];
	struct script_number strip, at, mark_at;
	struct record_text text;
	size_t n = 0;

	args[n++] = (struct script_arg){ m->raw, m->raw_len };
	args[n++] = script_number(&strip, (int64_t)m->wrapper_len);
	args[n++] = script_number(&at, proof->at);
	args[n++] = (struct script_arg){ proof->line, proof->len };
	args[n++] = script_number(&mark_at, proof->mark_at);
	if (record != NULL)
		n += queue_record_args(record, m, &text, args + n);
	queue_script(r, QUEUE_SCRIPT_expire, 4, keys, n, args);
	free(none);
}

void queue_expire_delayed(struct redis *r, const struct queue_keys *k, struct message *m, const struct record *record)
{
	char *none = nobody(k);
	const char *keys[] = { none, k->delayed, k->escape, k->log };
	struct script_arg args[2 + 2 * RECORD_FIELDS];
	struct script_number strip;
	struct record_text text;
	size_t n = 0;

	args[n++] = (struct script_arg){ m->raw, m->raw_len };
	args[n++] = script_number(&strip, (int64_t)m->wrapper_len);
	if (record != NULL)
		n += queue_record_args(record, m, &text, args + n);
	queue_script(r, QUEUE_SCRIPT_expire_delayed, 4, keys, n, args);
	free(none);
}
