#ifndef TESTS_UNIT_REDIS_REDIS_PEER_H
#define TESTS_UNIT_REDIS_REDIS_PEER_H

#include "common/redis/redis.h"

/* A server that the test plays itself, and one connection to it. *state of each test is a struct redis_peer. */
#define GREETINGS ":1\r\n*1\r\n$6\r\nmaster\r\n"

struct redis_peer {
	char dir[32], url[64];
	int listening, fd;		/* fd: the server's end */
	struct redis_target target;
	struct redis r;			/* open; the server has not greeted yet */
};

int redis_peer_setup(void **state);
int redis_peer_teardown(void **state);

void redis_peer_say(const struct redis_peer *s, const char *text);
void redis_peer_greet(struct redis_peer *s);	/* the connection is REDIS_READY */

#endif
