/*
 * A reply as the rest of the program sees it: a view of hiredis' reply. No other folder sees hiredis' types.
 */
#include <assert.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "common/redis/reply.h"

#include "common/base/base.h"
#include "common/redis/redis.h"

struct redis_reply redis_reply_view(const redisReply *reply)
{
	static const enum redis_type types[] = {
		[REDIS_REPLY_STRING] = REDIS_STRING, [REDIS_REPLY_ARRAY] = REDIS_ARRAY,
		[REDIS_REPLY_INTEGER] = REDIS_INTEGER, [REDIS_REPLY_NIL] = REDIS_NIL,
		[REDIS_REPLY_STATUS] = REDIS_STATUS, [REDIS_REPLY_ERROR] = REDIS_ERROR,
	};

	/* What only RESP3 has, which is never asked for, is nothing. */
	return (struct redis_reply){ .type = (size_t)reply->type < nitems(types) ? types[reply->type] : REDIS_NIL, .integer = reply->integer, .str = reply->str,
		.len = reply->str == NULL ? 0 : reply->len, .n = reply->elements, .opaque = reply };
}

struct redis_reply redis_element(const struct redis_reply *array, size_t i)
{
	const redisReply *reply = array->opaque;

	assert(array->type == REDIS_ARRAY && i < array->n);
	return redis_reply_view(reply->element[i]);
}

bool redis_is_strings(const struct redis_reply *reply)
{
	for (size_t i = 0; reply->type == REDIS_ARRAY && i < reply->n; i++)
		if (redis_element(reply, i).type != REDIS_STRING)
			return false;
	return reply->type == REDIS_ARRAY;
}
