#ifndef TESTS_UNIT_WORKER_LONE_WORKER_H
#define TESTS_UNIT_WORKER_LONE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/unit/private_redis.h"
#include "worker/worker.h"

/*
 * A worker for the test of one of its components. Its environment is real, and so are its trays. In place of worker/session.c there are
 * functions that record what the component expects and reports. The test defines the other components that its own calls.
 * worker_fixture.h has a whole worker, whose components are all real.
 */
struct lone_worker {
	struct worker *w;
	struct conf conf;
	struct conf_queue queue;		/* a test may change it at any time */
	struct scoreboard *board;
	struct child child;			/* slot 1, queue 0 */
	struct env *env;
	int expected;				/* calls of session_expect(), and the last of them: */
	struct expected last;
	int64_t due_ms;
	int reported, cleared, dropped;		/* calls of errors_report(), errors_clear() and session_drop() */
	const char *at;				/* what the last errors_report() named */
};
extern struct lone_worker lone;

#define LONE_INCARNATION "n.00000000000000b0.1.1"
#define LONE_LEASE_MS 30000
#define AT(tray, item) ((struct place){ tray, item })

void lone_worker_begin(bool shared);		/* REDIS_READY and registered, although nothing is connected */
void lone_worker_end(void);
int lone_worker_setup(void **state);		/* a fixture of cmocka: a queue that is not shared */
int lone_worker_teardown(void **state);

/* Fixtures of cmocka for a group: a private Redis. */
extern struct private_redis lone_server;
int lone_worker_start_server(void **state);
int lone_worker_stop_server(void **state);
/* Empties that server, connects session.redis to it and registers the worker there. lone_worker_end() closes the connection. */
void lone_worker_connect(void);
struct redis_reply lone_worker_answer(void);	/* the next answer there, also an error */

void lone_worker_add(int tray, const char *raw);	/* a WAITING message */
/* The same, with the seal of this process behind the first line of raw, which is a wrapper without its seal. */
void lone_worker_add_sealed(int tray, const char *raw);

#endif
