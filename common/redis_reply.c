/*
 * What an answer is: a view of hiredis' reply, and what an error means for what to do next.
 */
#include <assert.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "common/redis_reply.h"

#include "common/nitems.h"
#include "common/redis.h"

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

bool redis_error_is(const struct redis_reply *reply, const char *code)
{
	size_t n = strlen(code);

	return reply->type == REDIS_ERROR && strncmp(reply->str, code, n) == 0 &&
	       (reply->str[n] == ' ' || reply->str[n] == '\0');
}

static const struct known_error {
	const char *code;
	enum redis_weather weather;
} known[] = {
	{ "OOM", REDIS_STORM }, { "READONLY", REDIS_STORM }, { "UNBLOCKED", REDIS_STORM },
	{ "LOADING", REDIS_STORM }, { "MISCONF", REDIS_STORM }, { "BUSY", REDIS_STORM },
	{ "NOREPLICAS", REDIS_STORM }, { "MASTERDOWN", REDIS_STORM }, { "CLUSTERDOWN", REDIS_STORM },
	{ "TRYAGAIN", REDIS_STORM }, { "NOSCRIPT", REDIS_RECONNECT },
	{ "NOAUTH", REDIS_MISCONFIGURED }, { "WRONGPASS", REDIS_MISCONFIGURED },
	{ "NOPERM", REDIS_MISCONFIGURED }, { "WRONGTYPE", REDIS_MISCONFIGURED },
	/* NOPERM inside a script, as Redis 7.0 and 7.2 say it */
	{ "The user executing the script can't", REDIS_MISCONFIGURED }, { "ACL failure in script", REDIS_MISCONFIGURED },
};

/* NULL: none of those. */
static const struct known_error *known_error(const struct redis_reply *reply)
{
	for (size_t i = 0; i < nitems(known); i++)
		if (redis_error_is(reply, known[i].code))
			return &known[i];
	/* Inside a script the code of the inner error may not come first, or there is none: rights first. */
	for (size_t i = nitems(known); i-- > 0;)
		if (strstr(reply->str, known[i].code) != NULL)
			return &known[i];
	return NULL;
}

enum redis_weather redis_weather(const struct redis_reply *reply)
{
	const struct known_error *e = reply->type == REDIS_ERROR ? known_error(reply) : NULL;

	return reply->type != REDIS_ERROR ? REDIS_FAIR : e == NULL ? REDIS_STORM : e->weather;
}

bool redis_refuses_all(const struct redis_reply *reply)
{
	const struct known_error *e = reply->type == REDIS_ERROR ? known_error(reply) : NULL;

	return e != NULL && e->weather != REDIS_MISCONFIGURED;
}
