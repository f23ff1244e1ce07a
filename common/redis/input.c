/* Reads what Redis has sent. hiredis parses it, but reads only 16 KiB at a time, so a message of 1 MiB cost 64 turns of
 * the caller's loop. */
#include <stdlib.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "common/redis/input.h"

#include "common/base/base.h"
#include "common/redis/tls.h"

/* bytes that hiredis reads at a time; if they all came, there may be many more */
#define FIRST_READ 16384
#define NEXT_READ (256 * 1024)		/* bytes */
#define NEXT_READS 4			/* then the caller looks at its clock, and at the length of what arrives */

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
	size_t before = c->reader->len;

	if (tls != NULL)
		return tls_read(tls, feed_reader, c->reader);
	if (redisBufferRead(c) != REDIS_OK)
		return -1;
	return large && c->reader->len - before >= FIRST_READ ? read_large(c) : 0;
}
