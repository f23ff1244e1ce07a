#ifndef TESTS_FUZZ_FAKE_REDIS_H
#define TESTS_FUZZ_FAKE_REDIS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buffer.h"
#include "common/redis/redis.h"
#include "tests/fuzz/input.h"

/*
 * The server at the other end of hiredis, without a socket: what it answers, whether, when and in what pieces
 * is in the input. It understands what it is asked, so that an input of zeros is an honest server; each byte
 * may make the next answer a lie, bytes that are no answer, too much, or nothing.
 *
 * Needs --wrap of redisConnectUnixNonBlock, redisConnectNonBlock, redisFree, redisBufferRead,
 * redis_output_write, ppoll, and those of fake_time.h.
 */
#define FAKE_ARGUMENTS_MAX 128

struct fake_command {
	size_t words;				/* all of them; those behind the first argc are not here */
	size_t argc;
	const char *argv[FAKE_ARGUMENTS_MAX];	/* NUL behind each */
	size_t len[FAKE_ARGUMENTS_MAX];
	const char *script;			/* of EVALSHA: "renew", …; else NULL */
};

struct fake_redis_target {
	/* What this target knows of the command; may be NULL. True: it has written the honest answer. */
	bool (*answer)(const struct fake_command *c, struct buffer *out, unsigned variant);
	/* Instead of its answer the connection ends; may be NULL. */
	bool (*cuts)(const struct fake_command *c);
	/* Called at each ppoll(), before it waits; may be NULL. */
	void (*poll)(void);
};

void fake_redis_begin(struct input *in, const struct fake_redis_target *target);
void fake_redis_end(void);			/* every connection is closed, or it aborts */
bool fake_redis_is(const struct fake_command *c, const char *name);

/* Of a client between two turns: it took nothing that it did not ask for, and keeps no more than it must. */
void fake_redis_check(const struct redis *r);

#endif
