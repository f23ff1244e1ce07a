#ifndef TESTS_UNIT_PRIVATE_REDIS_H
#define TESTS_UNIT_PRIVATE_REDIS_H

#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

#include "common/redis/redis.h"

/* A redis-server, or what QUREDIS_TEST_SERVER names, of this program alone, on a unix socket in a directory of its own; it dies with us. */
struct private_redis {
	char dir[64], url[96];
	pid_t pid;
	bool aof;
	struct redis_target target;
	struct redis r;		/* the test's own connection */
};

void private_redis_start(struct private_redis *p, bool aof);
void private_redis_restart(struct private_redis *p);	/* killed, started again */
void private_redis_stop(struct private_redis *p);	/* and its directory is removed */
void private_redis_connect(struct private_redis *p);

/* The answer to what was appended; an error or a lost connection fails the test, unless it may be an error. */
struct redis_reply private_redis_answer(struct private_redis *p);
struct redis_reply private_redis_answer_or_error(struct private_redis *p);

#define REDIS(p, ...) (redis_appendf(&(p)->r, __VA_ARGS__), private_redis_answer(p))
#define REDIS_INT(p, ...) (REDIS(p, __VA_ARGS__).integer)

#endif
