/* Sends the scripts of operations: common/queue/scripts/operation_hold.lua, operation_note.lua, operation_stop.lua,
 * import.lua, dead_letters_take.lua. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/queue/operations.h"

#include "common/base/base.h"

static const char *const field_names[OPERATION_FIELDS] = {
#define X(field, name) [OPERATION_##field] = (name),
	QUEUE_OPERATION_FIELDS(X)
#undef X
};

/* Each operation has its own, so that no other one counts its failures. */
static char *redriven_key(const struct queue_keys *k, const char *id)
{
	return alloc_format("%s:%s", k->redriven, id);
}

void queue_operation_hold(struct redis *r, const struct queue_keys *k, const char *id, const char *holder,
    const char *instead, const char *const values[OPERATION_FIELDS])
{
	char *none = queue_lease_key(k, NULL), *redriven = redriven_key(k, id);
	const char *keys[] = { none, k->operations, redriven };
	struct script_arg args[5 + 2 * OPERATION_FIELDS];
	struct script_number hold, keep;

	args[0] = script_string(id);
	args[1] = script_string(holder);
	args[2] = script_string(instead);
	args[3] = script_number(&hold, QUEUE_OPERATION_HOLD_MS);
	args[4] = script_number(&keep, QUEUE_OPERATION_KEEP_MS);
	for (size_t i = 0; i < OPERATION_FIELDS; i++) {
		args[5 + 2 * i] = script_string(field_names[i]);
		args[6 + 2 * i] = script_string(values[i] == NULL ? "" : values[i]);
	}
	queue_script(r, QUEUE_SCRIPT_operation_hold, nitems(keys), keys, nitems(args), args);
	free(redriven);
	free(none);
}

void queue_operation_note(struct redis *r, const struct queue_keys *k, const char *id, const char *holder,
    int64_t hold_ms, int64_t done, enum queue_operation_field field, const char *value)
{
	char *none = queue_lease_key(k, NULL), *redriven = redriven_key(k, id);
	const char *keys[] = { none, k->operations, redriven };
	struct script_number hold, keep, count;
	struct script_arg args[] = {
		script_string(id), script_string(holder),
		hold_ms < 0 ? script_string("end") : script_number(&hold, hold_ms),
		script_number(&keep, QUEUE_OPERATION_KEEP_MS),
		done < 0 ? script_string("") : script_number(&count, done),
		script_string(field_names[field]), script_string(value == NULL ? "" : value),
	};

	queue_script(r, QUEUE_SCRIPT_operation_note, nitems(keys), keys, value == NULL ? 5 : nitems(args), args);
	free(redriven);
	free(none);
}

void queue_import(struct redis *r, const struct queue_keys *k, const char *field, const char *expected,
    const char *position, const struct queue_bytes *messages, size_t n)
{
	struct script_arg args[4 + QUEUE_BATCH];
	struct script_number keep;

	args[0] = script_string(field);
	args[1] = script_string(expected);
	args[2] = script_string(position);
	args[3] = script_number(&keep, QUEUE_OPERATION_KEEP_MS);
	for (size_t i = 0; i < n; i++)
		args[4 + i] = (struct script_arg){ messages[i].data, messages[i].len };
	queue_script(r, QUEUE_SCRIPT_import, 2, (const char *[]){ k->operations, k->ingress }, 4 + n, args);
}

void queue_operation_read(struct redis *r, const struct queue_keys *k, const char *id)
{
	const char *argv[2 + OPERATION_FIELDS] = { "HMGET", k->operations };
	char *names[OPERATION_FIELDS];

	for (size_t i = 0; i < OPERATION_FIELDS; i++)
		argv[2 + i] = names[i] = alloc_format("%s:%s", id, field_names[i]);
	redis_append(r, nitems(argv), argv, NULL);
	for (size_t i = 0; i < OPERATION_FIELDS; i++)
		free(names[i]);
}

bool queue_operation_parse(const struct redis_reply *reply, size_t from, const char *values[OPERATION_FIELDS])
{
	if (reply->type != REDIS_ARRAY || reply->n != from + OPERATION_FIELDS)
		return false;
	for (size_t i = 0; i < OPERATION_FIELDS; i++) {
		struct redis_reply value = redis_element(reply, from + i);

		values[i] = value.type == REDIS_STRING ? value.str : "";
	}
	return true;
}

void queue_operations_exist(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "EXISTS %s", k->operations);
}

void queue_operations_list(struct redis *r, const struct queue_keys *k, enum queue_operation_field field)
{
	char *pattern = alloc_format("*:%s", field_names[field]);

	redis_appendf(r, "HSCAN %s 0 MATCH %s COUNT 2000", k->operations, pattern);
	free(pattern);
}

bool queue_operations_listed(const struct redis_reply *reply, size_t *at, char id[QUEUE_OPERATION_ID_SIZE],
    const char **text)
{
	struct redis_reply pairs = reply->type == REDIS_ARRAY && reply->n == 2 ? redis_element(reply, 1)
	    : (struct redis_reply){0}, field, value;

	while (pairs.type == REDIS_ARRAY && *at + 1 < pairs.n) {
		field = redis_element(&pairs, *at);
		value = redis_element(&pairs, *at + 1);
		*at += 2;
		if (field.type != REDIS_STRING || value.type != REDIS_STRING ||
		    strspn(field.str, "0123456789abcdef") != QUEUE_OPERATION_ID_SIZE - 1 ||
		    field.str[QUEUE_OPERATION_ID_SIZE - 1] != ':')
			continue;
		strlcpy(id, field.str, QUEUE_OPERATION_ID_SIZE);
		*text = value.str;
		return true;
	}
	return false;
}

void queue_operation_forget_result(struct redis *r, const struct queue_keys *k, const char *id)
{
	char *field = alloc_format("%s:%s", id, field_names[OPERATION_RESULT]);

	redis_appendf(r, "HDEL %s %s", k->operations, field);
	free(field);
}

void queue_operation_stop(struct redis *r, const struct queue_keys *k, const char *id)
{
	char *none = queue_lease_key(k, NULL);
	struct script_number hold;

	queue_script(r, QUEUE_SCRIPT_operation_stop, 2, (const char *[]){ none, k->operations }, 2,
	    (struct script_arg[]){ script_string(id), script_number(&hold, QUEUE_OPERATION_HOLD_MS) });
	free(none);
}

void queue_redriven_add(struct redis *r, const struct queue_keys *k, const char *id, const char *fingerprint)
{
	char *key = redriven_key(k, id);

	redis_appendf(r, "APPEND %s %b", key, fingerprint, (size_t)QUEUE_FINGERPRINT_DIGITS);
	redis_appendf(r, "PEXPIRE %s %d", key, QUEUE_OPERATION_KEEP_MS);
	free(key);
}

void queue_redriven_read(struct redis *r, const struct queue_keys *k, const char *id, size_t from, size_t len)
{
	char *key = redriven_key(k, id);

	redis_appendf(r, "GETRANGE %s %d %d", key, (int64_t)from, (int64_t)(from + len - 1));
	free(key);
}

void queue_destroy_redriven(struct redis *r, const struct queue_keys *k, const char *id)
{
	char *key = redriven_key(k, id);

	redis_appendf(r, "UNLINK %s", key);
	free(key);
}

void queue_dead_letters_take(struct redis *r, const struct queue_keys *k, const char *id, const char *holder,
    bool ingress, bool noted, const char *gone, const char *next, const struct queue_taken *taken, size_t n)
{
	char *none = queue_lease_key(k, NULL), *redriven = redriven_key(k, id);
	const char *keys[] = { none, k->escape, k->log, k->claimed, k->operations, redriven, k->ingress };
	struct script_arg *args = alloc_zero(5 + 5 * n, sizeof(*args)), *arg = args + 5;
	struct script_number *numbers = alloc_zero(2 * n, sizeof(*numbers)), keep;

	args[0] = script_string(id);
	args[1] = script_string(holder);
	args[2] = script_string(gone);
	args[3] = script_number(&keep, noted ? QUEUE_OPERATION_KEEP_MS : 0);
	args[4] = script_string(next);
	for (size_t i = 0; i < n; i++) {
		*arg++ = script_number(&numbers[2 * i], taken[i].at);
		*arg++ = script_number(&numbers[2 * i + 1], (int64_t)taken[i].size);
		*arg++ = script_string(taken[i].sha1);
		*arg++ = (struct script_arg){ taken[i].line.data == NULL ? "" : taken[i].line.data, taken[i].line.len };
		*arg++ = script_string(taken[i].record_id);
	}
	queue_script(r, QUEUE_SCRIPT_dead_letters_take, ingress ? 7 : 6, keys, 5 + 5 * n, args);
	free(numbers);
	free(args);
	free(redriven);
	free(none);
}

void queue_dead_letter_place(struct redis *r, const struct queue_keys *k, const void *message, size_t len)
{
	queue_script(r, QUEUE_SCRIPT_dead_letter_place, 1, (const char *[]){ k->escape }, 1,
	    (struct script_arg[]){ { message, len } });
}
