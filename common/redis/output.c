/* Sends to Redis, in pieces, the commands that hiredis formatted, and tells whether the bytes make progress. */
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <errno.h>
#include <limits.h>
#include <string.h>

#include <bsd/string.h>
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <linux/sockios.h>

#include "common/redis/output.h"

#include "common/redis/tls.h"

#define SEND_MAX (256 * 1024)		/* bytes in one call of send() */
/* a larger write may take longer to leave the kernel's buffer than the timeout of an answer */
#define LARGE (64 * 1024)
#define KEPT_MAX (1024 * 1024)		/* an empty buffer keeps at most so much memory */

size_t redis_output_left(const struct redisContext *c, const struct redis_output *o)
{
	return sdslen(c->obuf) - o->sent;
}

static int unacknowledged(const struct redisContext *c)
{
	int n;

	return ioctl(c->fd, SIOCOUTQ, &n) == -1 ? 0 : n;
}

static int fail_write(struct redisContext *c, const struct redis_output *o)
{
	c->err = REDIS_ERR_IO;
	strlcpy(c->errstr, o->tls != NULL ? tls_error(o->tls) : strerror(errno), sizeof(c->errstr));
	return -1;
}

static ssize_t send_some(const struct redisContext *c, const struct redis_output *o)
{
	size_t left = redis_output_left(c, o), len = left < SEND_MAX ? left : SEND_MAX;

	return o->tls != NULL ? tls_write(o->tls, c->obuf + o->sent, len)
	    : send(c->fd, c->obuf + o->sent, len, MSG_NOSIGNAL);
}

/* With TLS the kernel can take a part of a record, of which tls_write() does not tell. */
static uint64_t taken_by_kernel(const struct redis_output *o)
{
	return o->tls != NULL ? tls_sent(o->tls) : o->total;
}

void redis_output_free_memory(struct redisContext *c)
{
	if (sdslen(c->obuf) > 0)
		return;
	sdsfree(c->obuf);
	c->obuf = sdsempty();
}

/* Frees the memory of sent bytes. Moves the rest to the front only if more than half was sent: on average each byte
 * moves at most once. */
static void drop_sent(struct redisContext *c, struct redis_output *o)
{
	size_t len = sdslen(c->obuf);

	if (o->sent == len) {
		sdsclear(c->obuf);
		if (len > KEPT_MAX)
			redis_output_free_memory(c);
		o->sent = 0;
	} else if (o->sent > KEPT_MAX && o->sent > len / 2 && len <= INT_MAX) {	/* hiredis 0.14 counts in int */
		sdsrange(c->obuf, (int)o->sent, -1);
		o->sent = 0;
	}
}

int redis_output_write(struct redisContext *c, struct redis_output *o)
{
	uint64_t before = taken_by_kernel(o);
	bool was_full = o->full;
	size_t written = 0;

	o->full = false;
	while (redis_output_left(c, o) > 0 && written < REDIS_OUTPUT_PIECE) {
		ssize_t n = send_some(c, o);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN) {
			o->full = true;
			break;
		}
		if (n == -1)
			return fail_write(c, o);
		o->sent += (size_t)n;
		written += (size_t)n;
	}
	o->total += written;
	if (was_full)
		o->drained += taken_by_kernel(o) - before;
	if (written > LARGE)
		o->queued = unacknowledged(c);
	drop_sent(c, o);
	return 0;
}

bool redis_output_drains(const struct redisContext *c, struct redis_output *o)
{
	int before = o->queued;

	if (before == 0)
		return false;
	o->queued = unacknowledged(c);
	return o->queued < before;
}
