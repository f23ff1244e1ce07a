/* Reads what Redis has sent. hiredis parses it, but reads only 16 KiB at a time, so a message of 1 MiB cost 64 turns of the caller's loop. */
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "common/redis/input.h"

#include "common/redis/tls.h"

#define FIRST_READ 16384		/* bytes that hiredis reads at a time; if they all came, there may be many more */
#define NEXT_READ (256 * 1024)		/* bytes */
#define NEXT_READS 4			/* then the caller looks at its clock, and at the length of what arrives */

static bool feed_reader(void *reader, const char *bytes, size_t len)
{
	return redisReaderFeed(reader, bytes, len) == REDIS_OK;
}

/* A read that fails will fail again, as the first one of a later call. */
static int read_large(struct redisContext *c)
{
	static char bytes[NEXT_READ];
	ssize_t n = FIRST_READ;

	for (int i = 0; i < NEXT_READS && n >= FIRST_READ; i++) {
		n = read(c->fd, bytes, sizeof(bytes));
		if (n > 0 && !feed_reader(c->reader, bytes, (size_t)n))
			return -1;
	}
	return 0;
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
