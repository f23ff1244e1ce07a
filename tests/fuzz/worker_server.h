#ifndef TESTS_FUZZ_WORKER_SERVER_H
#define TESTS_FUZZ_WORKER_SERVER_H

#include <stdbool.h>

#include "common/base/buffer.h"
#include "tests/fuzz/fake_redis.h"
#include "worker/worker.h"

/* The server of this worker, which is kept: for struct fake_redis_target. It aborts at what a worker must never ask for. */
void worker_server_begin(const struct worker *w);
bool worker_server_answer(const struct fake_command *c, struct buffer *out, unsigned variant);

#endif
