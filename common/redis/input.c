/* Reads what Redis has sent. hiredis parses it, but reads only 16 KiB at a time, so a message of 1 MiB cost 64 turns of
 * the caller's loop. It also allocates as many places as a server announces. */
#include <stdlib.h>
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

/* The functions of hiredis, except for arrays; all connections share them. */
static redisReplyObjectFunctions objects;
static void *(*create_array)(const redisReadTask *task, elements n);

static void *create_array_in_bounds(const redisReadTask *task, elements n)
{
	return n > ELEMENTS_MAX ? NULL : create_array(task, n);
}

void redis_input_bound(struct redisReader *reader)
{
	if (create_array == NULL) {
		objects = *reader->fn;
		create_array = objects.createArray;
		objects.createArray = create_array_in_bounds;
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
