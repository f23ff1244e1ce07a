#ifndef ADMIN_MOVES_DURABLE_H
#define ADMIN_MOVES_DURABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/cli/cli.h"

#include "common/redis/redis.h"

/*
 * quredis push --wait: asks Redis whether what this connection wrote is on disk and on replicas. WAITAOF (Redis 7.2)
 * answers both. Where it is missing, refused or the append-only file is off, WAIT counts replicas that have the
 * messages in memory, and appendfsync = always means that Redis has synced its file before it answers a push.
 */
struct durable {
	bool waitaof;			/* the server has WAITAOF, and its append-only file is on */
	bool always;			/* no WAITAOF, but appendfsync is always */
	struct redis_identity server;	/* before the first push */
	struct outcome_durability reached;
};

/* Before the first push. -1: this server cannot confirm what --wait asks for, so nothing may be pushed; the reason was
 * printed. */
int durable_prepare(struct admin *a, struct durable *d);
/* After the answer to the last push, on the same connection. -1: pushed, not confirmed; fills reached, and why in
 * text. */
int durable_wait(struct admin *a, struct durable *d, struct buffer *why);

#endif
