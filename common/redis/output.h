#ifndef COMMON_REDIS_OUTPUT_H
#define COMMON_REDIS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Sends the commands that hiredis has formatted into context->obuf. hiredis' own redisBufferWrite() of version 0.14
 * moves the rest of the buffer to its front after each partial write, so a command of n bytes costs O(n^2) byte moves;
 * this file keeps an offset instead.
 */
struct redisContext;
struct tls;

struct redis_output {
	/* the bytes pass through it; owned by the connection. NULL: they go to the socket as they are */
	struct tls *tls;
	size_t sent;		/* bytes at the front of obuf that the kernel, or tls, has taken */
	uint64_t total;		/* bytes that the kernel, or tls, has taken on this connection */
	bool full;		/* the kernel's buffer was full at the last write, so bytes are left */
	uint64_t drained;	/* bytes that the kernel has taken after it was full: the peer had made room for them */
	/* of the last large write: bytes that the peer had not acknowledged at our last look; 0: none */
	int queued;
};

/* Bytes that are still to be sent. */
size_t redis_output_left(const struct redisContext *c, const struct redis_output *o);
/* Sends what the kernel takes without waiting, at most REDIS_OUTPUT_PIECE bytes a call. 0, or -1: the error is in
 * c->err. */
#define REDIS_OUTPUT_PIECE (4 << 20)
int redis_output_write(struct redisContext *c, struct redis_output *o);
/* True: since the last call the peer has acknowledged some bytes of a large write that are in the kernel's buffer. */
bool redis_output_drains(const struct redisContext *c, struct redis_output *o);

/* Frees the memory of the buffer if nothing is left to send; the next command allocates anew. */
void redis_output_free_memory(struct redisContext *c);

#endif
