/* Reads what Redis has sent. hiredis parses it, but reads only 16 KiB at a time, so a message of 1 MiB cost 64 turns of
 * the caller's loop. It also allocates as many places as a server announces. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "common/redis/input.h"

#include "common/base/base.h"
#include "common/redis/tls.h"

#define FIRST_READ 16384		/* bytes that hiredis reads at a time */
#define LONG_ANSWER (8 * 1024)		/* bytes of an answer that has not ended, since when it counts as long */
#define NEXT_READ (256 * 1024)		/* bytes */
#define NEXT_READS 4			/* then the caller looks at its clock, and at the length of what arrives */

/* elements of one array: hiredis allocates their places when it reads their number. No honest server comes near. */
#define ELEMENTS_MAX (1 << 20)

#if HIREDIS_MAJOR >= 1
typedef size_t elements;
#else
typedef int elements;
#endif

/* The functions of hiredis, and those that stand before some of them; all connections share them. */
static redisReplyObjectFunctions of_hiredis, objects;

static void *create_array_in_bounds(const redisReadTask *task, elements n)
{
	return n > ELEMENTS_MAX ? NULL : of_hiredis.createArray(task, n);
}

/* The place of a simple reply that was freed, for the next one: a worker gets two for each message. NULL: none */
static redisReply *spare;

static bool is_simple(const redisReadTask *task)
{
	return task->parent == NULL && (task->type == REDIS_REPLY_STRING || task->type == REDIS_REPLY_INTEGER);
}

static redisReply *take_spare(int type)
{
	redisReply *reply = spare;

	spare = NULL;
	*reply = (redisReply){ .type = type };
	return reply;
}

static void *create_string(const redisReadTask *task, char *bytes, size_t len)
{
	char *copy = spare != NULL && is_simple(task) ? malloc(len + 1) : NULL;
	redisReply *reply;

	if (copy == NULL)
		return of_hiredis.createString(task, bytes, len);
	memcpy(copy, bytes, len);
	copy[len] = '\0';
	reply = take_spare(task->type);
	reply->str = copy;
	reply->len = len;
	return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
	redisReply *reply;

	if (spare == NULL || !is_simple(task))
		return of_hiredis.createInteger(task, value);
	reply = take_spare(task->type);
	reply->integer = value;
	return reply;
}

void redis_input_free(redisReply *reply)
{
	if (spare != NULL || (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_INTEGER)) {
		freeReplyObject(reply);
		return;
	}
	free(reply->str);
	spare = reply;
}

void redis_input_prepare(struct redisReader *reader)
{
	if (of_hiredis.createArray == NULL) {
		of_hiredis = objects = *reader->fn;
		objects.createArray = create_array_in_bounds;
		objects.createString = create_string;
		objects.createInteger = create_integer;
	}
	reader->fn = &objects;
}

static bool feed_reader(void *reader, const char *bytes, size_t len)
{
	return redisReaderFeed(reader, bytes, len) == REDIS_OK;
}

/* A read that fails will fail again, as the first one of a later call. */
static int read_large(struct redisContext *c)
{
	char *bytes = alloc_resize(NULL, NEXT_READ, 1);		/* not kept: an idle worker gives its memory back */
	ssize_t n = FIRST_READ;
	bool fed = true;

	for (int i = 0; i < NEXT_READS && n >= FIRST_READ && fed; i++) {
		n = read(c->fd, bytes, NEXT_READ);
		if (n > 0)
			fed = feed_reader(c->reader, bytes, (size_t)n);
	}
	free(bytes);
	return fed ? 0 : -1;
}

int redis_input_read(struct redisContext *c, struct tls *tls, bool large)
{
	size_t before = c->reader->len, unread = before - c->reader->pos;

	if (tls != NULL)
		return tls_read(tls, feed_reader, c->reader);
	if (redisBufferRead(c) != REDIS_OK)
		return -1;
	return large && unread >= LONG_ANSWER && c->reader->len - before >= FIRST_READ ? read_large(c) : 0;
}
