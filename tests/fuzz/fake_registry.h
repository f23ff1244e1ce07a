#ifndef TESTS_FUZZ_FAKE_REGISTRY_H
#define TESTS_FUZZ_FAKE_REGISTRY_H

#include <stdbool.h>

#include "tests/fuzz/fake_redis.h"

/* Registrations of workers and queues, read by sweeper and command line: right ones, and what could stand there instead. */
#define FAKE_OUR_BOOT "00000000000000b0"
#define FAKE_OLD_BOOT "00000000000000a0"
#define FAKE_LOCK "boot:1:2"

/* Of HGETALL and HGET on a workers hash, ZRANGE of the list of queues, GET and MGET of their entries. */
bool fake_registry_answer(struct input *in, const struct fake_command *c, struct buffer *out, unsigned variant);

#endif
