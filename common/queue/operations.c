/* Sends the scripts of operations: common/queue/scripts/operation_hold.lua, operation_note.lua, dead_letters_take.lua. */
#include <stdlib.h>

#include "common/queue/operations.h"

#include "common/base/base.h"

#define FIELDS_MAX 16

void queue_operation_hold(struct redis *r, const struct queue_keys *k, const char *id, const char *holder, const char *instead,
    const char *const *fields, const char *const *values, size_t n)
{
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->operations, k->redriven };
	struct script_arg args[5 + 2 * FIELDS_MAX];
	struct script_number hold, keep;

	args[0] = script_string(id);
	args[1] = script_string(holder);
	args[2] = script_string(instead);
	args[3] = script_number(&hold, QUEUE_OPERATION_HOLD_MS);
	args[4] = script_number(&keep, QUEUE_OPERATION_KEEP_MS);
	for (size_t i = 0; i < n; i++) {
		args[5 + 2 * i] = script_string(fields[i]);
		args[6 + 2 * i] = script_string(values[i]);
	}
	queue_script(r, QUEUE_SCRIPT_operation_hold, 3, keys, 5 + 2 * n, args);
	free(none);
}

void queue_operation_note(struct redis *r, const struct queue_keys *k, const char *id, const char *holder, int64_t hold_ms, int64_t acted,
    const char *const *fields, const char *const *values, size_t n)
{
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->operations, k->redriven };
	struct script_arg args[5 + 2 * FIELDS_MAX];
	struct script_number hold, keep, count;

	args[0] = script_string(id);
	args[1] = script_string(holder);
	args[2] = hold_ms < 0 ? script_string("end") : script_number(&hold, hold_ms);
	args[3] = script_number(&keep, QUEUE_OPERATION_KEEP_MS);
	args[4] = acted < 0 ? script_string("") : script_number(&count, acted);
	for (size_t i = 0; i < n; i++) {
		args[5 + 2 * i] = script_string(fields[i]);
		args[6 + 2 * i] = script_string(values[i]);
	}
	queue_script(r, QUEUE_SCRIPT_operation_note, 3, keys, 5 + 2 * n, args);
	free(none);
}

void queue_operations_list(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "HSCAN %s 0 MATCH *:what COUNT 2000", k->operations);
}

void queue_operation_redriven(struct redis *r, const struct queue_keys *k, const char *sha1)
{
	redis_appendf(r, "APPEND %s %b", k->redriven, sha1, (size_t)QUEUE_REDRIVEN_DIGITS);
	redis_appendf(r, "PEXPIRE %s %d", k->redriven, QUEUE_OPERATION_KEEP_MS);
}

void queue_operation_read(struct redis *r, const struct queue_keys *k, const char *id, const char *const *fields, size_t n)
{
	const char *argv[2 + FIELDS_MAX] = { "HMGET", k->operations };

	for (size_t i = 0; i < n; i++)
		argv[2 + i] = alloc_format("%s:%s", id, fields[i]);
	redis_append(r, 2 + n, argv, NULL);
	for (size_t i = 0; i < n; i++)
		free((void *)(uintptr_t)argv[2 + i]);
}

void queue_dead_letters_take(struct redis *r, const struct queue_keys *k, const char *id, const char *holder, bool ingress, bool noted, const char *gone,
    const char *next, const struct queue_taken *letters, size_t n)
{
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->escape, k->log, k->claimed, k->operations, k->redriven, k->ingress };
	struct script_arg *args = alloc_zero(5 + 5 * n, sizeof(*args)), *arg = args + 5;
	struct script_number *numbers = alloc_zero(2 * n, sizeof(*numbers)), keep;

	args[0] = script_string(id);
	args[1] = script_string(holder);
	args[2] = script_string(gone);
	args[3] = script_number(&keep, noted ? QUEUE_OPERATION_KEEP_MS : 0);
	args[4] = script_string(next);
	for (size_t i = 0; i < n; i++) {
		*arg++ = script_number(&numbers[2 * i], letters[i].at);
		*arg++ = script_number(&numbers[2 * i + 1], (int64_t)letters[i].size);
		*arg++ = script_string(letters[i].sha1);
		*arg++ = (struct script_arg){ letters[i].line.data == NULL ? "" : letters[i].line.data, letters[i].line.len };
		*arg++ = script_string(letters[i].record_id);
	}
	queue_script(r, QUEUE_SCRIPT_dead_letters_take, ingress ? 7 : 6, keys, 5 + 5 * n, args);
	free(numbers);
	free(args);
	free(none);
}

void queue_dead_letter_place(struct redis *r, const struct queue_keys *k, const void *message, size_t len)
{
	queue_script(r, QUEUE_SCRIPT_dead_letter_place, 1, (const char *[]){ k->escape }, 1, (struct script_arg[]){ { message, len } });
}
