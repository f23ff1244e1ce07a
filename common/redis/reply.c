/*
 * Replies of Redis as the rest of the program sees them: views of hiredis' replies (no other folder sees
 * hiredis' types), and the lines of INFO.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "common/redis/reply.h"

#include "common/base/base.h"
#include "common/redis/input.h"
#include "common/redis/redis.h"

struct redis_reply redis_reply_view(const redisReply *reply)
{
	static const enum redis_type types[] = {
		[REDIS_REPLY_STRING] = REDIS_STRING, [REDIS_REPLY_ARRAY] = REDIS_ARRAY,
		[REDIS_REPLY_INTEGER] = REDIS_INTEGER, [REDIS_REPLY_NIL] = REDIS_NIL,
		[REDIS_REPLY_STATUS] = REDIS_STATUS, [REDIS_REPLY_ERROR] = REDIS_ERROR,
	};

	/* RESP3 types cannot occur: RESP2 is negotiated. They read as REDIS_NIL. */
	return (struct redis_reply){ .type = (size_t)reply->type < nitems(types) ? types[reply->type] : REDIS_NIL,
		.integer = reply->integer, .str = reply->str,
		.len = reply->str == NULL ? 0 : reply->len, .n = reply->elements, .opaque = reply };
}

struct redis_reply redis_element(const struct redis_reply *array, size_t i)
{
	const redisReply *reply = array->opaque;

	assert(array->type == REDIS_ARRAY && i < array->n);
	return redis_reply_view(reply->element[i]);
}

int redis_integers(const struct redis_reply *reply, int64_t *const fields[], size_t n)
{
	if (reply->type != REDIS_ARRAY || reply->n != n)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct redis_reply field = redis_element(reply, i);

		if (field.type != REDIS_INTEGER)
			return -1;
		*fields[i] = field.integer;
	}
	return 0;
}

bool redis_is_strings(const struct redis_reply *reply)
{
	for (size_t i = 0; reply->type == REDIS_ARRAY && i < reply->n; i++)
		if (redis_element(reply, i).type != REDIS_STRING)
			return false;
	return reply->type == REDIS_ARRAY;
}

/* ---- INFO ---- */

bool redis_info_value(const char *info, size_t len, const char *name, char *out, size_t out_size)
{
	size_t name_len = strlen(name);
	const char *end = info + len;

	for (const char *line = info; line < end;) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		const char *stop = newline == NULL ? end : newline;

		if ((size_t)(stop - line) > name_len && memcmp(line, name, name_len) == 0 && line[name_len] == ':') {
			const char *value = line + name_len + 1;
			size_t n = (size_t)(stop - value);

			if (n > 0 && value[n - 1] == '\r')
				n--;
			if (n >= out_size)
				return false;
			memcpy(out, value, n);
			out[n] = '\0';
			return true;
		}
		line = stop + 1;
	}
	return false;
}

void redis_identity_read(struct redis_identity *id, const char *info, size_t len)
{
	char number[REDIS_RUN_ID_SIZE];

	redis_info_value(info, len, "run_id", id->run_id, sizeof(id->run_id));
	redis_info_value(info, len, "master_replid", id->replid, sizeof(id->replid));
	if (redis_info_value(info, len, "uptime_in_seconds", number, sizeof(number)))
		id->up_ms = strtoll(number, NULL, 10) * 1000;
	if (redis_info_value(info, len, "master_replid2", number, sizeof(number)))
		id->promoted = strspn(number, "0") != strlen(number);
}

bool redis_identity_known(const struct redis_identity *id)
{
	return id->run_id[0] != '\0';
}

bool redis_identity_same(const struct redis_identity *a, const struct redis_identity *b)
{
	return strcmp(a->run_id, b->run_id) == 0 && strcmp(a->replid, b->replid) == 0;
}

bool redis_policy_evicts(const char *policy)
{
	return strncmp(policy, "allkeys-", 8) == 0 || strncmp(policy, "volatile-", 9) == 0;
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
		redis_input_free(kept);
}

#if HIREDIS_MAJOR >= 1
#define TASK_OF(reader) ((reader)->task[(reader)->ridx])
#else
#define TASK_OF(reader) (&(reader)->rstack[(reader)->ridx])
#endif

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
